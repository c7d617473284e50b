// Copying on the page of a case. Every page works without this file; the buttons are in
// the page that was sent, so that nothing is added to what was signed.
async function copy(button, text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    return; // no permission, or no secure context
  }
  button.setAttribute("data-copied", "");
  setTimeout(() => button.removeAttribute("data-copied"), 1500);
}

addEventListener("click", async (e) => {
  const button = e.target.closest("button.copy"), place = e.target.closest("a.seq");
  if (button?.dataset.copyFrom) {
    const answer = await fetch(button.dataset.copyFrom);
    if (answer.ok) await copy(button, await answer.text());
  } else if (button) {
    await copy(button, button.closest(".copyable").querySelector(".words").textContent);
  } else if (place) {
    copy(place, new URL(place.getAttribute("href"), location.href).href);
  }
});
