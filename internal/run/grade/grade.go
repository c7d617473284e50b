// Package grade turns values into scores that can be recorded, and says why.
//
// A [Spec] says how a case is graded; [ParseYAML] and [Parse] read one,
// [Compile] checks it against the case, and [Grader.Grade] applies it to what the case left behind. Every [Detail] keeps
// what was extracted, what it was compared with and the reason, and [Document]
// writes them for the evidence.
//
// A value that was not found passes nothing but the grader that looks for
// nothing. What an agent did fails; what the evidence or a judge did not give
// is unscored, which is never zero. A combination with an unscored check is
// unscored unless the check makes no difference.
//
// Rubrics and judges are run by the harness, through the functions of [Input];
// [Rubric] makes a score of what a sandboxed rubric answered. Nothing a rubric
// does can make a case disappear: whatever is not a well-formed score within
// what the registration allows becomes a failed score with a reserved code of
// block severity, and an event that says what happened. Time and money are the
// harness's to tell, so what a rubric says of them is overwritten.
//
// Grading is pure but for those functions: no clock, no disk, no network.
// docs/formats/grading.md has the format and the rules.
package grade

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"tallystick/internal/record/evidence"
	"tallystick/internal/run/bench"
)

// The reserved codes of rubrics. A rubric may not use them, and each blocks
// promotion.
const (
	CodeTimeout             = "rubric.timeout"
	CodeOOM                 = "rubric.oom"
	CodeOutputLimit         = "rubric.output_limit"
	CodeKilled              = "rubric.killed"
	CodeError               = "rubric.error"
	CodeMalformed           = "rubric.malformed_output"
	CodeUnknownBreakdownKey = "rubric.unknown_breakdown_key"
	CodeUnknownFailureMode  = "rubric.unknown_failure_mode"
	CodeEscape              = "rubric.sandbox_escape"
)

// rubricPrefix begins every code above.
const rubricPrefix = "rubric."

// isReserved reports whether only this package may use a failure mode.
func isReserved(mode string) bool {
	return strings.HasPrefix(mode, rubricPrefix) || strings.HasPrefix(mode, gradePrefix)
}

// A Graded is a score fit for a record, and what happened on the way to it.
type Graded struct {
	Score  evidence.Score
	Events []evidence.IntegrityEvent
}

// A RubricRun is what came out of a sandboxed rubric. It says the same as
// sandbox.Result without linking a kernel into everything that grades.
type RubricRun struct {
	Class     string // of the isolation
	Verdict   RubricVerdict
	ExitCode  int
	Wall      time.Duration
	Stdout    []byte
	Attempted []string // what it tried and was not let
}

// A RubricVerdict says how a rubric ended, in the words of package sandbox.
type RubricVerdict string

// The verdicts; any other means that it ended with another status than 0.
const (
	RubricOK          RubricVerdict = "ok"
	RubricTimeout     RubricVerdict = "timeout"
	RubricOOM         RubricVerdict = "oom"
	RubricOutputLimit RubricVerdict = "output_limit"
	RubricKilled      RubricVerdict = "killed"
)

// Invoked is the event of a rubric that is about to start. It is made here and
// written by the harness, before the rubric runs: a rubric that takes the program
// down with it must not be the one that leaves no trace.
func Invoked(class string) evidence.IntegrityEvent {
	return evidence.IntegrityEvent{Name: "rubric.invoked", Boundary: "TB-2", Severity: evidence.Info, Detail: "the rubric starts in " + class}
}

// Rubric grades what came out of a sandboxed rubric for one case. The cost is
// what the case cost, as the harness counted it.
func Rubric(r RubricRun, reg bench.Registration, costMicroUSD int64) Graded {
	g := Graded{}
	score, code, why := judge(r, reg)
	if code != "" {
		score = failed(code)
		g.event(eventOf(code), "TB-3", evidence.Block, why)
	} else {
		g.event("rubric.completed", "TB-3", evidence.Info, fmt.Sprintf("score %v, passed %v", score.Score, score.Passed))
	}
	// An attempt to reach out fails the case whatever the rubric answered: a
	// scoring program has no business with what it tried.
	if len(r.Attempted) > 0 {
		if code == "" {
			score = failed(CodeEscape)
		} else {
			score.FailureModes = append(score.FailureModes, CodeEscape)
		}
		g.event(CodeEscape, "TB-2", evidence.Block, "the rubric tried "+list(r.Attempted))
	}
	score.CostUSD = float64(costMicroUSD) / 1e6
	score.DurationSeconds = r.Wall.Round(time.Millisecond).Seconds()
	g.Score = score
	return g
}

// judge reads the rubric's answer, or names the reserved code for why there is
// none.
func judge(r RubricRun, reg bench.Registration) (score evidence.Score, code, why string) {
	switch r.Verdict {
	case RubricOK:
	case RubricTimeout:
		return score, CodeTimeout, "killed at its time limit"
	case RubricOOM:
		return score, CodeOOM, "killed for using more memory than its limit"
	case RubricOutputLimit:
		return score, CodeOutputLimit, "killed for writing more than its limit"
	case RubricKilled:
		return score, CodeKilled, fmt.Sprintf("ended by a signal, status %d", r.ExitCode)
	default:
		return score, CodeError, fmt.Sprintf("ended with status %d", r.ExitCode)
	}
	score, err := evidence.ParseScore(r.Stdout)
	if err != nil {
		return score, CodeMalformed, err.Error()
	}
	for _, key := range sorted(score.Breakdown) {
		if !slices.Contains(reg.Breakdown, key) {
			return score, CodeUnknownBreakdownKey, fmt.Sprintf("breakdown key %q is not in the registration", key)
		}
	}
	for _, mode := range score.FailureModes {
		if isReserved(mode) {
			return score, CodeUnknownFailureMode, fmt.Sprintf("failure mode %q is reserved for the harness", mode)
		}
		if _, ok := reg.FailureModes[mode]; !ok {
			return score, CodeUnknownFailureMode, fmt.Sprintf("failure mode %q is not in the registration", mode)
		}
	}
	return score, "", ""
}

// SeverityOf says how bad a failure mode in a record is. The reserved codes of
// rubrics block, those of built-in graders warn: they say that the agent was
// wrong. One that neither this package nor the registration knows blocks: it
// cannot be there unless it was put there.
func SeverityOf(mode string, reg bench.Registration) evidence.Severity {
	if slices.Contains(gradeCodes(), mode) {
		return evidence.Warn
	}
	if severity, ok := reg.FailureModes[mode]; ok && !isReserved(mode) {
		return severity
	}
	return evidence.Block
}

func failed(code string) evidence.Score {
	return evidence.Score{Breakdown: map[string]float64{}, FailureModes: []string{code}}
}

// eventOf names the event of a reserved code.
func eventOf(code string) string {
	switch code {
	case CodeTimeout:
		return "rubric.killed_timeout"
	case CodeOOM:
		return "rubric.killed_oom"
	}
	return code
}

func (g *Graded) event(name, boundary string, severity evidence.Severity, detail string) {
	g.Events = append(g.Events, evidence.IntegrityEvent{Name: name, Boundary: boundary, Severity: severity, Detail: detail})
}

// list names what was tried, the first few of it.
func list(attempts []string) string {
	const most = 5
	var words []string
	for i, a := range attempts {
		if i == most {
			words = append(words, fmt.Sprintf("and %d more", len(attempts)-most))
			break
		}
		words = append(words, a)
	}
	return strings.Join(words, "; ")
}

func sorted(m map[string]float64) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
