// What a page shows, compared with what was verified. A cell is an element with
// data-field (a JSON pointer) and data-as (how the value becomes text); data-entry, on it
// or around it, says of which entry.
import { Malformed, must } from "./bytes.js";
import { pointer } from "./canon.js";
import { shown } from "./formats.js";

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
  const field = cell.getAttribute("data-field"), as = cell.getAttribute("data-as") ?? "text";
  const displayed = cell.textContent.trim();
  let signed;
  try {
    signed = shown(pointer(value, field), as).trim();
  } catch (err) {
    if (!(err instanceof Malformed)) throw err;
    signed = `(${err.message})`;
  }
  return displayed === signed ? null : new Difference(`${what}, ${field}`, displayed, signed);
}

// compareEvents compares the cells of a list of events with the events, which are by
// their number.
export function compareEvents(list, events, what) {
  const differences = [];
  let last = 0;
  for (const item of list.querySelectorAll("[data-seq]")) {
    const seq = Number(item.getAttribute("data-seq"));
    const event = events.get(seq);
    if (!event || seq <= last) {
      differences.push(new Difference(`${what}, event ${item.getAttribute("data-seq")}`, "an event", event ? "another order" : "no such event"));
      continue;
    }
    last = seq;
    for (const cell of item.querySelectorAll("[data-field]")) {
      const d = compareCell(cell, event, `${what}, event ${seq}`);
      if (d) differences.push(d);
    }
  }
  return differences;
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
