// Reports (docs/checking.md): a page that carries the receipts, entries and evidence of
// what it shows. checkReport is the same for the page itself and for verify.html.
import { Refused, VERSION, checkFormat, must, utf8, hex } from "./bytes.js";
import { blake3 } from "./hash.js";
import { canonical, get } from "./canon.js";
import { parseKey, verifyReceipt } from "./receipt.js";
import { verifyTrajectory } from "./trajectory.js";
import { Difference, compareCell, compareEvents, entryOf, isEntryCell, requireOne } from "./page.js";

export const REPORT = "tallystick-report/" + VERSION;

// reportData is what a page carries.
export function reportData(page) {
  const element = requireOne([...page.querySelectorAll('script[type="application/json"]#report-data')], "its data");
  let data;
  try {
    data = JSON.parse(element.textContent);
  } catch {
    must(false, "the data of the report is not JSON");
  }
  checkFormat(get(data, "format"), REPORT);
  must(Array.isArray(data.entries) && Array.isArray(data.cases), "not a report of this version");
  return data;
}

const digestOf = (text) => "blake3:" + hex(blake3(utf8(text)));

// checkReport verifies every receipt and piece of evidence in a report, and compares
// every cell of the page. It gives what was proved, what differs, and how much was
// compared. Evidence that does not verify throws.
export function checkReport(page, keys) {
  const data = reportData(page);
  const checkpoints = new Map(), proved = new Map();
  for (const e of data.entries) {
    const p = verifyReceipt(e.receipt, keys, e.entry, checkpoints);
    must(p.index === e.index && !proved.has(p.index), `entry ${e.index}: the receipt is of entry ${p.index}`, Refused);
    proved.set(p.index, p);
  }
  must(checkpoints.size === 1, "the receipts are of more than one state of the ledger", Refused);
  const differences = [];
  let compared = 0;
  for (const cell of page.querySelectorAll("[data-field]")) {
    if (!isEntryCell(cell)) continue;
    const index = entryOf(cell), p = proved.get(index);
    compared++;
    const d = p ? compareCell(cell, p.entry.body, `entry ${index} (${p.entry.kind})`) : new Difference(`entry ${index}`, cell.textContent.trim(), "nothing: its receipt is not here");
    if (d) differences.push(d);
  }
  for (const c of data.cases) compared += checkCase(page, c, proved, differences);
  for (const list of page.querySelectorAll("[data-trajectory], [data-grading]")) {
    if (!data.cases.some((c) => c.entry === entryOf(list) && c.without === undefined)) differences.push(new Difference(`entry ${entryOf(list)}`, "a transcript or scoring", "nothing: its evidence is not here"));
  }
  return { data, proved, differences, compared, key: proved.values().next().value?.key };
}

// checkCase verifies the evidence of one case: the record names its index, the index
// names the rest.
function checkCase(page, c, proved, differences) {
  const p = proved.get(c.entry);
  must(p && p.entry.kind === "case.scored", `evidence of entry ${c.entry}, which is not a record of a case here`, Refused);
  if (c.without !== undefined) return 0;
  must(digestOf(c.index) === p.entry.body.evidence[0], `entry ${c.entry}: the index is not the one that the record names`, Refused);
  const index = canonical(c.index), what = `case ${p.entry.body.case_id}`;
  let compared = 0;
  const section = (name) => [...page.querySelectorAll(`[data-${name}]`)].filter((e) => entryOf(e) === c.entry);
  must(digestOf(c.trajectory) === index.trajectory.digest, `${what}: the transcript is not the one that the record names`, Refused);
  const events = new Map(verifyTrajectory(c.trajectory, index.trajectory.head).map((event, i) => [i + 1, event]));
  for (const list of section("trajectory")) {
    differences.push(...compareEvents(list, events, what));
    compared += list.querySelectorAll("[data-field]").length;
  }
  if (c.grading === undefined) {
    for (const part of section("grading")) differences.push(new Difference(what, part.textContent.trim(), "nothing: no scoring is here"));
  } else {
    must(digestOf(c.grading) === index.grading, `${what}: the scoring is not the one that the record names`, Refused);
    const grading = canonical(c.grading);
    for (const part of section("grading")) {
      for (const cell of part.querySelectorAll("[data-field]")) {
        const d = compareCell(cell, grading, `${what}, scoring`);
        compared++;
        if (d) differences.push(d);
      }
    }
  }
  return compared;
}

// claimedKey is the key that a report itself names: it shows that the report is
// consistent, not who made it.
export function claimedKey(page) {
  return parseKey(String(reportData(page).key));
}
