// A function in TypeScript's neighbourhood, evaluated in this process: npx tallystick eval refunds.eval.mjs
import { Eval } from "tallystick";

const decide = ({ days, opened }) => (days <= 30 && !opened ? "refund" : "no refund");

await Eval("refund-rules", {
  data: [
    { id: "in-time", input: { days: 12, opened: false }, expected: "refund" },
    { id: "too-late", input: { days: 45, opened: false }, expected: "no refund" },
    { id: "opened", input: { days: 3, opened: true }, expected: "no refund" },
  ],
  task: decide,
  scores: ["exact", ({ output }) => ({ score: output.length < 20, reason: `${output.length} letters` })],
});
