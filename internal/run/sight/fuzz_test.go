package sight

import (
	"bytes"
	"encoding/base64"
	"testing"
	"unicode/utf8"
)

// FuzzFold: folding is idempotent, gives UTF-8, and does not depend on where a
// text is cut, apart from spaces; unwrapping ends.
func FuzzFold(f *testing.F) {
	const text = "Cyclohexane  carboxylic\tACID 17,5 ﬁ ½ ß Ǆ"
	f.Add([]byte(text), 7)
	f.Add([]byte(base64.StdEncoding.EncodeToString([]byte(text))), 7)
	f.Add([]byte("%43yclo&#104;ex\\u0061ne &amp; &#x63;\\x61 ｃａｒ сагboxylic"), 7)
	f.Add([]byte("a  b\x00\xff !"), 3)
	f.Fuzz(func(t *testing.T, data []byte, at int) {
		folded := Fold(nil, data)
		if !utf8.Valid(folded) {
			t.Fatalf("%q folds to %q", data, folded)
		}
		if again := Fold(nil, folded); !bytes.Equal(again, folded) {
			t.Fatalf("%q folds to %q, and that to %q", data, folded, again)
		}
		if at >= 0 && at < len(data) && utf8.Valid(data) && utf8.RuneStart(data[at]) {
			if parts := Fold(Fold(nil, data[:at]), data[at:]); !bytes.Equal(parts, folded) {
				t.Fatalf("%q in two parts at %d folds to %q, expected %q", data, at, parts, folded)
			}
		}
		total := 0
		Unwrap(data, func(text []byte) { total += len(text) })
		if total > 64*(len(data)+16) {
			t.Fatalf("%d bytes unwrap to %d", len(data), total)
		}
	})
}

// FuzzMatcher holds the search to bytes.Index.
func FuzzMatcher(f *testing.F) {
	f.Add([]byte("the quick brown fox jumps over the lazy dog"), 4, 9, 10, 20)
	f.Fuzz(func(t *testing.T, text []byte, a, n, b, m int) {
		cut := func(at, size int) string {
			if at < 0 || size < MinPattern || at > len(text) || size > len(text)-at {
				return ""
			}
			return string(text[at : at+size])
		}
		var patterns []string
		for _, p := range []string{cut(a, n), cut(b, m)} {
			if p != "" {
				patterns = append(patterns, p)
			}
		}
		x := NewMatcher(patterns)
		found := map[[2]int]bool{}
		x.Find(text, func(id, at int) { found[[2]int{id, at}] = true })
		for id, p := range patterns {
			for at := 0; at+len(p) <= len(text); at++ {
				if want := string(text[at:at+len(p)]) == p; want != found[[2]int{id, at}] {
					t.Fatalf("%q at %d: found %t", p, at, !want)
				}
			}
		}
	})
}
