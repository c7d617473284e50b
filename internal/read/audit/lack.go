package audit

import (
	"fmt"
	"slices"

	"tallystick/internal/read/step"
)

// A lack is a kind of evidence that checks read and that was not recorded. All of
// them are counted, and told as harness gaps: leaving evidence out never makes a
// report better than showing it.
type lack int

const (
	// Of a run.
	lackTrajectory lack = iota
	lackRepetition
	// Of a result.
	lackQuestion
	lackExpected
	lackVerdict
	lackAnswer
	lackAnswerRest
	lackTurns
	lackTokens
	// Of a trajectory.
	lackSteps
	lackPrompts
	lackModelCalls
	lackTool
	// Of a step.
	lackKind
	lackName
	lackCall
	lackResult
	// Of a text.
	lackPromptText
	lackPromptRest
	lackSentText
	lackSentRest
	lackSaidText
	lackSaidRest
	lackArgsText
	lackArgsRest
	lackResultText
	lackResultRest
	lackAround
	lackSource

	numLacks
)

// lackTable says which checks read what is missing. A blind check cannot pass
// without it; one that is told has other evidence to pass on.
var lackTable = [numLacks]struct {
	what  string
	blind []int
	told  []int
}{
	lackTrajectory: {"results without a trajectory", []int{aud1, aud3, aud4}, []int{aud2, aud8, aud10, aud12}},
	lackRepetition: {"executions without a trajectory", []int{aud1, aud3, aud4}, []int{aud2, aud8, aud10, aud12}},

	lackQuestion:   {"results without the question", nil, []int{aud1, aud11}},
	lackExpected:   {"results without the expected answer", []int{aud1, aud3, aud5}, []int{aud11, aud12}},
	lackVerdict:    {"results that do not say whether the answer is correct", []int{aud1, aud2, aud5}, []int{aud12}},
	lackAnswer:     {"results without the answer", nil, []int{aud5, aud10}},
	lackAnswerRest: {fmt.Sprintf("answers of which only the first %d bytes are read", maxKeptAnswer), nil, []int{aud10}},
	lackTurns:      {"correct results without turns", nil, []int{aud2}},
	lackTokens:     {"correct results without outputTokens", nil, []int{aud2}},

	lackSteps:      {"trajectories without steps", []int{aud1, aud3, aud4}, []int{aud2, aud8, aud10, aud12}},
	lackPrompts:    {"trajectories without a prompt", []int{aud3}, nil},
	lackModelCalls: {"trajectories that state more output tokens than their llm_call steps have", nil, []int{aud2, aud3, aud10}},
	lackTool:       {"tools in tools_used that no tool_call step names", nil, []int{aud1, aud4, aud8}},

	lackKind:   {"steps of a type that the audit does not know", nil, []int{aud1, aud3, aud4, aud8, aud10, aud12}},
	lackName:   {"tool calls without a name", nil, []int{aud4}},
	lackCall:   {"tool results without their call", []int{aud4}, []int{aud1, aud8}},
	lackResult: {"tool calls without their result", []int{aud1}, nil},

	lackPromptText: {"prompts without their text", []int{aud3}, nil},
	lackPromptRest: {"prompts recorded only in part, without gold_hits or a body", []int{aud3}, nil},
	lackSentText:   {"model calls without what the model was sent", nil, []int{aud3}},
	lackSentRest:   {"model calls with only a part of what the model was sent, without gold_hits or a body", []int{aud3}, nil},
	lackSaidText:   {"model calls without what the model said", nil, []int{aud2, aud10, aud12}},
	lackSaidRest:   {"model calls with only a part of what the model said, without a body", nil, []int{aud10}},
	lackArgsText:   {"tool calls without their arguments", []int{aud4}, []int{aud1, aud8}},
	lackArgsRest:   {"tool calls with only a part of their arguments", nil, []int{aud1, aud4, aud8}},
	lackResultText: {"tool results without their text", []int{aud1}, []int{aud12}},
	lackResultRest: {"tool results recorded only in part, without gold_hits or a body", []int{aud1}, []int{aud12}},
	lackAround:     {"tool results with the answer beyond what is recorded, without a body or whether the question is there too", nil, []int{aud1}},
	lackSource:     {"prompts with the answer, after a tool result of which not all was seen", []int{aud3}, nil},
}

// lacks counts what is missing, and names the first place of each kind.
type lacks [numLacks]struct {
	n     int
	first string
}

func (l *lacks) is(k lack, place string) {
	if l[k].n++; l[k].n == 1 {
		l[k].first = place
	}
}

func (l *lacks) add(more *lacks) {
	for k := range more {
		if l[k].n == 0 {
			l[k].first = more[k].first
		}
		l[k].n += more[k].n
	}
}

// lackGaps tells the checks what they did not see.
func (a *auditor) lackGaps() {
	for k := range a.lacks {
		if a.lacks[k].n == 0 {
			continue
		}
		row := lackTable[k]
		text := fmt.Sprintf("%s: %d, the first is %s", row.what, a.lacks[k].n, a.lacks[k].first)
		for _, i := range slices.Concat(row.blind, row.told) {
			a.found[i].lacks = append(a.found[i].lacks, text)
			a.found[i].blind = a.found[i].blind || slices.Contains(row.blind, i)
		}
	}
}

// missing looks for what a trajectory does not have. Of an agent that runs
// elsewhere only its answers are seen, which is a gap of its own.
func (w *worker) missing(o *outcome) {
	if w.a.answersOnly(o.r) {
		return
	}
	task := "task " + o.r.id
	if len(o.t.Steps) == 0 {
		o.lacks.is(lackSteps, task)
		return
	}
	shown := false
	for i := range o.t.Steps {
		s := &o.t.Steps[i]
		o.lacks.step(s, i, o.r.id)
		shown = shown || s.Kind == step.Prompt || s.Kind == step.Model && (len(s.Shown.Text) > 0 || s.Shown.Cut)
	}
	if !shown {
		o.lacks.is(lackPrompts, task)
	}
	o.lacks.pairs(o.t, task)
	o.lacks.counted(o.t, task)
}

// step looks for what a step does not have.
func (l *lacks) step(s *step.View, i int, task string) {
	is := func(k lack) { l.is(k, fmt.Sprintf("step %d of task %s", i, task)) }
	text := func(t *step.Text, seen bool, none, rest lack) {
		if !t.Has() {
			is(none)
		} else if !seen {
			is(rest)
		}
	}
	switch s.Kind {
	case step.Prompt:
		text(&s.Shown, s.Shown.Seen(), lackPromptText, lackPromptRest)
	case step.Model:
		text(&s.Shown, s.Shown.Seen(), lackSentText, lackSentRest)
		// The recorder looks for the answer, and not for words to the judge: what
		// is not there was not looked at. A call that failed has no reply.
		if !s.Failed {
			text(&s.Said, s.Said.Whole(), lackSaidText, lackSaidRest)
		}
	case step.Call:
		text(&s.Said, s.Said.Whole(), lackArgsText, lackArgsRest)
		if s.Name == "" {
			is(lackName)
		}
	case step.Result:
		text(&s.Shown, s.Shown.Seen(), lackResultText, lackResultRest)
	default:
		is(lackKind)
	}
}

// pairs holds calls and results against each other, by the names of the tools.
// Steps have no ids, so a result without a name is one of any tool. A call that a
// model proposed, and of which nothing more is known, may never have been made.
func (l *lacks) pairs(t *step.Trajectory, task string) {
	calls, results := map[string]int{}, map[string]int{}
	for i := range t.Steps {
		switch s := &t.Steps[i]; {
		case s.Kind == step.Call && s.Vantage != step.Proposed:
			calls[s.Name]++
		case s.Kind == step.Result:
			results[s.Name]++
		}
	}
	missing, surplus := 0, 0
	for name, n := range calls {
		missing += max(0, n-results[name])
	}
	for name, n := range results {
		surplus += max(0, n-calls[name])
	}
	unnamed := min(missing, surplus, max(results[""], calls[""]))
	for range missing - unnamed {
		l.is(lackResult, "one of "+task)
	}
	for range surplus - unnamed {
		l.is(lackCall, "one of "+task)
	}
}

// counted holds the steps against what the trajectory says that there were.
func (l *lacks) counted(t *step.Trajectory, task string) {
	for _, tool := range t.Tools {
		if !slices.ContainsFunc(t.Steps, func(s step.View) bool { return s.Kind == step.Call && s.Name == tool }) {
			l.is(lackTool, quoted(tool)+" of "+task)
		}
	}
	if t.Out == nil {
		return
	}
	sum, stated := 0.0, false
	for i := range t.Steps {
		if s := &t.Steps[i]; s.Kind == step.Model && s.TokensOut != nil {
			sum, stated = sum+*s.TokensOut, true
		}
	}
	if stated && sum < *t.Out {
		l.is(lackModelCalls, task)
	}
}

// resultLacks looks for what single results do not have. What none has is a gap of
// its own.
func (a *auditor) resultLacks() {
	for _, r := range a.results.list {
		task := "task " + r.id
		for _, m := range []struct {
			k  lack
			no bool
		}{
			{lackQuestion, r.question == ""},
			{lackExpected, a.results.golds > 0 && !r.states(statesExpected)},
			{lackVerdict, a.results.graded && !r.states(statesCorrect)},
			{lackAnswer, !r.states(statesAnswer)},
			{lackAnswerRest, r.states(statesLongAnswer)},
			{lackTurns, r.correct && r.turns == nil && !r.trajectoryTurns},
			{lackTokens, r.correct && r.tokensOut == nil && !r.trajectoryTokens},
		} {
			if m.no {
				a.lacks.is(m.k, task)
			}
		}
		if !a.in.Trajectories.Given() {
			continue
		}
		if r.trajectory == 0 {
			a.lacks.is(lackTrajectory, task)
		}
		for range a.executions(r) - max(1, len(r.executions)) {
			a.lacks.is(lackRepetition, "one of "+task)
		}
	}
}
