// The keys of a comparison, and what copies a text. The page works without this file.
const changes = () => [...document.querySelectorAll("[data-change], .aligned .events:first-of-type > .differs, .diff > .plus, .diff > .minus")]
  .filter((el, i, all) => el.dataset.change !== undefined || !/\b(plus|minus|differs)\b/.test(el.previousElementSibling?.className ?? ""));
let place = -1;

function show(step) {
  const list = changes();
  if (list.length === 0) return;
  list[place]?.classList.remove("at");
  place = Math.min(Math.max(place + step, 0), list.length - 1);
  const el = list[place];
  el.classList.add("at");
  if (el.tabIndex < 0) el.setAttribute("tabindex", "-1");
  el.focus({ preventScroll: true });
  el.scrollIntoView({ block: "start" });
}

addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || e.target.closest("input, select, textarea")) return;
  if (e.key === "n") show(1);
  else if (e.key === "p") show(-1);
  else if (e.key === "?") tell();
});

// tell adds the keys of this page to the list that keys.js shows.
function tell() {
  const box = document.getElementById("keys");
  if (!box || changes().length === 0) return;
  for (const [key, what] of [["n", "next change"], ["p", "change before"]]) {
    const p = document.createElement("p"), k = document.createElement("kbd");
    k.textContent = key;
    p.append(k, " " + what);
    box.append(p);
  }
}

// Opening what can be copied copies it. The page itself is not changed: what it shows is
// compared with what was signed.
document.addEventListener("toggle", async (e) => {
  const area = e.target.open && e.target.querySelector("[data-copy]");
  if (!area) return;
  area.select(); // and can be copied by hand where the browser does not let a page write
  try {
    await navigator.clipboard.writeText(area.value);
    e.target.classList.add("copied");
    setTimeout(() => e.target.classList.remove("copied"), 3000);
  } catch { /* it is selected */ }
}, true);
