package canon

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"tallystick/internal/record/refusal"
)

// fromModuleRoot returns a path relative to the folder of go.mod.
func fromModuleRoot(tb testing.TB, elem ...string) string {
	tb.Helper()
	dir, err := os.Getwd()
	if err != nil {
		tb.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(append([]string{dir}, elem...)...)
		}
		if filepath.Dir(dir) == dir {
			tb.Fatal("no go.mod above the test")
		}
		dir = filepath.Dir(dir)
	}
}

func readFile(tb testing.TB, path string) []byte {
	tb.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

func TestPublishedVectors(t *testing.T) {
	folder := fromModuleRoot(t, "..", "shared", "vectors", "jcs")
	if _, err := os.Stat(folder); err != nil {
		t.Skip("the published JCS vectors are not beside the repository; TestStructuresOfRFC8785 restates some")
	}
	inputs, err := filepath.Glob(filepath.Join(folder, "input", "*.json"))
	if err != nil || len(inputs) < 6 {
		t.Fatalf("found %d vectors, %v, want 6 or more", len(inputs), err)
	}
	for _, input := range inputs {
		name := filepath.Base(input)
		t.Run(name, func(t *testing.T) {
			got, err := Canonicalize(readFile(t, input))
			if err != nil {
				t.Fatal(err)
			}
			if want := readFile(t, filepath.Join(folder, "output", name)); !bytes.Equal(got, want) {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			hexText := readFile(t, filepath.Join(folder, "outhex", strings.TrimSuffix(name, ".json")+".txt"))
			want, err := hex.DecodeString(strings.Join(strings.Fields(string(hexText)), ""))
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("got %x\nwant %x (%v)", got, want, err)
			}
			if err := Validate(got); err != nil {
				t.Errorf("Validate: %v", err)
			}
		})
	}
}

// RFC 8785, section 3.2.2 (values) and 3.2.3 (sorting), restated.
func TestStructuresOfRFC8785(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{
			"values",
			`{"numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
			  "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
			  "literals": [null, true, false]}`,
			`{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}`,
		},
		{
			"sorting",
			`{"\u20ac":"Euro Sign","\r":"Carriage Return","\ufb33":"Hebrew Letter Dalet With Dagesh","1":"One",
			  "\ud83d\ude00":"Emoji: Grinning Face","\u0080":"Control","\u00f6":"Latin Small Letter O With Diaeresis"}`,
			"{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\u0080\":\"Control\",\"ö\":\"Latin Small Letter O With Diaeresis\"," +
				"\"€\":\"Euro Sign\",\"\U0001F600\":\"Emoji: Grinning Face\",\"\ufb33\":\"Hebrew Letter Dalet With Dagesh\"}",
		},
	} {
		got, err := Canonicalize([]byte(tt.text))
		if err != nil || string(got) != tt.want {
			t.Errorf("%s:\ngot  %s, %v\nwant %s", tt.name, got, err, tt.want)
		}
	}
}

type shout string

func (s shout) MarshalText() ([]byte, error) { return []byte(strings.ToUpper(string(s))), nil }
func (s *shout) UnmarshalText(text []byte) error {
	*s = shout(strings.ToLower(string(text)))
	return nil
}

type document struct {
	Zeta   int            `json:"zeta"`
	Alpha  string         `json:"alpha"`
	Bool   bool           `json:"bool"`
	Float  float64        `json:"float"`
	List   []string       `json:"list"`
	Map    map[string]int `json:"map"`
	Inner  inner          `json:"inner"`
	Maybe  *int           `json:"maybe"`
	Any    any            `json:"any"`
	Raw    RawMessage     `json:"raw"`
	Text   shout          `json:"text"`
	When   time.Time      `json:"when"`
	Bytes  []byte         `json:"bytes"`
	Opt    int            `json:"opt,omitempty"`
	OptS   string         `json:"opt_s,omitempty"`
	OptB   bool           `json:"opt_b,omitempty"`
	OptL   []int          `json:"opt_l,omitempty"`
	OptP   *string        `json:"opt_p,omitempty"`
	OptRaw RawMessage     `json:"opt_raw,omitempty"`
	OptT   time.Time      `json:"opt_t,omitzero"`
	Hidden string         `json:"-"`
}

type inner struct {
	B int `json:"b"`
	A int `json:"a"`
}

func TestMarshalHonoursTagsAndSorts(t *testing.T) {
	empty := ""
	for _, tt := range []struct {
		name string
		v    any
		want string
	}{
		{"zero document", document{},
			`{"alpha":"","any":null,"bool":false,"bytes":"","float":0,"inner":{"a":0,"b":0},"list":[],"map":{},"maybe":null,` +
				`"raw":null,"text":"","when":"0001-01-01T00:00:00Z","zeta":0}`},
		{"full document", document{
			Zeta: 1, Alpha: "é\n", Bool: true, Float: 1e21, List: []string{"x"}, Map: map[string]int{"b": 1, "a": 2, "\U0001F602": 3, "\ufb33": 4},
			Inner: inner{1, 2}, Any: map[string]any{"y": 1.0, "x": []any{}}, Raw: RawMessage(` { "q" : 1.0, "p" : "\u0041" } `), Text: "hi",
			When: time.Date(2026, 5, 12, 0, 0, 0, 0, time.UTC), Bytes: []byte{1, 2}, Opt: 3, OptS: "s", OptB: true, OptL: []int{0}, OptP: &empty, OptRaw: RawMessage("0"), Hidden: "no"},
			`{"alpha":"é\n","any":{"x":[],"y":1},"bool":true,"bytes":"AQI=","float":1e+21,"inner":{"a":2,"b":1},"list":["x"],` +
				"\"map\":{\"a\":2,\"b\":1,\"\U0001F602\":3,\"\ufb33\":4}," +
				`"maybe":null,"opt":3,"opt_b":true,"opt_l":[0],"opt_p":"","opt_raw":0,"opt_s":"s","raw":{"p":"A","q":1},"text":"HI","when":"2026-05-12T00:00:00Z","zeta":1}`},
		{"html is not escaped", "<&>\u2028", "\"<&>\u2028\""},
		{"minus zero", math.Copysign(0, -1), "0"},
		{"largest integer", int64(maxInteger), "9007199254740991"},
		{"nil", nil, "null"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Marshal(tt.v)
			if err != nil || string(got) != tt.want {
				t.Fatalf("got  %s, %v\nwant %s", got, err, tt.want)
			}
			if err := Validate(got); err != nil {
				t.Errorf("Validate: %v", err)
			}
		})
	}
}

func TestMarshalRefuses(t *testing.T) {
	type node struct{ Next *node }
	loop := &node{}
	loop.Next = loop
	deep := any(1)
	for range MaxDepth + 1 {
		deep = []any{deep}
	}
	for _, tt := range []struct {
		name string
		v    any
	}{
		{"not a number", math.NaN()},
		{"infinity", math.Inf(1)},
		{"minus infinity", math.Inf(-1)},
		{"integer beyond 2^53-1", int64(maxInteger + 1)},
		{"negative integer beyond 2^53-1", int64(-maxInteger - 1)},
		{"unsigned integer beyond 2^53-1", uint64(math.MaxUint64)},
		{"float spelled as integer beyond 2^53-1", 1e20},
		{"invalid UTF-8", "\xff"},
		{"invalid UTF-8 in a name", map[string]int{"\xff": 1}},
		{"nesting beyond the limit", deep},
		{"a loop", loop},
		{"raw duplicate names", RawMessage(`{"a":1,"a":2}`)},
		{"raw overflow", RawMessage(`1e400`)},
		{"raw lone surrogate", RawMessage(`"\ud800"`)},
		{"raw that is not JSON", RawMessage(`{`)},
		{"raw of two values", RawMessage(`1 2`)},
		{"raw that closes the document and goes on", document{Raw: RawMessage(`1},"x":{`)}},
		{"a channel", make(chan int)},
		{"two names that are one text", map[shout]int{"a": 1, "A": 2}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, err := Marshal(tt.v); !refusal.Is(err, refusal.Malformed) {
				t.Errorf("Marshal = %s, %v, want a Malformed refusal", got, err)
			}
		})
	}
}

func TestUnmarshalRefusesWhatTheDocumentIsNot(t *testing.T) {
	for _, tt := range []struct{ name, text, says string }{
		{"unknown member", `{"alpha":"x","beta":1}`, `at byte 13, member "/beta": unknown`},
		{"unknown member inside", `{"inner":{"c":1}}`, `member "/inner/c": unknown`},
		{"other case", `{"Alpha":"x"}`, "unknown"},
		{"hidden field", `{"Hidden":"x"}`, "unknown"},
		{"duplicate", `{"zeta":1,"zeta":1}`, "duplicate"},
		{"duplicate in a map", `{"map":{"a":1,"a":1}}`, "duplicate"},
		{"duplicate in any", `{"any":{"a":1,"a":1}}`, "duplicate"},
		{"duplicate in raw", `{"raw":{"a":1,"a":1}}`, "duplicate"},
		{"string for a number", `{"zeta":"1"}`, `at byte 8, member "/zeta": found a string, expected a whole number`},
		{"number for a string", `{"alpha":1}`, "found a number"},
		{"fraction for an integer", `{"zeta":1.5}`, "/zeta"},
		{"one point zero for an integer", `{"zeta":1.0}`, "/zeta"},
		{"array for an object", `{"inner":[]}`, "found an array"},
		{"object for an array", `{"list":{}}`, "found an object"},
		{"true for a number", `{"zeta":true}`, "found true"},
		{"not a time", `{"when":"yesterday"}`, "/when"},
		{"not base64", `{"bytes":"*"}`, "/bytes"},
		{"null document", `null`, "found null"},
		{"null string", `{"alpha":null}`, `at byte 9, member "/alpha": found null`},
		{"null number", `{"zeta":null}`, "found null"},
		{"null float", `{"float":null}`, "found null"},
		{"null bool", `{"bool":null}`, "found null"},
		{"null struct", `{"inner":null}`, "found null"},
		{"null list", `{"list":null}`, "found null"},
		{"null in a list", `{"list":[null]}`, "found null"},
		{"null map", `{"map":null}`, "found null"},
		{"null in a map", `{"map":{"a":null}}`, "found null"},
		{"null text", `{"text":null}`, "found null"},
		{"null time", `{"when":null}`, "found null"},
		{"null bytes", `{"bytes":null}`, "found null"},
		{"null inside a struct", `{"inner":{"a":null}}`, "found null"},
		{"null beside an allowed one", `{"maybe":null,"zeta":null}`, "found null"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var d document
			checkRefused(t, "Unmarshal", Unmarshal([]byte(tt.text), &d), tt.says)
		})
	}
}

func TestUnmarshalTakesAnySpelling(t *testing.T) {
	seven := 7
	text := ` {"zeta": 1, "alpha": "\u0041", "maybe": 7, "any": null, "raw": {"q": null}, "list": ["x"], "opt_p": null, "text": "HI", "float": 1e2} `
	want := document{Zeta: 1, Alpha: "A", Maybe: &seven, Raw: RawMessage(`{"q": null}`), List: []string{"x"}, Text: "hi", Float: 100}
	var got document
	if err := Unmarshal([]byte(text), &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v, %v\nwant %+v", got, err, want)
	}
	for _, text := range []string{`{"maybe":null}`, `{"any":null}`, `{"raw":null}`, `{"opt_p":null}`} {
		if err := Unmarshal([]byte(text), new(document)); err != nil {
			t.Errorf("Unmarshal(%s): %v", text, err)
		}
	}
}

func TestRawMessageDoesNotShareMemoryWithTheInput(t *testing.T) {
	data := []byte(`{"raw":{"a":1}}`)
	var d struct {
		Raw RawMessage `json:"raw"`
	}
	if err := UnmarshalCanonical(data, &d); err != nil {
		t.Fatal(err)
	}
	clear(data)
	if string(d.Raw) != `{"a":1}` {
		t.Errorf("raw became %q when the input was overwritten", d.Raw)
	}
}

func TestCanonicalizeLeavesItsInputAlone(t *testing.T) {
	for _, text := range []string{`{"b":1,"a":2}`, `{"a":2,"b":1}`} {
		data := []byte(text)
		out, err := Canonicalize(data)
		if err != nil {
			t.Fatal(err)
		}
		clear(out)
		if string(data) != text {
			t.Errorf("input became %q", data)
		}
	}
}

func TestUnmarshalCanonicalRefusesSecondFormsOfOneDocument(t *testing.T) {
	type record struct {
		When time.Time  `json:"when"`
		Name string     `json:"name"`
		Note string     `json:"note,omitempty"`
		N    *int       `json:"n,omitempty"`
		L    []int      `json:"l,omitempty"`
		Data RawMessage `json:"data,omitempty"`
	}
	good := `{"name":"a","when":"2026-05-12T00:00:00Z"}`
	if err := UnmarshalCanonical([]byte(good), new(record)); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, text, says string }{
		{"empty optional string", `{"name":"a","note":"","when":"2026-05-12T00:00:00Z"}`, `at byte 13: found "note`},
		{"null optional number", `{"n":null,"name":"a","when":"2026-05-12T00:00:00Z"}`, "at byte 3"},
		{"empty optional list", `{"l":[],"name":"a","when":"2026-05-12T00:00:00Z"}`, "at byte 2"},
		{"missing required member", `{"when":"2026-05-12T00:00:00Z"}`, `expected "name`},
		{"time with a fraction of zero", `{"name":"a","when":"2026-05-12T00:00:00.0Z"}`, "at byte 39"},
		{"time with an offset of zero", `{"name":"a","when":"2026-05-12T00:00:00+00:00"}`, "at byte 39"},
		{"names out of order", `{"when":"2026-05-12T00:00:00Z","name":"a"}`, "not canonical"},
		{"space", `{"name": "a","when":"2026-05-12T00:00:00Z"}`, "not canonical"},
		{"newline at the end", good + "\n", "not canonical"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			checkRefused(t, "UnmarshalCanonical", UnmarshalCanonical([]byte(tt.text), new(record)), tt.says)
		})
	}
}

// The fields are in order here, so that the text is compared as it is written.
func TestUnmarshalCanonicalComparesEveryByte(t *testing.T) {
	var ordered struct {
		A shout `json:"a"`
		B shout `json:"b"`
	}
	if err := UnmarshalCanonical([]byte(`{"a":"HI","b":"HO"}`), &ordered); err != nil {
		t.Fatal(err)
	}
	checkRefused(t, "same length", UnmarshalCanonical([]byte(`{"a":"HI","b":"Ho"}`), &ordered), `at byte 16: found "o`)

	// The encoding, 0.1, is where the text begins.
	var narrow float32
	checkRefused(t, "longer text", UnmarshalCanonical([]byte(`0.10000000149011612`), &narrow), "expected the end of the text")
}

func TestMarshalThenUnmarshalCanonicalGivesTheValueBack(t *testing.T) {
	want := sampleEntry()
	var got benchEntry
	if err := UnmarshalCanonical(sampleBytes(t), &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v, %v\nwant %+v", got, err, want)
	}
}

// No single changed bit of a canonical document may decode to the same value,
// and whatever does decode is canonical again.
func TestNoBitFlipKeepsTheMeaning(t *testing.T) {
	if testing.Short() {
		t.Skip("long, and one goroutine has nothing to race with")
	}
	data := sampleBytes(t)
	var want benchEntry
	if err := UnmarshalCanonical(data, &want); err != nil {
		t.Fatal(err)
	}
	accepted := 0
	for i := range data {
		for bit := range 8 {
			data[i] ^= 1 << bit
			var got benchEntry
			if err := UnmarshalCanonical(data, &got); err == nil {
				accepted++
				if reflect.DeepEqual(got, want) {
					t.Errorf("bit %d of byte %d changed and the value did not", bit, i)
				}
			}
			data[i] ^= 1 << bit
		}
	}
	if accepted == 0 || accepted == 8*len(data) {
		t.Errorf("%d of %d flips were accepted: the test tests nothing", accepted, 8*len(data))
	}
}

// docs/formats/canonical-json.md ends with an example between fences marked
// "json in" and "json out", and the bytes in hexadecimal.
func TestDocumentedExample(t *testing.T) {
	doc := string(readFile(t, fromModuleRoot(t, "docs", "formats", "canonical-json.md")))
	in, out, bytesHex := fenced(t, doc, "json in"), fenced(t, doc, "json out"), fenced(t, doc, "hex out")
	got, err := Canonicalize([]byte(in))
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.TrimSuffix(out, "\n"); string(got) != want {
		t.Errorf("Canonicalize gives %s\nthe document says  %s", got, want)
	}
	want, err := hex.DecodeString(strings.Join(strings.Fields(bytesHex), ""))
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("Canonicalize gives %x\nthe document says  %x (%v)", got, want, err)
	}
	if sum := fmt.Sprintf("`sha256:%x`", sha256.Sum256(got)); !strings.Contains(doc, sum) {
		t.Errorf("the document does not give the SHA-256 %s", sum)
	}
	refused := strings.Split(strings.TrimSuffix(fenced(t, doc, "json refused"), "\n"), "\n")
	if len(refused) < 5 {
		t.Errorf("the document shows %d refused lines, want 5 or more", len(refused))
	}
	for _, line := range refused {
		if _, err := Canonicalize([]byte(line)); !refusal.Is(err, refusal.Malformed) {
			t.Errorf("the document says %s is refused; got %v", line, err)
		}
	}
}

// fenced returns the one code block of doc whose fence has the given info.
func fenced(t *testing.T, doc, info string) string {
	t.Helper()
	parts := strings.Split(doc, "```"+info+"\n")
	if len(parts) != 2 {
		t.Fatalf("found %d blocks marked %q, want 1", len(parts)-1, info)
	}
	text, _, ok := strings.Cut(parts[1], "```")
	if !ok {
		t.Fatalf("the block marked %q does not end", info)
	}
	return text
}

// TestAppendWritesWhatMarshalWrites after what is there, also where the order of
// the fields is not that of their names.
func TestAppendWritesWhatMarshalWrites(t *testing.T) {
	for _, v := range []any{
		map[string]any{"b": 1, "a": []string{"x"}}, []int{}, "text\u00e9\n", nil, 1.5,
		struct {
			B int        `json:"b"`
			A RawMessage `json:"a"`
		}{1, RawMessage(`{"z":1, "y":2}`)},
	} {
		want, err := Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		for _, room := range []int{6, 4096} {
			dst := append(make([]byte, 0, room), "before"...)
			got, err := Append(dst, v)
			if err != nil || string(got) != "before"+string(want) || string(dst) != "before" {
				t.Errorf("%v: %s, %v, want before%s", v, got, err, want)
			}
		}
	}
	for _, v := range []any{math.NaN(), 1 << 60, "\xff", RawMessage(`{"a":1,"a":2}`)} {
		dst := []byte("before")
		if got, err := Append(dst, v); err == nil || string(dst) != "before" {
			t.Errorf("%v: %s, %v", v, got, err)
		}
	}
}
