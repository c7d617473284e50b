package schema

import (
	"fmt"
	"math"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/pattern"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
)

// A rule is one schema: everything in it must hold of a value.
type rule struct {
	never bool // the schema false

	types  []string
	enum   []any // nil if there is none
	consts []any // one value, or none

	minimum, maximum, above, below, multiple *float64

	minLength, maxLength         *int
	minItems, maxItems           *int
	minProperties, maxProperties *int
	minContains, maxContains     *int

	pattern *pattern.Pattern
	format  string

	prefix   []*rule
	items    *rule // of the rest
	contains *rule
	unique   bool

	properties map[string]*rule
	patterns   []patternRule // sorted by pattern
	additional *rule         // of the rest
	unsure     bool          // a pattern was not understood, so additional applies to nothing
	names      *rule         // of the names themselves, as texts
	required   []string
	dependent  map[string]*dependency

	all, any, one   []*rule // any and one are nil if they are not there
	not             *rule
	when, then, els *rule
}

type patternRule struct {
	*pattern.Pattern
	rule *rule
}

// A dependency is what a member asks of the object it is in.
type dependency struct {
	required []string
	rules    []*rule
}

// inPlace lists the rules that apply to the same value as r does.
func (r *rule) inPlace() []*rule {
	out := slices.Concat(r.all, r.any, r.one)
	for _, one := range []*rule{r.not, r.when, r.then, r.els} {
		if one != nil {
			out = append(out, one)
		}
	}
	for _, name := range sortedKeys(r.dependent) {
		out = append(out, r.dependent[name].rules...)
	}
	return out
}

// A place is where a schema stands in the document. It is spelled only for
// messages: with long names in a deep document the spellings of all places
// would be far larger than the document.
type place struct {
	up   *place
	name string
}

func (p *place) in(name string) *place { return &place{p, name} }

// String is the JSON pointer (RFC 6901) to the place, as a reference.
func (p *place) String() string {
	if p == nil {
		return "#"
	}
	name := p.name
	if len(name) > 100 {
		name = name[:100]
	}
	return p.up.String() + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}

type placed struct {
	rule *rule
	at   *place
}

// A compiler turns a document into rules. Every place of the document becomes
// one rule however often it is referred to, so the work is that of reading it.
type compiler struct {
	doc     any
	foreign bool
	rules   []placed
	byValue map[uintptr]*rule // by the object in doc that they were made of
	ignored map[string]bool
	insts   int // of the patterns so far
}

func compile(doc []byte, foreign bool) (*Schema, error) {
	if len(doc) > MaxBytes {
		return nil, refusal.Newf(refusal.TooLarge, "a JSON Schema of %d bytes, expected at most %d", len(doc), MaxBytes)
	}
	c := compiler{foreign: foreign, byValue: map[uintptr]*rule{}, ignored: map[string]bool{}}
	if err := canon.Unmarshal(doc, &c.doc); err != nil {
		return nil, fmt.Errorf("reading a JSON Schema: %w", err)
	}
	root, err := c.rule(c.doc, nil)
	if err != nil {
		return nil, err
	}
	if err := c.checkChains(); err != nil {
		return nil, err
	}
	s := &Schema{root: root}
	if len(c.ignored) > 0 {
		s.ignored = sortedKeys(c.ignored)
	}
	return s, nil
}

func refuse(at *place, format string, args ...any) error {
	return refusal.Newf(refusal.Malformed, "JSON Schema at %s: %w", plain.Line(at.String()), fmt.Errorf(format, args...)).
		WithHint("docs/formats/schema.md lists the keywords that are understood")
}

// rule compiles one schema. The rule is entered before its parts are compiled,
// so that they can refer to it.
func (c *compiler) rule(v any, at *place) (*rule, error) {
	members, isObject := v.(map[string]any)
	identity := reflect.ValueOf(members).Pointer()
	if r := c.byValue[identity]; isObject && r != nil {
		return r, nil
	}
	if len(c.rules) >= maxRules {
		return nil, refuse(at, "there are more than %d schemas in this one", maxRules)
	}
	r := &rule{}
	c.rules = append(c.rules, placed{r, at})
	if yes, isBool := v.(bool); isBool {
		r.never = !yes
		return r, nil
	}
	if !isObject {
		return nil, refuse(at, "found %s, expected an object, true or false", describe(v))
	}
	c.byValue[identity] = r
	for _, key := range sortedKeys(members) {
		if err := c.keyword(r, members, key, at); err != nil {
			return nil, err
		}
	}
	r.finish()
	return r, nil
}

// finish drops keywords that mean nothing without another.
func (r *rule) finish() {
	if r.contains == nil {
		r.minContains, r.maxContains = nil, nil
	}
	if r.when == nil {
		r.then, r.els = nil, nil
	}
}

// keyword compiles one keyword.
func (c *compiler) keyword(r *rule, all map[string]any, key string, at *place) (err error) {
	v := all[key]
	above, at := at, at.in(key)
	switch key {
	case "$schema", "$comment", "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly",
		"contentEncoding", "contentMediaType", "contentSchema":
		// Remarks for people and generators.
	case "$id":
		// Nothing is looked up by it: references begin with #. Deeper down it
		// would change what they mean.
		if above != nil {
			return c.unknown(key, at)
		}
	case "$defs", "definitions":
		return c.schemas(v, at, func(string, *rule) {})
	case "$ref":
		return c.reference(r, v, at)
	case "type":
		r.types, err = c.typeNames(v, at)
	case "enum":
		list, ok := v.([]any)
		if !ok {
			return refuse(at, "found %s, expected a list of values", describe(v))
		}
		r.enum = append([]any{}, list...)
	case "const":
		r.consts = []any{v}
	case "minimum":
		r.minimum, err = aNumber(v, at)
	case "maximum":
		r.maximum, err = aNumber(v, at)
	case "exclusiveMinimum":
		r.above, err = aNumber(v, at)
	case "exclusiveMaximum":
		r.below, err = aNumber(v, at)
	case "multipleOf":
		if r.multiple, err = aNumber(v, at); err == nil && *r.multiple <= 0 {
			return refuse(at, "found %s, expected a number above 0", describe(v))
		}
	case "minLength":
		r.minLength, err = aCount(v, at)
	case "maxLength":
		r.maxLength, err = aCount(v, at)
	case "minItems":
		r.minItems, err = aCount(v, at)
	case "maxItems":
		r.maxItems, err = aCount(v, at)
	case "minProperties":
		r.minProperties, err = aCount(v, at)
	case "maxProperties":
		r.maxProperties, err = aCount(v, at)
	case "minContains":
		r.minContains, err = aCount(v, at)
	case "maxContains":
		r.maxContains, err = aCount(v, at)
	case "uniqueItems":
		r.unique, err = aBool(v, at)
	case "pattern":
		text, ok := v.(string)
		if !ok {
			return refuse(at, "found %s, expected a pattern", describe(v))
		}
		r.pattern, err = c.pattern(text, key, at)
	case "format":
		return c.formatName(r, v, at)
	case "required":
		r.required, err = texts(v, at)
	default:
		return c.parts(r, all, key, at)
	}
	return err
}

// parts compiles the keywords that hold schemas.
func (c *compiler) parts(r *rule, all map[string]any, key string, at *place) (err error) {
	v := all[key]
	switch key {
	case "prefixItems":
		r.prefix, err = c.list(v, at)
	case "items":
		// Before 2020-12 a list here meant what prefixItems means now.
		if _, isList := v.([]any); isList {
			r.prefix, err = c.list(v, at)
		} else {
			r.items, err = c.rule(v, at)
		}
	case "additionalItems":
		// It has a meaning only beside a list of items.
		if _, isList := all["items"].([]any); isList {
			r.items, err = c.rule(v, at)
		}
	case "contains":
		r.contains, err = c.rule(v, at)
	case "properties":
		r.properties = map[string]*rule{}
		return c.schemas(v, at, func(name string, one *rule) { r.properties[name] = one })
	case "patternProperties":
		return c.patternProperties(r, v, at)
	case "additionalProperties":
		r.additional, err = c.rule(v, at)
	case "propertyNames":
		r.names, err = c.rule(v, at)
	case "dependentRequired", "dependentSchemas", "dependencies":
		return c.dependencies(r, v, key, at)
	case "allOf":
		var list []*rule
		list, err = c.filled(v, at)
		r.all = append(r.all, list...)
	case "anyOf":
		r.any, err = c.filled(v, at)
	case "oneOf":
		r.one, err = c.filled(v, at)
	case "not":
		r.not, err = c.rule(v, at)
	case "if":
		r.when, err = c.rule(v, at)
	case "then":
		r.then, err = c.rule(v, at)
	case "else":
		r.els, err = c.rule(v, at)
	default:
		return c.unknown(key, at)
	}
	return err
}

func (c *compiler) unknown(key string, at *place) error {
	if c.foreign {
		c.ignored[key] = true
		return nil
	}
	if strings.HasPrefix(key, "x-") {
		return nil // by custom a remark of the author's own program
	}
	return refuse(at, "the keyword %s is not understood, so nothing would be checked by it", quote(key))
}

// reference makes r mean also what stands at another place of the document.
func (c *compiler) reference(r *rule, v any, at *place) error {
	text, ok := v.(string)
	if !ok {
		return refuse(at, "found %s, expected a reference as in #/$defs/name", describe(v))
	}
	fragment, ok := strings.CutPrefix(text, "#")
	if !ok || fragment != "" && fragment[0] != '/' {
		return refuse(at, "found the reference %s, expected one within the document as in #/$defs/name: nothing is fetched, and there are no anchors", quote(text))
	}
	fragment, err := url.PathUnescape(fragment)
	if err != nil {
		return refuse(at, "found the reference %s, which has a bad %% escape", quote(text))
	}
	target, err := c.lookUp(fragment)
	if err != nil {
		return refuse(at, "found the reference %s: %w", quote(text), err)
	}
	one, err := c.rule(target, at)
	if err != nil {
		return err
	}
	r.all = append(r.all, one)
	return nil
}

// lookUp follows a JSON pointer (RFC 6901).
func (c *compiler) lookUp(pointer string) (any, error) {
	v := c.doc
	if pointer == "" {
		return v, nil
	}
	for part := range strings.SplitSeq(pointer[1:], "/") {
		name := strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		ok := false
		switch container := v.(type) {
		case map[string]any:
			v, ok = container[name]
		case []any:
			i, err := strconv.Atoi(name)
			if ok = err == nil && i >= 0 && i < len(container) && strconv.Itoa(i) == name; ok {
				v = container[i]
			}
		}
		if !ok {
			return nil, fmt.Errorf("there is no %s", quote(name))
		}
	}
	return v, nil
}

// schemas compiles an object whose members are schemas.
func (c *compiler) schemas(v any, at *place, add func(string, *rule)) error {
	members, ok := v.(map[string]any)
	if !ok {
		return refuse(at, "found %s, expected an object of schemas", describe(v))
	}
	for _, name := range sortedKeys(members) {
		one, err := c.rule(members[name], at.in(name))
		if err != nil {
			return err
		}
		add(name, one)
	}
	return nil
}

func (c *compiler) list(v any, at *place) ([]*rule, error) {
	list, ok := v.([]any)
	if !ok {
		return nil, refuse(at, "found %s, expected a list of schemas", describe(v))
	}
	out := make([]*rule, len(list))
	for i := range list {
		var err error
		if out[i], err = c.rule(list[i], at.in(strconv.Itoa(i))); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (c *compiler) filled(v any, at *place) ([]*rule, error) {
	out, err := c.list(v, at)
	if err == nil && len(out) == 0 {
		return nil, refuse(at, "found an empty list, expected at least one schema")
	}
	return out, err
}

func (c *compiler) patternProperties(r *rule, v any, at *place) error {
	rules := map[string]*rule{}
	if err := c.schemas(v, at, func(name string, one *rule) { rules[name] = one }); err != nil {
		return err
	}
	for _, text := range sortedKeys(rules) {
		p, err := c.pattern(text, "patternProperties", at)
		if err != nil {
			return err
		}
		if p == nil {
			// Which members the rule is about is not known, so neither is which
			// members are additional.
			r.unsure = true
			continue
		}
		r.patterns = append(r.patterns, patternRule{p, rules[text]})
	}
	return nil
}

// dependencies reads what members ask for: names, a schema, or, in the keyword
// of before 2019-09, either.
func (c *compiler) dependencies(r *rule, v any, key string, at *place) error {
	members, ok := v.(map[string]any)
	if !ok {
		return refuse(at, "found %s, expected an object", describe(v))
	}
	for _, name := range sortedKeys(members) {
		one, at := members[name], at.in(name)
		if r.dependent == nil {
			r.dependent = map[string]*dependency{}
		}
		if r.dependent[name] == nil {
			r.dependent[name] = &dependency{}
		}
		d := r.dependent[name]
		var err error
		if _, isList := one.([]any); isList && key != "dependentSchemas" || key == "dependentRequired" {
			var list []string
			list, err = texts(one, at)
			d.required = append(d.required, list...)
		} else {
			var sub *rule
			sub, err = c.rule(one, at)
			d.rules = append(d.rules, sub)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *compiler) typeNames(v any, at *place) ([]string, error) {
	names := []string{}
	if one, ok := v.(string); ok {
		names = append(names, one)
	} else {
		var err error
		if names, err = texts(v, at); err != nil {
			return nil, err
		}
		if len(names) == 0 {
			return nil, refuse(at, "found an empty list, expected at least one type")
		}
	}
	for _, name := range names {
		switch name {
		case "null", "boolean", "object", "array", "number", "integer", "string":
		default:
			return nil, refuse(at, "found the type %s, expected null, boolean, object, array, number, integer or string", quote(name))
		}
	}
	return names, nil
}

func (c *compiler) formatName(r *rule, v any, at *place) error {
	name, ok := v.(string)
	switch {
	case !ok:
		return refuse(at, "found %s, expected the name of a format", describe(v))
	case c.foreign:
		c.ignored["format"] = true
		return nil
	case formatCheck(name) == nil:
		return refuse(at, "the format %s is not understood, so nothing would be checked by it; expected one of %s", quote(name), knownFormats)
	}
	r.format = name
	return nil
}

// checkChains refuses a schema that applies itself to the value it was asked
// about, or that does so with very many others in a row: the check of such a
// value would not end, or take the stack with it. Going into the value is
// bounded by the value.
func (c *compiler) checkChains() error {
	longest := map[*rule]int{} // 0 while it is being measured
	var measure func(r *rule) (int, bool)
	measure = func(r *rule) (int, bool) {
		if n, seen := longest[r]; seen {
			return n, n > 0
		}
		longest[r] = 0
		most := 0
		for _, next := range r.inPlace() {
			n, ok := measure(next)
			if !ok {
				return 0, false
			}
			most = max(most, n)
		}
		longest[r] = most + 1
		return most + 1, true
	}
	for _, one := range c.rules {
		switch n, ok := measure(one.rule); {
		case !ok:
			return refuse(one.at, "it refers to itself without going into the value, so checking would never end")
		case n > maxChain:
			return refuse(one.at, "%d schemas apply to one value, each because of the one before, expected at most %d", n, maxChain)
		}
	}
	return nil
}

func aNumber(v any, at *place) (*float64, error) {
	f, ok := v.(float64)
	if !ok {
		return nil, refuse(at, "found %s, expected a number", describe(v))
	}
	return &f, nil
}

func aCount(v any, at *place) (*int, error) {
	f, ok := v.(float64)
	if !ok || f < 0 || f != math.Trunc(f) || f > 1<<53 {
		return nil, refuse(at, "found %s, expected a whole number of at least 0", describe(v))
	}
	n := int(f)
	return &n, nil
}

func aBool(v any, at *place) (bool, error) {
	b, ok := v.(bool)
	if !ok {
		return false, refuse(at, "found %s, expected true or false", describe(v))
	}
	return b, nil
}

func texts(v any, at *place) ([]string, error) {
	list, ok := v.([]any)
	if !ok {
		return nil, refuse(at, "found %s, expected a list of texts", describe(v))
	}
	out := make([]string, len(list))
	for i := range list {
		if out[i], ok = list[i].(string); !ok {
			return nil, refuse(at, "found %s in the list, expected a text", describe(list[i]))
		}
	}
	return out, nil
}

// pattern compiles a pattern. One of a foreign schema that is not RE2, such as
// one with a look-ahead, is left out: nil.
func (c *compiler) pattern(text, key string, at *place) (*pattern.Pattern, error) {
	var p *pattern.Pattern
	err := fmt.Errorf("the patterns of the schema become more than %d instructions", maxInsts)
	if c.insts <= maxInsts {
		p, err = pattern.Compile(text)
	}
	if err == nil {
		c.insts += p.Work(0)
	}
	switch {
	case err == nil:
		return p, nil
	case c.foreign:
		c.ignored[key] = true
		return nil, nil
	}
	return nil, refuse(at, "%w", err)
}
