// Reports (docs/checking.md): a page that carries the receipts, entries and evidence of
// what it shows. What is here verifies that data; report_draw.js makes the page of it.
// Both are the same for the page itself and for verify.html.
import { Refused, VERSION, checkFormat, must, utf8, hex } from "./bytes.js";
import { blake3 } from "./hash.js";
import { canonical, get } from "./canon.js";
import { verifyReceipt } from "./receipt.js";
import { verifyTrajectory } from "./trajectory.js";
import { encodeData } from "./report_draw.js";

export const REPORT = "tallystick-report/" + VERSION;

// reportData reads the data of a report. It has one spelling.
export function reportData(text) {
  let data;
  try {
    data = JSON.parse(text);
  } catch {
    must(false, "the data of the report is not JSON");
  }
  checkFormat(get(data, "format"), REPORT);
  must(Array.isArray(data.entries) && data.entries.length > 0 && Array.isArray(data.cases), "not a report of this version");
  must(encodeData(data) === text, "the data of the report is not spelled as the program spells it", Refused);
  return data;
}

const digestOf = (text) => "blake3:" + hex(blake3(utf8(text)));

// verifyReport verifies every receipt and piece of evidence in the data of a report, and
// gives the entries by their index. What does not verify throws.
export function verifyReport(data, keys) {
  const checkpoints = new Map(), proved = new Map();
  for (const e of data.entries) {
    const p = verifyReceipt(e.receipt, keys, e.entry, checkpoints);
    must(p.index === e.index && !proved.has(p.index), `entry ${e.index}: the receipt is of entry ${p.index}`, Refused);
    proved.set(p.index, p);
  }
  must(checkpoints.size === 1, "the receipts are of more than one state of the ledger", Refused);
  must(keys.some((k) => k.text === data.key), `the report names the key ${String(data.key).slice(0, 200)}, which is not one that was given`, Refused);
  for (const c of data.cases) verifyCase(c, proved);
  return proved;
}

// verifyCase verifies the evidence of one case: the record names its index, the index
// names the rest.
function verifyCase(c, proved) {
  const p = proved.get(c.entry);
  must(p && p.entry.kind === "case.scored", `evidence of entry ${c.entry}, which is not a record of a case here`, Refused);
  if (c.without !== undefined) {
    must([c.index, c.trajectory, c.grading].every((x) => x === undefined), `entry ${c.entry} is said to be without evidence, and has some`, Refused);
    return;
  }
  must(digestOf(c.index) === p.entry.body.evidence[0], `entry ${c.entry}: the index is not the one that the record names`, Refused);
  const index = canonical(c.index), what = `case ${p.entry.body.case_id}`;
  must(digestOf(c.trajectory) === index.trajectory.digest, `${what}: the transcript is not the one that the record names`, Refused);
  verifyTrajectory(c.trajectory, index.trajectory.head);
  must(c.grading === undefined || digestOf(c.grading) === index.grading, `${what}: the scoring is not the one that the record names`, Refused);
}
