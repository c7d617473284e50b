package bench

import (
	"bytes"
	"encoding"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"tallystick/internal/canon"
	"tallystick/internal/refusal"
)

// Limits of every YAML file, so that a hostile one cannot exhaust memory or
// stack before anything about it is known.
const (
	maxYAMLBytes = 1 << 20

	// maxYAMLLines bounds the keys of a mapping: the time that the library
	// takes grows with their square, and is about a second for this many.
	maxYAMLLines = 10_000

	// maxYAMLDepth leaves canon room for what we wrap around a document.
	maxYAMLDepth = canon.MaxDepth - 4

	// maxBrackets bounds brackets that are open at once, and dashes that begin
	// lists in one line, counted without knowing which stand in quotes, so
	// that the parser cannot be made to recurse deeply.
	maxBrackets = 512
)

const yamlHint = "correct the file at that place; the formats are described in docs/formats/case.md"

// A node is one value of a YAML file and where it stands.
type node struct {
	line, column int
	kind         nodeKind
	text         string // of a scalar: the string, or the number as it is written
	members      []member
	items        []*node
}

type member struct {
	key          string
	line, column int
	value        *node
}

type nodeKind int

const (
	nullNode nodeKind = iota
	boolNode
	numberNode
	stringNode
	mappingNode
	sequenceNode
)

func (n *node) describe() string {
	switch n.kind {
	case nullNode:
		return "nothing"
	case boolNode:
		return n.text
	case numberNode:
		return "the number " + n.text
	case stringNode:
		return fmt.Sprintf("the text %.80q", n.text)
	case mappingNode:
		return "a mapping"
	}
	return "a list"
}

func (n *node) member(key string) *member {
	for i := range n.members {
		if n.members[i].key == key {
			return &n.members[i]
		}
	}
	return nil
}

// A fieldError is a problem with one field of a document, named by the keys
// that lead to it.
type fieldError struct {
	path []string
	err  error
}

func (e *fieldError) Error() string { return strings.Join(e.path, ".") + ": " + e.err.Error() }
func (e *fieldError) Unwrap() error { return e.err }

func badField(path string, format string, args ...any) error {
	return &fieldError{strings.Split(path, "."), fmt.Errorf(format, args...)}
}

// A document is what a YAML file holds: the value that was decoded, where each
// part stands, and its canonical JSON.
type document struct {
	name string
	top  *node
	json []byte
}

// A validator checks what the types of a document do not say.
type validator interface{ validate() error }

// decode reads a YAML file into v. What it accepts has exactly one canonical
// form: every required field is there, no optional one is empty, nothing is
// unknown, and encoding v again gives the same bytes.
func decode(name string, data []byte, v validator) (*document, error) {
	top, err := parseYAML(name, data)
	if err != nil {
		return nil, err
	}
	d := &document{name: name, top: top}
	if err := checkShape(top, reflect.TypeOf(v).Elem(), nil); err != nil {
		return nil, d.refuse(err)
	}
	if d.json, err = canon.Canonicalize(top.appendJSON(nil)); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if err := canon.UnmarshalCanonical(d.json, v); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if err := v.validate(); err != nil {
		return nil, d.refuse(err)
	}
	return d, nil
}

// refuse names file, line and column of a problem.
func (d *document) refuse(err error) error {
	line, column := d.top.line, d.top.column
	var f *fieldError
	if errors.As(err, &f) {
		line, column = d.top.find(f.path)
	}
	return refusal.Newf(refusal.Malformed, "%s:%d:%d: %w", d.name, line, column, err).WithHint(yamlHint)
}

// find gives the place of the deepest part of a path that exists.
func (n *node) find(path []string) (line, column int) {
	line, column = n.line, n.column
	for _, key := range path {
		switch n.kind {
		case mappingNode:
			m := n.member(key)
			if m == nil {
				return line, column
			}
			line, column, n = m.line, m.column, m.value
		case sequenceNode:
			i, err := strconv.Atoi(key)
			if err != nil || i < 0 || i >= len(n.items) {
				return line, column
			}
			n = n.items[i]
			line, column = n.line, n.column
		default:
			return line, column
		}
	}
	return line, column
}

// parseYAML reads the part of YAML that has one meaning: mappings with text
// keys, lists, text, JSON's numbers, true, false and null.
func parseYAML(name string, data []byte) (*node, error) {
	if err := checkBytes(name, data); err != nil {
		return nil, err
	}
	file, err := parseFile(data)
	if err != nil {
		return nil, refusal.Newf(refusal.Malformed, "%s:%s", name, describeYAML(err)).WithHint(yamlHint)
	}
	switch {
	case len(file.Docs) > 1:
		return nil, refusal.Newf(refusal.Malformed, "%s:1:1: found %d YAML documents, expected one", name, len(file.Docs)).WithHint(yamlHint)
	case len(file.Docs) == 0 || file.Docs[0].Body == nil:
		return nil, refusal.Newf(refusal.Malformed, "%s:1:1: found nothing, expected one YAML document", name).WithHint(yamlHint)
	}
	c := converter{name}
	return c.convert(file.Docs[0].Body, 0)
}

// parseFile turns a panic of the parser into an error: what it reads comes
// from outside.
func parseFile(data []byte) (f *ast.File, err error) {
	defer func() {
		if r := recover(); r != nil {
			f, err = nil, fmt.Errorf("1:1: the YAML parser failed: %v", r)
		}
	}()
	// Duplicate keys are refused by the converter, which says it better.
	return parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
}

// describeYAML gives an error of the YAML library as "LINE:COLUMN: what".
func describeYAML(err error) string {
	var e yaml.Error
	if !errors.As(err, &e) {
		return err.Error()
	}
	line, column := 1, 1
	if t := e.GetToken(); t != nil && t.Position != nil {
		line, column = t.Position.Line, t.Position.Column
	}
	return fmt.Sprintf("%d:%d: %s", line, column, e.GetMessage())
}

// checkBytes refuses what must not reach the parser.
func checkBytes(name string, data []byte) error {
	if len(data) > maxYAMLBytes {
		return refusal.Newf(refusal.TooLarge, "%s: %d bytes, at most %d are accepted", name, len(data), maxYAMLBytes)
	}
	if n := bytes.Count(data, []byte("\n")); n > maxYAMLLines {
		return refusal.Newf(refusal.TooLarge, "%s: %d lines, at most %d are accepted", name, n, maxYAMLLines).
			WithHint("a class with more cases than that keeps them in %s", DatasetFile)
	}
	if !utf8.Valid(data) {
		return refusal.Newf(refusal.Malformed, "%s: not valid UTF-8", name).WithHint("save the file as UTF-8")
	}
	line, column, open, nested := 1, 0, 0, 0
	for _, r := range string(data) {
		column++
		// "- - - -" nests without brackets or indentation.
		switch r {
		case '-', '?', ':':
			nested++
		case ' ', '\t':
		default:
			nested = 0
		}
		if nested > maxBrackets {
			return refusal.Newf(refusal.Malformed, "%s:%d:%d: more than %d lists begin in one line", name, line, column, maxBrackets).WithHint(yamlHint)
		}
		switch {
		case r == '\n':
			line, column = line+1, 0
		case r == '\r':
			return refusal.Newf(refusal.Malformed, "%s:%d:%d: found a carriage return, expected lines that end in a bare newline", name, line, column).WithHint(yamlHint)
		case r == '\t', r >= 0x20 && r < 0x7f, r >= 0xa0 && r != 0xfeff && r != 0x2028 && r != 0x2029:
		default:
			return refusal.Newf(refusal.Malformed, "%s:%d:%d: found the character %U, which cannot be seen", name, line, column, r).WithHint(yamlHint)
		}
		switch r {
		case '[', '{':
			open++
		case ']', '}':
			open = max(0, open-1)
		}
		if open > maxBrackets {
			return refusal.Newf(refusal.Malformed, "%s:%d:%d: more than %d brackets are open", name, line, column, maxBrackets).WithHint(yamlHint)
		}
	}
	return nil
}

// A converter turns the library's tree into ours.
type converter struct{ name string }

func (c converter) refuse(t *token.Token, format string, args ...any) error {
	line, column := 1, 1
	if t != nil && t.Position != nil {
		line, column = t.Position.Line, t.Position.Column
	}
	return refusal.Newf(refusal.Malformed, "%s:%d:%d: %w", c.name, line, column, fmt.Errorf(format, args...)).WithHint(yamlHint)
}

// jsonNumber is the one spelling of numbers that every reader agrees on.
var jsonNumber = lazily(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

// looksTyped finds text without quotes that some YAML reader takes for a
// number, a time, true or false.
var looksTyped = lazily(`(?i)^([-+.]?[0-9].*|y|yes|n|no|on|off|true|false|null|~|)$`)

func (c converter) convert(n ast.Node, depth int) (*node, error) {
	if n == nil {
		return nil, refusal.Newf(refusal.Malformed, "%s: found nothing where a value is expected", c.name).WithHint(yamlHint)
	}
	t := n.GetToken()
	if depth > maxYAMLDepth {
		return nil, c.refuse(t, "nested deeper than %d levels", maxYAMLDepth)
	}
	out := &node{line: 1, column: 1}
	if t != nil && t.Position != nil {
		out.line, out.column = t.Position.Line, t.Position.Column
	}
	switch n := n.(type) {
	case *ast.MappingNode:
		return c.mapping(out, n.Values, depth)
	case *ast.MappingValueNode:
		return c.mapping(out, []*ast.MappingValueNode{n}, depth)
	case *ast.SequenceNode:
		out.kind = sequenceNode
		for _, item := range n.Values {
			value, err := c.convert(item, depth+1)
			if err != nil {
				return nil, err
			}
			out.items = append(out.items, value)
		}
		return out, nil
	case *ast.StringNode:
		out.kind, out.text = stringNode, n.Value
		if t.Type == token.StringType && looksTyped().MatchString(n.Value) {
			return nil, c.refuse(t, "found %s without quotes, which readers of YAML understand differently; put it in quotes if text is meant", strconv.Quote(n.Value))
		}
		return out, nil
	case *ast.LiteralNode:
		out.kind, out.text = stringNode, n.Value.Value
		return out, nil
	case *ast.IntegerNode, *ast.FloatNode:
		if !jsonNumber().MatchString(t.Value) {
			return nil, c.refuse(t, "found the number %s, expected decimal digits as in 10 or 0.5 (quote it if text is meant)", t.Value)
		}
		if f, err := strconv.ParseFloat(t.Value, 64); err != nil || math.IsInf(f, 0) {
			return nil, c.refuse(t, "the number %s is out of range", t.Value)
		}
		out.kind, out.text = numberNode, t.Value
		return out, nil
	case *ast.BoolNode:
		if t.Value != "true" && t.Value != "false" {
			return nil, c.refuse(t, "found %s, expected true or false", t.Value)
		}
		out.kind, out.text = boolNode, t.Value
		return out, nil
	case *ast.NullNode:
		if t.Value != "null" {
			return nil, c.refuse(t, "found no value; write null if that is meant")
		}
		out.kind, out.text = nullNode, "null"
		return out, nil
	case *ast.AnchorNode, *ast.AliasNode:
		return nil, c.refuse(t, "found an anchor or alias, expected a plain value")
	case *ast.TagNode:
		return nil, c.refuse(t, "found the tag %s, expected a plain value", t.Value)
	case *ast.MergeKeyNode:
		return nil, c.refuse(t, "found a merge key, expected a plain value")
	}
	return nil, c.refuse(t, "found a %s, expected a mapping, a list or a plain value", n.Type())
}

func (c converter) mapping(out *node, values []*ast.MappingValueNode, depth int) (*node, error) {
	out.kind = mappingNode
	seen := make(map[string]bool, len(values))
	for i, v := range values {
		key, ok := v.Key.(*ast.StringNode)
		if !ok {
			return nil, c.refuse(v.Key.GetToken(), "found a key that is a %s, expected text (quote it)", v.Key.Type())
		}
		t := key.GetToken()
		if t.Type == token.StringType && looksTyped().MatchString(key.Value) {
			return nil, c.refuse(t, "found the key %s without quotes, which readers of YAML understand differently; put it in quotes", strconv.Quote(key.Value))
		}
		m := member{key: key.Value, line: t.Position.Line, column: t.Position.Column}
		if i == 0 {
			out.line, out.column = m.line, m.column
		}
		if seen[m.key] {
			return nil, c.refuse(t, "the key %s occurs twice", strconv.Quote(m.key))
		}
		seen[m.key] = true
		value, err := c.convert(v.Value, depth+1)
		if err != nil {
			return nil, err
		}
		m.value = value
		out.members = append(out.members, m)
	}
	return out, nil
}

// appendJSON writes the value as JSON, in whatever order it has.
func (n *node) appendJSON(dst []byte) []byte {
	switch n.kind {
	case nullNode, boolNode, numberNode:
		return append(dst, n.text...)
	case stringNode:
		return appendQuoted(dst, n.text)
	case sequenceNode:
		dst = append(dst, '[')
		for i, item := range n.items {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = item.appendJSON(dst)
		}
		return append(dst, ']')
	}
	dst = append(dst, '{')
	for i, m := range n.members {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendQuoted(dst, m.key), ':')
		dst = m.value.appendJSON(dst)
	}
	return append(dst, '}')
}

// appendQuoted writes a JSON string. An encoding error is left for canon to
// find in what follows: it reads all of it.
func appendQuoted(dst []byte, s string) []byte {
	quoted, err := canon.Marshal(s)
	if err != nil {
		return append(dst, '?')
	}
	return append(dst, quoted...)
}

var textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()

// checkShape compares a value with the Go type it is decoded into, so that a
// mistake is reported where it stands in the file. [canon] refuses the same
// mistakes again, by byte of the JSON.
func checkShape(n *node, t reflect.Type, path []string) error {
	bad := func(format string, args ...any) error {
		return &fieldError{slices.Clone(path), fmt.Errorf(format, args...)}
	}
	if t == reflect.TypeFor[canon.RawMessage]() {
		return nil
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if reflect.PointerTo(t).Implements(textUnmarshaler) {
		if n.kind != stringNode {
			return bad("found %s, expected text", n.describe())
		}
		value := reflect.New(t).Interface().(encoding.TextUnmarshaler)
		if err := value.UnmarshalText([]byte(n.text)); err != nil {
			return &fieldError{slices.Clone(path), err}
		}
		return nil
	}
	switch t.Kind() {
	case reflect.Struct:
		return checkStruct(n, t, path)
	case reflect.Map:
		if n.kind != mappingNode {
			return bad("found %s, expected a mapping", n.describe())
		}
		for _, m := range n.members {
			if err := checkShape(m.value, t.Elem(), append(path, m.key)); err != nil {
				return err
			}
		}
	case reflect.Slice:
		if n.kind != sequenceNode {
			return bad("found %s, expected a list", n.describe())
		}
		for i, item := range n.items {
			if err := checkShape(item, t.Elem(), append(path, strconv.Itoa(i))); err != nil {
				return err
			}
		}
	case reflect.String:
		if n.kind != stringNode {
			return bad("found %s, expected text", n.describe())
		}
	case reflect.Bool:
		if n.kind != boolNode {
			return bad("found %s, expected true or false", n.describe())
		}
	case reflect.Int, reflect.Int64:
		if _, err := strconv.ParseInt(n.text, 10, 64); n.kind != numberNode || err != nil {
			return bad("found %s, expected a whole number", n.describe())
		}
	case reflect.Float64:
		if n.kind != numberNode {
			return bad("found %s, expected a number", n.describe())
		}
	default:
		panic("bench: a document has a field of kind " + t.Kind().String())
	}
	return nil
}

func checkStruct(n *node, t reflect.Type, path []string) error {
	if n.kind != mappingNode {
		return &fieldError{slices.Clone(path), fmt.Errorf("found %s, expected a mapping", n.describe())}
	}
	var known []string
	for i := range t.NumField() {
		f := t.Field(i)
		name, optional := jsonName(f)
		known = append(known, name)
		at := append(slices.Clone(path), name)
		m := n.member(name)
		switch {
		case m == nil && !optional:
			return &fieldError{at, errors.New("is missing")}
		case m == nil:
			continue
		case optional && m.value.isEmpty() && f.Type.Kind() != reflect.Pointer:
			return &fieldError{at, errors.New("is empty; leave it out")}
		}
		if err := checkShape(m.value, f.Type, at); err != nil {
			return err
		}
	}
	for _, m := range n.members {
		if !slices.Contains(known, m.key) {
			return &fieldError{append(slices.Clone(path), m.key), fmt.Errorf("is not a known key, expected one of %s", strings.Join(known, ", "))}
		}
	}
	return nil
}

func (n *node) isEmpty() bool {
	return n.kind == nullNode || n.kind == stringNode && n.text == "" ||
		n.kind == mappingNode && len(n.members) == 0 || n.kind == sequenceNode && len(n.items) == 0
}

// jsonName is the key of a field and whether it may be left out.
func jsonName(f reflect.StructField) (name string, optional bool) {
	name, rest, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name, strings.Contains(rest, "omitempty")
}
