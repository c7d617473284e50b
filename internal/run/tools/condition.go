package tools

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"strings"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/pattern"
)

// maxMatched bounds the work of one pattern, in the unit of [pattern.Pattern.Work]: an
// argument may have a megabyte.
const maxMatched = 4 * pattern.Soon

// A condition is a [Condition] ready to be applied to the value at path.
type condition struct {
	path    []string
	tests   []test
	matches *pattern.Pattern
	exists  *bool
}

// A test compares with one value.
type test struct {
	kind string
	with template
}

func compileCondition(path string, c Condition) (condition, error) {
	out := condition{exists: c.Exists}
	var err error
	if out.path, err = parsePath(path); err != nil {
		return out, err
	}
	for _, t := range []struct {
		kind string
		raw  *canon.RawMessage
	}{{"eq", c.Eq}, {"ne", c.Ne}, {"lt", c.Lt}, {"le", c.Le}, {"gt", c.Gt}, {"ge", c.Ge}, {"in", c.In}, {"has", c.Has}} {
		if t.raw == nil {
			continue
		}
		with, err := parseTemplate(*t.raw)
		if err == nil && with.fixed {
			err = checkOperand(t.kind, with.constant)
		}
		if err != nil {
			return out, fmt.Errorf("%s: %w", t.kind, err)
		}
		out.tests = append(out.tests, test{t.kind, with})
	}
	if c.Matches != "" {
		if out.matches, err = pattern.Compile(c.Matches); err != nil {
			return out, fmt.Errorf("matches: %w", err)
		}
	}
	switch alone := len(out.tests) == 0 && out.matches == nil; {
	case alone && c.Exists == nil:
		return out, errors.New("found no condition, expected one of eq, ne, lt, le, gt, ge, in, has, matches, exists")
	case c.Exists != nil && !*c.Exists && !alone:
		return out, errors.New("exists is false, so no other condition can hold")
	}
	return out, nil
}

// checkOperand refuses a comparison that could never hold.
func checkOperand(kind string, v any) error {
	switch kind {
	case "lt", "le", "gt", "ge":
		switch v.(type) {
		case float64, string:
		default:
			return errors.New("expected a number or a text")
		}
	case "in":
		if _, ok := v.([]any); !ok {
			return errors.New("expected a list")
		}
	}
	return nil
}

// holds applies the condition to the value at its path below root. Of a value
// that is not there only exists: false holds.
func (c *condition) holds(root any, args, state map[string]any) bool {
	v, there := find(root, c.path)
	if c.exists != nil && *c.exists != there {
		return false
	}
	if !there {
		return c.exists != nil
	}
	for i := range c.tests {
		if !c.tests[i].holds(v, args, state) {
			return false
		}
	}
	if c.matches != nil {
		text, ok := v.(string)
		return ok && c.matches.Work(len(text)) <= maxMatched && c.matches.Match(text)
	}
	return true
}

func (t *test) holds(v any, args, state map[string]any) bool {
	with := t.with.value(args, state)
	switch t.kind {
	case "eq":
		return equal(v, with)
	case "ne":
		return !equal(v, with)
	case "in":
		list, _ := with.([]any)
		return contains(list, v)
	case "has":
		if text, ok := v.(string); ok {
			part, ok := with.(string)
			return ok && strings.Contains(text, part)
		}
		list, _ := v.([]any)
		return contains(list, with)
	}
	order, ok := compare(v, with)
	switch t.kind {
	case "lt":
		return ok && order < 0
	case "le":
		return ok && order <= 0
	case "gt":
		return ok && order > 0
	}
	return ok && order >= 0
}

// compare orders two numbers, or two texts by their bytes.
func compare(a, b any) (int, bool) {
	switch a := a.(type) {
	case float64:
		if b, ok := b.(float64); ok {
			switch {
			case a < b:
				return -1, true
			case a > b:
				return 1, true
			}
			return 0, true
		}
	case string:
		if b, ok := b.(string); ok {
			return strings.Compare(a, b), true
		}
	}
	return 0, false
}

// equal is equality of JSON values.
func equal(a, b any) bool { return reflect.DeepEqual(a, b) }

func contains(list []any, v any) bool {
	for _, item := range list {
		if equal(item, v) {
			return true
		}
	}
	return false
}

// within reports whether v has at least what want has: all members of an
// object, at every depth, and anything else as it is.
func within(want, v any) bool {
	object, ok := want.(map[string]any)
	if !ok {
		return equal(want, v)
	}
	other, ok := v.(map[string]any)
	if !ok {
		return false
	}
	for name, one := range object {
		there, ok := other[name]
		if !ok || !within(one, there) {
			return false
		}
	}
	return true
}

// sum adds two numbers as they are written: 0.1 and 0.2 make 0.3.
func sum(a, b float64) (float64, bool) {
	const exact = 1 << 52 // whole numbers up to here add up without rounding
	if a == math.Trunc(a) && b == math.Trunc(b) && math.Abs(a) < exact && math.Abs(b) < exact {
		return a + b, true
	}
	x, okX := new(big.Rat).SetString(spell(a))
	y, okY := new(big.Rat).SetString(spell(b))
	if !okX || !okY {
		return 0, false
	}
	f, _ := x.Add(x, y).Float64()
	_, err := canon.Marshal(f) // refuses what a double cannot count
	return f, err == nil
}
