package jsonstream

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"io"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// String reads a string. Null reads as no text.
func (r *Reader) String() (string, error) {
	k, err := r.Peek()
	switch {
	case err != nil:
		return "", err
	case k == Null:
		return "", r.Skip()
	case k != Text:
		return "", r.refuse("found %s, expected a string", r.describe())
	}
	return r.text(MaxText)
}

// Scalar reads a string, number or bool as text, since ids are any of them.
// Null reads as no text, and other values are skipped and read as no text.
func (r *Reader) Scalar() (string, error) {
	k, err := r.Peek()
	if err != nil {
		return "", err
	}
	switch k {
	case Text:
		return r.text(MaxText)
	case Digits:
		n, err := r.Number()
		return string(n), err
	case Bool:
		b, err := r.Bool()
		return fmt.Sprint(b), err
	}
	return "", r.Skip()
}

// Bool reads true or false.
func (r *Reader) Bool() (bool, error) {
	k, err := r.Peek()
	if err != nil {
		return false, err
	}
	if k != Bool {
		return false, r.refuse("found %s, expected true or false", r.describe())
	}
	word, err := r.literal()
	return word == "true", err
}

// Number reads a number.
func (r *Reader) Number() (Number, error) {
	k, err := r.Peek()
	if err != nil {
		return "", err
	}
	if k != Digits {
		return "", r.refuse("found %s, expected a number", r.describe())
	}
	spelled, err := r.number()
	return Number(spelled), err
}

func (r *Reader) describe() string {
	switch kindOf(r.buf[r.pos]) {
	case Object:
		return "an object"
	case Array:
		return "a list"
	case Text:
		return "a string"
	case Digits:
		return "a number"
	case Bool:
		return "true or false"
	}
	return "null"
}

// A Digest is the identity of a text that is too long to keep, and its
// beginning.
type Digest struct {
	Head   string
	SHA256 [32]byte
	Bytes  int64
}

// Digest reads a value of any length and keeps its digest and at most head
// bytes of its beginning. A string stands for its text; any other value for its
// JSON without white space between tokens.
func (r *Reader) Digest(head int) (Digest, error) {
	k, err := r.Peek()
	if err != nil {
		return Digest{}, err
	}
	s := &r.digester // one for all, since a log has millions of texts
	s.reset(head)
	if k == Text {
		r.pos++
		err = r.unquote(s.add)
	} else {
		err = r.walk(s.add)
	}
	return s.digest(), err
}

// DigestOf is the [Digest] of a text that is in memory.
func DigestOf(text string, head int) Digest {
	s := &digester{}
	s.reset(head)
	_ = s.add([]byte(text)) // hashing does not fail
	return s.digest()
}

type digester struct {
	hash hash.Hash
	head []byte
	most int
	n    int64
}

func (s *digester) reset(head int) {
	if s.hash == nil {
		s.hash = sha256.New()
	}
	s.hash.Reset()
	s.head, s.most, s.n = s.head[:0], head, 0
}

func (s *digester) add(b []byte) error {
	s.hash.Write(b)
	s.n += int64(len(b))
	if room := s.most - len(s.head); room > 0 {
		s.head = append(s.head, b[:min(room, len(b))]...)
	}
	return nil
}

func (s *digester) digest() Digest {
	d := Digest{Bytes: s.n}
	s.hash.Sum(d.SHA256[:0])
	head := s.head
	// The head is cut between characters, never within one.
	for len(head) > 0 && !utf8.Valid(head) {
		head = head[:len(head)-1]
	}
	d.Head = string(head)
	return d
}

// Any reads a value as map[string]any, []any, string, [Number], bool or nil. A
// value of more than most bytes of text and tokens is refused.
func (r *Reader) Any(most int) (any, error) {
	return r.any(&most)
}

func (r *Reader) any(left *int) (any, error) {
	if *left -= 8; *left < 0 {
		return nil, r.tooLarge("a value that must be read whole is longer than is accepted")
	}
	k, err := r.Peek()
	if err != nil {
		return nil, err
	}
	switch k {
	case Text:
		s, err := r.text(*left)
		*left -= len(s)
		return s, err
	case Digits:
		return r.Number()
	case Bool:
		return r.Bool()
	case Object:
		m := map[string]any{}
		err := r.Object(func(name string) (err error) {
			*left -= len(name) + 16
			m[name], err = r.any(left)
			return err
		})
		return m, err
	case Array:
		var list []any
		err := r.Array(func(int) error {
			v, err := r.any(left)
			list = append(list, v)
			return err
		})
		return list, err
	}
	return nil, r.Skip()
}

// Skip passes over the next value, and checks its grammar.
func (r *Reader) Skip() error { return r.walk(nil) }

// End refuses anything but white space.
func (r *Reader) End() error {
	k, err := r.Peek()
	if err == nil && k != None {
		err = r.refuse("found %s after the end of the value, expected nothing", r.describe())
	}
	return err
}

// literal passes over true, false or null and returns it.
func (r *Reader) literal() (string, error) {
	word := "null"
	switch r.buf[r.pos] {
	case 't':
		word = "true"
	case 'f':
		word = "false"
	}
	for r.end-r.pos < len(word) && r.fill() {
	}
	if found := r.buf[r.pos:r.end]; !bytes.HasPrefix(found, []byte(word)) {
		return "", r.refuse("found %q, expected %s", found[:min(len(found), len(word))], word)
	}
	r.pos += len(word)
	return word, nil
}

// number passes over a number and returns its spelling.
func (r *Reader) number() ([]byte, error) {
	n := 0
	for {
		for r.pos+n < r.end && isNumberByte[r.buf[r.pos+n]] {
			n++
		}
		if n > maxNumber {
			return nil, r.refuse("a number has more than %d digits", maxNumber)
		}
		if r.pos+n < r.end || !r.fill() {
			break
		}
	}
	spelled := r.buf[r.pos : r.pos+n]
	if !validNumber(spelled) {
		return nil, r.refuse("found %.40q, expected a number", spelled)
	}
	r.pos += n
	return spelled, nil
}

// text reads a string of at most most bytes; the opening quote comes next.
func (r *Reader) text(most int) (string, error) {
	r.pos++
	// Most strings lie whole in the buffer and have no escape.
	if n := plainPrefix(r.buf[r.pos:r.end]); r.pos+n < r.end && r.buf[r.pos+n] == '"' && n <= most {
		s := string(r.buf[r.pos : r.pos+n])
		r.pos += n + 1
		return s, nil
	}
	var out []byte
	err := r.unquote(func(b []byte) error {
		if len(out)+len(b) > most {
			return r.tooLarge("a string that must be read whole has more than %d bytes", most)
		}
		out = append(out, b...)
		return nil
	})
	return string(out), err
}

// plainPrefix is how many bytes at the start of b are ASCII and stand for
// themselves in a string. Almost all bytes of a log lie in strings, so it looks
// at eight at once: in each term below, the lowest byte whose top bit is set is
// the first one that the term is about.
func plainPrefix(b []byte) int {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	n := 0
	for ; len(b)-n >= 8; n += 8 {
		x := binary.LittleEndian.Uint64(b[n:])
		quote, slash := x^('"'*ones), x^('\\'*ones)
		found := (x | (quote-ones)&^quote | (slash-ones)&^slash | (x-' '*ones)&^x) & tops
		if found != 0 {
			return n + bits.TrailingZeros64(found)/8
		}
	}
	for n < len(b) && !special[b[n]] {
		n++
	}
	return n
}

// special are the bytes of a string that need a look: its end, an escape, a
// control character, everything beyond ASCII.
var special = func() (t [256]bool) {
	for c := range t {
		t[c] = c < 0x20 || c == '"' || c == '\\' || c >= utf8.RuneSelf
	}
	return t
}()

// unquote gives the text of a string in pieces; the opening quote is used up.
func (r *Reader) unquote(sink func([]byte) error) error {
	for {
		if r.pos == r.end && !r.fill() {
			return r.ended("the end of a string")
		}
		n := plainPrefix(r.buf[r.pos:r.end])
		if n > 0 {
			if err := sink(r.buf[r.pos : r.pos+n]); err != nil {
				return err
			}
			r.pos += n
			continue
		}
		switch c := r.buf[r.pos]; {
		case c == '"':
			r.pos++
			return nil
		case c == '\\':
			if err := r.escape(sink); err != nil {
				return err
			}
		case c < 0x20:
			return r.refuse("found the control character 0x%02x in a string, expected an escape", c)
		default:
			size, err := r.rune()
			if err != nil {
				return err
			}
			if err := sink(r.buf[r.pos : r.pos+size]); err != nil {
				return err
			}
			r.pos += size
		}
	}
}

// rune returns the length of the character beyond ASCII that comes next.
func (r *Reader) rune() (int, error) {
	for !utf8.FullRune(r.buf[r.pos:r.end]) && r.fill() {
	}
	c, size := utf8.DecodeRune(r.buf[r.pos:r.end])
	if c == utf8.RuneError && size <= 1 {
		return 0, r.refuse("found the byte 0x%02x, which is not UTF-8", r.buf[r.pos]).WithHint("the file is in another encoding, or damaged; results are read in UTF-8")
	}
	return size, nil
}

func (r *Reader) escape(sink func([]byte) error) error {
	for r.end-r.pos < 12 && r.fill() {
	}
	b := r.buf[r.pos:r.end]
	if len(b) < 2 {
		r.pos = r.end
		return r.ended("the rest of an escape")
	}
	if plain := escapes[b[1]]; plain != 0 {
		r.pos += 2
		return sink([]byte{plain})
	}
	c, ok := hexRune(b)
	if !ok {
		return r.refuse("found the escape %.6q, expected one of JSON's", b)
	}
	used := 6
	if utf16.IsSurrogate(c) {
		low, ok := hexRune(b[6:])
		if both := utf16.DecodeRune(c, low); ok && both != utf8.RuneError {
			c, used = both, 12
		} else {
			c = utf8.RuneError
		}
	}
	r.pos += used
	return sink(utf8.AppendRune(nil, c))
}

var escapes = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// hexRune reads \uXXXX at the start of b.
func hexRune(b []byte) (rune, bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	var c rune
	for _, d := range b[2:6] {
		switch {
		case '0' <= d && d <= '9':
			d -= '0'
		case 'a' <= d && d <= 'f':
			d -= 'a' - 10
		case 'A' <= d && d <= 'F':
			d -= 'A' - 10
		default:
			return 0, false
		}
		c = c<<4 | rune(d)
	}
	return c, true
}

// Copy is a reader that hashes all that is read through it, and can be drained
// so that the digest covers the whole file.
type Copy struct {
	src  io.Reader
	hash hash.Hash
	n    int64
}

// NewCopy returns a [Copy] of src.
func NewCopy(src io.Reader) *Copy { return &Copy{src: src, hash: sha256.New()} }

// Read reads, hashes and counts.
func (c *Copy) Read(p []byte) (int, error) {
	n, err := c.src.Read(p)
	c.hash.Write(p[:n])
	c.n += int64(n)
	return n, err
}

// Sum reads what is left and returns the SHA-256 and the length of everything.
func (c *Copy) Sum() (sum [32]byte, n int64, err error) {
	if _, err := io.Copy(io.Discard, c); err != nil {
		return sum, c.n, err
	}
	c.hash.Sum(sum[:0])
	return sum, c.n, nil
}
