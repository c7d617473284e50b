package rules

import (
	"fmt"
	"slices"
	"strings"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
)

// A relation is a rule between members of an object. Its arguments are what
// follows its name. Members are named by paths with dots; a relation that needs
// the value of a member that is absent holds.
type relation struct {
	holds func(f *File, object map[string]any, args []any) error
	says  func(args []any) string // the rule in a sentence, for the pages
}

var relations map[string]relation

// A map that refers to functions that look into it is set up here.
func init() {
	relations = map[string]relation{
		"exactly_one": {exactlyOne, func(a []any) string { return "exactly one of " + paths(a) + " is there" }},
		"together":    {together, func(a []any) string { return paths(a) + " are there together or not at all" }},
		"needs":       {needs, func(a []any) string { return code(a[0]) + " needs " + code(a[1]) }},
		"needed_when": {neededWhen, func(a []any) string { return code(a[0]) + " is there if " + code(a[1]) + " is " + alternatives(a[2:]) }},
		"absent_when": {absentWhen, func(a []any) string { return code(a[0]) + " is absent if " + code(a[1]) + " is " + alternatives(a[2:]) }},
		"there_when": {thereWhen, func(a []any) string {
			return code(a[0]) + " is there exactly when " + code(a[1]) + " is " + alternatives(a[2:])
		}},
		"true_when": {trueWhen, func(a []any) string {
			return code(a[0]) + " is true exactly when " + code(a[1]) + " is " + alternatives(a[2:])
		}},
		"at_most":   {atMost, func(a []any) string { return code(a[0]) + " is at most " + code(a[1]) }},
		"differ":    {differ, func(a []any) string { return code(a[0]) + " is not " + code(a[1]) }},
		"length":    {length, func(a []any) string { return code(a[0]) + " has as many elements as " + code(a[1]) + " says" }},
		"sum":       {sum, func(a []any) string { return "the values of " + code(a[0]) + " add up to " + code(a[1]) }},
		"fits":      {fits, sayFits},
		"ascending": {ascending, sayAscending},
		"whole_text": {wholeText, func([]any) string {
			return "where none of `lossy`, `redacted` and `truncated` is there, `bytes` and `digest` are those of `head`; where `truncated` alone is, `bytes` is more than `head` has"
		}},
		"whole_arguments": {wholeArguments, func([]any) string {
			return "`raw` stands alone and has the same `bytes` and `digest`; no name is both in `values` and in `cut`; a value in `values` has at most 8192 bytes in canonical JSON; where neither `cut` nor `redacted` nor `raw` is there, `bytes` and `digest` are those of `values` in canonical JSON (`{}` without)"
		}},
		"head": {head, func(a []any) string {
			return fmt.Sprintf("the `head` of %s has at most %v bytes, but in the first format", code(a[0]), a[1])
		}},
		"document": {document, func(a []any) string {
			return code(a[0]) + " keeps the rules of the document that " + code(a[1]) + " names"
		}},
		"bytes": {bytesAtMost, func(a []any) string { return fmt.Sprintf("at most %v bytes in canonical JSON", a[0]) }},
	}
}

func (f *File) apply(rule []any, object map[string]any, at string) error {
	name, _ := rule[0].(string)
	r, ok := relations[name]
	if !ok {
		panic(fmt.Sprintf("rules: there is no relation %q", name))
	}
	if err := r.holds(f, object, rule[1:]); err != nil {
		return fmt.Errorf("%w (%s)", err, r.says(rule[1:]))
	}
	return nil
}

// at finds the member at a path.
func at(object map[string]any, path any) (any, bool) {
	var value any = object
	for name := range strings.SplitSeq(path.(string), ".") {
		inner, ok := value.(map[string]any)
		if !ok {
			return nil, false
		}
		if value, ok = inner[name]; !ok {
			return nil, false
		}
	}
	return value, true
}

func holdsIf(ok bool) error {
	if ok {
		return nil
	}
	return fmt.Errorf("a rule between its members does not hold")
}

func exactlyOne(_ *File, o map[string]any, args []any) error {
	n := 0
	for _, path := range args {
		if _, there := at(o, path); there {
			n++
		}
	}
	return holdsIf(n == 1)
}

func together(_ *File, o map[string]any, args []any) error {
	_, want := at(o, args[0])
	for _, path := range args[1:] {
		if _, there := at(o, path); there != want {
			return holdsIf(false)
		}
	}
	return nil
}

func needs(_ *File, o map[string]any, args []any) error {
	_, a := at(o, args[0])
	_, b := at(o, args[1])
	return holdsIf(!a || b)
}

// isOneOf reports whether the member args[1] is there and has one of the values
// that follow.
func isOneOf(o map[string]any, args []any) bool {
	value, there := at(o, args[1])
	return there && slices.ContainsFunc(args[2:], func(v any) bool { return same(v, value) })
}

func neededWhen(_ *File, o map[string]any, args []any) error {
	_, there := at(o, args[0])
	return holdsIf(there || !isOneOf(o, args))
}

func absentWhen(_ *File, o map[string]any, args []any) error {
	_, there := at(o, args[0])
	return holdsIf(!there || !isOneOf(o, args))
}

func thereWhen(_ *File, o map[string]any, args []any) error {
	_, there := at(o, args[0])
	return holdsIf(there == isOneOf(o, args))
}

func trueWhen(_ *File, o map[string]any, args []any) error {
	flag, there := at(o, args[0])
	return holdsIf(!there || same(flag, true) == isOneOf(o, args))
}

func atMost(_ *File, o map[string]any, args []any) error {
	a, okA := at(o, args[0])
	b, okB := at(o, args[1])
	if !okA || !okB {
		return nil
	}
	if text, ok := a.(string); ok { // times sort as texts do
		other, _ := b.(string)
		return holdsIf(text <= other)
	}
	return holdsIf(a.(float64) <= b.(float64))
}

func differ(_ *File, o map[string]any, args []any) error {
	a, okA := at(o, args[0])
	b, okB := at(o, args[1])
	return holdsIf(!okA || !okB || !same(a, b))
}

func length(_ *File, o map[string]any, args []any) error {
	list, ok := at(o, args[0])
	n, okN := at(o, args[1])
	return holdsIf(!ok || !okN || same(float64(len(list.([]any))), n))
}

func sum(_ *File, o map[string]any, args []any) error {
	values, ok := at(o, args[0])
	n, okN := at(o, args[1])
	if !ok || !okN {
		return nil
	}
	total := 0.0
	for _, v := range values.(map[string]any) {
		total += v.(float64)
	}
	return holdsIf(same(total, n))
}

// fits has a table: for each value of the first member, the values that the
// second may have.
func fits(_ *File, o map[string]any, args []any) error {
	a, okA := at(o, args[0])
	b, okB := at(o, args[1])
	if !okA || !okB {
		return nil
	}
	allowed, _ := args[2].(map[string]any)[fmt.Sprint(a)].([]any)
	return holdsIf(slices.ContainsFunc(allowed, func(v any) bool { return same(v, b) }))
}

// ascending has a map, the member of its values that counts ("" for the value),
// and a list of names with their defaults, lowest first: in that order, with
// the defaults for what is absent, the values never go down.
func ascending(_ *File, o map[string]any, args []any) error {
	last := 0.0
	for _, row := range args[2].([]any) {
		name, value := row.([]any)[0].(string), row.([]any)[1]
		path := args[0].(string) + "." + name
		if member := args[1].(string); member != "" {
			path += "." + member
		}
		if given, there := at(o, path); there {
			value = given
		}
		n := plainNumber(value).(float64)
		if n < last {
			return holdsIf(false)
		}
		last = n
	}
	return nil
}

// head bounds the beginning of a text.
func head(_ *File, o map[string]any, args []any) error {
	text, _ := at(o, args[0].(string)+".head")
	s, _ := text.(string)
	return holdsIf(float64(len(s)) <= plainNumber(args[1]).(float64))
}

func document(f *File, o map[string]any, args []any) error {
	value, _ := at(o, args[0])
	name, _ := at(o, args[1])
	shape := f.Documents[fmt.Sprint(name)]
	if shape == nil {
		return fmt.Errorf("there is no document %.60q", fmt.Sprint(name))
	}
	return f.check(shape, value, fmt.Sprint(name))
}

func bytesAtMost(_ *File, o map[string]any, args []any) error {
	text, err := canon.Marshal(o)
	if err != nil {
		return err
	}
	return holdsIf(float64(len(text)) <= plainNumber(args[0]).(float64))
}

// wholeText is the rule of a content: a head that claims to be the whole text
// has its digest and length.
func wholeText(_ *File, o map[string]any, _ []any) error {
	head, _ := o["head"].(string)
	bytes, _ := o["bytes"].(float64)
	cut, lossy, redacted := o["truncated"] != nil, o["lossy"] != nil, o["redacted"] != nil
	if cut && !lossy && !redacted {
		return holdsIf(bytes > float64(len(head)))
	}
	if cut || lossy || redacted {
		return nil
	}
	return holdsIf(bytes == float64(len(head)) && o["digest"] == digest.ContentOf([]byte(head)).String())
}

// maxArgument is the most bytes that the canonical JSON of one argument has
// before it is cut.
const maxArgument = 8 << 10

func wholeArguments(_ *File, o map[string]any, _ []any) error {
	values, _ := o["values"].(map[string]any)
	cut, _ := o["cut"].(map[string]any)
	if raw, ok := o["raw"].(map[string]any); ok {
		return holdsIf(values == nil && cut == nil && same(raw["bytes"], o["bytes"]) && same(raw["digest"], o["digest"]))
	}
	for name, value := range values {
		text, err := canon.Marshal(value)
		if _, both := cut[name]; err != nil || both || len(text) > maxArgument {
			return holdsIf(false)
		}
	}
	if cut != nil || o["redacted"] != nil {
		return nil
	}
	if values == nil {
		values = map[string]any{}
	}
	text, err := canon.Marshal(values)
	return holdsIf(err == nil && o["bytes"] == float64(len(text)) && o["digest"] == digest.ContentOf(text).String())
}
