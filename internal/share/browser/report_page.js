// What an exported report does when it is opened: it checks itself. It is green only for
// a key that the person types here.
import { Refused, Malformed } from "./bytes.js";
import { parseKey } from "./receipt.js";
import { checkReport, claimedKey } from "./report.js";
import { fingerprint, keyForm, showAlarm, showMark } from "./mark.js";

const place = document.getElementById("mark");

function check(typed) {
  const key = typed ?? claimedKey(document);
  const found = checkReport(document, [key]);
  showAlarm(found.differences);
  const lines = [
    `${found.proved.size} entries of the ledger ${key.name} and ${found.compared} values on this page were compared.`,
    `Key: ${key.text} (${fingerprint(key)}).`,
    typed ? "You gave this key." : "This key stands in this file, so the author of the file chose it. Type the one that you know.",
    "A changed file could also have a changed script: “verify.html” and “tally verify” check this file from outside.",
  ];
  const state = found.differences.length > 0 ? "bad" : typed ? "good" : "unknown";
  showMark(place, state, lines, typed ? [] : [keyForm(again)]);
}

function again(text) {
  run(parseKey(text));
}

function run(typed) {
  try {
    check(typed);
  } catch (err) {
    const bad = err instanceof Refused || err instanceof Malformed;
    if (bad) showAlarm([err.message]);
    showMark(place, bad ? "bad" : "unclear", [err.message], [keyForm(again)]);
  }
}

showMark(place, "checking", []);
run(null);
