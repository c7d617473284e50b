// What a page shows, compared with what was verified. A cell is an element with
// data-field (a JSON pointer) and data-as (how the value becomes text); data-entry, on it
// or around it, says of which entry.
import { Malformed, must } from "./bytes.js";
import { get, pointer } from "./canon.js";
import { shown } from "./formats.js";
import { oddMarkup } from "./markup.js";

// A Difference is a cell that does not show what was signed.
export class Difference {
  constructor(what, displayed, signed) {
    this.what = what;
    this.displayed = displayed;
    this.signed = signed;
  }

  toString() {
    return `${this.what}: the page shows “${short(this.displayed)}”, signed is “${short(this.signed)}”`;
  }
}

export function short(s, most = 200) {
  const all = [...s];
  return all.length > most ? all.slice(0, most).join("") + "…" : s;
}

// entryOf is the number of the entry that a cell is about, or null.
export function entryOf(cell) {
  const text = cell.closest("[data-entry]")?.getAttribute("data-entry") ?? "";
  return /^(0|[1-9][0-9]{0,15})$/.test(text) ? Number(text) : null;
}

// compareCell gives a Difference, or null. value is what the pointers lead into.
export function compareCell(cell, value, what) {
  const field = cell.getAttribute("data-field") ?? "", as = cell.getAttribute("data-as") ?? "text";
  const displayed = cell.textContent.trim();
  let signed;
  try {
    signed = shown(pointer(value, field), as).trim();
  } catch (err) {
    if (!(err instanceof Malformed)) throw err;
    signed = `(${err.message})`;
  }
  const odd = oddMarkup(cell);
  if (odd !== null) return new Difference(`${what}, ${field}`, odd, signed);
  return displayed === signed ? null : new Difference(`${what}, ${field}`, displayed, signed);
}

// seqsOf are the numbers of the events that an item of a transcript tells of.
export function seqsOf(item) {
  return (item.getAttribute("data-seqs") ?? item.getAttribute("data-seq")).split(" ").map(Number);
}

// eventCells are the cells of an item, with the number of the event that each is of.
export function eventCells(item) {
  return [...item.querySelectorAll("[data-field], [data-whole]")].map((cell) => {
    const named = cell.closest("[data-event]");
    return { cell, seq: Number(named && item.contains(named) ? named.getAttribute("data-event") : item.getAttribute("data-seq")) };
  });
}

// contentOf is what stands for a text in an event, of which a cell shows the whole text
// or a part. It is null for a cell of the event itself.
export function contentOf(cell, event) {
  const at = cell.getAttribute("data-whole");
  if (at === null) return null;
  const content = pointer(event, at);
  must(typeof get(content, "head") === "string" && typeof get(content, "digest") === "string", `${at} is not a text of the event`);
  return content;
}

// isBeginning reports whether an event has the beginning of a text only.
export const isBeginning = (content) => get(content, "truncated") === true || get(content, "lossy") === true;

// compareEvents compares the cells of a list of events with the events, which are by
// their number. wholes are the texts of which the events have the beginning, by their
// digest. A list that says that it tells of all events from one to another (data-all)
// must do so.
export function compareEvents(list, events, what, wholes = new Map()) {
  const differences = [], told = new Set();
  let last = 0;
  for (const item of list.querySelectorAll("[data-seq]")) {
    const seq = Number(item.getAttribute("data-seq")), seqs = seqsOf(item);
    const missing = seqs.find((n) => !events.has(n)), twice = seqs.find((n) => told.has(n));
    if (missing !== undefined || twice !== undefined || seq <= last || seqs[0] !== seq) {
      differences.push(new Difference(`${what}, event ${missing ?? twice ?? seq}`, "an event", missing !== undefined ? "no such event" : twice !== undefined ? "told before" : "another order"));
      continue;
    }
    last = seq;
    for (const n of seqs) told.add(n);
    for (const { cell, seq: of } of eventCells(item)) {
      const d = compareEventCell(cell, events.get(of), `${what}, event ${of}`, wholes);
      if (d) differences.push(d);
    }
  }
  const all = list.getAttribute("data-all");
  if (all !== null) differences.push(...untold(all, told, what));
  return differences;
}

function compareEventCell(cell, event, what, wholes) {
  if (event === undefined) return new Difference(what, cell.textContent.trim(), "no such event");
  const content = contentOf(cell, event);
  if (content === null) return compareCell(cell, event, what);
  const text = isBeginning(content) ? wholes.get(content.digest) : content.head;
  if (text === undefined) return new Difference(what, cell.textContent.trim(), "a text that the page does not say where to find");
  return compareCell(cell, cell.hasAttribute("data-field") ? parsed(text) : text, what);
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    throw new Malformed("a part of a text that is not JSON");
  }
}

// untold lists the events of a range that no item tells of.
function untold(range, told, what) {
  const [from, to] = range.split(" ").map(Number), missing = [];
  for (let n = from; n <= to && missing.length < 5; n++) {
    if (!told.has(n)) missing.push(new Difference(`${what}, event ${n}`, "nothing", "an event"));
  }
  return missing;
}

// isOurCell: cells of transcripts and of gradings are compared with those.
export function isEntryCell(cell) {
  return !cell.closest("[data-trajectory], [data-grading]");
}

// factsOf is what an entry says, in the words that a person asks for.
export function factsOf(entry) {
  const b = entry.body;
  switch (entry.kind) {
    case "case.scored":
      return [["Case", b.case_id], ["Class", b.class], ["Attempt", b.attempt], ["Repetition", String(b.repeat)], ["Outcome", b.outcome], ["Score", b.score ? String(b.score.score) : "none"]];
    case "attempt.finished":
      return [["Attempt", b.attempt], ["Outcome", Object.entries(b.outcomes).map(([k, n]) => `${n} ${k}`).join(", ")], ["Mean score", b.mean_score === undefined ? "none" : String(b.mean_score)]];
    case "attempt.registered":
      return [["Attempt", b.attempt], ["Class", b.class], ["Target", b.target], ["Number", String(b.number)], ["Mode", b.mode], ["Cases", String(b.plan.case_count)]];
    case "ledger.opened":
      return [["Ledger", b.origin]];
  }
  return [];
}

export function requireOne(list, what) {
  must(list.length === 1, `the page has ${list.length} of what it must have one of: ${what}`);
  return list[0];
}
