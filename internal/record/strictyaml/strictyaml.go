// Package strictyaml reads the part of YAML that has one meaning, and gives it
// as canonical JSON.
//
// That part is mappings with text keys, lists, text, JSON's numbers, true,
// false and null. What two readers could take for two things is refused: keys
// that occur twice, anchors, aliases, merge keys, tags, a second document,
// words without quotes such as yes or 09:00, bytes that are not UTF-8 and
// characters that cannot be seen, a byte order mark and NUL among them. Two
// independent libraries read every file, and it is refused unless both find the
// same values. [Decode] also refuses what the Go type does not have. A refusal
// names file, line and column, what was found and what was expected.
//
// Input is bounded before a YAML library sees it, by [Rules]. The package
// checks the form of a file and not what it says; the caller that decodes a
// document validates it, and reports what is wrong with [Document.Refuse].
package strictyaml

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
)

// What a zero in [Rules] stands for.
const (
	defaultBytes = 1 << 20

	// defaultLines bounds the keys of a mapping: the time that the library
	// takes grows with their square, and is about a second for this many.
	defaultLines = 10_000

	// defaultDepth leaves canon room for what is wrapped around a document.
	defaultDepth = canon.MaxDepth - 4

	// defaultMarks keeps the parser from recursing deeply.
	defaultMarks = 512
)

// largeFile is the size from which a file is read by the second library first.
// The time of the first grows with the square of the anchors, tags and other
// marks in a line, which are refused in any case: 1 MiB of them took a minute.
// That of the second grows with the size alone.
const largeFile = 8 << 10

// maxBrackets bounds brackets that are open at once, counted without knowing
// which stand in quotes, so that the parser cannot be made to recurse deeply.
const maxBrackets = 512

// Rules are the bounds of one kind of file, and the hints for its author. A
// bound of 0 is the default, which suits files that people write.
type Rules struct {
	Hint         string // what to do about a mistake in the file
	TooLargeHint string // what to do about a file beyond MaxBytes or MaxLines

	MaxBytes int // 1 MiB
	MaxLines int // 10,000
	MaxDepth int // 60 mappings and lists inside each other

	// MaxInline bounds the marks - ? : in a row with a blank after each:
	// "- - - -" nests without brackets or indentation. MaxMarks bounds them,
	// and <, with or without blanks. Neither knows which stand in quotes. Both are
	// 512.
	MaxInline, MaxMarks int

	// PlainDigits lets text that begins with a digit stand without quotes, as
	// in "3 files", unless it is made of nothing but what numbers, dates and
	// times are made of.
	PlainDigits bool

	// PlainKeys are words that may be keys without quotes although readers of
	// YAML differ about them, as "on" in the files of CI systems.
	PlainKeys []string
}

func (r Rules) withDefaults() Rules {
	for _, bound := range []struct {
		value *int
		usual int
	}{{&r.MaxBytes, defaultBytes}, {&r.MaxLines, defaultLines}, {&r.MaxDepth, defaultDepth}, {&r.MaxInline, defaultMarks}, {&r.MaxMarks, defaultMarks}} {
		if *bound.value == 0 {
			*bound.value = bound.usual
		}
	}
	return r
}

// A Document is what a YAML file holds: its values and where they stand, and
// its canonical JSON.
type Document struct {
	Top  *Node
	JSON []byte

	file file
}

// Parse reads a file. The name is for messages.
func Parse(name string, data []byte, rules Rules) (*Document, error) {
	f := file{name, rules.withDefaults()}
	if err := f.checkBytes(data); err != nil {
		return nil, err
	}
	other, err := f.readLarge(data)
	if err != nil {
		return nil, err
	}
	tree, err := parseTree(data)
	if err != nil {
		return nil, f.refuseLibraryError(err)
	}
	switch {
	case len(tree.Docs) > 1:
		return nil, f.refuse(1, 1, "found %d YAML documents, expected one", len(tree.Docs))
	case len(tree.Docs) == 0 || tree.Docs[0].Body == nil:
		return nil, f.refuse(1, 1, "found nothing, expected one YAML document")
	}
	top, err := f.convert(tree.Docs[0].Body, 0)
	if err != nil {
		return nil, err
	}
	if err := f.checkSecondReader(data, top, other); err != nil {
		return nil, err
	}
	d := &Document{Top: top, file: f}
	if d.JSON, err = canon.Canonicalize(top.appendJSON(nil)); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return d, nil
}

// Decode reads a file into the struct that v points to. What it accepts has
// exactly one canonical form: every required field is there, no optional one
// is empty, nothing is unknown, and encoding v again gives the document's
// JSON. The fields have json tags; those with omitempty are optional.
func Decode(name string, data []byte, rules Rules, v any) (*Document, error) {
	d, err := Parse(name, data, rules)
	if err != nil {
		return nil, err
	}
	if err := d.Decode(v); err != nil {
		return nil, err
	}
	return d, nil
}

// Refuse says what is wrong with the document: at the field, if err was made
// with [At], else at its beginning.
func (d *Document) Refuse(err error) error {
	line, column := d.Top.Line, d.Top.Column
	if path := PathOf(err); path != nil {
		line, column = d.Top.find(path)
	}
	// A name that nothing has is the author's mistake, and stays one.
	var inner *refusal.Error
	if errors.As(err, &inner) && inner.Name == refusal.UnknownName {
		return refusal.Newf(refusal.UnknownName, "%s:%d:%d: %w", d.file.name, line, column, err).WithHint("%s", inner.Hint)
	}
	return d.file.refuse(line, column, "%w", err)
}

// RefuseAt says what is wrong with one value of the document.
func (d *Document) RefuseAt(line, column int, format string, args ...any) error {
	return d.file.refuse(line, column, format, args...)
}

// A fieldError is a problem with one field of a document.
type fieldError struct {
	path []string
	err  error
}

func (e *fieldError) Error() string { return strings.Join(e.path, ".") + ": " + e.err.Error() }
func (e *fieldError) Unwrap() error { return e.err }

// At adds to an error the keys, and the places in lists, that lead to the field
// it is about.
func At(path []string, err error) error { return &fieldError{path, err} }

// PathOf is what [At] added to an error, nil if nothing did.
func PathOf(err error) []string {
	var field *fieldError
	if errors.As(err, &field) {
		return field.path
	}
	return nil
}

// A file names itself in every refusal.
type file struct {
	name  string
	rules Rules
}

func (f file) refuse(line, column int, format string, args ...any) error {
	return refusal.Newf(refusal.Malformed, "%s:%d:%d: %w", f.name, line, column, fmt.Errorf(format, args...)).WithHint("%s", f.rules.Hint)
}

// parseTree turns a panic of the parser into an error: what it reads comes
// from outside.
func parseTree(data []byte) (tree *ast.File, err error) {
	defer func() {
		if r := recover(); r != nil {
			tree, err = nil, fmt.Errorf("the YAML parser failed: %v", r)
		}
	}()
	// Duplicate keys are refused by convert, which says it better.
	return parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
}

func (f file) refuseLibraryError(err error) error {
	line, column, message := 1, 1, err.Error()
	var e yaml.Error
	if errors.As(err, &e) {
		message = e.GetMessage()
		line, column = position(e.GetToken())
	}
	return f.refuse(line, column, "%s", plain.Line(fmt.Sprintf("%.200s", message)))
}
