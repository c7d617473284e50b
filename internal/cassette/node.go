package cassette

import (
	"sort"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"tallystick/internal/canon"
)

// A node is one JSON value that is being rewritten. Requests and replies have
// whatever shape their provider gives them, so they are trees here and not Go
// structs: a field that nobody knew must stay part of the match key.
type node struct {
	kind byte   // one of { [ " 0 t f n
	name string // of a member of an object
	text string // of a string its characters, of a number its spelling
	list []node // members or items
}

// parseNode reads one JSON value however it is spelled. [canon] decides what
// is JSON; what it lets through is then known to be well formed.
func parseNode(data []byte) (node, error) {
	var checked canon.RawMessage
	if err := canon.Unmarshal(data, &checked); err != nil {
		return node{}, err
	}
	p := parsers.Get().(*nodeParser)
	defer parsers.Put(p)
	if n := p.parse(string(checked), false); !p.odd {
		return n, nil
	}
	canonical, err := canon.Canonicalize(data)
	if err != nil {
		return node{}, err
	}
	return parseCanonical(string(canonical)), nil
}

// parseCanonical reads text that [canon] has accepted as canonical, and trusts
// it.
func parseCanonical(text string) node {
	p := parsers.Get().(*nodeParser)
	defer parsers.Put(p)
	return p.parse(text, true)
}

// parsers keep the memory of a parser for the next.
var parsers = sync.Pool{New: func() any { return &nodeParser{} }}

// A nodeParser reads JSON that is known to be well formed. It puts names in
// order and numbers in canonical spelling, as long as that is easy: requests
// of a replay come this way, thousands in a second. Names that are not ASCII
// are left to [canon], which knows their order.
type nodeParser struct {
	text string
	pos  int
	odd  bool // something is left for canon

	ordered bool // the names are in canonical order, which is not that of bytes

	open []node // members and items of containers that are not closed yet
	free []node // memory for those of containers that are; never used twice
}

func (p *nodeParser) parse(text string, ordered bool) node {
	p.text, p.pos, p.odd, p.ordered = text, 0, false, ordered
	n := p.value()
	// What the next call finds must not keep this text alive.
	p.text = ""
	clear(p.open[:cap(p.open)])
	if cap(p.open) > 256 {
		p.open = nil
	}
	return n
}

func (p *nodeParser) space() {
	for p.pos < len(p.text) && p.text[p.pos] <= ' ' {
		p.pos++
	}
}

func (p *nodeParser) value() node {
	p.space()
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
	return node{kind: '0', text: p.number()}
}

func (p *nodeParser) number() string {
	start := p.pos
	for p.pos < len(p.text) && strings.IndexByte(",]} \t\r\n", p.text[p.pos]) < 0 {
		p.pos++
	}
	spelled := p.text[start:p.pos]
	if len(spelled) <= 15 && strings.Trim(spelled, "0123456789") == "" {
		return spelled
	}
	canonical, err := canon.Canonicalize([]byte(spelled))
	if err != nil {
		p.odd = true
		return spelled
	}
	return string(canonical)
}

func (p *nodeParser) object() node {
	first := len(p.open)
	p.pos++
	sorted := true
	for p.more('}') {
		name := p.quoted()
		if last := len(p.open); last > first && name <= p.open[last-1].name {
			sorted = false
		}
		p.odd = p.odd || !isASCII(name)
		p.space()
		p.pos++ // the colon
		value := p.value()
		value.name = name
		p.open = append(p.open, value)
	}
	n := node{kind: '{', list: p.close(first)}
	if !sorted && !p.ordered {
		sort.Sort(&n)
	}
	return n
}

func (p *nodeParser) array() node {
	first := len(p.open)
	p.pos++
	for p.more(']') {
		value := p.value()
		p.open = append(p.open, value)
	}
	return node{kind: '[', list: p.close(first)}
}

// more moves to the next member or item, or behind the end.
func (p *nodeParser) more(end byte) bool {
	p.space()
	if p.text[p.pos] == ',' {
		p.pos++
		p.space()
	}
	if p.text[p.pos] == end {
		p.pos++
		return false
	}
	return true
}

// close moves what is open since first to memory of its own.
func (p *nodeParser) close(first int) []node {
	n := len(p.open) - first
	if len(p.free) < n {
		p.free = make([]node, max(n, 32))
	}
	list := p.free[:n:n]
	p.free = p.free[n:]
	copy(list, p.open[first:])
	p.open = p.open[:first]
	return list
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// Len, Less and Swap order the members of an object by name.
func (n *node) Len() int           { return len(n.list) }
func (n *node) Less(i, j int) bool { return n.list[i].name < n.list[j].name }
func (n *node) Swap(i, j int)      { n.list[i], n.list[j] = n.list[j], n.list[i] }

func (p *nodeParser) quoted() string {
	start := p.pos + 1
	end := start
	for p.text[end] != '"' && p.text[end] != '\\' {
		end++
	}
	if p.text[end] == '"' {
		p.pos = end + 1
		return p.text[start:end]
	}
	for ; p.text[end] != '"'; end++ {
		if p.text[end] == '\\' {
			end++
		}
	}
	p.pos = end + 1
	plain, err := jsontext.AppendUnquote(nil, p.text[start-1:p.pos])
	if err != nil {
		panic("cassette: JSON that canon accepted holds a string that does not unquote: " + err.Error())
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
			dst = append(canon.AppendString(dst, n.list[i].name), ':')
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
		return canon.AppendString(dst, n.text)
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

// get returns the member of that name, or nil.
func (n *node) get(name string) *node {
	if n.kind != '{' {
		return nil
	}
	for i := range n.list {
		if n.list[i].name == name {
			return &n.list[i]
		}
	}
	return nil
}

// members returns the members of an object, none of anything else.
func (n *node) members() []node {
	if n.kind != '{' {
		return nil
	}
	return n.list
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
	value.name = name
	if m := n.get(name); m != nil {
		*m = value
		return
	}
	n.list = append(n.list, value)
}

// drop removes the members of an object that unwanted says yes to.
func (n *node) drop(unwanted func(name string, value *node) bool) {
	if n.kind != '{' {
		return
	}
	kept := 0
	for i := range n.list {
		if unwanted(n.list[i].name, &n.list[i]) {
			continue
		}
		n.list[kept] = n.list[i]
		kept++
	}
	n.list = n.list[:kept]
}

// clone copies the value deeply enough that rewriting one leaves the other.
func (n *node) clone() node {
	c := *n
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
		value := pairs[i+1].(node)
		value.name = pairs[i].(string)
		n.list = append(n.list, value)
	}
	return n
}

func arrayNode(items ...node) node { return node{kind: '[', list: items} }

var nullNode = node{kind: 'n'}
