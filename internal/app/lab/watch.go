package lab

import (
	"context"
	"errors"
	"fmt"

	"tallystick/internal/read/dossier"
	"tallystick/internal/read/outline"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/agent"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/harness"
	"tallystick/internal/run/judge"
	"tallystick/internal/run/scenario"
)

// A Watch runs a class again whenever something that it depends on has changed.
//
// Nothing is registered and the ledger is left alone: an attempt for each time a
// file is saved would make "attempt k of n" say nothing. So a class that is not
// signed as it is, because its author is working on it, runs as a scratch class.
type Watch struct {
	Spec      harness.Spec // of one target
	TrustRoot string

	// What is told while it runs: what changed before a run, each case that
	// did not pass or is not as it was, and the run as a whole.
	Began func(changed []string)
	Case  func(WatchedResult)
	Ended func(*Watched) error

	files  watchedFiles
	target *agent.Target // the last that could be read
	last   *versions     // of the last run that came to its end
	before map[string]*former
}

// A Watched is one run of a [Watch].
type Watched struct {
	Class    string          `json:"class"`
	Target   string          `json:"target"`
	Recorded bool            `json:"recorded"` // never
	Changed  []string        `json:"changed"`  // files since the run before
	Total    int             `json:"total"`
	Passed   int             `json:"passed"`
	Failed   int             `json:"failed"`
	Other    int             `json:"other"` // neither: errors, truncated, unscored, skipped
	Flips    int             `json:"flips"` // cases that are not as they were
	Cases    []WatchedResult `json:"cases"` // that did not pass, or flipped
	Unsigned string          `json:"unsigned,omitempty"`
	Error    string          `json:"error,omitempty"` // why there was no run
	Hint     string          `json:"hint,omitempty"`
}

// A WatchedResult is a case that did not pass, or is not as it was.
type WatchedResult struct {
	Case       string `json:"case"`
	Repeat     int    `json:"repeat"`
	Outcome    string `json:"outcome"`
	Was        string `json:"was,omitempty"` // in the run before
	Why        string `json:"why,omitempty"`
	Divergence string `json:"divergence,omitempty"` // the first, from when it last passed or its golden trace
	HeldOut    bool   `json:"held_out,omitempty"`
}

// Flipped reports whether the case passes now and did not before, or the reverse.
func (c WatchedResult) Flipped() bool {
	return c.Was != "" && (c.Was == string(evidence.Passed)) != (c.Outcome == string(evidence.Passed))
}

// A former is how a case went before.
type former struct {
	outcome string
	passed  []byte // its trace when it last passed; nil if that is not known or large
}

// maxTrace bounds a trace that is kept for comparison.
const maxTrace = 1 << 20

// versions are what a run was made of.
type versions struct {
	common digest.Content // of everything but the cases
	cases  map[string]scenario.Ref
}

// Loop runs the class until the context ends, which is not an error. It ends early
// if the first run was asked for wrongly, and if evidence does not verify;
// everything else may be mended while it waits.
func (w *Watch) Loop(ctx context.Context, place *dossier.Place) error {
	w.files = watchedFiles{place: place, class: w.Spec.Class, target: w.Spec.Target()}
	w.files.look(nil)
	w.before = map[string]*former{}
	var changed []string
	for first := true; ; first = false {
		w.Began(changed)
		run, more, err := w.interruptible(ctx, place, changed)
		switch code := refusal.ExitCode(err); {
		case ctx.Err() != nil:
			return nil
		case more != nil:
			changed = more
			continue
		case err != nil && (first && code == refusal.ExitUsage || code == refusal.ExitUnverified):
			return err
		case err != nil:
			r := refusal.Of(err)
			run = &Watched{Class: w.Spec.Class, Target: w.Spec.Target(), Changed: changed, Cases: []WatchedResult{}, Error: r.Error(), Hint: r.Hint}
		}
		if err := w.Ended(run); err != nil {
			return err
		}
		if changed, err = w.files.wait(ctx, w.target); err != nil {
			return nil
		}
	}
}

// errStale ends a run whose files have changed meanwhile.
var errStale = errors.New("something changed while it ran")

// interruptible is run that stops as soon as something changes; then it returns
// what did.
func (w *Watch) interruptible(ctx context.Context, place *dossier.Place, changed []string) (*Watched, []string, error) {
	c, err := place.OpenCorpusFor(w.TrustRoot)
	if err != nil {
		return nil, nil, err
	}
	defer c.Close()
	s, unsigned, err := w.setup(c)
	if err != nil {
		return nil, nil, err
	}
	w.target = s.Target
	w.files.adopt(w.target)
	now := versionsOf(s, w.files.known[place.Path(judge.SettingsFile)].content)

	running, stop := context.WithCancelCause(ctx)
	watching, done := context.WithCancel(ctx)
	news := make(chan []string, 1)
	go func() {
		more, _ := w.files.wait(watching, w.target)
		if more != nil {
			stop(errStale)
		}
		news <- more
	}()
	run, err := w.run(running, s, now, unsigned, changed)
	done()
	more := <-news
	stop(nil)
	if err == nil && more != nil {
		// The run came to its end all the same: show it, and begin again.
		if err := w.Ended(run); err != nil {
			return nil, nil, err
		}
	}
	return run, more, err
}

// setup verifies the class as it is now.
func (w *Watch) setup(c *dossier.Corpus) (*Setup, error, error) {
	if bench.IsShipped(w.Spec.Class) {
		s, err := New(c, w.Spec)
		return s, nil, err
	}
	return newRecordable(c, w.Spec)
}

// run rehearses the class: cases that have changed first, if nothing else has.
func (w *Watch) run(ctx context.Context, s *Setup, now *versions, unsigned error, changed []string) (*Watched, error) {
	out := &Watched{Class: w.Spec.Class, Target: w.Spec.Target(), Changed: append([]string{}, changed...), Cases: []WatchedResult{}}
	if unsigned != nil {
		out.Unsigned = unsigned.Error()
	}
	touched := now.touched(w.last)
	for _, part := range []func(*scenario.Task) bool{
		func(c *scenario.Task) bool { return touched[c.ID] },
		func(c *scenario.Task) bool { return !touched[c.ID] },
	} {
		if err := w.part(ctx, s, part, out); err != nil {
			return nil, err
		}
	}
	if out.Total == 0 { // the harness says how to select some
		return nil, s.rehearse(ctx, nil, onlyListed, func(*harness.Graded) error { return nil })
	}
	w.last = now
	return out, nil
}

// part rehearses some of the selected cases.
func (w *Watch) part(ctx context.Context, s *Setup, some func(*scenario.Task) bool, out *Watched) error {
	choose := func(c *scenario.Task) bool { return some(c) && s.Spec.Matches(c.ID, c.Tags) }
	any, err := anyCase(s, choose)
	if err != nil || !any {
		return err
	}
	return s.rehearse(ctx, choose, onlyListed, func(g *harness.Graded) error {
		c, flipped, err := w.graded(s, g)
		if err != nil {
			return err
		}
		out.count(c, flipped)
		if flipped || c.Outcome != string(evidence.Passed) {
			out.Cases = append(out.Cases, c)
			w.Case(c)
		}
		return nil
	})
}

// onlyListed leaves what a rubric tried in the workspace's list of events: while
// an author is writing one, an entry of the ledger each time would bury the others.
func onlyListed(evidence.IntegrityEvent) error { return nil }

func anyCase(s *Setup, choose func(*scenario.Task) bool) (bool, error) {
	cases := scenario.Of(s.Bench, s.Target.Name)
	for i := range cases.Len() {
		c, err := cases.Case(i)
		if err != nil {
			return false, err
		}
		if choose(c) {
			return true, nil
		}
	}
	return false, nil
}

func (out *Watched) count(c WatchedResult, flipped bool) {
	out.Total++
	if flipped {
		out.Flips++
	}
	switch evidence.Outcome(c.Outcome) {
	case evidence.Passed:
		out.Passed++
	case evidence.Failed:
		out.Failed++
	default:
		out.Other++
	}
}

// graded compares a case with how it went before, and remembers it.
func (w *Watch) graded(s *Setup, g *harness.Graded) (WatchedResult, bool, error) {
	c := WatchedResult{Case: g.Case.ID, Repeat: g.Repeat, Outcome: string(g.Record.Outcome), HeldOut: g.Case.HeldOut}
	if g.Suspended {
		c.Outcome, c.Why = string(evidence.Unscored), "waits for an approval that no one answers here"
	}
	key := fmt.Sprintf("%s#%d", c.Case, c.Repeat)
	f := w.before[key]
	if f == nil {
		f = &former{}
		w.before[key] = f
	}
	c.Was, f.outcome = f.outcome, c.Outcome
	if c.Outcome == string(evidence.Passed) {
		f.keep(g)
		return c, c.Flipped(), nil
	}
	if !s.leavesOut(g) && !g.Suspended {
		c.Why = triedOf(g).Why
		var err error
		if c.Divergence, err = w.divergence(s, g, f.passed); err != nil {
			return c, false, err
		}
	}
	return c, c.Flipped(), nil
}

// keep remembers what the agent did in a case that passed.
func (f *former) keep(g *harness.Graded) {
	if f.passed = outline.Of(g.Verified).Format(); len(f.passed) > maxTrace {
		f.passed = nil
	}
}

// divergence is where a case first parts from when it last passed here, or from
// its golden trace; "" if there is neither, or no difference.
func (w *Watch) divergence(s *Setup, g *harness.Graded, passed []byte) (string, error) {
	if passed == nil {
		golden, err := s.place.ReadGolden(w.Spec.Class, s.Target.Name, g.Case.ID)
		if err != nil {
			return "", nil // there is none, or none that can be read: it is only shown
		}
		passed = golden
	}
	d, err := outline.CheckGolden(passed, g.Verified, "", dossier.GoldenTrace)
	if err != nil || d.Equal() {
		return "", err
	}
	return d.Detail(), nil
}

// versionsOf names what a run is made of.
func versionsOf(s *Setup, judge digest.Content) *versions {
	m := s.Bench.Manifest()
	v := &versions{common: digest.ContentOf(fmt.Appendf(nil, "%s %s %s %v", m.Registration, s.Target.Digest, judge, m.Rubric)), cases: map[string]scenario.Ref{}}
	cases := scenario.Of(s.Bench, s.Target.Name)
	for i := range cases.Len() {
		ref := cases.Ref(i)
		v.cases[ref.ID] = ref
	}
	return v
}

// touched are the cases that differ from before; none if something else does too,
// because then every case may have changed.
func (v *versions) touched(before *versions) map[string]bool {
	out := map[string]bool{}
	if before == nil || v.common != before.common {
		return out
	}
	for id, now := range v.cases {
		was, ok := before.cases[id]
		if !ok || was.Digest != now.Digest || (was.Cassette == nil) != (now.Cassette == nil) || now.Cassette != nil && *was.Cassette != *now.Cassette {
			out[id] = true
		}
	}
	return out
}
