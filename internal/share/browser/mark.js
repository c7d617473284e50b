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
// verified whose bench is not vouched for.
export const wordsOf = (state, brief, words = WORDS[state]) => words + (brief && ["good", "unknown", "matched"].includes(state) ? "; " + brief : "");

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

// badge is a verdict in a word, with a sign: the reader need not see the colour.
export function badge(state, text = WORDS[state]) {
  return element("strong", { class: "verdict", "data-state": state }, element("span", { "aria-hidden": "true" }, SIGNS[state] + " "), text);
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

// showMark writes a verdict, what it rests on and what else the person can do; words are
// in place of those of the state.
export function showMark(place, state, lines, more = [], words = WORDS[state]) {
  place.setAttribute("data-state", state);
  const details = element("details", { class: "mark-more" }, element("summary", {}, "What was checked"), ...lines.map((line) => element("p", {}, line)), ...more);
  place.replaceChildren(badge(state, words), details);
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
