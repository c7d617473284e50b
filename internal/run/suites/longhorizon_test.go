package suites

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tallystick/internal/run/extract"
	"tallystick/internal/run/grade"
	"tallystick/internal/run/trajectory"
)

const longHorizon = "builtin:long-horizon"

var update = flag.Bool("update", false, "write the scenarios of builtin:long-horizon")

// A talk is a long conversation. Turns that say nothing else are filler, as
// people talk between two things that matter.
type talk struct {
	id, title, tags string
	turns           int
	said            map[int]string // what the user says in a turn that matters
	replies         []string       // of the authored model, before the filler
	tools           string
	logs            int // every so many turns the agent reads a long log
	checks          string
}

// remember is what the model does when it is told a fact.
func remember(turn int, key, value, supersedes, answer string) []string {
	args := fmt.Sprintf("tier: semantic, key: %s, value: %q", key, value)
	if supersedes != "" {
		args += ", supersedes: " + supersedes
	}
	return []string{
		fmt.Sprintf("  - when: {turn: %d}\n    tool_calls:\n      - {name: memory_write, args: {%s}}\n", turn, args),
		fmt.Sprintf("  - when: {turn: %d}\n    text: %q\n", turn, answer),
	}
}

// recall is what it answers when it is asked: the value, if a line of memory in
// the prompt has it.
func recall(turn int, key string, values ...string) []string {
	var replies []string
	for _, v := range values {
		replies = append(replies, fmt.Sprintf("  - when: {turn: %d, contains: %q}\n    text: %q\n", turn, key+": "+v, "It is "+v+"."))
	}
	return append(replies, fmt.Sprintf("  - when: {turn: %d}\n    text: I do not know that any more.\n", turn))
}

var chatter = []string{
	"The printer on the second floor is out of paper again; a client has taken the last packet and left the drawer open.",
	"I am going through the minutes of last week's meeting, and half of the points were moved to the next one as usual.",
	"A visitor asked whether the canteen has something without nuts today, and the cook at the counter could not say.",
	"The lift stops between the floors now and then. It has been reported twice, and each time a fitter came and found nothing.",
	"We have had three calls about the same delivery. The driver says that the gate was closed, the porter says that it was not.",
	"The heating in the east wing makes a noise like a kettle. It is warm, at least, which was different in the winter before.",
	"A tenant wants to know when the car park is painted, because then all of us have to leave the cars in the street.",
}

func (k *talk) scenario() string {
	var b strings.Builder
	b.WriteString("# Written by the test LongHorizonFiles of this package.\nversion: 1\nturns:\n")
	for n := 1; n <= k.turns; n++ {
		text := k.said[n]
		if text == "" {
			text = fmt.Sprintf("Note %d. %s", n, chatter[n%len(chatter)])
			if k.logs > 0 && n%k.logs == 0 {
				text = fmt.Sprintf("Note %d. Read the log of the door, please.", n)
			}
		}
		fmt.Fprintf(&b, "  - text: %q\n", text)
	}
	b.WriteString(k.tools)
	b.WriteString("model:\n")
	for _, r := range k.replies {
		b.WriteString(r)
	}
	if k.logs > 0 {
		for n := k.logs; n < k.turns; n += k.logs {
			if k.said[n] == "" {
				fmt.Fprintf(&b, "  - when: {turn: %d}\n    tool_calls:\n      - {name: read_log, args: {page: %d}}\n", n, n)
			}
		}
	}
	fmt.Fprintf(&b, "  - repeat: true\n    text: %q\n", "Noted. I have written it on the list for the house, between the things that wait for spare parts and the things that wait for the boss to decide, and I will come back to it when there is news or when you ask me for the list.")
	return b.String()
}

// Checks that several cases have.
const (
	withinBudget = `  - name: within-budget
    failure_mode: budget-exceeded
    grade: {kind: cel, always: true, expression: "size(context.over_budget) == 0"}
`
	// For each write that supersedes an entry: no retrieval after it has that
	// entry.
	nothingOld = `  - name: nothing-superseded-recalled
    failure_mode: old-fact-recalled
    extract:
      kind: cel
      expression: "events.filter(w, w.type == 'memory_written' && has(w.payload.supersedes)).all(w, events.all(r, r.seq < w.seq || r.type != 'memory_retrieved' || !(w.payload.supersedes in r.payload.entries)))"
    grade: {kind: exact, expected: true}
`
)

func knows(turn int, key, value string) string {
	return fmt.Sprintf(`  - name: %s-known-at-%d
    failure_mode: fact-forgotten
    grade: {kind: cel, at_turn: %d, expression: "memory.semantic['%s'] == '%s'"}
  - name: %s-told-at-%d
    failure_mode: fact-forgotten
    extract: {kind: turn_answer, turn: %d}
    grade: {kind: contains, expected: ["%s"]}
`, key, turn, turn, key, value, key, turn, turn, value)
}

func neverSays(turn int, value string) string {
	return fmt.Sprintf(`  - name: not-%s-at-%d
    failure_mode: old-fact-recalled
    grade: {kind: not, checks: [{name: says-%s-at-%d, extract: {kind: turn_answer, turn: %d}, grade: {kind: contains, expected: ["%s"]}}]}
`, strings.ToLower(value), turn, strings.ToLower(value), turn, turn, value)
}

func talks() []talk {
	const door = `tools:
  - name: read_log
    description: Reads a page of the log of the door.
    class: read
    schema: {type: object, properties: {page: {type: integer}}, required: [page]}
    default:
      result: "`
	entry := "07:58 Ana Berg in; 08:02 Bo Dahl in; 08:03 visitor in, no badge; 08:11 Cai Eng in; 08:15 delivery, gate two; 08:40 visitor out; "
	logs := door + strings.Repeat(entry, 20) + "end\"\n"

	return []talk{
		{id: "fact-after-50", title: "A fact of the first turn is known in turn 50", tags: "turns-50, memory", turns: 50,
			said:    map[int]string{1: "Remember this: the code of the archive is KESTREL-42.", 50: "What is the code of the archive?"},
			replies: slices.Concat(remember(1, "archive-code", "KESTREL-42", "", "I will remember it."), recall(50, "archive-code", "KESTREL-42")),
			checks:  knows(50, "archive-code", "KESTREL-42") + withinBudget},

		{id: "replaced-fact-after-50", title: "A fact that was replaced is not recalled in turn 50", tags: "turns-50, memory, superseded", turns: 50,
			said: map[int]string{2: "Remember this: the meeting is in room ASTER.", 20: "The meeting has moved: remember room BIRCH instead.",
				30: "Which room is the meeting in?", 50: "And which room was it, once more?"},
			replies: slices.Concat(remember(2, "meeting-room", "ASTER", "", "I will remember it."), remember(20, "meeting-room", "BIRCH", "m1", "I have changed it."),
				recall(30, "meeting-room", "ASTER", "BIRCH"), recall(50, "meeting-room", "ASTER", "BIRCH")),
			checks: knows(30, "meeting-room", "BIRCH") + knows(50, "meeting-room", "BIRCH") + neverSays(30, "ASTER") + neverSays(50, "ASTER") + nothingOld + withinBudget},

		{id: "facts-after-200", title: "Facts of turns 1, 60 and 120 are known in turn 200, replaced ones are not", tags: "turns-200, memory, superseded", turns: 200,
			said: map[int]string{1: "Remember this: the alarm of the archive is switched off with KESTREL-42.", 60: "Remember this: the supplier of paper is HOLM.", 90: "We have changed it: the supplier of paper is LARCH now, remember that.",
				120: "Remember this: the fire drill is on the 14th.", 150: "Who is the supplier of paper?", 160: "It changed once more: the supplier of paper is ROWAN, remember that.",
				198: "How is the alarm of the archive switched off?", 199: "When is the fire drill?", 200: "Who is the supplier of paper?"},
			replies: slices.Concat(remember(1, "archive-alarm", "KESTREL-42", "", "I will remember it."), remember(60, "paper-supplier", "HOLM", "", "I will remember it."),
				remember(90, "paper-supplier", "LARCH", "m2", "I have changed it."), remember(120, "fire-drill", "the 14th", "", "I will remember it."),
				recall(150, "paper-supplier", "HOLM", "LARCH", "ROWAN"), remember(160, "paper-supplier", "ROWAN", "m3", "I have changed it."),
				recall(198, "archive-alarm", "KESTREL-42"), recall(199, "fire-drill", "the 14th"), recall(200, "paper-supplier", "HOLM", "LARCH", "ROWAN")),
			checks: knows(150, "paper-supplier", "LARCH") + knows(198, "archive-alarm", "KESTREL-42") + knows(199, "fire-drill", "the 14th") + knows(200, "paper-supplier", "ROWAN") +
				neverSays(150, "HOLM") + neverSays(200, "HOLM") + neverSays(200, "LARCH") + nothingOld + withinBudget},

		{id: "budget-over-200", title: "Long logs are read in 200 turns and no request is over the budget", tags: "turns-200, budget", turns: 200,
			said:    map[int]string{3: "Remember this: the key of the server room hangs at KESTREL.", 200: "Where does the key of the server room hang?"},
			replies: slices.Concat(remember(3, "server-key", "KESTREL", "", "I will remember it."), recall(200, "server-key", "KESTREL")),
			tools:   logs, logs: 10,
			checks: knows(200, "server-key", "KESTREL") + withinBudget + "  - name: logs-were-read\n    extract: {kind: count, event: tool_executed, name: read_log}\n    grade: {kind: compare, expect: \">=19\"}\n"},
	}
}

func (k *talk) files() map[string]string {
	return map[string]string{
		"case.yaml": fmt.Sprintf(`schema_version: 1
case_id: %s
title: %q
disposition: positive
difficulty: medium
tags: [%s]
provenance:
  source: curated
  source_ref: {type: synthetic, value: written for the suite}
  added_at: "2026-05-01T09:00:00Z"
  last_validated_at: "2026-05-01T09:00:00Z"
`, k.id, k.title, k.tags),
		"scenario.yaml": k.scenario(),
		"grading.yaml":  "checks:\n" + k.checks,
	}
}

// The files are what the generator above writes, so that a change of either is
// seen in review.
func TestLongHorizonFiles(t *testing.T) {
	for _, k := range talks() {
		for name, want := range k.files() {
			file := filepath.Join("bench", "long-horizon", "cases", k.id, name)
			if *update {
				if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if got, err := os.ReadFile(file); err != nil || string(got) != want {
				t.Errorf("%s is not what the generator writes (%v); run this test with -update", file, err)
			}
		}
	}
}

func TestLongConversationsPassWithMemory(t *testing.T) {
	for id, h := range rehearse(t, mustVerify(t, longHorizon), mustTarget(t, "mitigated")) {
		if !passed(h) {
			t.Errorf("case %s %s %s %v, want passed", id, h.Record.Outcome, h.Record.Reason, failed(t, h))
		}
		// Otherwise the case would pass without memory, from the history.
		dropped, turns := false, 0
		for _, e := range events(t, h) {
			switch p := e.Payload.(type) {
			case *trajectory.ContextCompiled:
				dropped = dropped || slices.ContainsFunc(p.Compression, func(c string) bool { return strings.HasPrefix(c, "dropped turns 1 ") })
				if p.Used > p.Budget {
					t.Errorf("case %s: turn %d has %d tokens, the budget is %d", id, e.Turn, p.Used, p.Budget)
				}
			case *trajectory.TurnStarted:
				turns = e.Turn
			}
		}
		if !dropped {
			t.Errorf("case %s: the first turns were never dropped from the context, so the case tests no memory", id)
		}
		if want := len(h.Case.Scenario.Turns); turns != want || want != 50 && want != 200 {
			t.Errorf("case %s: %d of %d turns", id, turns, want)
		}
	}
}

func TestLongConversationsFailWithoutMemory(t *testing.T) {
	for id, h := range rehearse(t, mustVerify(t, longHorizon), mustTarget(t, "forgetful")) {
		if h.Record.Outcome != "failed" || !slices.Contains(h.Record.Score.FailureModes, "fact-forgotten") {
			t.Errorf("case %s %s %v, want failed with fact-forgotten", id, h.Record.Outcome, failed(t, h))
		}
	}
}

// What the log of the door takes does not fit into the budget of this target,
// not even cut: the run ends before a request is sent that leaves its task out.
// The other cases fit, because memory has a share of every budget.
func TestLongConversationFailsWithTooSmallABudget(t *testing.T) {
	for id, h := range rehearse(t, mustVerify(t, longHorizon), mustTarget(t, "cramped")) {
		if id != "budget-over-200" {
			if !passed(h) {
				t.Errorf("case %s %s %s, want passed", id, h.Record.Outcome, h.Record.Reason)
			}
			continue
		}
		if h.Record.Outcome != "errored" || !strings.Contains(h.Record.Reason, "the budget is 450") {
			t.Errorf("case %s %s: %s; want an error that names the budget", id, h.Record.Outcome, h.Record.Reason)
		}
	}
}

// The reference agent never does any of this, so runs in which it happened are
// made up to see that the graders notice.
func TestLongHorizonGradersNotice(t *testing.T) {
	v := mustVerify(t, longHorizon)
	honest := rehearse(t, v, mustTarget(t, "mitigated"))["replaced-fact-after-50"]
	for _, tt := range []struct {
		name, check string
		forge       func(trajectory.Event)
	}{
		{"nothing is changed", "", func(trajectory.Event) {}},
		{"one request is over the budget", "within-budget", func(e trajectory.Event) {
			if p, ok := e.Payload.(*trajectory.ContextCompiled); ok && e.Turn == 33 {
				p.Sections["history"] += int(p.Budget - p.Used + 1)
				p.Used = p.Budget + 1
			}
		}},
		{"an entry is recalled that was superseded", "nothing-superseded-recalled", func(e trajectory.Event) {
			if p, ok := e.Payload.(*trajectory.MemoryRetrieved); ok && e.Turn == 21 {
				p.Entries = append(p.Entries, "m1")
			}
		}},
		{"the old room is named", "not-aster-at-30", func(e trajectory.Event) {
			if p, ok := e.Payload.(*trajectory.TurnCompleted); ok && e.Turn == 30 {
				said := trajectory.NewContent([]byte("It is BIRCH, or ASTER."), trajectory.ArgumentHead)
				p.Answer = &said
			}
		}},
		{"the fact is gone", "meeting-room-known-at-50", func(e trajectory.Event) {
			if p, ok := e.Payload.(*trajectory.MemoryWritten); ok {
				p.Key = "room"
			}
		}},
	} {
		log := trajectory.NewLogWithEvents()
		for _, e := range events(t, honest) {
			tt.forge(e)
			if _, err := log.Append(e.Turn, e.Payload, e.At); err != nil {
				t.Fatalf("%s: %v", tt.name, err)
			}
		}
		spec, err := grade.Parse(honest.Case.Grading, honest.Case.RefuseGrading)
		if err != nil {
			t.Fatal(err)
		}
		grader, err := spec.Compile(grade.Materials{Registration: v.Registration()})
		if err != nil {
			t.Fatal(err)
		}
		result := grader.Grade(grade.Input{Source: &extract.Source{Trajectory: log.Verified()}})
		if result.Unscored != "" || result.Passed != (tt.check == "") {
			t.Errorf("%s: passed %v, unscored %q", tt.name, result.Passed, result.Unscored)
		}
		if score, ok := result.Breakdown[tt.check]; tt.check != "" && (!ok || score != 0) {
			t.Errorf("%s: %v, want that %s fails", tt.name, result.Breakdown, tt.check)
		}
	}
}
