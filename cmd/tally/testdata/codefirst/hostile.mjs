// Data, tasks and scorers that do what they should not: one case each, and the others go on.
import assert from "node:assert/strict";
import fs from "node:fs";
import { Eval, EvalFailed, TallyError } from "tallystick";

const loop = {};
loop.self = loop;
const task = async (input, hooks) => {
  console.log("not an answer");
  const k = hooks.metadata.k;
  if (k === "big") return "x".repeat(1e7);
  if (k === "none") return undefined;
  if (k === "odd") return { a: NaN, b: 2n ** 80n, c: new Map([["x", 1]]), d: [undefined, Symbol("s")] };
  if (k === "unicode") return "h\ud800é\u202e😀";
  if (k === "exit") process.exit(0);
  if (k === "raise") throw new Error("no <b>such</b> thing");
  if (k === "hang") await new Promise(() => {});
  if (k === "loop") return loop;
  if (k === "text") throw "only a text";
  return "<script>alert(1)</script>\x1b[2J";
};
const notANumber = ({ output }) => (output === undefined ? NaN : true);
const raises = (input, output, expected) => { if (input.k === "unicode") throw new TypeError("the scorer broke"); return 1; };
const silent = async ({ input }) => (input.k === "odd" ? null : { name: "other", score: 1, reason: "ok" });
const names = ["big", "none", "odd", "unicode", "exit", "raise", "hang", "loop", "text", "html"];
const data = names.map((k) => ({ id: `${k}/../x`, input: { k, "half \ud800": "\udfff" }, metadata: { k, n: Infinity }, tags: ["a b", "ünï"] }));
const r = await Eval('Hostile / ../ "Eval": <i>', { data, task, scores: [notANumber, raises, silent], timeout: 3, quiet: true });
const got = Object.fromEntries(r.cases.map((c) => [c.id.split("-..-")[0], c]));
assert.deepEqual(Object.fromEntries(Object.entries(got).map(([k, c]) => [k, c.outcome])),
  { big: "errored", none: "unscored", odd: "passed", unicode: "unscored", exit: "errored", raise: "errored", hang: "errored", loop: "passed", text: "errored", html: "passed" }, JSON.stringify(r.cases.map((c) => [c.id, c.reason])));
for (const [k, said] of Object.entries({ big: "more than the 4194304", none: "it returned NaN", unicode: "TypeError: the scorer broke", exit: "process.exit(0) was called", raise: "Error: no <b>such</b> thing", hang: "took longer than 3 seconds", text: "only a text" })) {
  assert.ok(got[k].reason.includes(said), `${k}: ${got[k].reason}`);
}
assert.ok(!r.passed && process.exitCode === 4);
assert.ok(!/<script>|<b>such|<i>|\x1b/.test(r.toHTML()) && !String(r).includes("\x1b"));
assert.throws(() => r.raiseForFailures(), EvalFailed);

const one = [{ input: "a", expected: "a" }], same = (x) => x;
const refused = (words, name, options) => assert.rejects(Eval(name, { data: one, task: same, scores: ["exact"], quiet: true, ...options }), (e) => e.message.includes(words) || assert.fail(e));
await refused("rows 1 and 2", "twice", { data: [{ id: "x", input: 1 }, { id: "x", input: 2 }] });
await refused("no rows", "empty", { data: [] });
await refused('row 1 of the data has no "input"', "rowless", { data: [{ question: 1 }] });
await refused("no scores", "unscored", { scores: [] });
await refused("no letters", "/../", {});
await refused("kind", "unknown", { scores: ["no_such_grader"] });
await refused("another name", 'Hostile-..-"Eval"-<i>', {});
await refused("function of this process", "boxed", { scores: [() => 1], sandbox: true });
fs.mkdirSync(".tallystick/bench/mine", { recursive: true });
fs.writeFileSync(".tallystick/bench/mine/registration.yaml", "class: mine\ntrust: scratch\n");
await refused("was not written by Eval", "mine", {});
assert.ok((await Eval("changed", { data: one, task: same, scores: ["exact"], quiet: true })).passed);
fs.appendFileSync(".tallystick/bench/changed/dataset.jsonl", "\n");
await refused("was changed since", "changed", {});
const half = await Eval("halves", { data: [{ input: "h\ud800", expected: "\udfff" }], task: same, scores: [() => true], quiet: true });
assert.ok(half.passed, String(half));
console.log("all as expected");
