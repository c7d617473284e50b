package audit

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// clip cuts a text between two characters. The copy does not hold on to the
// rest.
func clip(s string, most int) string {
	if len(s) <= most {
		return strings.Clone(s)
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return strings.Clone(s[:most])
}

// numberInto takes a number that counts something; null counts nothing.
func numberInto(to **float64, name string, v jsontext.Value) error {
	if v.Kind() == 'n' {
		return nil
	}
	n, err := strconv.ParseFloat(string(v), 64)
	if v.Kind() != '0' || err != nil || math.IsInf(n, 0) || n < 0 {
		return fmt.Errorf("%s is %s, expected a number from 0", name, clip(string(v), 40))
	}
	*to = &n
	return nil
}

func showNumber(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

// quoted shows a text inside a finding, cut to what a person reads.
func quoted(s string) string {
	short := clip(s, 120)
	if short != s {
		short += "…"
	}
	b, err := json.Marshal(short)
	if err != nil {
		return strconv.Quote(short)
	}
	return string(b)
}
