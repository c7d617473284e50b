// What an exported report does when it is opened: it verifies its data, makes the page
// of it again, compares the whole page with what was loaded, and shows the one that it
// made. It is green only for a key that the person types here.
import { Refused, Malformed, utf8, hex } from "./bytes.js";
import { sha256 } from "./hash.js";
import { parseKey } from "./receipt.js";
import { reportData, verifyReport } from "./report.js";
import { drawReport, levelOfReport, rendererOf, sortEntries } from "./report_draw.js";
import { Watch, asLoaded, compareLoaded, comparePages, drawPage, isOwnPart, mayChange, parsePage } from "./cover.js";
import { Difference, requireOne } from "./page.js";
import { fingerprint, keyForm, showAlarm, showMark, wordsOf } from "./mark.js";

const STYLE = "{{style}}"; // SHA-256 of the style of this release
const SCRIPT = document.currentScript.textContent;

// readReport verifies the data with the key that stands in it, which shows that the report is
// consistent and not who made it, and makes the page.
function readReport(loaded) {
  const data = reportData(requireOne([...loaded.page.querySelectorAll('script[type="application/json"]#report-data')], "its data").textContent);
  const proved = verifyReport(data, [parseKey(String(data.key))]);
  const style = loaded.page.querySelector("style")?.textContent ?? "";
  const ours = hex(sha256(utf8(style))) === STYLE;
  const expected = parsePage(drawReport(data, proved, SCRIPT, ours ? style : ""));
  const differences = compareLoaded(loaded, expected);
  if (ours && data.renderer !== rendererOf(SCRIPT, style)) differences.push(new Difference("the name of the layout", String(data.renderer), rendererOf(SCRIPT, style)));
  return { data, proved, expected, differences, level: levelOfReport(data, sortEntries(data, proved).registered) };
}

// A Report is a page whose data verifies.
class Report {
  constructor(found) {
    this.found = found;
    this.key = parseKey(found.data.key);
    this.typed = false;
    this.now = []; // what was changed after the page was drawn
    drawPage(found.expected, found.differences.length > 0);
    this.watch = new Watch(() => this.again());
    this.mark();
  }

  // again compares what is shown now with what was drawn.
  again() {
    this.now = comparePages(document, this.found.expected, isOwnPart, mayChange);
    this.mark();
  }

  give(text) {
    this.key = parseKey(text);
    this.typed = true;
    this.mark();
  }

  form() {
    return keyForm((text) => this.give(text), (change) => this.watch.own(change));
  }

  mark() {
    this.watch.own(() => {
      if (!document.getElementById("mark")) drawPage(this.found.expected, false);
      try {
        this.draw();
      } catch (err) {
        showFailure(err, [this.form()]);
      }
    });
  }

  draw() {
    const { data, proved, differences, level } = this.found, problems = [...differences, ...this.now];
    if (this.typed && this.verified !== this.key.text) verifyReport(data, [this.key]);
    this.verified = this.key.text;
    showAlarm(problems);
    const lines = [
      `The whole page follows from ${proved.size} entries of the ledger ${this.key.name} and the evidence that they name. It was made again from them, and every word, number and attribute was compared.`,
      `Key: ${this.key.text} (${fingerprint(this.key)}).`,
      this.typed ? "You gave this key." : "This key stands in this file, so the author of the file chose it. Type the one that you know.",
      "A changed file could also have a changed script: “verify.html” and “tally verify” check this file from outside.",
    ];
    if (level) lines.unshift(level.note);
    if (differences.length > 0) lines.unshift("What you see was made from the evidence. The file itself showed something else: the banner says what.");
    const state = problems.length > 0 ? "bad" : this.typed ? "good" : "unknown";
    showMark(document.getElementById("mark"), state, lines, this.typed ? [] : [this.form()], wordsOf(state, level?.brief), state === "bad" ? undefined : level?.brief);
  }
}

function showFailure(err, more) {
  const bad = err instanceof Refused || err instanceof Malformed;
  if (bad) showAlarm([err.message]);
  showMark(document.getElementById("mark"), bad ? "bad" : "unclear", [err.message], more);
}

// NOTHING stands in place of a report whose data does not verify.
const NOTHING = '<!doctype html><html lang="en"><body><div class="top"><div><span class="brand">Tallystick</span><div id="mark" role="status"></div></div></div><main id="content"><h1>Nothing of this file is shown</h1><p>Its receipts and evidence do not verify, so no number in it can be believed. Ask for the report again.</p></main></body></html>';

function start() {
  const loaded = asLoaded();
  try {
    new Report(readReport(loaded));
  } catch (err) {
    drawPage(parsePage(NOTHING), false);
    showFailure(err, []);
  }
}

// What stands after this script is part of the page, too.
if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
else start();
