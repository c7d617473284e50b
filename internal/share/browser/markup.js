// What may stand in a cell whose text is compared: the elements that package markup makes
// of Markdown, JSON and code, and <ins> and <del>, in which a comparison puts what only one
// side has. They hide marks such as "**" and never words, so the text
// content of a cell is what was recorded, and what a reader sees is too.

const MARKUP_TAGS = ["p", "span", "strong", "em", "del", "ins", "code", "ul", "li", "blockquote", "div", "table", "thead", "tbody", "tr", "th", "td"];
const MARKUP_CLASSES = ["md", "rule", "bullet", "level", "level2", "level3", "h1", "h2", "h3", "fence", "lang", "block", "sheet", "link", "url", "ji", "jc", "nl", "tk", "ts", "tn", "tm", "tl", "plus", "minus"];

// Marks that may be hidden anywhere, and those that mean something where a line begins.
const INLINE_MARK = /^(?:[\s|]*|\*{1,2}|_{1,2}|~~|`+|\\|[[\]]|\s{0,3}(?:`{3,}|~{3,})\s*)$/;
const LINE_MARK = /^(?: {0,3}#{1,6}[ \t]+| {0,3}> ?)$/;
const DELIMITER = /^[\s|:-]*-[\s|:-]*$/;
const BULLET = /^[-*+][ \t]+$/;
const RULE = /^ {0,3}(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,})\n?$/;

// mayHide reports whether a text may stand in an element that is not shown as it is, after
// the text before it.
export function mayHide(name, text, before) {
  const begins = /(?:^|\n)[ \t]*$/.test(before);
  if (name === "bullet") return BULLET.test(text) && begins;
  if (name === "nl") return text === "\\n";
  if (name === "rule") return RULE.test(text) && begins;
  return INLINE_MARK.test(text) || (LINE_MARK.test(text) && begins) || (DELIMITER.test(text) && text.includes("|") && begins);
}

// oddMarkup is what in a cell is not as package markup makes it, or null.
export function oddMarkup(cell) {
  if (cell.firstElementChild === null) return null;
  let before = "", odd = null;
  const walk = (node) => {
    if (odd !== null) return;
    if (node.nodeType !== Node.ELEMENT_NODE) {
      before += node.nodeValue ?? "";
      return;
    }
    const name = node.getAttribute("class");
    if (!MARKUP_TAGS.includes(node.localName) || node.attributes.length > (name === null ? 0 : 1) || (name !== null && !MARKUP_CLASSES.includes(name))) {
      odd = `an element <${node.localName}${name === null ? "" : ` class="${name}"`}> in it`;
      return;
    }
    if (["md", "bullet", "rule", "nl"].includes(name) && !mayHide(name, node.textContent, before)) {
      odd = `“${node.textContent}” hidden`;
      return;
    }
    for (const child of node.childNodes) walk(child);
  };
  for (const child of cell.childNodes) walk(child);
  return odd;
}
