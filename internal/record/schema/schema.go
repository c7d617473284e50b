// Package schema checks JSON values against JSON Schemas, within bounds.
//
// It reads the part of JSON Schema 2020-12 that describes arguments and
// answers: types, values, ranges, patterns, objects, lists, combinations,
// conditions, and references within the document. docs/formats/schema.md lists
// the keywords. A schema with any other keyword is refused by [Compile], since
// a rule that is silently not applied is a check that cannot fail.
//
// Schemas and values may be hostile. A schema is bounded in size and depth, may
// refer to itself only on the way into the value, and is never fetched from
// anywhere. A check is bounded in steps, and one that runs out of them has
// failed. A pattern costs its instructions times the bytes that it reads.
package schema

import (
	"fmt"
	"sort"
	"strconv"
	"strings"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
)

// Bounds of a schema. Those that people and programs write for tools have a few
// kilobytes.
const (
	MaxBytes  = 256 << 10
	maxRules  = 10_000  // schemas within the schema
	maxChain  = 128     // schemas that apply to one and the same value, one because of the other
	maxInsts  = 100_000 // instructions of all its patterns
	maxSteps  = 2_000_000
	maxListed = 20 // problems of one value
)

// A Schema is a compiled schema. It never changes and may be used by several
// goroutines.
type Schema struct {
	root    *rule
	ignored []string
}

// Compile reads a schema of our own: every keyword in it is applied, and one
// that would not be is refused.
func Compile(doc []byte) (*Schema, error) {
	return compile(doc, false)
}

// CompileForeign reads a schema that came from outside, whose author we cannot
// ask to change it. As the specification wants, keywords that are not known
// are not rules, and format is a remark; [Schema.Ignored] lists them.
func CompileForeign(doc []byte) (*Schema, error) {
	return compile(doc, true)
}

// Ignored lists the keywords of a foreign schema that are not applied, each
// once, sorted.
func (s *Schema) Ignored() []string { return s.ignored }

// A Problem is one way in which a value does not fit its schema. Its texts are
// safe to print.
type Problem struct {
	Path     string // as in order.items[2].id; empty for the value itself
	Found    string
	Expected string
}

func (p Problem) String() string {
	if p.Path == "" {
		return fmt.Sprintf("found %s, expected %s", p.Found, p.Expected)
	}
	return fmt.Sprintf("%s: found %s, expected %s", p.Path, p.Found, p.Expected)
}

// Check returns what is wrong with a value, nil if it fits. Bytes that are not
// JSON do not fit.
func (s *Schema) Check(value []byte) []Problem {
	var v any
	if err := canon.Unmarshal(value, &v); err != nil {
		return []Problem{{Found: plain.Line(refusal.Of(err).Err.Error()), Expected: "a JSON value"}}
	}
	return s.CheckValue(v)
}

// CheckValue is [Schema.Check] for a value that is decoded already, into nil,
// bool, float64, string, []any and map[string]any. Numbers must be finite and
// the nesting no deeper than [canon.MaxDepth], as they are in what canon
// decodes.
func (s *Schema) CheckValue(v any) []Problem {
	c := checker{steps: maxSteps}
	c.check(s.root, v, nil)
	if c.steps < 0 {
		return []Problem{{Found: fmt.Sprintf("a value that takes more than %d steps to check", maxSteps), Expected: "one that can be checked"}}
	}
	return c.problems
}

// A path leads to a value; it is spelled only for problems.
type path struct {
	up    *path
	name  string
	index int // if name is empty and up is not nil
	list  bool
}

func (p *path) String() string {
	if p == nil {
		return ""
	}
	before := p.up.String()
	switch {
	case p.list:
		return before + "[" + strconv.Itoa(p.index) + "]"
	case !isWord(p.name):
		return before + "[" + quote(p.name) + "]"
	case before == "":
		return p.name
	}
	return before + "." + p.name
}

func isWord(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !(c == '_' || c == '-' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z') {
			return false
		}
	}
	return s != "" && len(s) <= 80
}

// quote shows the beginning of a text.
func quote(s string) string {
	const most = 60
	cut := ""
	if len(s) > most {
		s, cut = strings.ToValidUTF8(s[:most], ""), "..."
	}
	return plain.Line(strconv.Quote(s)) + cut
}

// describe says what a value is, in few words.
func describe(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return strconv.FormatBool(v)
	case float64:
		return "the number " + number(v)
	case string:
		return "the text " + quote(v)
	case []any:
		return "a list of " + strconv.Itoa(len(v))
	case map[string]any:
		if len(v) == 0 {
			return "an empty object"
		}
		return "an object with " + names(v)
	}
	return fmt.Sprintf("a %T", v)
}

// names lists the first few members of an object.
func names(v map[string]any) string {
	all := sortedKeys(v)
	cut := ""
	if len(all) > 5 {
		all, cut = all[:5], ", ..."
	}
	for i := range all {
		if !isWord(all[i]) {
			all[i] = quote(all[i])
		}
	}
	return strings.Join(all, ", ") + cut
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

// number spells a number as canonical JSON does.
func number(f float64) string {
	text, err := canon.Marshal(f)
	if err != nil {
		return strconv.FormatFloat(f, 'g', -1, 64)
	}
	return string(text)
}

// spell shows a value of a schema, such as one of an enum.
func spell(v any) string {
	text, err := canon.Marshal(v)
	if err != nil {
		return describe(v)
	}
	if len(text) > 60 {
		return strings.ToValidUTF8(string(text[:60]), "") + "..."
	}
	return plain.Line(string(text))
}
