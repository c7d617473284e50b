package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"tallystick/internal/testing/rules"
)

// A body is the statements of a method, in their order.
type body []statement

// A statement is a condition and what is returned if it holds, or a block.
type statement struct{ cond, result, block string }

func (b *body) add(cond, result string) { *b = append(*b, statement{cond: cond, result: result}) }

func (b *body) addBlock(text string) { *b = append(*b, statement{block: text}) }

// addCall returns the error of a call with the place before it.
func (b *body) addCall(call string, at place) {
	b.addBlock("if err := " + call + "; err != nil {\nreturn within(" + at.quoted + ", err)\n}")
}

// addIf appends statements that are for what is there.
func (b *body) addIf(there string, inside body) {
	for _, s := range inside {
		switch {
		case s.block != "":
			b.addBlock("if " + there + " {\n" + s.block + "\n}")
		case s.cond == strings.TrimSuffix(there, " != 0")+" < 1": // a count that is 0 is not there
			b.add(strings.TrimSuffix(s.cond, "1")+"0", s.result)
		case strings.HasPrefix(s.cond, "len(") && strings.Contains(s.cond, ") > "): // what is absent is not too long
			b.add(s.cond, s.result)
		case strings.Contains(s.cond, "||"):
			b.add(there+" && ("+s.cond+")", s.result)
		default:
			b.add(there+" && "+s.cond, s.result)
		}
	}
}

// textBounds compares the bytes of a text with min and max.
func (b *body) textBounds(s *rules.Shape, e string, at place) {
	if s.Min == nil || *s.Min > 1 {
		b.bounds(s, "len("+e+")", "has %d bytes, ", at)
		return
	}
	b.add(e+` == ""`, at.broken("is empty"))
	b.bounds(&rules.Shape{Max: s.Max}, "len("+e+")", "has %d bytes, ", at)
}

// bounds compares an amount with min and max.
func (b *body) bounds(s *rules.Shape, amount, found string, at place) {
	low, high := s.Min, s.Max
	isLength := strings.HasPrefix(amount, "len(")
	switch {
	case low != nil && high != nil:
		cond := fmt.Sprintf("%s < %s || %s > %s", amount, show(*low), amount, show(*high))
		b.add(cond, at.broken(found+"expected "+show(*low)+" to "+show(*high), amount))
	case low != nil && isLength && *low == 1:
		b.add(amount+" == 0", at.broken("is empty"))
	case low != nil:
		b.add(amount+" < "+show(*low), at.broken(found+"expected at least "+show(*low), amount))
	case high != nil:
		b.add(amount+" > "+show(*high), at.broken(found+"expected at most "+show(*high), amount))
	}
}

// text writes conditions that follow each other as one switch.
func (b body) text() string {
	var out strings.Builder
	for i := 0; i < len(b); i++ {
		next := i
		for next < len(b) && b[next].block == "" {
			next++
		}
		switch {
		case next == i:
			fmt.Fprintf(&out, "%s\n", b[i].block)
			continue
		case next == i+1:
			fmt.Fprintf(&out, "if %s {\nreturn %s\n}\n", b[i].cond, b[i].result)
		default:
			out.WriteString("switch {\n")
			for _, s := range b[i:next] {
				fmt.Fprintf(&out, "case %s:\nreturn %s\n", s.cond, s.result)
			}
			out.WriteString("}\n")
		}
		i = next - 1
	}
	return out.String()
}

// broken is the call that makes the error of a value at the place.
func (p place) broken(text string, args ...string) string {
	return "broken(" + strings.Join(append([]string{p.quoted, strconv.Quote(text)}, args...), ", ") + ")"
}

// element is the place of an element or a named value inside.
func (p place) element(name string) place {
	return place{strings.TrimSuffix(p.quoted, `"`) + `."+` + name, p.word, p.document}
}

// literal is a value of the rules in Go.
func literal(v any) string {
	if text, ok := v.(string); ok {
		return strconv.Quote(text)
	}
	if n, ok := v.(float64); ok {
		return show(n)
	}
	return fmt.Sprint(v)
}

func show(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

// either lists words: a, b or c.
func either(words []string) string {
	if len(words) == 1 {
		return words[0]
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

// uses reports whether code has a variable of that name.
func uses(code, name string) bool {
	return regexp.MustCompile(`(^|[^.\w"])` + name + `\b`).MatchString(code)
}
