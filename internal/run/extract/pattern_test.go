package extract

import (
	"regexp"
	"strings"
	"testing"
	"unicode"
)

func TestPatternsKnowUnicode(t *testing.T) {
	for _, tt := range []struct {
		pattern   string
		yes, noes []string
	}{
		{`\A\w+\z`, []string{"Oslo", "Αθήνα", "Zürich", "東京", "नमस्ते", "a_1"}, []string{"", "a b", "a-b", "€"}},
		{`\A\d+\z`, []string{"42", "٤٢", "४२"}, []string{"x", "½", "Ⅳ"}},
		{`\Aa\sb\z`, []string{"a b", "a\u00a0b", "a\u2009b", "a\vb", "a\u0085b", "a\u3000b"}, []string{"ab", "a_b", "a\u200bb"}},
		{`\A\W\z`, []string{"€", " ", "-"}, []string{"é", "β", "_", "٤"}},
		{`\A\D\z`, []string{"x", "½"}, []string{"4", "४"}},
		{`\A\S\z`, []string{"x", "é"}, []string{" ", "\u00a0"}},
		{`\A[\w-]+\z`, []string{"κρύο-νερό"}, []string{"a b"}},
		{`\A[^\w]+\z`, []string{"€ -"}, []string{"é"}},
		{`\A[^\W\d]+\z`, []string{"κρύο"}, []string{"κ1", "€", "٤"}},
		{`\A[\D]\z`, []string{"x"}, []string{"४"}},
		{`\A[\S]\z`, []string{"x"}, []string{"\u00a0"}},
		{`\A[]\d]+\z`, []string{"]४"}, []string{"x"}},
		{`\A[^]\d]\z`, []string{"x"}, []string{"]", "४"}},
		{`\A[[:alpha:]\d]+\z`, []string{"a४"}, []string{"-"}},
		{`\A\\d\z`, []string{`\d`}, []string{"4", `\४`}},
		{`\A\Q\d\E\d\z`, []string{`\d४`}, []string{"44"}},
		{`(?i)\Aé\w\z`, []string{"Éß"}, []string{"É "}},
	} {
		re, err := regexp.Compile(UnicodePattern(tt.pattern))
		if err != nil {
			t.Errorf("%s: %v", tt.pattern, err)
			continue
		}
		for _, s := range tt.yes {
			if !re.MatchString(s) {
				t.Errorf("%s does not match %q", tt.pattern, s)
			}
		}
		for _, s := range tt.noes {
			if re.MatchString(s) {
				t.Errorf("%s matches %q", tt.pattern, s)
			}
		}
	}
}

// Whatever compiles, compiles rewritten, and finds the same in ASCII.
func FuzzUnicodePattern(f *testing.F) {
	for _, seed := range []string{`\d+`, `[\w]`, `\Q[\E\d`, `[^\W]`, `[]\s]`, `\\`, `[[:digit:]\D]`, `a|(b)\S*?`, `[\Q]\E]`, `\pL[\pN\d]`} {
		f.Add(seed, "ab 12 _-[]")
	}
	f.Fuzz(func(t *testing.T, pattern, text string) {
		re, err := regexp.Compile(pattern)
		if err != nil || len(pattern) > 200 || strings.ContainsFunc(text, func(r rune) bool { return r > unicode.MaxASCII || r == '\v' }) {
			return
		}
		// RE2's own \s has no vertical tab.
		again, err := regexp.Compile(UnicodePattern(pattern))
		if err != nil {
			t.Fatalf("%q compiles and %q does not: %v", pattern, UnicodePattern(pattern), err)
		}
		if !strings.ContainsAny(pattern, "\v") && re.MatchString(text) != again.MatchString(text) {
			t.Errorf("%q on %q: %v, rewritten %q: %v", pattern, text, re.MatchString(text), UnicodePattern(pattern), again.MatchString(text))
		}
	})
}
