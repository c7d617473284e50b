package wire

import (
	"sort"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/plain"
)

// A Node is one JSON value that is being rewritten. Requests and replies have
// whatever shape their provider gives them, so they are trees here and not Go
// structs: an unknown field must stay part of the match key.
type Node struct {
	Kind byte   // one of { [ " 0 t f n
	Name string // of a member of an object
	Text string // of a string its characters, of a number its spelling
	List []Node // members or items
}

// ParseNode reads one JSON value however it is spelled. [canon] decides what
// is JSON; what it lets through is then known to be well formed.
func ParseNode(data []byte) (Node, error) {
	var checked canon.RawMessage
	if err := canon.Unmarshal(data, &checked); err != nil {
		return Node{}, err
	}
	p := parsers.Get().(*nodeParser)
	defer parsers.Put(p)
	if n := p.parse(string(checked), false); !p.odd {
		return n, nil
	}
	canonical, err := canon.Canonicalize(data)
	if err != nil {
		return Node{}, err
	}
	return ParseCanonical(string(canonical)), nil
}

// ParseCanonical reads text that [canon] has accepted as canonical, and trusts
// it.
func ParseCanonical(text string) Node {
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

	open []Node // members and items of containers that are not closed yet
	free []Node // memory for those of containers that are; never used twice
}

func (p *nodeParser) parse(text string, ordered bool) Node {
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

func (p *nodeParser) value() Node {
	p.space()
	switch c := p.text[p.pos]; c {
	case '{':
		return p.object()
	case '[':
		return p.array()
	case '"':
		return Node{Kind: '"', Text: p.quoted()}
	case 't', 'n':
		p.pos += 4
		return Node{Kind: c}
	case 'f':
		p.pos += 5
		return Node{Kind: c}
	}
	return Node{Kind: '0', Text: p.number()}
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

func (p *nodeParser) object() Node {
	first := len(p.open)
	p.pos++
	sorted := true
	for p.more('}') {
		name := p.quoted()
		if last := len(p.open); last > first && name <= p.open[last-1].Name {
			sorted = false
		}
		p.odd = p.odd || !isASCII(name)
		p.space()
		p.pos++ // the colon
		value := p.value()
		value.Name = name
		p.open = append(p.open, value)
	}
	n := Node{Kind: '{', List: p.close(first)}
	if !sorted && !p.ordered {
		sort.Sort(&n)
	}
	return n
}

func (p *nodeParser) array() Node {
	first := len(p.open)
	p.pos++
	for p.more(']') {
		value := p.value()
		p.open = append(p.open, value)
	}
	return Node{Kind: '[', List: p.close(first)}
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
func (p *nodeParser) close(first int) []Node {
	n := len(p.open) - first
	if len(p.free) < n {
		p.free = make([]Node, max(n, 32))
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
func (n *Node) Len() int           { return len(n.List) }
func (n *Node) Less(i, j int) bool { return n.List[i].Name < n.List[j].Name }
func (n *Node) Swap(i, j int)      { n.List[i], n.List[j] = n.List[j], n.List[i] }

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
		panic("wire: JSON that canon accepted holds a string that does not unquote: " + err.Error())
	}
	return string(plain)
}

// AppendJSON writes the value in canonical spelling, provided that the names
// of its objects are in canonical order.
func (n *Node) AppendJSON(dst []byte) []byte {
	switch n.Kind {
	case '{':
		dst = append(dst, '{')
		for i := range n.List {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(canon.AppendString(dst, n.List[i].Name), ':')
			dst = n.List[i].AppendJSON(dst)
		}
		return append(dst, '}')
	case '[':
		dst = append(dst, '[')
		for i := range n.List {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = n.List[i].AppendJSON(dst)
		}
		return append(dst, ']')
	case '"':
		return canon.AppendString(dst, n.Text)
	case 't':
		return append(dst, "true"...)
	case 'f':
		return append(dst, "false"...)
	case 'n':
		return append(dst, "null"...)
	}
	return append(dst, n.Text...)
}

// Canonical writes the value, sorting names where rewriting has moved them.
func (n *Node) Canonical() ([]byte, error) {
	return canon.Canonicalize(n.AppendJSON(nil))
}

// Get returns the member of that name, or nil.
func (n *Node) Get(name string) *Node {
	if n.Kind != '{' {
		return nil
	}
	for i := range n.List {
		if n.List[i].Name == name {
			return &n.List[i]
		}
	}
	return nil
}

// Members returns the members of an object, none of anything else.
func (n *Node) Members() []Node {
	if n.Kind != '{' {
		return nil
	}
	return n.List
}

// Str returns the text of a string member, "" if there is none.
func (n *Node) Str(name string) string {
	if m := n.Get(name); m != nil && m.Kind == '"' {
		return m.Text
	}
	return ""
}

// Items returns the elements of an array member.
func (n *Node) Items(name string) []Node {
	if m := n.Get(name); m != nil && m.Kind == '[' {
		return m.List
	}
	return nil
}

// Set replaces or adds a member. An added one stands last, so what is written
// afterwards goes through [Node.Canonical].
func (n *Node) Set(name string, value Node) {
	value.Name = name
	if m := n.Get(name); m != nil {
		*m = value
		return
	}
	n.List = append(n.List, value)
}

// Drop removes the members of an object that unwanted says yes to.
func (n *Node) Drop(unwanted func(name string, value *Node) bool) {
	if n.Kind != '{' {
		return
	}
	kept := 0
	for i := range n.List {
		if unwanted(n.List[i].Name, &n.List[i]) {
			continue
		}
		n.List[kept] = n.List[i]
		kept++
	}
	n.List = n.List[:kept]
}

// Clone copies the value deeply enough that rewriting one leaves the other.
func (n *Node) Clone() Node {
	c := *n
	c.List = make([]Node, len(n.List))
	for i := range n.List {
		c.List[i] = n.List[i].Clone()
	}
	return c
}

// StringNode is a text.
func StringNode(s string) Node { return Node{Kind: '"', Text: s} }

// ObjectNode is an object of names and nodes, one after the other.
func ObjectNode(pairs ...any) Node {
	n := Node{Kind: '{'}
	for i := 0; i < len(pairs); i += 2 {
		value := pairs[i+1].(Node)
		value.Name = pairs[i].(string)
		n.List = append(n.List, value)
	}
	return n
}

// ArrayNode is a list.
func ArrayNode(items ...Node) Node { return Node{Kind: '[', List: items} }

// NullNode is null.
var NullNode = Node{Kind: 'n'}

func numberNode(v int64) Node { return Node{Kind: '0', Text: strconv.FormatInt(v, 10)} }

// HeadBytes is how much of a value a message shows.
const HeadBytes = 120

// Head shortens a text and makes it safe to print.
func Head(s string) string {
	if len(s) > HeadBytes {
		cut := HeadBytes
		for !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = s[:cut] + "…"
	}
	return plain.Line(s)
}
