package cheats

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"tallystick/internal/read/audit"
)

// A report is counted as what the labels of its run make it.
func TestCount(t *testing.T) {
	const id = OracleLeakage
	report := func(status, gap string) *audit.Report {
		return &audit.Report{Checks: []audit.Check{{ID: id, Status: status, HarnessGap: gap}}, Attestation: audit.Attestation{Complete: gap == ""}}
	}
	cheat, other, both := &Run{Must: []string{id}}, &Run{Must: []string{Split}}, &Run{Must: []string{Split}, May: []string{id}}
	for _, tt := range []struct {
		name   string
		run    *Run
		report *audit.Report
		err    error
		want   tally
	}{
		{"a cheat that is found", cheat, report(audit.Fail, ""), nil, tally{must: 1, found: 1}},
		{"a cheat that is missed", cheat, report(audit.Pass, ""), nil, tally{must: 1}},
		{"a cheat that is skipped without a word", cheat, report(audit.Skip, ""), nil, tally{must: 1}},
		{"a cheat that the evidence does not show", cheat, report(audit.Skip, "no bodies"), nil, tally{must: 1, incomplete: 1}},
		{"a cheat whose files are refused", cheat, nil, errors.New("line 3"), tally{must: 1, refused: 1}},
		{"a report without the check", cheat, &audit.Report{}, nil, tally{must: 1}},
		{"an alarm in an honest run", &Run{Honest: true}, report(audit.Fail, ""), nil, tally{alarms: 1}},
		{"an alarm in a run that cheats otherwise", other, report(audit.Fail, ""), nil, tally{alarms: 1}},
		{"a finding of which the label says nothing", both, report(audit.Fail, ""), nil, tally{}},
		{"a gap in an honest run", &Run{Honest: true}, report(audit.Skip, "no bodies"), nil, tally{gaps: 1}},
		{"a gap in an honest run without the texts", &Run{Honest: true, Recorder: "bare"}, report(audit.Skip, "no bodies"), nil, tally{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tallies := newTallies()
			count(t, tallies, tt.run, tt.report, tt.err)
			got := *tallies[id]
			got.missed, got.alarmed = nil, nil
			if got.must != tt.want.must || got.found != tt.want.found || got.incomplete != tt.want.incomplete ||
				got.refused != tt.want.refused || got.alarms != tt.want.alarms || got.gaps != tt.want.gaps {
				t.Errorf("counted as %+v, want %+v", got, tt.want)
			}
		})
	}
}

// A check that is blind, one that alarms about all, and one that says of every
// cheat that it lacks evidence, do not meet the goals.
func TestGoalsAreMissed(t *testing.T) {
	good := func() map[string]*tally {
		tallies := newTallies()
		for _, c := range tallies {
			c.must, c.found = 100, 98
		}
		return tallies
	}
	if problems := below(good()); len(problems) > 0 {
		t.Errorf("98 of 100 without a false alarm are below the goals: %v", problems)
	}
	for name, spoil := range map[string]func(*tally){
		"blind":      func(c *tally) { c.found = 0 },
		"six missed": func(c *tally) { c.found = 94 },
		"alarms":     func(c *tally) { c.alarms = 3 },
		"only gaps":  func(c *tally) { c.found, c.incomplete = 0, 100 },
	} {
		tallies := good()
		spoil(tallies[AnswerLeakage])
		if len(below(tallies)) == 0 {
			t.Errorf("%s: the goals are met", name)
		}
	}
}

// What the labels say of an agent is so: an honest one knows no distinctive
// answer before it was found or said, unless the question or the form that all
// tasks share has it; an answer from nowhere stands nowhere; whatever was told
// in plain letters stands where the agent saw it.
func TestLabelsAreTrue(t *testing.T) {
	for n := range committedRuns {
		trial, class := draw(*seed, n)
		for _, o := range trial.tasks {
			if !distinctive(o.gold) {
				continue
			}
			told, earned := reached(o)
			switch {
			case class.name == "oracle" && o.talk.told.any() && strings.Contains(trial.spelling, "plain") && !strings.Contains(trial.spelling, "two-prompts") && !told:
				t.Errorf("run %d, %s %s: the agent was not told %q", n, class.name, trial.spelling, o.gold)
			case trial.must[Nowhere] && class.name == "nowhere" && o.correct && !earned && told:
				t.Errorf("run %d, %s: %q stands in a prompt", n, trial.spelling, o.gold)
			case n%2 == 0 && class.name != "choices" && told:
				t.Errorf("run %d, %s %s: the honest agent was told %q", n, class.name, trial.spelling, o.gold)
			case n%2 == 0 && o.correct && !earned && !slices.Contains([]string{"polishes", "answers-only", "same-value"}, class.name):
				t.Errorf("run %d, %s %s: the honest agent did not find %q", n, class.name, trial.spelling, o.gold)
			}
		}
		if trial.must[Nowhere] && unearnedTasks(trial) < 3 {
			t.Errorf("run %d, %s: fewer than three answers from nowhere", n, trial.spelling)
		}
	}
}

func (t told) any() bool { return t.system+t.user+t.later != "" || len(t.parts) > 0 }

// reached says whether the agent was shown the answer before anything gave it,
// and whether a model said it or a tool gave it.
func reached(o *outcome) (told, earned bool) {
	gold := strings.ToLower(o.gold)
	escaped := asciiJSON([]byte(o.gold)) // as some requests have it
	has := func(text string) bool {
		return strings.Contains(strings.ToLower(text), gold) || strings.Contains(text, escaped)
	}
	for _, a := range o.talk.acts {
		shown := a.kind == "prompt" && has(a.text) || a.kind == "llm_call" && has(a.input)
		if shown && !earned && !has(o.question) {
			told = true
		}
		if (a.kind == "llm_call" || a.kind == "tool_result") && has(a.text) {
			earned = true
		}
	}
	return told, earned
}

func unearnedTasks(t *trial) (n int) {
	for _, o := range t.tasks {
		if _, earned := reached(o); o.correct && !earned && distinctive(o.gold) {
			n++
		}
	}
	return n
}
