package survey

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"testing"
)

func TestTextsAreFoundWhateverTheirCapitalsAndSpaces(t *testing.T) {
	var x texts
	for place, text := range []string{"The Lift\n  stops", "", "ÄRGER im Aufzug", "the li", "ft stops"} {
		x.add(place, fold(nil, []byte(text), 1<<10))
	}
	for question, want := range map[string][]int{
		"the lift": {0}, "LIFT stops": {0}, "lift  \t stops": {0}, "ärger": {2}, "aufzug": {2}, "stops": {0, 4}, "li": {0, 3},
		"no such": nil, "": nil, " ": nil,
		"lift stops ärger": nil, // of two cases
		"li\x00ft":         nil,
	} {
		found := make([]bool, 5)
		x.find([]byte(Fold(question)), found)
		var got []int
		for place, is := range found {
			if is {
				got = append(got, place)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q is found in %v, expected %v", question, got, want)
		}
	}
}

func TestNothingIsFoundOverTheEndOfACase(t *testing.T) {
	var x texts
	for place := range 5000 { // several blocks
		x.add(place, []byte(strings.Repeat("ab", 1000)))
	}
	found := make([]bool, 5000)
	x.find([]byte("ba"), found)
	if slices.Contains(found, false) {
		t.Error("a case that holds the text is not found")
	}
	clear(found)
	x.find(append(bytes.Repeat([]byte("ab"), 1000), 'a'), found)
	if slices.Contains(found, true) {
		t.Error("a text is found that begins in one case and ends in another")
	}
	if len(x.blocks) < 2 {
		t.Error("all cases are in one block")
	}
}

// FuzzScanner holds that the strings of JSON are those that the decoder of Go finds, and
// that other bytes are survived.
func FuzzScanner(f *testing.F) {
	f.Add([]byte(`{"a":"b","c":["d","e\n\u00e9\ud83d\ude00\\"],"f":{"g":"\"","h":1}}`))
	f.Add([]byte(`{"a":"\`))
	f.Add([]byte(`"\u12"`))
	f.Add([]byte(`{"":"\ud800x"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var got []string
		s := scanner{data: data}
		for {
			name, text, ok := s.next()
			if !ok {
				break
			}
			got = append(got, string(name)+"="+string(text))
			if len(got) > len(data) {
				t.Fatal("more strings than bytes")
			}
		}
		var doc any
		if json.Unmarshal(data, &doc) != nil || !bytes.Equal(data, compact(data)) {
			return
		}
		for _, want := range stringsOf(doc) {
			folded := Fold(want)
			if !slices.ContainsFunc(got, func(g string) bool {
				_, text, _ := strings.Cut(g, "=")
				return Fold(text) == folded || strings.HasSuffix(Fold(g), folded)
			}) {
				t.Errorf("%q: %q is not among %q", data, want, got)
			}
		}
	})
}

func compact(data []byte) []byte {
	var b bytes.Buffer
	json.Compact(&b, data)
	return b.Bytes()
}

func stringsOf(v any) (list []string) {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		for _, x := range v {
			list = append(list, stringsOf(x)...)
		}
	case map[string]any:
		for _, x := range v {
			list = append(list, stringsOf(x)...)
		}
	}
	return list
}

// BenchmarkEvents is how fast the texts of a trajectory are taken, and BenchmarkFind how
// fast all that may be kept is searched.
func BenchmarkEvents(b *testing.B) {
	var data []byte
	for i := range 1000 {
		data = fmt.Appendf(data, `{"at":%d,"payload":{"bytes":400,"digest":"blake3:%064d","output":{"bytes":420,"digest":"blake3:%064d","head":"Note %d. %s"}},"prev":"sha256:%064d","seq":%d,"turn":1,"type":"model_call_completed"}`+"\n",
			i, i, i, i, strings.Repeat("The lift stops between the floors now and then. ", 8), i, i)
	}
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		x := &Builder{survey: &Survey{}, seed: maphash.MakeSeed(), seen: map[uint64]bool{}}
		t := &taker{b: x, room: MaxCaseBytes << 10}
		t.events(data)
		x.survey.texts.add(0, x.folded)
	}
}

func BenchmarkFind(b *testing.B) {
	var x texts
	text := []byte(strings.Repeat("the lift stops between the floors now and then. ", 50))
	for place := range MaxBytes / len(text) {
		x.add(place, text)
	}
	found := make([]bool, MaxBytes/len(text))
	b.SetBytes(x.size)
	for b.Loop() {
		x.find([]byte("the lift stops between the stairs"), found)
	}
}
