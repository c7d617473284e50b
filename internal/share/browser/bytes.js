// Bytes and texts, each in its one spelling.

// Refused: the bytes were read and do not prove what they should.
export class Refused extends Error {}

// Malformed: the bytes are not in the form that their page in docs/formats describes.
export class Malformed extends Error {}

// Newer: a newer program wrote the bytes, which says nothing about them.
export class Newer extends Malformed {}

export function must(ok, why, kind = Malformed) {
  if (!ok) throw new kind(why);
}

export const VERSION = "1-draft";

// checkFormat refuses a document of another format. Another version of the same one is
// newer, not wrong.
export function checkFormat(found, expected) {
  const family = expected.slice(0, -VERSION.length);
  const newer = typeof found === "string" && found !== expected && found.startsWith(family) && /^[0-9a-z.-]{1,40}$/.test(found.slice(family.length));
  must(!newer, `written in format ${found} by a newer tally; this page reads ${VERSION}`, Newer);
  must(found === expected, `the format is another one than ${expected}`);
}

const ENCODER = new TextEncoder();

export function utf8(text) {
  return ENCODER.encode(text);
}

// text decodes UTF-8 and refuses everything else. A byte order mark stays, so that
// a reader of the text stumbles over it.
export function text(bytes) {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new Malformed("not UTF-8");
  }
}

// byteLength is utf8(text).length. Nearly all texts are ASCII, and need no copy.
export function byteLength(text) {
  for (let i = 0; i < text.length; i++) if (text.charCodeAt(i) > 127) return utf8(text).length;
  return text.length;
}

const HEX = Array.from({ length: 256 }, (_, i) => i.toString(16).padStart(2, "0"));

export function hex(bytes) {
  let s = "";
  for (let i = 0; i < bytes.length; i++) s += HEX[bytes[i]];
  return s;
}

// fromDigest reads "blake3:…" or "sha256:…", and nothing shorter or in capitals.
export function fromDigest(value, prefix) {
  must(typeof value === "string" && new RegExp("^" + prefix + ":[0-9a-f]{64}$").test(value), `not a ${prefix} digest: ${String(value).slice(0, 80)}`);
  return Uint8Array.from({ length: 32 }, (_, i) => parseInt(value.substr(prefix.length + 1 + 2 * i, 2), 16));
}

export function equal(a, b) {
  return a.length === b.length && a.every((x, i) => x === b[i]);
}

export function concat(...parts) {
  const out = new Uint8Array(parts.reduce((n, p) => n + p.length, 0));
  let at = 0;
  for (const p of parts) {
    out.set(p, at);
    at += p.length;
  }
  return out;
}

const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

export function base64(bytes) {
  let s = "";
  for (let i = 0; i < bytes.length; i += 3) {
    const n = (bytes[i] << 16) | ((bytes[i + 1] ?? 0) << 8) | (bytes[i + 2] ?? 0);
    const four = [n >> 18, (n >> 12) & 63, (n >> 6) & 63, n & 63].map((x) => ALPHABET[x]);
    s += four.slice(0, Math.min(4, bytes.length - i + 1)).join("").padEnd(4, "=");
  }
  return s;
}

// fromBase64 reads standard base64 with padding. Stray bits are a second spelling of
// the same bytes, so what was read must be written the same way.
export function fromBase64(s, length) {
  const bare = s.replace(/={1,2}$/, "");
  must(s.length % 4 === 0 && /^[A-Za-z0-9+/]*$/.test(bare), "not base64: " + s.slice(0, 20));
  const out = new Uint8Array(Math.floor((bare.length * 3) / 4));
  let bits = 0, value = 0, at = 0;
  for (const c of bare) {
    value = ((value << 6) | ALPHABET.indexOf(c)) & 0xffffff;
    bits += 6;
    if (bits >= 8) {
      bits -= 8;
      out[at++] = (value >> bits) & 255;
    }
  }
  must(base64(out) === s, "base64 with stray bits: " + s.slice(0, 20));
  must(length === undefined || out.length === length, `base64 of ${out.length} bytes, not ${length}`);
  return out;
}
