package audit

import (
	"encoding/json"
	"strconv"

	"tallystick/internal/record/jsonvalue"
)

func showNumber(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

// quoted shows a text inside a finding, cut to what a person reads.
func quoted(s string) string {
	short := jsonvalue.Clip(s, 120)
	if short != s {
		short += "…"
	}
	b, err := json.Marshal(short)
	if err != nil {
		return strconv.Quote(short)
	}
	return string(b)
}
