package strictyaml

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	second "go.yaml.in/yaml/v3"

	"tallystick/internal/plain"
)

// checkSecondReader has another library read the file, and refuses it unless
// that one finds the same values. Every reader of YAML is lenient in places of
// its own: the one that reads first takes {a:1} for a key and a value, drops a
// tab inside text and whatever follows a closing quote.
func (f file) checkSecondReader(data []byte, top *Node) error {
	other, err := readSecond(data)
	if err != nil {
		return f.refuse(top.Line, top.Column, "not every reader of YAML can read it: %s", plain.Line(fmt.Sprintf("%.200s", strings.TrimPrefix(err.Error(), "yaml: "))))
	}
	if n := top.differsFrom(other); n != nil {
		return f.refuse(n.Line, n.Column, "readers of YAML understand this differently; put text in quotes, and a blank after each colon and comma")
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
