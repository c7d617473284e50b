package strictyaml

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/refusal"
)

// Fill returns the document with the members that it lacks and the other has,
// also inside mappings that both have. What is filled in stands nowhere: a
// refusal names the place of the mapping that lacked it.
func (d *Document) Fill(defaults *Document) (*Document, error) {
	filled := &Document{Top: fill(d.Top, defaults.Top), file: d.file}
	var err error
	if filled.JSON, err = canon.Canonicalize(filled.Top.appendJSON(nil)); err != nil {
		return nil, fmt.Errorf("%s: %w", d.file.name, err)
	}
	return filled, nil
}

func fill(n, defaults *Node) *Node {
	if n.Kind != Mapping || defaults.Kind != Mapping {
		return n
	}
	out := *n
	out.Members = slices.Clone(n.Members)
	for _, def := range defaults.Members {
		if m := out.Member(def.Key); m != nil {
			m.Value = fill(m.Value, def.Value)
			continue
		}
		out.Members = append(out.Members, Member{Key: def.Key, Line: n.Line, Column: n.Column, Value: moved(def.Value, n)})
	}
	return &out
}

// moved is a copy of a value that stands where another does.
func moved(n, place *Node) *Node {
	out := *n
	out.Line, out.Column = place.Line, place.Column
	out.Members, out.Items = slices.Clone(n.Members), slices.Clone(n.Items)
	for i := range out.Members {
		m := &out.Members[i]
		m.Line, m.Column, m.Value = place.Line, place.Column, moved(m.Value, place)
	}
	for i := range out.Items {
		out.Items[i] = moved(out.Items[i], place)
	}
	return &out
}

// Decode reads the document into the struct that v points to, as the function
// of that name does.
func (d *Document) Decode(v any) error {
	if err := d.checkVersion(); err != nil {
		return err
	}
	if err := checkShape(d.Top, reflect.TypeOf(v).Elem(), nil); err != nil {
		return d.Refuse(err)
	}
	if err := canon.UnmarshalCanonical(d.JSON, v); err != nil {
		return fmt.Errorf("%s: %w", d.file.name, err)
	}
	return nil
}

// fileVersion is the version of every file that people write by hand.
const fileVersion = 1

// checkVersion refuses a file of a later version before its members are looked at: a
// newer program may have written members that this one would call mistakes.
func (d *Document) checkVersion() error {
	for _, m := range d.Top.Members {
		if m.Key != "version" && m.Key != "schema_version" || m.Value.Kind != Number {
			continue
		}
		if n, err := strconv.Atoi(m.Value.Text); err == nil && n > fileVersion {
			return refusal.Newf(refusal.NewerFormat, "%s:%d:%d: %s: found %d, this program knows %d; the file was written for a newer tally", d.file.name, m.Line, m.Column, m.Key, n, fileVersion).
				WithHint("install a newer version, or set it to %d if that is a typing mistake", fileVersion)
		}
	}
	return nil
}

// Flow writes the value in one line, as {a: 1, b: [x, "y z"]}.
func (n *Node) Flow() string {
	var parts []string
	switch n.Kind {
	case Text:
		return Quote(n.Text)
	case List:
		for _, item := range n.Items {
			parts = append(parts, item.Flow())
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case Mapping:
		for _, m := range n.Members {
			parts = append(parts, m.Key+": "+m.Value.Flow())
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	return n.Text
}
