// Checks a page of the viewer where it is read: that the whole page is signed, every value
// that names an entry, as it comes into view, and the transcript with its chain. Green
// needs all of that, by a key that the person typed, that this browser has pinned or that
// was made on this machine; what does not verify is a banner on every page until the tab
// is closed. docs/checking.md says what that proves and what not.
import { Refused, Malformed, must, text, hex } from "./bytes.js";
import { blake3 } from "./hash.js";
import { canonical, get, pointer } from "./canon.js";
import { parseKey, verifyReceipt, verifyCheckpoint } from "./receipt.js";
import { Unanswered, followChain } from "./chain.js";
import { Difference, compareCell, compareEvents, contentOf, entryOf, eventCells, isBeginning, isEntryCell, seqsOf } from "./page.js";
import { Watch, asLoaded, compareLoaded, comparePages, drawPage, isOwnPart, mayChange, parsePage } from "./cover.js";
import { signedPage } from "./signed.js";
import { element, fingerprint, keyForm, showAlarm, showMark, wordsOf } from "./mark.js";

const ROOT = new URL("..", import.meta.url); // this script is assets/check.js
const LOADED = asLoaded(); // before anything here changes it
const AT_ONCE = 6, MOST_REMEMBERED = 5, MOST_PROBLEMS = 100;

// --- Keys: typed on this page, pinned before, or made on this machine, for one ledger ---

// HERE: the server is on this machine. Only then its word counts that this machine's state
// folder knows a key as made here: elsewhere it would be the word of a stranger.
const HERE = ["localhost", "127.0.0.1", "[::1]"].includes(location.hostname);

// OWNER is a header that "tally view" answers with, and a web server that sends files does
// not: what files say of keys, their author chose.
const OWNER = "Tallystick-Owner";

class Keys {
  constructor(origin, claimed, typed, own) {
    this.origin = origin;
    this.claimed = claimed; // what the server says, which shows that a page is consistent
    this.typed = typed;
    this.own = HERE ? own : [];
  }

  get place() {
    return "tallystick-keys " + this.origin;
  }

  pinned() {
    try {
      return (localStorage.getItem(this.place) ?? "").split("\n").filter(Boolean).map(parseKey);
    } catch {
      return [];
    }
  }

  // known: whether the reader gave a key. Then only such keys count, and what the server
  // says about its keys counts for nothing.
  get known() {
    return this.given().length > 0 || this.own.length > 0;
  }

  given() {
    return [...this.typed, ...this.pinned()];
  }

  list() {
    const given = this.given();
    return given.length > 0 ? given : this.own.length > 0 ? this.own : this.claimed;
  }

  pin(keys) {
    const all = new Set([...this.pinned(), ...keys].map((k) => k.text));
    localStorage.setItem(this.place, [...all].join("\n"));
  }

  forget() {
    localStorage.removeItem(this.place);
  }
}

// --- The banner of earlier pages ---

const ALARMS = "tallystick-alarms";

function remembered() {
  try {
    return JSON.parse(sessionStorage.getItem(ALARMS) ?? "[]");
  } catch {
    return [];
  }
}

function remember(problem) {
  const line = `${location.pathname}: ${problem}`;
  const all = remembered();
  if (all.includes(line) || all.length >= MOST_REMEMBERED) return;
  try {
    sessionStorage.setItem(ALARMS, JSON.stringify([...all, line]));
  } catch { /* the banner of this page is there all the same */ }
}

// isOutside: the page says that it is about something that is not in the ledger, and its
// address says so too: a page that lies could say the first of any numbers.
const isOutside = () => document.querySelector("main[data-outside]") !== null && /^(fleet|corpus|imported)(\/|\.html|$)/.test(location.pathname.slice(ROOT.pathname.length));

// hasNumbers: the page shows numbers that come from the ledger.
const hasNumbers = () => !isOutside() && document.querySelector("main :is(table, .figures, .diff, pre)") !== null;

// --- Questions to the server ---

async function ask(path) {
  const answer = await fetch(new URL(path, ROOT), { cache: "no-store" });
  if (!answer.ok) {
    const doc = await answer.json().catch(() => null);
    throw new Unanswered(`${path}: ${get(doc, "error") ?? "status " + answer.status}`);
  }
  return answer;
}

// --- Transcripts, which may be long ---

// marksOf are what this tab remembers of a transcript that it followed to its head.
const marksOf = (head) => {
  try {
    const marks = JSON.parse(sessionStorage.getItem("tallystick-chain " + head) ?? "[]");
    return Array.isArray(marks) ? marks : [];
  } catch {
    return [];
  }
};

const keepMarks = (head, marks) => {
  try {
    if (marks.length > 0) sessionStorage.setItem("tallystick-chain " + head, JSON.stringify(marks));
  } catch { /* the next part takes as long as this one */ }
};

// follow verifies a transcript in a worker, or, where there is none, between other work.
function follow(request, progress) {
  let worker;
  try {
    worker = new Worker(new URL("chain_worker.js", import.meta.url), { type: "module" });
  } catch {
    return followHere(request, progress);
  }
  return new Promise((resolve, reject) => {
    worker.onmessage = ({ data }) => {
      if (data.seq !== undefined) return progress(data.seq);
      worker.terminate();
      if (data.found) return resolve(data.found);
      const kinds = { Refused, Malformed, Unanswered };
      reject(new (kinds[data.kind] ?? Error)(data.message));
    };
    worker.onerror = () => {
      worker.terminate();
      followHere(request, progress).then(resolve, reject);
    };
    worker.postMessage(request);
  });
}

const idle = () => new Promise((go) => (window.requestIdleCallback ?? setTimeout)(go));

const followHere = (request, progress) => followChain(request, (seq) => {
  progress(seq);
  return idle();
});

// here is an address on this server: pages name no other.
function here(path, what) {
  const address = new URL(path, location.href);
  must(address.origin === location.origin, what + " is said to be elsewhere");
  return address;
}

class Check {
  constructor(place, typed) {
    this.place = place;
    this.typed = typed;
    this.compared = new WeakMap(); // cell to the text that was compared
    this.counts = { cells: 0, events: 0 };
    this.problems = [];
    this.unclear = new Map(); // reason to how often
    this.proved = new Map(); // entry to a promise of it
    this.blobs = new Map(); // digest to a promise of the document
    this.pieces = new Map(); // digest to a promise of the piece of evidence
    this.following = new Map(); // list of events to how far its transcript is verified, of how many
    this.waiting = [];
    this.working = 0;
    this.checkpoints = new Map();
    this.covered = null; // whether the whole page is signed; null until that is known
    this.expected = null; // the page that was signed
    this.brief = null; // what a reader must know of who vouches for the bench
    this.visible = new IntersectionObserver((seen) => this.cameIntoView(seen), { rootMargin: "600px" });
  }

  async start() {
    showAlarm(remembered(), "Another page of this site, in this tab,");
    showMark(this.place, "checking", []);
    try {
      await this.meet();
      await this.cover();
    } catch (err) {
      this.failed("the ledger’s checkpoint", err);
    }
    this.covered ??= false;
    if (current !== this) return;
    this.watch = new Watch(() => this.scanSoon());
    this.scan();
    this.show();
  }

  // cover finds out whether the page is, whole, one that a key of the ledger signed, and
  // shows that one in place of what was loaded. A page that is not signed is never green:
  // its words and other numbers are the server's.
  async cover() {
    this.covered = false;
    const how = this.place.getAttribute("data-signed");
    if (how === null) return;
    try {
      const html = await signedPage(how, ask, ROOT, this.keys);
      const expected = parsePage(html), differences = compareLoaded(LOADED, expected);
      drawPage(expected, differences.length > 0);
      if (current !== this) return;
      this.expected = expected;
      this.place = document.getElementById("mark");
      for (const d of differences) this.problem(d);
      showAlarm(this.problems.length > 0 ? this.problems : remembered(), this.problems.length > 0 ? undefined : "Another page of this site, in this tab,");
      this.covered = differences.length === 0;
    } catch (err) {
      this.failed("the signature of the page", err);
    }
  }

  // stillCovered compares the page as it is now with the one that was signed.
  stillCovered() {
    if (!this.expected) return;
    const differences = comparePages(document, this.expected, isOurs, mayChangeHere);
    for (const d of differences) this.problem(d);
    if (differences.length > 0) this.covered = false;
  }

  // meet finds out which ledger this is, and verifies its newest checkpoint.
  async meet() {
    const answer = await ask("keys"), served = await answer.json();
    const note = (await (await ask("checkpoint")).json()).checkpoint;
    must(typeof note === "string" && Array.isArray(served.keys), "the server gives no checkpoint or no keys");
    this.keys = new Keys(note.split("\n", 1)[0], served.keys.map((k) => parseKey(String(k.public))), this.typed, answer.headers.get(OWNER) === "1" ? (served.own ?? []).map((k) => parseKey(String(k))) : []);
    this.checkpoint = verifyCheckpoint(note, this.keys.list());
  }

  // scan finds the cells that are there now. A page that is live gets new ones.
  scan() {
    if (current !== this) return;
    const marks = document.querySelectorAll("#mark");
    if (marks.length !== 1 || marks[0] !== this.place || this.place.closest("main")) this.problem(new Refused("the page has a second mark, or it stands where content stands"));
    this.stillCovered();
    if (!this.keys) return;
    for (const cell of document.querySelectorAll("[data-field]")) {
      if (isEntryCell(cell) && this.compared.get(cell) !== cell.textContent) this.visible.observe(cell);
    }
    this.atLeastOne();
    for (const list of document.querySelectorAll("[data-trajectory]")) this.transcript(list);
    for (const part of document.querySelectorAll("[data-grading]")) {
      if (!part.closest("[data-row]")) this.grading(part);
      else if (this.compared.get(part) !== part.textContent) this.visible.observe(part); // a list has many
    }
    this.show();
  }

  // atLeastOne checks the first value even where none is in view, so that a page with
  // values never passes for one without.
  atLeastOne() {
    const first = [...document.querySelectorAll("[data-field]")].find(isEntryCell);
    if (first && this.counts.cells === 0 && this.working === 0 && this.waiting.length === 0) this.cameIntoView([{ target: first, isIntersecting: true }]);
  }

  scanSoon() {
    clearTimeout(this.soon);
    this.soon = setTimeout(() => this.scan(), 100);
  }

  cameIntoView(seen) {
    for (const { target, isIntersecting } of seen) {
      if (!isIntersecting) continue;
      this.visible.unobserve(target);
      this.waiting.push(target);
    }
    this.work();
  }

  work() {
    while (this.working < AT_ONCE && this.waiting.length > 0) {
      this.working++;
      const next = this.waiting.shift();
      (next.hasAttribute("data-grading") ? this.grading(next) : this.cell(next)).finally(() => {
        this.working--;
        this.work();
        this.show();
      });
    }
  }

  async cell(cell) {
    if (this.compared.get(cell) === cell.textContent) return;
    const index = entryOf(cell);
    try {
      must(index !== null, "a value that names no entry");
      const p = await this.entry(index);
      const named = cell.getAttribute("data-blob");
      const body = named === null ? p.entry.body : await this.blob(pointer(p.entry.body, named));
      const shown = cell.textContent;
      const d = compareCell(cell, body, `entry ${index} (${p.entry.kind}${named === null ? "" : ", its " + named})`);
      this.compared.set(cell, shown);
      this.counts.cells++;
      if (d) {
        cell.setAttribute("data-differs", "");
        this.problem(d);
      }
    } catch (err) {
      this.compared.set(cell, cell.textContent);
      this.failed(`entry ${index}`, err);
    }
  }

  // entry is an entry with its receipt verified; each is asked for once.
  entry(index) {
    if (!this.proved.has(index)) this.proved.set(index, this.prove(index));
    return this.proved.get(index);
  }

  async prove(index) {
    const doc = await (await ask("receipt/" + index)).json();
    must(typeof get(doc, "receipt") === "string", "the server sent no receipt");
    const line = get(doc, "entry");
    const p = verifyReceipt(doc.receipt, this.keys.list(), typeof line === "string" ? line : null, this.checkpoints);
    must(p.index === index && p.origin === this.keys.origin, `the receipt is of entry ${p.index} of ${p.origin}`, Refused);
    if (get(p.entry.body, "scratch")) this.brief = "no signer vouches for the bench";
    return p;
  }

  // blob is a document that an entry names by its digest; each is asked for once.
  blob(digest) {
    if (!this.blobs.has(digest)) this.blobs.set(digest, this.takeBlob(digest));
    return this.blobs.get(digest);
  }

  async takeBlob(digest) {
    must(typeof digest === "string" && /^blake3:[0-9a-f]{64}$/.test(digest), "a value of a document that the entry does not name", Refused);
    const bytes = new Uint8Array(await (await ask("blob/" + digest)).arrayBuffer());
    must("blake3:" + hex(blake3(bytes)) === digest, "the document is not the one that the entry names", Refused);
    return canonical(text(bytes));
  }

  // transcript follows all events of a case in order, up to the head that the record's
  // evidence names, and compares those that the page shows.
  async transcript(list) {
    if (this.compared.get(list) === list.textContent) return;
    this.compared.set(list, list.textContent);
    this.following.set(list, [0, 0]);
    const index = entryOf(list), what = "transcript of entry " + index;
    try {
      const address = here(list.getAttribute("data-trajectory"), "the transcript");
      const named = (await this.evidenceIndex(list, index)).trajectory;
      must(named.head === list.getAttribute("data-head"), `the page names the head ${list.getAttribute("data-head")}, the record’s evidence ${named.head}`, Refused);
      const items = [...list.querySelectorAll("[data-seq]")];
      const numbers = items.flatMap((item) => [...seqsOf(item), ...eventCells(item).map((c) => c.seq)]);
      must(numbers.length > 0 && numbers.every((n) => Number.isSafeInteger(n) && n > 0), "a transcript without events");
      const { events, marks } = await follow({ address: address.href, head: named.head, from: Math.min(...numbers), to: Math.max(...numbers), marks: marksOf(named.head) }, (seq) => {
        this.following.set(list, [seq, Number(list.getAttribute("data-events"))]);
        this.show();
      });
      keepMarks(named.head, marks);
      const byNumber = new Map(events);
      for (const d of compareEvents(list, byNumber, what, await this.wholes(items, byNumber))) this.problem(d);
      this.counts.events += new Set(items.flatMap(seqsOf)).size;
    } catch (err) {
      this.failed(what, err);
    }
    this.following.delete(list);
    this.show();
  }

  // wholes are the texts of which events have the beginning and the page shows more, by
  // their digest. Each is asked for once.
  async wholes(items, events) {
    const found = new Map();
    for (const { cell, seq } of items.flatMap(eventCells)) {
      const content = events.has(seq) ? contentOf(cell, events.get(seq)) : null, place = cell.getAttribute("data-piece");
      if (content === null || !isBeginning(content) || place === null || found.has(content.digest)) continue;
      found.set(content.digest, text(await this.piece(here(place, "a text"), content.digest, "a text is not the one that the event names")));
    }
    return found;
  }

  // grading compares the checks of a case with the document that its evidence names.
  async grading(part) {
    if (this.compared.get(part) === part.textContent) return;
    this.compared.set(part, part.textContent);
    const index = entryOf(part), what = "scoring of entry " + index;
    try {
      const address = here(part.getAttribute("data-grading"), "the scoring");
      const named = (await this.evidenceIndex(part, index)).grading;
      const bytes = await this.piece(address, named, "the scoring is not the one that the record names");
      const doc = canonical(text(bytes));
      for (const cell of part.querySelectorAll("[data-field]")) {
        const d = compareCell(cell, doc, what);
        this.counts.cells++;
        if (!d) continue;
        cell.setAttribute("data-differs", "");
        this.problem(d);
      }
    } catch (err) {
      this.failed(what, err);
    }
    this.show();
  }

  // evidenceIndex is the piece that a record names first, and that names the rest.
  async evidenceIndex(part, entry) {
    const p = await this.entry(entry);
    must(p.entry.kind === "case.scored", "evidence of an entry that is not a record of a case", Refused);
    const address = here(part.getAttribute("data-evidence") ?? "", "the evidence");
    return canonical(text(await this.piece(address, p.entry.body.evidence[0], "the index of the evidence is not the one that the record names")));
  }

  // piece is a piece of evidence that a record names; each is asked for once.
  piece(address, digest, otherwise) {
    if (!this.pieces.has(digest)) this.pieces.set(digest, this.takePiece(address, digest, otherwise));
    return this.pieces.get(digest);
  }

  async takePiece(address, digest, otherwise) {
    const bytes = new Uint8Array(await (await ask(address)).arrayBuffer());
    must("blake3:" + hex(blake3(bytes)) === digest, otherwise, Refused);
    return bytes;
  }

  // --- What came of it ---

  // own changes the page: what else changes it is looked at again.
  own(change) {
    return this.watch ? this.watch.own(change) : change();
  }

  problem(p) {
    const line = p instanceof Difference ? String(p) : p.message;
    if (this.problems.includes(line) || this.problems.length >= MOST_PROBLEMS) return;
    this.problems.push(line);
    if (this.typed.length === 0) remember(line); // who mistyped a key is not haunted by it
    this.own(() => showAlarm(this.problems));
    this.show();
  }

  failed(what, err) {
    if (err instanceof Refused || err instanceof Malformed) {
      this.problem(new Refused(`${what}: ${err.message}`));
    } else {
      this.unclear.set(err.message, (this.unclear.get(err.message) ?? 0) + 1);
    }
  }

  state() {
    const busy = this.working > 0 || this.waiting.length > 0;
    if (this.problems.length > 0) return "bad";
    if ((busy && this.counts.cells === 0) || this.following.size > 0 || this.covered === null) return "checking";
    if (this.unclear.size > 0 || !this.checkpoint) return "unclear";
    if (this.counts.cells + this.counts.events === 0) return "computed";
    if (!this.keys.known) return "unknown";
    return this.covered ? "good" : "matched";
  }

  show() {
    clearTimeout(this.drawing);
    this.drawing = setTimeout(() => this.draw(), 30);
  }

  draw() {
    if (current !== this) return; // a check with other keys has begun, and the mark is its
    this.own(() => this.redraw());
  }

  redraw() {
    const state = this.state(), open = this.place.querySelector("details")?.open, typed = this.place.querySelector("input")?.value;
    if (this.place.contains(document.activeElement) && this.place.getAttribute("data-state") === state) return; // the reader is typing
    const lines = [this.summary(state), this.coverage()];
    if (this.brief) lines.unshift(`Scratch: ${this.brief} of this attempt.`);
    for (const [seq, of] of this.following.values()) lines.push(`Transcript: ${seq}${of > 0 ? ` of ${of}` : ""} events verified so far.`);
    for (const [reason, n] of this.unclear) lines.push(`Not checked${n > 1 ? `, ${n} times` : ""}: ${reason}`);
    if (this.checkpoint) lines.push(`Ledger ${this.checkpoint.origin}, ${this.checkpoint.size} entries. Key ${this.checkpoint.key.text} (${fingerprint(this.checkpoint.key)}).`);
    if (this.keys?.own.length > 0 && this.keys.given().length === 0) lines.push("The state folder of this machine says that it made this key, so the key is pinned: nothing needs to be typed.");
    lines.push("A server that lies can send another script. verify.html, opened from disk, cannot be lied to that way.");
    showMark(this.place, state, lines, this.buttons(), this.words(state), ["good", "unknown", "matched"].includes(state) ? this.brief : null);
    const details = this.place.querySelector("details");
    if (open) details.open = true;
    if (typed) this.place.querySelector("input").value = typed;
  }

  summary(state) {
    const { cells, events } = this.counts;
    if (state === "computed" && !hasNumbers()) return "This page shows no value of the ledger.";
    if (state === "computed") return "The numbers on this page are computed by the server from entries of the ledger, and none of them stands in one entry. Open an attempt, a case or an entry: there this browser checks each value. “tally verify” computes everything again.";
    return `${cells} values${events > 0 ? ` and ${events} events` : ""} on this page are compared with the ledger so far; more as you scroll. Other numbers are computed by the server from many entries; open what they are about to check each one.`;
  }

  coverage() {
    if (!this.covered) return "The page as a whole is not signed: its words, and numbers that name no entry, are the server’s. So it is not green.";
    return "The whole page, every word, number and attribute, is signed by the key, and was compared with what is shown.";
  }

  // words are for the mark, where it has more to say than its state.
  words(state) {
    if (state === "computed" && !hasNumbers()) return "Nothing to check on this page";
    const own = state === "good" && this.keys.given().length === 0 ? "Verified with the key of this machine" : undefined;
    return this.far() ?? wordsOf(state, this.brief, own);
  }

  // far is how much of a long transcript is verified.
  far() {
    const [[seq, of] = [0, 0]] = this.following.values();
    return seq > 0 && of > 1000 ? `Checking… ${Math.min(100, Math.floor((100 * seq) / of))} %` : undefined;
  }

  buttons() {
    if (!this.keys) return [];
    const again = (change) => {
      change();
      begin();
    };
    const out = [];
    if (this.checkpoint && (!this.keys.known || this.keys.typed.length > 0)) {
      const pin = element("button", { type: "button" }, "Trust this key from now on in this browser");
      pin.addEventListener("click", () => again(() => this.keys.pin([this.checkpoint.key])));
      out.push(element("p", {}, "Compare the fingerprint above with one that you had from a person you trust. ", pin));
    }
    if (this.keys.pinned().length > 0) {
      const forget = element("button", { type: "button" }, "Forget the key that this browser trusts");
      forget.addEventListener("click", () => again(() => this.keys.forget()));
      out.push(element("p", {}, forget));
    }
    out.push(keyForm((value) => {
      const key = parseKey(value);
      must(key.name === this.keys.origin, `that is a key of ${key.name}; this ledger is ${this.keys.origin}`);
      begin([key]);
    }, (change) => this.own(change)));
    return out;
  }
}

// HELP are the lists of keys, of which keys.js shows one and takes it away.
const HELP = ["j next rowk row beforeEnter open it/ search? this list", "j next rowk row beforeEnter open itf only what did not pass, and back/ search? this list"];

const isOurs = (node) => isOwnPart(node) || (node.id === "keys" && node.parentNode === document.body && HELP.includes(node.textContent));

// mayChangeHere: the keyboard marks the row that it is in.
const mayChangeHere = (element, name, is, want) => mayChange(element, name) ||
  (name === "class" && element.matches("[data-row], .events > li") && (is ?? "").split(" ").filter((c) => c !== "at").join(" ") === (want ?? ""));

// begin checks the page from the start, with what is known now.
let current = null;
function begin(typed = []) {
  const place = document.getElementById("mark");
  if (!place) {
    showAlarm(["the page has no mark, where the result of this check belongs"]);
    return;
  }
  current?.visible.disconnect();
  current?.watch?.end();
  current = new Check(place, typed);
  current.start();
}

begin();
