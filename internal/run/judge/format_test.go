package judge

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tallystick/internal/testing/fakemodel"
)

// TestEntryBytesNeverChange holds a promise: caches that people have must be
// read by every later version. The file is never written again; a new version
// gets a new file.
func TestEntryBytesNeverChange(t *testing.T) {
	c := newCourt(t, fakemodel.New(t, says("I would say yes.", reply(1, true, "The sum is 4, as expected."), reply(0.75, true, "The sum is right."), reply(0, false, "There is no working."))...))
	q := aQuestion("2 plus 2 is 4")
	q.Votes = 3
	c.models = placeless{c.models} // the test's server has another port each time
	c.ask(Live, q)
	got, err := os.ReadFile(c.entry(q))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join("testdata", "entry_1-draft.json")
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("the entry is now\n%s\nwant\n%s", got, want)
	}
	if name := filepath.Base(c.entry(q)); name != "239697432e90d47da540df65909d9e2964bf51421ba673b85d2b1ad1bb91b2a4.json" {
		t.Errorf("its name is now %s", name)
	}
	if _, s, why := OpenCache(c.dir, keyOf(t, 1)).open(want); s != hit {
		t.Errorf("the old bytes are a %s: %s", s, why)
	}
}

// The page shows the texts and the entry as they are.
func TestDocsShowTheRealBytes(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "formats", "judge.md"))
	if err != nil {
		t.Fatal(err)
	}
	entry, err := os.ReadFile(filepath.Join("testdata", "entry_1-draft.json"))
	if err != nil {
		t.Fatal(err)
	}
	for what, text := range map[string]string{"the rubric": rubricText, "the prompt": promptText, "the entry": string(entry),
		"the rubric's digest": RubricDigest().String(), "the prompt's digest": PromptDigest().String(),
		"the label": strings.TrimSpace(signingLabel), "the key's label": strings.TrimSpace(keyLabel), "the fence's label": strings.TrimSpace(fenceLabel)} {
		if !strings.Contains(string(page), strings.TrimSpace(text)) {
			t.Errorf("docs/formats/judge.md lacks %s:\n%s", what, text)
		}
	}
	for _, name := range []string{EventInjection, EventTampered, EventSwapped, EventSuperseded, EventOtherKey, EventUnknown} {
		if !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("docs/formats/judge.md lacks the event %s", name)
		}
	}
}
