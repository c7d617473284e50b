package audit

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"tallystick/internal/record/refusal"
)

// maxRecord bounds a line, and a record that stands in a JSON document: a
// hostile file must not exhaust memory.
const maxRecord = 64 << 20

// readBuffer is how much is read at once, and how far a file is looked into to
// see what it is.
const readBuffer = 1 << 20

// A lineReader reads a file of JSON lines.
type lineReader struct {
	name string
	src  *bufio.Reader
	line int
	max  int
}

// newLineReader refuses what is not UTF-8 text at its first bytes, where a wrong
// encoding shows, before the parser reports a syntax error in the middle.
func newLineReader(name string, src io.Reader) (*lineReader, error) {
	r := &lineReader{name: name, src: bufio.NewReaderSize(src, readBuffer), max: maxRecord}
	first, err := r.src.Peek(4)
	if err != nil && err != io.EOF {
		return nil, refusal.Newf(refusal.Unreadable, "%s: %w", name, err)
	}
	return r, wrongEncoding(name, first)
}

// wrongEncoding tells the byte order marks, and ASCII in 16 or 32 bits.
func wrongEncoding(name string, first []byte) error {
	as := ""
	switch {
	case bytes.HasPrefix(first, []byte{0xef, 0xbb, 0xbf}):
		return refusal.Newf(refusal.Malformed, "%s: begins with a byte order mark, expected plain UTF-8", name).WithHint("save it without the mark (EF BB BF)")
	case bytes.HasPrefix(first, []byte{0xff, 0xfe}), len(first) >= 2 && first[0] != 0 && first[1] == 0:
		as = "little-endian"
	case bytes.HasPrefix(first, []byte{0xfe, 0xff}), len(first) >= 2 && first[0] == 0:
		as = "big-endian"
	default:
		return nil
	}
	return refusal.Newf(refusal.Malformed, "%s: is UTF-16 or UTF-32 (%s), expected UTF-8", name, as).WithHint("convert it, as with iconv -f UTF-16 -t UTF-8")
}

// next returns the next line that is not blank, which is the caller's to keep, or
// io.EOF.
func (r *lineReader) next() ([]byte, error) {
	for {
		line, err := r.read()
		if err != nil {
			return nil, err
		}
		if len(bytes.TrimSpace(line)) > 0 {
			return line, nil
		}
	}
}

func (r *lineReader) read() ([]byte, error) {
	var line []byte
	r.line++
	for {
		piece, err := r.src.ReadSlice('\n')
		if len(line)+len(piece) > r.max+1 {
			return nil, refusal.Newf(refusal.TooLarge, "%s: a line of more than %d bytes, expected at most that", r.place(), r.max).
				WithHint("record heads and digests of long texts, not the texts")
		}
		line = append(line, piece...)
		switch {
		case err == nil:
			return line, nil
		case errors.Is(err, bufio.ErrBufferFull):
		case err == io.EOF && len(line) > 0:
			return line, nil
		case err == io.EOF:
			return nil, io.EOF
		default:
			return nil, refusal.Newf(refusal.Unreadable, "%s: %w", r.place(), err)
		}
	}
}

func (r *lineReader) place() string { return placeOf(r.name, r.line) }

func placeOf(name string, line int) string { return fmt.Sprintf("%s: line %d", name, line) }

// refuseJSON says what is wrong with a record. A number that is not one and a
// file that was cut off are common enough to be called by their names.
func refuseJSON(place string, data []byte, err error) error {
	var named *refusal.Error
	if errors.As(err, &named) {
		return err
	}
	out := refusal.Newf(refusal.Malformed, "%s: %w", place, err)
	var syntax *jsontext.SyntacticError
	at := len(data)
	if errors.As(err, &syntax) {
		at = int(min(syntax.ByteOffset, int64(len(data))))
	}
	rest := data[at:]
	for _, word := range []string{"NaN", "Infinity", "-Infinity"} {
		if bytes.HasPrefix(rest, []byte(word)) {
			return refusal.Newf(refusal.Malformed, "%s: byte %d is %s, which is not a JSON number", place, at, word).WithHint("write null for a number that is not known")
		}
	}
	if !utf8.Valid(data) {
		return out.WithHint("the file is not UTF-8; convert it first")
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return out.WithHint("the record ends in the middle: the file was cut off; get the whole file")
	}
	return out
}

// A document is a JSON text with records in it: a list of them, or an object
// whose member "results" is one. The elements are read one after the other.
type document struct {
	name string
	dec  *jsontext.Decoder
	left *allowance
}

// An allowance is a reader that stops a value from growing beyond maxRecord.
type allowance struct {
	src  io.Reader
	left int64
}

func (a *allowance) Read(p []byte) (int, error) {
	if a.left <= 0 {
		return 0, refusal.Newf(refusal.TooLarge, "a record of more than %d bytes, expected at most that", maxRecord)
	}
	n, err := a.src.Read(p[:min(len(p), int(min(a.left, 1<<30)))])
	a.left -= int64(n)
	return n, err
}

func newDocument(name string, src io.Reader) *document {
	a := &allowance{src: src, left: maxRecord + readBuffer}
	return &document{name, jsontext.NewDecoder(a), a}
}

// fail gives an error its place.
func (d *document) fail(err error) error {
	var named *refusal.Error
	if errors.As(err, &named) {
		return refusal.Newf(named.Name, "%s: byte %d: %w", d.name, d.dec.InputOffset(), named)
	}
	return refuseJSON(d.name, nil, err)
}

// records visits every record, with its place. header gets the other members of
// an object that has results, which are small.
func (d *document) records(header func(name string, value jsontext.Value) error, visit func(place string, value jsontext.Value) error) error {
	switch d.dec.PeekKind() {
	case '[':
		return d.list("", visit)
	case '{':
	default:
		_, err := d.dec.ReadToken()
		if err == nil {
			err = errors.New("expected a list or an object")
		}
		return d.fail(err)
	}
	d.dec.ReadToken()
	for d.dec.PeekKind() == '"' {
		tok, err := d.dec.ReadToken()
		if err != nil {
			return d.fail(err)
		}
		name := tok.String()
		if name == "results" && d.dec.PeekKind() == '[' {
			if err := d.list("results", visit); err != nil {
				return err
			}
			continue
		}
		d.left.left = maxRecord + readBuffer
		value, err := d.dec.ReadValue()
		if err != nil {
			return d.fail(err)
		}
		if err := header(name, value); err != nil {
			return err
		}
	}
	if _, err := d.dec.ReadToken(); err != nil {
		return d.fail(err)
	}
	return d.end()
}

func (d *document) list(at string, visit func(place string, value jsontext.Value) error) error {
	d.dec.ReadToken()
	for i := 0; d.dec.PeekKind() != ']'; i++ {
		d.left.left = maxRecord + readBuffer
		value, err := d.dec.ReadValue()
		if err != nil {
			return d.fail(err)
		}
		if err := visit(fmt.Sprintf("%s: %s[%d]", d.name, at, i), value); err != nil {
			return err
		}
	}
	if _, err := d.dec.ReadToken(); err != nil {
		return d.fail(err)
	}
	if at == "" {
		return d.end()
	}
	return nil
}

func (d *document) end() error {
	if _, err := d.dec.ReadToken(); err != io.EOF {
		if err == nil {
			err = errors.New("text after the end of the document")
		}
		return d.fail(err)
	}
	return nil
}

// isDocument looks at the beginning of a file: a list, an object with a member
// "results", or an object that goes over several lines. Everything else is a
// file of JSON lines.
func isDocument(head []byte) bool {
	head = bytes.TrimLeft(head, " \t\r\n")
	if len(head) == 0 || head[0] == '[' {
		return len(head) > 0
	}
	line, _, whole := bytes.Cut(head, []byte("\n"))
	dec := jsontext.NewDecoder(bytes.NewReader(head))
	if tok, err := dec.ReadToken(); err != nil || tok.Kind() != '{' {
		return false
	}
	for dec.PeekKind() == '"' {
		tok, err := dec.ReadToken()
		if err != nil {
			return false
		}
		if tok.String() == "results" && dec.PeekKind() == '[' {
			return true
		}
		if dec.SkipValue() != nil {
			break
		}
	}
	return whole && dec.InputOffset() > int64(len(line))
}
