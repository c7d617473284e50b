package extract

import (
	"fmt"
	"strings"
	"sync"
	"unicode"
)

// Patterns are RE2, in which \d, \w and \s know ASCII alone: an agent that answers
// in Greek or with Arabic digits would fail a pattern that says nothing about
// languages. In patterns of graders and extractors they are these classes of
// Unicode. \b and \B stay as RE2 has them.
var unicodeClasses = map[byte]string{
	'd': `\p{Nd}`,
	'w': `\p{L}\p{M}\p{Nd}\p{Pc}`,
	's': `\t\n\v\f\r\x{85}\p{Z}`,
}

// UnicodePattern rewrites \d \w \s \D \W \S of a pattern, wherever RE2 reads them as
// classes: not after another backslash, and not between \Q and \E.
func UnicodePattern(pattern string) string {
	var b strings.Builder
	inClass := false
	for i := 0; i < len(pattern); i++ {
		c := pattern[i]
		switch {
		case c == '\\' && i+1 < len(pattern):
			i++
			if pattern[i] == 'Q' && !inClass {
				end := len(pattern)
				if n := strings.Index(pattern[i:], `\E`); n >= 0 {
					end = i + n + len(`\E`)
				}
				b.WriteString(pattern[i-1 : end])
				i = end - 1
				continue
			}
			b.WriteString(unicodeClass(pattern[i], inClass))
			continue
		case c == '[' && !inClass:
			inClass = true
			// A bracket right after the opening one is a member: []x], [^]x].
			b.WriteByte(c)
			for _, first := range "^]" {
				if i+1 < len(pattern) && rune(pattern[i+1]) == first {
					i++
					b.WriteByte(pattern[i])
				}
			}
			continue
		case c == '[' && strings.HasPrefix(pattern[i:], "[:"):
			if n := strings.Index(pattern[i:], ":]"); n >= 0 { // [[:alpha:]]
				b.WriteString(pattern[i : i+n+2])
				i += n + 1
				continue
			}
		case c == ']' && inClass:
			inClass = false
		}
		b.WriteByte(c)
	}
	return b.String()
}

// unicodeClass is what stands for a backslash and a letter.
func unicodeClass(letter byte, inClass bool) string {
	if members, ok := unicodeClasses[letter]; ok {
		if inClass {
			return members
		}
		return "[" + members + "]"
	}
	if members, ok := unicodeClasses[letter+'a'-'A']; ok && letter >= 'A' && letter <= 'Z' {
		if inClass {
			return complements()[letter+'a'-'A']
		}
		return "[^" + members + "]"
	}
	return `\` + string(rune(letter))
}

// complements are the members of \D, \W and \S: a class within a class cannot be
// turned round otherwise.
var complements = sync.OnceValue(func() map[byte]string {
	is := map[byte]func(rune) bool{
		'd': func(r rune) bool { return unicode.Is(unicode.Nd, r) },
		'w': func(r rune) bool { return unicode.In(r, unicode.L, unicode.M, unicode.Nd, unicode.Pc) },
		's': func(r rune) bool { return r >= '\t' && r <= '\r' || r == 0x85 || unicode.Is(unicode.Z, r) },
	}
	out := make(map[byte]string)
	for letter, has := range is {
		var b strings.Builder
		for r := rune(0); r <= unicode.MaxRune; r++ {
			if has(r) {
				continue
			}
			from := r
			for r < unicode.MaxRune && !has(r+1) {
				r++
			}
			fmt.Fprintf(&b, `\x{%x}-\x{%x}`, from, r)
		}
		out[letter] = b.String()
	}
	return out
})
