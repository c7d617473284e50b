// The rules of records and events (docs/formats/rules/README.md), interpreted. The rules
// themselves are rules_data.js, which a test writes from docs/formats/rules.
import { Malformed, must, byteLength, utf8, hex, fromBase64, equal } from "./bytes.js";
import { blake3 } from "./hash.js";
import { encode, get, has } from "./canon.js";
import { RULES } from "./rules_data.js";

const BANNED = ["confidence", "llm", "self_reported", "model_says"];
const INVISIBLE = /[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\u{e0000}-\u{e0fff}\u0000-\u001f\u007f-\u009f]/u;

function isTime(value, decimals) {
  const m = /^([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})(\.[0-9]{3})?Z$/.exec(value);
  if (!m || (m[7] !== undefined) !== decimals || m[1] === "0000") return false;
  const date = new Date(decimals ? value : value.replace("Z", ".000Z"));
  return !Number.isNaN(date.getTime()) && date.toISOString() === (decimals ? value : value.replace("Z", ".000Z"));
}

// isObjective: no word of a name, in any case and however joined, is one that no score
// may claim.
function isObjective(name) {
  const all = [...name];
  const letter = (c) => c !== undefined && /\p{L}/u.test(c);
  const upper = (c) => c !== undefined && /\p{Lu}/u.test(c);
  const lower = (c) => c !== undefined && /\p{Ll}/u.test(c);
  let spelled = "";
  all.forEach((c, i) => {
    if (!letter(c)) {
      spelled += "_";
      return;
    }
    if (upper(c) && letter(all[i - 1]) && (lower(all[i - 1]) || lower(all[i + 1]))) spelled += "_";
    spelled += [...c.toLowerCase()][0];
  });
  const joined = "_" + spelled.split("_").filter(Boolean).join("_") + "_";
  return !BANNED.some((word) => joined.includes("_" + word + "_"));
}

// isSSHKey: a type, and base64 that begins with it. Whether it is a good key is for
// signers.md.
function isSSHKey(line) {
  const bare = line.endsWith("\n") ? line.slice(0, -1) : line;
  const [type, blob] = bare.split(/[ \t]+/).filter(Boolean);
  if (/[\r\n]/.test(bare) || !blob || !/^(ssh-(ed25519|rsa)|ecdsa-sha2-nistp(256|384|521)|sk-(ssh-ed25519|ecdsa-sha2-nistp256)@openssh[.]com)$/.test(type)) return false;
  let wire;
  try {
    wire = fromBase64(blob);
  } catch {
    return false;
  }
  const label = Uint8Array.of(0, 0, 0, type.length, ...utf8(type));
  const rest = wire.subarray(label.length);
  return equal(wire.subarray(0, label.length), label) &&
    (type !== "ssh-ed25519" || (rest.length === 36 && equal(rest.subarray(0, 4), Uint8Array.of(0, 0, 0, 32))));
}

const relative = (v) => !v.split("/").some((part) => ["", ".", ".."].includes(part));

const FORMS = {
  blake3: (v) => /^blake3:[0-9a-f]{64}$/.test(v),
  sha256: (v) => /^sha256:[0-9a-f]{64}$/.test(v),
  not_zero: (v) => !v.endsWith(":" + "0".repeat(64)),
  time: (v) => isTime(v, true),
  second: (v) => isTime(v, false),
  origin: (v) => /^[a-z0-9._/-]{1,200}$/.test(v) && relative(v),
  name: (v) => /^[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9_-])?$/.test(v),
  objective: isObjective,
  visible: (v) => !INVISIBLE.test(v),
  no_control: (v) => !/[\u0000-\u001f\u007f-\u009f]/.test(v),
  relative_path: (v) => !v.startsWith("..") && relative(v),
  ssh_public_key: isSSHKey,
  six_decimals: (v) => Math.round(v * 1e6) / 1e6 === v,
};

// isLike is for texts that stand in no document: a form is in one place.
export const isLike = (form, text) => FORMS[form](text);

const isObject = (v) => typeof v === "object" && v !== null && !Array.isArray(v);

const KINDS = {
  text: (v) => typeof v === "string",
  count: (v) => Number.isSafeInteger(v),
  number: (v) => typeof v === "number",
  flag: (v) => typeof v === "boolean",
  list: (v) => Array.isArray(v),
  map: isObject,
  object: isObject,
};

// find is the member at a path with dots, or undefined: null is not a value of ours.
function find(value, path) {
  for (const name of path.split(".")) value = get(value, name);
  return value === null ? undefined : value;
}

function identity(by, item) {
  if (by === "look") {
    item = item.toLowerCase();
    for (const [old, now] of [["rn", "m"], ["vv", "w"], ["0", "o"], ["1", "l"], ["i", "l"], ["_", "-"]]) item = item.replaceAll(old, now);
    return item;
  }
  return encode(by === "value" ? item : by.split(" ").map((name) => get(item, name) ?? null));
}

const size = (value) => byteLength(encode(value));

function byBytes(a, b) {
  const x = utf8(a), y = utf8(b);
  for (let i = 0; i < Math.min(x.length, y.length); i++) if (x[i] !== y[i]) return x[i] - y[i];
  return x.length - y.length;
}

// patternOf keeps the patterns of the rules: they are few, and compiling one takes longer
// than asking it.
const PATTERNS = new Map();

function patternOf(pattern) {
  if (!PATTERNS.has(pattern)) PATTERNS.set(pattern, new RegExp("^(?:" + pattern + ")$"));
  return PATTERNS.get(pattern);
}

// wrong is must for what is asked of every value: its words are made only if they are
// needed, because there are millions of values.
function wrong(why) {
  throw new Malformed(why);
}

class Rules {
  constructor(file) {
    this.file = file;
  }

  shape(name) {
    return get(this.file.documents, name) ?? get(this.file.shapes, name);
  }

  document(name, value) {
    const shape = this.shape(name);
    must(shape, `the rules know no ${String(name).slice(0, 40)}`);
    this.value(shape, value, name);
  }

  value(s, v, at) {
    const what = s.is;
    if (what === "any") return;
    if (!has(KINDS, what)) {
      this.value(this.file.shapes[what], v, at);
      return;
    }
    KINDS[what](v) || wrong(`${at} is not a ${what}`);
    if (what !== "flag" && what !== "object") {
      const amount = typeof v === "number" ? v : typeof v === "string" ? byteLength(v) : Array.isArray(v) ? v.length : Object.keys(v).length;
      ((s.min ?? amount) <= amount && amount <= (s.max ?? amount) && (s.above === undefined || amount > s.above)) || wrong(`${at} is too small or too large`);
    }
    (!s.one_of || s.one_of.includes(v)) || wrong(`${at} is another value than the rules have`);
    (!s.pattern || patternOf(s.pattern).test(v)) || wrong(`${at} does not fit its pattern`);
    for (const form of s.like ?? []) FORMS[form](v) || wrong(`${at} is not like ${form}`);
    if (what === "list") v.forEach((item, i) => this.value(s.of, item, `${at}.${i}`));
    if (what === "map") {
      for (const name of Object.keys(v)) {
        if (s.names) this.value(s.names, name, "a name in " + at);
        this.value(s.of, v[name], `${at}.${name}`);
      }
    }
    if (s.distinct) (new Set(v.map((item) => identity(s.distinct, item))).size === v.length) || wrong(`${at} has something twice`);
    if (s.sorted) (v.every((item, i) => i === 0 || byBytes(v[i - 1], item) <= 0)) || wrong(`${at} is not in order`);
    if (what === "object") this.object(s, v, at);
  }

  object(s, v, at) {
    const known = s.members ?? {};
    for (const name of Object.keys(v)) has(known, name) || wrong(`${at} has a member that the rules do not know: ${name.slice(0, 60)}`);
    for (const name in known) {
      const shape = known[name];
      (has(v, name) || shape.optional) || wrong(`${at} has no ${name}`);
      if (has(v, name)) this.value(shape, v[name], `${at}.${name}`);
    }
    for (const rule of s.rules ?? []) this.holds(v, ...rule) || wrong(`${at}: not so: ${rule.join(" ").slice(0, 120)}`);
  }

  // holds is a relation between members. One that needs a member that is absent holds.
  holds(v, rule, ...args) {
    const value = args.map((a) => (typeof a === "string" ? find(v, a) : undefined));
    const there = value.map((x) => x !== undefined);
    const [a, b] = value;
    const listed = b !== undefined && args.slice(2).includes(b);
    switch (rule) {
      case "exactly_one": return there.filter(Boolean).length === 1;
      case "together": return new Set(there).size === 1;
      case "needs": return there[1] || !there[0];
      case "needed_when": return there[0] || !listed;
      case "absent_when": return !(there[0] && listed);
      case "there_when": return there[0] === listed;
      case "true_when": return a === undefined || a === listed;
      case "document":
        must(typeof b === "string" && has(this.file.documents, b), "no document is called " + String(b).slice(0, 40));
        this.document(b, a);
        return true;
      case "head": return byteLength(find(v, args[0] + ".head") ?? "") <= args[1];
      case "bytes": return size(v) <= args[0];
      case "whole_text": return wholeText(v);
      case "whole_arguments": return wholeArguments(v);
      case "ascending": {
        const values = args[2].map(([name, without]) => find(v, [args[0], name, args[1]].filter(Boolean).join(".")) ?? without);
        return values.every((x, i) => i === 0 || values[i - 1] <= x);
      }
    }
    if (a === undefined || b === undefined) return true;
    switch (rule) {
      case "at_most": return a <= b;
      case "differ": return a !== b;
      case "length": return a.length === b;
      case "sum": return Object.values(a).reduce((x, y) => x + y, 0) === b;
      case "fits": return (get(args[2], String(a)) ?? []).includes(b);
    }
    throw new Malformed("the rules have a relation that is not known: " + rule);
  }
}

function wholeText(v) {
  const flags = ["lossy", "redacted", "truncated"].filter((name) => has(v, name));
  const head = utf8(v.head);
  if (flags.length === 1 && flags[0] === "truncated") return v.bytes > head.length;
  return flags.length > 0 || (v.bytes === head.length && v.digest === "blake3:" + hex(blake3(head)));
}

function wholeArguments(v) {
  const values = get(v, "values") ?? {}, cut = get(v, "cut") ?? {}, raw = get(v, "raw");
  if (raw) return Object.keys(values).length === 0 && Object.keys(cut).length === 0 && raw.bytes === v.bytes && raw.digest === v.digest;
  if (Object.keys(values).some((name) => has(cut, name) || size(values[name]) > 8192)) return false;
  const whole = utf8(encode(values));
  return Object.keys(cut).length > 0 || has(v, "redacted") || (v.bytes === whole.length && v.digest === "blake3:" + hex(blake3(whole)));
}

// checkDocument refuses a value that does not keep the rules of records or events.
export function checkDocument(file, name, value) {
  new Rules(RULES[file]).document(name, value);
}
