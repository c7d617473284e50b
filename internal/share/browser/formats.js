// How a value of an entry becomes the text that a page shows (data-as), as the program
// does it. internal/serve/viewer/testdata/formats.json holds both to the same examples.
import { Malformed } from "./bytes.js";
import { encode } from "./canon.js";

const MOST_CHARACTERS = 4000;
const INVISIBLES = [[0xad, 0xad], [0x34f, 0x34f], [0x61c, 0x61c], [0x115f, 0x1160], [0x17b4, 0x17b5], [0x180b, 0x180f], [0x200b, 0x200f], [0x2028, 0x202e], [0x2060, 0x206f], [0x3164, 0x3164], [0xfe00, 0xfe0f], [0xfeff, 0xfeff], [0xffa0, 0xffa0], [0xfff0, 0xfffb], [0xe0000, 0xe0fff]];

// An emoji may be of several characters: a picture that is asked for in colour, and
// pictures that are joined. What joins them shows nothing alone.
const JOINER = 0x200d, IN_COLOUR = 0xfe0f, KEYCAP = 0x20e3;
const PICTURES = [[0xa9, 0xa9], [0xae, 0xae], [0x203c, 0x203c], [0x2049, 0x2049], [0x2122, 0x2122], [0x2139, 0x2139], [0x2190, 0x21ff], [0x2300, 0x24ff], [0x25a0, 0x27bf], [0x2900, 0x297f], [0x2b00, 0x2bff], [0x3030, 0x3030], [0x303d, 0x303d], [0x3297, 0x3299], [0x1f000, 0x1faff]];
const isPicture = (code) => PICTURES.some(([low, high]) => low <= code && code <= high);
const isKey = (code) => (code >= 0x30 && code <= 0x39) || code === 0x23 || code === 0x2a;

// joins reports whether what shows nothing alone is a part of an emoji here.
function joins(codes, i) {
  const before = codes[i - 1], after = codes[i + 1];
  if (codes[i] === IN_COLOUR) return isPicture(before) || (isKey(before) && after === KEYCAP);
  return codes[i] === JOINER && (isPicture(before) || (before === IN_COLOUR && isPicture(codes[i - 2]))) && isPicture(after);
}

// visible makes an untrusted text visible: what steers, reverses or shows nothing
// is spelled out.
export function visible(s) {
  let out = "", n = 0;
  const codes = Array.from(s.length > 4 * MOST_CHARACTERS ? s.slice(0, 4 * MOST_CHARACTERS) : s, (c) => c.codePointAt(0));
  for (const [i, code] of codes.entries()) {
    if (++n > MOST_CHARACTERS) return out + "…";
    if (code === 10 || code === 9) out += String.fromCodePoint(code);
    else if (code < 32 || (code >= 127 && code <= 159)) out += "\\x" + code.toString(16).padStart(2, "0");
    else if (INVISIBLES.some(([low, high]) => low <= code && code <= high) && !joins(codes, i)) out += "\\u{" + code.toString(16) + "}";
    else out += String.fromCodePoint(code);
  }
  return out;
}

// fixed is toFixed without a minus before nothing.
const fixed = (x, decimals) => {
  const s = x.toFixed(decimals);
  return /^-[0.]*$/.test(s) ? s.slice(1) : s;
};

function dollars(micro) {
  if (!Number.isSafeInteger(micro)) throw new Malformed("an amount that is not a whole number of microdollars");
  const amount = Math.abs(micro);
  const cents = String(amount % 1e6).padStart(6, "0").replace(/0+$/, "").padEnd(2, "0");
  return `${micro < 0 ? "-" : ""}$${Math.floor(amount / 1e6)}.${cents}`;
}

const PASSED = "passed";

// counts reads counts by outcome: how many there are, and how many passed.
function counts(object) {
  let total = 0;
  for (const n of Object.values(object)) {
    if (!Number.isSafeInteger(n) || n < 0 || n > 2 ** 40) throw new Malformed("counts that are not whole numbers");
    total += n;
  }
  return { total, passed: Object.hasOwn(object, PASSED) ? object[PASSED] : 0 };
}

function share(object) {
  const { total, passed } = counts(object);
  if (total === 0) throw new Malformed("a share of nothing");
  return { rate: passed / total, total };
}

// wilson is the score interval of a rate (Wilson 1927) at 95 percent.
export function wilson(p, n) {
  const z = 1.959963984540054, zz = z * z;
  const centre = p + zz / (2 * n), half = z * Math.sqrt((p * (1 - p)) / n + zz / (4 * n * n)), scale = 1 + zz / n;
  return [p === 0 ? 0 : Math.max(0, (centre - half) / scale), p === 1 ? 1 : Math.min(1, (centre + half) / scale)];
}

// cost is what a record, the end of an attempt or an event says that was spent, and what
// of that is not known. A record from before unpriced calls were counted proves by other
// members that there were none, or does not tell.
export function costOf(o) {
  if (!Number.isSafeInteger(o.cost_microdollars)) throw new Malformed("not a cost");
  const own = (name) => (Object.hasOwn(o, name) ? o[name] : undefined);
  let unpriced = own("unpriced_calls") ?? 0, untold = 0;
  if (own("outcomes") !== undefined) {
    untold = own("unpriced_calls") === undefined ? 1 : own("cost_unknown_tasks") ?? 0;
  } else if (own("vantage") !== undefined) {
    const from = own("cassette_provenance") ?? "", paid = own("paid"), cached = own("cached");
    const answered = from === "" || from === "authored" || (paid !== undefined && !(cached?.replies > 0));
    const proved = answered && !(paid?.unknown_calls > 0);
    if (!["inside", "gateway"].includes(own("vantage")) || (own("unpriced_calls") === undefined && !proved)) untold = 1;
  } else if (own("unpriced") === true) {
    unpriced = 1;
  }
  if (!Number.isSafeInteger(unpriced) || !Number.isSafeInteger(untold)) throw new Malformed("not a cost");
  return { micro: o.cost_microdollars, unpriced, untold };
}

function cost(o) {
  const { micro, unpriced, untold } = costOf(o);
  const amount = dollars(micro), plural = (n, noun) => (n === 1 ? "1 " + noun : n + " " + noun + "s"), missing = [];
  if (unpriced > 0) missing.push(plural(unpriced, "call") + " unpriced");
  if (untold > 0) missing.push("cost of " + plural(untold, "task") + " not all told");
  if (missing.length === 0) return amount;
  if (micro === 0 && unpriced === 0) return "unknown";
  return "at least " + amount + ", " + missing.join(", ");
}

// What is less than all is never shown as all.
export const number = (x) => (x < 1 && fixed(x, 3) === "1.000" ? "0.999" : fixed(x, 3));
const percent = (x) => (x < 1 && fixed(x * 100, 1) === "100.0" ? "99.9" : fixed(x * 100, 1)) + " %";

const OUTCOMES = { passed: "Passed", failed: "Failed", skipped: "Skipped", unscored: "Unscored", truncated: "Truncated", errored: "Error", not_run: "Not run" };

const FORMATS = {
  number: {
    number3: number,
    percent1: percent,
    usd: dollars,
    text: (x) => JSON.stringify(x),
  },
  string: {
    text: visible,
    time: (s) => {
      if (!/^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z$/.test(s)) throw new Malformed("not a time");
      return s.slice(0, 10) + " " + s.slice(11, 19) + " UTC";
    },
    outcome: (s) => (Object.hasOwn(OUTCOMES, s) ? OUTCOMES[s] : visible(s)),
  },
  boolean: { bool: (b) => (b ? "yes" : "no") },
  object: {
    cost,
    total: (o) => String(counts(o).total),
    solved1: (o) => percent(share(o).rate),
    interval1: (o) => {
      const { rate, total } = share(o);
      return wilson(rate, total).map(percent).join(" – ");
    },
  },
};

// shown is the text of a value. Where an entry has none, a page shows a dash.
export function shown(value, as) {
  if (value === undefined) return "–";
  if (as === "json") return visible(encode(value));
  const formats = (value !== null && !Array.isArray(value) && FORMATS[typeof value]) || {};
  const format = Object.hasOwn(formats, as) ? formats[as] : null;
  if (!format) throw new Malformed(`the format ${as} does not take ${JSON.stringify(value).slice(0, 80)}`);
  return format(value);
}
