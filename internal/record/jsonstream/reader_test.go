package jsonstream

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/go-json-experiment/json/jsontext"

	"tallystick/internal/record/refusal"
)

func reader(t testing.TB, src io.Reader) *Reader {
	t.Helper()
	r, err := NewReader(src)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestReaderRefusesWithThePlace(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"cut off in an object", `{"a":1`, "byte 6: the file ends here"},
		{"cut off in a string", `{"a":"bc`, "byte 8: the file ends here"},
		{"cut off in an escape", `"a\u00`, "found the escape"},
		{"nothing at all", ``, "the file ends here, expected a value"},
		{"not JSON", `<xml>`, "byte 0: found '<', expected a JSON value"},
		{"a comma too many", `[1,]`, "byte 3: found ']' after a comma"},
		{"no comma", `[1 2]`, "byte 3: found '2', expected ',' or ']'"},
		{"no colon", `{"a" 1}`, "byte 5: found '1', expected ':'"},
		{"the wrong bracket", `{"a":[1}}`, "found '}', expected ',' or ']'"},
		{"a name without quotes", `{a:1}`, "expected a member's name"},
		{"a leading zero", `[01]`, "expected a number"},
		{"half a word", `[tru]`, "expected true"},
		{"a control character", "\"a\nb\"", "control character 0x0a"},
		{"not UTF-8", "[\"ab\xff\"]", "byte 4: found the byte 0xff, which is not UTF-8"},
		{"an overlong encoding", "[\"\xc0\xaf\"]", "not UTF-8"},
		{"too deep", strings.Repeat("[", maxDepth+1), "deep in one another"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, src := range []io.Reader{strings.NewReader(tt.text), iotest.OneByteReader(strings.NewReader(tt.text))} {
				err := reader(t, src).Skip()
				if !refusal.Is(err, refusal.Malformed) || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("got %v, want %q", err, tt.want)
				}
			}
		})
	}
}

func TestReaderRefusesUTF16(t *testing.T) {
	for _, text := range []string{"\xff\xfe{\x00}\x00", "\xfe\xff\x00{\x00}"} {
		if _, err := NewReader(strings.NewReader(text)); !refusal.Is(err, refusal.Malformed) || !strings.Contains(err.Error(), "UTF-16") {
			t.Errorf("got %v", err)
		}
	}
	if err := reader(t, strings.NewReader("\xef\xbb\xbf{}")).Skip(); err != nil {
		t.Errorf("a byte order mark of UTF-8: %v", err)
	}
}

func TestReaderKeepsAFailingDiskApartFromABadFile(t *testing.T) {
	src := io.MultiReader(strings.NewReader(`{"a":[1,`), iotest.ErrReader(errors.New("disk is gone")))
	err := reader(t, src).Skip()
	if !refusal.Is(err, refusal.Unreadable) || !strings.Contains(err.Error(), "disk is gone") {
		t.Errorf("got %v", err)
	}
}

// TestAMemberThatIsThereTwiceIsRefused: wherever the object stands, and however it is read,
// walked, taken whole, hashed or passed over.
func TestAMemberThatIsThereTwiceIsRefused(t *testing.T) {
	reads := map[string]func(*Reader) error{
		"walked":      func(r *Reader) error { return r.Object(func(string) error { return nil }) },
		"taken whole": func(r *Reader) error { _, err := r.Any(1 << 20); return err },
		"hashed":      func(r *Reader) error { _, err := r.Digest(8); return err },
		"skipped":     func(r *Reader) error { return r.Skip() },
	}
	many := `{`
	for i := range 40 {
		many += fmt.Sprintf(`"%d":0,`, i)
	}
	for _, text := range []string{
		`{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, `{"":1,"":1}`, `{"a\"b":1,"a\u0022b":1}`, `{"ä":1,"\u00e4":1}`, many + `"39":0}`, many + `"0":0}`,
		`{"x":{"a":1,"b":{},"a":2}}`, `{"x":[1,{"a":1,"a":1}]}`, `{"x":[[{"b":{"a":null,"a":null}}]]}`,
		`{"x":{"a":1},"y":{"a":1,"c":{"a":1},"a":1}}`, "{\"x\":{\n\"a\":1,\n\"a\":2}}",
	} {
		for how, read := range reads {
			for _, src := range []io.Reader{strings.NewReader(text), iotest.OneByteReader(strings.NewReader(text))} {
				err := read(reader(t, src))
				if !refusal.Is(err, refusal.Malformed) || !strings.Contains(err.Error(), "twice") || !strings.Contains(err.Error(), "line ") {
					t.Errorf("%s, %s: got %v", text, how, err)
				}
			}
		}
	}
	for how, read := range reads {
		text := `{"a":{"a":[{"a":1},{"a":1}]},"b":{"a":1},"A":1," a":1}`
		r := reader(t, strings.NewReader(text+"\n"+text))
		for range 2 {
			if err := read(r); err != nil {
				t.Errorf("%s: the same name in other objects: %v", how, err)
			}
		}
	}
}

func TestTheLineIsThatOfTheFile(t *testing.T) {
	r := reader(t, strings.NewReader("{\"a\":\n[1,\n2]}\n\n{\"b\":1}\n{\"c\" 1}"))
	var lines []int64
	var err error
	for err == nil {
		var k Kind
		if k, err = r.Peek(); k == None {
			break
		}
		lines = append(lines, r.Line())
		err = r.Skip()
	}
	if want := []int64{1, 5, 6}; !reflect.DeepEqual(lines, want) {
		t.Errorf("lines %v, want %v", lines, want)
	}
	if err == nil || !strings.Contains(err.Error(), "line 6, byte ") {
		t.Errorf("got %v, want a refusal on line 6", err)
	}
}

func TestNumbersAreNeverRounded(t *testing.T) {
	for _, tt := range []struct {
		spelled string
		value   float64
		finite  bool
		refused bool
	}{
		{"0.75", 0.75, true, false},
		{"-0", 0, true, false},
		{"9007199254740991", 9007199254740991, true, false},
		{"9007199254740992", 0, false, true},
		{"-9007199254740993", 0, false, true},
		{"1e20", 0, false, true},
		{"1e21", 1e21, true, false},
		{"1e999", 0, false, true},
		{"1e-999", 0, false, true},
		{"0e-999", 0, true, false},
		{"NaN", 0, false, false},
		{"-Infinity", 0, false, false},
	} {
		value, finite, err := Number(tt.spelled).Float()
		if value != tt.value || finite != tt.finite || (err != nil) != tt.refused {
			t.Errorf("%s: got %v %v %v", tt.spelled, value, finite, err)
		}
	}
}

func TestDigestOfAValueDoesNotDependOnItsSpelling(t *testing.T) {
	of := func(text string) Digest {
		d, err := reader(t, iotest.OneByteReader(strings.NewReader(text))).Digest(8)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	if a, b := of(` [ "a\u0062" , {"c" : true} ] `), of(`["ab",{"c":true}]`); a != b || a.Head != `["ab",{"` {
		t.Errorf("%+v and %+v differ", a, b)
	}
	if a, b := of(`["a\"b"]`), of(`["a","b"]`); a.SHA256 == b.SHA256 {
		t.Error("two values have one digest")
	}
	if a := of(`"a\u00e4\ud83d\ude00"`); a != DigestOf("aä😀", 8) {
		t.Errorf("got %+v", a)
	}
	if a := of(`"abcdefg\u00e4"`); a.Head != "abcdefg" {
		t.Errorf("the head was cut within a character: %q", a.Head)
	}
}

// FuzzReader compares what is accepted with encoding/json: both must agree on
// the value, and reading in one piece or in bytes must not matter.
func FuzzReader(f *testing.F) {
	for _, s := range []string{`{"a":[1,2.5e3,"x\u00e4\n",true,null,{}]}`, `[NaN,-Infinity]`, `"\ud800"`, `{"a":1,"a":2}`, `[[[[]]]]`, ` 1 `} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := NewReader(bytes.NewReader(data))
		if err != nil {
			return
		}
		got, err := r.Any(1 << 20)
		if err == nil {
			err = r.End()
		}
		slow := reader(t, iotest.OneByteReader(bytes.NewReader(data)))
		again, err2 := slow.Any(1 << 20)
		if err2 == nil {
			err2 = slow.End()
		}
		if (err == nil) != (err2 == nil) || err == nil && !reflect.DeepEqual(got, again) {
			t.Fatalf("in one piece %v %v, in bytes %v %v", got, err, again, err2)
		}
		passed := reader(t, bytes.NewReader(data))
		if skipErr := passed.Skip(); err == nil && skipErr != nil {
			t.Fatalf("read, and not skipped: %v", skipErr)
		}
		if err != nil || bytes.Contains(data, []byte("NaN")) || bytes.Contains(data, []byte("Infinity")) {
			return
		}
		var want any
		dec := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))))
		dec.UseNumber()
		if err := dec.Decode(&want); err != nil {
			t.Fatalf("encoding/json refuses what we read as %v: %v", got, err)
		}
		if !reflect.DeepEqual(plainTree(got), want) {
			t.Fatalf("got %#v, encoding/json has %#v", got, want)
		}
	})
}

// plainTree is v in the types of encoding/json.
func plainTree(v any) any {
	switch x := v.(type) {
	case Number:
		return json.Number(x)
	case map[string]any:
		for name := range x {
			x[name] = plainTree(x[name])
		}
	case []any:
		if x == nil {
			return []any{}
		}
		for i := range x {
			x[i] = plainTree(x[i])
		}
	}
	return v
}

// TestPlainPrefixStopsAtEverySpecialByte: the look at eight bytes at once finds
// what a look at each finds, wherever it stands and whatever follows.
func TestPlainPrefixStopsAtEverySpecialByte(t *testing.T) {
	for c := range 256 {
		for at := range 20 {
			for _, after := range []byte{'a', '"', 0x21, 0x7f, 0xff, byte(c)} {
				b := bytes.Repeat([]byte{'a'}, at)
				b = append(b, byte(c))
				b = append(b, bytes.Repeat([]byte{after}, 9)...)
				want := slices.IndexFunc(b, func(c byte) bool { return special[c] })
				if want < 0 {
					want = len(b)
				}
				if got := plainPrefix(b); got != want {
					t.Fatalf("%q: got %d, want %d", b, got, want)
				}
			}
		}
	}
}

func benchmarkDocument() []byte {
	row := `{"id":12,"epoch":1,"input":"What is the capital of France? Answer with one word, and say why.","scores":{"match":{"value":"C","answer":"Paris"}},"events":[{"event":"model","timestamp":"2025-01-01T00:00:00","output":{"text":"` + strings.Repeat("lorem ipsum dolor ", 20) + `\n","usage":{"input_tokens":12,"output_tokens":34.5}}}]}`
	return []byte("[" + strings.TrimSuffix(strings.Repeat(row+",\n", 20_000), ",\n") + "]")
}

// BenchmarkSkip is the floor of every importer: a walk over all tokens.
func BenchmarkSkip(b *testing.B) {
	doc := benchmarkDocument()
	b.SetBytes(int64(len(doc)))
	for b.Loop() {
		if err := reader(b, bytes.NewReader(doc)).Skip(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkJSONTextSkip is the same walk by go-json-experiment, which keeps the
// whole value in memory, for comparison.
func BenchmarkJSONTextSkip(b *testing.B) {
	doc := benchmarkDocument()
	b.SetBytes(int64(len(doc)))
	for b.Loop() {
		d := jsontext.NewDecoder(bytes.NewReader(doc), jsontext.AllowDuplicateNames(true))
		for {
			if _, err := d.ReadToken(); err == io.EOF {
				break
			} else if err != nil {
				b.Fatal(err)
			}
		}
	}
}
