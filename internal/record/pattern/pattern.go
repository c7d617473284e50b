// Package pattern is the regular expressions that people and agents write: RE2, of
// bounded size, with a cost that is known before they are used.
//
// RE2 takes time in proportion to its compiled instructions times the bytes that it
// reads, so [Pattern.Work] is that product: it depends on the pattern and the text alone
// and is the same on every machine. Each caller says how much it allows. A test in
// internal/testing/structure keeps every pattern that is not written in our own source
// here.
package pattern

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"

	"tallystick/internal/record/plain"
)

// Bounds of work, in instructions times bytes. A million took 5 to 30 ms with the worst
// patterns that were found, and a hundredth of that with ordinary ones.
const (
	// Most is what one search may take. A search of more than [Soon] is not done in
	// the process that others wait for.
	Most = 160_000_000
	Soon = 4_000_000
)

const (
	maxInsts    = 4_000
	maxExpanded = 5 * maxInsts // which are written out, to be counted
	maxText     = 64 << 10
)

// A Pattern is a compiled pattern. It may be used by several goroutines.
type Pattern struct {
	text  string
	re    *regexp.Regexp
	insts int
}

// Compile reads a pattern. One whose repetitions make more than 4,000 instructions is
// refused before they are made.
func Compile(text string) (*Pattern, error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("the pattern has %d bytes, expected at most %d", len(text), maxText)
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, fmt.Errorf("the pattern %s is not RE2: %w", quote(text), err)
	}
	if n := count(parsed); n > maxExpanded {
		return nil, tooLarge(text, n)
	}
	prog, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, fmt.Errorf("the pattern %s: %w", quote(text), err)
	}
	insts := len(prog.Inst)
	if insts > maxInsts {
		return nil, tooLarge(text, insts)
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, fmt.Errorf("the pattern %s: %w", quote(text), err)
	}
	return &Pattern{text, re, insts}, nil
}

func tooLarge(text string, insts int) error {
	return fmt.Errorf("the pattern %s becomes %d instructions, expected at most %d: its repetitions are too large", quote(text), insts, maxInsts)
}

// count is about how many instructions a pattern becomes whose repetitions are not
// written out yet: x{2,5} is xxx?x?x?. It stops soon after too many.
func count(re *syntax.Regexp) int {
	n := 1 + len(re.Rune)
	if re.Op == syntax.OpCharClass {
		n = 1 // its runes are one instruction
	}
	for _, sub := range re.Sub {
		if n += count(sub); n > maxExpanded {
			return n
		}
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Max, re.Min+1)
	}
	return n
}

// Work is what a search through so many bytes costs at most.
func (p *Pattern) Work(bytes int) int { return p.insts * (bytes + 1) }

// Match reports whether the pattern is found anywhere in the text.
func (p *Pattern) Match(text string) bool { return p.re.MatchString(text) }

// Find is where its last group was found first, or all of it if it has none: begin and
// end, which are below zero for a group that took no part. It is nil if the pattern is
// not found.
func (p *Pattern) Find(text string) []int {
	found := p.re.FindStringSubmatchIndex(text)
	return found[max(0, len(found)-2):]
}

// Groups is how many groups it has.
func (p *Pattern) Groups() int { return p.re.NumSubexp() }

// String is the pattern as it was written.
func (p *Pattern) String() string { return p.text }

// quote shows the beginning of a pattern.
func quote(s string) string {
	const most = 60
	cut := ""
	if len(s) > most {
		s, cut = strings.ToValidUTF8(s[:most], ""), "..."
	}
	return plain.Line(strconv.Quote(s)) + cut
}
