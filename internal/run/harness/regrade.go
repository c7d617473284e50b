package harness

import (
	"context"
	"fmt"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/scenario"
	"tallystick/internal/run/session"
	"tallystick/internal/run/trajectory"
)

// A Stored case is what an earlier attempt left of a case.
type Stored struct {
	Attempt      string
	CaseID       string
	Repeat       int
	CostMicroUSD int64
	Files        evidence.CaseFiles
	Read         func(digest.Content) ([]byte, error) // a piece of the evidence
}

// A Regraded is a stored case under the graders of today.
type Regraded struct {
	Record  evidence.CaseScored // only what grading fills in; without a score it says why
	Grading []byte              // the grading document; nil when the case could not be graded

	// Verdicts are the documents of a model that was asked just now, and what
	// they name.
	Verdicts [][]byte

	// Vectors are the requests and replies that answers were compared by.
	Vectors [][]byte

	Crossings []Crossing // the boundaries that were crossed on the way
}

// Regrade grades stored trajectories with the bench as it is now. Nothing is
// driven. The working folder is made again from the evidence; where that cannot
// be done, what looks at its files is unscored.
func Regrade(ctx context.Context, cfg Config, cases []Stored, visit func(Stored, Regraded) error) error {
	p, err := prepare(cfg)
	if err != nil {
		return err
	}
	w := p.worker
	w.rubrics = newRubrics(w.cfg, w.reg.Isolation)
	defer w.Close()
	for _, s := range cases {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		i, ok := w.find(s.CaseID)
		if !ok {
			if err := visit(s, notRegraded("the class has no such case any more")); err != nil {
				return err
			}
			continue
		}
		c, err := w.caseAt(i)
		if err != nil {
			return err
		}
		g, err := w.regrade(ctx, c, s)
		if refusal.Is(err, refusal.NotFound) {
			g, err = notRegraded(err.Error()), nil // without its evidence; the others have theirs
		}
		if err != nil {
			return fmt.Errorf("case %s: %w", s.CaseID, err)
		}
		if err := visit(s, g); err != nil {
			return err
		}
	}
	return nil
}

// notRegraded is a case that was left as it is.
func notRegraded(why string) Regraded {
	return Regraded{Record: evidence.CaseScored{Outcome: evidence.Unscored, Reason: why}}
}

func (w *Worker) regrade(ctx context.Context, c *scenario.Task, s Stored) (Regraded, error) {
	log, err := s.Read(s.Files.Trajectory.Digest)
	if err != nil {
		return Regraded{}, err
	}
	v, err := trajectory.Verify(log, trajectory.HeadIs(s.Files.Trajectory.Head))
	if err != nil {
		return Regraded{}, err
	}
	r := &run{w: w, c: c, job: Job{Attempt: s.Attempt, Case: s.CaseID, Repeat: s.Repeat}, started: w.cfg.Now()}
	r.result = session.Result{Trajectory: log, Verified: v, Head: v.Head(), Contents: map[digest.Content][]byte{}}
	for _, d := range s.Files.Contents {
		if r.result.Contents[d], err = s.Read(d); err != nil {
			return Regraded{}, err
		}
	}
	if s.Files.Answer != nil {
		answer, err := s.Read(*s.Files.Answer)
		if err != nil {
			return Regraded{}, err
		}
		r.driven.Answer = string(answer)
	}
	if err := r.loadRecording(s); err != nil {
		return Regraded{}, err
	}
	r.openLibrary()
	if err := r.loadEmbedded(s); err != nil {
		return Regraded{}, err
	}
	ended := false
	for e := range v.Events() {
		switch p := e.Payload.(type) {
		case *trajectory.RunCompleted:
			ended, r.driven.Refused = true, p.Status == "refused"
		case *trajectory.RunStarted:
			r.driven.Vantage = p.Vantage
		case *trajectory.Failure:
			if p.Name == string(refusal.FolderUnreadable) {
				r.result.Folder = refusal.Newf(refusal.FolderUnreadable, "%s", p.Detail)
			}
		case *trajectory.TestRun:
			r.test = &TestResult{Passed: p.Passed, Exit: p.Exit}
		}
	}
	if !ended {
		return Regraded{}, errNotEnded
	}
	remove, ok, err := r.restoreFolder(s)
	defer remove()
	if err != nil {
		return Regraded{}, err
	}
	g := &Graded{Record: evidence.CaseScored{CostMicroUSD: s.CostMicroUSD, Turns: v.Turns()}}
	r.folderGone = !ok
	if err := r.grade(ctx, g); err != nil {
		return Regraded{}, err
	}
	out := Regraded{Record: g.Record, Crossings: g.Crossings}
	if g.Files.Grading != nil {
		out.Grading = g.Piece(*g.Files.Grading)
	}
	for _, v := range g.Files.Verdicts {
		for _, d := range append([]digest.Content{v.Document}, v.Pieces...) {
			out.Verdicts = append(out.Verdicts, g.Piece(d))
		}
	}
	for _, e := range g.Files.Embeddings {
		out.Vectors = append(out.Vectors, g.Piece(e.Request), g.Piece(e.Reply))
	}
	return out, nil
}

// loadRecording finds what models said then, for a judge that is asked the same
// again.
func (r *run) loadRecording(s Stored) (err error) {
	var data []byte
	switch {
	case s.Files.Recording != nil:
		data, err = s.Read(*s.Files.Recording)
	case r.c.Cassette != nil:
		data, err = r.c.Cassette.Data()
	}
	if err != nil || data == nil {
		return err
	}
	c, err := cassette.Parse(data, cassette.Limits{})
	if err == nil {
		r.player, r.judges = cassette.NewPlayer(c), cassette.NewJudgePlayer(c)
	}
	return err
}

// errNotEnded is why a case that was cut short is not graded again: it was
// never graded.
var errNotEnded = refusal.Newf(refusal.NotFound, "the run did not come to its own end, so there is nothing to grade")

// Ended reports whether a stored case can be graded again.
func Ended(outcome evidence.Outcome) bool {
	return outcome == evidence.Passed || outcome == evidence.Failed || outcome == evidence.Unscored
}
