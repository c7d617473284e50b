package sight

import (
	"bytes"
	"encoding/binary"
)

// A filter says of nearly every text that it does not hold an answer, without
// folding or unwrapping it. It may be wrong in one direction only: what it lets
// through is looked at closely.
type filter struct {
	cores   []core
	encoded *Matcher // finds base64 of the answers
	blind   bool     // an answer has neither letters nor digits: every text is let through
}

// A core is the letters and digits of an answer, in lower case, and the place of the
// rarest.
type core struct {
	text string
	rare int
}

func newFilter(answers []Answer, pieces []string) *filter {
	f := &filter{encoded: NewMatcher(pieces)}
	for i := range answers {
		text, _ := coreOf(answers[i].Folded)
		f.blind = f.blind || text == ""
		f.cores = append(f.cores, core{text, rarestByte(text)})
	}
	return f
}

// lets reports whether a text may hold an answer.
func (f *filter) lets(text []byte) bool {
	if f.blind || !isSimple(text) {
		return true
	}
	for _, c := range f.cores {
		if c.mayBeIn(text) {
			return true
		}
	}
	if plainer, ok := untag(&layer{text: text}); ok && f.lets(plainer.text) {
		return true
	}
	found := false
	f.encoded.Find(text, func(int, int) { found = true })
	if !found {
		l, out := layer{text: text}, layer{}
		eachRun(text, func(lines []span) {
			_, ok := decodeBase64(&l, lines)
			found = found || ok
		}, func(run span) { found = found || out.unhex(&l, run) })
	}
	return found
}

// isSimple reports whether the characters of a text are those that are written:
// ASCII without escapes that stand for letters.
func isSimple(text []byte) bool {
	rest := text
	for ; len(rest) >= 8; rest = rest[8:] {
		if binary.LittleEndian.Uint64(rest)&highs != 0 {
			return false
		}
	}
	for _, c := range rest {
		if c >= 0x80 {
			return false
		}
	}
	for i := bytes.IndexByte(text, '%'); i >= 0; i = indexFrom(text, '%', i+1) {
		if isPercent(text, i) {
			return false
		}
	}
	if i := bytes.IndexByte(text, '&'); i >= 0 && bytes.IndexByte(text[i:], ';') >= 0 {
		return false
	}
	for i := bytes.IndexByte(text, '\\'); i >= 0 && i+1 < len(text); i = indexFrom(text, '\\', i+1) {
		switch text[i+1] {
		case 'u', 'x', '\\':
			return false
		}
	}
	return true
}

// mayBeIn looks for the characters of the core in their order, with anything between
// them that is neither letter nor digit.
func (c *core) mayBeIn(text []byte) bool {
	rare := c.text[c.rare]
	if rare >= 0x80 {
		return false // the text is ASCII
	}
	if c.rareIn(text, rare) {
		return true
	}
	return 'a' <= rare && rare <= 'z' && c.rareIn(text, rare-'a'+'A')
}

func (c *core) rareIn(text []byte, rare byte) bool {
	for i := bytes.IndexByte(text, rare); i >= 0; i = indexFrom(text, rare, i+1) {
		if c.after(text, i+1) && c.before(text, i) {
			return true
		}
	}
	return false
}

func (c *core) after(text []byte, at int) bool {
	for k := c.rare + 1; k < len(c.text); k++ {
		want := c.text[k]
		for gap := 0; ; at++ {
			if at >= len(text) {
				return false
			}
			b := lowerASCII[text[at]]
			if IsWordByte(b) {
				if b != want {
					return false
				}
				break
			}
			if b == '\\' && at+1 < len(text) && isBreak(text[at+1]) {
				if text[at+1] == want {
					return true // the letter, or a line break: a closer look tells
				}
				at++
			}
			if gap += weightOf(text, at); gap > maxGap {
				return false
			}
		}
		at++
	}
	return true
}

func (c *core) before(text []byte, at int) bool {
	for k := c.rare - 1; k >= 0; k-- {
		want := c.text[k]
		for gap := 0; ; at-- {
			if at <= 0 {
				return false
			}
			b := lowerASCII[text[at-1]]
			if at > 1 && text[at-2] == '\\' && isBreak(text[at-1]) {
				if b == want {
					return true
				}
				at--
				continue
			}
			if IsWordByte(b) {
				if b != want {
					return false
				}
				break
			}
			if gap += weightOf(text, at-1); gap > maxGap {
				return false
			}
		}
		at--
	}
	return true
}

// isBreak reports whether a letter behind a backslash stands for white space.
func isBreak(c byte) bool { return c == 'n' || c == 'r' || c == 't' }

// weightOf is what a byte between characters counts at least in a fold, where white
// space is one space for all of it.
func weightOf(text []byte, at int) int {
	c := text[at]
	if c <= ' ' || c == 0x7f || c == '\\' { // a backslash may be the half of an escape
		return 0
	}
	return 1
}
