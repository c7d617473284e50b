package cassette

import (
	"slices"
	"strconv"
	"strings"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/strictyaml"
	"tallystick/internal/run/wire"
)

// yamlRules are those of the hand-written form.
var yamlRules = strictyaml.Rules{
	Hint:         "correct the file at that place; the form is described in docs/formats/cassette.md",
	TooLargeHint: "split the case; a cassette that people read is short",
	MaxDepth:     maxYAMLDepth,
	MaxInline:    maxYAMLDepth,
	MaxMarks:     1 << 20, // what tools print has long rows of dashes
	PlainDigits:  true,    // and people write "3 files" without quotes
}

const maxYAMLDepth = canon.MaxDepth - 8 // what is wrapped around a value needs room

// A place is a value of a YAML file and where it stands.
type place struct {
	line, column int
	kind         byte // as of [node]
	text         string
	names        []string
	list         []*place
}

// A yamlFile turns problems into errors that name file, line and column.
type yamlFile struct{ doc *strictyaml.Document }

func (f yamlFile) refuseAt(p *place, format string, args ...any) error {
	return f.doc.RefuseAt(p.line, p.column, format, args...)
}

func newPlace(n *strictyaml.Node) *place {
	p := &place{line: n.Line, column: n.Column, text: n.Text}
	switch n.Kind {
	case strictyaml.Mapping:
		p.kind = '{'
		for _, m := range n.Members {
			p.names = append(p.names, m.Key)
			p.list = append(p.list, newMember(m))
		}
	case strictyaml.List:
		p.kind = '['
		for _, item := range n.Items {
			p.list = append(p.list, newPlace(item))
		}
	case strictyaml.Text:
		p.kind = '"'
	case strictyaml.Number:
		p.kind = '0'
	default: // true, false, null
		p.kind, p.text = n.Text[0], ""
	}
	return p
}

func newMember(m strictyaml.Member) *place {
	p := newPlace(m.Value)
	if p.kind != '{' && p.kind != '[' {
		// A value on the next line is still found by its key.
		p.line, p.column = m.Line, m.Column
	}
	return p
}

// get returns the value of a key, nil if there is none.
func (p *place) get(name string) *place {
	if i := slices.Index(p.names, name); i >= 0 {
		return p.list[i]
	}
	return nil
}

// node returns the value without its places.
func (p *place) node() wire.Node {
	n := wire.Node{Kind: p.kind, Text: p.text, List: make([]wire.Node, len(p.list))}
	for i, item := range p.list {
		n.List[i] = item.node()
		if p.kind == '{' {
			n.List[i].Name = p.names[i]
		}
	}
	return n
}

// json returns the value as canonical JSON.
func (f yamlFile) json(p *place) ([]byte, error) {
	n := p.node()
	text, err := n.Canonical()
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
		return "the number " + wire.Head(p.text)
	case 't':
		return "true"
	case 'f':
		return "false"
	}
	return "null"
}
