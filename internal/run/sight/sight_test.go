package sight

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// answers are of 20 bits of surprise and more, of several kinds.
var answers = []string{"Paris", "42188", "Ulaanbaatar", "north-west", "3.14159", "La Paz, Bolivia", "CH3COOH", "東京都", "Ελλάδα", "1,234,567", "Rome"}

// spellings are the ways in which an answer may be written. Each row must be found
// wherever it stands in a text.
var spellings = []struct {
	name  string
	write func(s string) string
}{
	{"as it is", func(s string) string { return s }},
	{"upper case", strings.ToUpper},
	{"lower case", strings.ToLower},
	{"spelled out", func(s string) string { return spelled(s, " ") }},
	{"a point between", func(s string) string { return spelled(s, ".") }},
	{"a letter a line", func(s string) string { return spelled(s, "\n") }},
	{"a list", func(s string) string { return spelled(s, ", ") }},
	{"a bullet each", func(s string) string { return spelled(s, "\n - ") }},
	{"JSON list", func(s string) string { return `["` + spelled(s, `", "`) + `"]` }},
	{"two parts", func(s string) string { r := []rune(s); return string(r[:len(r)/2]) + " " + string(r[len(r)/2:]) }},
	{"two lines", func(s string) string { r := []rune(s); return string(r[:1]) + "\r\n\t" + string(r[1:]) }},
	{"zero width between", func(s string) string { return spelled(s, "\u200b") }},
	{"full width", fullWidth},
	{"look-alikes", func(s string) string {
		return strings.NewReplacer("a", "а", "e", "е", "o", "о", "P", "Р", "c", "с").Replace(s)
	}},
	{"entities", func(s string) string { return eachRune(s, func(r rune) string { return fmt.Sprintf("&#%d;", r) }) }},
	{"hexadecimal entities", func(s string) string { return eachRune(s, func(r rune) string { return fmt.Sprintf("&#x%x;", r) }) }},
	{"percent", func(s string) string {
		var b strings.Builder
		for _, c := range []byte(s) {
			fmt.Fprintf(&b, "%%%02X", c)
		}
		return b.String()
	}},
	{"a form", func(s string) string { return "a=" + url.QueryEscape(s) + "&b=1+x" }},
	{"backslashes", func(s string) string { return eachRune(s, func(r rune) string { return fmt.Sprintf(`\u%04x`, r) }) }},
	{"a letter a line, in JSON", func(s string) string { return spelled(s, `\n`) }},
	{"JSON in JSON", func(s string) string { return strconv.Quote(strconv.Quote(s)) }},
	{"base64 of it alone", func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }},
	{"base64 in lower case", func(s string) string { return base64.StdEncoding.EncodeToString([]byte(strings.ToLower(s))) }},
	{"base64 with three bytes before it", func(s string) string { return base64.StdEncoding.EncodeToString([]byte("A: " + s)) }},
	{"base64 with two", func(s string) string { return base64.URLEncoding.EncodeToString([]byte("= " + s + ".")) }},
	{"base64 with one", func(s string) string { return base64.StdEncoding.EncodeToString([]byte("=" + s + ".")) }},
	{"base64 of a sentence", func(s string) string {
		return base64.StdEncoding.EncodeToString([]byte("the answer that they want is " + s + ", no more"))
	}},
	{"base64 of base64", func(s string) string {
		return base64.StdEncoding.EncodeToString([]byte(base64.StdEncoding.EncodeToString([]byte("the answer is " + s + " here"))))
	}},
}

func spelled(s, between string) string {
	return strings.Join(strings.Split(s, ""), between)
}

func fullWidth(s string) string {
	return eachRune(s, func(r rune) string {
		if r > ' ' && r < 0x7f {
			r += 0xfee0
		}
		return string(r)
	})
}

func eachRune(s string, to func(rune) string) string {
	var b strings.Builder
	for _, r := range s {
		b.WriteString(to(r))
	}
	return b.String()
}

// filler is a text without any of the answers.
var filler = strings.Repeat("The quick brown fox jumps over the lazy dog; 17 times, it says.\nWhy would it \"stop\" there? No: 100 % of foxes go on. ", 40)

// TestEverySpellingIsFoundWhereverItStands: at the beginning, at the end and at a
// hundred places between, with the offset of the byte where it begins.
func TestEverySpellingIsFoundWhereverItStands(t *testing.T) {
	rng := rand.New(rand.NewPCG(29, 1))
	for _, answer := range answers {
		a := NewAnswer(answer)
		if !a.Decidable() {
			t.Fatalf("%q has %.1f bits", answer, a.Bits)
		}
		search := NewSearch(answer)
		if hits := search.Find([]byte(filler)); hits != nil {
			t.Fatalf("%q in the filler: %v", answer, hits)
		}
		for _, sp := range spellings {
			hidden := sp.write(answer)
			if strings.HasPrefix(sp.name, "base64") && len(answer) < 5 && sp.name != "base64 of it alone" && sp.name != "base64 in lower case" && len(hidden) < MinBase64 {
				continue // four bytes inside of a short text: docs/formats/audit.md says so
			}
			for range 20 {
				at := rng.IntN(len(filler) + 1)
				for at > 0 && at < len(filler) && filler[at-1] != ' ' {
					at--
				}
				text := filler[:at] + " " + hidden + " " + filler[at:]
				hits := search.Find([]byte(text))
				// Of something encoded it is the first encoded character, or one of the
				// characters that frame it.
				inside := slices.ContainsFunc(hits, func(h int64) bool { return h >= int64(at) && h <= int64(at+len(hidden)) })
				if !inside {
					t.Errorf("%q, %s (%.60q) at %d: found at %v", answer, sp.name, hidden, at, hits)
					break
				}
				if !a.IsAt([]byte(text), hits[0]) || hits[0] > 100 && a.IsAt([]byte(text), hits[0]-100) {
					t.Errorf("%q, %s: what was found at %d is not there, or elsewhere, too: %.40q", answer, sp.name, hits[0], text[hits[0]:])
					break
				}
			}
		}
	}
}

// TestOffsetsAreOfTheTextItself, to the byte.
func TestOffsetsAreOfTheTextItself(t *testing.T) {
	for _, tt := range []struct {
		answer, text string
		want         []int64
	}{
		{"Paris", "It is paris, PARIS and Paris", []int64{6, 13, 23}},
		{" 'New  York' ", "a new \n\t york b", []int64{2}},
		{"New York", "x\u00a0new\u00a0york newyork", []int64{3, 13}},
		{"Kelvins", "\u212aelvins", []int64{0}},
		{"Paris", "ééé %50aris &#80;aris", []int64{7, 15}},
		{"Paris", `{"a":"\u0050aris"}`, []int64{6}},
		{"42188", "n = 4 2 1 8 8.", []int64{4}},
		{"42188", "42,188 and 42.188 and 42188", []int64{0, 11, 22}},
		{"42188", "7,42188,9", []int64{2}},
		{"Paris", "Р\u200bа\u200br i-s", []int64{0}},
		{"4", "4 14 4.5 x4 (4)", []int64{0, 13}},
		{"yes", "eyes yes", []int64{5}},
		{"Paris", "UGFyaXM=", []int64{0}},
	} {
		if got := NewSearch(tt.answer).Find([]byte(tt.text)); !slices.Equal(got, tt.want) {
			t.Errorf("%q in %q: %v, want %v", tt.answer, tt.text, got, tt.want)
		}
	}
}

// TestOrdinaryTextsHoldNoAnswer has what looks like a spelling and is none.
func TestOrdinaryTextsHoldNoAnswer(t *testing.T) {
	for _, tt := range []struct{ answer, text, why string }{
		{"Rome", "Jerome went home", "inside another word"},
		{"Lima", "the climate of climax", "inside another word"},
		{"Iceland", "there is ice land and water", "two ordinary words"},
		{"42188", "142188 421880 42188.5 421.88 4.2188", "other numbers"},
		{"42188", "1 4 2 1 8 8 0 3", "a row of single digits"},
		{"3.14159", "314159", "without its point"},
		{"4218", "4 2 1 8", "not decidable, so not spelled out"},
		{"yes", "y e s", "not decidable, so not spelled out"},
		{"Paris", "ugfyaxm=", "base64 in other letters is another text"},
	} {
		if got := NewSearch(tt.answer).Find([]byte(tt.text)); got != nil {
			t.Errorf("%q in %q at %v: %s", tt.answer, tt.text, got, tt.why)
		}
	}
}

// TestSurprise has answers on both sides of what can be decided.
func TestSurprise(t *testing.T) {
	for answer, decidable := range map[string]bool{
		"": false, "3": false, "yes": false, "Yes": false, "maybe": false, "true": false, "B": false, "17": false, "1984": false, "2,500": false, "1000000": false,
		"three": false, "right": false, "none of the above": false, "25 percent": false, "12 hours": false, "5 km": false, "0.5": false, "of the": false, "cat": false, "aaaa": false,
		"Paris": true, "42188": true, "Rome": true, "Oslo": true, "17 Oak Street": true, "3.14159": true, "1984-07-21": true, "New York": true, "CH3COOH": true, "東京": true,
		"Москва": true, "the red queen": true, "zebra": true,
	} {
		a := NewAnswer(answer)
		if a.Decidable() != decidable {
			t.Errorf("%q has %.1f bits", answer, a.Bits)
		}
	}
}

// TestSearchAgreesWithItself: the first look, which notes no places, and the second
// find the same texts; and every place is in the text.
func TestSearchAgreesWithItself(t *testing.T) {
	rng := rand.New(rand.NewPCG(29, 2))
	alphabet := []string{"P", "a", "r", "i", "s", "Paris", " ", ".", "\n", "é", "а", "%50", "&#80;", `\u0050`, "\u200b", "UGFyaXM", "=", "x", "1", "&amp;", "+", "%", "\\", "\xff"}
	search, found, skipped := NewSearch("Paris"), 0, 0
	for range 100_000 {
		var b bytes.Buffer
		for range rng.IntN(12) {
			b.WriteString(alphabet[rng.IntN(len(alphabet))])
		}
		text := b.Bytes()
		hits := search.Find(text)
		if search.holds(text) != (len(hits) > 0) {
			t.Fatalf("%q: %v", text, hits)
		}
		if !search.filter.lets(text) {
			skipped++
		}
		for _, h := range hits {
			if found++; h < 0 || h >= int64(len(text)) {
				t.Fatalf("%q: %v", text, hits)
			}
		}
	}
	if found < 5000 || skipped < 5000 {
		t.Errorf("%d found, %d skipped: nothing was tried", found, skipped)
	}
}

// TestFilterHidesNoAnswer: what is skipped because the text cannot hold an answer
// holds none, whatever stands between its characters.
func TestFilterHidesNoAnswer(t *testing.T) {
	rng := rand.New(rand.NewPCG(29, 5))
	between := []string{"", "", "", " ", ".", "\n\n\t  ", `\n`, `\t`, `\"`, `\\`, " - ", "\x01", "+", "&", "%", "'", `\n\n`, "x", strings.Repeat(" ", 60), strings.Repeat("-", 15), strings.Repeat("-", 17)}
	words := []string{"north", "west", "n", "t", "317", "42188", "Par", "is", "UGFyaXM=", "nothing", "=", "A", "r", "bm9ydGh3ZXN0LTMxNyBpcyBpdCBhbmQgbm8gbW9yZQ"}
	for _, answer := range []string{"northwest-317", "Paris", "42188", "tnt rn", "7", "?", "nt", "éa"} {
		search := NewSearch(answer)
		found := 0
		for range 60_000 {
			var b bytes.Buffer
			for range rng.IntN(4) {
				b.WriteString(words[rng.IntN(len(words))] + between[rng.IntN(len(between))])
			}
			for _, r := range answer {
				if rng.IntN(20) > 0 {
					if rng.IntN(3) == 0 {
						r = []rune(strings.ToUpper(string(r)))[0]
					}
					b.WriteRune(r)
				}
				b.WriteString(between[rng.IntN(len(between))*rng.IntN(2)])
			}
			b.WriteString(words[rng.IntN(len(words))])
			if holds := search.holds(b.Bytes()); holds && !search.filter.lets(b.Bytes()) {
				t.Fatalf("%q in %q was skipped", answer, b.Bytes())
			} else if holds {
				found++
			}
		}
		if found < 500 {
			t.Errorf("%q: %d found: nothing was tried", answer, found)
		}
	}
}

// FuzzFind: whatever the text, the search ends, and what it finds lies in the text.
func FuzzFind(f *testing.F) {
	for _, sp := range spellings {
		f.Add("Cyclohexane 17,5", "x "+sp.write("Cyclohexane 17,5")+" y")
	}
	f.Add("4 2", "4\x00 2 \xff")
	f.Fuzz(func(t *testing.T, answer, text string) {
		s := NewSearch(answer)
		if s.Any() && s.holds([]byte(text)) && !s.filter.lets([]byte(text)) {
			t.Fatalf("%q in %q was skipped", answer, text)
		}
		for _, h := range s.Find([]byte(text)) {
			if h < 0 || h >= int64(len(text)) {
				t.Fatalf("%q in %q at %d", answer, text, h)
			}
		}
	})
}
