package results

import (
	"errors"
	"strconv"
	"strings"

	"tallystick/internal/record/jsonstream"
)

// NumberScore is the score of a number. One that is not finite is unscored, and
// one that would be rounded is refused.
func NumberScore(n jsonstream.Number) (Score, error) {
	v, finite, err := n.Float()
	if err != nil {
		return Score{}, err
	}
	if !finite {
		return Score{Said: string(n)}, nil
	}
	return Score{Value: &v}, nil
}

// BoolScore is 1 for true and 0 for false.
func BoolScore(b bool) Score {
	v := 0.0
	if b {
		v = 1
	}
	return Score{Value: &v, Said: strconv.FormatBool(b), Passed: &b}
}

// TextScore reads a number in a string. Words of Python's for no number, and
// text that is not a number, are unscored.
func TextScore(s string) (Score, error) {
	t := strings.TrimSpace(s)
	switch strings.ToLower(t) {
	case "true":
		return BoolScore(true), nil
	case "false":
		return BoolScore(false), nil
	}
	// Python's nan and inf, hexadecimal and a date are not decimal numbers; a
	// number beyond the largest double is one, and is refused below.
	if _, err := strconv.ParseFloat(t, 64); errors.Is(err, strconv.ErrSyntax) || !isDecimal(t) {
		return Score{Said: s}, nil
	}
	return NumberScore(jsonstream.Number(t))
}

func isDecimal(s string) bool {
	for _, c := range s {
		if !strings.ContainsRune("0123456789+-.eE", c) {
			return false
		}
	}
	return s != ""
}

// AnyScore is the score of a value that was read whole. What is not a number, a
// bool or a text is unscored.
func AnyScore(v any) (Score, error) {
	switch x := v.(type) {
	case jsonstream.Number:
		return NumberScore(x)
	case bool:
		return BoolScore(x), nil
	case string:
		return TextScore(x)
	}
	return Score{}, nil
}
