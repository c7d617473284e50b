package canon

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"tallystick/internal/record/refusal"
)

// hostile texts of size about n that are accepted, or refused, at any size.
var hostile = []struct {
	name   string
	make   func(n int) []byte
	accept bool
}{
	{"nested arrays", func(n int) []byte { return bytes.Repeat([]byte("["), n) }, false},
	{"nested objects", func(n int) []byte { return bytes.Repeat([]byte(`{"a":`), n/5) }, false},
	{"many names, ascending", func(n int) []byte { return manyNames(n/16, false) }, true},
	{"many names, descending", func(n int) []byte { return manyNames(n/16, true) }, true},
	{"many names with escapes", func(n int) []byte { return bytes.ReplaceAll(manyNames(n/16, true), []byte("k"), []byte(`\n`)) }, true},
	{"long equal beginnings of names", func(n int) []byte {
		long := strings.Repeat("k", n/4)
		return fmt.Appendf(nil, `{"%sc":1,"%sb":2,"%sa":3}`, long, long, long)
	}, true},
	{"duplicate at the end", func(n int) []byte {
		return bytes.Replace(manyNames(n/16, true), []byte("}"), []byte(`,"k00000000":1}`), 1)
	}, false},
	{"string of escapes", func(n int) []byte { return []byte(`"` + strings.Repeat(`\u00e9`, n/6) + `"`) }, true},
	{"string of control escapes", func(n int) []byte { return []byte(`"` + strings.Repeat(`\u0001`, n/6) + `"`) }, true},
	{"string of surrogate pairs", func(n int) []byte { return []byte(`"` + strings.Repeat(`\ud83d\ude02`, n/12) + `"`) }, true},
	{"string of backslashes", func(n int) []byte { return []byte(`"` + strings.Repeat(`\`, n) + `"`) }, true},
	{"string never closed", func(n int) []byte { return []byte(`"` + strings.Repeat("a", n)) }, false},
	{"digits of an integer", func(n int) []byte { return bytes.Repeat([]byte("9"), n) }, false},
	{"digits of a fraction", func(n int) []byte { return []byte("0." + strings.Repeat("3", n)) }, true},
	{"digits of an exponent", func(n int) []byte { return []byte("1e" + strings.Repeat("9", n)) }, false},
	{"zeros of a fraction", func(n int) []byte { return []byte("0." + strings.Repeat("0", n) + "1") }, false},
	{"white space", func(n int) []byte { return append(bytes.Repeat([]byte(" "), n), '1') }, true},
	{"array of small numbers", func(n int) []byte { return []byte("[0" + strings.Repeat(",0", n/2) + "]") }, true},
	{"array of fractions", func(n int) []byte { return []byte("[0.10" + strings.Repeat(",0.10", n/5) + "]") }, true},
	{"array of empty arrays", func(n int) []byte { return []byte("[[]" + strings.Repeat(",[]", n/3) + "]") }, true},
	{"objects in reverse order at every depth", func(n int) []byte { return reversedAtEveryDepth(n) }, true},
}

func manyNames(n int, descending bool) []byte {
	var b bytes.Buffer
	b.WriteByte('{')
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		if descending {
			i = n - 1 - i
		}
		fmt.Fprintf(&b, `"k%08d":1`, i)
	}
	b.WriteByte('}')
	return b.Bytes()
}

// reversedAtEveryDepth makes the canonicaliser move a large inner text once
// for each level.
func reversedAtEveryDepth(n int) []byte {
	levels := MaxDepth - 1
	return []byte(strings.Repeat(`{"b":1,"a":`, levels) + `"` + strings.Repeat("x", n) + `"` + strings.Repeat("}", levels))
}

func TestHostileTextsCostNoMoreThanTheirSize(t *testing.T) {
	if testing.Short() {
		t.Skip("long, and one goroutine has nothing to race with")
	}
	const n = 1 << 20
	for _, tt := range hostile {
		t.Run(tt.name, func(t *testing.T) {
			small := allocatedBy(t, tt.make(n/2), tt.accept)
			large := allocatedBy(t, tt.make(n), tt.accept)
			// Growing by steps makes allocation jump; three times as much
			// for twice the input is still not four times, as a quadratic
			// algorithm would need. A floor keeps noise out of the ratio.
			if large > 1<<20 && float64(large) > 3*float64(max(small, 1<<18)) {
				t.Errorf("allocated %d bytes for %d and %d for %d", small, n/2, large, n)
			}
			if limit := uint64(64 * n); large > limit {
				t.Errorf("allocated %d bytes for %d", large, n)
			}
		})
	}
}

// allocatedBy returns how many bytes all readers together allocate for data.
func allocatedBy(t *testing.T, data []byte, accept bool) uint64 {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	out, err := Canonicalize(data)
	validateErr := Validate(data)
	var raw RawMessage
	unmarshalErr := Unmarshal(data, &raw)
	runtime.ReadMemStats(&after)

	if accept {
		if err != nil || unmarshalErr != nil {
			t.Fatalf("refused: %.200v, %.200v", err, unmarshalErr)
		}
		if err := Validate(out); err != nil {
			t.Fatalf("the result is not canonical: %.200v", err)
		}
	} else {
		for _, err := range []error{err, validateErr, unmarshalErr} {
			if !refusal.Is(err, refusal.Malformed) {
				t.Fatalf("got %.200v, want a Malformed refusal", err)
			}
			if len(err.Error()) > 400 {
				t.Errorf("the message has %d bytes", len(err.Error()))
			}
		}
	}
	return after.TotalAlloc - before.TotalAlloc
}

func TestValidateDoesNotAllocate(t *testing.T) {
	data := sampleBytes(t)
	if n := testing.AllocsPerRun(100, func() {
		if err := Validate(data); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("Validate allocates %v times for a ledger entry, want 0", n)
	}
}

func TestLargestInputs(t *testing.T) {
	if testing.Short() {
		t.Skip("uses 10 MB inputs")
	}
	for _, tt := range []struct {
		name   string
		data   []byte
		accept bool
	}{
		{"10 MB of digits", bytes.Repeat([]byte("1"), 10<<20), false},
		{"100,000 nested arrays", append(bytes.Repeat([]byte("["), 100_000), bytes.Repeat([]byte("]"), 100_000)...), false},
		{"100,000 names", manyNames(100_000, true), true},
	} {
		t.Run(tt.name, func(t *testing.T) { allocatedBy(t, tt.data, tt.accept) })
	}
}
