package schema

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/pattern"
)

// A checker applies rules to a value and gathers problems. Steps count down;
// below zero everything returns at once and the value has failed.
type checker struct {
	steps    int
	problems []Problem
}

// spend reports whether there are steps left for n more.
func (c *checker) spend(n int) bool {
	c.steps -= n
	return c.steps >= 0
}

func (c *checker) fail(at *path, v any, format string, args ...any) {
	c.failFound(at, describe(v), format, args...)
}

func (c *checker) failFound(at *path, found, format string, args ...any) {
	if len(c.problems) < maxListed {
		c.problems = append(c.problems, Problem{Path: at.String(), Found: found, Expected: fmt.Sprintf(format, args...)})
	}
}

// fits reports whether a value keeps a rule, without noting problems.
func (c *checker) fits(r *rule, v any) bool {
	return c.try(r, v, nil) == nil
}

// try returns the problems of a value with a rule by themselves.
func (c *checker) try(r *rule, v any, at *path) []Problem {
	alone := checker{steps: c.steps}
	alone.check(r, v, at)
	c.steps = alone.steps
	if c.steps < 0 {
		return []Problem{{}}
	}
	return alone.problems
}

func (c *checker) check(r *rule, v any, at *path) {
	if !c.spend(1) || len(c.problems) >= maxListed {
		return
	}
	if r.never {
		c.fail(at, v, "nothing here")
		return
	}
	if r.types != nil && !slices.ContainsFunc(r.types, func(name string) bool { return hasType(v, name) }) {
		c.fail(at, v, "%s", typeList(r.types))
		return // the rest would only repeat it
	}
	c.values(r, v, at)
	switch v := v.(type) {
	case float64:
		c.number(r, v, at)
	case string:
		c.text(r, v, at)
	case []any:
		c.list(r, v, at)
	case map[string]any:
		c.object(r, v, at)
	}
	c.combinations(r, v, at)
}

func hasType(v any, name string) bool {
	switch v := v.(type) {
	case nil:
		return name == "null"
	case bool:
		return name == "boolean"
	case float64:
		return name == "number" || name == "integer" && v == math.Trunc(v)
	case string:
		return name == "string"
	case []any:
		return name == "array"
	}
	return name == "object"
}

func typeList(types []string) string {
	words := make([]string, len(types))
	for i, name := range types {
		words[i] = typeWord(name)
	}
	return strings.Join(words, " or ")
}

func typeWord(name string) string {
	switch name {
	case "boolean":
		return "true or false"
	case "object":
		return "an object"
	case "array":
		return "a list"
	case "number":
		return "a number"
	case "integer":
		return "a whole number"
	case "string":
		return "a text"
	}
	return "null"
}

func (c *checker) values(r *rule, v any, at *path) {
	if r.consts != nil && !c.equal(r.consts[0], v) {
		c.fail(at, v, "%s", spell(r.consts[0]))
	}
	if r.enum != nil && !slices.ContainsFunc(r.enum, func(one any) bool { return c.equal(one, v) }) {
		c.fail(at, v, "%s", enumList(r.enum))
	}
}

func enumList(values []any) string {
	if len(values) == 0 {
		return "nothing here"
	}
	var words []string
	for i, one := range values {
		if i == 10 {
			words = append(words, fmt.Sprintf("... (%d values)", len(values)))
			break
		}
		words = append(words, spell(one))
	}
	if len(words) == 1 {
		return words[0]
	}
	return "one of " + strings.Join(words, ", ")
}

// equal is equality of JSON values: 1 and 1.0 are one number.
func (c *checker) equal(a, b any) bool {
	if !c.spend(1) {
		return false
	}
	switch a := a.(type) {
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !c.equal(a[i], b[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for name := range a {
			other, there := b[name]
			if !there || !c.equal(a[name], other) {
				return false
			}
		}
		return true
	case string:
		b, ok := b.(string)
		return ok && len(a) == len(b) && c.spend(len(a)/64) && a == b
	}
	switch b.(type) {
	case []any, map[string]any:
		return false
	}
	return a == b
}

func (c *checker) number(r *rule, v float64, at *path) {
	switch {
	case r.minimum != nil && v < *r.minimum:
		c.fail(at, v, "at least %s", number(*r.minimum))
	case r.above != nil && v <= *r.above:
		c.fail(at, v, "more than %s", number(*r.above))
	}
	switch {
	case r.maximum != nil && v > *r.maximum:
		c.fail(at, v, "at most %s", number(*r.maximum))
	case r.below != nil && v >= *r.below:
		c.fail(at, v, "less than %s", number(*r.below))
	}
	if r.multiple != nil && !isMultiple(v, *r.multiple) {
		c.fail(at, v, "a multiple of %s", number(*r.multiple))
	}
}

// isMultiple divides the numbers as they are written, not as doubles: 0.3 is
// three times 0.1.
func isMultiple(v, of float64) bool {
	a, okA := new(big.Rat).SetString(number(v))
	b, okB := new(big.Rat).SetString(number(of))
	return okA && okB && a.Quo(a, b).IsInt()
}

func (c *checker) text(r *rule, v string, at *path) {
	if r.minLength != nil || r.maxLength != nil {
		if !c.spend(len(v) / 64) {
			return
		}
		c.size(utf8.RuneCountInString(v), r.minLength, r.maxLength, "characters", v, at)
	}
	if r.pattern != nil && c.spend(steps(r.pattern, v)) && !r.pattern.Match(v) {
		c.fail(at, v, "a text in which the pattern %s is found", quote(r.pattern.String()))
	}
	if r.format != "" && c.spend(len(v)/16) && !formatCheck(r.format)(v) {
		c.fail(at, v, "a text of the format %s", r.format)
	}
}

// steps is what a pattern costs: the two million that a check has are at most half a
// second of the worst pattern.
func steps(p *pattern.Pattern, text string) int { return 1 + p.Work(len(text))/8 }

func (c *checker) size(n int, least, most *int, unit string, v any, at *path) {
	found := func() string { return fmt.Sprintf("%s (%d %s)", describe(v), n, unit) }
	if least != nil && n < *least {
		c.failFound(at, found(), "at least %d %s", *least, unit)
	}
	if most != nil && n > *most {
		c.failFound(at, found(), "at most %d %s", *most, unit)
	}
}

func (c *checker) list(r *rule, v []any, at *path) {
	c.size(len(v), r.minItems, r.maxItems, "items", v, at)
	for i, item := range v {
		switch {
		case i < len(r.prefix):
			c.check(r.prefix[i], item, &path{up: at, index: i, list: true})
		case r.items != nil:
			c.check(r.items, item, &path{up: at, index: i, list: true})
		}
	}
	if r.contains != nil {
		c.contains(r, v, at)
	}
	if r.unique {
		c.unique(v, at)
	}
}

func (c *checker) contains(r *rule, v []any, at *path) {
	n := 0
	for _, item := range v {
		if c.fits(r.contains, item) {
			n++
		}
	}
	least := 1
	if r.minContains != nil {
		least = *r.minContains
	}
	if n < least {
		c.failFound(at, fmt.Sprintf("a list with %d fitting items", n), "at least %d that fit contains", least)
	}
	if r.maxContains != nil && n > *r.maxContains {
		c.failFound(at, fmt.Sprintf("a list with %d fitting items", n), "at most %d that fit contains", *r.maxContains)
	}
}

func (c *checker) unique(v []any, at *path) {
	seen := make(map[string]int, len(v))
	for i, item := range v {
		text, err := canon.Marshal(item)
		if err != nil || !c.spend(1+len(text)/16) {
			c.steps = min(c.steps, -1)
			return
		}
		if first, twice := seen[string(text)]; twice {
			c.failFound(at, fmt.Sprintf("equal items at %d and %d", first, i), "items that are all different")
			return
		}
		seen[string(text)] = i
	}
}

func (c *checker) object(r *rule, v map[string]any, at *path) {
	c.size(len(v), r.minProperties, r.maxProperties, "members", v, at)
	for _, name := range r.required {
		if _, there := v[name]; !there {
			c.failFound(&path{up: at, name: name}, "nothing", "%s", r.expects(name))
		}
	}
	for _, name := range sortedKeys(v) {
		if !c.spend(1) {
			return
		}
		c.member(r, name, v[name], at)
	}
	for _, name := range sortedKeys(r.dependent) {
		if _, there := v[name]; !there {
			continue
		}
		for _, other := range r.dependent[name].required {
			if _, there := v[other]; !there {
				c.failFound(&path{up: at, name: other}, "nothing", "a value, since %s is there", quote(name))
			}
		}
		for _, one := range r.dependent[name].rules {
			c.check(one, v, at)
		}
	}
}

// expects says what kind of value a missing member should have.
func (r *rule) expects(name string) string {
	if p := r.properties[name]; p != nil && p.types != nil {
		return typeList(p.types)
	}
	return "a value"
}

func (c *checker) member(r *rule, name string, v any, at *path) {
	here := &path{up: at, name: name}
	known := false
	if p := r.properties[name]; p != nil {
		known = true
		c.check(p, v, here)
	}
	for _, p := range r.patterns {
		if c.spend(steps(p.Pattern, name)) && p.Match(name) {
			known = true
			c.check(p.rule, v, here)
		}
	}
	if !known && r.additional != nil && !r.unsure {
		if r.additional.never {
			c.failFound(here, describe(v), "no such member%s", r.knownNames())
		} else {
			c.check(r.additional, v, here)
		}
	}
	if r.names != nil && !c.fits(r.names, name) {
		c.failFound(here, "the name "+quote(name), "a name that fits propertyNames")
	}
}

func (r *rule) knownNames() string {
	if len(r.properties) == 0 || len(r.properties) > 20 {
		return ""
	}
	names := sortedKeys(r.properties)
	for i := range names {
		if !isWord(names[i]) {
			names[i] = quote(names[i])
		}
	}
	return ", only " + strings.Join(names, ", ")
}

func (c *checker) combinations(r *rule, v any, at *path) {
	for _, one := range r.all {
		c.check(one, v, at)
	}
	if r.any != nil {
		c.alternatives(r.any, v, at)
	}
	if r.one != nil {
		c.oneOf(r.one, v, at)
	}
	if r.not != nil && c.fits(r.not, v) {
		c.fail(at, v, "a value that does not fit the schema in not")
	}
	if r.when != nil {
		branch := r.els
		if c.fits(r.when, v) {
			branch = r.then
		}
		if branch != nil {
			c.check(branch, v, at)
		}
	}
}

func (c *checker) alternatives(rules []*rule, v any, at *path) {
	var nearest []Problem
	for _, one := range rules {
		problems := c.try(one, v, at)
		if problems == nil {
			return
		}
		if nearest == nil || len(problems) < len(nearest) {
			nearest = problems
		}
	}
	if c.steps >= 0 {
		c.fail(at, v, "a value that fits one of %d alternatives (the nearest: %s)", len(rules), nearest[0])
	}
}

func (c *checker) oneOf(rules []*rule, v any, at *path) {
	var fit []string
	for i, one := range rules {
		if c.fits(one, v) {
			fit = append(fit, strconv.Itoa(i+1))
		}
	}
	switch len(fit) {
	case 0:
		c.alternatives(rules, v, at)
	case 1:
	default:
		c.fail(at, v, "a value that fits exactly one of %d alternatives, not %s", len(rules), strings.Join(fit, " and "))
	}
}
