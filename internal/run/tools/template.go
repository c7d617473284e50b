package tools

import (
	"fmt"
	"strconv"
	"strings"

	"tallystick/internal/record/canon"
)

// A template is a value of a definition with references in its texts. Values
// put in are never read as templates themselves.
type template struct {
	constant any        // if there is no reference in it
	fixed    bool       // it is a constant
	parts    []part     // of a text
	list     []template // of a list
	names    []string   // of an object, with list
}

// A part is a piece of a text: plain characters or a reference.
type part struct {
	text string
	ref  *reference
}

// A reference names a value of the arguments or of the state.
type reference struct {
	root string // args or state
	path []string
}

// parseTemplate reads a value of a definition.
func parseTemplate(raw canon.RawMessage) (template, error) {
	var v any
	if err := canon.Unmarshal(raw, &v); err != nil {
		return template{}, err
	}
	return compileTemplate(v)
}

func compileTemplate(v any) (template, error) {
	t := template{}
	fixed := true
	switch v := v.(type) {
	case string:
		parts, err := parseText(v)
		if err != nil {
			return template{}, err
		}
		t.parts = parts
		text := ""
		for _, p := range parts {
			fixed = fixed && p.ref == nil
			text += p.text
		}
		if fixed {
			return template{constant: text, fixed: true}, nil
		}
		return t, nil
	case []any:
		for _, item := range v {
			one, err := compileTemplate(item)
			if err != nil {
				return template{}, err
			}
			fixed = fixed && one.fixed
			t.list = append(t.list, one)
		}
	case map[string]any:
		t.names = []string{} // an object even if it is empty
		for _, name := range sortedKeys(v) {
			one, err := compileTemplate(v[name])
			if err != nil {
				return template{}, err
			}
			fixed = fixed && one.fixed
			t.names = append(t.names, name)
			t.list = append(t.list, one)
		}
	default:
		return template{constant: v, fixed: true}, nil
	}
	if fixed {
		// Braces that were escaped are not any more.
		return template{constant: t.value(nil, nil), fixed: true}, nil
	}
	return t, nil
}

// openBraces is how a text says {{ itself.
const openBraces = "open"

// LiteralText writes a text so that it stands for itself, and is not a
// template.
func LiteralText(s string) string { return strings.ReplaceAll(s, "{{", "{{"+openBraces+"}}") }

// Literal does the same with every text of a JSON value.
func Literal(raw canon.RawMessage) (canon.RawMessage, error) {
	var v any
	if err := canon.Unmarshal(raw, &v); err != nil {
		return nil, err
	}
	return canon.Marshal(literal(v))
}

func literal(v any) any {
	switch v := v.(type) {
	case string:
		return LiteralText(v)
	case []any:
		for i := range v {
			v[i] = literal(v[i])
		}
	case map[string]any:
		for name := range v { // names are not templates
			v[name] = literal(v[name])
		}
	}
	return v
}

func parseText(s string) ([]part, error) {
	var parts []part
	for {
		before, rest, found := strings.Cut(s, "{{")
		if before != "" || !found {
			parts = append(parts, part{text: before})
		}
		if !found {
			return parts, nil
		}
		inside, after, closed := strings.Cut(rest, "}}")
		if !closed {
			return nil, fmt.Errorf("found {{ without }} in %.80q; write {{%s}} if the braces are meant", s, openBraces)
		}
		p, err := parseReference(strings.TrimSpace(inside))
		if err != nil {
			return nil, err
		}
		parts = append(parts, p)
		if s = after; s == "" {
			return parts, nil
		}
	}
}

func parseReference(s string) (part, error) {
	if s == openBraces {
		return part{text: "{{"}, nil
	}
	root, rest, _ := strings.Cut(s, ".")
	if root != "args" && root != "state" || rest == "" {
		return part{}, fmt.Errorf("found the template {{%.80s}}, expected {{args.NAME}} or {{state.NAME}}, or {{%s}} for braces", s, openBraces)
	}
	path, err := parsePath(rest)
	if err != nil {
		return part{}, err
	}
	return part{ref: &reference{root, path}}, nil
}

// parsePath reads the names that lead to a value, and places in lists from 0,
// joined by dots.
func parsePath(s string) ([]string, error) {
	path := strings.Split(s, ".")
	if len(path) > canon.MaxDepth {
		return nil, fmt.Errorf("the path %.80q has %d names, expected at most %d", s, len(path), canon.MaxDepth)
	}
	for _, name := range path {
		if !isName(name, "_-") {
			return nil, fmt.Errorf("the path %.80q has the name %.80q, expected letters, digits, _ and -", s, name)
		}
	}
	return path, nil
}

// isName reports whether s has 1 to 64 ASCII letters, digits and marks.
func isName(s, marks string) bool {
	for _, c := range []byte(s) {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte(marks, c) >= 0) {
			return false
		}
	}
	return s != "" && len(s) <= maxNameBytes
}

// find follows a path into a value.
func find(v any, path []string) (any, bool) {
	for _, name := range path {
		switch container := v.(type) {
		case map[string]any:
			next, ok := container[name]
			if !ok {
				return nil, false
			}
			v = next
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(container) {
				return nil, false
			}
			v = container[i]
		default:
			return nil, false
		}
	}
	return v, true
}

// value puts the values in. A text that is one reference becomes that value,
// whatever it is; in a longer text a text stands as it is and anything else in
// JSON. What is not there is null, and nothing within a text.
func (t *template) value(args, state map[string]any) any {
	switch {
	case t.fixed:
		return t.constant
	case len(t.parts) == 1:
		v, _ := t.parts[0].ref.value(args, state)
		return v
	case t.parts != nil:
		var b strings.Builder
		for _, p := range t.parts {
			if p.ref == nil {
				b.WriteString(p.text)
			} else if v, ok := p.ref.value(args, state); ok {
				b.WriteString(spell(v))
			}
		}
		return b.String()
	case t.names != nil:
		object := make(map[string]any, len(t.names))
		for i, name := range t.names {
			object[name] = t.list[i].value(args, state)
		}
		return object
	}
	list := make([]any, len(t.list))
	for i := range t.list {
		list[i] = t.list[i].value(args, state)
	}
	return list
}

func (r *reference) value(args, state map[string]any) (any, bool) {
	if r.root == "args" {
		return find(args, r.path)
	}
	return find(state, r.path)
}

// spell writes a value into a text.
func spell(v any) string {
	if text, ok := v.(string); ok {
		return text
	}
	text, err := canon.Marshal(v)
	if err != nil { // a number that arithmetic made too large
		return ""
	}
	return string(text)
}

// stateKeys calls visit for each key of the state that the template uses.
func (t *template) stateKeys(visit func(key string) error) error {
	for _, p := range t.parts {
		if p.ref != nil && p.ref.root == "state" {
			if err := visit(p.ref.path[0]); err != nil {
				return err
			}
		}
	}
	for i := range t.list {
		if err := t.list[i].stateKeys(visit); err != nil {
			return err
		}
	}
	return nil
}
