package step

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tallystick/internal/record/canon"
)

var update = flag.Bool("update", false, "write the table of docs/formats/submission.md")

var kinds = []string{Prompt, Model, Call, Result}

// written are the members of a type as they stand in a file.
func written(t reflect.Type) (names []string) {
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}

// TestEveryMemberIsWrittenListedAndVerified: the writer's type, the table that the
// reader and the page go by, and the second verifier have the same members. One that
// is added in one place only fails here.
func TestEveryMemberIsWrittenListedAndVerified(t *testing.T) {
	var own, others []string
	for _, m := range Members() {
		if m.Of == nil {
			others = append(others, m.Name)
		} else {
			own = append(own, m.Name)
		}
	}
	same := func(what string, got, want []string) {
		t.Helper()
		got, want = slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q\nexpected %q", what, got, want)
		}
	}
	same("members that a Step is written with", written(reflect.TypeFor[Step]()), own)
	script, err := os.ReadFile("../../../docs/formats/verify_submission.py")
	if err != nil {
		t.Fatal(err)
	}
	same("STEP_MEMBERS of verify_submission.py", tuple(t, string(script), "STEP_MEMBERS"), own)
	same("OTHERS_MEMBERS of verify_submission.py", tuple(t, string(script), "OTHERS_MEMBERS"), others)
	same("members of gold_hits", written(reflect.TypeFor[Hits]()), []string{"scanned", "offsets", "count", "question"})
}

func tuple(t *testing.T, script, name string) (names []string) {
	_, rest, ok := strings.Cut(script, "\n"+name+" = (")
	list, _, ok2 := strings.Cut(rest, ")")
	if !ok || !ok2 {
		t.Fatalf("verify_submission.py has no %s", name)
	}
	for _, m := range regexp.MustCompile(`"(\w+)"`).FindAllStringSubmatch(list, -1) {
		names = append(names, m[1])
	}
	return names
}

// value is what a test writes for a member.
func valueOf(name string, rng *rand.Rand) any {
	words := []string{"north", "west", "éa", "4 2", "a\"b", ""}
	word := fmt.Sprintf("%s%d", words[rng.IntN(len(words))], rng.IntN(1000))
	switch name {
	case "turn", "bytes", "input_bytes", "tokens_in", "tokens_out":
		return 1 + rng.IntN(1_000_000)
	case "truncated", "head_truncated", "redacted", "salted", "lossy", "input_truncated", "input_redacted", "input_salted", "input_lossy", "is_error":
		return true
	case "gold_hits", "input_gold_hits":
		return Hits{Scanned: true, Offsets: []int64{rng.Int64N(100), 100 + rng.Int64N(100)}}
	case "args":
		return map[string]any{"k" + word: word}
	case "vantage":
		return []string{Executed, Reported, Proposed}[rng.IntN(3)]
	}
	return word
}

// read writes a step as JSON and reads it back.
func read(t *testing.T, step map[string]any) View {
	t.Helper()
	line, err := json.Marshal(map[string]any{"task_id": "t", "steps": []any{step}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := Read(line, &Arena{})
	if err != nil || len(got.Steps) != 1 {
		t.Fatalf("%s: %v", line, err)
	}
	return got.Steps[0]
}

// TestEachMemberIsReadOrSaidNotToBe sets one member after the other: what the table
// says a check reads changes what is read, and nothing else does.
func TestEachMemberIsReadOrSaidNotToBe(t *testing.T) {
	rng := rand.New(rand.NewPCG(29, 3))
	for _, m := range Members() {
		of := m.Of
		if of == nil {
			of = []string{Result}
		}
		for _, kind := range of {
			step := map[string]any{"type": kind, "head": "the head", "bytes": 8, "input": "the input"}
			if kind == Call {
				delete(step, "head")
				delete(step, "bytes")
			}
			before := read(t, step)
			step[m.Name] = valueOf(m.Name, rng)
			if m.Name == "type" {
				step["type"] = "another"
			}
			changed := !reflect.DeepEqual(before, read(t, step))
			if changed != (m.take != nil) {
				t.Errorf("%s of a %s: read %t, the table says %t", m.Name, kind, changed, m.take != nil)
			}
		}
	}
}

// TestAHeadIsNotTakenForTheWhole: a text that may be longer is cut.
func TestAHeadIsNotTakenForTheWhole(t *testing.T) {
	const digest = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae" // of foo
	for _, tt := range []struct {
		name        string
		step        map[string]any
		given, cut  bool
		seen, whole bool
	}{
		{"the whole", map[string]any{"output": "foo"}, true, false, true, true},
		{"an empty text", map[string]any{"output": ""}, true, false, true, true},
		{"a head with its length", map[string]any{"head": "foo", "bytes": 3}, true, false, true, true},
		{"a head with the digest of the whole", map[string]any{"head": "foo", "output_sha256": digest}, true, false, true, true},
		{"a head alone", map[string]any{"head": "foo"}, true, true, false, false},
		{"a head of a longer text", map[string]any{"head": "foo", "bytes": 4}, true, true, false, false},
		{"an output of a longer text", map[string]any{"output": "foo", "bytes": 4}, true, true, false, false},
		{"a cut head that was looked through", map[string]any{"head": "foo", "bytes": 4, "gold_hits": map[string]any{"scanned": true, "offsets": []int{}}}, true, true, true, false},
		{"a recorder that lists nothing", map[string]any{"head": "foo", "bytes": 4, "gold_hits": map[string]any{"scanned": true}}, true, true, false, false},
		{"a digest", map[string]any{"output_sha256": digest, "bytes": 3}, false, false, false, false},
		{"a digest and the recorder's word", map[string]any{"output_sha256": digest, "gold_hits": map[string]any{"scanned": true, "offsets": []int{}}}, false, false, false, false},
		{"null", map[string]any{"output": nil}, false, false, false, false},
	} {
		tt.step["type"] = Result
		s := read(t, tt.step).Shown
		if s.Given != tt.given || s.Cut != tt.cut || s.Seen() != tt.seen || s.Whole() != tt.whole {
			t.Errorf("%s: given %t, cut %t, seen %t, whole %t", tt.name, s.Given, s.Cut, s.Seen(), s.Whole())
		}
	}
}

// TestStepsAreReadAsTheyAreWritten writes steps with every member of their type, by
// the writer's type, and reads them back: each text with its own digest, length,
// marks and places of the answer.
func TestStepsAreReadAsTheyAreWritten(t *testing.T) {
	rng := rand.New(rand.NewPCG(29, 4))
	for range 2000 {
		kind := kinds[rng.IntN(len(kinds))]
		members := map[string]any{}
		for _, m := range Members() {
			if slices.Contains(m.Of, kind) && (m.Name == "type" || rng.IntN(4) > 0) {
				members[m.Name] = valueOf(m.Name, rng)
			}
		}
		members["type"] = kind
		data, err := json.Marshal(members)
		if err != nil {
			t.Fatal(err)
		}
		var s Step
		if err := json.Unmarshal(data, &s); err != nil {
			t.Fatal(err)
		}
		line, err := canon.Marshal(&Line{TaskID: "t", Repeat: 1, Submitted: true, Steps: []*Step{&s}})
		if err != nil {
			t.Fatal(err)
		}
		got, err := Read(line, &Arena{})
		if err != nil || got.ID != "t" || got.Repeat != 1 || !got.Submitted || len(got.Steps) != 1 {
			t.Fatalf("%s: %+v, %v", line, got, err)
		}
		v := got.Steps[0]
		if v.Kind != kind || v.Name != s.Name || v.Vantage != s.Vantage || string(v.URL) != s.URL || v.Failed != s.IsError {
			t.Fatalf("%s\nread as %+v", line, v)
		}
		main, input := &v.Shown, &v.Said
		if kind == Model {
			main, input = &v.Said, &v.Shown
		}
		if kind != Call {
			same(t, line, main, s.Bytes, s.Truncated, s.Salted, s.ContentSHA256+s.OutputSHA256, s.GoldHits, s.Content, s.Output, s.Head)
		}
		if kind == Model || kind == Call {
			var text *string
			if said, ok := s.Input.(string); ok {
				text = &said
			}
			same(t, line, input, s.InputBytes, s.InputTruncated, s.InputSalted, s.InputSHA256, s.InputGoldHits, text)
		}
	}
}

func same(t *testing.T, line []byte, got *Text, bytes *int64, cut, salted bool, sha string, hits *Hits, texts ...*string) {
	t.Helper()
	wantBytes := int64(-1)
	if bytes != nil {
		wantBytes = *bytes
	}
	var offsets []int64
	if hits != nil {
		offsets = hits.Offsets
	}
	if got.Bytes != wantBytes || cut && !got.Cut || got.Salted != salted || got.SHA256 != sha || got.Scanned != (hits != nil) || !slices.Equal(got.Hits, offsets) {
		t.Fatalf("%s\nread as %+v", line, got)
	}
	for _, text := range texts {
		if text != nil && !strings.Contains(string(got.Text), *text) {
			if len(texts) > 1 && text == texts[len(texts)-1] && (texts[0] != nil || texts[1] != nil) {
				continue // a head beside the text itself
			}
			t.Fatalf("%s\nread as %q, without %q", line, got.Text, *text)
		}
	}
}

// TestAMarkForBothTextsCutsBoth: a recorder that has one mark may mean either.
func TestAMarkForBothTextsCutsBoth(t *testing.T) {
	for name, tt := range map[string]struct {
		step        map[string]any
		shown, said bool
	}{
		"one mark":            {map[string]any{"type": Model, "input": "a", "output": "b", "truncated": true}, true, true},
		"each has its own":    {map[string]any{"type": Model, "input": "a", "output": "b", "truncated": true, "input_truncated": false}, false, true},
		"the request":         {map[string]any{"type": Model, "input": "a", "output": "b", "input_truncated": true}, true, false},
		"a call":              {map[string]any{"type": Call, "input": "a", "truncated": true}, false, true},
		"an argument's mark":  {map[string]any{"type": Call, "args": map[string]any{"a": "x…[truncated 9 bytes]", "b": strings.Repeat("y", 99)}}, false, true},
		"a length":            {map[string]any{"type": Result, "head": "a", "bytes": 2}, true, false},
		"a length and a text": {map[string]any{"type": Result, "head": "a", "output": "ab", "bytes": 2}, false, false},
	} {
		if v := read(t, tt.step); v.Shown.Cut != tt.shown || v.Said.Cut != tt.said {
			t.Errorf("%s: shown cut %t, said cut %t", name, v.Shown.Cut, v.Said.Cut)
		}
	}
}

const page = "../../../docs/formats/submission.md"

// TestStepPage holds the table of the page to the schema.
func TestStepPage(t *testing.T) {
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- steps: generated by make docs -->\n", "<!-- end of the steps -->"
	before, rest, ok := strings.Cut(string(data), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the steps", page)
	}
	text := before + begin + stepTable() + end + after
	if text == string(data) {
		return
	}
	if !*update {
		t.Fatalf("%s is not the schema; run \"go test ./internal/read/step -run StepPage -update\" and read the diff", page)
	}
	if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func stepTable() string {
	var b strings.Builder
	b.WriteString("| Member | Of | Means | Read by the audit |\n|---|---|---|---|\n")
	for _, m := range Members() {
		of, read := "`"+strings.Join(m.Of, "`, `")+"`", "yes"
		switch {
		case m.Of == nil:
			of = "other recorders"
		case len(m.Of) == len(kinds):
			of = "all"
		}
		if m.take == nil {
			read = ""
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.Name, of, m.Means, read)
	}
	return b.String()
}
