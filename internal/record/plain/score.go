package plain

import (
	"strconv"
	"strings"
)

// Score is a score, or a mean of scores, with so many decimals. One that is below 1
// is never shown as 1: a case that did not pass must not look as if it had.
func Score(v float64, decimals int) string {
	s := strconv.FormatFloat(v, 'f', decimals, 64)
	if whole, err := strconv.ParseFloat(s, 64); err != nil || v >= 1 || whole < 1 {
		return s
	}
	s = "0."
	for range decimals {
		s += "9"
	}
	return s
}

// Number is a number as people read it: at most six decimals, no trailing zeros.
func Number(v float64) string {
	return strings.TrimSuffix(strings.TrimRight(Score(v, 6), "0"), ".")
}
