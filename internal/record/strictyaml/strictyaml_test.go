package strictyaml

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
)

// A sample has a field of each sort that documents have.
type sample struct {
	Version int                       `json:"version"`
	Classes []string                  `json:"classes"`
	Images  map[string]digest.Content `json:"images,omitempty"`
	CI      *sampleFile               `json:"ci,omitempty"`
}

type sampleFile struct {
	File   string         `json:"file"`
	Digest digest.Content `json:"digest"`
}

// A small document that every row below changes.
const small = `version: 1
classes: ["a", "b"]
`

func TestOnlyOneMeaningIsAccepted(t *testing.T) {
	for _, tt := range []struct{ name, yaml, want string }{
		{"as it should be", small, ""},
		{"comments and another style", "# hi\nclasses:\n- a # one\n- \"b\"\nversion: 1\n", ""},
		{"JSON", `{"version":1,"classes":["a","b"]}`, ""},
		{"an unknown key", small + "owner: me\n", "x.yaml:3:1: owner: is not a known key, expected one of version, classes, images, ci"},
		{"an unknown key further down", small + "ci:\n  file: a\n  digest: \"blake3:" + strings.Repeat("0", 64) + "\"\n  by: me\n", "x.yaml:6:3: ci.by: is not a known key"},
		{"a key twice", small + "version: 1\n", `x.yaml:3:1: the key "version" occurs twice`},
		{"a key twice, quoted", small + "\"version\": 1\n", `x.yaml:3:1: the key "version" occurs twice`},
		{"a key twice in a line", "{version: 1, classes: [], version: 1}\n", `x.yaml:1:27: the key "version" occurs twice`},
		{"an anchor", "version: &v 1\nclasses: []\n", "x.yaml:1:10: found an anchor or alias"},
		{"an alias", "version: 1\nclasses: [*v]\n", "x.yaml:2:11:"},
		{"a merge key", "<<: {version: 1}\nclasses: []\n", "x.yaml:1:1: found a merge key"},
		{"a merge key as a value", "version: <<\nclasses: []\n", "x.yaml:1:"},
		{"a tag", "version: !!int 1\nclasses: []\n", "x.yaml:1:10: found the tag !!int"},
		{"a required key missing", "version: 1\n", "x.yaml:1:1: classes: is missing"},
		{"an empty optional key", small + "images: {}\n", "x.yaml:3:1: images: is empty; leave it out"},
		{"a null", "version: null\nclasses: []\n", "x.yaml:1:1: version: found nothing, expected a whole number"},
		{"no value", "version:\nclasses: []\n", "x.yaml:1:"},
		{"text for a number", "version: one\nclasses: []\n", `x.yaml:1:1: version: found the text "one", expected a whole number`},
		{"a quoted number", "version: \"1\"\nclasses: []\n", "expected a whole number"},
		{"a fraction for a whole number", "version: 1.5\nclasses: []\n", "expected a whole number"},
		{"1.0 for 1", "version: 1.0\nclasses: []\n", "expected a whole number"},
		{"a number in hexadecimal", "version: 0x1\nclasses: []\n", "x.yaml:1:10: found the number 0x1"},
		{"a number in octal", "version: 01\nclasses: []\n", "x.yaml:1:10:"},
		{"a number with underscores", "version: 1_0\nclasses: []\n", "x.yaml:1:10:"},
		{"a number with a plus", "version: +1\nclasses: []\n", "x.yaml:1:10:"},
		{"infinity", "version: .inf\nclasses: []\n", "x.yaml:1:10:"},
		{"not a number", "version: .nan\nclasses: []\n", "x.yaml:1:10:"},
		{"yes", "version: 1\nclasses: [yes]\n", `x.yaml:2:11: found "yes" without quotes`},
		{"a date without quotes", "version: 1\nclasses: [2026-01-01]\n", "x.yaml:2:11:"},
		{"True", "version: True\nclasses: []\n", "x.yaml:1:10: found True, expected true or false"},
		{"a list for a mapping", "- 1\n", "found a list, expected a mapping"},
		{"a mapping for a list", "version: 1\nclasses: {a: 1}\n", "classes: found a mapping, expected a list"},
		{"a number as a key", "1: 2\n", "x.yaml:1:1:"},
		{"two documents", small + "---\n" + small, "found 2 YAML documents, expected one"},
		{"nothing", "", "found nothing, expected one"},
		{"nothing but a comment", "# hello\n", "found nothing, expected one"},
		{"too many lines", small + strings.Repeat("#\n", defaultLines), "at most 10000 are accepted"},
		{"a carriage return", "version: 1\r\nclasses: []\r\n", "x.yaml:1:11: found a carriage return"},
		{"a byte order mark", "\ufeffversion: 1\nclasses: []\n", "x.yaml:1:1: found the character U+FEFF"},
		{"a control character", "version: 1\nclasses: [\"\x07\"]\n", "x.yaml:2:12: found the character U+0007"},
		{"bytes that are not UTF-8", "version: 1\nclasses: [\"\xff\"]\n", "x.yaml:2:12: found the byte 0xff, which is not valid UTF-8"},
		{"bytes that are cut short", "version: 1\nclasses: [\"\xef\xbfx\"]\n", "x.yaml:2:12: found the byte 0xef, which is not valid UTF-8"},
		{"a file that ends in a character", "version: 1 # \xe2\x82", "x.yaml:1:14: found the byte 0xe2"},
		{"a NUL", "version: 1\nclasses: [\"\x00\"]\n", "x.yaml:2:12: found the character U+0000"},
		{"a line end that only some know", "version: 1 # \u2028classes: []\n", "x.yaml:1:14: found the character U+2028"},
		{"a required key with a mistake", "versoin: 1\nclasses: []\n", "x.yaml:1:1: versoin: is not a known key"},
		{"a number beyond all doubles", "version: 1.0e999\nclasses: []\n", "x.yaml:1:10:"},
		{"a number that doubles round", "version: 9007199254740993\nclasses: []\n", "x.yaml:1:10: the number 9007199254740993 is out of range"},
		{"a digest cut short", small + "images: {cpython: \"blake3:00\"}\n", "x.yaml:3:10: images.cpython:"},
		{"deep brackets", "version: " + strings.Repeat("[", 100_000) + "\n", "more than 512 brackets are open"},
		{"deep lists in a line", "version:\n  " + strings.Repeat("- ", 100_000) + "1\n", "marks such as"},
		{"marks in a row", "# " + strings.Repeat("-?:", 171) + "--\n" + small, "marks such as"},
		{"nested too deep", "version: " + strings.Repeat("[", 70) + strings.Repeat("]", 70) + "\n", "nested deeper than 60 levels"},
		{"no blank after a colon", "{version:1, classes: [\"a\", \"b\"]}\n", "x.yaml:1:2: readers of YAML understand this differently"},
		{"a tab in text", "version: 1\nclasses:\n- a\tb\n- b\n", "x.yaml:3:3: readers of YAML understand this differently"},
		{"the sign of a merge as text", "version: 1\nclasses: [<<]\n", "x.yaml:2:11: readers of YAML understand this differently"},
		{"an item left of its dash", "version: 1\nclasses:\n-\n\"a\"\n", "not every reader of YAML can read it: line 4"},
		{"text after a closing quote", "\"a\t\t\t\t\tb\",]", "not every reader of YAML can read it"},
		{"two texts", "\"\t\t\"\"", "not every reader of YAML can read it"},
		{"text after the sign of a block", "|2|", "not every reader of YAML can read it"},
		{"a bracket that nothing opened", "}\n", "not every reader of YAML can read it"},
		{"a comma in front", ",a\n", "not every reader of YAML can read it"},
		{"half an end of a document", "...-\n", "readers of YAML understand this differently"},
		{"a question mark", "?\n", "x.yaml:1:1: readers of YAML understand this differently"},
		{"a character in two halves", `{"version":1,"classes":["\ud83d\ude00"]}`, "not every reader of YAML can read it"},
		{"too large", "#" + strings.Repeat("x", defaultBytes) + "\n" + small, "at most 1048576 are accepted"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var p sample
			doc, err := Decode("x.yaml", []byte(tt.yaml), Rules{}, &p)
			if tt.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				if string(doc.JSON) != `{"classes":["a","b"],"version":1}` {
					t.Errorf("decoded to %s", doc.JSON)
				}
				return
			}
			if err == nil {
				t.Fatalf("accepted as %s", doc.JSON)
			}
			if !refusal.Is(err, refusal.Malformed) && !refusal.Is(err, refusal.TooLarge) {
				t.Errorf("refused with %s: %v", refusal.Of(err).Name, err)
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("the refusal does not say %q: %v", tt.want, err)
			}
		})
	}
}

// Each bound is that of the caller: what it just allows is read, one more is
// not.
func TestCallersSetTheBounds(t *testing.T) {
	for _, tt := range []struct {
		name      string
		rules     Rules
		fits, not string
		want      string
	}{
		{"bytes", Rules{MaxBytes: 4}, "a: b", "a: bc", "x: 5 bytes, at most 4 are accepted"},
		{"lines", Rules{MaxLines: 2}, "a: b\n\n", "a: b\n\n\n", "x: 3 lines, at most 2 are accepted"},
		{"depth", Rules{MaxDepth: 2}, "a: [b]", "a: [[b]]", "x:1:6: nested deeper than 2 levels"},
		{"lists in a line", Rules{MaxInline: 3}, "- - - b", "- - - - b", "x:1:8: more than 3 lists begin in one line"},
		{"lists in a line, with tabs", Rules{MaxInline: 3}, "# -\t-\t-\t\na: b", "# -\t-\t-\t-\t\na: b", "x:1:10: more than 3 lists begin in one line"},
		{"marks without blanks are not lists", Rules{MaxInline: 3}, "a: '-------- -- -- -- -- '", "a: '-------- - - - '", "lists begin in one line"},
		{"marks in a row", Rules{MaxMarks: 3}, "a: '---'", "a: '----'", "x:1:8: more than 3 marks such as - ? : < stand in a row"},
		{"text that begins with a digit", Rules{PlainDigits: true}, "a: 3 files", "a: 2026-05-12T14:00:00Z", "x:1:4: found \"2026-05-12T14:00:00Z\" without quotes"},
		{"text that begins with a digit, else", Rules{}, "a: \"3 files\"", "a: 3 files", "x:1:4: found \"3 files\" without quotes"},
		{"keys that are words of YAML", Rules{PlainDigits: true}, "\"no\": b", "no: b", "x:1:1: found the key \"no\" without quotes"},
		{"a word of YAML that may be a key", Rules{PlainKeys: []string{"on"}}, "on: b", "off: b", "x:1:1: found the key \"off\" without quotes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.rules.Hint, tt.rules.TooLargeHint = "look there", "look there"
			if _, err := Parse("x", []byte(tt.fits), tt.rules); err != nil {
				t.Errorf("what just fits: %v", err)
			}
			_, err := Parse("x", []byte(tt.not), tt.rules)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("%v, want it to say %q", err, tt.want)
			}
			if refusal.Of(err).Hint != "look there" {
				t.Errorf("the hint is %q", refusal.Of(err).Hint)
			}
		})
	}
}

func TestRefuseFindsTheField(t *testing.T) {
	d, err := Parse("x", []byte("a: 1\nb:\n  - c: 2\n    d.e: 3\n"), Rules{})
	if err != nil {
		t.Fatal(err)
	}
	wrong := errors.New("wrong")
	for _, tt := range []struct {
		err  error
		want string
	}{
		{wrong, "x:1:1: wrong"},
		{At([]string{"b"}, wrong), "x:2:1: b: wrong"},
		{At([]string{"b", "0", "d.e"}, wrong), "x:4:5: b.0.d.e: wrong"},
		{At([]string{"b", "0", "gone", "further"}, wrong), "x:3:5: b.0.gone.further: wrong"},
		{At([]string{"b", "7"}, wrong), "x:2:1: b.7: wrong"},
	} {
		got := d.Refuse(tt.err)
		if got.Error() != tt.want || !refusal.Is(got, refusal.Malformed) || !errors.Is(got, wrong) {
			t.Errorf("got %v, want %s", got, tt.want)
		}
	}
}

// A pointer to a raw value can be there and empty, which a raw value cannot.
func TestPointerToRawValueMayBeEmpty(t *testing.T) {
	type reply struct {
		Plain  canon.RawMessage  `json:"plain,omitempty"`
		Result *canon.RawMessage `json:"result,omitempty"`
	}
	for _, tt := range []struct{ text, want, refused string }{
		{"{}", "{}", ""},
		{"result: []", `{"result":[]}`, ""},
		{"result: \"\"", `{"result":""}`, ""},
		{"result: {a: 1}", `{"result":{"a":1}}`, ""},
		{"result: null", "", "a.yaml:1:1: result: found nothing, expected a value"},
		{"plain: []", "", "a.yaml:1:1: plain: is empty"},
	} {
		var v reply
		_, err := Decode("a.yaml", []byte(tt.text), Rules{}, &v)
		if tt.refused != "" {
			if err == nil || !strings.Contains(err.Error(), tt.refused) {
				t.Errorf("%s: got %v, want %s", tt.text, err, tt.refused)
			}
			continue
		}
		encoded, _ := canon.Marshal(v)
		if err != nil || string(encoded) != tt.want {
			t.Errorf("%s: got %s, %v", tt.text, encoded, err)
		}
	}
}

// Whatever is read has one canonical form, which is read as itself.
func FuzzParse(f *testing.F) {
	for _, s := range []string{small, "a: |\n  b\n   c\n", "- {a: 1e2, \"\\u0007\": null}\n- [true, -0.5]\n", "? a\n: >-\n  b\n", "a: &b 1\nc: *b\n", "<<: {a: 1}\n", "--- a\n...\n--- b\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := Parse("fuzz.yaml", data, Rules{})
		if err != nil {
			requireNamed(t, err)
			return
		}
		if err := canon.Validate(d.JSON); err != nil {
			t.Fatalf("%s: %v", d.JSON, err)
		}
		// Depth and size allow the JSON of any document that was read, except
		// for what its escapes add to the size.
		again, err := Parse("fuzz.yaml", d.JSON, Rules{MaxBytes: 8 << 20, MaxMarks: 8 << 20, MaxInline: 8 << 20})
		if err != nil {
			// JSON may hold DEL and U+FFFE; a bracket in text counts as one; a
			// key before a colon has at most 1024 characters in YAML.
			for _, known := range []string{"which cannot be seen", "brackets are open", "not every reader of YAML can read it"} {
				if strings.Contains(err.Error(), known) {
					return
				}
			}
			t.Fatalf("%s is not read again: %v", d.JSON, err)
		}
		if !bytes.Equal(again.JSON, d.JSON) {
			t.Fatalf("%s became %s", d.JSON, again.JSON)
		}
	})
}

// Whatever is decoded encodes to the document's JSON.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(small))
	f.Add([]byte(strings.Replace(small, "version: 1", "version: 2", 1)))
	f.Add([]byte(small + "ci: {file: a, digest: \"blake3:" + strings.Repeat("0", 64) + "\"}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var v sample
		d, err := Decode("fuzz.yaml", data, Rules{}, &v)
		if err != nil {
			requireNamed(t, err)
			return
		}
		if encoded, err := canon.Marshal(v); err != nil || !bytes.Equal(encoded, d.JSON) {
			t.Fatalf("decoded %s, encodes to %s, %v", d.JSON, encoded, err)
		}
	})
}

func requireNamed(t *testing.T, err error) {
	t.Helper()
	names := []refusal.Name{refusal.Malformed, refusal.TooLarge, refusal.NewerFormat}
	if name := refusal.Of(err).Name; !slices.Contains(names, name) || !strings.HasPrefix(err.Error(), "fuzz.yaml:") {
		t.Fatalf("refused with %s: %v", name, err)
	}
}

// A map of anything, as the arguments of a call are, takes any value.
func TestMapOfAnythingTakesAnyValue(t *testing.T) {
	var got struct {
		Args map[string]any `json:"args"`
	}
	if _, err := Decode("x.yaml", []byte("args: {count: 1, list: [true, {a: b}]}\n"), Rules{}, &got); err != nil {
		t.Fatal(err)
	}
	if list, ok := got.Args["list"].([]any); got.Args["count"] != 1.0 || !ok || len(list) != 2 {
		t.Errorf("%v", got.Args)
	}
	if _, err := Decode("x.yaml", []byte("args: [1]\n"), Rules{}, &got); err == nil {
		t.Error("a list was taken for a map")
	}
}

// TestAMegabyteOfMarksIsRefusedAtOnce: the first reader alone takes a minute
// and more for each of these, and a pull request can bring them (trials S8).
// Without the second reader this test times out.
func TestAMegabyteOfMarksIsRefusedAtOnce(t *testing.T) {
	for _, unit := range []string{"&a ", "& ", "*", "*a ", "!a ", "! ", "!", "%", "%a ", "@", "`", "<", "<< ", "a: &", " *", "? ", "&a *a "} {
		for _, start := range []string{"", "a: ", "- "} {
			data := []byte(start + strings.Repeat(unit, 1<<20/len(unit)-8))
			if _, err := Parse("x.yaml", data, Rules{MaxMarks: 512}); err == nil {
				t.Errorf("%q after %q is accepted", unit, start)
			}
		}
	}
}
