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
// gets a new file. In this one a reply was asked for again, as versions did once.
func TestEntryBytesNeverChange(t *testing.T) {
	want, err := os.ReadFile(filepath.Join("testdata", "entry_1-draft.json"))
	if err != nil {
		t.Fatal(err)
	}
	c := newCourt(t, fakemodel.New(t))
	q := aQuestion("2 plus 2 is 4")
	q.Votes = 3
	if name := filepath.Base(c.entry(q)); name != "239697432e90d47da540df65909d9e2964bf51421ba673b85d2b1ad1bb91b2a4.json" {
		t.Errorf("its name is now %s", name)
	}
	cache := OpenCache(c.dir, keyOf(t, 1))
	d, s, why := cache.open(want)
	if s != hit {
		t.Fatalf("the old bytes are a %s: %s", s, why)
	}
	text, _, err := d.bytes()
	if err != nil {
		t.Fatal(err)
	}
	key, err := d.Asked.Key()
	if err != nil {
		t.Fatal(err)
	}
	if err := cache.put(key, text); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(c.entry(q))
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("the entry is now\n%s\nwant\n%s\n%v", got, want, err)
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
