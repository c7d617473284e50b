package jsonstream

import (
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"unicode/utf8"

	"tallystick/internal/record/refusal"
)

// Bounds that keep a hostile file from exhausting memory.
const (
	bufferBytes = 256 << 10
	maxDepth    = 1000
	maxNumber   = 1000    // bytes of one number's spelling
	maxName     = 1 << 20 // bytes of one member's name
	maxMembers  = 1 << 20 // of an object, since its names are kept
	// MaxText is how long a string may be that is read whole.
	MaxText = 64 << 20
)

// A Kind is what a value begins with.
type Kind byte

// The kinds. None means that nothing but white space is left.
const (
	None   Kind = 0
	Object Kind = '{'
	Array  Kind = '['
	Text   Kind = '"'
	Digits Kind = '0' // NaN and Infinity too
	Bool   Kind = 't'
	Null   Kind = 'n'
)

// A Reader reads one or more JSON values.
type Reader struct {
	src io.Reader

	// buf[pos:end] is read and not used yet; buf[0] is byte number base.
	buf      []byte
	pos, end int
	base     int64
	srcErr   error

	newlines int64 // before what is read now; none stands in a string
	blank    int64 // newlines after it
	depth    int

	digester digester

	// Lenient leaves out the check for members that are there twice: for a look at what a
	// file is, whose reading then refuses them.
	Lenient bool

	stack   []container // by depth, of containers that are being skipped
	scratch []byte      // a name with escapes
	seed    maphash.Seed
}

// A container is an object or a list that is being skipped.
type container struct {
	isObject bool
	seen     names
}

// NewReader returns a reader of src. A byte order mark of UTF-8 at its start is
// passed over.
func NewReader(src io.Reader) (*Reader, error) {
	r := &Reader{buf: make([]byte, bufferBytes), seed: maphash.MakeSeed()}
	return r, r.Reset(src)
}

// Reset makes the reader one of src. An archive has a file for each of many
// thousand samples, and they share one buffer.
func (r *Reader) Reset(src io.Reader) error {
	r.src, r.srcErr = src, nil
	r.pos, r.end, r.base, r.newlines, r.blank, r.depth = 0, 0, 0, 0, 0, 0
	for r.end < 4 && r.fill() {
	}
	if r.srcErr != nil && r.srcErr != io.EOF {
		return r.readError()
	}
	head := r.buf[:r.end]
	switch {
	case bytes.HasPrefix(head, []byte("\xef\xbb\xbf")):
		r.pos = 3
	case bytes.HasPrefix(head, []byte("\xff\xfe")), bytes.HasPrefix(head, []byte("\xfe\xff")):
		return r.refuse("found UTF-16, expected UTF-8").WithHint("convert it: iconv -f UTF-16 -t UTF-8")
	}
	return nil
}

// Offset is the number of the next byte.
func (r *Reader) Offset() int64 { return r.base + int64(r.pos) }

// Line is the line that the reader is at, from 1: that of the next value after
// [Reader.Peek].
func (r *Reader) Line() int64 { return r.newlines + 1 }

// fill reads more behind what is there, and reports whether there was more.
// What lies before pos is dropped.
func (r *Reader) fill() bool {
	if r.srcErr != nil {
		return false
	}
	if r.pos > 0 {
		copy(r.buf, r.buf[r.pos:r.end])
		r.base += int64(r.pos)
		r.end -= r.pos
		r.pos = 0
	}
	if r.end == len(r.buf) {
		return true // full: the caller has something to work on
	}
	for tries := 0; tries < 100; tries++ {
		n, err := r.src.Read(r.buf[r.end:])
		r.end += n
		if err != nil {
			r.srcErr = err
		}
		if n > 0 || err != nil {
			return n > 0
		}
	}
	r.srcErr = io.ErrNoProgress
	return false
}

func (r *Reader) readError() error {
	var named *refusal.Error
	if errors.As(r.srcErr, &named) {
		return fmt.Errorf("%s: %w", r.place(), r.srcErr)
	}
	return refusal.Newf(refusal.Unreadable, "%s: reading: %w", r.place(), r.srcErr)
}

func (r *Reader) place() string {
	return fmt.Sprintf("line %d, byte %d", r.Line(), r.Offset())
}

// Refuse makes a refusal with the place in front.
func (r *Reader) Refuse(format string, args ...any) error { return r.refuse(format, args...) }

func (r *Reader) refuse(format string, args ...any) *refusal.Error {
	return refusal.Newf(refusal.Malformed, "%s: %s", r.place(), fmt.Sprintf(format, args...))
}

func (r *Reader) tooLarge(format string, args ...any) error {
	return refusal.Newf(refusal.TooLarge, "%s: %s", r.place(), fmt.Sprintf(format, args...))
}

// ended is the refusal where the file stops too early.
func (r *Reader) ended(expected string) error {
	if r.srcErr != nil && r.srcErr != io.EOF {
		return r.readError()
	}
	return r.refuse("the file ends here, expected %s", expected).WithHint("the file is cut off: fetch it again, or let its writer finish")
}

// next returns the next byte that is not white space without using it up; ok is
// false at the end.
func (r *Reader) next() (c byte, ok bool) {
	for {
		for r.pos < r.end {
			switch c := r.buf[r.pos]; c {
			case ' ', '\t', '\r':
			case '\n':
				r.blank++
			default:
				// At the end of a file the line is that of the last byte that counts.
				r.newlines, r.blank = r.newlines+r.blank, 0
				return c, true
			}
			r.pos++
		}
		if !r.fill() {
			return 0, false
		}
	}
}

// Peek says what the next value is. It is [None] at the end of the file.
func (r *Reader) Peek() (Kind, error) {
	c, ok := r.next()
	if !ok {
		if r.srcErr != io.EOF {
			return None, r.readError()
		}
		return None, nil
	}
	if k := kindOf(c); k != None {
		return k, nil
	}
	if c >= utf8.RuneSelf {
		return None, r.refuse("found the byte 0x%02x, expected JSON", c)
	}
	return None, r.refuse("found %q, expected a JSON value", c)
}

func kindOf(c byte) Kind {
	switch c {
	case '{', '[', '"':
		return Kind(c)
	case 't', 'f':
		return Bool
	case 'n':
		return Null
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'N', 'I':
		return Digits
	}
	return None
}

// want uses up the byte c.
func (r *Reader) want(c byte) error {
	found, ok := r.next()
	switch {
	case !ok:
		return r.ended(fmt.Sprintf("%q", c))
	case found != c:
		return r.refuse("found %q, expected %q", found, c)
	}
	r.pos++
	return nil
}

// enter and leave count how deep the caller is.
func (r *Reader) enter(open byte) error {
	if err := r.want(open); err != nil {
		return err
	}
	if r.depth++; r.depth > maxDepth {
		return r.refuse("values lie more than %d deep in one another", maxDepth)
	}
	return nil
}

func (r *Reader) leave() { r.depth-- }

// names are the members of one object so far, by a hash with a seed of this reader: a
// file cannot be made to have two names of one hash, and in an object of a million
// members the chance that two have is one in thirty million. Most objects have few.
type names struct {
	few  [12]uint64
	n    int
	many map[uint64]struct{}
}

func (s *names) reset() {
	s.n = 0
	clear(s.many)
}

// add reports whether name is new.
func (s *names) add(name uint64) bool {
	for _, known := range s.few[:s.n] {
		if known == name {
			return false
		}
	}
	if s.n < len(s.few) {
		s.few[s.n] = name
		s.n++
		return true
	}
	if _, known := s.many[name]; known {
		return false
	}
	if s.many == nil {
		s.many = map[uint64]struct{}{}
	}
	s.many[name] = struct{}{}
	return true
}

// count refuses a name that the object has already: two readers of the file would
// believe two values.
func (r *Reader) count(seen *names, name []byte) error {
	if r.Lenient {
		return nil
	}
	if !seen.add(maphash.Bytes(r.seed, name)) {
		return r.refuse("the member %.60q is there twice, expected once", name).
			WithHint("ask the maker of the file which of them holds: programs that read it disagree about that")
	}
	if len(seen.many) > maxMembers {
		return r.tooLarge("an object has more than %d members", maxMembers)
	}
	return nil
}

// Object walks over the members of an object. f may read the value of the
// member; one that it does not touch is skipped.
func (r *Reader) Object(f func(name string) error) error {
	if err := r.enter('{'); err != nil {
		return err
	}
	defer r.leave()
	var seen names
	for first := true; ; first = false {
		done, err := r.more('}', first)
		if done || err != nil {
			return err
		}
		name, err := r.name()
		if err != nil {
			return err
		}
		if err := r.count(&seen, []byte(name)); err != nil {
			return err
		}
		if err := r.want(':'); err != nil {
			return err
		}
		if err := r.visit(func() error { return f(name) }); err != nil {
			return err
		}
	}
}

// Array walks over the elements of a list. f may read the element; one that it
// does not touch is skipped.
func (r *Reader) Array(f func(i int) error) error {
	if err := r.enter('['); err != nil {
		return err
	}
	defer r.leave()
	for i := 0; ; i++ {
		done, err := r.more(']', i == 0)
		if done || err != nil {
			return err
		}
		if err := r.visit(func() error { return f(i) }); err != nil {
			return err
		}
	}
}

// more passes the comma before an element, or the end.
func (r *Reader) more(end byte, first bool) (done bool, err error) {
	c, ok := r.next()
	switch {
	case !ok:
		return false, r.ended(fmt.Sprintf("%q", end))
	case c == end:
		r.pos++
		return true, nil
	case first:
		return false, nil
	case c != ',':
		return false, r.refuse("found %q, expected ',' or %q", c, end)
	}
	r.pos++
	if c, ok := r.next(); ok && c == end {
		return false, r.refuse("found %q after a comma, expected a value", c)
	}
	return false, nil
}

// visit lets f read the next value, and skips it if f did not.
func (r *Reader) visit(f func() error) error {
	if _, err := r.Peek(); err != nil {
		return err
	}
	at, depth := r.Offset(), r.depth
	if err := f(); err != nil {
		return err
	}
	if r.Offset() == at && r.depth == depth {
		return r.Skip()
	}
	return nil
}

func (r *Reader) name() (string, error) {
	c, ok := r.next()
	switch {
	case !ok:
		return "", r.ended("a member's name")
	case c != '"':
		return "", r.refuse("found %q, expected a member's name in quotes", c)
	}
	return r.text(maxName)
}
