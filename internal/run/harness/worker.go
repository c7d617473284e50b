package harness

import (
	"context"
	"sync"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/agent"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/grade"
	"tallystick/internal/run/journal"
	"tallystick/internal/run/policy"
	"tallystick/internal/run/scenario"
	"tallystick/internal/run/session"
	"tallystick/internal/run/trajectory"
)

// A Worker drives single cases and grades what came out. It has no ledger and
// no evidence folder: the caller that gave it a [Job] stores the [Graded] that
// it gets, so a worker may be anywhere.
type Worker struct {
	cfg   Config
	class string
	reg   bench.Registration // of the class
	cases *scenario.Set      // nil of one that only drives
	rules *policy.Ruleset
	// offered are the tools that these rules allow because cases offer them.
	offered []string
	limits  session.Limits
	memory  *session.Memory // that its cases share

	testing chan struct{} // one for each test of a case that drivers left open

	unlimit func() // takes the limit of the collector back

	// What the cases of the plan need, for one of them at least.
	judged, usesRubric, usesTest bool
	modelUser                    bool              // a model plays the user of a case
	userScripts                  []string          // that play users
	viewed                       bool              // a judge may be asked for a second view
	panel                        []string          // the judges of judge.yaml that panels name
	embedders                    []string          // the models whose vectors are compared
	worlds, programs             []*scenario.World // programs that grade count by their image alone
	askings                      []digest.Content  // what judges are asked, of every case
	parties                      scenario.Parties  // who asks which model, of every case

	of    int // cases that the patterns of the selection fit
	tasks int // executions that the plan promises

	// What this machine shows to agents and to the tests of cases; nil for nothing.
	shown, tested *agent.Shown
	testImages    []string                // that cases name for their tests
	testedIn      map[string]*agent.Shown // and what tests find in each

	rootsLock sync.Mutex
	roots     map[string]*agent.Shown // what worlds find, by the digest of their image

	rubrics *rubrics
	scripts *scripts
	warm    *agent.Warm // the sandbox of a preloaded agent, or nil
	specs   grade.Specs

	index sync.Once
	byID  map[string]int
}

// open checks what can be checked before a case runs, and opens the sandboxes that
// the cases of the config need. The caller closes the worker.
func open(ctx context.Context, cfg Config) (*prospect, error) {
	p, err := prepare(cfg)
	if err != nil {
		return nil, err
	}
	if err := p.worker.openSandboxes(ctx); err != nil {
		p.worker.Close()
		return nil, err
	}
	return p, nil
}

// Close closes the sandboxes.
func (w *Worker) Close() {
	w.rubrics.close()
	w.scripts.close()
	_ = w.warm.Close()
	if w.unlimit != nil {
		w.unlimit()
	}
}

// A Job is one execution of a case, numbered by the process that keeps the
// ledger.
type Job struct {
	Attempt   string
	Case      string
	Repeat    int
	Execution int
	// Spool, if not nil, is given the trajectory line by line as it grows.
	Spool func(line []byte) error
	// Paid is the journal of the execution's paid calls; nil if none is kept. An
	// execution that an earlier process began goes on as far as it is the same:
	// otherwise there is a refusal of the name JournalDiffers.
	Paid *journal.Running
	// Offline asks no model and no judge, in a run that may: it finds out which cases ask
	// something new.
	Offline bool
	// Authored, if not nil, answers in place of replies that the case has for its
	// agent: they stay with the process that keeps the case.
	Authored session.Models
}

// A Graded is one case that was driven and graded, and is not recorded. Record,
// Pieces and Crossings are all that the ledger and the evidence get.
type Graded struct {
	Case      *scenario.Task
	Repeat    int
	Suspended bool // an approval is open; there is no record then

	Record    evidence.CaseScored
	Pieces    [][]byte   // the evidence; the index, which the record names, is the last
	Crossings []Crossing // the boundaries that were crossed on the way
	Recording []byte     // the cassette of a live case, one of the pieces

	Files      evidence.CaseFiles   // the index, read
	Trajectory []byte               // one of the pieces
	Verified   *trajectory.Verified // the same, read
	Answer     string

	free func()
}

// release says that the case is put away.
func (g *Graded) release() {
	if g != nil && g.free != nil {
		g.free()
	}
}

// Incomplete says why a case is not one that ran to its own end and was scored; "" if it
// is one. It asks for what a whole run has, and not for the ways in which one breaks.
func (g *Graded) Incomplete() string {
	r := &g.Record
	scored := (r.Outcome == evidence.Passed || r.Outcome == evidence.Failed) && r.Score != nil && r.Reason == ""
	switch {
	case g.Suspended:
		return "it waits for an approval"
	case !scored && r.Reason != "":
		return string(r.Outcome) + ": " + r.Reason
	case !scored:
		return string(r.Outcome)
	case !g.Verified.Complete():
		return "its trajectory has no end"
	}
	return ""
}

// Piece finds a piece of the evidence by its digest; nil if there is none.
func (g *Graded) Piece(d digest.Content) []byte {
	for _, p := range g.Pieces {
		if digest.ContentOf(p) == d {
			return p
		}
	}
	return nil
}

// put adds a piece of evidence and returns its name.
func (g *Graded) put(data []byte) *digest.Content {
	d := digest.ContentOf(data)
	g.Pieces = append(g.Pieces, data)
	return &d
}

// close adds the index and names it in the record.
func (g *Graded) close() error {
	index, err := canon.Marshal(&g.Files)
	if err != nil {
		return err
	}
	g.Record.EvidenceDigests = []digest.Content{*g.put(index)}
	return nil
}

// Do drives the agent through one case and grades what it did. An error means
// that the harness could not do its work, or that ctx ended before the case did;
// whatever the agent did is in the record.
func (w *Worker) Do(ctx context.Context, j Job) (*Graded, error) {
	i, ok := w.find(j.Case)
	if !ok {
		return nil, refusal.Newf(refusal.UnknownName, "class %s has no case %q", w.cfg.Bench.Class(), j.Case).
			WithHint("the worker has another bench than the attempt was planned with")
	}
	g, err := w.do(ctx, i, j)
	g.release() // what it is kept in is the caller's affair
	return g, err
}

// do is Do for a case whose place in the bench is known.
func (w *Worker) do(ctx context.Context, index int, j Job) (g *Graded, err error) {
	r, err := w.take(index, j)
	if err != nil {
		return nil, err
	}
	defer func() {
		if g == nil {
			r.result.Free()
		} else {
			g.free = r.result.Free
		}
	}()
	remove, err := r.prepare(ctx)
	if err != nil {
		return nil, err
	}
	defer remove()
	if err := r.driveWithin(ctx); err != nil {
		return nil, err
	}
	// Before a judge is paid for an answer that is thrown away.
	if err := r.sameAsBefore(); err != nil {
		return nil, err
	}
	g, err = r.finish(ctx)
	if err == nil && !g.Suspended {
		err = j.Paid.Equalled(journal.Judge)
	}
	if err != nil {
		return nil, err
	}
	return g, nil
}

// driveWithin drives the agent for as long as a case may take. The session counts
// logical time; this bounds what an agent takes for itself.
func (r *run) driveWithin(ctx context.Context) error {
	within, cancel := context.WithTimeoutCause(ctx, r.w.limits.Wall, errWallClock)
	defer cancel()
	r.drive(within)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// sameAsBefore refuses an execution that went another way than its journal. One
// that waits for an approval may still make the requests that are left.
func (r *run) sameAsBefore() error {
	paid := r.job.Paid
	if stop := r.result.Stop; stop != nil && stop.Kind == session.Suspended {
		return paid.Differs()
	}
	for _, payer := range []journal.Payer{journal.Agent, journal.Tool, journal.User} {
		if err := paid.Equalled(payer); err != nil {
			return err
		}
	}
	return paid.Ended(r.result.Head)
}

// skip makes the record of a case that is not run because the attempt has spent
// its money, as why says. It is truncated and never quietly missing.
func (w *Worker) skip(index int, j Job, limit int64, why error) (*Graded, error) {
	return w.notRun(index, j, func(s *session.Session) {
		_ = s.Event(&trajectory.LimitReached{Limit: "cost_microdollars", Max: limit})
		s.Halt(session.Truncated, refusal.LimitReached, why)
	})
}

// notRun makes the record of a case that no agent was driven through. Halt says why.
func (w *Worker) notRun(index int, j Job, halt func(*session.Session)) (*Graded, error) {
	r, err := w.take(index, j)
	if err != nil {
		return nil, err
	}
	r.s, err = session.New(session.Config{Rules: w.rules, Run: trajectory.RunStarted{Attempt: j.Attempt, Case: r.c.ID, Class: w.cfg.Bench.Class(),
		Target: w.cfg.Target.Name, Repeat: j.Repeat, Execution: j.Execution}})
	if err != nil {
		return nil, err
	}
	halt(r.s)
	r.result = r.s.Fail(nil)
	return r.finish(context.Background())
}

func (w *Worker) take(index int, j Job) (*run, error) {
	c, err := w.caseAt(index)
	if err != nil {
		return nil, err
	}
	return &run{w: w, job: j, c: c, started: w.cfg.Now()}, nil
}

// caseAt is a case of the bench in which each authored reply has its party.
func (w *Worker) caseAt(index int) (*scenario.Task, error) {
	c, err := w.cases.Case(index)
	if err == nil {
		w.parties.Assign(&c.Scenario)
	}
	return c, err
}

// find gives the place of a case in the bench.
func (w *Worker) find(id string) (int, bool) {
	w.index.Do(func() {
		w.byID = make(map[string]int, w.cases.Len())
		for i := range w.cases.Len() {
			w.byID[w.cases.Ref(i).ID] = i
		}
	})
	i, ok := w.byID[id]
	return i, ok
}

// unnumbered names an attempt that no ledger has.
func (w *Worker) unnumbered() string {
	return attemptID(w.class, w.cfg.Target.Name, 0)
}

// testsOf is what the test of a case finds of this machine. A case whose image was not
// opened gets no other one.
func (w *Worker) testsOf(c *scenario.Task) (*agent.Shown, error) {
	image := c.Scenario.Test.Image
	if image == "" {
		return w.tested, nil
	}
	if shown := w.testedIn[image]; shown != nil {
		return shown, nil
	}
	return nil, refusal.Newf(refusal.SandboxFailed, "case %s: its test's image %s was not opened for this attempt", c.ID, image)
}
