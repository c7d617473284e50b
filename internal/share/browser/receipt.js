// Keys, checkpoints, receipts and proofs (docs/formats/receipt.md, ledger.md): what makes
// an entry of a ledger believable to a reader who has one key and no ledger.
import { Refused, must, utf8, text, hex, base64, fromBase64, fromDigest, equal, concat, VERSION, checkFormat } from "./bytes.js";
import { sha256, sha512, blake3 } from "./hash.js";
import { verifies, isWeak } from "./ed25519.js";
import { canonical, encode, get, has } from "./canon.js";
import { checkDocument, isLike } from "./rules.js";

const MOST_RECEIPT = 65536;

function checkOrigin(origin) {
  must(isLike("origin", origin), "not the name of a ledger: " + origin.slice(0, 40));
  return origin;
}

// --- Keys ---

function keyID(name, type, key) {
  return sha256(concat(utf8(name + "\n"), Uint8Array.of(type), key)).subarray(0, 4);
}

// ledgerKey is the verifier key of a ledger and one of its operators.
export function ledgerKey(name, key) {
  must(key.length === 32 && !isWeak(key), "a weak key", Refused);
  const id = keyID(checkOrigin(name), 1, key);
  return { name, key, id, text: `${name}+${hex(id)}+${base64(concat(Uint8Array.of(1), key))}` };
}

// parseKey reads NAME+ID+KEY.
export function parseKey(vkey) {
  const m = /^([^+]+)\+([0-9a-f]{8})\+([A-Za-z0-9+/=]+)$/.exec(vkey.trim());
  must(m, "not a key in the form NAME+ID+KEY");
  const raw = fromBase64(m[3], 33);
  must(raw[0] === 1, "a key of another type than a ledger's: type " + raw[0]);
  const key = ledgerKey(m[1], raw.subarray(1));
  must(hex(key.id) === m[2], "the id in the key is not that of its name and bytes");
  return key;
}

// --- Checkpoints ---

const CHECKPOINT = /^([^\n]*)\n(0|[1-9][0-9]{0,15})\n([^\n]*)\n\n((?:\u2014 [^ \n]+ [^ \n]+\n){1,100})$/;

// parseCheckpoint gives the parts of a checkpoint, of which nothing is verified yet.
function parseCheckpoint(note) {
  const m = CHECKPOINT.exec(note);
  must(m && utf8(note).length <= MOST_RECEIPT, "not a checkpoint of three lines, and signatures");
  const size = Number(m[2]);
  must(Number.isSafeInteger(size), "a ledger of more entries than can be counted");
  const seen = new Set();
  const signatures = m[4].split("\n").slice(0, -1).map((line) => {
    const [, name, encoded] = line.split(" ");
    const bytes = fromBase64(encoded);
    must(bytes.length > 4 && !/[+\s\u0000-\u001f\u0085]/u.test(name), "a bad signature line");
    const who = name + " " + hex(bytes.subarray(0, 4));
    must(!seen.has(who), "a key signed the checkpoint twice");
    seen.add(who);
    return { who, bytes: bytes.subarray(4) };
  });
  return { origin: checkOrigin(m[1]), size, root: fromBase64(m[3], 32), signatures, text: note.slice(0, note.indexOf("\n\n") + 1) };
}

// verifyCheckpoint gives origin, size and root, and the key that signed them. A wrong
// signature by a key that was named refuses the whole.
export function verifyCheckpoint(note, keys) {
  const c = parseCheckpoint(note);
  let signer = null;
  for (const key of keys) {
    if (key.name !== c.origin) continue;
    const line = c.signatures.find((s) => s.who === key.name + " " + hex(key.id));
    if (!line) continue;
    must(verifies(key.key, utf8(c.text), line.bytes), "a wrong signature on the checkpoint of " + c.origin, Refused);
    signer = key;
  }
  must(signer, `the checkpoint of ${c.origin} is signed by no key that was named`, Refused);
  return { origin: c.origin, size: c.size, root: c.root, key: signer };
}

// --- Tree ---

const nodeHash = (left, right) => sha256(concat(Uint8Array.of(1), left, right));

// rootFromProof is the root over size leaves, from one of them and the hashes beside its
// way up (RFC 6962, section 2.1.1).
export function rootFromProof(leaf, index, size, proof) {
  if (size === 1) {
    must(proof.length === 0, "the proof is too long", Refused);
    return leaf;
  }
  must(proof.length > 0, "the proof is too short", Refused);
  let left = 1; // the largest power of two below size
  while (left * 2 < size) left *= 2;
  const rest = proof.slice(0, -1), last = proof[proof.length - 1];
  if (index < left) return nodeHash(rootFromProof(leaf, index, left, rest), last);
  return nodeHash(last, rootFromProof(leaf, index - left, size - left, rest));
}

function leafHash(origin, index, prev, content) {
  return sha256(concat(Uint8Array.of(0), utf8(encode({ content, index, origin, prev }))));
}

// --- Entries ---

// parseEntry decodes an entry strictly: its envelope, and its body by the rules of its kind.
export function parseEntry(line) {
  const entry = canonical(line);
  checkFormat(get(entry, "v"), VERSION);
  checkDocument("records", "entry", entry);
  return entry;
}

// --- Receipts ---

const RECEIPT = /^c2sp\.org\/tlog-proof@v1\nextra ([^\n]+)\nindex (0|[1-9][0-9]{0,15})\n((?:[^\n]+\n)*)\n([^]*)$/;

export const isReceipt = (s) => s.startsWith("c2sp.org/tlog-proof@v1\n");

// parseReceipt gives the parts of a receipt, of which nothing is verified yet.
export function parseReceipt(receipt) {
  const m = RECEIPT.exec(receipt);
  must(m && utf8(receipt).length <= MOST_RECEIPT, "not a receipt");
  const index = Number(m[2]);
  must(Number.isSafeInteger(index), "an index that cannot be counted to");
  const extra = canonical(text(fromBase64(m[1])));
  const names = Object.keys(extra).join(" ");
  must(has(extra, "content") && (names === "content prev" || names === "content entry prev"), "a receipt whose extra is not content, entry and prev");
  fromDigest(extra.content, "blake3");
  fromDigest(extra.prev, "sha256");
  return {
    index,
    proof: m[3].split("\n").slice(0, -1).map((line) => fromBase64(line, 32)),
    content: extra.content,
    prev: extra.prev,
    // The extra is canonical, so encoding a part of it gives the bytes that stand there.
    entry: has(extra, "entry") ? encode(extra.entry) : null,
    checkpoint: m[4],
  };
}

// verifyReceipt proves one entry. line is the entry's text, needed if the receipt does
// not carry it. checkpoints, a Map, remembers what was verified: most receipts of a page
// have the same checkpoint.
export function verifyReceipt(receipt, keys, line = null, checkpoints = new Map()) {
  const r = parseReceipt(receipt);
  if (!checkpoints.has(r.checkpoint)) checkpoints.set(r.checkpoint, verifyCheckpoint(r.checkpoint, keys));
  const c = checkpoints.get(r.checkpoint);
  must(r.entry !== null || line !== null, "the receipt does not carry its entry: give the file beside it, too");
  must(r.entry === null || line === null || r.entry === line, "the entry given is not the one in the receipt", Refused);
  const raw = r.entry ?? line;
  must("blake3:" + hex(blake3(utf8(raw))) === r.content, "the entry is not the one that the receipt is for", Refused);
  must(r.index < c.size, "the checkpoint does not cover the entry", Refused);
  const leaf = leafHash(c.origin, r.index, r.prev, r.content);
  must(equal(rootFromProof(leaf, r.index, c.size, r.proof), c.root), "the proof does not lead to the signed root", Refused);
  const entry = parseEntry(raw);
  must((entry.kind === "ledger.opened") === (r.index === 0), "ledger.opened is the first entry and no other", Refused);
  must(r.index > 0 || (r.prev === "sha256:" + "0".repeat(64) && entry.body.origin === c.origin), "the ledger was opened after something, or under another name", Refused);
  return { index: r.index, origin: c.origin, size: c.size, key: c.key, raw, entry };
}

// --- Several receipts in one file ---

const PROOFS = "tallystick-proof/";

export const isProofs = (s) => s.startsWith(PROOFS);

// verifyProofs verifies every receipt of a file. All have one checkpoint, so they speak
// of one state of one ledger.
export function verifyProofs(bytes, keys) {
  must(bytes.length <= 64 << 20 && isProofs(text(bytes.subarray(0, PROOFS.length))), "not a file of receipts");
  let at = bytes.indexOf(10) + 1;
  checkFormat(text(bytes.subarray(0, Math.max(0, at - 1))), PROOFS + VERSION);
  const checkpoints = new Map(), proved = [];
  while (at < bytes.length) {
    const end = bytes.indexOf(10, at);
    const m = end < 0 ? null : /^receipt (0|[1-9][0-9]{0,8})$/.exec(text(bytes.subarray(at, end)));
    must(m && end + 1 + Number(m[1]) <= bytes.length && proved.length < 1000, `part ${proved.length + 1}: expected a line "receipt N" and N bytes`);
    const receipt = text(bytes.subarray(end + 1, end + 1 + Number(m[1])));
    proved.push(verifyReceipt(receipt, keys, null, checkpoints));
    must(checkpoints.size === 1, `part ${proved.length} has another checkpoint than the first`, Refused);
    at = end + 1 + Number(m[1]);
  }
  must(proved.length > 0, "a file of receipts without a receipt");
  return proved;
}

// --- SSH signatures (docs/formats/signers.md), of plain Ed25519 keys ---

function sshFields(data, count) {
  const fields = [];
  for (let i = 0; i < count; i++) {
    must(data.length >= 4, "an SSH key or signature is cut off");
    const end = 4 + new DataView(data.buffer, data.byteOffset).getUint32(0);
    must(data.length >= end, "an SSH key or signature is cut off");
    fields.push(data.subarray(4, end));
    data = data.subarray(end);
  }
  must(data.length === 0, "bytes after an SSH key or signature");
  return fields;
}

export function sshKey(blob) {
  const [kind, key] = sshFields(blob, 2);
  must(text(kind) === "ssh-ed25519" && key.length === 32, "not an ssh-ed25519 key");
  must(!isWeak(key), "a weak key", Refused);
  return key;
}

const ARMOUR = /^-----BEGIN SSH SIGNATURE-----\n((?:(?:.{70}\n)*.{1,70}\n)|(?:(?:.{64}\n)*.{1,64}\n)|(?:(?:.{76}\n)*.{1,76}\n))-----END SSH SIGNATURE-----\n$/;

// signatureFields are the parts of one armoured signature: key, namespace, what is
// reserved, hash and signature.
function signatureFields(armoured) {
  const m = ARMOUR.exec(armoured);
  must(m && armoured.length < 1 << 16, "not one armoured SSH signature");
  const blob = fromBase64(m[1].replaceAll("\n", ""));
  must(equal(blob.subarray(0, 10), concat(utf8("SSHSIG"), Uint8Array.of(0, 0, 0, 1))), "not an SSHSIG of version 1");
  return sshFields(blob.subarray(10), 5);
}

// fingerprintOf is that of the key, of any kind, which a signature says that it is by.
export const fingerprintOf = (armoured) => "SHA256:" + base64(sha256(signatureFields(armoured)[0])).replace(/=+$/, "");

// sshSigner is the Ed25519 key that made one armoured signature of a message.
export function sshSigner(armoured, message, namespace) {
  const [pub, space, reserved, algorithm, signature] = signatureFields(armoured);
  const hash = { sha512, sha256 }[text(algorithm)];
  must(reserved.length === 0 && hash, "an SSHSIG with an unknown hash");
  must(text(space) === namespace, "an SSH signature for another act", Refused);
  const [kind, raw] = sshFields(signature, 2);
  const signed = [utf8("SSHSIG")];
  for (const field of [space, reserved, algorithm, hash(message)]) {
    const length = new DataView(new ArrayBuffer(4));
    length.setUint32(0, field.length);
    signed.push(new Uint8Array(length.buffer), field);
  }
  const key = sshKey(pub);
  must(text(kind) === "ssh-ed25519" && verifies(key, concat(...signed), raw), "a wrong SSH signature", Refused);
  return key;
}

// --- What receipts say together ---

// levelOf is what can be said without the signers: whether a key of the ledger signed
// the registration of a bench that is not scratch.
export function levelOf(registration, keys) {
  if (get(registration, "scratch")) return "scratch";
  try {
    const message = utf8(encode({ ...registration, signature: "" }));
    const signer = sshSigner(registration.signature, message, "tallystick-attempt");
    return keys.some((k) => equal(k.key, signer)) ? "signed" : "scratch";
  } catch {
    return "scratch";
  }
}

// claimOf puts together what receipts say of one case or one attempt: the first is what
// is claimed, then comes the registration of its attempt, then others of its class.
export function claimOf(proved, keys) {
  const [first, ...registrations] = proved;
  const body = first.entry.body;
  const claim = { origin: first.origin, entry: first.index, tree_size: first.size, attempt: body.attempt };
  if (first.entry.kind === "case.scored") {
    Object.assign(claim, { case: body.case_id, outcome: body.outcome, score: get(get(body, "score"), "score") });
  } else {
    must(first.entry.kind === "attempt.finished", `the first receipt is of ${first.entry.kind}, expected a case.scored or an attempt.finished`, Refused);
    Object.assign(claim, { outcome: "finished", outcomes: body.outcomes, score: get(body, "mean_score") });
  }
  must(registrations.length > 0, "the registration of the attempt is missing", Refused);
  registrations.forEach((p, i) => {
    const r = p.entry.body;
    must(p.entry.kind === "attempt.registered", `receipt ${i + 2} is of ${p.entry.kind}, expected an attempt.registered`, Refused);
    if (i === 0) {
      must(r.attempt === claim.attempt && r.origin === claim.origin && p.index <= claim.entry, "the registration is of another attempt than the record", Refused);
      Object.assign(claim, { class: r.class, target: r.target, number: r.number, of: r.number, level: levelOf(r, keys) });
    }
    must(r.class === claim.class, `receipt ${i + 2} is of class ${r.class}, the attempt of ${claim.class}`, Refused);
    claim.of = Math.max(claim.of, r.number);
  });
  return claim;
}
