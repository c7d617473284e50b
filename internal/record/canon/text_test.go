package canon

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestAppendStringWritesWhatMarshalWrites(t *testing.T) {
	var all strings.Builder
	for c := range rune(0x300) {
		all.WriteRune(c)
	}
	for _, s := range []string{"", "plain", all.String(), "\u2028\u2029</script>", "emoji \U0001F600", "\ufffd"} {
		expected, err := Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if got := AppendString([]byte("before "), s); string(got) != "before "+string(expected) {
			t.Errorf("%q is written %s, expected %s", s, got, expected)
		}
	}
}

// TestAppendStringMarksEachByteThatIsNotUTF8: requests with such texts are
// hashed, and recordings are found by the hash.
func TestAppendStringMarksEachByteThatIsNotUTF8(t *testing.T) {
	for s, want := range map[string]string{
		"bad \xff\xfe utf-8":   "\"bad \ufffd\ufffd utf-8\"",
		"cut \xe2\x82":         "\"cut \ufffd\ufffd\"",
		"\xed\xa0\x80\n":       "\"\ufffd\ufffd\ufffd\\n\"", // a surrogate
		"\xf0\x9f\x98\x80\xc0": "\"\U0001F600\ufffd\"",
	} {
		if got := string(AppendString(nil, s)); got != want {
			t.Errorf("%q is written %s, expected %s", s, got, want)
		}
	}
}

// FuzzAppendString: whatever the text, what is written is canonical, and reads
// back as the text if that was UTF-8.
func FuzzAppendString(f *testing.F) {
	f.Add("a\x00\"\\\n\x7f\u2028\xff")
	f.Fuzz(func(t *testing.T, s string) {
		out := AppendString(nil, s)
		if err := Validate(out); err != nil {
			t.Fatalf("%q is written %s: %v", s, out, err)
		}
		var back string
		if err := Unmarshal(out, &back); err != nil || utf8.ValidString(s) && back != s {
			t.Fatalf("%q reads back as %q (%v)", s, back, err)
		}
	})
}

func BenchmarkAppendString(b *testing.B) {
	text := strings.Repeat("A line of prose with \"quotes\", as a model writes it – now and then.\n", 30)
	dst := make([]byte, 0, 2*len(text))
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		dst = AppendString(dst[:0], text)
	}
}
