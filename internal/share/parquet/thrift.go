package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// A field is a value of Thrift's compact protocol: an integer, a boolean, bytes,
// a list or a struct, by what is set.
type field struct {
	num    int64
	bytes  []byte
	list   []field
	fields map[int16]field
}

func (f field) at(id int16) field      { return f.fields[id] }
func (f field) has(id int16) bool      { _, ok := f.fields[id]; return ok }
func (f field) text(id int16) string   { return string(f.fields[id].bytes) }
func (f field) number(id int16) int64  { return f.fields[id].num }
func (f field) items(id int16) []field { return f.fields[id].list }
func (f field) numberOr(id int16, otherwise int64) int64 {
	if v, ok := f.fields[id]; ok {
		return v.num
	}
	return otherwise
}

// Bounds of what a footer or a page header may hold: they are untrusted.
const (
	maxThriftDepth = 16
	maxThriftItems = 10_000_000
)

// thrift reads the compact protocol.
type thrift struct {
	data []byte
	at   int
	left int // items that may still be read
}

var errThrift = errors.New("the metadata ends too early or cannot be read")

// readStruct reads one struct and says how many bytes it took.
func readStruct(data []byte) (field, int, error) {
	t := &thrift{data: data, left: maxThriftItems}
	f, err := t.structure(0)
	return f, t.at, err
}

func (t *thrift) byte() (byte, error) {
	if t.at >= len(t.data) {
		return 0, errThrift
	}
	t.at++
	return t.data[t.at-1], nil
}

func (t *thrift) varint() (uint64, error) {
	v, n := binary.Uvarint(t.data[t.at:])
	if n <= 0 {
		return 0, errThrift
	}
	t.at += n
	return v, nil
}

func (t *thrift) zigzag() (int64, error) {
	v, err := t.varint()
	return int64(v>>1) ^ -int64(v&1), err
}

// The types of the compact protocol.
const (
	thriftTrue, thriftFalse    = 1, 2
	thriftByte, thriftI16      = 3, 4
	thriftI32, thriftI64       = 5, 6
	thriftDouble, thriftBinary = 7, 8
	thriftList, thriftSet      = 9, 10
	thriftMap, thriftStruct    = 11, 12
)

func (t *thrift) structure(depth int) (field, error) {
	if depth > maxThriftDepth {
		return field{}, fmt.Errorf("the metadata nests deeper than %d", maxThriftDepth)
	}
	out := field{fields: map[int16]field{}}
	for id := int16(0); ; {
		head, err := t.byte()
		if err != nil || head == 0 {
			return out, err
		}
		if delta := head >> 4; delta != 0 {
			id += int16(delta)
		} else {
			v, err := t.zigzag()
			if err != nil {
				return out, err
			}
			id = int16(v)
		}
		v, err := t.value(head&15, depth)
		if err != nil {
			return out, err
		}
		out.fields[id] = v
	}
}

func (t *thrift) value(kind byte, depth int) (field, error) {
	if t.left--; t.left < 0 {
		return field{}, errors.New("the metadata has too many values")
	}
	switch kind {
	case thriftTrue:
		return field{num: 1}, nil
	case thriftFalse:
		return field{}, nil
	case thriftByte:
		b, err := t.byte()
		return field{num: int64(int8(b))}, err
	case thriftI16, thriftI32, thriftI64:
		v, err := t.zigzag()
		return field{num: v}, err
	case thriftDouble:
		_, err := t.take(8)
		return field{}, err
	case thriftBinary:
		n, err := t.varint()
		if err != nil {
			return field{}, err
		}
		b, err := t.take(n)
		return field{bytes: b}, err
	case thriftList, thriftSet:
		return t.list(depth)
	case thriftStruct:
		return t.structure(depth + 1)
	}
	return field{}, fmt.Errorf("the metadata has a value of type %d, which Parquet does not use", kind)
}

func (t *thrift) take(n uint64) ([]byte, error) {
	if n > uint64(len(t.data)-t.at) {
		return nil, errThrift
	}
	t.at += int(n)
	return t.data[t.at-int(n) : t.at], nil
}

func (t *thrift) list(depth int) (field, error) {
	head, err := t.byte()
	if err != nil {
		return field{}, err
	}
	n := uint64(head >> 4)
	if n == 15 {
		if n, err = t.varint(); err != nil {
			return field{}, err
		}
	}
	var out field
	for range n {
		// In a list a boolean is a byte of its own.
		kind := head & 15
		if kind == thriftTrue || kind == thriftFalse {
			if kind, err = t.byte(); err != nil {
				return out, err
			}
		}
		v, err := t.value(kind, depth)
		if err != nil {
			return out, err
		}
		out.list = append(out.list, v)
	}
	return out, nil
}
