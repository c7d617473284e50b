package cassette

import (
	"encoding/base64"
	"os"
	"slices"
	"strings"
	"testing"

	"tallystick/internal/record/digest"
)

// fenced returns the text between the fences behind a heading, the n-th that
// opens with the given line.
func fenced(t testing.TB, page, open string, n int) string {
	t.Helper()
	_, page, ok := strings.Cut(page, "\n## Example\n")
	for range n + 1 {
		if ok {
			_, page, ok = strings.Cut(page, "\n\n"+open+"\n")
		}
	}
	text, _, closed := strings.Cut(page, "```\n")
	if !ok || !closed {
		t.Fatalf("the page has no block %d of %s", n, open)
	}
	return text
}

func formatPage(t testing.TB) string {
	t.Helper()
	data, err := os.ReadFile("../../../docs/formats/cassette.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// The example of the format page is a promise: these bytes stay readable.
func TestFormatPageExample(t *testing.T) {
	page := formatPage(t)
	lines := fenced(t, page, "```json", 0)
	file, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(fenced(t, page, "```", 0), "\n", ""))
	if err != nil {
		t.Fatal(err)
	}

	c, err := Parse(file, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if got := mustLines(t, c); got != lines {
		t.Errorf("the file holds\n%s\nthe page says\n%s", got, lines)
	}
	if d := Digest(file).String(); !strings.Contains(page, d) {
		t.Errorf("the digest of the file is %s, the page does not say so", d)
	}

	// A new version of the compression library may change these bytes; the
	// ones above must then stay readable, and the page needs new ones.
	if got := mustMarshal(t, c); !slices.Equal(got, file) {
		t.Errorf("the file is now written as\n%s", base64.StdEncoding.EncodeToString(got))
	}
	text := strings.TrimSuffix(fenced(t, page, "```", 1), "\n")
	if got := digest.IDOf([]byte(text)); got != c.Interactions[0].Key {
		t.Errorf("the text of the key hashes to %s, the key is %s", got, c.Interactions[0].Key)
	}
}

// The author of a second matcher needs complete lists.
func TestFormatPageListsWhatTheCodeDrops(t *testing.T) {
	page := formatPage(t)
	words := slices.Clone(KeptHeaders)
	for _, p := range prefixes {
		words = append(words, p.kind)
	}
	for _, w := range words {
		if !strings.Contains(page, "`"+w+"`") {
			t.Errorf("the page does not list %s", w)
		}
	}
}
