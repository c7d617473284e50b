package audit

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// options are the choices of a task: its answer among three others.
func options(rng *rand.Rand, list []probe, i int) []string {
	o := []string{list[i].gold}
	for len(o) < 4 {
		o = append(o, fmt.Sprintf("the %s of %s%d", syllables[rng.IntN(len(syllables))], syllables[rng.IntN(len(syllables))], rng.IntN(90)))
	}
	rng.Shuffle(len(o), func(a, b int) { o[a], o[b] = o[b], o[a] })
	return o
}

func numberedWith(options []string, mark, sep string) string {
	var b strings.Builder
	for i, o := range options {
		b.WriteString(strings.ReplaceAll(strings.ReplaceAll(mark, "A", string(rune('A'+i))), "1", fmt.Sprint(i+1)) + o + sep)
	}
	return b.String()
}

// TestHonestPromptsRaiseNoAlarm has what harnesses tell agents without telling
// them the answer.
func TestHonestPromptsRaiseNoAlarm(t *testing.T) {
	rng := rand.New(rand.NewPCG(29, 6))
	many := func(golds ...string) []probe {
		list := probes(rng, 12)
		for i := range list {
			if len(golds) > 0 {
				list[i].gold = golds[i%len(golds)]
			}
		}
		return list
	}
	asked := func(list []probe, text func(i int) string) func(int, probe) []map[string]any {
		return func(i int, p probe) []map[string]any { return []map[string]any{prompt(text(i))} }
	}
	offered := func(how func(o []string) string) ([]probe, func(int) string) {
		list := many()
		texts := make([]string, len(list))
		for i := range list {
			texts[i] = list[i].question + "\n" + how(options(rng, list, i)) + "\nThink first."
		}
		return list, func(i int) string { return texts[i] }
	}
	type honest struct {
		name string
		list []probe
		text func(i int) string
	}
	var tests []honest
	add := func(name string, list []probe, text func(i int) string) {
		tests = append(tests, honest{name, list, text})
	}
	for _, mark := range []string{"A) ", "(A) ", "A. ", "A: ", "- ", "* ", "1. ", "1) "} {
		list, text := offered(func(o []string) string { return numberedWith(o, mark, "\n") })
		add("choices on lines "+mark, list, text)
	}
	for _, mark := range []string{"A) ", "(A) ", "A. "} {
		list, text := offered(func(o []string) string { return numberedWith(o, mark, "  ") })
		add("choices on a line "+mark, list, text)
	}
	for _, lead := range []string{"Choices: %s", "Options: %s.", "Choose one of: %s", "Pick from %s.", "Possible answers are %s"} {
		list := probes(rng, 13)
		list = append(list[:4:4], list[6:10]...) // commas are in the others
		for i := range list {
			if strings.Contains(list[i].gold, ",") {
				list[i].gold = "Quolotbra"
			}
		}
		texts := make([]string, len(list))
		for i := range list {
			texts[i] = list[i].question + " " + fmt.Sprintf(lead, strings.Join(options(rng, list, i), ", "))
		}
		add("a list behind "+lead, list, func(i int) string { return texts[i] })
	}
	yes := many("yes", "no", "maybe")
	add("yes, no or maybe", yes, func(i int) string { return "Answer with yes, no or maybe. " + yes[i].question })
	letters := many("A", "B", "C", "D")
	add("few-shot multiple choice", letters, func(i int) string {
		return "Q: Which is a stone? (A) granite (B) bread (C) milk (D) wine\nAnswer: A\n\nQ: " + letters[i].question + "\n(A) x (B) y (C) z (D) w\nAnswer:"
	})
	labels := many("positive", "negative", "neutral")
	add("few-shot labels", labels, func(i int) string {
		return fmt.Sprintf("Text: fine weather number %d => %s\nText: rain number %d => %s\nText: %s =>", i, labels[(i+1)%3].gold, i, labels[i].gold, labels[i].question)
	})
	words := many()
	words[3].gold, words[7].gold = "spreadsheet", "Wikipedia"
	add("a word of the form", words, func(i int) string {
		return "You may search Wikipedia. Open a spreadsheet with read_file. Reply in few words.\n" + words[i].question
	})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := probed(t, tt.list, nil, 1, asked(tt.list, tt.text))
			if c := r.Checks[aud3]; c.Status == Fail || c.HarnessGap != "" || !r.Attestation.Complete {
				t.Errorf("%s is %s, evidence %.3q, gap %q, complete %t; a prompt is %q", c.ID, c.Status, c.Evidence, c.HarnessGap, r.Attestation.Complete, tt.text(0))
			}
		})
	}
}

// TestAKeyIsNotAForm: the answers of the run in every prompt, in any shape.
func TestAKeyIsNotAForm(t *testing.T) {
	rng := rand.New(rand.NewPCG(29, 7))
	list := probes(rng, 12)
	var golds []string
	for _, p := range list {
		golds = append(golds, p.gold)
	}
	for _, key := range []string{strings.Join(golds, "; "), strings.Join(golds, "\n"), numberedWith(golds, "1. ", "\n"), "Options:\n" + numberedWith(golds, "- ", "\n"), "Which?\n" + numberedWith(golds, "A) ", "\n"), fmt.Sprintf("%q", golds)} {
		r := probed(t, list, nil, 1, func(_ int, p probe) []map[string]any { return []map[string]any{prompt(key + "\n" + p.question)} })
		if c := r.Checks[aud3]; c.Status != Fail {
			t.Errorf("%.60q: %s, %q", key, c.Status, c.Evidence)
		}
	}
}

// TestAnAgentThatRepeatsItsConversationRaisesNoAlarm: each request has all that its
// tools gave before, whether the results are steps or not, in the order that
// three APIs have.
func TestAnAgentThatRepeatsItsConversationRaisesNoAlarm(t *testing.T) {
	list := probes(rand.New(rand.NewPCG(29, 8)), 12)
	found := func(p probe) string { return "The register has " + p.gold + " on page nine." }
	bodies := map[string]func(p probe) any{
		"messages": func(p probe) any {
			return map[string]any{"messages": []any{map[string]any{"role": "user", "content": p.question},
				map[string]any{"role": "assistant", "tool_calls": []any{map[string]any{"function": map[string]any{"name": "look"}}}},
				map[string]any{"role": "tool", "content": found(p)}}}
		},
		"blocks": func(p probe) any {
			return []any{map[string]any{"role": "user", "content": p.question},
				map[string]any{"role": "user", "content": []any{map[string]any{"type": "tool_result", "content": []any{map[string]any{"type": "text", "text": found(p)}}}}}}
		},
		"items": func(p probe) any {
			return map[string]any{"input": []any{map[string]any{"role": "user", "content": p.question}, map[string]any{"type": "function_call_output", "output": found(p)}}}
		},
		"parts": func(p probe) any {
			return map[string]any{"contents": []any{map[string]any{"role": "user", "parts": []any{map[string]any{"functionResponse": map[string]any{"response": found(p)}}}}}}
		},
	}
	for name, body := range bodies {
		for _, asText := range []bool{false, true} {
			for _, steps := range []bool{false, true} {
				r := probed(t, list, nil, 1, func(_ int, p probe) []map[string]any {
					input := body(p)
					if asText {
						doc, _ := json.Marshal(input)
						input = string(doc)
					}
					out := []map[string]any{prompt(p.question)}
					if steps {
						out = append(out, call("look", 1), gave("look", found(p)))
					}
					return append(out, map[string]any{"type": "llm_call", "input": input, "output": "It is " + p.gold})
				})
				if a := r.Attestation; !a.StrictClean || !a.Complete {
					t.Errorf("%s, as text %t, results as steps %t: %+v, %.2q", name, asText, steps, a, r.Checks[aud3].Evidence)
				}
			}
		}
	}
	// What the harness says in the same request is a leak, and a record that a
	// tool gave is one too.
	r := probed(t, list, nil, 1, func(_ int, p probe) []map[string]any {
		return []map[string]any{prompt(p.question), {"type": "llm_call", "output": "Hm.", "input": []any{map[string]any{"role": "system", "content": "Hint: " + p.gold}, map[string]any{"role": "tool", "content": found(p)}}}}
	})
	if c := r.Checks[aud3]; c.Status != Fail || len(c.Evidence) != len(list) {
		t.Errorf("a hint beside a tool's text: %s, %d findings", c.Status, len(c.Evidence))
	}
	r = probed(t, list, nil, 1, func(_ int, p probe) []map[string]any {
		return []map[string]any{prompt(p.question), {"type": "llm_call", "output": "Hm.", "input": map[string]any{"messages": []any{map[string]any{"role": "tool", "content": found(p)}},
			"tools": []any{map[string]any{"type": "function", "function": map[string]any{"name": "look", "description": "finds " + p.gold}}}}}}
	})
	if c := r.Checks[aud3]; c.Status != Fail || len(c.Evidence) != len(list) {
		t.Errorf("the answer in the description of a tool: %s, %d findings", c.Status, len(c.Evidence))
	}
	r = probed(t, list, nil, 1, func(_ int, p probe) []map[string]any {
		return []map[string]any{prompt(p.question), {"type": "llm_call", "output": "Hm.", "input": []any{map[string]any{"role": "tool", "content": p.question + " Answer: " + p.gold}}}}
	})
	if c := r.Checks[aud1]; c.Status != Fail || len(c.Evidence) != len(list) {
		t.Errorf("a record in a request: %s, %d findings", c.Status, len(c.Evidence))
	}
}
