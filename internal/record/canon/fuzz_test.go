package canon

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/gowebpki/jcs"
)

func addSeeds(f *testing.F) {
	for _, tt := range refusedTexts {
		f.Add([]byte(tt.text))
	}
	for _, tt := range respelled {
		f.Add([]byte(tt.text))
		f.Add([]byte(`{"b":` + tt.text + `,"a":[` + tt.text + `]}`))
	}
	f.Add(sampleBytes(f))
}

// FuzzCanonicalize: what we accept is JSON to the standard library, its
// canonical form is a fixed point, and an independent implementation that
// accepts the text as well writes the same bytes. What we refuse and that
// implementation accepts is beyond one of our own bounds.
func FuzzCanonicalize(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		out, err := Canonicalize(data)
		if (Validate(data) == nil) != (err == nil && bytes.Equal(out, data)) {
			t.Fatalf("Validate(%q) = %v, but Canonicalize = %q, %v", data, Validate(data), out, err)
		}
		theirs, theirErr := jcs.Transform(data)
		if err != nil {
			if theirErr == nil && json.Valid(data) && withinBounds(data) {
				t.Fatalf("refused %q, which another implementation accepts: %v", data, err)
			}
			return
		}
		if !json.Valid(data) {
			t.Fatalf("accepted %q, which is not JSON", data)
		}
		if err := Validate(out); err != nil {
			t.Fatalf("Canonicalize(%q) = %q: %v", data, out, err)
		}
		again, err := Canonicalize(out)
		if err != nil || !bytes.Equal(again, out) {
			t.Fatalf("Canonicalize(%q) = %q, then %q, %v", data, out, again, err)
		}
		if theirErr == nil && !bytes.Equal(theirs, out) {
			t.Fatalf("Canonicalize(%q) = %q, another implementation says %q", data, out, theirs)
		}
		checkSameValue(t, data, out)
	})
}

// withinBounds reports whether a JSON text keeps to what canonical-json.md asks
// beyond RFC 8785: depth, and numbers that a double holds as they are meant.
func withinBounds(data []byte) bool {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	for depth := 0; ; {
		token, err := d.Token()
		if err != nil {
			return errors.Is(err, io.EOF)
		}
		switch token := token.(type) {
		case json.Delim:
			if strings.ContainsRune("[{", rune(token)) {
				depth++
			} else {
				depth--
			}
			if depth > 64 {
				return false
			}
		case json.Number:
			f, err := token.Float64()
			mantissa, _, _ := strings.Cut(strings.ToLower(token.String()), "e")
			isInteger := !strings.ContainsAny(token.String(), ".eE") || math.Abs(f) < 1e21
			switch {
			case err != nil,
				isInteger && math.Abs(f) > 1<<53-1,
				f == 0 && strings.ContainsAny(mantissa, "123456789"):
				return false
			}
		}
	}
}

// checkSameValue refuses a canonical form that says something else.
func checkSameValue(t *testing.T, data, out []byte) {
	t.Helper()
	var before, after any
	if err := json.Unmarshal(data, &before); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out, &after); err != nil {
		t.Fatal(err)
	}
	a, errA := json.Marshal(before)
	b, errB := json.Marshal(after)
	// -0 is the one value whose canonical form differs.
	a = bytes.ReplaceAll(a, []byte("-0"), []byte("0"))
	b = bytes.ReplaceAll(b, []byte("-0"), []byte("0"))
	if errA != nil || errB != nil || !bytes.Equal(a, b) {
		t.Fatalf("%q means %s, its canonical form %q means %s", data, a, out, b)
	}
}

// FuzzUnmarshalCanonical: what decodes encodes to the same bytes.
func FuzzUnmarshalCanonical(f *testing.F) {
	addSeeds(f)
	if data, err := Marshal(document{Opt: 1, OptS: "x", Raw: RawMessage("[1]")}); err == nil {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, v := range []any{new(document), new(benchEntry), new(any), new(RawMessage), new(map[string]RawMessage)} {
			if err := UnmarshalCanonical(data, v); err != nil {
				continue
			}
			again, err := Marshal(v)
			if err != nil || !bytes.Equal(again, data) {
				t.Fatalf("%T: %q decodes and encodes to %q, %v", v, data, again, err)
			}
		}
	})
}
