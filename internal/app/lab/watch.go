package lab

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"tallystick/internal/read/dossier"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/agent"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/harness"
	"tallystick/internal/run/judge"
	"tallystick/internal/run/scenario"
)

// repliesDir is where replies lie that answer by content.
const repliesDir = "cassettes/replies"

// A Watch runs a class again whenever something that it depends on has changed, by one
// target or by several. Of each run only what the change touched is done: a case whose
// agent would do the same again is not driven, and if its graders alone changed it is
// graded again from what the agent did before.
//
// Nothing is registered, and the ledger has nothing of it but replies that were paid for: an attempt for each time a
// file is saved would make "attempt k of n" say nothing. So a class that is not
// signed as it is, because its author is working on it, runs as a scratch class.
//
// A change while a run is under way stops it, and the next begins at once with what has
// changed since.
type Watch struct {
	Spec      harness.Spec
	TrustRoot string

	// What is told while it runs: what changed before a run, each case that is not as it
	// was or that does not pass the first time, and the run as a whole.
	Began func(changed []string)
	Case  func(WatchedResult)
	Ended func(*Watched) error

	// Command is the run as a person would type it to record an attempt.
	Command string

	// Asks is what a person asks for between two changes; nil without a terminal.
	Asks <-chan WatchAsk

	files   watchedFiles
	targets []*agent.Target // the last that could be read
	cells   map[cellKey]*cell
	library library
	kept    int // bytes, of all cells
}

// A WatchAsk is what a person asks of a watch.
type WatchAsk struct {
	All     bool // drive every case again
	Failing bool // drive those again that do not pass
	// Accept names cases whose golden traces are to be what their agents did last.
	Accept []GoldenChange
}

// drives reports whether a case is driven again because a person asks for it.
func (a *WatchAsk) drives(c *cell) bool {
	return a.All || a.Failing && c != nil && c.Outcome != string(evidence.Passed)
}

// A Watched is one run of a [Watch].
type Watched struct {
	Class    string          `json:"class"`
	Target   string          `json:"target"`            // the only one, or the first
	Targets  []string        `json:"targets,omitempty"` // if there are several
	Recorded bool            `json:"recorded"`          // never
	Changed  []string        `json:"changed"`           // files since the run before
	Total    int             `json:"total"`
	Passed   int             `json:"passed"`
	Failed   int             `json:"failed"`
	Other    int             `json:"other"` // neither: errors, truncated, unscored, skipped
	Flips    int             `json:"flips"` // cases that are not as they were
	Cases    []WatchedResult `json:"cases"` // that did not pass, or are not as they were; the failing ones first
	Unsigned string          `json:"unsigned,omitempty"`
	Error    string          `json:"error,omitempty"` // why there was no run
	Hint     string          `json:"hint,omitempty"`

	// Of the total: what was driven this time, what was graded again from what was driven
	// before, and what is as it was.
	Driven   int `json:"driven"`
	Regraded int `json:"graded_again"`
	Kept     int `json:"kept"`

	// Unanswered are the cases that ask something that is not recorded.
	Unanswered int `json:"unanswered,omitempty"`
	// Questions are these, by target, with what it would take to answer them.
	Questions []WatchedQuestion `json:"questions,omitempty"`
	// What was paid for this run, and today in this workspace.
	PaidCalls  int64 `json:"paid_calls"`
	PaidMicro  int64 `json:"paid_microdollars"`
	TodayMicro int64 `json:"spent_today_microdollars"`
	// Golden are cases that differ from their golden traces; Accepted those whose traces
	// were written because a person asked for it.
	Golden   []GoldenChange `json:"golden,omitempty"`
	Accepted []GoldenChange `json:"accepted,omitempty"`
	// Unseen are folders of which not all files are looked at.
	Unseen []string `json:"unseen,omitempty"`

	// Rows are all cases by all targets, in the order of the bench.
	Rows []WatchedRow `json:"-"`
}

// A WatchedRow is one case by every target.
type WatchedRow struct {
	Case  string
	Cells []WatchedResult // in the order of the targets; without an outcome where there is none
}

// A WatchedResult is a case that did not pass, or is not as it was.
type WatchedResult struct {
	Target     string `json:"target,omitempty"` // if there are several
	Case       string `json:"case"`
	Repeat     int    `json:"repeat"`
	Outcome    string `json:"outcome"`
	Was        string `json:"was,omitempty"` // when it was answered before
	Why        string `json:"why,omitempty"`
	Divergence string `json:"divergence,omitempty"` // the first, from when it last passed or its golden trace
	HeldOut    bool   `json:"held_out,omitempty"`
	Answer     string `json:"answer,omitempty"`
	WasAnswer  string `json:"was_answer,omitempty"` // where it is another
	// Unanswered says that it asks something that is not recorded, which is a question
	// and not a verdict.
	Unanswered bool `json:"unanswered,omitempty"`
	// Differs says that it is not as it was in the run before.
	Differs bool `json:"differs"`
}

// Flipped reports whether the case passes now and did not before, or the reverse.
func (c WatchedResult) Flipped() bool {
	return c.Was != "" && !c.Unanswered && (c.Was == string(evidence.Passed)) != (c.Outcome == string(evidence.Passed))
}

// Loop runs the class until the context ends, which is not an error. It ends early
// if the first run was asked for wrongly, and if evidence does not verify;
// everything else may be mended while it waits.
func (w *Watch) Loop(ctx context.Context, place *dossier.Place) error {
	w.files = watchedFiles{place: place, class: w.Spec.Class, targets: w.names()}
	w.files.look(nil)
	w.cells = map[cellKey]*cell{}
	var next change
	for first := true; ; first = false {
		w.Began(next.files)
		run, more, err := w.interruptible(ctx, place, next)
		switch code := refusal.ExitCode(err); {
		case ctx.Err() != nil:
			return nil
		case more != nil:
			next = next.and(*more)
			continue
		case err != nil && (first && code == refusal.ExitUsage || code == refusal.ExitUnverified):
			return err
		case err != nil:
			r := refusal.Of(err)
			run = &Watched{Class: w.Spec.Class, Target: w.Spec.Target(), Changed: append([]string{}, next.files...), Cases: []WatchedResult{}, Error: r.Error(), Hint: r.Hint}
		}
		if err := w.Ended(run); err != nil {
			return err
		}
		if next, err = w.wait(ctx); err != nil {
			return nil
		}
	}
}

// names are the targets as they were asked for.
func (w *Watch) names() []string {
	if len(w.Spec.Targets) > 0 {
		return w.Spec.Targets
	}
	return []string{w.Spec.Target()}
}

// A change is why there is another run: files, or a person who asks for it.
type change struct {
	files []string
	ask   WatchAsk
}

// and adds what came while a run for c was under way, which did not come to its end.
func (c change) and(more change) change {
	all := append(slices.Clone(c.files), more.files...)
	slices.Sort(all)
	c.files, c.ask.All, c.ask.Failing = slices.Compact(all), c.ask.All || more.ask.All, c.ask.Failing || more.ask.Failing
	c.ask.Accept = append(c.ask.Accept, more.ask.Accept...)
	return c
}

// wait returns the next reason to run.
func (w *Watch) wait(ctx context.Context) (change, error) {
	waiting, done := context.WithCancel(ctx)
	defer done()
	files := make(chan []string, 1)
	go func() {
		changed, _ := w.files.wait(waiting, w.targets)
		files <- changed
	}()
	select {
	case changed := <-files:
		if changed == nil {
			return change{}, context.Cause(ctx)
		}
		return change{files: changed}, nil
	case ask := <-w.Asks:
		done()
		return change{<-files, ask}, nil
	}
}

// errStale ends a run whose files have changed meanwhile.
var errStale = errors.New("something changed while it ran")

// interruptible is run that stops as soon as something changes; then it returns
// what did.
func (w *Watch) interruptible(ctx context.Context, place *dossier.Place, now change) (*Watched, *change, error) {
	c, err := place.OpenCorpusFor(w.TrustRoot)
	if err != nil {
		return nil, nil, err
	}
	defer c.Close()
	setups, unsigned, err := w.setups(c)
	if err != nil {
		return nil, nil, err
	}
	w.library.note(w.files.below(repliesDir))
	states := w.statesOf(setups)

	running, stop := context.WithCancelCause(ctx)
	watching, done := context.WithCancel(ctx)
	news := make(chan *change, 1)
	go func() {
		more, err := w.wait(watching)
		if err != nil {
			news <- nil
			return
		}
		stop(errStale)
		news <- &more
	}()
	run, err := w.run(running, ctx, setups, states, now)
	done()
	more := <-news
	stop(nil)
	if err == nil && unsigned != nil {
		run.Unsigned = unsigned.Error()
	}
	if err == nil && more != nil {
		// The run came to its end all the same: show it, and begin again.
		if err := w.Ended(run); err != nil {
			return nil, nil, err
		}
		return run, more, nil
	}
	return run, more, err
}

// setups verifies the class as it is now, and finds its targets. Their files are known
// before they are read for the last time: an edit between the two would be missed.
func (w *Watch) setups(c *dossier.Corpus) (setups []*Setup, unsigned, err error) {
	const tries = 3 // the files may name others
	for range tries {
		if bench.IsShipped(w.Spec.Class) {
			setups, err = Each(c, w.Spec)
		} else {
			setups, unsigned, err = eachRecordable(c, w.Spec)
		}
		if err != nil {
			return nil, nil, err
		}
		w.targets = nil
		for _, s := range setups {
			w.targets = append(w.targets, s.Target)
		}
		if !w.files.adopt(w.targets) {
			break
		}
	}
	return setups, unsigned, nil
}

// eachRecordable is [newRecordable] for every target that the spec names.
func eachRecordable(c *dossier.Corpus, spec harness.Spec) (all []*Setup, unsigned, err error) {
	how := func(d digest.Content) bench.CassetteProvenance { return bench.CassetteProvenance(c.Recorded[d]) }
	v, unsigned, err := bench.VerifyForRecording(c.Root, spec.Class, c.Options, how)
	if err != nil {
		return nil, nil, c.Alarm(err)
	}
	warn(c, v)
	all, err = eachOf(c, v, spec)
	return all, unsigned, err
}

// A state is what the cases of one target depend on besides the case itself, as far as
// the documents of the class do not say it.
type state struct{ files, judge digest.Content }

func (w *Watch) statesOf(setups []*Setup) []state {
	var out []state
	for _, s := range setups {
		files, _ := s.Target.Watched()
		out = append(out, state{w.files.digestOf(files), w.files.known[w.files.place.Path(judge.SettingsFile)].content})
	}
	return out
}

// run brings every case of every target up to date. What is paid for goes on until the
// lasting context ends.
func (w *Watch) run(ctx, lasting context.Context, setups []*Setup, states []state, now change) (*Watched, error) {
	out := &Watched{Class: w.Spec.Class, Target: setups[0].Target.Name, Changed: append([]string{}, now.files...), Cases: []WatchedResult{}}
	if len(setups) > 1 {
		for _, s := range setups {
			out.Targets = append(out.Targets, s.Target.Name)
		}
	}
	spent, calls, err := spentToday(w.files.place)
	if err != nil {
		return nil, err
	}
	if out.Accepted, err = w.accept(setups, now.ask.Accept); err != nil {
		return nil, err
	}
	for i, s := range setups {
		round := &round{w: w, s: s, state: states[i], ask: now.ask, out: out, lasting: lasting}
		if err := round.run(ctx); err != nil {
			return nil, err
		}
		_, unseen := s.Target.Watched()
		for _, dir := range unseen {
			out.Unseen = append(out.Unseen, w.files.short(dir))
		}
	}
	if out.Total == 0 { // the harness says how to select some
		return nil, setups[0].rehearse(ctx, nil, onlyListed, func(*harness.Graded) error { return nil })
	}
	for _, c := range w.cells {
		c.told()
	}
	if out.TodayMicro, out.PaidCalls, err = spentToday(w.files.place); err != nil {
		return nil, err
	}
	out.PaidMicro, out.PaidCalls = out.TodayMicro-spent, out.PaidCalls-calls
	slices.SortStableFunc(out.Cases, func(a, b WatchedResult) int { return a.rank() - b.rank() })
	return out, nil
}

// rank puts what fails before what passes, and what asks something new last.
func (c WatchedResult) rank() int {
	switch {
	case c.Unanswered:
		return 2
	case c.Outcome == string(evidence.Passed):
		return 1
	}
	return 0
}

// onlyListed leaves what a rubric tried in the workspace's list of events: while
// an author is writing one, an entry of the ledger each time would bury the others.
func onlyListed(evidence.IntegrityEvent) error { return nil }

func (out *Watched) count(c WatchedResult) {
	out.Total++
	if c.Differs && c.Flipped() {
		out.Flips++
	}
	if c.Unanswered {
		out.Unanswered++
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

// row is that of a case, made if there is none.
func (out *Watched) row(c *scenario.Task) *WatchedRow {
	at := slices.IndexFunc(out.Rows, func(r WatchedRow) bool { return r.Case == c.ID })
	if at < 0 {
		at = len(out.Rows)
		out.Rows = append(out.Rows, WatchedRow{Case: c.ID, Cells: make([]WatchedResult, max(1, len(out.Targets)))})
	}
	return &out.Rows[at]
}

// A library is what is known of the replies that answer by content. They are added to
// and not replaced, so what came can change only a case that was not answered; what
// went, or is another now, may change every case.
type library struct {
	known     map[string]digest.Content
	additions int // how often something came
	losses    int // how often something went or changed
}

func (l *library) note(now map[string]digest.Content) {
	for name, was := range l.known {
		if is, there := now[name]; !there || is != was {
			l.losses++
			break
		}
	}
	if len(now) != len(l.known) {
		l.additions++
	}
	l.known = now
}

// state names what of it decides a case.
func (l *library) state(unanswered bool) string {
	if unanswered {
		return fmt.Sprintf("%d %d", l.losses, l.additions)
	}
	return fmt.Sprint(l.losses)
}
