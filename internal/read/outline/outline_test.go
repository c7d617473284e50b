package outline

import (
	"fmt"
	"strings"
	"testing"

	"tallystick/internal/run/trajectory"
)

func moves(words ...string) *Outline {
	o := &Outline{}
	for _, w := range words {
		m := Move{Turn: 1}
		for i, word := range strings.SplitN(w, " ", 4) {
			*[]*string{&m.Kind, &m.What, &m.Detail, &m.Outcome}[i] = word
		}
		o.Moves = append(o.Moves, m)
	}
	return o
}

func TestDifferencesAreNamed(t *testing.T) {
	for _, c := range []struct {
		name        string
		golden, got []string
		structure   string
		behaviour   string
	}{
		{"nothing", []string{"call a {} gave x"}, []string{"call a {} gave x"}, "", ""},
		{"a result", []string{"call a {} gave x"}, []string{"call a {} gave y"}, "", "changed_result"},
		{"arguments", []string{"call a {1} gave x"}, []string{"call a {2} gave x"}, "changed_arguments", "changed_arguments"},
		{"denied", []string{`call a {} policy "allow"`}, []string{`call a {} policy "deny"`}, "", "denied"},
		{"a question to a person, and no", []string{`call a {} policy "allow"`}, []string{"call a {} policy \"escalate\"\nasked\nanswered approved false\npolicy \"deny\""}, "", "denied"},
		{"a question to a person, and yes", []string{`call a {} policy "allow"`}, []string{"call a {} policy \"escalate\"\nasked\nanswered approved true\npolicy \"allow\""}, "", "changed_verdict"},
		{"permitted", []string{`call a {} policy "deny"`}, []string{`call a {} policy "allow"`}, "", "changed_verdict"},
		{"a denied write", []string{"memory k  wants 1\npolicy \"allow\"\nwritten"}, []string{"memory k  wants 1\npolicy \"deny\""}, "", "denied"},
		{"one less", []string{"call a {} x", "call b {} x"}, []string{"call b {} x"}, "missing", "missing"},
		{"one more", []string{"call b {} x"}, []string{"call b {} x", "call a {} x"}, "new", "new"},
		{"the same again", []string{"call b {} x"}, []string{"call b {} x", "call b {} x"}, "new", "new"},
		{"another order", []string{"call a {} x", "call b {} x"}, []string{"call b {} x", "call a {} x"}, "reordered", "reordered"},
		{"another tool", []string{"call a {} x"}, []string{"call b {} x"}, "replaced", "replaced"},
		{"another answer", []string{"answer   said x"}, []string{"answer   said y"}, "", "changed_answer"},
		{"another end", []string{"end completed"}, []string{"end failed"}, "", "changed_fields"},
		{"memory", []string{"memory k  wants x"}, []string{"memory k  wants y"}, "", "changed_memory"},
		{"a description", []string{"offer a  is 1"}, []string{"offer a  is 2"}, "", "changed_tools"},
		{"a class of a tool", []string{"call a {} wants class 1"}, []string{"call a {} wants class 2"}, "", "changed_fields"},
		{"an error", []string{"model m  asked"}, []string{"model m  asked\nerror name \"status 500\""}, "", "changed_fields"},
		{"a violation", []string{"call a {} gave 1"}, []string{"call a {} gave 1\nviolation \"x\""}, "", "changed_verdict"},
		// Only the two that changed are told, whatever lies between them.
		{"two of many", []string{"call a {1} x", "call b {} x", "call c {} x", "call d {1} x"}, []string{"call a {2} x", "call b {} x", "call c {} x", "call d {2} x"}, "changed_arguments changed_arguments", "changed_arguments changed_arguments"},
	} {
		for level, want := range map[Level]string{Structure: c.structure, Behaviour: c.behaviour} {
			var got []string
			for _, d := range Compare(moves(c.golden...), moves(c.got...), level) {
				got = append(got, string(d.Change))
			}
			if strings.Join(got, " ") != want {
				t.Errorf("%s, %s: %v, expected %q", c.name, level, got, want)
			}
		}
	}
}

func TestMissingMovesStandInTheirTurn(t *testing.T) {
	golden := &Outline{Moves: []Move{{Turn: 1, Kind: call, What: "a"}, {Turn: 3, Kind: call, What: "c"}}}
	got := &Outline{Moves: []Move{{Turn: 3, Kind: call, What: "c"}, {Turn: 3, Kind: call, What: "d"}}}
	list := Compare(golden, got, Structure)
	if len(list) != 2 || list[0].Change != trajectory.Missing || list[0].Turn() != 1 || list[1].Change != trajectory.New {
		t.Errorf("%+v", list)
	}
}

func TestPromptsOfEveryModel(t *testing.T) {
	a := &Outline{Prompts: []Prompt{{Model: "m", Text: "be kind"}, {Model: "old", Text: "x"}, {Model: "long", Text: "same", Rest: "1"}}}
	b := &Outline{Prompts: []Prompt{{Model: "m", Text: "be brief"}, {Model: "new", Text: "x"}, {Model: "long", Text: "same", Rest: "2"}}}
	var got []string
	for _, p := range Prompts(a, b) {
		got = append(got, p.Model+": "+p.Words)
	}
	want := "m: be [-kind-] {+brief+}\nold: is not asked any more\nlong: it differs after the first 4 bytes\nnew: is asked now, and was not"
	if strings.Join(got, "\n") != want {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
	if len(Prompts(a, a)) != 0 {
		t.Error("the same prompts differ")
	}
}

// TestFilesReadBack: what is written is read as it was, and nothing else is read.
func TestFilesReadBack(t *testing.T) {
	o := sixtyTurns()
	file := o.Format()
	if len(file) > 30<<10 {
		t.Errorf("a case of 60 turns takes %d bytes, expected at most 30 KB", len(file))
	}
	again, err := Parse(file)
	if err != nil || len(Compare(o, again, Behaviour)) != 0 || len(Prompts(o, again)) != 0 || string(again.Format()) != string(file) {
		t.Fatalf("%v", err)
	}
	for name, bad := range map[string]string{
		"an empty file":     "",
		"another version":   strings.Replace(string(file), "v3", "v2", 1),
		"a blank more":      strings.Replace(string(file), "call ", "call  ", 1),
		"no turn":           header + "\ncall \"a\"\n",
		"an outcome first":  header + "\nturn 1\n    gave 1\n",
		"a text first":      header + "    \"x\"\n",
		"a negative turn":   header + "\nturn -1\ncall \"a\"\n",
		"carriage returns":  strings.ReplaceAll(string(file), "\n", "\r\n"),
		"half a text":       header + "\nprompt \"m\n",
		"text after a text": header + "\nprompt \"m\"\n    \"x\" y\n",
	} {
		if _, err := Parse([]byte(bad)); err == nil {
			t.Errorf("%s is read", name)
		}
	}
}

func sixtyTurns() *Outline {
	o := &Outline{Prompts: []Prompt{{Model: "gpt", Text: strings.Repeat("You are an assistant.\nBe \u202e kind.\n", 50), Rest: "blake3:x, 9 bytes"}}}
	for turn := 1; turn <= 60; turn++ {
		o.Moves = append(o.Moves,
			Move{turn, call, "search", `{"limit":10,"query":"something that is ` + fmt.Sprint(turn) + ` words long"}`, `gave "a result of some length that stands here as it is, up to a hundred bytes"`},
			Move{turn, answer, "", "", `"An answer of the assistant, with what it found and what it would do next about it. \u202e"`})
	}
	return o
}

func FuzzParse(f *testing.F) {
	f.Add(sixtyTurns().Format())
	f.Add([]byte(header + "\nturn 1\ncall \"a\" {}\n    gave 1\nend \"completed\"\n"))
	f.Fuzz(func(t *testing.T, file []byte) {
		o, err := Parse(file)
		if err == nil && len(Compare(o, o, Behaviour)) != 0 {
			t.Error("an outline differs from itself")
		}
	})
}

// BenchmarkCompare compares a thousand pairs of outlines of 200 moves.
func BenchmarkCompare(b *testing.B) {
	golden, got := &Outline{}, &Outline{}
	for i := range 200 {
		m := Move{i / 4, call, fmt.Sprint("tool", i%7), fmt.Sprintf(`{"n":%d}`, i), "gave 1"}
		golden.Moves = append(golden.Moves, m)
		if i%20 == 0 {
			m.Detail = "{}"
		}
		if i%33 != 0 {
			got.Moves = append(got.Moves, m)
		}
	}
	for b.Loop() {
		for range 1000 {
			Compare(golden, got, Structure)
		}
	}
}
