// verify.html: says what files and servers prove, to a reader who knows a key. Keys come
// from the key field and its file chooser only; what is dropped as evidence is never
// trusted, whatever it contains.
import { Refused, Malformed, must, text, utf8, hex, fromBase64 } from "./bytes.js";
import { blake3, sha256 } from "./hash.js";
import { get } from "./canon.js";
import { parseKey, ledgerKey, sshKey, isReceipt, isProofs, parseReceipt, verifyReceipt, verifyProofs, verifyCheckpoint, claimOf } from "./receipt.js";
import { reportData, verifyReport } from "./report.js";
import { DATA_BEGIN, DATA_END, SCRIPT_BEGIN, drawReport, levelOfReport, policyOf, rendererOf, sortEntries } from "./report_draw.js";
import { Watch, asLoaded, compareLoaded, comparePages, drawPage, parsePage } from "./cover.js";
import { factsOf } from "./page.js";
import { badge, element, fingerprint, showAlarm, wordsOf } from "./mark.js";

const MOST_BYTES = 64 << 20, MOST_ENTRIES = 1000;
const byId = (id) => document.getElementById(id);

// --- This page itself ---

// What this release is, filled in where verify.html is put together: the page without
// script, style and policy; and the SHA-256 of its style and of the script of a report.
const PAGE = "{{page}}", STYLE = "{{style}}", REPORT_SCRIPT = "{{report}}";
const SCRIPT = document.currentScript.textContent;

// altered says what of this page is not of its release. Then nothing here is green: a
// changed word beside a good result can turn its meaning around.
let altered = [];

function drawItself() {
  const loaded = asLoaded(), style = loaded.page.querySelector("style")?.textContent ?? "";
  const parts = { policy: policyOf(SCRIPT, style, "http: https:"), style: hash(style) === STYLE ? style : "", script: SCRIPT };
  const expected = parsePage(PAGE.replace(/\{\{(policy|style|script)\}\}/g, (_, name) => parts[name]));
  altered = compareLoaded(loaded, expected).map(String);
  drawPage(expected, altered.length > 0);
  showAlteration();
}

function showAlteration() {
  showAlarm(altered, "This copy of verify.html is not the one of its release, or was changed since it was opened. Nothing here is green. It");
}

const hash = (s) => hex(sha256(utf8(s)));

// watch: what changes the page besides this script takes the green away.
let watch = null;
function changedByOthers() {
  altered.push("something that is not this page’s script changed what it shows");
  watch.own(() => {
    showAlteration();
    for (const item of document.querySelectorAll('#results > [data-state="good"]')) lower(item);
  });
}

function lower(item) {
  item.setAttribute("data-state", "unclear");
  item.querySelector(".verdict")?.replaceWith(badge("unclear"));
}

// --- Keys ---

// A signers file names operators and no ledger: their keys count for whatever ledger they
// seal. Dates and namespaces would have to be compared with times that a receipt does not
// tell, so a line with them is refused.
function operatorsOf(file) {
  const keys = [];
  for (const line of file.split("\n")) {
    if (line === "" || line.startsWith("#")) continue;
    const words = line.split(/[ \t]+/);
    if (!words.some((w) => /^roles=([a-z]+,)*operator(,[a-z]+)*$/.test(w))) continue;
    must(words[1] === "ssh-ed25519", `the operator ${words[0].slice(0, 60)} has options or another kind of key: type the ledger’s key instead`);
    keys.push(sshKey(fromBase64(words[2])));
  }
  must(keys.length > 0, "this signers file names no operator");
  return keys;
}

// trusted reads the key field: NAME+ID+KEY on each line, or a whole signers file. It
// gives the keys for a ledger of that name.
function trusted() {
  const field = byId("keys").value.trim();
  if (field === "") return null;
  if (field.startsWith("# tallystick-signers")) {
    const operators = operatorsOf(field);
    return (origin) => operators.map((key) => ledgerKey(origin, key));
  }
  const keys = field.split("\n").map((line) => line.trim()).filter(Boolean).map(parseKey);
  return () => keys;
}

function keysFor(checkpoint, claimed) {
  const given = trusted();
  if (given) return { keys: given(checkpoint.split("\n", 1)[0]), typed: true };
  must(claimed, "Give the ledger’s key above: without it nothing here says who signed.");
  return { keys: [parseKey(claimed)], typed: false };
}

// --- What was found ---

function pairs(list) {
  return element("dl", { class: "pairs" }, ...list.filter(([, v]) => v !== undefined && v !== null).flatMap(([k, v]) => [element("dt", {}, k), element("dd", {}, String(v))]));
}

function show(name, state, words, ...more) {
  showLevel(name, state, null, words, ...more);
}

// showLevel shows a result; brief is what the reader must know of who vouches for it.
function showLevel(name, state, brief, words, ...more) {
  const item = element("li", { class: "box result", "data-state": state }, element("h3", {}, name), element("p", {}, badge(state, wordsOf(state, brief), state === "bad" ? undefined : brief)), element("p", { class: "says" }, words), ...more);
  if (altered.length > 0 && state === "good") lower(item);
  watch.own(() => {
    byId("results").prepend(item);
    byId("results-none").hidden = true;
  });
}

function signerLine(p, typed) {
  return [["Ledger", p.origin], ["Entry", p.index], ["Entries in the tree", p.size], [typed ? "Key you gave" : "Key it names itself", `${p.key.text} (${fingerprint(p.key)})`]];
}

const state = (typed) => (typed ? "good" : "unknown");

function entryResult(name, p, typed) {
  show(name, state(typed), `Entry ${p.index} is in the ledger ${p.origin}: ${p.entry.kind} of ${p.entry.time}.`,
    pairs([...factsOf(p.entry), ...signerLine(p, typed)]), whole(p), assumed([`The tree of ${p.size} entries is still part of the ledger: only its newest copy tells.`]));
}

function whole(p) {
  return element("details", {}, element("summary", {}, "The entry as it was signed"), element("pre", {}, JSON.stringify(p.entry, null, 1)));
}

function assumed(list) {
  return element("ul", { class: "small soft" }, ...list.map((line) => element("li", {}, "Assumed: " + line)));
}

// --- Kinds of files ---

const entries = new Map(); // texts of entries that lie beside their receipts, by digest

function receipt(name, file) {
  const r = parseReceipt(file);
  const { keys, typed } = keysFor(r.checkpoint);
  entryResult(name, verifyReceipt(file, keys, r.entry === null ? (entries.get(r.content) ?? null) : null), typed);
}

function answered(name, doc) {
  const { keys, typed } = keysFor(parseReceipt(doc.receipt).checkpoint, doc.key?.public);
  entryResult(name, verifyReceipt(doc.receipt, keys, typeof doc.entry === "string" ? doc.entry : null), typed);
}

function proofs(name, bytes) {
  const file = text(bytes), at = file.indexOf("c2sp.org/tlog-proof@v1\n");
  must(at >= 0, "a file of receipts without a receipt");
  const { keys, typed } = keysFor(file.slice(file.indexOf("\n\n", at) + 2));
  const proved = verifyProofs(bytes, keys), first = proved[0];
  // A record with a registration is a claim, and its parts must fit each other.
  if (["case.scored", "attempt.finished"].includes(first.entry.kind) && proved.some((p) => p.entry.kind === "attempt.registered")) {
    const c = claimOf(proved, keys);
    const brief = c.level === "scratch" ? "no signer vouches for the bench" : null;
    const what = c.case === undefined ? `Attempt ${c.attempt} of class ${c.class} finished.` : `Case ${c.case} of class ${c.class}: ${c.outcome}.`;
    showLevel(name, state(typed), brief, what, pairs([
      ["Class", c.class], ["Case", c.case], ["Target", c.target], ["Attempt", `${c.attempt}, number ${c.number} of at least ${c.of} of the class`],
      ["Outcome", c.outcomes ? Object.entries(c.outcomes).map(([k, n]) => `${n} ${k}`).join(", ") : c.outcome],
      [c.outcomes ? "Mean score" : "Score", c.score ?? "none"], ["Level", c.level], ...signerLine(first, typed)]), whole(first),
      assumed(["People signed the bench, and not example people: the proof shows that the ledger’s key signed the registration, and no more.", `The tree of ${c.tree_size} entries is still part of the ledger; of ${c.of} attempts it proves that there were at least as many.`]));
    return;
  }
  list(name, proved, typed);
}

function list(name, proved, typed) {
  const rows = proved.map((p) => element("tr", {}, element("td", { class: "num" }, String(p.index)), element("td", {}, p.entry.kind), element("td", {}, factsOf(p.entry).map(([k, v]) => `${k}: ${v}`).join("; "))));
  const table = element("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Entries of " + name },
    element("table", {}, element("thead", {}, element("tr", {}, ...["Entry", "Kind", "Says"].map((h) => element("th", { scope: "col" }, h)))), element("tbody", {}, ...rows)));
  show(name, state(typed), `${proved.length} entries are in the ledger ${proved[0].origin}.`, pairs(signerLine(proved[0], typed).filter(([k]) => k !== "Entry")), table);
}

function checkpoint(name, file) {
  const { keys, typed } = keysFor(file);
  const c = verifyCheckpoint(file, keys);
  show(name, state(typed), `The ledger ${c.origin} had ${c.size} entries.`, pairs([["Root", hex(c.root)], ["Key", c.key.text]]));
}

// between is the text between two others, from a place on.
function between(file, begin, end, from = 0) {
  const at = file.indexOf(begin, from), to = at < 0 ? -1 : file.indexOf(end, at + begin.length);
  return to < 0 ? null : file.slice(at + begin.length, to);
}

// report verifies the data of a report, makes the page of it again and compares every
// character of the file.
function report(name, file) {
  const text = between(file, DATA_BEGIN, DATA_END);
  must(text !== null, "the report carries no data");
  const data = reportData(text);
  const { keys, typed } = keysFor(parseReceipt(data.entries[0].receipt).checkpoint, String(data.key));
  const proved = verifyReport(data, keys), p = sortEntries(data, proved);
  // What runs and how it looks must be this release's: another script could write, and
  // another style could hide or add, what it likes.
  const style = between(file, "<style>", "</" + "style>") ?? "", script = between(file, "\n" + SCRIPT_BEGIN, DATA_END, file.indexOf(DATA_BEGIN)) ?? "";
  if (hash(style) !== STYLE || hash(script) !== REPORT_SCRIPT || data.renderer !== rendererOf(script, style)) {
    show(name, "unclear", "The receipts in it verify, but the page is not laid out by this release, or carries a script or style that is not of this release, which can show anything. So what it shows was not compared. Ask for the report again, or use the verify.html of its release.");
    return;
  }
  const expected = drawReport(data, proved, script, style);
  if (file !== expected) {
    const places = comparePages(parsePage(file), parsePage(expected)).slice(0, 20).map(String);
    show(name, "bad", "The report shows something that was not signed:", element("ul", {}, ...(places.length > 0 ? places : [firstDifference(file, expected)]).map((d) => element("li", {}, d))));
    return;
  }
  const level = levelOfReport(data, p.registered);
  showLevel(name, state(typed), level?.brief, `A report of attempt ${data.attempt}: every character of its page follows from ${proved.size} signed entries and the evidence that they name.`,
    pairs([...factsOf(p.registered.entry), ...(p.finished ? factsOf(p.finished.entry).slice(1) : [["Outcome", "not finished"]]), ["Level", level?.note ?? "signed by the ledger’s key"], ["Records of cases in it", p.records.length], ...signerLine(p.registered, typed).filter(([k]) => k !== "Entry")]),
    assumed([...(level ? [] : ["People signed the bench, and not example people: the report shows that the ledger’s key signed the registration, and no more."]), `The tree of ${p.registered.size} entries is still part of the ledger: only its newest copy tells.`]));
}

function firstDifference(file, expected) {
  let at = 0;
  while (file[at] === expected[at]) at++;
  return `from character ${at} on: the file has “${file.slice(at, at + 60)}”, expected “${expected.slice(at, at + 60)}”`;
}

function isReport(file) {
  return /^<!doctype html>/i.test(file) && file.includes('id="report-data"');
}

function recognise(name, bytes) {
  must(bytes.length <= MOST_BYTES, `more than ${MOST_BYTES} bytes`);
  const file = text(bytes);
  if (isReceipt(file)) return receipt(name, file);
  if (isProofs(file)) return proofs(name, bytes);
  if (isReport(file)) return report(name, file);
  if (/\n\n\u2014 /.test(file)) return checkpoint(name, file);
  if (/^[^+\n]+\+[0-9a-f]{8}\+[A-Za-z0-9+/=]+\n?$/.test(file) || file.startsWith("# tallystick-signers")) {
    return show(name, "unclear", "This is a key, not evidence. If you had it from a person you trust, put it into the key field.");
  }
  let doc = null;
  try {
    doc = JSON.parse(file);
  } catch { /* then it is not one of ours */ }
  if (typeof get(doc, "receipt") === "string") return answered(name, doc);
  if (get(doc, "kind") && get(doc, "body")) return show(name, "unclear", "This is an entry. It proves nothing without its receipt: choose both together.");
  show(name, "unclear", "Not a file that this page knows. It reads receipts, proofs (tally export --format receipt), the receipts of a submission, reports (tally export --format html) and checkpoints; tally-verify reads more.");
}

// attempt runs a check and shows why it failed. What cannot be read, or was not signed by
// a key that was given, must not look like something that was forged, nor the reverse.
function attempt(name, check) {
  try {
    check();
  } catch (err) {
    if (err instanceof Refused) show(name, "bad", err.message);
    else if (err instanceof Malformed) show(name, "unclear", err.message);
    else show(name, "unclear", "This page failed: " + err.message);
  }
}

// --- Files and servers ---

async function takeFiles(files) {
  const read = await Promise.all([...files].map(async (f) => ({ name: f.name, bytes: new Uint8Array(await f.slice(0, MOST_BYTES + 1).arrayBuffer()) })));
  for (const f of read) {
    if (f.name.endsWith(".entry.json")) attempt(f.name, () => entries.set("blake3:" + hex(blake3(f.bytes)), text(f.bytes)));
  }
  for (const f of read) {
    if (f.name.endsWith(".entry.json") && read.length > 1) continue;
    attempt(f.name, () => recognise(f.name, f.bytes));
  }
  byId("results-title").focus();
}

// numbers reads "3, 5-8".
function numbers(list) {
  const out = [];
  for (const part of list.split(/[\s,]+/).filter(Boolean)) {
    const m = /^([0-9]{1,15})(?:-([0-9]{1,15}))?$/.exec(part);
    must(m, `not a number of an entry: ${part.slice(0, 20)}`);
    const from = Number(m[1]), to = Number(m[2] ?? m[1]);
    must(from <= to && out.length + (to - from) < MOST_ENTRIES, `more than ${MOST_ENTRIES} entries at once, or a range that ends before it begins`);
    for (let i = from; i <= to; i++) out.push(i);
  }
  must(out.length > 0, "which entries? give their numbers, such as 3, 5-8");
  return out;
}

async function ask(address, token) {
  const answer = await fetch(address, { credentials: "omit", cache: "no-store", redirect: "error", headers: token ? { Authorization: "Bearer " + token } : {} });
  const said = await answer.text();
  let doc = null;
  try {
    doc = JSON.parse(said);
  } catch { /* a server says no in words */ }
  must(answer.ok && doc !== null, `${address}: status ${answer.status}: ${get(doc, "error") ?? said.slice(0, 200)}`);
  return doc;
}

async function askServer() {
  const base = byId("server").value.trim().replace(/\/*$/, "/"), name = base;
  try {
    const address = new URL(base);
    must(["http:", "https:"].includes(address.protocol), "the address must begin with http:// or https://");
    const wanted = numbers(byId("entries").value), proved = [], checkpoints = new Map();
    let typed = false;
    for (const n of wanted) {
      const doc = await ask(new URL(`receipt/${n}`, address), byId("token").value.trim());
      must(typeof get(doc, "receipt") === "string", `entry ${n}: the server sent no receipt`);
      const trust = keysFor(parseReceipt(doc.receipt).checkpoint, doc.key?.public);
      typed = trust.typed;
      const p = verifyReceipt(doc.receipt, trust.keys, typeof doc.entry === "string" ? doc.entry : null, typed ? checkpoints : new Map());
      must(p.index === n, `asked for entry ${n}, the server proved entry ${p.index}`, Refused);
      proved.push(p);
    }
    if (proved.length === 1) entryResult(name, proved[0], typed);
    else list(name, proved, typed);
  } catch (err) {
    const words = err instanceof TypeError ? `The server did not answer, or does not let other pages ask (“tally view --public --cors”): ${err.message}` : err.message;
    show(name, err instanceof Refused ? "bad" : "unclear", words);
  }
  byId("results-title").focus();
}

function keyChanged() {
  let says = "none: nothing can be green", problem = "";
  try {
    const given = trusted();
    if (given) says = given("example").map((k) => fingerprint(k)).join(", ");
  } catch (err) {
    problem = err.message;
  }
  watch.own(() => {
    byId("key-says").textContent = says;
    byId("key-problem").textContent = problem;
  });
}

// open makes the page work, once all of it is there.
function open() {
  drawItself();
  watch = new Watch(changedByOthers);
  listen();
  keyChanged();
  watch.own(() => document.documentElement.setAttribute("data-ready", ""));
}

function listen() {
  byId("keys").addEventListener("input", keyChanged);
  byId("key-file").addEventListener("change", async (event) => {
    const [file] = event.target.files;
    if (file) byId("keys").value = await file.slice(0, 1 << 20).text();
    keyChanged();
  });
  byId("files").addEventListener("change", (event) => takeFiles(event.target.files));
  byId("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    askServer();
  });
  byId("clear").addEventListener("click", () => {
    watch.own(() => {
      byId("results").replaceChildren();
      byId("results-none").hidden = false;
    });
  });
  const zone = byId("drop");
  for (const name of ["dragenter", "dragover"]) {
    document.addEventListener(name, (event) => {
      event.preventDefault();
      watch.own(() => zone.setAttribute("data-over", ""));
    });
  }
  document.addEventListener("dragleave", () => watch.own(() => zone.removeAttribute("data-over")));
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    watch.own(() => zone.removeAttribute("data-over"));
    takeFiles(event.dataTransfer.files);
  });
}

if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", open);
else open();
