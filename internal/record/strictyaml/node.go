package strictyaml

import (
	"fmt"
	"reflect"
	"strconv"

	"tallystick/internal/record/canon"
)

// A Node is one value of a file and where it stands. A mapping stands where
// its first key does.
type Node struct {
	Line, Column int
	Kind         Kind
	Text         string // of text its characters; of a number, true, false or null how it is written
	Members      []Member
	Items        []*Node
}

// A Member is one key of a mapping, where the key stands, and its value.
type Member struct {
	Key          string
	Line, Column int
	Value        *Node
}

// A Kind is what sort of value a [Node] is.
type Kind int

// Every kind of value there is.
const (
	Null Kind = iota
	Bool
	Number
	Text
	Mapping
	List
)

// Describe says what the value is, for messages.
func (n *Node) Describe() string {
	switch n.Kind {
	case Null:
		return "nothing"
	case Bool:
		return n.Text
	case Number:
		return fmt.Sprintf("the number %.80s", n.Text)
	case Text:
		return fmt.Sprintf("the text %.80q", n.Text)
	case Mapping:
		return "a mapping"
	}
	return "a list"
}

// Member returns the member of a mapping with that key, nil if there is none.
func (n *Node) Member(key string) *Member {
	for i := range n.Members {
		if n.Members[i].Key == key {
			return &n.Members[i]
		}
	}
	return nil
}

// find gives the place of the deepest part of a path that exists.
func (n *Node) find(path []string) (line, column int) {
	line, column = n.Line, n.Column
	for _, key := range path {
		switch n.Kind {
		case Mapping:
			m := n.Member(key)
			if m == nil {
				return line, column
			}
			line, column, n = m.Line, m.Column, m.Value
		case List:
			i, err := strconv.Atoi(key)
			if err != nil || i < 0 || i >= len(n.Items) {
				return line, column
			}
			n = n.Items[i]
			line, column = n.Line, n.Column
		default:
			return line, column
		}
	}
	return line, column
}

func (n *Node) isEmpty() bool {
	switch n.Kind {
	case Null:
		return true
	case Text:
		return n.Text == ""
	case Mapping:
		return len(n.Members) == 0
	case List:
		return len(n.Items) == 0
	}
	return false
}

// isZero reports whether a number or a truth value is the one that a type has
// without any.
func (n *Node) isZero(t reflect.Type) bool {
	switch n.Kind {
	case Number:
		value, err := strconv.ParseFloat(n.Text, 64)
		return err == nil && value == 0 && t.Kind() != reflect.Interface
	case Bool:
		return n.Text == "false" && t.Kind() == reflect.Bool
	}
	return false
}

// appendJSON writes the value as JSON, in whatever order it has.
func (n *Node) appendJSON(dst []byte) []byte {
	switch n.Kind {
	case Null, Bool, Number:
		return append(dst, n.Text...)
	case Text:
		return append(dst, Quote(n.Text)...)
	case List:
		dst = append(dst, '[')
		for i, item := range n.Items {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = item.appendJSON(dst)
		}
		return append(dst, ']')
	}
	dst = append(dst, '{')
	for i, m := range n.Members {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(dst, Quote(m.Key)...), ':')
		dst = m.Value.appendJSON(dst)
	}
	return append(dst, '}')
}

// Quote writes text as JSON does, which YAML reads as the same text. Text that
// has no spelling becomes a mark that no reader takes for a value, so that
// every reader refuses the result.
func Quote(s string) string {
	quoted, err := canon.Marshal(s)
	if err != nil {
		return "?"
	}
	return string(quoted)
}
