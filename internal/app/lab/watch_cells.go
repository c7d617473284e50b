package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"tallystick/internal/read/dossier"
	"tallystick/internal/read/outline"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/grade"
	"tallystick/internal/run/harness"
	"tallystick/internal/run/scenario"
	"tallystick/internal/run/trajectory"
)

// Bounds of what is kept of cases between two runs. A case of which more would have to
// be kept is driven again whenever its graders change.
const (
	maxTrace    = 1 << 20 // a trace that is kept for comparison
	maxCellKept = 8 << 20
	maxAllKept  = 512 << 20
)

// A cellKey is one repetition of a case by a target.
type cellKey struct {
	target, id string
	repeat     int
}

// A cell is how that went the last time, and what it was made of. Its result has the
// texts of held-out cases; [cell.result] does not.
type cell struct {
	WatchedResult

	inputs  harness.Inputs
	files   digest.Content // of the target
	judge   digest.Content // judge.yaml
	replies string         // the state of the library

	answer string // when it was last answered; held-out cases have it too
	passed []byte // its outline when it last passed; nil if that is not known or large
	shown  *shown // nil if it never was

	// What the agent did, for graders that change and for golden traces; nil if that is
	// too much to keep.
	stored     *harness.Stored
	size       int
	incomplete string // why it has no golden trace; "" if it may have one

	golden      digest.Content // the golden file that it was compared with
	goldenGiven string         // how it differs from that
}

// hidden reports whether the texts of a case are not shown.
func (s *Setup) hidden(c *scenario.Task) bool { return c.HeldOut && !s.Spec.ShowHeldOut }

// A round is one target in one run of a watch.
type round struct {
	w     *Watch
	s     *Setup
	state state
	ask   WatchAsk
	out   *Watched

	lasting context.Context // that a change of a file does not end

	inputs map[string]harness.Inputs
	ranks  map[string]int
	drive  map[string]bool // cases
	grade  map[string]bool
}

// run does for each selected case what it needs: drive it, grade it again, or nothing.
func (r *round) run(ctx context.Context) error {
	cfg, err := r.s.config()
	if err != nil {
		return err
	}
	cases, err := r.plan(&cfg)
	if err != nil {
		return err
	}
	if err := r.driveAll(ctx); err != nil {
		return err
	}
	if err := r.gradeAll(ctx, cfg, cases); err != nil {
		return err
	}
	if err := r.askMissing(r.lasting, cases); err != nil {
		return err
	}
	for _, c := range cases {
		for repeat := 1; repeat <= max(1, r.s.Spec.Repeat); repeat++ {
			if err := r.settle(c, repeat); err != nil {
				return err
			}
		}
	}
	return nil
}

// plan decides what is done with each of the selected cases, which it returns.
func (r *round) plan(cfg *harness.Config) ([]*scenario.Task, error) {
	r.inputs, r.ranks, r.drive, r.grade = map[string]harness.Inputs{}, map[string]int{}, map[string]bool{}, map[string]bool{}
	set := scenario.Of(r.s.Bench, r.s.Target.Name)
	var cases []*scenario.Task
	for i := range set.Len() {
		c, err := set.Case(i)
		if err != nil {
			return nil, err
		}
		if !r.s.Spec.Matches(c.ID, c.Tags) {
			continue
		}
		if r.inputs[c.ID], err = harness.InputsOf(cfg, c); err != nil {
			return nil, err
		}
		cases = append(cases, c)
		r.planCase(c)
	}
	return cases, nil
}

// Failing cases are driven first: they are what a person works on. Then those of which
// the case itself changed.
const (
	rankFailing = iota
	rankTouched
	rankRest
)

func (r *round) planCase(c *scenario.Task) {
	now := r.inputs[c.ID]
	r.ranks[c.ID] = rankRest
	for repeat := 1; repeat <= max(1, r.s.Spec.Repeat); repeat++ {
		was := r.w.cells[r.key(c, repeat)]
		switch {
		case was != nil && was.Outcome != string(evidence.Passed):
			r.ranks[c.ID] = rankFailing
		case was != nil && was.inputs.Drive != now.Drive && was.files == r.state.files:
			r.ranks[c.ID] = min(r.ranks[c.ID], rankTouched)
		}
		graded := was != nil && was.inputs.Grade == now.Grade && was.judge == r.state.judge
		switch {
		case was == nil || was.inputs.Drive != now.Drive || was.files != r.state.files || was.replies != r.w.library.state(was.Unanswered) || r.ask.drives(was):
			r.drive[c.ID] = true
		case graded || was.Unanswered && !harness.Ended(evidence.Outcome(was.Outcome)): // there is nothing to grade
		case was.stored != nil && harness.Ended(evidence.Outcome(was.Outcome)):
			r.grade[c.ID] = true
		default:
			r.drive[c.ID] = true
		}
	}
}

func (r *round) key(c *scenario.Task, repeat int) cellKey {
	return cellKey{r.s.Target.Name, c.ID, max(1, repeat)}
}

// driveAll drives and grades the cases that need it.
func (r *round) driveAll(ctx context.Context) error {
	if len(r.drive) == 0 {
		return nil
	}
	choose := func(c *scenario.Task) bool { return r.drive[c.ID] }
	rank := func(id string) int { return r.ranks[id] }
	return r.s.rehearseIn(ctx, choose, rank, onlyListed, func(g *harness.Graded) error {
		r.out.Driven++
		return r.drove(g)
	})
}

// drove takes up a case that was driven.
func (r *round) drove(g *harness.Graded) error {
	c := r.fresh(g.Case, g.Repeat)
	r.w.kept -= c.size
	c.stored, c.size, c.incomplete = nil, 0, g.Incomplete()
	if !g.Suspended {
		r.w.keep(c, g)
	}
	return r.became(g.Case, c, endingNow(g), g.Answer, g.Verified)
}

// gradeAll grades cases again whose agents need not be driven. The repetitions of a case
// are driven together, so those of one that was driven are graded already.
func (r *round) gradeAll(ctx context.Context, cfg harness.Config, cases []*scenario.Task) error {
	var stored []harness.Stored
	byID := map[string]*scenario.Task{}
	for _, c := range cases {
		byID[c.ID] = c
		for repeat := 1; r.grade[c.ID] && !r.drive[c.ID] && repeat <= max(1, r.s.Spec.Repeat); repeat++ {
			stored = append(stored, *r.w.cells[r.key(c, repeat)].stored)
		}
	}
	if len(stored) == 0 {
		return nil
	}
	crossed := r.s.unattempted()
	cfg.Crossed = crossed.write
	err := harness.Regrade(ctx, cfg, stored, func(x harness.Stored, g harness.Regraded) error {
		if err := crossed.add(g.Crossings, onlyListed); err != nil {
			return err
		}
		r.out.Regraded++
		was := r.w.cells[r.key(byID[x.CaseID], x.Repeat)]
		c := r.fresh(byID[x.CaseID], x.Repeat)
		v, err := c.trajectory()
		if err != nil {
			return err
		}
		return r.became(byID[x.CaseID], c, endingOf(&g.Record, g.Grading), was.answer, v)
	})
	if cerr := crossed.close(); err == nil {
		err = cerr
	}
	return err
}

// fresh is the cell of a case that is about to be known anew.
func (r *round) fresh(c *scenario.Task, repeat int) *cell {
	out := &cell{}
	if was := r.w.cells[r.key(c, repeat)]; was != nil {
		copied := *was
		out = &copied
	}
	out.WatchedResult = WatchedResult{Case: c.ID, Repeat: max(1, repeat), HeldOut: c.HeldOut}
	if len(r.out.Targets) > 0 {
		out.Target = r.s.Target.Name
	}
	out.inputs, out.files, out.judge = r.inputs[c.ID], r.state.files, r.state.judge
	return out
}

// An ending is what became of a case: its outcome and why.
type ending struct {
	outcome, why string
	unanswered   bool
}

func endingNow(g *harness.Graded) ending {
	if g.Suspended {
		return ending{outcome: string(evidence.Unscored), why: "waits for an approval that no one answers here"}
	}
	var grading []byte
	if g.Files.Grading != nil {
		grading = g.Piece(*g.Files.Grading)
	}
	return endingOf(&g.Record, grading)
}

func endingOf(r *evidence.CaseScored, grading []byte) ending {
	why, _ := whyOf(r, grading)
	return ending{string(r.Outcome), why, r.Unanswered}
}

// whyOf says why a case did not pass, and what was expected, from its grading document.
func whyOf(r *evidence.CaseScored, grading []byte) (why, expected string) {
	why = r.Reason
	var doc struct {
		Checks []grade.Detail `json:"checks"`
	}
	if r.Outcome == evidence.Passed || json.Unmarshal(grading, &doc) != nil {
		return why, ""
	}
	for _, d := range doc.Checks {
		if d.Outcome == grade.Passed {
			continue
		}
		why = d.Why
		if d.Expected != nil {
			expected = d.Expected.Head
		}
	}
	return why, expected
}

// became remembers how a case went, and tells it if it is not as it was.
func (r *round) became(task *scenario.Task, c *cell, is ending, answer string, v *trajectory.Verified) error {
	c.Outcome, c.Unanswered = is.outcome, is.unanswered
	c.replies = r.w.library.state(c.Unanswered)
	if c.Outcome != string(evidence.Passed) {
		c.Why = is.why
	}
	if !c.Unanswered {
		c.answer = answer
	}
	switch {
	case c.Outcome == string(evidence.Passed):
		if c.passed = outline.Of(v).Format(); len(c.passed) > maxTrace {
			c.passed = nil
		}
	case v != nil && !c.Unanswered:
		var err error
		if c.Divergence, err = r.divergence(task, v, c.passed); err != nil {
			return err
		}
	}
	r.w.cells[r.key(task, c.Repeat)] = c
	if result := c.result(r.s.hidden(task)); result.Differs {
		r.w.Case(result)
	}
	return nil
}

// A shown is what a person was told of a case by the last run that came to its end, and
// what its agent said when it was last answered.
type shown struct {
	outcome, why     string
	unanswered       bool
	answered, answer string
}

// result is the case beside what was last shown of it, without its texts if it is
// hidden.
func (c *cell) result(hidden bool) WatchedResult {
	out := c.WatchedResult
	out.Answer = c.answer
	if was := c.shown; was == nil {
		out.Differs = out.Outcome != string(evidence.Passed)
	} else {
		out.Was = was.answered
		out.Differs = was.outcome != out.Outcome || was.unanswered != out.Unanswered
		if !out.Unanswered && was.answered != "" {
			out.Differs = out.Differs || was.why != out.Why || was.answer != out.Answer
			if was.answer != out.Answer {
				out.WasAnswer = was.answer
			}
		}
	}
	if out.Unanswered {
		out.Answer = ""
	}
	if hidden {
		out.Why, out.Divergence, out.Answer, out.WasAnswer = "", "", "", ""
	}
	return out
}

// told remembers that a person was shown the case as it is.
func (c *cell) told() {
	now := shown{outcome: c.Outcome, why: c.Why, unanswered: c.Unanswered, answered: c.Outcome, answer: c.answer}
	if c.Unanswered {
		now.answered, now.answer = "", ""
		if c.shown != nil {
			now.answered, now.answer = c.shown.answered, c.shown.answer
		}
	}
	c.shown = &now
}

// divergence is where a case first parts from when it last passed here, or from
// its golden trace; "" if there is neither, or no difference.
func (r *round) divergence(task *scenario.Task, v *trajectory.Verified, passed []byte) (string, error) {
	if passed == nil {
		golden, err := r.s.place.ReadGolden(r.s.Spec.Class, r.s.Target.Name, task.ID)
		if err != nil {
			return "", nil // there is none, or none that can be read: it is only shown
		}
		passed = golden
	}
	d, err := outline.CheckGolden(passed, v, "", dossier.GoldenTrace)
	if err != nil || d.Equal() {
		return "", err
	}
	return d.Detail(), nil
}

// keep keeps what the agent did, unless it is too much.
func (w *Watch) keep(c *cell, g *harness.Graded) {
	size := 0
	for _, p := range g.Pieces {
		size += len(p)
	}
	if size > maxCellKept || w.kept+size > maxAllKept {
		return
	}
	w.kept += size
	c.size = size
	pieces := map[digest.Content][]byte{}
	for _, p := range g.Pieces {
		// The harness uses its buffers again.
		pieces[digest.ContentOf(p)] = bytes.Clone(p)
	}
	c.stored = &harness.Stored{CaseID: c.Case, Repeat: c.Repeat, CostMicroUSD: g.Record.CostMicroUSD, Files: g.Files, Read: func(d digest.Content) ([]byte, error) {
		if p, ok := pieces[d]; ok {
			return p, nil
		}
		return nil, refusal.Newf(refusal.NotFound, "%s was not kept", d)
	}}
}

// trajectory reads what the agent did; nil if that was not kept.
func (c *cell) trajectory() (*trajectory.Verified, error) {
	if c.stored == nil {
		return nil, nil
	}
	f := c.stored.Files.Trajectory
	log, err := c.stored.Read(f.Digest)
	if err != nil {
		return nil, err
	}
	return trajectory.Verify(log, trajectory.HeadIs(f.Head))
}

// settle counts a case, whether it was done again or is as it was.
func (r *round) settle(task *scenario.Task, repeat int) error {
	key := r.key(task, repeat)
	c := r.w.cells[key]
	if c == nil {
		return fmt.Errorf("case %s of target %s was not run", task.ID, r.s.Target.Name)
	}
	if !r.drive[task.ID] && !r.grade[task.ID] {
		r.out.Kept++
	}
	result := c.result(r.s.hidden(task))
	r.out.count(result)
	if result.Differs || result.Outcome != string(evidence.Passed) {
		r.out.Cases = append(r.out.Cases, result)
	}
	if repeat == 1 {
		at := 0
		for i, name := range r.out.Targets {
			if name == r.s.Target.Name {
				at = i
			}
		}
		r.out.row(task).Cells[at] = result
		return r.compareGolden(task, c)
	}
	return nil
}

// A GoldenChange is a case that differs from its golden trace.
type GoldenChange struct {
	Target string `json:"target"`
	Case   string `json:"case"`
	Detail string `json:"detail"`
}

// compareGolden notes how a case differs from its golden trace, if it has one.
func (r *round) compareGolden(task *scenario.Task, c *cell) error {
	if r.s.hidden(task) || c.Unanswered || c.incomplete != "" || c.stored == nil {
		return nil
	}
	golden, err := r.s.place.ReadGolden(r.s.Spec.Class, r.s.Target.Name, task.ID)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return nil // "tally golden check" says what is wrong with it
	}
	if name := digest.ContentOf(golden); name != c.golden || r.drive[task.ID] {
		v, err := c.trajectory()
		if err != nil {
			return err
		}
		d, err := outline.CheckGolden(golden, v, "", dossier.GoldenTrace)
		if err != nil {
			return nil
		}
		c.golden, c.goldenGiven = name, ""
		if !d.Equal() {
			c.goldenGiven = d.Detail()
		}
	}
	if c.goldenGiven != "" {
		r.out.Golden = append(r.out.Golden, GoldenChange{r.s.Target.Name, task.ID, c.goldenGiven})
	}
	return nil
}

// accept writes the golden traces that a person accepted: of what the agent did when it
// was shown, and at the level of the file that is there.
func (w *Watch) accept(setups []*Setup, asked []GoldenChange) ([]GoldenChange, error) {
	var done []GoldenChange
	for _, a := range asked {
		c := w.cells[cellKey{a.Target, a.Case, 1}]
		if c == nil || c.stored == nil || c.incomplete != "" {
			continue
		}
		for _, s := range setups {
			if s.Target.Name != a.Target {
				continue
			}
			v, err := c.trajectory()
			if err != nil {
				return nil, err
			}
			old, err := s.place.ReadGolden(s.Spec.Class, a.Target, a.Case)
			if err != nil {
				return nil, err
			}
			level := outline.Behaviour
			if !outline.IsOutline(old) {
				level = outline.Exact
			}
			if _, err := s.writeGolden(a.Case, v, level); err != nil {
				return nil, err
			}
			done = append(done, a)
		}
	}
	return done, nil
}
