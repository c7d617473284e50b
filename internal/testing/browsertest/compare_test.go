package browsertest

import (
	"fmt"
	"strings"
	"testing"
)

// dippedPrompts are the one before and the one after eleven cases were lost.
var dippedPrompts = []string{
	"You work at the help desk of a shop that sells lamps.\\nAnswer from the shop policy.\\n",
	"You work at the help desk of a shop that sells lamps.\\nAnswer from the statutory rules.\\nPromise nothing.\\n",
}

// dipped is a workspace whose prompt was edited between two attempts.
func dipped(t *testing.T) *world {
	t.Helper()
	w, err := newWorld("init")
	check(t, err)
	var lines strings.Builder
	for i := range 60 {
		good := object{"text": fmt.Sprintf("You have 30 days, customer %d.", i)}
		replies := []object{good}
		if i%5 == 0 && i < 55 {
			text := "You have 14 days. " + hostile[i/5]
			replies = []object{{"text": text[:min(len(text), 2000)], "when": object{"contains": "statutory"}}, good}
		}
		lines.WriteString(jsonLine(object{"id": fmt.Sprintf("return-%02d", i), "input": "How long do I have?", "expected": "30 days", "model": replies, "grade": object{"kind": "contains"}}))
	}
	check(t, w.write(map[string]string{"bench/support/registration.yaml": registration("support"), "bench/support/dataset.jsonl": lines.String()}))
	for i, prompt := range dippedPrompts {
		check(t, w.write(map[string]string{"targets/desk.yaml": `version: 1
kind: builtin
builtin: {model: fake-1, api: openai.chat, max_output_tokens: 100, system: "` + prompt + `"}
`}))
		_, err := w.tally([]int{0, 4}[i], "--workspace", w.dir, "run", "support", "--target", "desk")
		check(t, err)
	}
	return w
}

// visibleAt gives the texts that a reader sees without scrolling.
const visibleAt = `(() => {
	const seen = [];
	const walk = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
	while (walk.nextNode()) {
		const range = document.createRange();
		range.selectNodeContents(walk.currentNode);
		const box = range.getBoundingClientRect();
		if (box.height > 0 && box.top >= 0 && box.bottom <= innerHeight && walk.currentNode.parentElement.checkVisibility()) seen.push(walk.currentNode.data);
	}
	return seen.join(" ").replace(/\s+/g, " ");
})()`

// TestWhatChangedIsAboveTheFold: which cases were lost, and why, on a laptop and on a phone.
func TestWhatChangedIsAboveTheFold(t *testing.T) {
	if testing.Short() {
		t.Skip("a browser takes seconds")
	}
	w := dipped(t)
	url := w.serve(t, honest)
	base, _, _ := strings.Cut(url, "/?")
	b := open(t, url)
	for _, screen := range [][2]int64{{1280, 800}, {390, 844}} {
		for _, scheme := range []string{"light", "dark"} {
			b.look(scheme, screen[0], screen[1])
			b.goTo(base + "/compare")
			b.waitFor(marked)
			seen, _ := b.js(visibleAt).(string)
			want := []string{"What changed from support.desk.1 to support.desk.2", "11 lost", "system changed"}
			for i := 0; i < 55; i += 5 {
				want = append(want, fmt.Sprintf("return-%02d", i))
			}
			for _, part := range want {
				if !strings.Contains(seen, part) {
					t.Errorf("%d by %d, %s: %q is not on the first screen: %s", screen[0], screen[1], scheme, part, seen)
				}
			}
		}
	}
	b.look("light", 1280, 800)
	b.accessible()
	b.clean()
	b.picture("compare-dip")
}

// TestKeysGoFromChangeToChange, the comparison copies as Markdown, and hostile answers are
// dead on the page and beside each other.
func TestKeysGoFromChangeToChange(t *testing.T) {
	if testing.Short() {
		t.Skip("a browser takes seconds")
	}
	w := dipped(t)
	url := w.serve(t, honest)
	base, _, _ := strings.Cut(url, "/?")
	b := open(t, url)
	b.goTo(base + "/compare")
	b.waitFor(marked)
	at := `document.querySelector(".at")?.getAttribute("aria-label") ?? document.querySelector(".at")?.className ?? ""`
	b.press("n")
	first, _ := b.js(at).(string)
	b.press("n")
	second, _ := b.js(at).(string)
	b.press("p")
	if back, _ := b.js(at).(string); first == "" || first == second || back != first {
		t.Errorf("n goes to %q and %q, p to %q", first, second, back)
	}
	b.press("?")
	if keys := b.text("#keys"); !strings.Contains(keys, "next change") {
		t.Errorf("the list of keys is %q", keys)
	}
	if text, _ := b.js(`document.querySelector("[data-copy]").value`).(string); !strings.Contains(text, "**11 lost**") || strings.Contains(text, "<script") {
		t.Errorf("what is copied is %.300q", text)
	}
	b.js(`(document.querySelector("details.copy > summary").click(), null)`)
	b.waitFor(`document.querySelector("[data-copy]").selectionEnd > 100`) // it is taken
	for i := range 11 {
		b.goTo(base + fmt.Sprintf("/compare?a=support.desk.1&b=support.desk.2&case=return-%02d", 5*i))
		b.waitFor(marked)
		b.waitFor(`document.getElementById("mark").textContent.includes("events on this page")`)
		if state := b.state(); state == "bad" {
			t.Errorf("return-%02d: %s %s", 5*i, b.text("#mark"), b.text("#tallystick-alarm"))
		}
		b.clean()
		if i == 0 {
			b.accessible()
			if wide := b.js(`document.documentElement.scrollWidth > innerWidth + 1`); wide != false {
				t.Error("the aligned transcripts are wider than the page")
			}
			b.picture("compare-aligned")
		}
	}
}
