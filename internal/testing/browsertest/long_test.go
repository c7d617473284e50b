package browsertest

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
)

// longTurns is how many turns the long case has; each is several events.
const longTurns = 4500

// longWorld is a workspace with a transcript of more than 20,000 events.
var longWorld = sync.OnceValues(func() (*world, error) {
	w, err := newWorld("init")
	if err != nil {
		return nil, err
	}
	var turns strings.Builder
	turns.WriteString("version: 1\nturns:\n")
	for i := range longTurns {
		fmt.Fprintf(&turns, "  - text: \"Note %d. The lift stops now and then.\"\n", i+1)
	}
	turns.WriteString("model:\n  - {repeat: true, text: noted}\n")
	err = w.write(map[string]string{
		"bench/turns/registration.yaml": strings.NewReplacer("turns: 20,", "turns: 10000,", "tokens: 10000000,", "tokens: 2000000000,", "wall_clock_seconds: 60,", "wall_clock_seconds: 600,").Replace(registration("turns")),
		// A short memory keeps the prompts small: evidence keeps each of them.
		"targets/default.yaml": "version: 1\nkind: builtin\nbuiltin: {model: fake-1, api: openai.chat, max_output_tokens: 50, retries: 0, context: {window: 1000, budget: 300}}\n",
		"bench/turns/cases/one/case.yaml": `schema_version: 1
case_id: one
title: "Many turns"
disposition: positive
difficulty: easy
provenance: {source: curated, source_ref: {type: synthetic, value: test}, added_at: "2026-05-01T09:00:00Z", last_validated_at: "2026-05-01T09:00:00Z"}
`,
		"bench/turns/cases/one/grading.yaml":  "checks:\n  - {name: noted, grade: {kind: contains, expected: [\"noted\"]}}\n",
		"bench/turns/cases/one/scenario.yaml": turns.String(),
	})
	if err != nil {
		return nil, err
	}
	_, err = w.tally(0, "--workspace", w.dir, "run", "turns")
	return w, err
})

const longPage = "/attempt/turns.default.1/case/one"

func TestALongTranscriptIsVerifiedBesideThePage(t *testing.T) {
	if testing.Short() || browser() == nil {
		t.Skip("no browser")
	}
	w, err := longWorld()
	check(t, err)
	asked := 0
	url := w.serve(t, func(path string, body []byte) []byte {
		if strings.HasSuffix(path, "/events") {
			asked++
		}
		return body
	})
	base, _, _ := strings.Cut(url, "/?")
	b := visit(t, url, longPage)
	b.waitFor(`document.getElementById("mark")?.dataset.state === "unknown"`)
	events := b.js(`Number(document.querySelector("[data-events]").dataset.events)`).(float64)
	if events < 20_000 {
		t.Fatalf("only %v events", events)
	}
	if got := b.text("#mark"); !strings.Contains(got, "200 events on this page are compared") {
		t.Errorf("the mark says %q", got)
	}
	b.clean()
	t.Logf("%v events: verified %v ms after the page began, in %d questions", events, b.js(`Math.round(performance.now())`), asked)

	// Another part of it is checked with what this tab knows, and not from the start.
	asked = 0
	b.goTo(base + longPage + "?from=12001")
	b.waitFor(`document.getElementById("mark")?.dataset.state === "unknown"`)
	if asked == 0 || asked > 7 {
		t.Errorf("the second part took %d questions", asked)
	}
	b.clean()
}

// Whatever is changed in a long transcript is noticed, also far from the part that is
// shown, and also in a part that is looked at after the whole was followed once.
func TestAForgedLongTranscriptRaisesTheAlarm(t *testing.T) {
	if testing.Short() || browser() == nil {
		t.Skip("no browser")
	}
	w, err := longWorld()
	check(t, err)
	var mu sync.Mutex
	forging := ""
	url := w.serve(t, func(path string, body []byte) []byte {
		mu.Lock()
		defer mu.Unlock()
		if forging == "" || !strings.HasPrefix(path, longPage) {
			return body
		}
		return bytes.Replace(body, []byte(forging), []byte("Note 0."), 1)
	})
	base, _, _ := strings.Cut(url, "/?")
	forge := func(text string) { mu.Lock(); forging = text; mu.Unlock() }
	for _, tt := range []struct{ name, forging, from, says string }{
		{"far after the page", fmt.Sprintf("Note %d.", longTurns-3), "1", "event"},
		{"on the page and in its event", "Note 3.", "1", "event"},
		{"in a part after the whole was followed", "Note 2003.", "12001", "event"},
	} {
		b := visit(t, url, "/")
		if tt.from != "1" {
			b.goTo(base + longPage)
			b.waitFor(`document.getElementById("mark")?.dataset.state === "unknown"`)
		}
		forge(tt.forging)
		b.goTo(base + longPage + "?from=" + tt.from)
		b.waitFor(`document.getElementById("mark")?.dataset.state === "bad"`)
		if got := b.text("#tallystick-alarm"); !strings.Contains(got, tt.says) {
			t.Errorf("%s: the banner says %q", tt.name, got)
		}
		forge("")
	}
}
