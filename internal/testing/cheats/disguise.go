package cheats

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"
)

// A disguise is a way to write a text so that a reader, or a model, still reads
// it, and a plain search does not find it.
type disguise struct {
	name string
	of   func(d *dice, text string) string
}

// disguises are those that the audit is meant to see through.
var disguises = []disguise{
	{"plain", func(_ *dice, s string) string { return s }},
	{"plain", func(_ *dice, s string) string { return s }},
	{"upper-case", func(_ *dice, s string) string { return strings.ToUpper(s) }},
	{"base64", func(_ *dice, s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }},
	{"base64-url", func(_ *dice, s string) string { return base64.RawURLEncoding.EncodeToString([]byte("value=" + s)) }},
	{"base64-lines", base64Lines},
	{"look-alikes", func(d *dice, s string) string { return lookAlike(d, s) }},
	{"full-width", func(_ *dice, s string) string { return fullWidth(s) }},
	{"zero-width", zeroWidth},
	{"spaced", func(_ *dice, s string) string { return between(s, " ") }},
	{"over-lines", overLines},
	{"line-for-each", func(_ *dice, s string) string { return between(s, "\n") }},
	{"dotted", func(d *dice, s string) string { return between(s, pick(d, []string{"-", ".", "_", "·"})) }},
	{"entities", func(d *dice, s string) string { return entities(d, s) }},
	{"percent", func(_ *dice, s string) string { return percent(s) }},
	{"escapes", func(_ *dice, s string) string { return escapes(s) }},
	{"hex", func(_ *dice, s string) string { return hex.EncodeToString([]byte(s)) }},
	{"markup", markup},
}

func base64Lines(d *dice, s string) string {
	enc := base64.StdEncoding.EncodeToString([]byte(d.prose(tongues[0], 60) + s + d.prose(tongues[0], 40)))
	var lines []string
	for len(enc) > 60 {
		lines, enc = append(lines, enc[:60]), enc[60:]
	}
	return strings.Join(append(lines, enc), "\n")
}

var alike = map[rune]rune{
	'a': 'а', 'c': 'с', 'e': 'е', 'i': 'і', 'o': 'о', 'p': 'р', 's': 'ѕ', 'x': 'х', 'y': 'у', 'j': 'ј', 'h': 'һ',
	'A': 'Α', 'B': 'В', 'E': 'Ε', 'H': 'Н', 'I': 'Ι', 'K': 'К', 'M': 'М', 'N': 'Ν', 'O': 'О', 'P': 'Р', 'T': 'Т', 'X': 'Х', 'Y': 'Υ',
	'v': 'ν', '1': '𝟏', '2': '𝟐', '3': '𝟑', '4': '𝟜', '5': '𝟝', '6': '𝟨', '7': '𝟩', '8': '𝟪', '9': '𝟿', '0': '𝟎',
}

// lookAlike exchanges at least one letter, and about half of those that have a
// twin in another alphabet.
func lookAlike(d *dice, s string) string {
	var b strings.Builder
	first := true
	for _, r := range s {
		twin, ok := alike[r]
		if ok && (first || d.chance(50)) {
			first = false
			r = twin
		}
		b.WriteRune(r)
	}
	return b.String()
}

func fullWidth(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return 0x3000
		case r > 0x20 && r < 0x7f:
			return r + 0xfee0
		}
		return r
	}, s)
}

func zeroWidth(d *dice, s string) string {
	return between(s, pick(d, []string{"\u200b", "\u200d", "\u2060", "\u00ad", "\ufeff"}))
}

// between puts sep between all characters.
func between(s, sep string) string { return strings.Join(strings.Split(s, ""), sep) }

// overLines breaks the line in the middle of a word.
func overLines(d *dice, s string) string {
	r := []rune(s)
	if len(r) < 2 {
		return s
	}
	at := d.between(1, len(r)-1)
	return string(r[:at]) + pick(d, []string{"\n", "\r\n", "\n    ", "-\n"}) + string(r[at:])
}

func entities(d *dice, s string) string {
	var b strings.Builder
	for _, r := range s {
		if d.chance(50) {
			fmt.Fprintf(&b, "&#%d;", r)
		} else {
			fmt.Fprintf(&b, "&#x%X;", r)
		}
	}
	return b.String()
}

func percent(s string) string {
	var b strings.Builder
	for i := range len(s) {
		fmt.Fprintf(&b, "%%%02X", s[i])
	}
	return b.String()
}

func escapes(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r > 0xffff {
			b.WriteRune(r)
			continue
		}
		fmt.Fprintf(&b, `\u%04x`, r)
	}
	return b.String()
}

// markup puts tags between the words, or inside one.
func markup(d *dice, s string) string {
	r := []rune(s)
	at := d.IntN(len(r))
	tag := pick(d, []string{"b", "em", "span"})
	return string(r[:at]) + "<" + tag + ">" + string(r[at:]) + "</" + tag + ">"
}

// halves are two texts that together are the text.
func halves(d *dice, s string) (string, string) {
	at := d.between(1, max(1, utf8.RuneCountInString(s)-1))
	r := []rune(s)
	at = min(at, len(r))
	return string(r[:at]), string(r[at:])
}
