package survey

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// A scanner finds the strings of JSON. It is no parser: what it reads is evidence, whose
// name is the hash of its bytes and which a strict parser read when it was written, and
// reading all of an attempt must not take long. Of other bytes it finds some strings or
// none.
type scanner struct {
	data    []byte
	name    []byte
	scratch []byte
}

// next gives the next string that is a value. Names are kept for the values after them.
func (s *scanner) next() (name, text []byte, ok bool) {
	for {
		i := bytes.IndexByte(s.data, '"')
		if i < 0 {
			s.data = nil
			return nil, nil, false
		}
		s.data = s.data[i+1:]
		text, escaped, found := s.string()
		if !found {
			s.data = nil
			return nil, nil, false
		}
		if len(s.data) > 0 && s.data[0] == ':' {
			s.name = text
			continue
		}
		if escaped {
			s.scratch = unescape(s.scratch[:0], text)
			text = s.scratch
		}
		return s.name, text, true
	}
}

// string is what stands before the next quote that is not escaped.
func (s *scanner) string() (text []byte, escaped, ok bool) {
	for at := 0; ; {
		i := bytes.IndexByte(s.data[at:], '"')
		if i < 0 {
			return nil, false, false
		}
		at += i
		slashes := 0
		for slashes < at && s.data[at-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			text, s.data = s.data[:at], s.data[at+1:]
			return text, bytes.IndexByte(text, '\\') >= 0, true
		}
		at++
	}
}

// unescape appends what a JSON string means.
func unescape(out, text []byte) []byte {
	for len(text) > 0 {
		i := bytes.IndexByte(text, '\\')
		if i < 0 || i+1 >= len(text) {
			return append(out, text...)
		}
		out = append(out, text[:i]...)
		c := text[i+1]
		text = text[i+2:]
		switch c {
		case 'n', 'r', 't', 'b', 'f':
			out = append(out, ' ')
		case 'u':
			var r rune
			if r, text = unit(text); utf16.IsSurrogate(r) && bytes.HasPrefix(text, []byte(`\u`)) {
				var low rune
				low, text = unit(text[2:])
				r = utf16.DecodeRune(r, low)
			}
			out = utf8.AppendRune(out, r)
		default:
			out = append(out, c)
		}
	}
	return out
}

// unit reads four hexadecimal digits.
func unit(text []byte) (rune, []byte) {
	var r rune
	for i := range 4 {
		if i >= len(text) {
			return utf8.RuneError, nil
		}
		c := text[i]
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return utf8.RuneError, text[i:]
		}
		r = r<<4 | rune(c)
	}
	return r, text[4:]
}
