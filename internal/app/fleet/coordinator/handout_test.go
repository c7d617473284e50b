package coordinator

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/harness"
	"tallystick/internal/run/scenario"
	"tallystick/internal/run/session"
	"tallystick/internal/run/wire"
)

// told are the members of a case that a worker is told of: what the agent is asked
// and given, and what the tools that the worker executes answer. A developer who adds to
// this list tells every machine that may be a worker.
var told = []string{
	"ID",
	"Files.Path", "Files.Data",
	"Scenario.Start", "Scenario.Turns.Text", "Scenario.AgentTools",
	"Scenario.Approvals.Action", "Scenario.Approvals.Name", "Scenario.Approvals.Note",
	"Scenario.Memory.Tier", "Scenario.Memory.Key", "Scenario.Memory.Value",
	"Cassette.agent",
}

// A class with everything that a case can have, each text of which is a word that
// stands nowhere else. In the bytes that a worker can get are the words of told, those
// of tools, and no other.
func TestAHandoutTellsOnlyWhatIsListed(t *testing.T) {
	y := newYard(t)
	marks := &marker{at: map[string]string{}}
	c := &scenario.Task{}
	marks.fill(reflect.ValueOf(c).Elem(), "")
	c.Cassette = bench.CassetteOf(marks.cassette(t))
	c.Scenario.Test = &scenario.Test{Command: []string{marks.word("Scenario.Test.Command")}, MustPass: []string{marks.word("Scenario.Test.MustPass")}}
	if len(c.Scenario.Model) == 0 || len(c.ExpectedFiles) == 0 || len(c.Tests) == 0 || c.Grading == nil {
		t.Fatalf("the case lacks something: %+v", c)
	}
	for _, h := range []harness.Handout{
		{Case: c},
		{Case: c, Authored: session.NewScript(c.Scenario.RepliesFor(cassette.ForAgent))},
	} {
		out, blobs, err := y.c.handout(&claim{offer: &offer{ticket: "t"}, worker: &worker{}}, h)
		if err != nil {
			t.Fatal(err)
		}
		document, err := canon.Marshal(out)
		if err != nil {
			t.Fatal(err)
		}
		all := document
		for _, data := range blobs {
			all = append(append(all, '\n'), opened(t, data)...)
		}
		seen := map[string]bool{}
		for _, word := range regexp.MustCompile(`mark[0-9]+x`).FindAllString(string(all), -1) {
			seen[marks.at[word]] = true
		}
		for _, place := range slices.Sorted(maps.Keys(seen)) {
			if !slices.Contains(told, place) && !strings.HasPrefix(place, "Scenario.Tools.") {
				t.Errorf("a worker is told %s", place)
			}
		}
		for _, place := range told {
			if !seen[place] {
				t.Errorf("a worker is not told %s", place)
			}
		}
	}
}

// opened is a blob as text; a cassette is compressed.
func opened(t *testing.T, data []byte) []byte {
	c, err := cassette.Parse(data, cassette.Limits{})
	if err != nil {
		return data
	}
	text, err := canon.Marshal(c.Interactions)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// A marker puts a word of its own into every text of a value, and remembers where.
type marker struct{ at map[string]string }

func (m *marker) word(place string) string {
	word := fmt.Sprintf("mark%dx", len(m.at))
	m.at[word] = place
	return word
}

func (m *marker) fill(v reflect.Value, place string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(m.word(place))
	case reflect.Pointer:
		if v.Type() == reflect.TypeFor[*bench.Cassette]() || v.Type() == reflect.TypeFor[*scenario.Test]() || v.Type() == reflect.TypeFor[*digest.Content]() {
			return // these have their own
		}
		v.Set(reflect.New(v.Type().Elem()))
		m.fill(v.Elem(), place)
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[canon.RawMessage]() {
			v.SetBytes([]byte(`"` + m.word(place) + `"`))
			return
		}
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte(m.word(place)))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		m.fill(v.Index(0), place)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		m.fill(key, place)
		m.fill(value, place)
		v.SetMapIndex(key, value)
	case reflect.Interface:
		v.Set(reflect.ValueOf(m.word(place)))
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				m.fill(v.Field(i), strings.TrimPrefix(place+"."+f.Name, "."))
			}
		}
	}
}

// cassette has a call of each party, an unmarked one of a judge among them.
func (m *marker) cassette(t *testing.T) []byte {
	t.Helper()
	call := func(api wire.API, place, words string, party cassette.Purpose) cassette.Interaction {
		request, err := cassette.ModelRequest(api, []byte(`{"model":"`+m.word(place)+`","messages":[{"role":"user","content":"`+words+`"}]}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		return cassette.Interaction{Purpose: party, Model: &cassette.ModelCall{API: api, Request: request.Canonical(), Response: cassette.Response{Status: 200, Body: canon.RawMessage(`{"said":"` + m.word(place) + `"}`)}}}
	}
	c, err := cassette.New(cassette.Authored, nil, 0, []cassette.Interaction{
		call(wire.OpenAIChat, "Cassette.agent", "hello", ""),
		call(wire.OpenAIChat, "Cassette.judge", "hello", cassette.ForJudge),
		call(wire.OpenAIChat, "Cassette.judge.unmarked", cassette.JudgeMark+"claims:0:begin=====", ""),
		call(wire.Embeddings, "Cassette.vectors", "hello", ""),
	})
	if err != nil {
		t.Fatal(err)
	}
	data, err := c.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(opened(t, data), []byte("claims")) {
		t.Fatal("the cassette is not read")
	}
	return data
}
