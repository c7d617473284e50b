package rules

import (
	"fmt"
	"strconv"
	"strings"
)

// Table writes the members of a document as a table of Markdown, those of
// objects inside it included, and after it a sentence for each rule between
// members.
func (f *File) Table(s *Shape) string {
	var b strings.Builder
	if s.Is != Object {
		return "Any object.\n"
	}
	if len(s.Members) > 0 {
		b.WriteString("| Member | | Value |\n|---|---|---|\n")
		rows(&b, s, "")
	} else {
		b.WriteString("No members.\n")
	}
	if said := sentences(s, ""); len(said) > 0 {
		b.WriteString("\n" + strings.Join(said, "\n") + "\n")
	}
	return b.String()
}

func rows(b *strings.Builder, s *Shape, prefix string) {
	for _, name := range sortedNames(s.Members) {
		m := s.Members[name]
		need := "required"
		if m.Optional {
			need = "optional"
		}
		fmt.Fprintf(b, "| `%s%s` | %s | %s |\n", prefix, name, need, m.words())
		if inner := m.inner(); inner != nil {
			rows(b, inner, prefix+name+".")
		}
	}
}

// inner is the object that a member is or has the elements of.
func (s *Shape) inner() *Shape {
	switch {
	case s.Is == Object:
		return s
	case s.Of != nil:
		return s.Of.inner()
	}
	return nil
}

func sentences(s *Shape, prefix string) []string {
	var out []string
	for _, r := range s.Rules {
		text := relations[r[0].(string)].says(r[1:])
		if prefix != "" {
			text = "in `" + strings.TrimSuffix(prefix, ".") + "`: " + text
		}
		out = append(out, "- "+strings.ToUpper(text[:1])+text[1:]+".")
	}
	for _, name := range sortedNames(s.Members) {
		if inner := s.Members[name].inner(); inner != nil {
			out = append(out, sentences(inner, prefix+name+".")...)
		}
	}
	return out
}

// formWords say what the forms are.
var formWords = map[string]string{
	"blake3": "digest `blake3:`", "sha256": "digest `sha256:`", "not_zero": "not of zeros",
	"time": "time to the millisecond", "second": "time to the second", "origin": "a ledger's name",
	"name": "a name", "objective": "without the words that no score may claim", "visible": "one line of visible text",
	"no_control": "no control characters", "relative_path": "a clean relative path", "ssh_public_key": "an SSH public key", "six_decimals": "at most six decimals",
}

// words says what a value may be, for a cell of a table.
func (s *Shape) words() string {
	var parts []string
	what := s.Is
	switch s.Is {
	case List:
		what = "list of " + s.Of.words()
	case Map:
		what = "object of " + s.Of.words()
		if s.Names != nil {
			what += ", names: " + s.Names.words()
		}
	case Flag:
		what = "true or false"
	case Any:
		what = "any JSON value"
	case Text, Count, Number, Object:
	default:
		what = "[" + s.Is + "](#" + s.Is + ")"
	}
	if s.OneOf != nil {
		what = alternatives(s.OneOf)
	}
	for i, form := range s.Like {
		if i == 0 && s.Is == Text && form != "objective" && form != "no_control" {
			what = formWords[form]
			continue
		}
		parts = append(parts, formWords[form])
	}
	if s.Pattern != "" {
		parts = append(parts, "`"+s.Pattern+"`")
	}
	if r := s.rangeWords(); r != "" {
		parts = append(parts, r)
	}
	switch s.Distinct {
	case "":
	case "value":
		parts = append(parts, "none twice")
	case "look":
		parts = append(parts, "none that looks like another")
	default:
		parts = append(parts, "no `"+strings.Join(strings.Fields(s.Distinct), "` and `")+"` twice")
	}
	if s.Sorted {
		parts = append(parts, "in order")
	}
	return strings.Join(append([]string{what}, parts...), ", ")
}

// rangeWords says the bounds, with the unit that they count.
func (s *Shape) rangeWords() string {
	unit := map[string]string{Text: " bytes", List: " elements", Map: " members"}[s.Is]
	show := func(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }
	switch {
	case s.Above != nil && s.Max != nil:
		return "more than " + show(*s.Above) + ", at most " + show(*s.Max)
	case s.Min != nil && s.Max != nil && *s.Min == *s.Max:
		return show(*s.Min) + unit
	case s.Min != nil && s.Max != nil:
		return show(*s.Min) + " to " + show(*s.Max) + unit
	case s.Max != nil:
		return "at most " + show(*s.Max) + unit
	case s.Min != nil && *s.Min == 1 && unit != "":
		return "not empty"
	case s.Min != nil:
		return show(*s.Min) + " or more" + unit
	}
	return ""
}

func code(v any) string { return fmt.Sprintf("`%v`", v) }

func paths(args []any) string {
	var out []string
	for _, a := range args {
		out = append(out, code(a))
	}
	return strings.Join(out, ", ")
}

// alternatives lists values: `a`, `b` or `c`.
func alternatives(values []any) string {
	var out []string
	for _, v := range values {
		out = append(out, code(v))
	}
	if len(out) < 2 {
		return strings.Join(out, "")
	}
	return strings.Join(out[:len(out)-1], ", ") + " or " + out[len(out)-1]
}

func sayFits(args []any) string {
	table, _ := args[2].(map[string]any)
	var out []string
	for _, value := range sortedNames(table) {
		allowed, _ := table[value].([]any)
		out = append(out, fmt.Sprintf("with %s `%s` %s is %s", code(args[0]), value, code(args[1]), alternatives(allowed)))
	}
	return strings.Join(out, "; ")
}

func sayAscending(args []any) string {
	var out []string
	for _, row := range args[2].([]any) {
		pair := row.([]any)
		out = append(out, fmt.Sprintf("`%v` (%v where it is absent)", pair[0], pair[1]))
	}
	what := code(args[0])
	if member := args[1].(string); member != "" {
		what = code(member) + " of " + what
	}
	return what + " never goes down in the order " + strings.Join(out, ", ")
}
