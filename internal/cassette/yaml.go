package cassette

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
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

// Limits of the hand-written form, so that a hostile file cannot exhaust
// memory or stack in the parser.
const (
	maxYAMLBytes    = 1 << 20
	maxYAMLDepth    = canon.MaxDepth - 8 // what is wrapped around a value needs room
	maxYAMLBrackets = 512
)

// A place is a value of a YAML file and where it stands.
type place struct {
	line, column int
	kind         byte // as of [node]
	text         string
	names        []string
	list         []*place
}

// A yamlFile turns problems into errors that name file, line and column.
type yamlFile struct{ name string }

func (f yamlFile) refuse(line, column int, format string, args ...any) error {
	return refusal.Newf(refusal.Malformed, "%s:%d:%d: %w", f.name, line, column, fmt.Errorf(format, args...)).
		WithHint("correct the file at that place; the form is described in docs/formats/cassette.md")
}

func (f yamlFile) refuseAt(p *place, format string, args ...any) error {
	return f.refuse(p.line, p.column, format, args...)
}

// parse reads the part of YAML that has one meaning: mappings with text keys,
// lists, text, JSON's numbers, true, false and null.
func (f yamlFile) parse(data []byte) (*place, error) {
	if err := f.checkBytes(data); err != nil {
		return nil, err
	}
	file, err := parseYAML(data)
	if err != nil {
		line, column, message := 1, 1, err.Error()
		var e yaml.Error
		if errors.As(err, &e) {
			message = e.GetMessage()
			if t := e.GetToken(); t != nil && t.Position != nil {
				line, column = t.Position.Line, t.Position.Column
			}
		}
		return nil, f.refuse(line, column, "%s", head(message))
	}
	if len(file.Docs) != 1 || file.Docs[0].Body == nil {
		return nil, f.refuse(1, 1, "found %d YAML documents, expected one", len(file.Docs))
	}
	return f.convert(file.Docs[0].Body, 0)
}

// parseYAML refuses keys that occur twice; the parser does, in every spelling,
// and a test holds it to that. It turns a panic of the parser into an error: what it reads comes
// from outside.
func parseYAML(data []byte) (file *ast.File, err error) {
	defer func() {
		if r := recover(); r != nil {
			file, err = nil, fmt.Errorf("the YAML parser failed: %v", r)
		}
	}()
	return parser.ParseBytes(data, 0)
}

// deepLine finds "- - - - ...", which nests without brackets or indentation.
var deepLine = regexp.MustCompile(`(?:[-?:][ \t]+){57}`)

// checkBytes refuses what must not reach the parser.
func (f yamlFile) checkBytes(data []byte) error {
	if len(data) > maxYAMLBytes {
		return refusal.Newf(refusal.TooLarge, "%s: %d bytes, at most %d are accepted", f.name, len(data), maxYAMLBytes).
			WithHint("split the case; a cassette that people read is short")
	}
	if !utf8.Valid(data) {
		return f.refuse(1, 1, "the file is not UTF-8")
	}
	line, column, open := 1, 0, 0
	for _, r := range string(data) {
		column++
		switch {
		case r == '\n':
			line, column = line+1, 0
		case r == '[' || r == '{':
			open++
		case r == ']' || r == '}':
			open = max(0, open-1)
		case r == '\t', r >= 0x20 && r < 0x7f, r >= 0xa0 && r != 0xfeff && r != 0x2028 && r != 0x2029:
		default:
			return f.refuse(line, column, "found the character %U, which cannot be seen; write it as an escape in double quotes", r)
		}
		if open > maxYAMLBrackets {
			return f.refuse(line, column, "more than %d brackets are open", maxYAMLBrackets)
		}
	}
	if m := deepLine.FindIndex(data); m != nil {
		return f.refuse(1+bytes.Count(data[:m[0]], []byte("\n")), 1, "more than %d lists begin in one line", maxYAMLDepth)
	}
	return nil
}

var (
	// jsonNumber is the spelling of numbers that every reader agrees on.
	jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

	// looksTyped finds text without quotes that some YAML reader takes for a
	// number, a time, true or false.
	looksTyped = regexp.MustCompile(`(?i)^([-+.]?[0-9][-+.:_0-9a-fxotz]*|y|yes|n|no|on|off|true|false|null|~|)$`)
)

func (f yamlFile) convert(n ast.Node, depth int) (*place, error) {
	p := &place{line: 1, column: 1}
	if n == nil {
		return nil, f.refuse(1, 1, "found nothing where a value is expected")
	}
	t := n.GetToken()
	if t != nil && t.Position != nil {
		p.line, p.column = t.Position.Line, t.Position.Column
	}
	if depth > maxYAMLDepth {
		return nil, f.refuseAt(p, "nested deeper than %d levels", maxYAMLDepth)
	}
	switch n := n.(type) {
	case *ast.MappingNode:
		return p, f.mapping(p, n.Values, depth)
	case *ast.MappingValueNode:
		return p, f.mapping(p, []*ast.MappingValueNode{n}, depth)
	case *ast.SequenceNode:
		p.kind = '['
		for _, item := range n.Values {
			value, err := f.convert(item, depth+1)
			if err != nil {
				return nil, err
			}
			p.list = append(p.list, value)
		}
		return p, nil
	case *ast.StringNode:
		p.kind, p.text = '"', n.Value
		if t.Type == token.StringType && looksTyped.MatchString(n.Value) {
			return nil, f.refuseAt(p, "found %s without quotes, which readers of YAML understand differently; put it in quotes if text is meant", quoteHead(n.Value))
		}
		return p, nil
	case *ast.LiteralNode:
		p.kind, p.text = '"', n.Value.Value
		return p, nil
	case *ast.IntegerNode, *ast.FloatNode:
		if !jsonNumber.MatchString(t.Value) {
			return nil, f.refuseAt(p, "found the number %s, expected decimal digits as in 10 or 0.5 (quote it if text is meant)", head(t.Value))
		}
		p.kind, p.text = '0', t.Value
		return p, nil
	case *ast.BoolNode:
		if t.Value != "true" && t.Value != "false" {
			return nil, f.refuseAt(p, "found %s, expected true or false", head(t.Value))
		}
		p.kind = t.Value[0]
		return p, nil
	case *ast.NullNode:
		if t.Value != "null" {
			return nil, f.refuseAt(p, "found no value; write null if that is meant")
		}
		p.kind = 'n'
		return p, nil
	}
	return nil, f.refuseAt(p, "found a %s, expected a mapping, a list or a plain value", n.Type())
}

func (f yamlFile) mapping(p *place, values []*ast.MappingValueNode, depth int) error {
	p.kind = '{'
	for i, v := range values {
		key, ok := v.Key.(*ast.StringNode)
		at := &place{line: p.line, column: p.column}
		if t := v.Key.GetToken(); t != nil && t.Position != nil {
			at.line, at.column = t.Position.Line, t.Position.Column
		}
		if !ok || key.GetToken().Type == token.StringType && looksTyped.MatchString(key.Value) {
			return f.refuseAt(at, "found a key that is not plain text; put it in quotes")
		}
		if i == 0 {
			p.line, p.column = at.line, at.column
		}
		value, err := f.convert(v.Value, depth+1)
		if err != nil {
			return err
		}
		if value.kind != '{' && value.kind != '[' {
			// A value on the next line is still found by its key.
			value.line, value.column = at.line, at.column
		}
		p.names = append(p.names, key.Value)
		p.list = append(p.list, value)
	}
	return nil
}

// get returns the value of a key, nil if there is none.
func (p *place) get(name string) *place {
	if i := slices.Index(p.names, name); i >= 0 {
		return p.list[i]
	}
	return nil
}

// node returns the value without its places.
func (p *place) node() node {
	n := node{kind: p.kind, text: p.text, list: make([]node, len(p.list))}
	for i, item := range p.list {
		n.list[i] = item.node()
		if p.kind == '{' {
			n.list[i].name = p.names[i]
		}
	}
	return n
}

// json returns the value as canonical JSON.
func (f yamlFile) json(p *place) ([]byte, error) {
	n := p.node()
	text, err := n.canonical()
	if err != nil {
		return nil, f.refuseAt(p, "%w", err)
	}
	return text, nil
}

// object wants a mapping with no keys but the known ones; those that begin
// with ! must be there.
func (f yamlFile) object(p *place, known ...string) error {
	if p.kind != '{' {
		return f.refuseAt(p, "found %s, expected a mapping", p.describe())
	}
	for i, name := range p.names {
		if !slices.Contains(known, name) && !slices.Contains(known, "!"+name) {
			return f.refuseAt(p.list[i], "%s is not a known key, expected one of %s", quoteHead(name), strings.ReplaceAll(strings.Join(known, ", "), "!", ""))
		}
	}
	for _, k := range known {
		if name, required := strings.CutPrefix(k, "!"); required && p.get(name) == nil {
			return f.refuseAt(p, "%s is missing", name)
		}
	}
	return nil
}

// text reads a string; an absent one is "".
func (f yamlFile) text(p *place) (string, error) {
	switch {
	case p == nil:
		return "", nil
	case p.kind != '"':
		return "", f.refuseAt(p, "found %s, expected text", p.describe())
	}
	return p.text, nil
}

// count reads a whole number that is not negative; an absent one is absent.
func (f yamlFile) count(p *place, absent int64) (int64, error) {
	if p == nil {
		return absent, nil
	}
	v, err := strconv.ParseInt(p.text, 10, 64)
	if p.kind != '0' || err != nil || v < 0 || v > maxTotal {
		return 0, f.refuseAt(p, "found %s, expected a whole number from 0", p.describe())
	}
	return v, nil
}

// items reads a list; an absent one is empty.
func (f yamlFile) items(p *place) ([]*place, error) {
	switch {
	case p == nil:
		return nil, nil
	case p.kind != '[':
		return nil, f.refuseAt(p, "found %s, expected a list", p.describe())
	}
	return p.list, nil
}

func (p *place) describe() string {
	switch p.kind {
	case '{':
		return "a mapping"
	case '[':
		return "a list"
	case '"':
		return "the text " + quoteHead(p.text)
	case '0':
		return "the number " + head(p.text)
	case 't':
		return "true"
	case 'f':
		return "false"
	}
	return "null"
}
