// Package parquet reads Parquet files of the kind in which data sets are
// published: whole, into rows of plain values.
//
// It is a reader for tables of questions, not for analytics: a file of at most
// 256 MiB is in memory. It knows every physical type, nested lists and structs,
// both kinds of data pages, the encodings that writers use, and the compressions
// none, snappy, gzip and zstd. What it does not know it refuses by name. The
// reason to have it is size: the library that does everything adds 8 MB to tally.
package parquet

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"unicode/utf8"

	"tallystick/internal/record/refusal"
)

// Magic begins and ends every file.
const Magic = "PAR1"

// maxValues bounds the values of a file, and maxUnpacked the bytes of its pages
// once they are unpacked: a page of a few bytes can claim gigabytes. A small file
// may have fewer values, 100 a byte and 100,000 more.
const (
	maxValues   = 20_000_000
	maxUnpacked = 1 << 30
)

// Is reports whether data looks like a Parquet file.
func Is(data []byte) bool { return bytes.HasPrefix(data, []byte(Magic)) }

// A File is what a Parquet file holds.
type File struct {
	Columns []string
	// Rows have a value for each column, nil for none: bool, int64, uint64,
	// float64, string, []byte (not UTF-8), []any, map[string]any.
	Rows []map[string]any
}

// Read reads a whole file.
func Read(data []byte) (*File, error) {
	f, err := read(data)
	if err != nil {
		return nil, refusal.Newf(refusal.Malformed, "Parquet: %w", err)
	}
	return f, nil
}

func read(data []byte) (*File, error) {
	n := len(data)
	if n < 12 || string(data[:4]) != Magic || string(data[n-4:]) != Magic {
		return nil, fmt.Errorf("the file does not begin and end with %s; it may be cut off", Magic)
	}
	size := binary.LittleEndian.Uint32(data[n-8:])
	if uint64(size) > uint64(n-12) {
		return nil, fmt.Errorf("the footer says that it has %d bytes, the file has %d", size, n)
	}
	meta, _, err := readStruct(data[n-8-int(size) : n-8])
	if err != nil {
		return nil, fmt.Errorf("footer: %w", err)
	}
	root, err := readSchema(meta.items(2))
	if err != nil {
		return nil, err
	}
	r := &reader{data: data[:n-8-int(size)], left: maxUnpacked, values: min(maxValues, 100_000+100*n)}
	out := &File{}
	for _, c := range root.children {
		out.Columns = append(out.Columns, c.name)
	}
	for i, group := range meta.items(4) {
		if err := r.rowGroup(root, group, out); err != nil {
			return nil, fmt.Errorf("row group %d: %w", i, err)
		}
	}
	if want := meta.number(3); int64(len(out.Rows)) != want {
		return nil, fmt.Errorf("it has %d rows, its footer says %d", len(out.Rows), want)
	}
	return out, nil
}

// reader keeps the bounds of one file.
type reader struct {
	data   []byte
	left   int // bytes that may still be unpacked
	values int // values that may still be read
}

// rowGroup reads some rows: every column, then the rows put together.
func (r *reader) rowGroup(root *node, group field, out *File) error {
	rows := group.number(3)
	chunks := group.items(1)
	leaves := root.leaves()
	if len(chunks) != len(leaves) {
		return fmt.Errorf("it has %d columns, the schema %d", len(chunks), len(leaves))
	}
	if rows < 0 || rows > int64(r.values) {
		return fmt.Errorf("it claims %d rows", rows)
	}
	columns := make([][]triple, len(leaves))
	for i, leaf := range leaves {
		triples, err := r.column(leaf, chunks[i].at(3))
		if err != nil {
			return fmt.Errorf("column %s: %w", leaf.path, err)
		}
		columns[i] = triples
	}
	for range rows {
		row := make([][]triple, len(leaves))
		for i, leaf := range leaves {
			n := 0
			if len(columns[i]) > 0 {
				for n = 1; n < len(columns[i]) && columns[i][n].rep > 0; n++ {
				}
			}
			if n == 0 {
				return fmt.Errorf("column %s ends before the rows do", leaf.path)
			}
			row[i], columns[i] = columns[i][:n], columns[i][n:]
		}
		out.Rows = append(out.Rows, root.group(row))
	}
	for i, rest := range columns {
		if len(rest) > 0 {
			return fmt.Errorf("column %s has more values than there are rows", leaves[i].path)
		}
	}
	return nil
}

// A triple is one value with its levels: how deep it repeats, and how much of
// its path is there.
type triple struct {
	rep, def int
	value    any // nil if def says that there is none
}

// A node is a place in the schema.
type node struct {
	name, path string
	repetition int64 // required, optional, repeated
	def, rep   int   // levels at which a value of it is there
	children   []*node

	physical  int64
	length    int // of a fixed array
	converted int64
	scale     int // of a decimal
	logical   field
	count     int // leaves below it
}

// Repetitions.
const (
	required = iota
	optional
	repeated
)

// maxSchema bounds the nodes of a schema, maxSchemaDepth how deep they nest.
const (
	maxSchema      = 10_000
	maxSchemaDepth = 32
)

func readSchema(elements []field) (*node, error) {
	if len(elements) == 0 || len(elements) > maxSchema {
		return nil, fmt.Errorf("the schema has %d elements", len(elements))
	}
	rest := elements
	root, err := readNode(&rest, nil, 0)
	if err != nil {
		return nil, err
	}
	if len(rest) > 0 || len(root.children) == 0 {
		return nil, fmt.Errorf("the schema does not add up")
	}
	return root, nil
}

func readNode(rest *[]field, parent *node, depth int) (*node, error) {
	if len(*rest) == 0 || depth > maxSchemaDepth {
		return nil, fmt.Errorf("the schema is cut off or nests deeper than %d", maxSchemaDepth)
	}
	e := (*rest)[0]
	*rest = (*rest)[1:]
	n := &node{name: e.text(4), physical: e.numberOr(1, -1), length: int(e.number(2)), repetition: e.number(3), converted: e.numberOr(6, -1), logical: e.at(10), scale: int(e.number(7))}
	if parent != nil {
		n.def, n.rep, n.path = parent.def, parent.rep, n.name
		if parent.path != "" {
			n.path = parent.path + "." + n.name
		}
		switch n.repetition {
		case optional:
			n.def++
		case repeated:
			n.def, n.rep = n.def+1, n.rep+1
		}
	}
	children := e.number(5)
	if children == 0 {
		if parent == nil || n.physical < 0 {
			return nil, fmt.Errorf("the schema has an element %q without a type", n.name)
		}
		n.count = 1
		return n, nil
	}
	if children < 0 || children > int64(len(*rest)) {
		return nil, fmt.Errorf("the schema is cut off")
	}
	for range children {
		c, err := readNode(rest, n, depth+1)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(n.children, func(other *node) bool { return other.name == c.name }) {
			return nil, fmt.Errorf("the schema has two columns called %.60q, expected a name for each", c.path)
		}
		n.children = append(n.children, c)
		n.count += c.count
	}
	return n, nil
}

func (n *node) leaves() []*node {
	if len(n.children) == 0 {
		return []*node{n}
	}
	var out []*node
	for _, c := range n.children {
		out = append(out, c.leaves()...)
	}
	return out
}

// group makes the members of one struct out of the triples of its leaves.
func (n *node) group(leaves [][]triple) map[string]any {
	out := make(map[string]any, len(n.children))
	for _, c := range n.children {
		out[c.name] = c.assemble(leaves[:c.count])
		leaves = leaves[c.count:]
	}
	return out
}

// assemble makes the value of a node. The triples are those of one instance of
// its parent; the first of them says what is there.
func (n *node) assemble(leaves [][]triple) any {
	if n.repetition != repeated {
		return n.one(leaves)
	}
	if leaves[0][0].def < n.def {
		return []any{}
	}
	list := []any{}
	for len(leaves[0]) > 0 {
		element := make([][]triple, len(leaves))
		for i := range leaves {
			k := min(1, len(leaves[i]))
			for k < len(leaves[i]) && leaves[i][k].rep > n.rep {
				k++
			}
			if k == 0 {
				return list // columns that do not agree; the counts say so elsewhere
			}
			element[i], leaves[i] = leaves[i][:k], leaves[i][k:]
		}
		list = append(list, n.one(element))
	}
	return list
}

// one is a single instance.
func (n *node) one(leaves [][]triple) any {
	if leaves[0][0].def < n.def {
		return nil
	}
	if len(n.children) == 0 {
		return leaves[0][0].value
	}
	// The list of a writer that follows the rules is a group around a repeated
	// group with one member; what matters is in the middle.
	if c := n.children[0]; n.isList() && len(n.children) == 1 && c.repetition == repeated {
		items := c.assemble(leaves).([]any)
		if len(c.children) == 1 {
			for i, item := range items {
				if m, ok := item.(map[string]any); ok {
					items[i] = m[c.children[0].name]
				}
			}
		}
		return items
	}
	return n.group(leaves)
}

func (n *node) isList() bool { return n.converted == 3 || n.logical.has(3) }

// textOrBytes is a text if it is one.
func textOrBytes(b []byte) any {
	if utf8.Valid(b) {
		return string(b)
	}
	return bytes.Clone(b)
}
