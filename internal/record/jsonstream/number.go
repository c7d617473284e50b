package jsonstream

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"tallystick/internal/record/refusal"
)

// A Number is a number as the file spells it.
type Number string

// maxInteger is 2^53-1. Beyond it a double no longer tells neighbouring
// integers apart (RFC 7493, section 2.2), and package canon refuses it.
const maxInteger = 1<<53 - 1

// Float returns the value of n. finite is false for NaN and Infinity. A number
// that a double cannot hold exactly enough to be written again is refused, never
// rounded: integers beyond 2^53-1, doubles up to 1e21 that are written as such,
// numbers beyond the largest double, and numbers that would become zero.
func (n Number) Float() (value float64, finite bool, err error) {
	switch n {
	case "NaN", "Infinity", "-Infinity":
		return 0, false, nil
	}
	f, err := strconv.ParseFloat(string(n), 64)
	if err != nil {
		return 0, false, refusal.Newf(refusal.Malformed, "the number %.40s is beyond the largest double", string(n))
	}
	if a := math.Abs(f); a > maxInteger && a < 1e21 {
		return 0, false, refusal.Newf(refusal.Malformed, "the number %.40s would be rounded: integers go up to 2^53-1", string(n)).
			WithHint("the author of the file should put it in a string")
	}
	if f == 0 && strings.ContainsAny(mantissa(string(n)), "123456789") {
		return 0, false, refusal.Newf(refusal.Malformed, "the number %.40s would become zero", string(n))
	}
	return f, true, nil
}

func mantissa(s string) string {
	m, _, _ := strings.Cut(strings.ToLower(s), "e")
	return m
}

// Int returns the value of a whole number from 0 to 2^53-1. Python writes some
// of them with ".0".
func (n Number) Int() (int64, error) {
	f, finite, err := n.Float()
	if err != nil {
		return 0, err
	}
	if !finite || f != math.Trunc(f) || f < 0 {
		return 0, fmt.Errorf("found %.40s, expected a whole number from 0", string(n))
	}
	return int64(f), nil
}

var isNumberByte = func() (t [256]bool) {
	for _, c := range "0123456789+-.eENaInfity" {
		t[c] = true
	}
	return t
}()

// validNumber checks the grammar of RFC 8259 section 6, and Python's words.
func validNumber(b []byte) bool {
	switch string(b) {
	case "NaN", "Infinity", "-Infinity":
		return true
	}
	if len(b) > 0 && b[0] == '-' {
		b = b[1:]
	}
	n := digits(b)
	if n == 0 || n > 1 && b[0] == '0' {
		return false
	}
	b = b[n:]
	if len(b) > 0 && b[0] == '.' {
		n := digits(b[1:])
		if n == 0 {
			return false
		}
		b = b[1+n:]
	}
	if len(b) > 0 && (b[0] == 'e' || b[0] == 'E') {
		b = b[1:]
		if len(b) > 0 && (b[0] == '+' || b[0] == '-') {
			b = b[1:]
		}
		n := digits(b)
		if n == 0 {
			return false
		}
		b = b[n:]
	}
	return len(b) == 0
}

func digits(b []byte) int {
	n := 0
	for n < len(b) && '0' <= b[n] && b[n] <= '9' {
		n++
	}
	return n
}
