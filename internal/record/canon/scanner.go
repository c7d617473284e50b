package canon

import (
	"bytes"
	"fmt"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"tallystick/internal/record/refusal"
)

// A scanner reads one JSON text from its first byte to its last and never
// goes back. It refuses what no spelling may contain and, at the same time,
// notes the first place where the spelling is not canonical.
//
// It does not look for duplicate names, except that a canonical text has none
// because its names ascend. For any other spelling the library that reads the
// text next refuses them.
type scanner struct {
	data []byte
	pos  int

	// Of a text that is JSON but not canonical, the first such place.
	deviated   bool
	deviatedAt int
	found      string
	wanted     string

	hasNull bool
}

func (s *scanner) isCanonical() bool { return !s.deviated }

// deviate notes a place that is not canonical. Only the first one counts.
func (s *scanner) deviate(at int, found, wanted string) {
	if !s.deviated {
		s.deviated, s.deviatedAt, s.found, s.wanted = true, at, found, wanted
	}
}

// refuseSpelling returns nil for a canonical text.
func (s *scanner) refuseSpelling() error {
	if !s.deviated {
		return nil
	}
	return refusal.Newf(refusal.Malformed, "JSON is not canonical: at byte %d: found %s, expected %s",
		s.deviatedAt, s.found, s.wanted).
		WithHint("a hash covers one spelling only: restore the bytes as they were written, or canonicalise before hashing")
}

func (s *scanner) refuse(at int, found, expected string) error {
	return refusal.Newf(refusal.Malformed, "reading JSON: %w", &placed{int64(at), "", fmt.Errorf("found %s, expected %s", found, expected)}).
		WithHint("correct the document at that place; docs/formats/canonical-json.md states what is accepted")
}

// scan reads the whole text. After an error nothing else of s is meaningful.
func (s *scanner) scan() error {
	if bytes.HasPrefix(s.data, []byte("\xef\xbb\xbf")) {
		return s.refuse(0, "a byte order mark", "a JSON value")
	}
	s.space()
	if err := s.value(0); err != nil {
		return err
	}
	s.space()
	if s.pos < len(s.data) {
		return s.refuse(s.pos, s.here(), "the end of the text")
	}
	return nil
}

// here describes the byte at the current position for a message.
func (s *scanner) here() string {
	if s.pos >= len(s.data) {
		return "the end of the text"
	}
	return describeByte(s.data[s.pos])
}

func describeByte(c byte) string {
	if c >= 0x20 && c < 0x7f {
		return fmt.Sprintf("%q", c)
	}
	return fmt.Sprintf("byte 0x%02x", c)
}

// peek returns the byte at the current position, 0 at the end. A real zero
// byte is legal nowhere outside a string, so the two need not be told apart.
func (s *scanner) peek() byte {
	if s.pos < len(s.data) {
		return s.data[s.pos]
	}
	return 0
}

func (s *scanner) space() {
	start := s.pos
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
			continue
		}
		break
	}
	if s.pos > start {
		s.deviate(start, "white space", "none outside strings")
	}
}

// value reads one value; depth containers are open around it.
func (s *scanner) value(depth int) error {
	switch c := s.peek(); {
	case c == '"':
		_, err := s.quoted()
		return err
	case c == '-' || '0' <= c && c <= '9':
		return s.number()
	case c == '{' || c == '[':
		if depth == MaxDepth {
			return s.refuse(s.pos, fmt.Sprintf("nesting of %d levels", depth+1), fmt.Sprintf("at most %d", MaxDepth))
		}
		if c == '{' {
			return s.object(depth + 1)
		}
		return s.array(depth + 1)
	case c == 't':
		return s.literal("true")
	case c == 'f':
		return s.literal("false")
	case c == 'n':
		s.hasNull = true
		return s.literal("null")
	}
	return s.refuse(s.pos, s.here(), "a JSON value")
}

func (s *scanner) literal(word string) error {
	for i := range len(word) {
		if s.peek() != word[i] {
			return s.refuse(s.pos, s.here(), fmt.Sprintf("%q of %s", word[i], word))
		}
		s.pos++
	}
	return nil
}

func (s *scanner) array(depth int) error {
	s.pos++ // the opening bracket
	s.space()
	if s.peek() == ']' {
		s.pos++
		return nil
	}
	for {
		if err := s.value(depth); err != nil {
			return err
		}
		s.space()
		switch s.peek() {
		case ',':
			s.pos++
			s.space()
		case ']':
			s.pos++
			return nil
		default:
			return s.refuse(s.pos, s.here(), "',' or ']' after an array element")
		}
	}
}

func (s *scanner) object(depth int) error {
	s.pos++ // the opening brace
	s.space()
	if s.peek() == '}' {
		s.pos++
		return nil
	}
	var previous []byte
	for first := true; ; first = false {
		if s.peek() != '"' {
			return s.refuse(s.pos, s.here(), "a member name in quotes")
		}
		at := s.pos
		name, err := s.quoted()
		if err != nil {
			return err
		}
		// A text that already deviated is not canonical whatever its names
		// are, so this comparison only ever sees canonical names.
		if !s.deviated && !first && compareNames(previous, name) >= 0 {
			s.deviate(at, fmt.Sprintf("name %.40q", name), fmt.Sprintf("a name that sorts after %.40q", previous))
		}
		previous = name

		s.space()
		if s.peek() != ':' {
			return s.refuse(s.pos, s.here(), "':' after a member name")
		}
		s.pos++
		s.space()
		if err := s.value(depth); err != nil {
			return err
		}
		s.space()
		switch s.peek() {
		case ',':
			s.pos++
			s.space()
		case '}':
			s.pos++
			return nil
		default:
			return s.refuse(s.pos, s.here(), "',' or '}' after an object member")
		}
	}
}

// quoted reads a string and returns its text between the quotes, as spelled.
func (s *scanner) quoted() ([]byte, error) {
	s.pos++ // the opening quote
	start := s.pos
	for s.pos < len(s.data) {
		switch c := s.data[s.pos]; {
		case c == '"':
			text := s.data[start:s.pos]
			s.pos++
			return text, nil
		case c == '\\':
			if err := s.escape(); err != nil {
				return nil, err
			}
		case c < 0x20:
			return nil, s.refuse(s.pos, "control character "+describeByte(c), "an escape such as \\u001f inside a string")
		case c < utf8.RuneSelf:
			s.pos++
		default:
			r, size := utf8.DecodeRune(s.data[s.pos:])
			if r == utf8.RuneError && size == 1 {
				return nil, s.refuse(s.pos, s.here(), "valid UTF-8")
			}
			s.pos += size
		}
	}
	return nil, s.refuse(s.pos, "the end of the text", "'\"' to close the string")
}

// escape reads one escape sequence, or the two of a surrogate pair.
func (s *scanner) escape() error {
	at := s.pos
	s.pos++ // the backslash
	switch s.peek() {
	case '"', '\\', 'b', 'f', 'n', 'r', 't':
		s.pos++
		return nil
	case '/':
		s.pos++
		s.deviate(at, `\/`, "the plain character")
		return nil
	case 'u':
		return s.unicodeEscape(at)
	}
	return s.refuse(s.pos, s.here(), `one of "\/bfnrtu after a backslash`)
}

func (s *scanner) unicodeEscape(at int) error {
	r, err := s.hex4()
	if err != nil {
		return err
	}
	if utf16.IsSurrogate(r) {
		if s.peek() != '\\' || s.pos+1 >= len(s.data) || s.data[s.pos+1] != 'u' {
			return s.refuse(at, "a lone surrogate", "a pair of surrogates, high then low")
		}
		s.pos++ // the backslash
		low, err := s.hex4()
		if err != nil {
			return err
		}
		if utf16.DecodeRune(r, low) == utf8.RuneError {
			return s.refuse(at, "a lone surrogate", "a pair of surrogates, high then low")
		}
	}
	// RFC 8785, section 3.2.2.2: only control characters without a short
	// escape are written \u00xx, in lower case.
	canonical := r < 0x20 && r != '\b' && r != '\t' && r != '\n' && r != '\f' && r != '\r' &&
		s.data[s.pos-1] == "0123456789abcdef"[r&0xf]
	if !canonical {
		s.deviate(at, string(s.data[at:s.pos]), "the plain character or its short escape")
	}
	return nil
}

// hex4 reads the u and four hexadecimal digits of an escape.
func (s *scanner) hex4() (rune, error) {
	s.pos++ // the u
	var r rune
	for range 4 {
		c := s.peek()
		switch {
		case '0' <= c && c <= '9':
			r = r<<4 | rune(c-'0')
		case 'a' <= c && c <= 'f':
			r = r<<4 | rune(c-'a'+10)
		case 'A' <= c && c <= 'F':
			r = r<<4 | rune(c-'A'+10)
		default:
			return 0, s.refuse(s.pos, s.here(), `four hexadecimal digits after \u`)
		}
		s.pos++
	}
	return r, nil
}

// compareNames orders two canonically spelled names by their UTF-16 code
// units, as RFC 8785 section 3.2.3 asks.
func compareNames(a, b []byte) int {
	if bytes.IndexByte(a, '\\') >= 0 {
		a = unescape(a)
	}
	if bytes.IndexByte(b, '\\') >= 0 {
		b = unescape(b)
	}
	n := min(len(a), len(b))
	i := 0
	for i < n && a[i] == b[i] {
		i++
	}
	if i == n {
		return len(a) - len(b)
	}
	x, y := a[i], b[i]
	// The bytes of UTF-8 sort like UTF-16 except that surrogates (characters
	// from U+10000, first byte from 0xf0) sort before U+E000 to U+FFFF (first
	// byte 0xee or 0xef). Both bytes are first bytes of a character here, or
	// neither is: what comes before them is equal.
	if x >= 0xee && y >= 0xee && (x >= 0xf0) != (y >= 0xf0) {
		return int(y) - int(x)
	}
	return int(x) - int(y)
}

// unescape returns the characters that canonical spelling of a name stands for.
func unescape(spelled []byte) []byte {
	quoted := make([]byte, 0, len(spelled)+2)
	quoted = append(append(append(quoted, '"'), spelled...), '"')
	text, err := jsontext.AppendUnquote(nil, quoted)
	if err != nil {
		panic("canon: the scanner accepted a name that does not unquote: " + err.Error())
	}
	return text
}
