// Whether a page is, whole, the one that was verified: every element, attribute and text,
// in order, and nothing besides. What is verified is then drawn in place of what was
// there, so that a mark speaks of what is read, and not of something beside it.
import { Difference, short } from "./page.js";

export const parsePage = (html) => new DOMParser().parseFromString(html, "text/html");

// A Loaded is a page as the browser made it of what it was sent, before a script of ours
// changed it. Shadow trees hide what stands in their host and are not copied: where there
// is one, it is counted; a closed one cannot be seen, and is found by [closedTrees].
export function asLoaded() {
  const shadows = [...document.querySelectorAll("*")].filter((e) => e.shadowRoot).length;
  const sheets = document.styleSheets.length + document.adoptedStyleSheets.length;
  // A style is looked at by the page's policy when it comes into a document, so it comes
  // with its text: cloning the document would bring it without.
  const page = document.implementation.createHTMLDocument("");
  page.replaceChildren();
  for (const child of document.childNodes) page.append(page.importNode(child, true));
  return { page, shadows, sheets };
}

const isText = (n) => n.nodeType === Node.TEXT_NODE;

// partsOf are the children of a node. Neighbouring texts are one: browsers cut long ones.
function partsOf(node, skip) {
  const parts = [];
  for (const child of node.childNodes) {
    if (skip(child)) continue;
    const last = parts[parts.length - 1];
    if (isText(child) && typeof last === "string") parts[parts.length - 1] += child.nodeValue;
    else parts.push(isText(child) ? child.nodeValue : child);
  }
  return parts.filter((p) => p !== "");
}

// textOfPart is a part as the banner tells of it: its words, or how it is written if it
// has none.
function textOfPart(p) {
  if (p === undefined) return "nothing";
  if (typeof p === "string") return p.trim() || "white space";
  if (p.nodeType !== Node.ELEMENT_NODE) return `a comment or doctype: ${p.nodeValue ?? p.nodeName}`;
  const words = p.textContent.trim();
  return words === "" ? p.outerHTML : `<${p.localName}> ${words}`;
}

// whereIs names a place of a page to a person: the value that stands there, or the words.
function whereIs(element) {
  const cell = element.closest?.("[data-field]");
  if (cell) {
    const index = cell.closest("[data-entry]")?.getAttribute("data-entry"), seq = cell.closest("[data-seq]")?.getAttribute("data-seq");
    return `${index === undefined ? "a value" : "entry " + index}${seq ? `, event ${seq}` : ""}, ${cell.getAttribute("data-field")}`;
  }
  return `<${element.nodeName.toLowerCase()}> “${short((element.textContent ?? "").trim(), 40)}”`;
}

// A noscript has elements where scripts are off, and their text where they are on.
const withoutScripts = (e) => (e.firstElementChild ? e.innerHTML : e.textContent);

const nothing = () => false;

// compareNodes adds to found what is another in a than in e, which is expected. own says
// of a child that it is ours, ignore of an attribute that it may change.
function compareNodes(a, e, found, own, ignore) {
  if (e.nodeType === Node.ELEMENT_NODE) {
    compareAttributes(a, e, found, ignore);
    if (a.shadowRoot) found.push(new Difference(whereIs(e), "a shadow tree", "none"));
    if (e.nodeName === "NOSCRIPT") {
      if (withoutScripts(a) !== withoutScripts(e)) found.push(new Difference(whereIs(e), withoutScripts(a), withoutScripts(e)));
      return;
    }
    if (e.nodeName === "TEMPLATE") return compareNodes(a.content, e.content, found, own, ignore);
  }
  const is = partsOf(a, own), want = partsOf(e, own);
  for (let i = 0; i < Math.max(is.length, want.length); i++) {
    const x = is[i], y = want[i];
    if (typeof x === "string" && typeof y === "string") {
      if (x !== y) found.push(new Difference(whereIs(e), textOfPart(x), textOfPart(y)));
    } else if (x?.nodeName !== undefined && x.nodeName === y?.nodeName && x.namespaceURI === y.namespaceURI) {
      if (x.nodeType === Node.ELEMENT_NODE) compareNodes(x, y, found, own, ignore);
      else if (x.nodeValue !== y.nodeValue || x.publicId !== y.publicId || x.systemId !== y.systemId) found.push(new Difference(whereIs(e), textOfPart(x), textOfPart(y)));
    } else {
      found.push(new Difference(whereIs(e), textOfPart(x), textOfPart(y)));
      return; // what comes after stands elsewhere, and would be named for nothing
    }
  }
}

function compareAttributes(a, e, found, ignore) {
  for (const name of new Set([...a.getAttributeNames(), ...e.getAttributeNames()])) {
    const is = a.getAttribute(name), want = e.getAttribute(name);
    if (is !== want && !ignore(a, name, is, want)) found.push(new Difference(`${whereIs(e)}, its ${name}`, is ?? "nothing", want ?? "nothing"));
  }
}

const HOSTS = "body, article, aside, blockquote, div, footer, h1, h2, h3, h4, h5, h6, header, main, nav, p, section, span";

// closedTrees counts the shadow trees that a page was sent with and that hide from scripts:
// an element that has one takes no other. Asking gives one to all that have none, so the
// page must be drawn again.
function closedTrees() {
  let closed = 0;
  for (const e of document.querySelectorAll(HOSTS)) {
    if (e.shadowRoot) continue;
    try {
      e.attachShadow({ mode: "open" });
    } catch {
      closed++;
    }
  }
  return closed;
}

// compareLoaded lists where the page as it was loaded is not the one expected. The page
// must be drawn after it.
export function compareLoaded(loaded, expected) {
  loaded.closed ??= closedTrees();
  const shadows = loaded.shadows + loaded.closed;
  const found = comparePages(loaded.page, expected);
  const sheets = expected.querySelectorAll("style, link[rel~=stylesheet]").length;
  if (shadows > 0) found.push(new Difference("the page", `${shadows} shadow trees, which hide what is in them`, "none"));
  if (loaded.sheets !== sheets) found.push(new Difference("the page", `${loaded.sheets} style sheets`, `${sheets}`));
  return found;
}

export function comparePages(page, expected, own = nothing, ignore = nothing) {
  const found = [];
  compareNodes(page, expected, found, own, ignore);
  return found;
}

// drawPage shows the page that was verified in place of the one that was loaded. Scripts
// have run, and are left out; the head is replaced only where it is another.
export function drawPage(expected, replaceHead) {
  const root = document.documentElement, changed = replaceHead ? expected : expected.body;
  for (const script of changed.querySelectorAll("script")) script.remove();
  for (const { name } of [...root.attributes]) root.removeAttribute(name);
  for (const { name, value } of expected.documentElement.attributes) root.setAttribute(name, value);
  for (const child of [...root.childNodes]) if (child !== document.head || replaceHead) child.remove();
  for (const child of expected.documentElement.childNodes) {
    if (child !== expected.head || replaceHead) root.append(document.importNode(child, true));
  }
  if (location.hash) location.replace(location.hash); // the place that the address names is new
}

// A Watch tells of changes to a page that a script of ours did not make: extensions,
// tools, people. changed is called once for many.
export class Watch {
  constructor(changed) {
    this.changed = changed;
    this.observer = new MutationObserver((records) => this.take(records));
    this.observer.observe(document, { subtree: true, childList: true, characterData: true, attributes: true });
  }

  take(records) {
    if (records.some((r) => !["open", "data-copied"].includes(r.attributeName))) this.changed();
  }

  // own makes a change that is ours.
  own(change) {
    const before = this.observer.takeRecords();
    try {
      return change();
    } finally {
      this.observer.takeRecords();
      if (before.length > 0) this.take(before);
    }
  }

  end() {
    this.observer.disconnect();
  }
}

// isOwnPart and mayChange are what scripts of ours change on a page that was drawn: the
// mark's content, the banner, and what a reader opens.
export function isOwnPart(node) {
  return node.id === "tallystick-alarm" || node.parentNode?.id === "mark";
}

export function mayChange(element, name) {
  return (name === "open" && element.nodeName === "DETAILS") || (name === "data-copied" && element.matches("button.copy, a.seq")) || name === "data-differs" || ((name === "data-state" || name === "data-brief") && element.id === "mark");
}
