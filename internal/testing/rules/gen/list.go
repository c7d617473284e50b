package main

import (
	"fmt"
	"go/ast"
	"strings"

	"tallystick/internal/testing/rules"
)

func (w *writer) list(b *body, s *rules.Shape, t ast.Expr, e string, at place) {
	list, ok := w.under(t).(*ast.ArrayType)
	if !ok {
		w.fail("%s is a list in its rules and a %s", at.quoted, spell(t))
		return
	}
	b.bounds(s, "len("+e+")", "has %d elements, ", at)
	item, element := "item", at.element("strconv.Itoa(at)")
	if _, isStruct := w.under(list.Elt).(*ast.StructType); isStruct {
		item = e + "[at]"
	}
	var inside body
	w.check(&inside, s.Of, list.Elt, item, element)
	if s.Distinct != "" {
		w.distinct(b, &inside, s, list.Elt, item, e, element)
	}
	if s.Sorted {
		inside.add("at > 0 && "+e+"[at-1] > "+item, element.broken("is not in order"))
	}
	if len(inside) == 0 {
		return
	}
	text := inside.text()
	w.uses(text)
	head := "for at, item := range " + e
	if !uses(text, "item") {
		head = "for at := range " + e
	}
	b.addBlock(head + " {\n" + text + "}")
}

// distinct keeps the elements that were there already, in a set that is made
// before the loop.
func (w *writer) distinct(b, inside *body, s *rules.Shape, t ast.Expr, item, e string, at place) {
	keys, typ := w.keys(s.Distinct, t, item)
	if keys == nil {
		return
	}
	key := keys[0]
	if len(keys) > 1 {
		typ = fmt.Sprintf("[%d]string", len(keys))
		key = typ + "{" + strings.Join(keys, ", ") + "}"
	}
	seen := "seen" + lastName(e)
	b.addBlock(fmt.Sprintf("%s := make(map[%s]bool, len(%s))", seen, typ, e))
	if s.Distinct == "look" {
		inside.add(seen+"["+key+"]", at.broken("is %.80q, which looks like another in the list", item))
	} else {
		inside.add(seen+"["+key+"]", at.broken("is listed twice: %.80q", strings.Join(keys, "+\" \"+")))
	}
	inside.addBlock(seen + "[" + key + "] = true")
}

// keys are what makes an element the same as another, and of which type they are.
func (w *writer) keys(distinct string, t ast.Expr, item string) (keys []string, typ string) {
	switch distinct {
	case "value":
		return []string{item}, spell(t)
	case "look":
		return []string{w.Look + "(" + item + ")"}, "string"
	}
	fields, err := w.fields(spell(t))
	if err != nil {
		w.fail("%w", err)
		return nil, ""
	}
	for name := range strings.FieldsSeq(distinct) {
		f := fields[name]
		key := item + "." + f.name
		if spell(f.typ) != "string" {
			key = "string(" + key + ")"
		}
		keys = append(keys, key)
	}
	return keys, "string"
}

// lastName is the field at the end of an expression.
func lastName(e string) string { return e[strings.LastIndex(e, ".")+1:] }

func (w *writer) mapping(b *body, s *rules.Shape, t ast.Expr, e string, at place) {
	if spell(w.under(t)) == "canon.RawMessage" {
		b.add(e+"[0] != '{'", at.broken("is %.20s, expected a mapping", e))
		return
	}
	m, ok := w.under(t).(*ast.MapType)
	if !ok {
		w.fail("%s is a map in its rules and a %s", at.quoted, spell(t))
		return
	}
	b.bounds(s, "len("+e+")", "has %d members, ", at)
	name := "name"
	if spell(m.Key) != "string" {
		name = "string(name)"
	}
	var inside body
	if s.Names != nil {
		w.check(&inside, s.Names, m.Key, "name", at.element(name))
	}
	w.check(&inside, s.Of, m.Value, "item", at.element(name))
	if len(inside) == 0 {
		return
	}
	text := inside.text()
	w.uses(text)
	head := "for name, item := range " + e + " {\n"
	switch {
	case w.Sorted:
		w.imports["slices"], w.imports["maps"] = true, true
		head = "for _, name := range slices.Sorted(maps.Keys(" + e + ")) {\n"
		if uses(text, "item") {
			head += "item := " + e + "[name]\n"
		}
	case !uses(text, "item"):
		head = "for name := range " + e + " {\n"
	}
	b.addBlock(head + text + "}")
}

// uses notes the packages that a text needs.
func (w *writer) uses(text string) {
	if strings.Contains(text, "strconv.") {
		w.imports["strconv"] = true
	}
}
