package harness

import (
	"context"
	"errors"
	"unicode/utf8"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/extract"
	"tallystick/internal/run/grade"
	"tallystick/internal/run/sandbox"
	"tallystick/internal/run/scenario"
	"tallystick/internal/run/trajectory"
	"tallystick/internal/run/vantage"
)

// graderOf says how a case is graded: by what it says itself, by the class's
// rubric, or by its test. It refuses a case that nothing could grade, before
// anything runs.
func (w *Worker) graderOf(c *scenario.Task, tools []string) (*grade.Grader, error) {
	m := grade.Materials{Expected: c.Expected, ExpectedFiles: c.ExpectedFiles, Registration: w.cfg.Bench.Registration(), Judges: w.cfg.Bench.Judges().Files, Tools: tools}
	switch {
	case c.Grading != nil:
		parsed, err := w.specs.Parse(c.Grading, c.RefuseGrading)
		if err != nil {
			return nil, err
		}
		return parsed.Compile(m)
	case w.cfg.Bench.Rubric().Main != "":
		return grade.Compile(grade.Spec{Grade: &grade.Rule{Kind: grade.ByRubric}}, m)
	case c.Scenario.Test != nil:
		yes := canon.RawMessage("true")
		return grade.Compile(grade.Spec{Extract: &extract.Spec{Kind: extract.Test}, Grade: &grade.Rule{Kind: grade.Exact, Expected: &yes}}, m)
	}
	if c.OfDataset() {
		return nil, c.RefuseGrading([]string{"grade"}, errors.New(`is missing: nothing says what a right answer is, and the class has no rubric; "grade":{"kind":"exact"} compares the answer with "expected", {"kind":"contains"} looks for it`))
	}
	return nil, refusal.Newf(refusal.BenchIncomplete, "nothing grades it: the class has no rubric, the case no %s and no test", bench.GradingFile).
		WithHint("add one; docs/formats/grading.md has the format")
}

// toolsOf lists the tools that a case and its class tell of. Closed says that no
// other can come up: the agent is ours, or its own tools are listed.
func (w *Worker) toolsOf(c *scenario.Task) (names []string, closed bool) {
	// Never nil: that would mean unknown.
	names = append([]string{}, w.cfg.Bench.Registration().AgentTools...)
	names = append(names, c.Scenario.AgentTools...)
	// A rescore has only the name of a target: what its agent offered is in the
	// trajectory, and grading looks there.
	closed = len(names) > 0 || w.cfg.Target != nil && w.cfg.Target.Builtin != nil
	for _, d := range c.Scenario.Tools {
		names = append(names, d.Name)
	}
	return names, closed
}

// grade scores what the agent did, and keeps what was compared with what.
func (r *run) grade(ctx context.Context, g *Graded) error {
	grader := r.grader
	if grader == nil {
		var err error
		if grader, err = r.w.graderOf(r.c, nil); err != nil {
			return err
		}
	}
	if r.folderGone && grader.UsesRubric() {
		// A rubric is given the files that the agent changed. Without them it
		// would judge an agent that changed none.
		g.Record.Outcome, g.Record.Reason = evidence.Unscored, "the rubric needs the working folder, which is not in the evidence, or the case begins with other files by now"
		return nil
	}
	if broke, err := r.userBroke(); err != nil || broke != "" {
		g.Record.Outcome, g.Record.Reason = evidence.Unscored, head(broke, 1000)
		return err
	}
	v := r.result.Verified
	if r.result.Folder != nil {
		return r.record(g, r.failFolder(g))
	}
	tools, _ := r.w.toolsOf(r.c)
	source := &extract.Source{Context: ctx, Trajectory: v, Tools: tools, Answer: r.driven.Answer, HasAnswer: true,
		Content: r.content}
	if !r.folderGone && r.seesFiles() {
		source.File, source.Names = r.file, r.fileNames
	}
	var broken, noView error
	// What a second view lacks is told in it: the score does not need it.
	var second func(grade.JudgeSpec, extract.Value) (grade.JudgeOutcome, error)
	if r.w.cfg.Spec.SecondView == evidence.ViewedByJudge {
		second = r.judge(ctx, g, &noView)
	}
	result := grader.Grade(grade.Input{
		Source: source,
		Rubric: func(value extract.Value) (grade.Graded, error) {
			graded, err := r.runRubric(ctx, g, v, value)
			if err != nil {
				broken = err
			}
			return graded, err
		},
		Program: func(p grade.ProgramSpec, value extract.Value) (grade.Graded, error) {
			graded, err := r.runProgram(ctx, g, v, p, value)
			if err != nil {
				broken = err
			}
			return graded, err
		},
		Judge:      r.judge(ctx, g, &broken),
		SecondView: second,
		SQL:        func(s grade.SQLSpec, query string) (string, error) { return compareSQL(ctx, s, query) },
		Embed:      r.embed(ctx, g, &broken),
		Redact:     redact,
	})
	if ctx.Err() != nil {
		// What could not be finished would look as if it had no score.
		return context.Cause(ctx)
	}
	if broken != nil {
		// The sandbox, or the ledger that a verdict goes to, could not do its
		// work: that says nothing about the agent, and the case must not look
		// as if it did.
		return broken
	}
	return r.record(g, result)
}

// seesFiles reports whether the working folder is the agent's.
func (r *run) seesFiles() bool { return r.driven.Vantage.Sees(vantage.Files).Sight == vantage.Seen }

// record puts a grade into the record and the evidence.
func (r *run) record(g *Graded, result grade.Result) error {
	for _, e := range result.Events {
		r.cross(g, e)
	}
	document, err := grade.Document(&result)
	if err != nil {
		return err
	}
	g.Files.Grading = g.put(document)
	g.Record.JudgedByModel = result.JudgedByModel
	if r.test != nil && g.Record.RubricDigest == nil {
		g.Record.IsolationClass, g.Record.IsolationScope = string(r.test.Class), string(sandbox.ScopeCase)
	}
	if result.Unscored != "" {
		g.Record.Outcome, g.Record.Reason, g.Record.Unanswered = evidence.Unscored, head(result.Unscored, 500), r.unjudged
		return nil
	}
	score, err := result.EvidenceScore(r.w.cfg.Bench.Registration(), g.Record.CostMicroUSD, r.w.cfg.Now().Sub(r.started))
	if err != nil {
		return err
	}
	g.Record.Score, g.Record.Outcome = &score, evidence.Failed
	if score.Passed {
		g.Record.Outcome = evidence.Passed
	}
	return nil
}

// failFolder fails a case for which it is unknown what the agent left.
func (r *run) failFolder(g *Graded) grade.Result {
	why := r.result.Folder.Error()
	g.Record.Reason = string(refusal.FolderUnreadable) + ": " + head(why, 500)
	return grade.FolderLost(why)
}

// runRubric gives the rubric what the agent did, and keeps what it was given
// and what it said.
func (r *run) runRubric(ctx context.Context, g *Graded, v *trajectory.Verified, value extract.Value) (grade.Graded, error) {
	w := r.w
	given, err := r.rubricInput(g, v, value)
	if err != nil {
		return grade.Graded{}, err
	}
	input, err := canon.Marshal(given)
	if err != nil {
		return grade.Graded{}, err
	}
	rubric := w.cfg.Bench.Rubric().Digest
	result, err := w.rubrics.run(ctx, input, r.c.Rubric, func(class sandbox.Class) error { return r.announce(g, grade.Invoked(string(class))) })
	if err != nil {
		return grade.Graded{}, err
	}
	g.Files.Rubric = &evidence.RubricFiles{Input: *g.put(input), Output: *g.put(result.Stdout)}
	if result.StderrHead != "" {
		g.Files.Rubric.Stderr = g.put([]byte(result.StderrHead))
	}
	graded := grade.Rubric(rubricRun(result), w.cfg.Bench.Registration(), g.Record.CostMicroUSD)
	g.Record.RubricDigest = &rubric
	g.Record.IsolationClass, g.Record.IsolationScope = string(result.Class), string(w.rubrics.scope())
	if result.ImageDigest != "" {
		image, err := digest.ParseContent(result.ImageDigest)
		if err != nil {
			return grade.Graded{}, err
		}
		g.Record.ImageDigest = &image
	}
	return graded, nil
}

// rubricRun is the sandbox's result in the grader's words.
func rubricRun(r sandbox.Result) grade.RubricRun {
	run := grade.RubricRun{Class: string(r.Class), Verdict: grade.RubricVerdict(r.Verdict), ExitCode: r.ExitCode, Wall: r.Wall, Stdout: r.Stdout}
	for _, a := range r.Attempted {
		run.Attempted = append(run.Attempted, a.What+" "+a.Detail)
	}
	return run
}

// rubricInput is the JSON that a rubric reads; docs/formats/rubric.md describes
// it.
func (r *run) rubricInput(g *Graded, v *trajectory.Verified, value extract.Value) (map[string]any, error) {
	picked, err := value.Canonical()
	if err != nil {
		return nil, err
	}
	output := map[string]any{"answer": r.driven.Answer, "refused": r.driven.Refused, "turns": g.Record.Turns, "value": picked, "tool_calls": nil}
	if calls := toolCalls(v); calls != nil {
		output["tool_calls"] = calls
	}
	if r.test != nil {
		output["test"] = map[string]any{"passed": r.test.Passed, "exit": r.test.Exit}
	}
	if r.folder != nil && r.seesFiles() {
		changes, err := r.folder.Changes()
		if err != nil {
			return nil, err
		}
		output["files"], output["changes"] = rubricFiles(changes)
	}
	expected := r.c.Expected
	if len(expected) == 0 {
		expected = canon.RawMessage("{}")
	}
	var metadata map[string]any
	if err := canon.Unmarshal(r.c.Metadata, &metadata); err != nil {
		return nil, err
	}
	documents := map[string]any{}
	for name, data := range r.c.ExpectedFiles {
		if utf8.Valid(data) {
			documents[name] = string(data)
		}
	}
	metadata["expected_files"] = documents
	states, err := worldStates(&extract.Source{Trajectory: v, Content: r.content})
	if err != nil {
		return nil, err
	}
	if len(states) > 0 {
		metadata["world"] = states
	}
	return map[string]any{"harness_output": output, "expected": expected, "case_metadata": metadata}, nil
}

// content is the whole of a text of which an event has the beginning.
func (r *run) content(d digest.Content) ([]byte, bool) {
	text, ok := r.result.Contents[d]
	return text, ok
}

// worldStates are what the world of the case said of its state, by phase.
func worldStates(s *extract.Source) (map[string]canon.RawMessage, error) {
	states := map[string]canon.RawMessage{}
	for _, phase := range []string{trajectory.WorldBefore, trajectory.WorldAfter} {
		text, there, err := s.WorldText(phase)
		if err != nil {
			return nil, err
		}
		if there {
			states[phase] = canon.RawMessage(text)
		}
	}
	return states, nil
}

// toolCalls lists the calls that were made or may have been, each with its
// vantage unless it was executed here. It is nil if not all were seen: a rubric
// must not take those that were for all.
func toolCalls(v *trajectory.Verified) []map[string]any {
	view := trajectory.CallsOf(v)
	if view.Unseen != "" {
		return nil
	}
	calls := []map[string]any{}
	for i := range view.Calls {
		c := &view.Calls[i]
		if c.Stopped {
			calls = append(calls, askedCalls(c)...)
			continue
		}
		call := map[string]any{"name": c.Name, "turn": c.Turn, "error": "", "args": c.Args.Values}
		switch {
		case c.Made != nil:
			call["error"] = c.Made.Error
		case c.Failed:
			call["error"] = c.Report.Result.Head
		}
		if c.Vantage != trajectory.Executed {
			call["vantage"] = c.Vantage
		}
		calls = append(append(calls, call), askedCalls(c)...)
	}
	return calls
}

// askedCalls lists what was asked for with other arguments than the call was made
// with: a rubric that forbids something must see it.
func askedCalls(c *trajectory.ToolCall) []map[string]any {
	var calls []map[string]any
	for _, asked := range c.Otherwise() {
		if !asked.Stopped {
			calls = append(calls, map[string]any{"name": asked.Name, "turn": asked.Turn, "error": "", "args": asked.Args.Values, "vantage": asked.Vantage})
		}
	}
	return calls
}

// redact takes secrets out of what the grading of a trajectory shows. It finds them
// by their shape: those that this run knew by name are gone from the text already.
func redact(s string) string {
	safe, _ := (*cassette.Redactor)(nil).Text(s)
	return safe
}
