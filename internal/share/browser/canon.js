// Canonical JSON (docs/formats/canonical-json.md): RFC 8785, which is what
// JSON.stringify of ECMAScript writes, with sorted names and stricter numbers.
import { Malformed, must } from "./bytes.js";

const MOST_DEPTH = 64;

export function encode(value, depth = 1) {
  if (value === null || typeof value === "boolean") return String(value);
  if (typeof value === "string") {
    // A surrogate without its partner has an escape and no character.
    must(value.isWellFormed ? value.isWellFormed() : !/\p{Surrogate}/u.test(value), "a surrogate without its partner");
    return JSON.stringify(value);
  }
  if (typeof value === "number") {
    must(Number.isFinite(value) && (Math.abs(value) < 2 ** 53 || Math.abs(value) >= 1e21), "an integer beyond 2^53-1, or no number");
    return JSON.stringify(value);
  }
  must(depth <= MOST_DEPTH, "more than 64 arrays and objects inside each other");
  if (Array.isArray(value)) return "[" + value.map((x) => encode(x, depth + 1)).join(",") + "]";
  // Names sort by UTF-16 code units, which is how ECMAScript compares strings.
  const names = Object.keys(value).sort();
  return "{" + names.map((n) => encode(n) + ":" + encode(value[n], depth + 1)).join(",") + "}";
}

// canonical decodes a text that must be what encoding gives. That refuses white space,
// another order or spelling, and a name that is there twice: the copy has it once.
export function canonical(text) {
  let value;
  try {
    value = JSON.parse(text);
  } catch {
    throw new Malformed("not JSON");
  }
  must(encode(value) === text, "not canonical JSON");
  return value;
}

// has and get look at members that a document has itself, whatever they are called.
export function has(value, name) {
  return typeof value === "object" && value !== null && !Array.isArray(value) && Object.hasOwn(value, name);
}

export function get(value, name) {
  return has(value, name) ? value[name] : undefined;
}

// pointer is the value at a JSON pointer (RFC 6901), or undefined.
export function pointer(value, path) {
  if (path === "") return value;
  must(path.startsWith("/"), "not a JSON pointer: " + path);
  for (const part of path.slice(1).split("/")) {
    const name = part.replaceAll("~1", "/").replaceAll("~0", "~");
    if (Array.isArray(value)) {
      value = /^(0|[1-9][0-9]{0,8})$/.test(name) ? value[Number(name)] : undefined;
    } else {
      value = get(value, name);
    }
  }
  return value;
}
