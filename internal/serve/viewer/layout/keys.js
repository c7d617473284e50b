// The keyboard, and what is asked for again while an attempt runs. Every page works
// without this file.
const rows = () => [...document.querySelectorAll("[data-row], .events > li")];
let at = -1;

function go(step) {
  const list = rows();
  if (list.length === 0) return;
  list[at]?.classList.remove("at");
  at = Math.min(Math.max(at + step, 0), list.length - 1);
  const row = list[at];
  row.classList.add("at");
  row.scrollIntoView({ block: "nearest" });
  const link = row.querySelector("a[href]");
  if (link) link.focus({ preventScroll: true });
}

function help() {
  const old = document.getElementById("keys");
  if (old) return old.remove();
  const box = document.createElement("section");
  box.id = "keys";
  box.setAttribute("role", "dialog");
  box.setAttribute("aria-label", "Keys");
  const failures = document.querySelector('a[data-key="f"]') ? [["f", "only what did not pass, and back"]] : [];
  for (const [key, what] of [["j", "next row"], ["k", "row before"], ["Enter", "open it"], ...failures, ["/", "search"], ["?", "this list"]]) {
    const p = document.createElement("p");
    const k = document.createElement("kbd");
    k.textContent = key;
    p.append(k, " " + what);
    box.append(p);
  }
  document.body.append(box);
}

// leave closes what lies over the page.
function leave() {
  document.getElementById("keys")?.remove();
  for (const over of document.querySelectorAll(".top details[open]")) over.open = false;
}

addEventListener("click", (e) => {
  for (const over of document.querySelectorAll(".top details[open]")) if (!over.contains(e.target)) over.open = false;
});
// linkOf is the link that a key follows on this page: the next case beside a list, say.
const linkOf = (key) => [...document.querySelectorAll("a[data-key]")].find((a) => a.dataset.key === key);

addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || e.target.closest("input, select, textarea")) return;
  const led = linkOf(e.key);
  if (led) led.click();
  else if (e.key === "j") go(1);
  else if (e.key === "k") go(-1);
  else if (e.key === "?") help();
  else if (e.key === "Escape") leave();
  else if (e.key === "/") {
    const search = document.querySelector("input[type=search]");
    if (!search) return;
    e.preventDefault();
    search.focus();
    search.select();
  }
});

// While an attempt runs or a transcript is being checked, the page is asked for again and its parts that move are
// replaced. The answer is a page of this server, made by the same templates; parts that
// did not change, or that the reader is in, stay as they are.
const live = document.body.dataset.live;

const nameOf = (row) => row?.querySelector("th")?.textContent.trim();

function replaceParts(fresh) {
  const row = rows()[at], focused = document.activeElement;
  const inRow = row?.contains(focused); // the keys brought it there, and bring it back
  for (const old of document.querySelectorAll("[data-live-part]")) {
    const part = fresh.querySelector(`[data-live-part="${old.dataset.livePart}"]`);
    if (part && part.innerHTML !== old.dataset.was && (!old.contains(focused) || inRow)) {
      part.dataset.was = part.innerHTML; // what the server sent, before a script marks it
      old.replaceWith(document.importNode(part, true));
    }
  }
  if (row && !row.isConnected) stayAt(nameOf(row), inRow);
}

// The keyboard stays in the row of that name, wherever that is now.
function stayAt(name, focus) {
  const list = rows();
  const found = list.findIndex((r) => nameOf(r) === name);
  at = found >= 0 ? found : Math.min(at, list.length - 1);
  list[at]?.classList.add("at");
  if (focus) list[at]?.querySelector("a[href]")?.focus({ preventScroll: true });
}

async function ask() {
  try {
    const answer = await fetch(live, { headers: { Accept: "text/html" }, cache: "no-store" });
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (fresh.querySelector(".alarm")) return location.reload(); // what is shown does not verify
    if (answer.ok) {
      const ended = !fresh.body.dataset.live;
      // A transcript that was checked keeps its place, and what this browser checks of it.
      if (ended && !document.querySelector("[data-trajectory]")) return location.reload();
      replaceParts(fresh);
      if (ended) return;
    }
  } catch { /* the server went away; the page stays as it is */ }
  setTimeout(ask, 2000);
}
if (live) setTimeout(ask, 2000);
