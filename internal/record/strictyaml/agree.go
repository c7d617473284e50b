package strictyaml

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	second "go.yaml.in/yaml/v3"

	"tallystick/internal/record/plain"
)

// checkSecondReader has another library read the file, and refuses it unless
// that one finds the same values. Every reader of YAML is lenient in places of
// its own: the one that reads first takes {a:1} for a key and a value, drops a
// tab inside text and whatever follows a closing quote.
// What it found already is other, nil if it has not read the file yet.
func (f file) checkSecondReader(data []byte, top *Node, other *second.Node) (err error) {
	if other == nil {
		if other, err = readSecond(data); err != nil {
			return f.refuseSecond(top.Line, top.Column, err)
		}
	}
	if n := top.differsFrom(other); n != nil {
		return f.refuse(n.Line, n.Column, "readers of YAML understand this differently; put text in quotes, and a blank after each colon and comma")
	}
	return nil
}

func (f file) refuseSecond(line, column int, err error) error {
	return f.refuse(line, column, "not every reader of YAML can read it: %s", plain.Line(fmt.Sprintf("%.200s", strings.TrimPrefix(err.Error(), "yaml: "))))
}

// readLarge reads a large file with the second library, and refuses what the
// first must not see. Of a small one it returns nil.
func (f file) readLarge(data []byte) (*second.Node, error) {
	if len(data) <= largeFile {
		return nil, nil
	}
	top, err := readSecond(data)
	if err != nil {
		return nil, f.refuseSecond(1, 1, err)
	}
	return top, f.requirePlain(top)
}

// requirePlain refuses anchors, aliases and tags.
func (f file) requirePlain(n *second.Node) error {
	switch {
	case n.Anchor != "" || n.Kind == second.AliasNode:
		return f.refuse(n.Line, n.Column, "found an anchor or alias, expected a plain value")
	case n.Style&second.TaggedStyle != 0:
		return f.refuse(n.Line, n.Column, "found the tag %.80s, expected a plain value", n.Tag)
	}
	for _, c := range n.Content {
		if err := f.requirePlain(c); err != nil {
			return err
		}
	}
	return nil
}

// readSecond reads the one document of a file.
func readSecond(data []byte) (top *second.Node, err error) {
	defer func() {
		if r := recover(); r != nil {
			top, err = nil, fmt.Errorf("the parser failed: %v", r)
		}
	}()
	var document, more second.Node
	d := second.NewDecoder(bytes.NewReader(data))
	if err := d.Decode(&document); err != nil {
		return nil, err
	}
	if err := d.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, errors.New("it is more than one document")
	}
	return document.Content[0], nil
}

// differsFrom returns the first value that is not the same in the other
// reader's tree, nil if there is none.
func (n *Node) differsFrom(other *second.Node) *Node {
	same := false
	switch n.Kind {
	case Null:
		same = other.ShortTag() == "!!null"
	case Bool:
		same = other.ShortTag() == "!!bool" && other.Value == n.Text
	case Number:
		same = (other.ShortTag() == "!!int" || other.ShortTag() == "!!float") && other.Value == n.Text
	case Text:
		same = other.ShortTag() == "!!str" && other.Value == n.Text
	case List:
		same = other.Kind == second.SequenceNode && len(other.Content) == len(n.Items)
	case Mapping:
		same = other.Kind == second.MappingNode && len(other.Content) == 2*len(n.Members)
	}
	if !same {
		return n
	}
	for i, item := range n.Items {
		if d := item.differsFrom(other.Content[i]); d != nil {
			return d
		}
	}
	for i, m := range n.Members {
		key := &Node{Line: m.Line, Column: m.Column, Kind: Text, Text: m.Key}
		if d := key.differsFrom(other.Content[2*i]); d != nil {
			return d
		}
		if d := m.Value.differsFrom(other.Content[2*i+1]); d != nil {
			return d
		}
	}
	return nil
}
