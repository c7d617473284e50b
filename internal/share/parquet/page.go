package parquet

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/big"
	"math/bits"
	"time"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
)

// The physical types.
const (
	typeBool = iota
	typeInt32
	typeInt64
	typeInt96
	typeFloat
	typeDouble
	typeBytes
	typeFixed
)

// The encodings.
const (
	plainEncoding     = 0
	plainDictionary   = 2
	rleEncoding       = 3
	deltaBinaryPacked = 5
	deltaLengthBytes  = 6
	deltaBytes        = 7
	rleDictionary     = 8
	byteStreamSplit   = 9
	dataPage          = 0
	dictionaryPage    = 2
	dataPageV2        = 3
)

// column reads the pages of one column of a row group.
func (r *reader) column(leaf *node, meta field) ([]triple, error) {
	start := meta.number(9)
	if at := meta.numberOr(11, 0); at > 0 && at < start {
		start = at
	}
	size := meta.number(7)
	if start < 4 || size < 0 || start+size < start || start+size > int64(len(r.data)) {
		return nil, fmt.Errorf("its bytes %d to %d are not in the file", start, start+size)
	}
	want := meta.number(5)
	if want < 0 || want > int64(r.values) {
		return nil, fmt.Errorf("it claims %d values, more than a file of this size may have", want)
	}
	r.values -= int(want)
	c := &chunk{r: r, leaf: leaf, codec: meta.number(4), want: int(want)}
	for rest := r.data[start : start+size]; len(c.triples) < c.want; {
		used, err := c.page(rest)
		if err != nil {
			return nil, err
		}
		rest = rest[used:]
	}
	return c.triples, nil
}

// A chunk is a column of a row group while it is read.
type chunk struct {
	r          *reader
	leaf       *node
	codec      int64
	want       int
	dictionary []any
	triples    []triple
}

func (c *chunk) page(data []byte) (used int, err error) {
	head, n, err := readStruct(data)
	if err != nil {
		return 0, fmt.Errorf("page header: %w", err)
	}
	size, unpacked := head.number(3), head.number(2)
	if size < 0 || size > int64(len(data)-n) || unpacked < 0 {
		return 0, fmt.Errorf("a page of %d bytes does not fit into its column", size)
	}
	body := data[n : n+int(size)]
	switch kind := head.number(1); kind {
	case dictionaryPage:
		err = c.readDictionary(head.at(7), body, unpacked)
	case dataPage:
		err = c.readData(head.at(5), body, unpacked)
	case dataPageV2:
		err = c.readDataV2(head.at(8), body, unpacked)
	}
	return n + int(size), err
}

// unpack takes bytes apart, within what is left of the bound of the file.
func (c *chunk) unpack(data []byte, size int64) ([]byte, error) {
	if size > int64(c.r.left) {
		return nil, fmt.Errorf("its pages unpack to more than %d bytes", maxUnpacked)
	}
	c.r.left -= int(size)
	var out []byte
	var err error
	switch c.codec {
	case 0:
		out = data
	case 1:
		if n, derr := s2.DecodedLen(data); derr != nil || int64(n) != size {
			return nil, fmt.Errorf("a page says that it unpacks to %d bytes, and its snappy header says otherwise", size)
		}
		out, err = s2.Decode(nil, data)
	case 2:
		var z *gzip.Reader
		if z, err = gzip.NewReader(bytes.NewReader(data)); err == nil {
			out, err = io.ReadAll(io.LimitReader(z, size+1))
		}
	case 6:
		var z *zstd.Decoder
		if z, err = zstd.NewReader(bytes.NewReader(data), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(64<<20)); err == nil {
			out, err = io.ReadAll(io.LimitReader(z, size+1))
			z.Close()
		}
	default:
		names := map[int64]string{3: "LZO", 4: "brotli", 5: "LZ4", 7: "LZ4 raw"}
		return nil, fmt.Errorf("it is compressed with %s, which is not read; write it with snappy, gzip or zstd", names[c.codec])
	}
	if err == nil && int64(len(out)) != size {
		err = fmt.Errorf("a page unpacks to %d bytes, its header says %d", len(out), size)
	}
	return out, err
}

func (c *chunk) readDictionary(head field, body []byte, unpacked int64) error {
	data, err := c.unpack(body, unpacked)
	if err != nil {
		return err
	}
	n := head.number(1)
	if n < 0 || n > maxValues {
		return fmt.Errorf("a dictionary of %d values", n)
	}
	c.dictionary, err = c.plain(data, int(n))
	return err
}

func (c *chunk) readData(head field, body []byte, unpacked int64) error {
	data, err := c.unpack(body, unpacked)
	if err != nil {
		return err
	}
	n := int(head.number(1))
	if n < 0 || n > c.want-len(c.triples) {
		return fmt.Errorf("a page claims %d values", n)
	}
	levels := func(highest int) ([]int, error) {
		if highest == 0 {
			return make([]int, n), nil
		}
		if len(data) < 4 || uint64(binary.LittleEndian.Uint32(data)) > uint64(len(data)-4) {
			return nil, errThrift
		}
		size := int(binary.LittleEndian.Uint32(data))
		out, err := hybrid(data[4:4+size], bits.Len(uint(highest)), n)
		data = data[4+size:]
		return out, err
	}
	reps, err := levels(c.leaf.rep)
	if err != nil {
		return fmt.Errorf("repetition levels: %w", err)
	}
	defs, err := levels(c.leaf.def)
	if err != nil {
		return fmt.Errorf("definition levels: %w", err)
	}
	return c.fill(reps, defs, data, head.number(2))
}

func (c *chunk) readDataV2(head field, body []byte, unpacked int64) error {
	n, repSize, defSize := int(head.number(1)), head.number(6), head.number(5)
	if n < 0 || n > c.want-len(c.triples) || repSize < 0 || defSize < 0 || repSize+defSize > int64(len(body)) {
		return fmt.Errorf("a page claims %d values", n)
	}
	reps, err := hybrid(body[:repSize], bits.Len(uint(c.leaf.rep)), n)
	if err != nil {
		return fmt.Errorf("repetition levels: %w", err)
	}
	defs, err := hybrid(body[repSize:repSize+defSize], bits.Len(uint(c.leaf.def)), n)
	if err != nil {
		return fmt.Errorf("definition levels: %w", err)
	}
	data := body[repSize+defSize:]
	// A page may say that its values are not compressed; without the word, they
	// are.
	if head.numberOr(7, 1) != 0 {
		if data, err = c.unpack(data, unpacked-repSize-defSize); err != nil {
			return err
		}
	}
	return c.fill(reps, defs, data, head.number(4))
}

// fill reads the values of a page and puts them beside their levels.
func (c *chunk) fill(reps, defs []int, data []byte, encoding int64) error {
	present := 0
	for i := range defs {
		if defs[i] > c.leaf.def || reps[i] > c.leaf.rep {
			return fmt.Errorf("a level is higher than the schema allows")
		}
		if defs[i] == c.leaf.def {
			present++
		}
	}
	values, err := c.values(data, present, encoding)
	if err != nil {
		return err
	}
	for i := range defs {
		t := triple{rep: reps[i], def: defs[i]}
		if t.def == c.leaf.def {
			t.value, values = values[0], values[1:]
		}
		c.triples = append(c.triples, t)
	}
	return nil
}

// values reads n values in an encoding.
func (c *chunk) values(data []byte, n int, encoding int64) ([]any, error) {
	switch encoding {
	case plainEncoding:
		return c.plain(data, n)
	case plainDictionary, rleDictionary:
		return c.fromDictionary(data, n)
	case rleEncoding:
		if c.leaf.physical != typeBool || len(data) < 4 {
			return nil, fmt.Errorf("run lengths are for booleans")
		}
		numbers, err := hybrid(data[4:], 1, n)
		return mapped(numbers, func(v int) any { return v == 1 }), err
	case deltaBinaryPacked:
		numbers, _, err := delta(data, n)
		return mapped(numbers, func(v int64) any { return c.leaf.integer(v) }), err
	case deltaLengthBytes:
		parts, err := deltaParts(data, n)
		return mapped(parts, c.leaf.fromBytes), err
	case deltaBytes:
		parts, err := deltaStrings(data, n)
		return mapped(parts, c.leaf.fromBytes), err
	}
	return nil, fmt.Errorf("the encoding %d is not read", encoding)
}

func mapped[T any](in []T, f func(T) any) []any {
	out := make([]any, len(in))
	for i, v := range in {
		out[i] = f(v)
	}
	return out
}

func (c *chunk) fromDictionary(data []byte, n int) ([]any, error) {
	if n == 0 {
		return nil, nil
	}
	if len(data) == 0 || data[0] > 32 {
		return nil, errThrift
	}
	places, err := hybrid(data[1:], int(data[0]), n)
	if err != nil {
		return nil, err
	}
	out := make([]any, n)
	for i, p := range places {
		if p >= len(c.dictionary) {
			return nil, fmt.Errorf("value %d of a dictionary of %d", p, len(c.dictionary))
		}
		out[i] = c.dictionary[p]
	}
	return out, nil
}

// hybrid reads n numbers of some bits in run lengths and packed groups.
func hybrid(data []byte, width, n int) ([]int, error) {
	out := make([]int, 0, min(n, 1<<16))
	if width == 0 {
		return make([]int, n), nil
	}
	for len(out) < n {
		head, used := binary.Uvarint(data)
		if used <= 0 {
			return nil, errThrift
		}
		data = data[used:]
		if head&1 == 0 {
			size := (width + 7) / 8
			if len(data) < size {
				return nil, errThrift
			}
			v := 0
			for i := range size {
				v |= int(data[i]) << (8 * i)
			}
			data = data[size:]
			for range min(head>>1, uint64(n-len(out))) {
				out = append(out, v)
			}
			if head>>1 == 0 {
				return nil, errThrift
			}
			continue
		}
		groups := head >> 1
		if groups == 0 || groups > uint64(len(data)) {
			return nil, errThrift
		}
		size := int(groups) * width
		if size > len(data) {
			return nil, errThrift
		}
		for i := 0; i < int(groups)*8 && len(out) < n; i++ {
			out = append(out, int(bitsAt(data, i*width, width)))
		}
		data = data[size:]
	}
	return out, nil
}

// bitsAt reads some bits, the lowest first.
func bitsAt(data []byte, at, width int) uint64 {
	var v uint64
	for i := 0; i < width; {
		b, off := data[(at+i)/8], (at+i)%8
		take := min(8-off, width-i)
		v |= uint64(b>>off&(1<<take-1)) << i
		i += take
	}
	return v
}

// plain reads values one after the other.
func (c *chunk) plain(data []byte, n int) ([]any, error) {
	if n > 8*len(data) {
		return nil, errThrift // even booleans would not fit
	}
	out := make([]any, 0, n)
	for i := range n {
		if c.leaf.physical == typeBool {
			if i/8 >= len(data) {
				return nil, errThrift
			}
			out = append(out, data[i/8]>>(i%8)&1 == 1)
			continue
		}
		size := c.leaf.size()
		if c.leaf.physical == typeBytes {
			if len(data) < 4 {
				return nil, errThrift
			}
			size, data = int(binary.LittleEndian.Uint32(data)), data[4:]
		}
		if size < 0 || size > len(data) {
			return nil, errThrift
		}
		out = append(out, c.leaf.value(data[:size]))
		data = data[size:]
	}
	return out, nil
}

// size is how many bytes a value has, where all have the same.
func (n *node) size() int {
	switch n.physical {
	case typeInt32, typeFloat:
		return 4
	case typeInt64, typeDouble:
		return 8
	case typeInt96:
		return 12
	case typeFixed:
		return n.length
	}
	return -1
}

// value reads one value of the size that the type has.
func (n *node) value(b []byte) any {
	switch n.physical {
	case typeInt32:
		return n.integer(int64(int32(binary.LittleEndian.Uint32(b))))
	case typeInt64:
		return n.integer(int64(binary.LittleEndian.Uint64(b)))
	case typeInt96:
		nanos, day := int64(binary.LittleEndian.Uint64(b)), int64(binary.LittleEndian.Uint32(b[8:]))
		return time.Unix((day-2440588)*86400, nanos).UTC().Format(time.RFC3339Nano)
	case typeFloat:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))
	case typeDouble:
		return math.Float64frombits(binary.LittleEndian.Uint64(b))
	}
	return n.fromBytes(b)
}

func (n *node) fromBytes(b []byte) any {
	if !n.isDecimal() {
		return textOrBytes(b)
	}
	// Two's complement, the highest byte first.
	v := new(big.Int).SetBytes(b)
	if len(b) > 0 && b[0]&0x80 != 0 {
		v.Sub(v, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
	}
	return n.decimal(v)
}

func (n *node) isDecimal() bool { return n.converted == 5 || n.logical.has(5) }

// decimal writes a number with its scale as text, so that nothing is rounded.
func (n *node) decimal(v *big.Int) string {
	if n.scale <= 0 || n.scale > 1000 {
		return v.String()
	}
	digits := new(big.Int).Abs(v).String()
	for len(digits) <= n.scale {
		digits = "0" + digits
	}
	sign := ""
	if v.Sign() < 0 {
		sign = "-"
	}
	return sign + digits[:len(digits)-n.scale] + "." + digits[len(digits)-n.scale:]
}

// integer is a number, or what its annotation makes of it.
func (n *node) integer(v int64) any {
	switch {
	case n.isDecimal():
		return n.decimal(big.NewInt(v))
	case n.converted == 6 || n.logical.has(6): // a date
		return time.Unix(v*86400, 0).UTC().Format(time.DateOnly)
	case n.converted == 9:
		return time.UnixMilli(v).UTC().Format(time.RFC3339Nano)
	case n.converted == 10:
		return time.UnixMicro(v).UTC().Format(time.RFC3339Nano)
	case n.logical.has(8): // a timestamp of some unit
		switch unit := n.logical.at(8).at(2); {
		case unit.has(1):
			return time.UnixMilli(v).UTC().Format(time.RFC3339Nano)
		case unit.has(2):
			return time.UnixMicro(v).UTC().Format(time.RFC3339Nano)
		}
		return time.Unix(0, v).UTC().Format(time.RFC3339Nano)
	case n.converted == 14 || n.logical.has(10) && n.logical.at(10).numberOr(2, 1) == 0 && n.physical == typeInt64:
		return uint64(v)
	case n.converted >= 11 && n.converted <= 13:
		return int64(uint32(v))
	}
	return v
}

// delta reads numbers as differences, packed in blocks.
func delta(data []byte, n int) (out []int64, used int, err error) {
	d := &deltaReader{data: data}
	block, minis, total := d.varint(), d.varint(), d.varint()
	first := d.zigzag()
	if d.bad || minis == 0 || minis > 1<<16 || block == 0 || block > 1<<20 || block%minis != 0 || block/minis%8 != 0 || total > uint64(maxValues) || int(total) < n {
		return nil, 0, errThrift
	}
	if total == 0 {
		return nil, d.at, nil
	}
	out = append(make([]int64, 0, min(int(total), 1<<16)), first)
	last := first
	for len(out) < int(total) {
		smallest := d.zigzag()
		widths := d.take(int(minis))
		for i := 0; i < len(widths) && len(out) < int(total); i++ {
			width, per := int(widths[i]), int(block/minis)
			if width > 64 {
				return nil, 0, errThrift
			}
			packed := d.take(per * width / 8)
			for j := 0; j < per && len(out) < int(total) && !d.bad; j++ {
				last += smallest + int64(bitsAt(packed, j*width, width))
				out = append(out, last)
			}
		}
		if d.bad {
			return nil, 0, errThrift
		}
	}
	return out[:max(n, 0)], d.at, nil
}

// A deltaReader remembers that something was missing.
type deltaReader struct {
	data []byte
	at   int
	bad  bool
}

func (d *deltaReader) varint() uint64 {
	v, n := binary.Uvarint(d.data[min(d.at, len(d.data)):])
	if n <= 0 {
		d.bad = true
		return 0
	}
	d.at += n
	return v
}

func (d *deltaReader) zigzag() int64 {
	v := d.varint()
	return int64(v>>1) ^ -int64(v&1)
}

func (d *deltaReader) take(n int) []byte {
	if n < 0 || d.at+n > len(d.data) {
		d.bad = true
		return nil
	}
	d.at += n
	return d.data[d.at-n : d.at]
}

// deltaParts reads byte arrays whose lengths come first.
func deltaParts(data []byte, n int) ([][]byte, error) {
	lengths, used, err := delta(data, n)
	if err != nil {
		return nil, err
	}
	data = data[used:]
	out := make([][]byte, n)
	for i, size := range lengths {
		if size < 0 || size > int64(len(data)) {
			return nil, errThrift
		}
		out[i], data = data[:size], data[size:]
	}
	return out, nil
}

// deltaStrings reads byte arrays that share beginnings with the one before.
func deltaStrings(data []byte, n int) ([][]byte, error) {
	prefixes, used, err := delta(data, n)
	if err != nil {
		return nil, err
	}
	suffixes, err := deltaParts(data[used:], n)
	if err != nil {
		return nil, err
	}
	out := make([][]byte, n)
	var last []byte
	total := 0
	for i := range n {
		if prefixes[i] < 0 || prefixes[i] > int64(len(last)) {
			return nil, errThrift
		}
		if total += int(prefixes[i]) + len(suffixes[i]); total > maxUnpacked {
			return nil, fmt.Errorf("its texts have more than %d bytes", maxUnpacked)
		}
		last = append(bytes.Clone(last[:prefixes[i]]), suffixes[i]...)
		out[i] = last
	}
	return out, nil
}
