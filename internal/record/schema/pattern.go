package schema

import (
	"fmt"
	"regexp"
	"regexp/syntax"
)

// A Pattern is a regular expression in RE2 syntax of bounded size.
type Pattern struct {
	text  string
	re    *regexp.Regexp
	insts int
}

// CompilePattern reads a regular expression.
func CompilePattern(text string) (*Pattern, error) {
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, fmt.Errorf("the pattern %s is not RE2: %w", quote(text), err)
	}
	prog, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, fmt.Errorf("the pattern %s: %w", quote(text), err)
	}
	if len(prog.Inst) > maxInsts {
		return nil, fmt.Errorf("the pattern %s becomes %d instructions, expected at most %d: its repetitions are too large", quote(text), len(prog.Inst), maxInsts)
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, fmt.Errorf("the pattern %s: %w", quote(text), err)
	}
	return &Pattern{text, re, len(prog.Inst)}, nil
}

// Steps is about how much work finding the pattern in n bytes can be; a million
// take some hundredths of a second.
func (p *Pattern) Steps(n int) int { return 1 + n*p.insts/32 }

// Match reports whether the pattern is found anywhere in the text.
func (p *Pattern) Match(s string) bool { return p.re.MatchString(s) }
