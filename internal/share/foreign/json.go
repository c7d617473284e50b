package foreign

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tallystick/internal/record/refusal"
)

// A Budget bounds how many pieces a file may have. Decoding makes a value of
// each, many times as long as the two bytes that it may take in the file.
type Budget struct{ Left int }

// Spend takes pieces off the budget.
func (b *Budget) Spend(n int) error {
	if b.Left -= n; b.Left < 0 {
		return refusal.Newf(refusal.TooLarge, "more than %d values", MaxParts)
	}
	return nil
}

// Check reads JSON values, one after the other, without keeping anything.
func (b *Budget) Check(data []byte) error {
	d := jsontext.NewDecoder(bytes.NewReader(data))
	for {
		if _, err := d.ReadToken(); err != nil {
			if errors.Is(err, io.EOF) && d.StackDepth() == 0 {
				return nil
			}
			line := 1 + bytes.Count(data[:min(len(data), int(d.InputOffset()))], []byte("\n"))
			if errors.Is(err, jsontext.ErrDuplicateName) {
				return fmt.Errorf("line %d: a name is there twice in one object: %w", line, err)
			}
			return fmt.Errorf("line %d: not JSON: %w", line, err)
		}
		if err := b.Spend(1); err != nil {
			return err
		}
		depth := d.StackDepth()
		if depth > MaxDepth {
			return refusal.Newf(refusal.TooLarge, "nested deeper than %d", MaxDepth)
		}
		if _, n := d.StackIndex(depth); depth > 0 && n > MaxElements {
			return refusal.Newf(refusal.TooLarge, "more than %d elements in one list", MaxElements)
		}
	}
}

// Decode reads a JSON text that stands inside another text, such as an
// attribute. Names that v does not have are left alone.
func (b *Budget) Decode(text []byte, v any) error {
	if err := b.Check(text); err != nil {
		return err
	}
	return json.Unmarshal(text, v)
}

// Each calls visit with every JSON value in data, as a file of JSON lines has
// them.
func Each(data []byte, visit func(jsontext.Value) error) error {
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

// TextOf gives a JSON string as the text it stands for, and any other value as
// its JSON. Nothing and null are no text.
func TextOf(v jsontext.Value) (string, bool) {
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

// WholeOf reads a whole number that may be written as a string, as OTLP does
// with 64 bits, or with a fraction of zero, as Python does.
func WholeOf(v jsontext.Value) (int64, bool) {
	text, ok := TextOf(v)
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

// NumberOf reads a number, or nothing if it is not a finite number.
func NumberOf(v jsontext.Value) (float64, bool) {
	text, ok := TextOf(v)
	if !ok || v.Kind() != '"' && v.Kind() != '0' {
		return 0, false
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return 0, false
	}
	return f, true
}

// MicroUSD turns dollars into millionths.
func MicroUSD(usd float64) (int64, bool) {
	if !(usd >= 0 && usd <= 1e6) {
		return 0, false
	}
	return int64(math.Round(usd * 1e6)), true
}
