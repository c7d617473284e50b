package main

import (
	"fmt"
	"go/ast"
	"maps"
	"slices"
	"strings"
)

// A member is a member of an object as a relation names it.
type member struct {
	path, expr string
	there      string // the condition under which it is there; "" if it always is
	typ        ast.Expr
}

// find is the member at a path with dots.
func (w *writer) find(m *method, path any) member {
	out := member{path: fmt.Sprint(path), expr: w.receiver(m.typ)}
	typ := m.typ
	var there []string
	for name := range strings.SplitSeq(out.path, ".") {
		fields, err := w.fields(typ)
		f, ok := fields[name]
		if err != nil || !ok {
			w.fail("a rule of %s names %s, which is not there", m.typ, out.path)
			return out
		}
		out.expr += "." + f.name
		out.typ = f.typ
		if f.optional {
			there = append(there, w.there(f.typ, out.expr))
		}
		typ = strings.TrimPrefix(spell(f.typ), "*")
	}
	out.there = strings.Join(there, " && ")
	return out
}

func (x member) place() place { return place{quoted: fmt.Sprintf("%q", x.path)} }

// isThere is a condition, also where the member always is.
func (x member) isThere() string {
	if x.there == "" {
		return "true"
	}
	return x.there
}

// absent is the opposite of isThere.
func (x member) absent() string {
	before, after, compared := strings.Cut(x.there, " ")
	switch {
	case strings.Contains(x.there, "&&"):
		return "!(" + x.there + ")"
	case !compared:
		return "!" + x.there
	case strings.HasPrefix(after, "!="):
		return before + " ==" + strings.TrimPrefix(after, "!=")
	}
	return strings.Replace(x.there, " > 0", " == 0", 1)
}

// is is the condition that the member is there and has one of the values.
func (x member) is(values []any) string {
	var out []string
	for _, v := range values {
		switch v {
		case true:
			out = append(out, x.expr)
		case false:
			out = append(out, "!"+x.expr)
		default:
			out = append(out, x.expr+" == "+literal(v))
		}
	}
	if len(out) > 1 {
		return "(" + strings.Join(out, " || ") + ")"
	}
	return out[0]
}

func words(values []any) string {
	var out []string
	for _, v := range values {
		out = append(out, fmt.Sprint(v))
	}
	return either(out)
}

// handWritten are the methods of rules that only one type has.
var handWritten = map[string]string{"whole_text": "wholeText", "whole_arguments": "wholeArguments"}

// relation appends what a rule between members says.
func (w *writer) relation(m *method, rule []any) {
	name, args := fmt.Sprint(rule[0]), rule[1:]
	if byHand, ok := handWritten[name]; ok {
		m.body.addBlock("if err := " + w.receiver(m.typ) + "." + byHand + "(); err != nil {\nreturn err\n}")
		return
	}
	switch name {
	case "head", "absent_in", "not_in":
		return // the order of events checks them: it knows the format
	}
	a := w.find(m, args[0])
	if a.typ == nil {
		return
	}
	switch name {
	case "exactly_one", "together":
		w.presence(m, name, a, args[1:])
		return
	case "ascending":
		w.ascending(m, a, args)
		return
	}
	b := w.find(m, args[1])
	if b.typ == nil {
		return
	}
	values := args[2:]
	switch name {
	case "needs":
		m.body.add(and(a.isThere(), b.absent()), a.place().broken("is there without "+b.path))
	case "needed_when":
		m.body.add(and(a.absent(), b.is(values)), a.place().broken("is missing, and "+b.path+" is %v", b.expr))
	case "absent_when":
		m.body.add(and(a.isThere(), b.is(values)), a.place().broken("is there, and "+b.path+" is %v", b.expr))
	case "there_when":
		m.body.add("("+a.isThere()+") != "+compared(b.is(values)), a.place().broken("is expected exactly when "+b.path+" is "+words(values)+"; it is %v", b.expr))
	case "true_when":
		m.body.add(and(a.there, a.expr+" != "+compared(b.is(values))), a.place().broken("is %v, and "+b.path+" is %v", a.expr, b.expr))
	case "at_most":
		w.atMost(m, a, b)
	case "differ":
		m.body.add(and(a.there, b.there, a.expr+" == "+b.expr), a.place().broken("is %v, and so is "+b.path+"; expected another value", a.expr))
	case "length":
		m.body.add(and(a.there, b.there, "len("+a.expr+") != "+b.expr), a.place().broken("has %d elements, expected as many as "+b.path+", which is %d", "len("+a.expr+")", b.expr))
	case "sum":
		m.body.addBlock(fmt.Sprintf("sum := int64(0)\nfor _, n := range %s {\nsum += int64(n)\n}", a.expr))
		m.body.add("sum != "+b.expr, a.place().broken("add up to %d, expected "+b.path+", which is %d", "sum", b.expr))
	case "fits":
		w.fits(m, a, b, args[2].(map[string]any))
	default:
		w.fail("%s: the rule %s is not written", m.typ, name)
	}
}

func (w *writer) presence(m *method, name string, a member, others []any) {
	var conds, paths []string
	for _, path := range others {
		b := w.find(m, path)
		op := " != "
		if name == "exactly_one" {
			op = " == "
		}
		conds, paths = append(conds, "("+a.isThere()+")"+op+"("+b.isThere()+")"), append(paths, b.path)
	}
	if name == "together" {
		m.body.add(strings.Join(conds, " || "), a.place().broken("is there and "+either(paths)+" is not, or the other way round"))
		return
	}
	if len(others) != 1 {
		w.fail("%s: exactly_one of more than two members is not written", m.typ)
	}
	m.body.add(conds[0], a.place().broken("or "+paths[0]+" is expected, and not both"))
}

func (w *writer) atMost(m *method, a, b member) {
	more := a.expr + " > " + b.expr
	if spell(a.typ) == "Time" {
		more = b.expr + ".Before(" + a.expr + ")"
	}
	m.body.add(and(a.there, b.there, more), a.place().broken("is %v, expected at most "+b.path+", which is %v", a.expr, b.expr))
}

// ascending has names with their defaults, lowest first, and the member of the
// values of a map that counts, "" for the value.
func (w *writer) ascending(m *method, a member, args []any) {
	typ, value := "float64", "item"
	table, ok := w.under(a.typ).(*ast.MapType)
	if !ok {
		w.fail("%s.%s is not a map", m.typ, a.path)
		return
	}
	if name := fmt.Sprint(args[1]); name != "" {
		fields, err := w.fields(spell(table.Value))
		if err != nil {
			w.fail("%w", err)
			return
		}
		value += "." + fields[name].name
	} else {
		typ = spell(table.Value)
	}
	var rows strings.Builder
	for _, row := range args[2].([]any) {
		fmt.Fprintf(&rows, "{%s, %s},\n", literal(row.([]any)[0]), literal(row.([]any)[1]))
	}
	last, below := "last"+lastName(a.expr), "below"+lastName(a.expr)
	wrong := a.place().broken("is %v for %s and %v for %s, expected no less for the latter", last, below, "row.least", "row.name")
	m.body.addBlock(fmt.Sprintf("%s, %s := %s(0), %s(\"\")", last, below, typ, spell(table.Key)))
	m.body.addBlock(fmt.Sprintf("for _, row := range []struct{name %s; least %s}{\n%s} {\n", spell(table.Key), typ, &rows) +
		fmt.Sprintf("if item, ok := %s[row.name]; ok {\nrow.least = %s\n}\n", a.expr, value) +
		fmt.Sprintf("if row.least < %s {\nreturn %s\n}\n%s, %s = row.least, row.name\n}", last, wrong, last, below))
}

// fits has for each value of one member the values that the other may have.
func (w *writer) fits(m *method, a, b member, table map[string]any) {
	var rows []string
	for _, value := range slices.Sorted(maps.Keys(table)) {
		rows = append(rows, and(a.is([]any{value}), b.is(table[value].([]any))))
	}
	m.body.add("!("+strings.Join(rows, " || ")+")", b.place().broken("is %v, which does not fit "+a.path+" %v", b.expr, a.expr))
}

// and joins conditions; empty ones always hold.
func and(conds ...string) string {
	var out []string
	for _, c := range conds {
		if c != "" && c != "true" {
			out = append(out, c)
		}
	}
	return strings.Join(out, " && ")
}

// compared is a condition as one side of a comparison.
func compared(cond string) string {
	if strings.HasPrefix(cond, "(") || !strings.Contains(cond, " ") {
		return cond
	}
	return "(" + cond + ")"
}
