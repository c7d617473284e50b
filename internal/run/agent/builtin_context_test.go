package agent

import (
	"fmt"
	"strings"
	"testing"

	"tallystick/internal/record/refusal"
	"tallystick/internal/run/scenario"
	"tallystick/internal/run/tools"
	"tallystick/internal/run/trajectory"
)

// long is a case of many turns, with a fact in the first that the last asks for.
func long(turns int, budget int64) trial {
	target := remembering
	target.System = "You help."
	target.Context = &ContextSize{Window: 4 * budget, Budget: budget}
	b := &box{}
	b.add(look, `"`+strings.Repeat("data ", 60)+`"`)
	tr := trial{target: target, box: b}
	for i := range turns {
		tr.turns = append(tr.turns, fmt.Sprintf("turn %d: tell me about topic %d", i+1, i*7))
		switch {
		case i == 0:
			tr.say = append(tr.say, write("semantic", "locker-code", "4711", ""), text("noted"))
		case i == 20:
			tr.say = append(tr.say, write("semantic", "locker-code", "0815", `,"supersedes":"m1"`), text("changed"))
		case i%5 == 4:
			tr.say = append(tr.say, want("look", fmt.Sprintf(`{"topic":%d}`, i)), text("looked"))
		default:
			tr.say = append(tr.say, text(fmt.Sprintf("answer %d %s", i, strings.Repeat("word ", i%40))))
		}
	}
	tr.turns[turns-1] = "What is the locker code?"
	return tr
}

func TestLongCasesKeepTheirBudgetAndTheirFacts(t *testing.T) {
	for _, turns := range []int{60, 200} {
		r := long(turns, 1500).must(t)
		compiled := 0
		for _, e := range r.events {
			p, ok := e.Payload.(*trajectory.ContextCompiled)
			if !ok {
				continue
			}
			if p.Used > p.Budget {
				t.Fatalf("turn %d used %d of %d", e.Turn, p.Used, p.Budget)
			}
			if size := int64(len(r.requests[compiled])); size > 4*p.Used {
				t.Fatalf("turn %d: the request has %d bytes, the event says %d tokens", e.Turn, size, p.Used)
			}
			compiled++
		}
		if compiled != len(r.requests) {
			t.Errorf("%d contexts for %d model calls", compiled, len(r.requests))
		}
		has(t, r.last(t), "locker-code: 0815")
		lacks(t, r.last(t), "4711")
		if compression := strings.Join(r.state.Context.Compression, "; "); !strings.HasPrefix(compression, "dropped turns 1 to ") {
			t.Errorf("compression %q", compression)
		}
		if r.state.Peak < 1000 {
			t.Errorf("the budget of 1500 was hardly used: %d", r.state.Peak)
		}
	}
}

func TestHistoryIsWholeWhileItFits(t *testing.T) {
	r := long(20, 40_000).must(t)
	if len(r.state.Context.Compression) != 0 {
		t.Errorf("compression %q", r.state.Context.Compression)
	}
	for i := range 19 {
		has(t, r.last(t), fmt.Sprintf("turn %d: ", i+1))
	}
}

func TestOldTurnsAreShortenedBeforeTheyAreDropped(t *testing.T) {
	b := &box{}
	b.add(look, `"found it"`)
	var tr trial
	tr.target.Context, tr.box = &ContextSize{Window: 4000, Budget: 1000}, b
	for i := range 12 {
		tr.turns = append(tr.turns, fmt.Sprintf("question %d %s", i+1, strings.Repeat("q", 600)))
		tr.say = append(tr.say, want("look", `{}`), text(fmt.Sprintf("answer %d %s", i+1, strings.Repeat("a", 600))))
	}
	r := tr.must(t)
	if got := strings.Join(r.state.Context.Compression, "; "); got != "dropped turns 1 to 8; shortened turns 9 to 10" {
		t.Errorf("compression %q", got)
	}
	has(t, r.last(t), `question 9 `+strings.Repeat("q", 189)+` [cut: 411 of 611 bytes left out]`)
	has(t, r.last(t), `answer 9 `+strings.Repeat("a", 191)+` [cut: 409 of 609 bytes left out]`)
	has(t, r.last(t), "question 12 "+strings.Repeat("q", 600))
	lacks(t, r.last(t), "question 8 ")
	if n := strings.Count(r.last(t), "found it"); n != 2 {
		t.Errorf("the calls of %d turns are there, expected those of this turn and of the one before", n)
	}
}

func TestResultsOfALongTurnAreCut(t *testing.T) {
	b := &box{}
	b.add(look, `"`+strings.Repeat("x", 5000)+`"`)
	r := trial{target: Builtin{Context: &ContextSize{Window: 8000, Budget: 2000}}, box: b, say: []said{want("look", `{"n":1}`), want("look", `{"n":2}`), text("ok")}}.must(t)
	has(t, r.last(t), "[cut: 4602 of 5002 bytes left out]")
	has(t, r.last(t), strings.Repeat("x", 5000)) // the newer one is whole
	if got := r.state.Context.Compression; len(got) != 1 || got[0] != "cut the tool results of 1 steps of this turn" {
		t.Errorf("compression %q", got)
	}
}

func TestARunWithoutRoomForItsTaskFails(t *testing.T) {
	r := trial{target: Builtin{Context: &ContextSize{Window: 1000, Budget: 100}}, turns: []string{strings.Repeat("x", 500)}}.drive(t)
	if !refusal.Is(r.err, refusal.AgentFailed) || len(r.requests) != 0 || r.count("error:context_over_budget") != 1 {
		t.Errorf("err %v after %d requests, events %v", r.err, len(r.requests), r.types())
	}
	if r.err != nil && !strings.Contains(r.err.Error(), "the budget is 100") {
		t.Errorf("err %v", r.err)
	}
}

func TestMemoryTakesAQuarterOfTheBudgetAtMost(t *testing.T) {
	var known []scenario.Memory
	for i := range 40 {
		known = append(known, scenario.Memory{Tier: "procedural", Key: fmt.Sprintf("rule-%d", i), Value: strings.Repeat("v", 100)})
	}
	for _, system := range []string{"", "Some text."} {
		for _, api := range apis {
			r := trial{target: Builtin{API: api, System: system, Context: &ContextSize{Window: 4000, Budget: 1600}}, memory: known, say: []said{text("ok")}}.must(t)
			p := r.state.Context
			if p.Sections["memory"] > 400 || p.Sections["memory"] < 300 {
				t.Errorf("%s: memory has %d tokens of 1600", api, p.Sections["memory"])
			}
			if len(p.Compression) != 1 || p.Compression[0] != fmt.Sprintf("left out %d memory entries", 40-len(p.Admitted)) {
				t.Errorf("%s: compression %q with %d admitted", api, p.Compression, len(p.Admitted))
			}
		}
	}
}

func TestALongValueIsCutInThePrompt(t *testing.T) {
	r := trial{memory: []scenario.Memory{{Tier: "semantic", Key: "k", Value: strings.Repeat("v", 3000)}}, say: []said{text("ok")}}.must(t)
	has(t, r.last(t), "[cut: 1976 of 3000 bytes left out]")
	lacks(t, r.last(t), strings.Repeat("v", 1025))
}

func TestCompilingIsLinearInTheContextAndNotInTheCase(t *testing.T) {
	// What a request is made of is encoded once: the messages of the second to
	// last request begin the last one.
	r := long(30, 60_000).must(t)
	a, b := r.requests[len(r.requests)-2], r.last(t)
	if i := strings.Index(a, `{"content":"turn 29`); !strings.HasPrefix(b, a[:i]) {
		t.Error("the history of a turn changed though nothing was compressed")
	}
}

func BenchmarkOneTurn(b *testing.B) { benchmark(b, trial{say: []said{text("In Oslo.")}}) }

func BenchmarkToolCallAndMemory(b *testing.B) {
	bx := &box{}
	bx.add(look, `"Oslo"`)
	bx.add(tools.Definition{Name: "other", Class: "read", Description: "Another."}, `1`)
	benchmark(b, trial{target: remembering, box: bx, memory: []scenario.Memory{{Tier: "semantic", Key: "city", Value: "Oslo"}}, say: []said{want("look", `{"q":"x"}`), text("In Oslo.")}})
}

func Benchmark200Turns(b *testing.B) { benchmark(b, long(200, 4000)) }
