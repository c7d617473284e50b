package telemetry

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tallystick/internal/refusal"
)

// A budget bounds how many pieces a file may have. Decoding makes a value of
// each, many times as long as the two bytes that it may take in the file.
type budget struct{ left int }

func (b *budget) spend(n int) error {
	if b.left -= n; b.left < 0 {
		return refusal.Newf(refusal.TooLarge, "more than %d values", maxParts)
	}
	return nil
}

// check reads JSON values, one after the other, without keeping anything.
func (b *budget) check(data []byte) error {
	d := jsontext.NewDecoder(bytes.NewReader(data))
	for {
		if _, err := d.ReadToken(); err != nil {
			if errors.Is(err, io.EOF) && d.StackDepth() == 0 {
				return nil
			}
			return fmt.Errorf("not JSON: %w", err)
		}
		if err := b.spend(1); err != nil {
			return err
		}
		depth := d.StackDepth()
		if depth > maxDepth {
			return refusal.Newf(refusal.TooLarge, "nested deeper than %d", maxDepth)
		}
		if _, n := d.StackIndex(depth); depth > 0 && n > maxElements {
			return refusal.Newf(refusal.TooLarge, "more than %d elements in one list", maxElements)
		}
	}
}

// decode reads a JSON text that stands inside another text, such as an
// attribute. Names that v does not have are left alone.
func (b *budget) decode(text []byte, v any) error {
	if err := b.check(text); err != nil {
		return err
	}
	return json.Unmarshal(text, v)
}

// kindOf looks at the names of the first object only.
func kindOf(data []byte) Format {
	d := jsontext.NewDecoder(bytes.NewReader(data))
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return ""
	}
	for {
		t, err := d.ReadToken()
		if err != nil || t.Kind() != '"' {
			return ""
		}
		switch t.String() {
		case "resourceSpans", "resourceLogs":
			return OTLPJSON
		case "schema_version":
			if v, err := d.ReadToken(); err == nil && v.Kind() == '"' && strings.HasPrefix(v.String(), "ATIF-") {
				return ATIF
			}
			return ""
		}
		if d.SkipValue() != nil {
			return ""
		}
	}
}

// each calls visit with every JSON value in data, as a file of JSON lines has
// them.
func each(data []byte, visit func(jsontext.Value) error) error {
	d := jsontext.NewDecoder(bytes.NewReader(data))
	for {
		v, err := d.ReadValue()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := visit(v); err != nil {
			return err
		}
	}
}

// textOf gives a JSON string as the text it stands for, and any other value as
// its JSON. Nothing and null are no text.
func textOf(v jsontext.Value) (string, bool) {
	switch v.Kind() {
	case '"':
		var s string
		if json.Unmarshal(v, &s) == nil {
			return s, true
		}
	case '{', '[', '0', 't', 'f':
		return string(v), true
	}
	return "", false
}

// wholeOf reads a whole number that may be written as a string, as OTLP does
// with 64 bits, or with a fraction of zero, as Python does.
func wholeOf(v jsontext.Value) (int64, bool) {
	text, ok := textOf(v)
	if !ok || v.Kind() != '"' && v.Kind() != '0' {
		return 0, false
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, true
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return 0, false
	}
	return int64(f), true
}

// numberOf reads a number, or nothing if it is none or not finite.
func numberOf(v jsontext.Value) (float64, bool) {
	text, ok := textOf(v)
	if !ok || v.Kind() != '"' && v.Kind() != '0' {
		return 0, false
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return 0, false
	}
	return f, true
}

// microUSD turns dollars into millionths.
func microUSD(usd float64) (int64, bool) {
	if !(usd >= 0 && usd <= 1e6) {
		return 0, false
	}
	return int64(math.Round(usd * 1e6)), true
}
