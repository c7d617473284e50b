package canon

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
)

// maxInteger is 2^53-1. Beyond it a double no longer tells neighbouring
// integers apart (RFC 7493, section 2.2).
const maxInteger = 1<<53 - 1

// number reads a number and refuses one that would change its value, or
// vanish, when read as a double:
//
//   - an integer beyond 2^53-1, whether spelled as one or about to be;
//   - a number beyond the largest double;
//   - a number that is not zero and becomes zero.
func (s *scanner) number() error {
	start := s.pos
	if s.peek() == '-' {
		s.pos++
	}
	digitsAt := s.pos
	if err := s.integerPart(); err != nil {
		return err
	}
	digits := s.pos - digitsAt
	plain, err := s.fractionAndExponent()
	if err != nil {
		return err
	}

	spelled := s.data[start:s.pos]
	if plain && digits <= 15 {
		if s.data[digitsAt] == '0' && digitsAt > start {
			s.deviate(start, "-0", "0")
		}
		return nil
	}
	if plain && digits > 16 {
		return s.refuseInteger(start, spelled)
	}
	f, err := strconv.ParseFloat(string(spelled), 64)
	if err != nil {
		return s.refuse(start, excerpt(spelled), "a number that a double can hold, at most 1.7976931348623157e+308 in magnitude")
	}
	// Doubles from 2^53 up to 1e21 are canonically spelled as integers, so a
	// writer of 1e20 writes an integer beyond the limit.
	if abs := math.Abs(f); abs > maxInteger && abs < 1e21 {
		return s.refuseInteger(start, spelled)
	}
	if f == 0 && bytes.ContainsAny(mantissa(spelled), "123456789") {
		return s.refuse(start, excerpt(spelled), "zero, or a number that a double can tell from zero, at least 5e-324 in magnitude")
	}
	if s.isCanonical() {
		var buffer [32]byte
		if want := appendNumber(buffer[:0], f); !bytes.Equal(spelled, want) {
			s.deviate(start, "number "+excerpt(spelled), string(want))
		}
	}
	return nil
}

func (s *scanner) refuseInteger(at int, spelled []byte) error {
	return s.refuse(at, "integer "+excerpt(spelled), "at most 9007199254740991 (2^53-1) in magnitude; put a larger one in a string")
}

// integerPart reads the digits before the point: a zero, or more than one
// digit without a leading zero.
func (s *scanner) integerPart() error {
	if s.peek() == '0' {
		s.pos++
		return nil
	}
	return s.digits()
}

// fractionAndExponent reports whether there was neither.
func (s *scanner) fractionAndExponent() (plain bool, err error) {
	plain = true
	if s.peek() == '.' {
		plain = false
		s.pos++
		if err := s.digits(); err != nil {
			return false, err
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		plain = false
		s.pos++
		if c := s.peek(); c == '+' || c == '-' {
			s.pos++
		}
		if err := s.digits(); err != nil {
			return false, err
		}
	}
	return plain, nil
}

func (s *scanner) digits() error {
	start := s.pos
	for s.pos < len(s.data) && '0' <= s.data[s.pos] && s.data[s.pos] <= '9' {
		s.pos++
	}
	if s.pos == start {
		return s.refuse(s.pos, s.here(), "a digit")
	}
	return nil
}

func mantissa(spelled []byte) []byte {
	if i := bytes.IndexAny(spelled, "eE"); i >= 0 {
		return spelled[:i]
	}
	return spelled
}

// appendNumber appends f as ECMAScript's Number::toString spells it, which is
// what RFC 8785 section 3.2.2.3 asks for. f is finite.
func appendNumber(b []byte, f float64) []byte {
	if f == 0 {
		return append(b, '0')
	}
	if abs := math.Abs(f); 1e-6 <= abs && abs < 1e21 {
		return strconv.AppendFloat(b, f, 'f', -1, 64)
	}
	b = strconv.AppendFloat(b, f, 'e', -1, 64)
	// Go writes at least two digits of exponent, ECMAScript as few as it can.
	if n := len(b); b[n-2] == '0' && (b[n-3] == '-' || b[n-3] == '+') {
		b[n-2] = b[n-1]
		b = b[:n-1]
	}
	return b
}

// excerpt keeps a hostile literal from filling the terminal.
func excerpt(spelled []byte) string {
	const most = 40
	if len(spelled) <= most {
		return string(spelled)
	}
	return fmt.Sprintf("%s... (%d characters)", spelled[:most], len(spelled))
}
