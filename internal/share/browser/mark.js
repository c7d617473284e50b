// The mark: what this browser found out about the page, always at the same place, and the
// banner that a reader cannot miss. Both are made here, of text only.
import { sha256 } from "./hash.js";
import { base64, concat, utf8 } from "./bytes.js";

export const WORDS = {
  checking: "Checking…",
  good: "Verified with a key you gave",
  matched: "Values match the ledger; the page is not signed",
  unknown: "Consistent, signer not known to you",
  computed: "Computed by the server from entries",
  unclear: "Could not be checked",
  bad: "Does not verify",
};

// wordsOf are the words of a state, with what a reader must know besides: a record can be
// unchanged whose bench nobody vouches for, and then it is not called verified.
export const wordsOf = (state, brief, words = WORDS[state]) =>
  brief && ["good", "unknown", "matched"].includes(state) ? words.replace(/^Verified/, "Unchanged, checked") + "; " + brief : words;

const SIGNS = { checking: "…", good: "✓", matched: "≈", unknown: "?", computed: "Σ", unclear: "–", bad: "✗" };

export function element(name, attributes = {}, ...children) {
  const e = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === true) e.setAttribute(key, "");
    else if (value !== false && value !== undefined) e.setAttribute(key, value);
  }
  e.append(...children.filter((c) => c !== null && c !== undefined));
  return e;
}

// badge is a verdict in a word, with a sign: the reader need not see the colour. It is not
// green where there is a brief: what nobody vouches for does not look as if somebody did.
export function badge(state, text = WORDS[state], brief = undefined) {
  return element("strong", { class: "verdict", "data-state": state, "data-brief": Boolean(brief) }, element("span", { "aria-hidden": "true" }, SIGNS[state] + " "), text);
}

// DRAWN is what stands in the lock, as paths: it tells the states apart without colour.
const DRAWN = {
  checking: ["M8.5 16h.01M12 16h.01M15.5 16h.01"],
  good: ["M9 16l2.1 2.1 3.9-4.2"],
  matched: ["M12 15v2.5"],
  unknown: ["M10.3 14.6a1.8 1.8 0 1 1 2.5 1.6c-.6.3-.8.6-.8 1M12 19h.01"],
  computed: ["M12 15v2.5"],
  unclear: ["M9.5 16h5"],
  bad: ["M10 14l4 4M14 14l-4 4"],
};

// lock is a padlock, open where something does not verify. It is as wide in every state,
// so that nothing moves when the state becomes known.
function lock(state) {
  const draw = (name, attributes, ...children) => {
    const e = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
    e.append(...children);
    return e;
  };
  const shackle = state === "bad" ? "M8 11V8a4 4 0 0 1 7.6-1.7" : "M8 11V8a4 4 0 0 1 8 0v3";
  return draw("svg", { class: "lock", viewBox: "0 0 24 24", width: "22", height: "22", "aria-hidden": "true" },
    draw("rect", { x: "4.5", y: "11", width: "15", height: "10.5", rx: "2" }), ...[shackle, ...DRAWN[state]].map((d) => draw("path", { d })));
}

// fingerprint is what "ssh-keygen -l" prints of the same key.
export function fingerprint(key) {
  const wire = concat(Uint8Array.of(0, 0, 0, 11), utf8("ssh-ed25519"), Uint8Array.of(0, 0, 0, 32), key.key);
  return "SHA256:" + base64(sha256(wire)).replace(/=+$/, "");
}

// keyForm asks for a key. given is called with the text; what it throws is shown, as a
// change of our own to the page.
export function keyForm(given, own) {
  const input = element("input", { id: "key-given", name: "key", size: "44", autocomplete: "off", spellcheck: "false", "aria-describedby": "key-problem" });
  const problem = element("p", { id: "key-problem", class: "problem", role: "alert" });
  const form = element("form", { class: "key-form" },
    element("label", { for: "key-given" }, "The ledger’s key, from a person you trust and not from this page (NAME+ID+KEY)"),
    input, element("button", {}, "Check with this key"), problem);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    own(() => (problem.textContent = ""));
    try {
      given(input.value);
    } catch (err) {
      own(() => (problem.textContent = err.message));
    }
  });
  return form;
}

// showMark writes a verdict, what it rests on and what else the person can do, behind a
// lock; words are in place of those of the state, and brief is what they end with.
export function showMark(place, state, lines, more = [], words = WORDS[state], brief = undefined) {
  place.setAttribute("data-state", state);
  place.toggleAttribute("data-brief", Boolean(brief));
  const summary = element("summary", { title: words }, lock(state), element("span", { class: "words" }, words));
  const panel = element("div", { class: "mark-panel" }, element("p", {}, badge(state, words, brief)), ...lines.map((line) => element("p", {}, line)), ...more);
  place.replaceChildren(element("details", { class: "mark-more" }, summary, panel));
}

// showAlarm puts a banner above everything else.
export function showAlarm(problems, where = "This page") {
  document.getElementById("tallystick-alarm")?.remove();
  if (problems.length === 0) return;
  const shownOnes = problems.slice(0, 5).map((p) => element("li", {}, String(p)));
  const rest = problems.length > 5 ? element("p", {}, `and ${problems.length - 5} more`) : null;
  const alarm = element("div", { id: "tallystick-alarm", role: "alert", tabindex: "0", class: "tallystick-alarm" },
    element("strong", {}, `${where} shows something that was not signed, or that does not verify. Do not rely on it.`),
    element("ul", {}, ...shownOnes), rest);
  document.body.prepend(alarm);
}
