package cassette

import (
	"bytes"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/format"
	"tallystick/internal/run/wire"
)

// Limits bound what [Parse] accepts. A zero field means its default.
type Limits struct {
	MaxExpandedBytes int64 // of all lines together: 64 MiB
	MaxLineBytes     int   // of one line without its newline: 8 MiB
	MaxInteractions  int   // 100,000
}

func (l Limits) withDefaults() Limits {
	if l.MaxExpandedBytes == 0 {
		l.MaxExpandedBytes = 64 << 20
	}
	if l.MaxLineBytes == 0 {
		l.MaxLineBytes = 8 << 20
	}
	if l.MaxInteractions == 0 {
		l.MaxInteractions = 100_000
	}
	return l
}

// maxWindowBytes bounds the memory that a frame may ask of its reader before
// it shows a byte of content. RFC 8878 section 3.1.1.1.2 recommends that
// readers support this much.
const maxWindowBytes = 8 << 20

// windowBytes is what we write: enough to find a long prompt again in the
// next request, which repeats it.
const windowBytes = 4 << 20

// Digest names the bytes of a cassette file as a case pins them.
func Digest(file []byte) digest.Content { return digest.ContentOf(file) }

// Marshal returns the bytes of the file: [Cassette.Lines] in one zstd frame.
// Equal cassettes give equal bytes as long as the compression library does not
// change; readers depend on the lines alone.
func (c *Cassette) Marshal() ([]byte, error) {
	lines, err := c.Lines()
	if err != nil {
		return nil, err
	}
	// A fresh encoder has no history that could leak into the bytes. The
	// digest covers the file, so a checksum would say nothing new.
	enc, err := zstd.NewWriter(nil,
		zstd.WithEncoderLevel(zstd.SpeedDefault),
		zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderCRC(false),
		zstd.WithSingleSegment(false),
		zstd.WithWindowSize(windowBytes))
	if err != nil {
		return nil, fmt.Errorf("compressing the cassette: %w", err)
	}
	file := enc.EncodeAll(lines, nil)
	return file, enc.Close()
}

// Lines returns the expanded form: the header and each interaction as a line
// of canonical JSON.
func (c *Cassette) Lines() ([]byte, error) {
	if err := c.validate(Limits{}.withDefaults()); err != nil {
		return nil, err
	}
	line, err := canon.Marshal(&c.Header)
	if err != nil {
		return nil, fmt.Errorf("encoding the header: %w", err)
	}
	out := append(line, '\n')
	for i := range c.Interactions {
		if line, err = canon.Marshal(&c.Interactions[i]); err != nil {
			return nil, fmt.Errorf("encoding interaction %d: %w", i+1, err)
		}
		out = append(append(out, line...), '\n')
	}
	return out, nil
}

// Parse reads the bytes of a cassette file. Whatever is accepted is written
// again by [Cassette.Lines] with the same expanded bytes.
func Parse(file []byte, l Limits) (*Cassette, error) {
	lines, err := expand(file, l.withDefaults())
	if err != nil {
		return nil, fmt.Errorf("reading cassette: %w", err)
	}
	return ParseLines(lines, l)
}

// ParseLines is [Parse] for the expanded form.
func ParseLines(lines []byte, l Limits) (*Cassette, error) {
	l = l.withDefaults()
	c, err := parseLines(lines, l)
	if err == nil {
		err = c.validate(l)
	}
	if err != nil {
		return nil, fmt.Errorf("reading cassette: %w", err)
	}
	return c, nil
}

func parseLines(lines []byte, l Limits) (*Cassette, error) {
	if int64(len(lines)) > l.MaxExpandedBytes {
		return nil, tooLarge("%d bytes of lines, at most %d are accepted", len(lines), l.MaxExpandedBytes)
	}
	n := bytes.Count(lines, []byte{'\n'})
	if n-1 > l.MaxInteractions {
		return nil, tooLarge("%d interactions, at most %d are accepted", n-1, l.MaxInteractions)
	}
	if len(lines) == 0 || lines[len(lines)-1] != '\n' {
		return nil, malformed("the last line does not end in a newline")
	}

	c := &Cassette{}
	if n > 1 {
		c.Interactions = make([]Interaction, 0, n-1)
	}
	for number := 1; len(lines) > 0; number++ {
		line, rest, _ := bytes.Cut(lines, []byte{'\n'})
		lines = rest
		if len(line) > l.MaxLineBytes {
			return nil, tooLarge("line %d: %d bytes, at most %d are accepted", number, len(line), l.MaxLineBytes)
		}
		if number == 1 {
			if err := c.Header.parse(line); err != nil {
				return nil, fmt.Errorf("line 1: %w", err)
			}
			continue
		}
		var it Interaction
		if err := canon.UnmarshalCanonical(line, &it); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		c.Interactions = append(c.Interactions, it)
	}
	return c, nil
}

// parse looks at the format before anything else, since a newer one may
// have other fields.
func (h *Header) parse(line []byte) error {
	n, err := wire.ParseNode(line)
	if err != nil {
		return err
	}
	found := n.Str("format")
	if newer := format.NewerName("the cassette", found, Format); newer != nil {
		return newer
	}
	if found != Format {
		return malformed("this is not a cassette: found format %.60q, expected %s", found, Format)
	}
	return canon.UnmarshalCanonical(line, h)
}

// expand undoes the compression within the limits.
func expand(file []byte, l Limits) ([]byte, error) {
	if err := checkFrame(file, l.MaxExpandedBytes); err != nil {
		return nil, err
	}
	dec, err := zstd.NewReader(nil,
		zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(maxWindowBytes),
		zstd.WithDecoderMaxMemory(uint64(l.MaxExpandedBytes)))
	if err != nil {
		return nil, fmt.Errorf("setting up the decompressor: %w", err)
	}
	defer dec.Close()
	lines, err := dec.DecodeAll(file, nil)
	switch {
	case err == nil:
		return lines, nil
	case err == zstd.ErrDecoderSizeExceeded:
		return nil, tooLarge("the frame expands to more than %d bytes", l.MaxExpandedBytes)
	}
	return nil, malformed("decompressing: %v", err)
}

// NewExpander decompresses zstd frames as they are read, any number of them,
// with no larger window than [Parse] accepts. How much comes out is for the
// caller to bound.
func NewExpander(src io.Reader) io.ReadCloser {
	dec, err := zstd.NewReader(src,
		zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(maxWindowBytes))
	if err != nil { // only for options that contradict each other
		return io.NopCloser(failing{fmt.Errorf("setting up the decompressor: %w", err)})
	}
	return dec.IOReadCloser()
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// checkFrame walks over the blocks without expanding them (RFC 8878 section
// 3.1.1) and accepts exactly one frame: what stood before or after it would be
// covered by the digest and never read.
func checkFrame(file []byte, most int64) error {
	var h zstd.Header
	if err := h.Decode(file); err != nil {
		return malformed("this is not a zstd file: %v", err)
	}
	switch {
	case h.Skippable:
		return malformed("the file begins with a skippable frame, expected one frame of content")
	case h.DictionaryID != 0:
		return malformed("the frame needs the dictionary %d, expected none", h.DictionaryID)
	case !h.SingleSegment && h.WindowSize > maxWindowBytes:
		return tooLarge("the frame asks for a window of %d bytes, at most %d are accepted", h.WindowSize, maxWindowBytes)
	case h.HasFCS && h.FrameContentSize > uint64(most):
		return tooLarge("the frame expands to %d bytes, at most %d are accepted", h.FrameContentSize, most)
	}
	rest := file[h.HeaderSize:]
	for last := false; !last; {
		if len(rest) < 3 {
			return malformed("the frame is cut off")
		}
		header := uint32(rest[0]) | uint32(rest[1])<<8 | uint32(rest[2])<<16
		last = header&1 == 1
		size := int(header >> 3)
		if header>>1&3 == 1 { // one byte, repeated
			size = 1
		}
		if len(rest) < 3+size {
			return malformed("the frame is cut off")
		}
		rest = rest[3+size:]
	}
	if h.HasCheckSum {
		if len(rest) < 4 {
			return malformed("the frame is cut off")
		}
		rest = rest[4:]
	}
	if len(rest) > 0 {
		return malformed("%d bytes follow the zstd frame, expected none", len(rest))
	}
	return nil
}
