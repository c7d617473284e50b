package rules

import (
	"encoding"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"tallystick/internal/record/canon"
)

// A Source makes shapes from the Go types of a format, so that a new member is
// in the file as soon as the type has it.
type Source struct {
	// Types are the shapes of types that say more than their Go kind: digests,
	// times, enumerations.
	Types map[reflect.Type]*Shape
	// Text is the shape of a text about which nothing is said.
	Text Shape
	// Count is the shape of a whole number about which nothing is said.
	Count Shape
	// Items is the shape of the texts in lists about which nothing is said.
	Items Shape
	// Bounds are the words that a phrase may use for a number of bytes.
	Bounds map[string]float64
	// Phrases say what the types do not, by path: the document's name, a dot
	// and the member's path. A tag "schema" on the field says the same.
	Phrases map[string]string
	// Relations are the rules between members, by the path of their object.
	Relations map[string][][]any

	used map[string]bool
}

// P is a pointer to a bound.
func P(n float64) *float64 { return &n }

// Object makes the shape of a struct.
func (s *Source) Object(name string, t reflect.Type) *Shape {
	if s.used == nil {
		s.used = map[string]bool{}
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return &Shape{Is: Map, Of: &Shape{Is: Any}}
	}
	shape := &Shape{Is: Object, Members: map[string]*Shape{}, Rules: s.Relations[name]}
	s.used[name] = true
	for f := range t.Fields() {
		key, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		at := name + "." + key
		m := s.value(at, f.Type)
		m.Optional = strings.Contains(options, "omit")
		s.say(m, at, f.Tag.Get("schema"))
		s.say(m, at, s.Phrases[at])
		s.used[at] = true
		if m.Optional {
			m.leaveOutEmpty(f.Type)
		}
		shape.Members[key] = m
	}
	return shape
}

// Unused lists phrases and relations of members that no type has.
func (s *Source) Unused() []string {
	var out []string
	for _, at := range append(sortedNames(s.Phrases), sortedNames(s.Relations)...) {
		if !s.used[at] {
			out = append(out, at)
		}
	}
	return out
}

func (s *Source) value(at string, t reflect.Type) *Shape {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if shape, ok := s.Types[t]; ok {
		copied := *shape
		return &copied
	}
	if t == reflect.TypeFor[canon.RawMessage]() {
		return &Shape{Is: Any}
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		panic(fmt.Sprintf("%s: say in Types what texts %s reads", at, t))
	}
	switch t.Kind() {
	case reflect.String:
		copied := s.Text
		return &copied
	case reflect.Bool:
		return &Shape{Is: Flag}
	case reflect.Int, reflect.Int64, reflect.Uint8:
		copied := s.Count
		return &copied
	case reflect.Float64:
		return &Shape{Is: Number}
	case reflect.Slice:
		list := &Shape{Is: List, Of: s.value(at, t.Elem()), Max: s.Items.Max}
		if t.Elem().Kind() == reflect.String && s.Types[t.Elem()] == nil {
			copied := s.Items
			copied.Max = s.bound("long")
			list.Of = &copied
		}
		return list
	case reflect.Map:
		m := &Shape{Is: Map, Of: s.value(at, t.Elem())}
		if names, ok := s.Types[t.Key()]; ok {
			m.Names = names
		}
		return m
	case reflect.Struct:
		return s.Object(at, t)
	}
	panic(fmt.Sprintf("%s: no shape for %s", at, t))
}

// leaveOutEmpty: a member that may be absent is left out when it is empty, so
// where it is there it is not.
func (m *Shape) leaveOutEmpty(t reflect.Type) {
	switch {
	case m.Is == Flag && t.Kind() == reflect.Bool:
		m.OneOf = []any{true}
	case m.Is == Text && t.Kind() == reflect.String && m.OneOf == nil && m.Min == nil,
		m.Is == List && m.Min == nil, m.Is == Map && m.Min == nil:
		m.Min = P(1)
	case m.Is == Count && t.Kind() != reflect.Pointer && m.Min != nil && *m.Min == 0:
		m.Min = P(1)
	}
}

func (s *Source) bound(word string) *float64 {
	if n, ok := s.Bounds[word]; ok {
		return P(n)
	}
	return nil
}

// say reads a phrase: parts with a semicolon between them.
func (s *Source) say(m *Shape, at, phrase string) {
	if phrase == "" {
		return
	}
	for part := range strings.SplitSeq(phrase, "; ") {
		if !s.sayPart(m, part) {
			panic(fmt.Sprintf("%s: %q says nothing that is known here", at, part))
		}
	}
}

func (s *Source) sayPart(m *Shape, part string) bool {
	verb, rest, _ := strings.Cut(part, " ")
	rest = strings.TrimPrefix(rest, "of ")
	switch {
	case part == "may be empty":
		m.Min = nil
	case part == "not empty":
		m.Min = P(1)
	case part == "any number":
		m.Min = nil
	case part == "any value":
		*m = Shape{Is: Any, Optional: m.Optional}
	case part == "mapping":
		*m = Shape{Is: Map, Of: &Shape{Is: Any}, Optional: m.Optional}
	case part == "is true":
		m.OneOf = []any{true}
	case verb == "one":
		m.OneOf, m.Min, m.Max = values(rest), nil, nil
	case verb == "names":
		m.Names = &Shape{Is: Text, OneOf: values(rest)}
	case verb == "each":
		return s.sayPart(m.Of, rest)
	case verb == "name":
		if m.Names == nil {
			m.Names = &Shape{Is: Text}
		}
		return s.sayPart(m.Names, rest)
	case verb == "like":
		m.Like = append(m.Like, strings.Fields(rest)...)
		if m.Is == Text { // a form says whether a text may be empty
			m.Min = nil
		}
	case verb == "pattern":
		m.Pattern, m.Min = rest, nil
	case verb == "distinct":
		m.Distinct = rest
	case part == "sorted":
		m.Sorted = true
	case verb == "is":
		*m = Shape{Is: rest, Optional: m.Optional}
	case s.Bounds[part] > 0:
		m.Max = s.bound(part)
	default:
		return m.sayBounds(part)
	}
	return true
}

// sayBounds reads "from N", "N to M", "at most N", "above N".
func (m *Shape) sayBounds(part string) bool {
	words := strings.Fields(part)
	n := make([]float64, len(words))
	for i, w := range words {
		n[i], _ = strconv.ParseFloat(w, 64)
	}
	switch {
	case len(words) == 2 && words[0] == "from":
		m.Min = &n[1]
	case len(words) == 3 && words[1] == "to":
		m.Min, m.Max = &n[0], &n[2]
	case len(words) == 3 && words[0] == "at" && words[1] == "most":
		m.Max = &n[2]
	case len(words) == 2 && words[0] == "above":
		m.Above, m.Min = &n[1], nil
	default:
		return false
	}
	return true
}

// values reads a list: words are texts, numbers numbers.
func values(list string) []any {
	var out []any
	for word := range strings.SplitSeq(list, ", ") {
		if n, err := strconv.ParseFloat(word, 64); err == nil {
			out = append(out, n)
		} else {
			out = append(out, word)
		}
	}
	return out
}
