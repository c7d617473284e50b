package cassette

import (
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"tallystick/internal/canon"
)

// A node is one JSON value that is being rewritten. Requests and replies have
// whatever shape their provider gives them, so they are trees here and not Go
// structs: a field that nobody knew must stay part of the match key.
type node struct {
	kind  byte     // one of { [ " 0 t f n
	text  string   // of a string its characters, of a number its spelling
	names []string // of an object, in the order of list
	list  []node   // members or items
}

// parseNode reads one JSON value however it is spelled. [canon] decides what
// is JSON; what it lets through is then well formed and in canonical order.
func parseNode(data []byte) (node, error) {
	canonical, err := canon.Canonicalize(data)
	if err != nil {
		return node{}, err
	}
	return parseCanonical(string(canonical)), nil
}

// parseCanonical reads text that [canon] has accepted, and trusts it.
func parseCanonical(text string) node {
	p := nodeParser{text: text}
	return p.value()
}

type nodeParser struct {
	text string
	pos  int
}

func (p *nodeParser) value() node {
	switch c := p.text[p.pos]; c {
	case '{':
		return p.object()
	case '[':
		return p.array()
	case '"':
		return node{kind: '"', text: p.quoted()}
	case 't', 'n':
		p.pos += 4
		return node{kind: c}
	case 'f':
		p.pos += 5
		return node{kind: c}
	}
	start := p.pos
	for p.pos < len(p.text) && strings.IndexByte(",]}", p.text[p.pos]) < 0 {
		p.pos++
	}
	return node{kind: '0', text: p.text[start:p.pos]}
}

func (p *nodeParser) object() node {
	n := node{kind: '{'}
	p.pos++
	for p.text[p.pos] != '}' {
		if p.text[p.pos] == ',' {
			p.pos++
		}
		n.names = append(n.names, p.quoted())
		p.pos++ // the colon
		n.list = append(n.list, p.value())
	}
	p.pos++
	return n
}

func (p *nodeParser) array() node {
	n := node{kind: '['}
	p.pos++
	for p.text[p.pos] != ']' {
		if p.text[p.pos] == ',' {
			p.pos++
		}
		n.list = append(n.list, p.value())
	}
	p.pos++
	return n
}

func (p *nodeParser) quoted() string {
	start := p.pos + 1
	escaped := false
	for p.pos = start; p.text[p.pos] != '"'; p.pos++ {
		if p.text[p.pos] == '\\' {
			escaped = true
			p.pos++
		}
	}
	p.pos++
	if !escaped {
		return p.text[start : p.pos-1]
	}
	plain, err := jsontext.AppendUnquote(nil, p.text[start-1:p.pos])
	if err != nil {
		panic("cassette: canonical JSON holds a string that does not unquote: " + err.Error())
	}
	return string(plain)
}

// appendJSON writes the value in canonical spelling, provided that the names
// of its objects are in canonical order.
func (n *node) appendJSON(dst []byte) []byte {
	switch n.kind {
	case '{':
		dst = append(dst, '{')
		for i := range n.list {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(appendString(dst, n.names[i]), ':')
			dst = n.list[i].appendJSON(dst)
		}
		return append(dst, '}')
	case '[':
		dst = append(dst, '[')
		for i := range n.list {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = n.list[i].appendJSON(dst)
		}
		return append(dst, ']')
	case '"':
		return appendString(dst, n.text)
	case 't':
		return append(dst, "true"...)
	case 'f':
		return append(dst, "false"...)
	case 'n':
		return append(dst, "null"...)
	}
	return append(dst, n.text...)
}

// canonical writes the value, sorting names where rewriting has moved them.
func (n *node) canonical() ([]byte, error) {
	return canon.Canonicalize(n.appendJSON(nil))
}

// appendString writes s as RFC 8785 section 3.2.2.2 spells it. Bytes that are
// not UTF-8 become U+FFFD, as in every JSON library.
func appendString(dst []byte, s string) []byte {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\ufffd")
	}
	dst = append(dst, '"')
	done := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, s[done:i]...)
		done = i + 1
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\b':
			dst = append(dst, `\b`...)
		case '\t':
			dst = append(dst, `\t`...)
		case '\n':
			dst = append(dst, `\n`...)
		case '\f':
			dst = append(dst, `\f`...)
		case '\r':
			dst = append(dst, `\r`...)
		default:
			const hex = "0123456789abcdef"
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xf])
		}
	}
	return append(append(dst, s[done:]...), '"')
}

// get returns the member of that name, or nil.
func (n *node) get(name string) *node {
	for i, have := range n.names {
		if have == name {
			return &n.list[i]
		}
	}
	return nil
}

// str returns the text of a string member, "" if there is none.
func (n *node) str(name string) string {
	if m := n.get(name); m != nil && m.kind == '"' {
		return m.text
	}
	return ""
}

// items returns the elements of an array member.
func (n *node) items(name string) []node {
	if m := n.get(name); m != nil && m.kind == '[' {
		return m.list
	}
	return nil
}

// set replaces or adds a member. An added one stands last, so what is written
// afterwards goes through [node.canonical].
func (n *node) set(name string, value node) {
	if m := n.get(name); m != nil {
		*m = value
		return
	}
	n.names = append(n.names, name)
	n.list = append(n.list, value)
}

// drop removes the members of an object that unwanted says yes to.
func (n *node) drop(unwanted func(name string, value *node) bool) {
	if n.kind != '{' {
		return
	}
	kept := 0
	for i := range n.list {
		if unwanted(n.names[i], &n.list[i]) {
			continue
		}
		n.names[kept], n.list[kept] = n.names[i], n.list[i]
		kept++
	}
	n.names, n.list = n.names[:kept], n.list[:kept]
}

// clone copies the value deeply enough that rewriting one leaves the other.
func (n *node) clone() node {
	c := *n
	c.names = append([]string(nil), n.names...)
	c.list = make([]node, len(n.list))
	for i := range n.list {
		c.list[i] = n.list[i].clone()
	}
	return c
}

func stringNode(s string) node { return node{kind: '"', text: s} }

func objectNode(pairs ...any) node {
	n := node{kind: '{'}
	for i := 0; i < len(pairs); i += 2 {
		n.names = append(n.names, pairs[i].(string))
		n.list = append(n.list, pairs[i+1].(node))
	}
	return n
}

func arrayNode(items ...node) node { return node{kind: '[', list: items} }

var nullNode = node{kind: 'n'}
