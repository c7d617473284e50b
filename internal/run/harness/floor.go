package harness

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/evidence"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/extract"
	"tallystick/internal/run/grade"
	"tallystick/internal/run/policy"
	"tallystick/internal/run/scenario"
	"tallystick/internal/run/trajectory"
	"tallystick/internal/run/vantage"
)

// FloorCases is on how many cases null answers are tried, spread over the class.
const FloorCases = 50

// constantAnswer has what a grader that looks for little would look for: every letter,
// the letters of choices, yes and no, small numbers.
const constantAnswer = "A quick answer is this: yes, no, true, false, maybe, none of the above; A, B, C, D, E; I think it is so. " +
	"The quick brown fox jumps over the lazy dog 0 1 2 3 4 5 6 7 8 9 10 times."

// A Baseline is what null answers score in a class.
type Baseline struct {
	// Floor is that of the answer that passed most cases; nil if none was tried.
	Floor *evidence.Floor
	// NotTried says how many of the cases could not be graded so, and why.
	NotTried string
}

// NullAnswers grades answers that take no work with the graders of a bench, on up to
// 50 cases. What needs a sandbox, a model or a working folder is not tried: there such an
// answer would have to be run, and nothing is run here.
func NullAnswers(ctx context.Context, b *bench.Verified) (*Baseline, error) {
	w := &Worker{cfg: Config{Bench: b}, cases: scenario.Of(b, "")}
	tried, why, err := w.nullCases(ctx)
	if err != nil {
		return nil, err
	}
	out := &Baseline{}
	if n := min(FloorCases, w.cases.Len()) - len(tried); n > 0 {
		out.NotTried = fmt.Sprintf("null answers were not tried on %d of %d cases: %s", n, n+len(tried), why)
	}
	if len(tried) == 0 {
		return out, nil
	}
	passed := map[nullKey]int{}
	var order []nullKey
	frequent := mostFrequent(tried)
	for _, t := range tried {
		for _, a := range t.answers(frequent) {
			result, err := t.grade(ctx, a.text)
			if err != nil {
				return nil, err
			}
			if _, known := passed[a.key]; !known {
				order = append(order, a.key)
				passed[a.key] = 0
			}
			if result.Unscored == "" && result.Passed {
				passed[a.key]++
			}
		}
	}
	best := order[0]
	for _, k := range order {
		if passed[k] > passed[best] {
			best = k
		}
	}
	out.Floor = &evidence.Floor{Answer: best.answer, Cases: len(tried), Passed: passed[best]}
	return out, nil
}

// A nullCase is a case that null answers are tried on.
type nullCase struct {
	c      *scenario.Task
	grader *grade.Grader
}

// nullCases takes cases from all over the class, and says why the others were left out.
func (w *Worker) nullCases(ctx context.Context) (tried []nullCase, why string, err error) {
	n := w.cases.Len()
	for i := range min(FloorCases, n) {
		c, err := w.cases.Case(i * n / min(FloorCases, n))
		if err != nil {
			return nil, "", err
		}
		grader, err := w.graderOf(c, nil)
		if err != nil {
			return nil, "", fmt.Errorf("case %s: %w", c.ID, err)
		}
		t := nullCase{c, grader}
		switch {
		case grader.UsesRubric():
			why = "a rubric grades them, which runs in a sandbox"
		case grader.UsesJudge() || len(grader.Embedders()) > 0:
			why = "a model grades them"
		case c.Scenario.Test != nil:
			why = "tests grade them, which run in a sandbox"
		default:
			result, err := t.grade(ctx, "")
			if err != nil {
				return nil, "", fmt.Errorf("case %s: %w", c.ID, err)
			}
			if result.Unscored == "" {
				tried = append(tried, t)
				continue
			}
			why = result.Unscored
		}
	}
	return tried, why, nil
}

// A nullKey is a null answer in one spelling, which is the same for every case.
type nullKey struct {
	answer   evidence.NullAnswer
	spelling string
}

type nullText struct {
	key  nullKey
	text string
}

// answers are the null answers to a case: as they are, and as cases ask for them that look
// for a line with the answer.
func (t *nullCase) answers(frequent string) []nullText {
	texts := []nullText{{nullKey{evidence.NullEmpty, ""}, ""}, {nullKey{evidence.NullConstant, ""}, constantAnswer}}
	if turns := t.c.Scenario.Turns; len(turns) > 0 {
		texts = append(texts, nullText{nullKey{evidence.NullQuestion, ""}, turns[0].Text})
	}
	if first := t.firstChoice(); first != "" {
		texts = append(texts, nullText{nullKey{evidence.NullFirst, "letter"}, "A"}, nullText{nullKey{evidence.NullFirst, "text"}, first})
	}
	if frequent != "" {
		texts = append(texts, nullText{nullKey{evidence.NullFrequent, ""}, frequent})
	}
	for _, x := range texts[1:] {
		texts = append(texts, nullText{nullKey{x.key.answer, x.key.spelling + " as asked for"}, "ANSWER: " + x.text})
	}
	return texts
}

// firstChoice is the first of the choices that the case has in its metadata, as
// "bench import" writes them.
func (t *nullCase) firstChoice() string {
	var choices []string
	list, ok := extract.Lookup(t.c.Metadata, []string{"metadata", "choices"})
	if !ok || canon.Unmarshal(list, &choices) != nil || len(choices) == 0 {
		return ""
	}
	return choices[0]
}

// mostFrequent is the answer that would pass most of the cases; "" if no two have one in
// common.
func mostFrequent(tried []nullCase) string {
	counts, most, best := map[string]int{}, 1, ""
	for _, t := range tried {
		for _, gold := range t.grader.Gold() {
			key := strings.ToLower(strings.TrimSpace(gold))
			if counts[key]++; counts[key] > most {
				most, best = counts[key], gold
			}
		}
	}
	return best
}

// grade grades an answer as if an agent had given it, and done nothing else.
func (t *nullCase) grade(ctx context.Context, answer string) (grade.Result, error) {
	p := policy.ForMode(policy.Autonomous)
	said := trajectory.NewContent([]byte(answer), trajectory.ArgumentHead)
	log := trajectory.NewLogWithEvents()
	for _, e := range []struct {
		turn    int
		payload trajectory.Payload
	}{
		{0, &trajectory.RunStarted{Attempt: "null-answers", Case: t.c.ID, Class: "null-answers", Execution: 1, Format: trajectory.Format, Governance: p.Mode,
			Policy: p.SerialisedDigest(), PolicyShort: p.ShortHash(), Repeat: 1, Target: "null-answers", Vantage: vantage.Inside}},
		{1, &trajectory.TurnStarted{}},
		{1, &trajectory.TurnCompleted{Answer: &said}},
		{1, &trajectory.RunCompleted{Answer: &said, Status: "completed"}},
	} {
		if _, err := log.Append(e.turn, e.payload, 0); err != nil {
			return grade.Result{}, err
		}
	}
	none := errors.New("null answers are tried without it")
	return t.grader.Grade(grade.Input{
		Source: &extract.Source{Trajectory: log.Verified(), Answer: answer, HasAnswer: true},
		Rubric: func(extract.Value) (grade.Graded, error) { return grade.Graded{}, none },
		Judge:  func(grade.JudgeSpec, extract.Value) (grade.JudgeOutcome, error) { return grade.JudgeOutcome{}, none },
		SQL:    func(s grade.SQLSpec, query string) (string, error) { return compareSQL(ctx, s, query) },
	}), nil
}
