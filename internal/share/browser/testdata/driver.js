// Answers questions of the Go tests: one JSON line in, one JSON line out.
import { createInterface } from "node:readline";
import { readFileSync } from "node:fs";
import { utf8, text, hex, fromBase64 } from "./bytes.js";
import { sha256, sha512, blake3 } from "./hash.js";
import { verifies, isWeak } from "./ed25519.js";
import { canonical } from "./canon.js";
import { parseKey, verifyReceipt, verifyProofs, verifyCheckpoint, claimOf } from "./receipt.js";
import { verifyTrajectory } from "./trajectory.js";
import { checkDocument } from "./rules.js";
import { parseEntry } from "./receipt.js";
import { shown } from "./formats.js";
import { mayHide } from "./markup.js";

const un = (h) => Uint8Array.from(h.match(/../g) ?? [], (x) => parseInt(x, 16));

const OPS = {
  sha256: (q) => hex(sha256(un(q.data))),
  sha512: (q) => hex(sha512(un(q.data))),
  blake3: (q) => hex(blake3(un(q.data))),
  base64: (q) => hex(fromBase64(q.data)),
  ed25519: (q) => verifies(un(q.key), un(q.data), un(q.signature)),
  weak: (q) => isWeak(un(q.key)),
  canonical: (q) => (canonical(text(un(q.data))), true),
  receipt: (q) => verifyReceipt(text(un(q.data)), [parseKey(q.key)], q.entry ?? null).entry.kind,
  checkpoint: (q) => verifyCheckpoint(text(un(q.data)), [parseKey(q.key)]).size,
  claim: (q) => { const keys = [parseKey(q.key)]; return claimOf(verifyProofs(un(q.data), keys), keys); },
  trajectory: (q) => verifyTrajectory(text(un(q.data)), q.head).length,
  records: (q) => { const v = canonical(text(un(q.data))); q.as === "entry" ? parseEntry(text(un(q.data))) : checkDocument("records", q.as, v); return true; },
  events: (q) => (checkDocument("events", q.as, canonical(text(un(q.data)))), true),
  shown: (q) => shown(q.value, q.as),
  hide: (q) => mayHide(q.name, q.value, q.before),
  // Every single bit of a receipt, turned around: how many are accepted all the same.
  flips: (q) => {
    const data = un(q.data), keys = [parseKey(q.key)];
    const accepted = [];
    for (let bit = 0; bit < data.length * 8; bit++) {
      data[bit >> 3] ^= 1 << (bit & 7);
      try { verifyReceipt(text(data), keys); accepted.push(bit); } catch {}
      data[bit >> 3] ^= 1 << (bit & 7);
    }
    return { tried: data.length * 8, accepted };
  },
  time: (q) => {
    const keys = [parseKey(q.key)], s = text(un(q.data));
    for (let i = 0; i < 20; i++) verifyReceipt(s, keys);
    const begin = performance.now();
    for (let i = 0; i < q.times; i++) verifyReceipt(s, keys);
    return (performance.now() - begin) / q.times;
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const q = JSON.parse(line);
  let answer;
  try {
    answer = { ok: OPS[q.op](q) };
  } catch (err) {
    answer = { error: err.message, kind: err.constructor.name };
  }
  console.log(JSON.stringify(answer));
}
