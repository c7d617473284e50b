package pattern

import (
	"strings"
	"testing"
)

// What repetitions make is counted before they are made: the memory of a machine does
// not decide which pattern is too large.
func TestRepetitionsAreCounted(t *testing.T) {
	for text, want := range map[string]string{
		`a{1000}`: "", `[a-z]{1,1000}`: "", `(a|b){0,200}`: "", `\pL+`: "", ``: "",
		`(.{0,30}){0,30}x`:                   "",
		strings.Repeat(`[a-z]{1000}`, 40):    "too large",
		strings.Repeat(`(\pL{9}){100}`, 600): "too large",
		`(((a{9}b{9}c{9}){9}d{9}){9}|(e{9}f{9}){100}){1,1}` + strings.Repeat(`(g{30}h{30}){30}`, 3): "too large",
		strings.Repeat(`(a|b|c){100}`, 500): "too large",
		strings.Repeat("x", 70_000):         "bytes",
		strings.Repeat("x", 5_000):          "too large",
		`(a)\1`:                             "not RE2",
		`(?=a)`:                             "not RE2",
		`a{1001}`:                           "not RE2",
	} {
		p, err := Compile(text)
		switch {
		case want == "" && (err != nil || p.Work(0) < 1 || p.Work(9) != 10*p.Work(0)):
			t.Errorf("%.40s: %v", text, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 300):
			t.Errorf("%.40s: %v, want %q", text, err, want)
		}
	}
}

func TestFind(t *testing.T) {
	for _, tt := range []struct {
		pattern, text, want string
		none                bool
	}{{"b+", "abbc", "bb", false}, {"a(b+)c", "abbc", "bb", false}, {"a(x)?", "ab", "", false}, {"x", "ab", "", true}} {
		p, err := Compile(tt.pattern)
		if err != nil {
			t.Fatal(err)
		}
		at := p.Find(tt.text)
		if (len(at) == 0) != tt.none || p.Match(tt.text) == tt.none {
			t.Errorf("%s: %v", tt.pattern, at)
		}
		if tt.want != "" && tt.text[at[0]:at[1]] != tt.want {
			t.Errorf("%s: %v", tt.pattern, at)
		}
	}
}
