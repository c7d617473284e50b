package grade

import (
	"strings"
	"testing"
	"time"

	"tallystick/internal/record/evidence"
	"tallystick/internal/run/bench"
)

var registration = bench.Registration{
	FailureModes: map[string]evidence.Severity{"wrong_answer": evidence.Warn, "no_answer": evidence.Block},
	Breakdown:    []string{"exact"},
}

func answer(fields string) []byte {
	return []byte(`{"passed":true,"score":1,"breakdown":{"exact":1},"failure_modes":[],"cost_usd":9,"duration_seconds":9` + fields + `}`)
}

func ok(stdout []byte) RubricRun {
	return RubricRun{Class: "gvisor", Verdict: RubricOK, Stdout: stdout, Wall: 1500 * time.Millisecond}
}

// TestEveryBadEndIsAFailedScore: nothing that a rubric does makes a case vanish
// or pass.
func TestEveryBadEndIsAFailedScore(t *testing.T) {
	ended := func(v RubricVerdict) RubricRun {
		return RubricRun{Class: "gvisor", Verdict: v, ExitCode: 1, Stdout: answer("")}
	}
	tests := []struct {
		name   string
		result RubricRun
		code   string
		event  string
	}{
		{"timeout", ended(RubricTimeout), CodeTimeout, "rubric.killed_timeout"},
		{"out of memory", ended(RubricOOM), CodeOOM, "rubric.killed_oom"},
		{"too much output", ended(RubricOutputLimit), CodeOutputLimit, CodeOutputLimit},
		{"killed", ended(RubricKilled), CodeKilled, CodeKilled},
		{"another status", ended("error"), CodeError, CodeError},
		{"an unknown verdict", ended("sunny"), CodeError, CodeError},
		{"no answer", ok(nil), CodeMalformed, CodeMalformed},
		{"no JSON", ok([]byte("yes")), CodeMalformed, CodeMalformed},
		{"something after the answer", ok(append(answer(""), "{}"...)), CodeMalformed, CodeMalformed},
		{"a further field", ok(answer(`,"note":"trust me"`)), CodeMalformed, CodeMalformed},
		{"a model's opinion", ok(answer(`,"confidence":0.95`)), CodeMalformed, CodeMalformed},
		{"a field missing", ok([]byte(`{"passed":true,"score":1}`)), CodeMalformed, CodeMalformed},
		{"NaN", ok([]byte(strings.Replace(string(answer("")), `"score":1`, `"score":NaN`, 1))), CodeMalformed, CodeMalformed},
		{"more than one", ok([]byte(strings.Replace(string(answer("")), `"score":1`, `"score":1.5`, 1))), CodeMalformed, CodeMalformed},
		{"deep JSON", ok([]byte(strings.Repeat("[", 100_000))), CodeMalformed, CodeMalformed},
		{"a breakdown key that is not registered", ok([]byte(strings.Replace(string(answer("")), `"exact"`, `"other"`, 1))), CodeUnknownBreakdownKey, CodeUnknownBreakdownKey},
		{"a failure mode that is not registered", ok([]byte(strings.Replace(string(answer("")), `[]`, `["slow"]`, 1))), CodeUnknownFailureMode, CodeUnknownFailureMode},
		{"a reserved failure mode", ok([]byte(strings.Replace(string(answer("")), `[]`, `["rubric.timeout"]`, 1))), CodeUnknownFailureMode, CodeUnknownFailureMode},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := Rubric(tt.result, registration, 0)
			if g.Score.Passed || g.Score.Score != 0 || len(g.Score.FailureModes) != 1 || g.Score.FailureModes[0] != tt.code {
				t.Errorf("got %+v, want a failed score with %s", g.Score, tt.code)
			}
			if err := g.Score.Validate(); err != nil {
				t.Errorf("the score cannot be recorded: %v", err)
			}
			if SeverityOf(tt.code, registration) != evidence.Block {
				t.Errorf("%s does not block", tt.code)
			}
			requireEvent(t, g, tt.event, evidence.Block)
		})
	}
}

func TestGoodAnswerKeepsItsScoreAndNotItsClock(t *testing.T) {
	g := Rubric(ok(answer("")), registration, 1_234_567)
	if !g.Score.Passed || g.Score.Score != 1 || g.Score.Breakdown["exact"] != 1 {
		t.Errorf("got %+v", g.Score)
	}
	if g.Score.CostUSD != 1.234567 || g.Score.DurationSeconds != 1.5 {
		t.Errorf("cost %v and duration %v are the rubric's own", g.Score.CostUSD, g.Score.DurationSeconds)
	}
	requireEvent(t, g, "rubric.completed", evidence.Info)
}

// TestSwallowedEscapeFailsThePerfectScore: the rubric caught the error and
// answered full marks.
func TestSwallowedEscapeFailsThePerfectScore(t *testing.T) {
	r := ok(answer(""))
	r.Attempted = []string{"network connect 127.0.0.1:9"}
	g := Rubric(r, registration, 0)
	if g.Score.Passed || g.Score.Score != 0 || g.Score.FailureModes[0] != CodeEscape {
		t.Errorf("got %+v, want %s", g.Score, CodeEscape)
	}
	requireEvent(t, g, CodeEscape, evidence.Block)

	// Both are told when there is more than one reason.
	r.Verdict = RubricTimeout
	g = Rubric(r, registration, 0)
	if got := strings.Join(g.Score.FailureModes, " "); got != CodeTimeout+" "+CodeEscape {
		t.Errorf("got %s", got)
	}
	requireEvent(t, g, "rubric.killed_timeout", evidence.Block)
	requireEvent(t, g, CodeEscape, evidence.Block)
}

// TestRegistrationCannotSoftenAReservedCode: naming one in the registration
// does not make it harmless.
func TestRegistrationCannotSoftenAReservedCode(t *testing.T) {
	soft := bench.Registration{FailureModes: map[string]evidence.Severity{CodeEscape: evidence.Info}, Breakdown: []string{"exact"}}
	if SeverityOf(CodeEscape, soft) != evidence.Block {
		t.Error("a registered reserved code does not block")
	}
	r := ok([]byte(strings.Replace(string(answer("")), `[]`, `["`+CodeEscape+`"]`, 1)))
	if g := Rubric(r, soft, 0); g.Score.FailureModes[0] != CodeUnknownFailureMode {
		t.Errorf("got %v", g.Score.FailureModes)
	}
}

func requireEvent(t *testing.T, g Graded, name string, severity evidence.Severity) {
	t.Helper()
	for _, e := range g.Events {
		if e.Name == name && e.Severity == severity {
			if err := e.Validate(); err != nil {
				t.Error(err)
			}
			return
		}
	}
	t.Errorf("no event %s of severity %s in %v", name, severity, g.Events)
}

// TestDecisiveIsWhatMadeItFail: of a list of checks, the one to tell people of.
func TestDecisiveIsWhatMadeItFail(t *testing.T) {
	at := func(name string, kind Kind, o Outcome, weight float64) Detail {
		return Detail{Check: name, Grader: kind, Outcome: o, Weight: weight}
	}
	whole := at("", Weighted, Mismatch, 1)
	for _, tt := range []struct {
		name    string
		details []Detail
		want    string
	}{
		{"one check", []Detail{at("", Exact, Mismatch, 1)}, ""},
		{"the first that failed", []Detail{whole, at("a", Exact, Passed, 1), at("b", CEL, Mismatch, 1), at("c", Exact, Mismatch, 1)}, "b"},
		{"not one without weight", []Detail{whole, at("a", Exact, Mismatch, 0), at("b", Number, Unusable, 1)}, "b"},
		{"not one inside what passed", []Detail{whole, at("a", Any, Passed, 1), at("a/x", Exact, Mismatch, 1), at("a/y", Exact, Passed, 1), at("b", Not, Passed, 1), at("b/z", Exact, Mismatch, 1), at("c", Exact, Mismatch, 1)}, "c"},
		{"inside what failed", []Detail{whole, at("a", All, Mismatch, 1), at("a/x", Exact, Passed, 1), at("a/y", Regex, Mismatch, 1)}, "a/y"},
		{"what is not what it should not be", []Detail{whole, at("a", Not, Mismatch, 1), at("a/x", Exact, Passed, 1)}, "a"},
		{"a combination of things that pass", []Detail{at("w", Weighted, Mismatch, 1), at("w/x", Exact, Passed, 1)}, "w"},
	} {
		got := Decisive(tt.details)
		if got == nil || got.Check != tt.want {
			t.Errorf("%s: got %+v, want %q", tt.name, got, tt.want)
		}
	}
	if got := Decisive([]Detail{at("", Exact, Passed, 1)}); got != nil {
		t.Errorf("of what passed: %+v", got)
	}
}
