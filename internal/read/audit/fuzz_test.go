package audit

import (
	"bytes"
	"context"
	"testing"
	"unicode/utf8"
)

// FuzzTrajectories: whatever the line, the audit ends with a report or a refusal,
// and gives the same the second time and with another number of workers.
func FuzzTrajectories(f *testing.F) {
	f.Add([]byte(goodTrajectory))
	f.Add([]byte(dirtyTrajectories))
	f.Add([]byte(`{"task_id":"t1","steps":[{"type":"tool_result","head":"x","bytes":9,"output_sha256":"00","gold_hits":{"scanned":true,"offsets":[5]},"args":{"a":[1,"b"]}}]}`))
	f.Add([]byte("{\"task_id\":\"t1\",\"steps\":[{\"type\":\"prompt\",\"content\":\"TGlzYm9uTGlzYm9uTGlz\\nYm9u &#76; %4c \\\\u004c \uff2c\"}]}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		audit := func(workers int) (string, string) {
			r, err := Run(context.Background(), Input{Results: textFile("r", goodResult), Trajectories: bytesFile("t", data), Workers: workers})
			if err != nil {
				return "", err.Error()
			}
			doc, err := r.Encode()
			if err != nil {
				t.Fatal(err)
			}
			return string(doc), ""
		}
		doc, refused := audit(1)
		if again, refusedAgain := audit(3); doc != again || refused != refusedAgain {
			t.Fatalf("first %s%s, then %s%s", doc, refused, again, refusedAgain)
		}
	})
}

// FuzzFold: folding is idempotent, gives UTF-8, and does not depend on where a
// text is cut, apart from spaces; unwrapping ends.
func FuzzFold(f *testing.F) {
	for _, h := range hidings {
		f.Add([]byte(h.hide("Cyclohexane  carboxylic\tACID 17,5 ﬁ ½ ß Ǆ")), 7)
	}
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
			if at < 0 || size < minPattern || at > len(text) || size > len(text)-at {
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
		x := newMatcher(patterns)
		found := map[[2]int]bool{}
		x.find(text, func(id, at int) { found[[2]int{id, at}] = true })
		for id, p := range patterns {
			for at := 0; at+len(p) <= len(text); at++ {
				if want := string(text[at:at+len(p)]) == p; want != found[[2]int{id, at}] {
					t.Fatalf("%q at %d: found %t", p, at, !want)
				}
			}
		}
	})
}
