// Package rules reads the machine-readable rules of our formats, which lie in
// docs/formats/rules, and says whether a document keeps them.
//
// The program's own checks are Go that gen, below this package, writes from the
// same files; this package interprets them. Tests hold the two to each other,
// and to docs/formats/verify.py, on thousands of changed documents
// ([Mutations]), and write the tables of the format pages from the files
// ([Table]).
//
// docs/formats/rules/README.md describes the language. It says nothing about
// bytes: that a document is canonical JSON is checked before its rules.
package rules

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"

	"tallystick/internal/record/format"
)

// Version is the version of the language, which every file carries.
const Version = "tallystick-rules/" + format.Version

// A File is the rules of one format.
type File struct {
	Rules string `json:"rules"` // Version
	What  string `json:"what"`  // a sentence about the documents
	// Documents are the kinds of documents of the format, by name. Shapes are
	// what several of them have inside.
	Documents map[string]*Shape `json:"documents"`
	Shapes    map[string]*Shape `json:"shapes,omitempty"`

	// Layouts are the fields of structures in bytes, in their order: a name and
	// u8, u16, u32, u64 (little-endian) or a number of bytes. Sections are those
	// of a bundle in the order in which they stand.
	Layouts  map[string][][2]any `json:"layouts,omitempty"`
	Sections []Section           `json:"sections,omitempty"`
}

// A Section is a part of a bundle: its tag, and its bit in the header's flags.
type Section struct {
	Name string `json:"name"`
	Tag  int    `json:"tag"`
	Flag int    `json:"flag,omitempty"`
}

// A Shape says what one value may be. Which of its members may be set depends
// on Is; docs/formats/rules/README.md has the table.
type Shape struct {
	Is       string   `json:"is"`
	Optional bool     `json:"optional,omitempty"` // as a member: may be absent
	Min      *float64 `json:"min,omitempty"`      // of a number, or of bytes, elements, members
	Max      *float64 `json:"max,omitempty"`
	Above    *float64 `json:"above,omitempty"` // a number is more than this
	OneOf    []any    `json:"one_of,omitempty"`
	Like     []string `json:"like,omitempty"`    // forms of a text or a number, all of them
	Pattern  string   `json:"pattern,omitempty"` // of the whole text

	Of       *Shape            `json:"of,omitempty"`       // each element of a list, each value of a map
	Names    *Shape            `json:"names,omitempty"`    // each name of a map
	Distinct string            `json:"distinct,omitempty"` // of a list: "value", "look", or the members that together differ
	Sorted   bool              `json:"sorted,omitempty"`   // of a list of texts
	Members  map[string]*Shape `json:"members,omitempty"`  // of an object: these and no others
	Rules    [][]any           `json:"rules,omitempty"`    // between members
}

// The values of [Shape.Is]; every other word names one of [File.Shapes].
const (
	Text   = "text"
	Count  = "count"
	Number = "number"
	Flag   = "flag"
	List   = "list"
	Map    = "map"
	Object = "object"
	Any    = "any"
)

// Load reads a file of rules.
func Load(path string) (*File, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var f File
	if err := f.parse(data); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &f, nil
}

func (f *File) parse(data []byte) error {
	if err := json.Unmarshal(data, f); err != nil {
		return err
	}
	if f.Rules != Version {
		return fmt.Errorf("rules is %q, expected %q", f.Rules, Version)
	}
	return nil
}

// Format writes the file as it lies in docs/formats/rules: members in the order
// of their names, what fits on one line on one line.
func (f *File) Format() ([]byte, error) {
	plain, err := json.Marshal(f)
	if err != nil {
		return nil, err
	}
	var value any
	if err := json.Unmarshal(plain, &value); err != nil {
		return nil, err
	}
	return append(layout(nil, value, 0), '\n'), nil
}

// lineWidth is how long a line of a file may be before it is broken.
const lineWidth = 110

func layout(b []byte, value any, depth int) []byte {
	short := compact(value)
	if len(short)+depth <= lineWidth {
		return append(b, short...)
	}
	indent := func(n int) { b = append(b, "\n"...); b = append(b, slices.Repeat([]byte{' '}, n)...) }
	switch v := value.(type) {
	case map[string]any:
		b = append(b, '{')
		for i, name := range sortedNames(v) {
			if i > 0 {
				b = append(b, ',')
			}
			indent(depth + 1)
			b = layout(append(append(b, compact(name)...), ": "...), v[name], depth+1)
		}
		indent(depth)
		return append(b, '}')
	case []any:
		b = append(b, '[')
		for i, item := range v {
			if i > 0 {
				b = append(b, ',')
			}
			indent(depth + 1)
			b = layout(b, item, depth+1)
		}
		indent(depth)
		return append(b, ']')
	}
	return append(b, short...)
}

// compact is a value that came from JSON, on one line.
func compact(value any) []byte {
	var b bytes.Buffer
	out := json.NewEncoder(&b)
	out.SetEscapeHTML(false)
	_ = out.Encode(value)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

func sortedNames[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
