package main

import (
	"fmt"
	"go/ast"
	"slices"
	"strings"

	"tallystick/internal/testing/rules"
)

func (w *writer) text(b *body, s *rules.Shape, t ast.Expr, e string, at place) {
	if held, ok := w.Held[spell(t)]; ok {
		w.held(b, s, held, e, at)
		return
	}
	text := e
	if spell(t) != "string" {
		text = "string(" + e + ")"
	}
	b.textBounds(s, e, at)
	if f, ok := w.Words[spell(t)]; ok && s.OneOf != nil {
		b.addCall(f+"("+e+")", at)
	} else {
		w.oneOf(b, s, e, at)
	}
	if f, ok := w.Forms[s.Pattern]; ok {
		b.addCall(f+"("+text+")", at)
	} else if s.Pattern != "" {
		w.imports["regexp"], w.imports["sync"] = true, true
		name := at.word + "Pattern"
		w.patterns = append(w.patterns, fmt.Sprintf("var %s = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(?:%s)$`) })", name, s.Pattern))
		b.add("!"+name+"().MatchString("+text+")", at.broken("is %.80q, expected "+strings.ReplaceAll(s.Pattern, "%", "%%"), text))
	}
	for _, form := range s.Like {
		f, ok := w.Forms[form]
		if !ok {
			w.fail("%s: nothing checks the form %s", at.quoted, form)
		}
		b.addCall(f+"("+text+")", at)
	}
}

// held is a text whose Go type reads no other: there is nothing left to check
// but that the rules say the same.
func (w *writer) held(b *body, s *rules.Shape, held, e string, at place) {
	words := s.Pattern
	for i, word := range s.OneOf {
		words += strings.Repeat(" ", min(i, 1)) + fmt.Sprint(word)
	}
	for _, form := range s.Like {
		if form == "not_zero" {
			b.add(e+".IsZero()", at.broken("is zero"))
		} else {
			words += form
		}
	}
	if words != held || s.Min != nil || s.Max != nil {
		w.fail("%s is %s in its rules, its Go type reads %s", at.quoted, words, held)
	}
}

func (w *writer) count(b *body, s *rules.Shape, e string, at place) {
	b.bounds(s, e, "is %d, ", at)
	w.oneOf(b, s, e, at)
}

// number says a bound so that a NaN is outside of it.
func (w *writer) number(b *body, s *rules.Shape, e string, at place) {
	var inside []string
	var expected string
	switch {
	case s.Min != nil:
		inside, expected = append(inside, e+" >= "+show(*s.Min)), "at least "+show(*s.Min)
	case s.Above != nil:
		inside, expected = append(inside, e+" > "+show(*s.Above)), "more than "+show(*s.Above)
	}
	if s.Max != nil {
		inside = append(inside, e+" <= "+show(*s.Max))
		if s.Min != nil {
			expected = show(*s.Min) + " to " + show(*s.Max)
		} else {
			expected = strings.TrimPrefix(expected+", at most "+show(*s.Max), ", ")
		}
	}
	if inside == nil {
		w.imports["math"] = true
		b.add("math.IsNaN("+e+") || math.IsInf("+e+", 0)", at.broken("is %v, expected a number", e))
	} else {
		b.add("!("+strings.Join(inside, " && ")+")", at.broken("is %v, expected "+expected, e))
	}
	if slices.Contains(s.Like, "six_decimals") {
		b.add("!sixDecimals("+e+")", at.broken("is %v, expected at most six decimals", e))
	}
}

func (w *writer) oneOf(b *body, s *rules.Shape, e string, at place) {
	if s.OneOf == nil {
		return
	}
	var other, words []string
	verb := "%.80q"
	for _, v := range s.OneOf {
		other, words = append(other, e+" != "+literal(v)), append(words, fmt.Sprint(v))
		if _, isText := v.(string); !isText {
			verb = "%d"
		}
	}
	b.add(strings.Join(other, " && "), at.broken("is "+verb+", expected "+either(words), e))
}
