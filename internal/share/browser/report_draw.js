// Makes the page of a report from its data, as internal/share/browser/report does it in
// Go, byte for byte (a test holds both to the same pages). What a reader sees of a report
// follows from verified data, so that nothing on the page is left uncompared.
import { Refused, must, utf8, hex, base64 } from "./bytes.js";
import { sha256 } from "./hash.js";
import { canonical, get, has, pointer } from "./canon.js";
import { fingerprintOf, parseKey, levelOf } from "./receipt.js";
import { shown, visible } from "./formats.js";
import { verdictOf } from "./report_gate.js";
import { talkOf, textAt } from "./report_talk.js";

// LAYOUT is that of report.go: raised there and here when the page of the same data changes.
const LAYOUT = 3;
const MOST_SHOWN = 300, MOST_ITEMS = 20, MOST_FAILING = 3;

// Cut in two, so that they can stand in a script.
export const SCRIPT_BEGIN = "<" + "script>", DATA_BEGIN = "<" + 'script type="application/json" id="report-data">', DATA_END = "</" + "script>";

const WITHOUT = {
  held_out: "Scoring and transcript are left out: the case is held out.",
  size: "Scoring and transcript are left out: the file would be too large.",
  none: "The record names no evidence.",
};

const CASES = "Cases"; // apart from its element, so that the heading stands once in a report

// ORDER is that of the rows: what failed first.
const ORDER = ["failed", "errored", "truncated", "unscored", "skipped", "passed"];

// PLUMBING are members that tell a reader nothing: digests and lengths of what is there.
const PLUMBING = ["digest", "bytes", "request", "policy", "policy_short", "format", "attempt", "case", "class"];

const ESCAPES = { "&": "&amp;", "'": "&#39;", "<": "&lt;", ">": "&gt;", '"': "&#34;" };

export const escapeHTML = (s) => s.replace(/[&'<>"]/g, (c) => ESCAPES[c]);

const escapePointer = (name) => name.replaceAll("~", "~0").replaceAll("/", "~1");

// trimSpace trims what Go calls space, which is not what ECMAScript does.
const trimSpace = (s) => s.replace(/^[\t-\r \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+|[\t-\r \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+$/g, "");

// sortedNames are the names of an object in the order of their UTF-8 bytes, in which the
// program sorts; ECMAScript sorts UTF-16.
function sortedNames(object) {
  const codes = (s) => [...s].map((c) => c.codePointAt(0));
  return Object.keys(object).sort((a, b) => {
    const x = codes(a), y = codes(b);
    for (let i = 0; i < x.length && i < y.length; i++) if (x[i] !== y[i]) return x[i] - y[i];
    return x.length - y.length;
  });
}

// encodeData is the data as the program writes it into the page: members in this order,
// and nothing else. What is spelled otherwise may say one thing to one reader and another
// to the next.
export function encodeData(d) {
  const pick = (o, names) => Object.fromEntries(names.filter((n) => get(o, n) !== undefined).map((n) => [n, o[n]]));
  const clean = pick(d, ["format", "renderer", "key", "attempt", "examples", "registration", "gate_elsewhere", "entries", "cases"]);
  clean.entries = clean.entries.map((e) => pick(e, ["index", "entry", "receipt"]));
  clean.cases = clean.cases.map((c) => pick(c, ["entry", "without", "index", "trajectory", "grading"]));
  return JSON.stringify(clean).replace(/[<>&\u2028\u2029]/g, (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));
}

// sourceOf names the text of a script or style as a content policy does.
const sourceOf = (text) => "'sha256-" + base64(sha256(utf8(text))) + "'";

// policyOf is Policy of browser.go.
export function policyOf(script, style, connect) {
  return `default-src 'none'; script-src ${sourceOf(script)}; style-src ${sourceOf(style)}; base-uri 'none'; form-action 'none'` + (connect ? "; connect-src " + connect : "");
}

// rendererOf names what makes the page of a release.
export function rendererOf(script, style) {
  return `${LAYOUT}.${hex(sha256(utf8(script + "\0" + style)).subarray(0, 16))}`;
}

// sortEntries finds out what each entry is, and refuses what does not belong into the report of
// the attempt. proved are the verified entries by their index.
export function sortEntries(data, proved) {
  const p = { registered: null, newest: null, finished: null, records: [], beside: [] };
  for (const { index } of data.entries) {
    const x = proved.get(index), body = x.entry.body, kind = x.entry.kind;
    must(!get(x.entry, "manual"), `entry ${index} was appended by hand, and counts for nothing`, Refused);
    if (kind === "attempt.registered") {
      const place = body.attempt === data.attempt ? "registered" : "newest";
      must(p[place] === null, `entry ${index} is a registration too many`, Refused);
      p[place] = x;
      continue;
    }
    if (kind === "score.amended") { // it names its record, and not the attempt
      p.beside.push(x);
      continue;
    }
    must(kind === "attempt.finished" || kind === "case.scored" || kind === "score.corrected", `entry ${index}, a ${kind}, does not belong into a report`, Refused);
    must(body.attempt === data.attempt, `entry ${index} is of attempt ${body.attempt}, the report of ${data.attempt}`, Refused);
    must(kind !== "attempt.finished" || p.finished === null, "the attempt finishes twice", Refused);
    if (kind === "case.scored") p.records.push(x);
    else if (kind === "score.corrected") p.beside.push(x);
    else p.finished = x;
  }
  must(p.registered, `the registration of attempt ${data.attempt} is missing`, Refused);
  p.newest ??= p.registered;
  const first = p.registered.entry.body, last = p.newest.entry.body;
  must(last.class === first.class && last.number >= first.number, `entry ${p.newest.index} is not a later registration of class ${first.class}`, Refused);
  for (const x of p.beside) must(recordOf(p, x), `entry ${x.index} sets a score beside entry ${x.entry.body.entry}, which is not a record of this report`, Refused);
  return p;
}

// recordOf is the record that an entry sets another score beside.
const recordOf = (p, x) => p.records.find((r) => r.index === x.entry.body.entry);

// levelOfReport is what the registration proves of the people behind the bench, in a
// sentence and in brief; null if a key of the ledger signed it and nothing more is known.
export function levelOfReport(data, registered) {
  if (levelOf(registered.entry.body, [parseKey(data.key)]) === "scratch") return { note: "Scratch: no signer vouches for the bench of this attempt.", brief: "no signer vouches for the bench" };
  if (get(data, "examples")) return { note: "Signed by example signers: they come with “tally init”, and their keys lie in the workspace, so no person vouches for the bench of this attempt.", brief: "only example signers vouch for the bench" };
  return null;
}

const valueOf = (tag, cls, index, doc, at, as) => {
  const entry = index === null ? "" : ` data-entry="${index}"`;
  return `<${tag}${cls ? ` class="${cls}"` : ""}${entry} data-field="${escapeHTML(at)}" data-as="${as}">${escapeHTML(shown(pointer(doc, at), as))}</${tag}>`;
};

const cellOf = (x, at, as) => valueOf("span", "", x.index, x.entry.body, at, as);

const eventCell = (doc, at) => valueOf("span", "", null, doc, at, "text");

const outcomeCell = (x) => valueOf("span", "state " + x.entry.body.outcome, x.index, x.entry.body, "/outcome", "outcome");

// drawReport is the whole file. proved are the verified entries by their index; script
// and style are the texts of these elements.
export function drawReport(data, proved, script, style) {
  const p = sortEntries(data, proved);
  const cases = data.cases.map((c) => drawCase(p, c)).join("");
  const verdict = verdictOf(data, p);
  return drawHead(p, script, style) + drawSummary(p, data, verdict) + drawGates(verdict) + drawFailing(p, data) + drawBeside(p) + drawRows(p) + cases + "</main>\n" +
    "<footer>Written by tally export. It opens from disk and loads nothing; “tally verify” and verify.html check it from outside.</footer>\n" +
    DATA_BEGIN + encodeData(data) + DATA_END + "\n" + SCRIPT_BEGIN + script + DATA_END + "\n</body>\n</html>\n";
}

function drawHead(p, script, style) {
  return '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n' +
    `<meta http-equiv="Content-Security-Policy" content="${escapeHTML(policyOf(script, style, ""))}">\n` +
    '<meta name="viewport" content="width=device-width, initial-scale=1">\n<meta name="color-scheme" content="light dark">\n<meta name="referrer" content="no-referrer">\n<title>' +
    escapeHTML(visible(p.registered.entry.body.attempt)) + " · Tallystick</title>\n<style>" + style + "</style>\n</head>\n<body>\n" +
    '<a class="skip" href="#content">Skip to the content</a>\n<header class="top"><div><span class="brand">Tallystick <small>report of one attempt</small></span>\n' +
    '<div id="mark" role="status"><noscript>Not checked in this browser: JavaScript is off. “tally verify” checks this file.</noscript></div></div></header>\n' +
    `<main id="content">\n<h1>${cellOf(p.registered, "/attempt", "text")}</h1>\n`;
}

function drawSummary(p, data, verdict) {
  const r = p.registered, level = levelOfReport(data, r);
  let out = `<p class="lead">Class ${cellOf(r, "/class", "text")}, target ${cellOf(r, "/target", "text")}, ${cellOf(r, "/mode", "text")}; attempt number ${cellOf(r, "/number", "text")} of at least ${cellOf(p.newest, "/number", "text")} of the class; ledger ${cellOf(r, "/origin", "text")}.</p>\n`;
  out += level ? `<p class="note">${level.note}</p>\n` : "<p>The registration was signed by the ledger’s key. That people signed the bench is not in this file.</p>\n";
  if (get(r.entry.body.plan, "floor")) {
    out += `<p class="note">Floor of the class: without any work, the null answer “${cellOf(r, "/plan/floor/answer", "text")}” passes ${cellOf(r, "/plan/floor/passed", "text")} of ${cellOf(r, "/plan/floor/cases", "text")} cases.</p>\n`;
  }
  if (!p.finished) return out + '<p class="note">The attempt has not finished, so there are no totals.</p>\n';
  const counts = [...ORDER].reverse().filter((o) => pointer(p.finished.entry.body, "/outcomes/" + o) !== undefined).map((o) => [shown(o, "outcome"), "/outcomes/" + o, "text"]);
  const figures = [...counts, ["Solve rate", "/outcomes", "solved1"], ["95 % interval", "/outcomes", "interval1"], ["Mean score", "/mean_score", "number3"], ["Cost", "", "cost"], ["Runtime, ms", "/runtime_ms", "text"]];
  const gate = `<div><dt>Gate</dt><dd>${drawMark(verdict.state, sentence(verdict.reason), verdict.recorded === "")}</dd></div>\n`;
  return out + '<dl class="figures">\n' + gate + figures.map(([label, at, as]) => `<div><dt>${label}</dt><dd>${cellOf(p.finished, at, as)}</dd></div>\n`).join("") + "</dl>\n";
}

// STATES are how states of gates look and read.
const STATES = { met: ["passed", "Met"], "not met": ["failed", "Not met"], "not decided": ["unscored", "Not decided"], "not told": ["unscored", "Not told here"] };

const GATE_BASIS = "Computed from the records in this file and from the registration whose digest the sealed plan names, in this browser too.";

const sentence = (s) => s[0].toUpperCase() + s.slice(1) + ".";

// drawMark is a state. One that only holds with corrections is neither green nor red.
function drawMark(state, title, plain) {
  const [look, word] = STATES[state];
  return `<span class="state ${plain ? look : "unscored"}"${title ? ` title="${escapeHTML(visible(title))}"` : ""}>${word}</span>`;
}

// drawGates lists what became of each gate, and what that rests on.
function drawGates(v) {
  let out = `<h2>Gate</h2>\n<p>${escapeHTML(visible(sentence(v.reason)))} ${GATE_BASIS}</p>\n`;
  if (v.recorded) out += `<p class="note">This counts the scores beside the records. By the recorded scores alone it is: ${v.recorded}.</p>\n`;
  if (v.results.length === 0) return out;
  return out + '<ul class="gates">\n' + v.results.map((r) => `<li>${drawMark(r.state, "", true)} ${escapeHTML(visible(`${r.gate}: ${r.found}`))}</li>\n`).join("") + "</ul>\n";
}

// drawBeside tells what was set beside the recorded scores: from what to what, by whom,
// when and why.
function drawBeside(p) {
  if (p.beside.length === 0) return "";
  const word = (passed) => (passed ? " passed" : " failed");
  const items = p.beside.map((x) => {
    const r = recordOf(p, x), b = x.entry.body;
    let out = `<li data-entry="${x.index}">Case ${cellOf(r, "/case_id", "text")}, repetition ${cellOf(r, "/repeat", "text")}: `;
    if (x.entry.kind === "score.corrected") {
      const keys = b.signatures.map((s) => (s.startsWith("-----BEGIN PGP SIGNATURE-----") ? "an OpenPGP key, which the report does not have" : fingerprintOf(s)));
      out += `${cellOf(x, "/was/score", "number3")}${word(b.was.passed)} → ${cellOf(x, "/now/score", "number3")}${word(b.now.passed)} corrected by ${escapeHTML(visible(keys.join(", ")))}`;
    } else {
      out += `${cellOf(r, "/score/score", "number3")} ${cellOf(r, "/outcome", "outcome")} → ${cellOf(x, "/score/score", "number3")}${word(b.score.passed)} graded again by ${cellOf(x, "/author", "text")}`;
    }
    return out + ` at ${escapeHTML(visible(x.entry.time))}: ${cellOf(x, "/reason", "text")} (entry ${x.index})</li>\n`;
  });
  return "<h2>Beside the records</h2>\n<p>Every number on this page is as recorded. These scores were set beside it later; a key stands for a person of the signers file of the ledger.</p>\n<ul>\n" + items.join("") + "</ul>\n";
}

function drawRows(p) {
  const plan = p.registered.entry.body.plan;
  let out = `<h2>${CASES}</h2>\n<p>This report has ${p.records.length} of ${plan.case_count * Math.max(get(plan, "repeat") ?? 0, 1)} planned records`;
  if (p.finished) out += `; the attempt has ${Object.values(p.finished.entry.body.outcomes).reduce((n, k) => n + k, 0)}`;
  out += ".</p>\n" + drawShares(p) + '<div class="wide" tabindex="0" role="region" aria-label="' + CASES + '"><table>\n<thead><tr>';
  ["Case", "Outcome", "Score", "Repetition", "Turns", "Tokens", "Cost", "Began", "Why"].forEach((h, i) => {
    out += `<th scope="col"${i >= 2 && i <= 6 ? ' class="num"' : ""}>${h}</th>`;
  });
  const rows = inOrder(p.records).map((x) => {
    const numbers = [["/score/score", "number3"], ["/repeat", "text"], ["/turns", "text"], ["/tokens", "text"], ["", "cost"]];
    return `<tr data-entry="${x.index}"><th scope="row"><a href="#case-${x.index}">${cellOf(x, "/case_id", "text")}</a></th><td>${outcomeCell(x)}` +
      numbers.map(([at, as]) => `</td><td class="num">${cellOf(x, at, as)}`).join("") +
      `</td><td class="nowrap">${cellOf(x, "/started_at", "time")}</td><td class="why">${drawWhy(x)}</td></tr>\n`;
  });
  return out + "</tr></thead>\n<tbody>\n" + rows.join("") + "</tbody></table></div>\n";
}

// drawWhy has the failure modes, or the reason of a record without a score.
function drawWhy(x) {
  const body = x.entry.body, modes = get(get(body, "score"), "failure_modes") ?? [];
  return (get(body, "reason") ? cellOf(x, "/reason", "text") : "") + modes.map((_, i) => cellOf(x, "/score/failure_modes/" + i, "text")).join(", ");
}

function drawCase(p, c) {
  const x = p.records.find((r) => r.index === c.entry);
  must(x, `evidence of entry ${c.entry}, which is not a record here`, Refused);
  const open = firstFailing(p).includes(x) ? " open" : "";
  const head = `<details class="case"${open}><summary><strong>${cellOf(x, "/case_id", "text")}</strong> ${outcomeCell(x)}</summary>\n<div id="case-${x.index}">\n`;
  if (get(c, "without")) {
    must(Object.hasOwn(WITHOUT, c.without), `entry ${c.entry} is without evidence for no known reason`, Refused);
    return head + `<p>${WITHOUT[c.without]}</p>\n</div></details>\n`;
  }
  return head + drawBreakdown(x) + drawGrading(c) + drawTranscript(c) + "</div></details>\n";
}

function drawBreakdown(x) {
  const parts = get(get(x.entry.body, "score"), "breakdown") ?? {};
  if (Object.keys(parts).length === 0) return "";
  const rows = sortedNames(parts).map((name) => `<dt>${escapeHTML(visible(name))}</dt><dd>${cellOf(x, "/score/breakdown/" + escapePointer(name), "number3")}</dd>\n`);
  return '<h3>Score</h3>\n<dl class="pairs">\n' + rows.join("") + "</dl>\n";
}

const CHECK_MEMBERS = [["Check", "check", ""], ["Grader", "grader", ""], ["Outcome", "outcome", ""], ["Why", "why", ""], ["Got", "extracted", "/head"], ["Wanted", "expected", "/head"], ["Nothing found because", "missing", ""], ["Failure mode", "failure_mode", ""]];

// checksOf are the checks of a case, null if there is no such document.
function checksOf(c) {
  if (!get(c, "grading")) return null;
  const doc = canonical(c.grading), checks = get(doc, "checks") ?? [];
  return Array.isArray(checks) && checks.every((k) => typeof k === "object" && !Array.isArray(k)) ? { doc, checks } : null;
}

const DECISIVE_MEMBERS = ["check", "why", "extracted", "expected", "missing"];

const drawCheck = (doc, check, i, only = null) => '<dl class="pairs box">\n' + CHECK_MEMBERS.filter(([, member]) => has(check, member) && (only?.includes(member) ?? true))
  .map(([label, member, below]) => `<dt>${label}</dt><dd>${valueOf("pre", "", null, doc, `/checks/${i}/${member}${below}`, "text")}</dd>\n`).join("") + "</dl>\n";

function drawGrading(c) {
  const found = checksOf(c);
  if (!found) return "";
  const lists = found.checks.map((check, i) => drawCheck(found.doc, check, i));
  return `<h3>Scoring</h3>\n<div data-grading data-entry="${c.entry}">\n` + lists.join("") + "</div>\n";
}

// drawTranscript lists the events: their type, and every text, number and truth in them.
function drawTranscript(c) {
  const lines = c.trajectory.split("\n").slice(0, -1);
  const docs = lines.slice(0, MOST_SHOWN).map((line) => JSON.parse(line));
  let out = drawTalk(docs) + `<details class="raw"><summary>All events</summary>\n<p class="small soft">${lines.length} events`;
  if (lines.length > MOST_SHOWN) out += `, of which the first ${MOST_SHOWN} are shown; the data of this file has all`;
  out += `. Texts are as the record has them: the beginning of long ones.</p>\n<ol class="events" data-trajectory data-entry="${c.entry}">\n`;
  docs.forEach((doc, i) => {
    out += `<li data-seq="${i + 1}"><header>${valueOf("strong", "", null, doc, "/type", "text")} <span class="soft">turn ${eventCell(doc, "/turn")}, ${eventCell(doc, "/t")} ms</span></header>\n`;
    out += drawPayload(doc) + "</li>\n";
  });
  return out + "</ol></details>\n";
}

// drawPayload lists what the payload of an event says.
function drawPayload(doc) {
  const payload = pointer(doc, "/payload");
  return payload === undefined ? "" : '<dl class="pairs">\n' + drawMembers(doc, payload, "/payload", "") + "</dl>\n";
}

const SPEAKERS = { user: "User", assistant: "Assistant" };

function drawTalk(docs) {
  const items = talkOf(docs).map((item) => {
    const head = `<section class="said ${item.role}" data-seq="${item.seq}"><h4>`;
    if (item.role === "tool") return head + drawCall(item) + "</section>\n";
    if (item.role === "note") return `${head}${eventCell(item.doc, "/type")}</h4>\n${drawPayload(item.doc)}</section>\n`;
    return `${head}${SPEAKERS[item.role]}</h4>\n${item.words ? `<pre>${escapeHTML(visible(item.words))}</pre>` : valueOf("pre", "", null, item.doc, item.at, "text")}</section>\n`;
  });
  return '<h3>Conversation</h3>\n<div class="talk">\n' + items.join("") + "</div>\n";
}

// drawCall is the card of a call: its name, its arguments, what policy and people said of
// it, and its result.
function drawCall(item) {
  let out = `Tool ${eventCell(item.doc, "/payload/name")}</h4>\n`;
  for (const part of ["values", "raw", "cut"]) {
    const args = pointer(item.args, "/payload/args/" + part);
    if (args !== undefined) out += '<dl class="pairs">\n' + drawMembers(item.args, args, "/payload/args/" + part, "") + "</dl>\n";
  }
  for (const doc of item.decisions) {
    out += doc.type === "policy_decision" ? `<p class="small">Policy: ${eventCell(doc, "/payload/verdict")}, ${eventCell(doc, "/payload/reason")}</p>\n`
      : `<p class="small">Approved: ${valueOf("span", "", null, doc, "/payload/approved", "bool")}, by ${eventCell(doc, "/payload/by")}</p>\n`;
  }
  if (!item.result) return out + '<p class="small">No result.</p>\n';
  if (textAt(item.result, "/payload/error") !== "") out += valueOf("pre", "bad", null, item.result, "/payload/error", "text");
  if (textAt(item.result, "/payload/result/head") !== "") out += valueOf("pre", "", null, item.result, "/payload/result/head", "text");
  return out;
}

const inOrder = (records) => {
  const rank = (x) => ORDER.indexOf(x.entry.body.outcome);
  return [...records].sort((a, b) => rank(a) - rank(b));
};

// firstFailing are the cases that are told of first, and open.
const firstFailing = (p) => inOrder(p.records).filter((x) => x.entry.body.outcome !== "passed").slice(0, MOST_FAILING);

// drawFailing tells of the first cases that did not pass: why, and what was got and wanted.
function drawFailing(p, data) {
  const first = firstFailing(p);
  if (first.length === 0) return "";
  const boxes = first.map((x) => `<section class="box"><h3><a href="#case-${x.index}">${cellOf(x, "/case_id", "text")}</a> ${outcomeCell(x)}</h3>\n<p>${drawWhy(x)}</p>\n` +
    data.cases.filter((c) => c.entry === x.index).map(drawDecisive).join("") + "</section>\n");
  return '<h2>First that did not pass</h2>\n<div class="cols">\n' + boxes.join("") + "</div>\n";
}

// drawDecisive shows the first check that did not pass.
function drawDecisive(c) {
  const found = checksOf(c);
  const at = found ? found.checks.findIndex((check) => typeof get(check, "outcome") === "string" && check.outcome !== "passed") : -1;
  return at < 0 ? "" : `<div data-grading data-entry="${c.entry}">\n${drawCheck(found.doc, found.checks[at], at, DECISIVE_MEMBERS)}</div>\n`;
}

// drawShares shows how many records have each outcome, as a bar.
function drawShares(p) {
  let bars = "", at = 0;
  const said = [];
  for (const o of [...ORDER].reverse()) {
    const n = p.records.filter((x) => x.entry.body.outcome === o).length;
    if (n === 0) continue;
    said.push(`${n} ${o}`);
    bars += `<rect class="${o}" x="${at}" y="0" width="${n}" height="1"></rect>`;
    at += n;
  }
  return at === 0 ? "" : `<svg class="shares" role="img" aria-label="${said.join(", ")}" viewBox="0 0 ${at} 1" preserveAspectRatio="none">${bars}</svg>\n`;
}

// drawMembers has what a payload says, in the order of its names, with the names before
// it as the label.
function drawMembers(doc, value, at, label) {
  if (value === null) return "";
  if (Array.isArray(value)) return value.slice(0, MOST_ITEMS).map((item, i) => drawMembers(doc, item, `${at}/${i}`, label)).join("");
  if (typeof value === "object") {
    return sortedNames(value).filter((name) => !PLUMBING.includes(name))
      .map((name) => drawMembers(doc, value[name], `${at}/${escapePointer(name)}`, trimSpace(`${label} ${name}`))).join("");
  }
  return `<dt>${escapeHTML(visible(label))}</dt><dd>${valueOf("pre", "", null, doc, at, typeof value === "boolean" ? "bool" : "text")}</dd>\n`;
}
