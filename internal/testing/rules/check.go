package rules

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Check says what is wrong with a JSON text as a document or shape of that
// name, or nil.
// The text must be JSON; its spelling is not looked at.
func (f *File) Check(document string, data []byte) error {
	shape, ok := f.Documents[document]
	if !ok {
		shape, ok = f.Shapes[document]
	}
	if !ok {
		return fmt.Errorf("the rules know no document %q", document)
	}
	var value any
	if err := json.Unmarshal(data, &value); err != nil {
		return err
	}
	return f.check(shape, value, document)
}

// check is the whole of the language: what a value is, then its bounds.
func (f *File) check(s *Shape, value any, at string) error {
	switch s.Is {
	case Any:
		return nil
	case Text:
		text, ok := value.(string)
		if !ok {
			return fmt.Errorf("%s is not a text", at)
		}
		return first(s.bounded(float64(len(text)), at+" in bytes"), s.listed(value, at), s.formed(text, at))
	case Count, Number:
		n, ok := value.(float64)
		if !ok || s.Is == Count && (n != math.Trunc(n) || math.Abs(n) > maxCount) {
			return fmt.Errorf("%s is not a %s", at, s.Is)
		}
		return first(s.bounded(n, at), s.listed(value, at), s.formedNumber(n, at))
	case Flag:
		if _, ok := value.(bool); !ok {
			return fmt.Errorf("%s is not true or false", at)
		}
		return s.listed(value, at)
	case List:
		return f.checkList(s, value, at)
	case Map:
		return f.checkMap(s, value, at)
	case Object:
		return f.checkObject(s, value, at)
	}
	shape, ok := f.Shapes[s.Is]
	if !ok {
		return fmt.Errorf("%s: the rules have no shape %q", at, s.Is)
	}
	return f.check(shape, value, at)
}

// maxCount is the largest whole number that every reader of JSON holds exactly.
const maxCount = 1<<53 - 1

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Shape) bounded(n float64, at string) error {
	switch {
	case s.Min != nil && n < *s.Min:
		return fmt.Errorf("%s is %v, expected at least %v", at, n, *s.Min)
	case s.Max != nil && n > *s.Max:
		return fmt.Errorf("%s is %v, expected at most %v", at, n, *s.Max)
	case s.Above != nil && n <= *s.Above:
		return fmt.Errorf("%s is %v, expected more than %v", at, n, *s.Above)
	}
	return nil
}

func (s *Shape) listed(value any, at string) error {
	if s.OneOf == nil || slices.ContainsFunc(s.OneOf, func(v any) bool { return same(v, value) }) {
		return nil
	}
	return fmt.Errorf("%s is %.60s, expected one of %s", at, compact(value), compact(s.OneOf))
}

func same(a, b any) bool { return reflect.DeepEqual(plainNumber(a), plainNumber(b)) }

// plainNumber lets rules that a program made in memory hold whole numbers.
func plainNumber(v any) any {
	if n, ok := v.(int); ok {
		return float64(n)
	}
	return v
}

func (s *Shape) formed(text, at string) error {
	if s.Pattern != "" && !regexp.MustCompile(`^(?:`+s.Pattern+`)$`).MatchString(text) {
		return fmt.Errorf("%s is %.60q, expected the pattern %s", at, text, s.Pattern)
	}
	for _, name := range s.Like {
		form, ok := forms[name]
		if !ok {
			panic(fmt.Sprintf("rules: there is no form %q", name))
		}
		if !form(text) {
			return fmt.Errorf("%s is %.60q, which is not like %s", at, text, name)
		}
	}
	return nil
}

func (s *Shape) formedNumber(n float64, at string) error {
	if slices.Contains(s.Like, "six_decimals") && math.Round(n*1e6)/1e6 != n {
		return fmt.Errorf("%s is %v, expected at most six decimals", at, n)
	}
	return nil
}

func (f *File) checkList(s *Shape, value any, at string) error {
	list, ok := value.([]any)
	if !ok {
		return fmt.Errorf("%s is not a list", at)
	}
	if err := s.bounded(float64(len(list)), at+" in elements"); err != nil {
		return err
	}
	seen := map[string]bool{}
	last := ""
	for i, item := range list {
		here := at + "." + strconv.Itoa(i)
		if err := f.check(s.Of, item, here); err != nil {
			return err
		}
		if s.Distinct != "" {
			key := identity(s.Distinct, item)
			if seen[key] {
				return fmt.Errorf("%s is in the list twice", here)
			}
			seen[key] = true
		}
		if text, ok := item.(string); ok && s.Sorted {
			if text < last {
				return fmt.Errorf("%s is not in order", here)
			}
			last = text
		}
	}
	return nil
}

// lookAlike has the characters of names that people take for each other.
var lookAlike = strings.NewReplacer("0", "o", "1", "l", "i", "l", "_", "-")

// identity is what makes an element the same as another: all of it ("value"),
// what a name looks like ("look"), or the members that are named with a blank
// between them.
func identity(by string, item any) string {
	if name, ok := item.(string); ok && by == "look" {
		return lookAlike.Replace(strings.NewReplacer("rn", "m", "vv", "w").Replace(strings.ToLower(name)))
	}
	if by == "value" {
		key, _ := json.Marshal(item) // it came from JSON
		return string(key)
	}
	var parts []any
	object, _ := item.(map[string]any)
	for _, name := range strings.Fields(by) {
		parts = append(parts, object[name])
	}
	key, _ := json.Marshal(parts)
	return string(key)
}

func (f *File) checkMap(s *Shape, value any, at string) error {
	object, ok := value.(map[string]any)
	if !ok {
		return fmt.Errorf("%s is not an object", at)
	}
	if err := s.bounded(float64(len(object)), at+" in members"); err != nil {
		return err
	}
	for _, name := range sortedNames(object) {
		if s.Names != nil {
			if err := f.check(s.Names, name, "a name in "+at); err != nil {
				return err
			}
		}
		if err := f.check(s.Of, object[name], at+"."+name); err != nil {
			return err
		}
	}
	return nil
}

func (f *File) checkObject(s *Shape, value any, at string) error {
	object, ok := value.(map[string]any)
	if !ok {
		return fmt.Errorf("%s is not an object", at)
	}
	for _, name := range sortedNames(object) {
		if s.Members[name] == nil {
			return fmt.Errorf("%s has the member %q, which it does not know", at, name)
		}
	}
	for _, name := range sortedNames(s.Members) {
		member, there := object[name]
		if !there {
			if s.Members[name].Optional {
				continue
			}
			return fmt.Errorf("%s has no %s", at, name)
		}
		if err := f.check(s.Members[name], member, at+"."+name); err != nil {
			return err
		}
	}
	for _, r := range s.Rules {
		if err := f.apply(r, object, at); err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
	}
	return nil
}
