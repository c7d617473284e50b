// Package harness runs one attempt from end to end: it registers the attempt in
// the ledger, drives the target through each case, grades what came out, puts
// the evidence away and then the record, and finishes with the totals.
//
// The order is the promise. The registration, with its whole plan, is durable
// before the first case; case.started before the agent sees a case; the
// evidence before the record that names it. So whatever is killed at any
// moment, the ledger tells what was begun, and [Run] with Resume goes on
// without repeating a case that was recorded or losing one.
//
// Driving and grading a case is the work of a [Worker], which has no ledger; the
// attempt alone appends what came of it.
//
// Cases run side by side; their scores do not depend on how many do. The
// package takes only verified benches, knows no threshold and decides nothing
// about an attempt: readers do, from the ledger.
package harness

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/journal"
)

// Run runs an attempt and records it in the books. The summary is there also when
// the attempt could not be finished, with what was recorded so far.
func Run(ctx context.Context, cfg Config, books Books) (*Summary, error) {
	started := cfg.Now()
	if cfg.Drivers != nil && len(cfg.Target.Egress) > 0 {
		return nil, refusal.Newf(refusal.Usage, "%s lists servers under egress, and what a worker's proxy saw cannot be computed again here", cfg.Target.File()).
			WithHint("run the target on this machine, without --fleet")
	}
	p, err := prepare(cfg)
	if err != nil {
		return nil, err
	}
	a := &attempt{worker: p.worker, cfg: &p.worker.cfg, books: books, plan: p.plan, left: p.jobs, results: map[planned]brief{}, started: started}
	defer a.close()
	if err := a.register(ctx); err != nil {
		return nil, err
	}
	if err := a.beginDrivers(ctx); err != nil {
		return a.summary(), err
	}
	if err := a.runAll(ctx); err != nil {
		return a.summary(), err
	}
	if len(a.suspended) > 0 {
		return a.summary(), refusal.Newf(refusal.ApprovalPending, "attempt %s waits for an approval in %d of its cases: %s", a.id, len(a.suspended), list(a.suspended)).
			WithHint("answer at a terminal, with %s", a.again())
	}
	if err := a.finish(); err != nil {
		return a.summary(), err
	}
	// Also when Ctrl-C came during the last case: the attempt is finished and
	// must not lack its anchor.
	err = books.Ledger.Publish(context.WithoutCancel(ctx))
	return a.summary(), err
}

// again is the command that resumes the attempt.
func (a *attempt) again() string {
	return cmp.Or(a.cfg.Spec.ResumeCommand, fmt.Sprintf("tally run %s --target %s --resume", a.cfg.Bench.Class(), plain.ShellWord(a.cfg.Target.Name)))
}

// An attempt is one execution of a bench while it is under way. It gives cases to
// its worker, and it alone appends to the ledger.
type attempt struct {
	worker  *Worker
	cfg     *Config // of the worker
	books   Books
	id      string
	number  int
	plan    evidence.Plan // with its whole list of cases, however long
	left    []job         // what is to be run, in the order of the plan
	started time.Time

	registered *evidence.AttemptRegistered

	pack    *store.Pack // guarded by mu once cases run
	part    int         // of the packs of the attempt, the last that was made
	journal *store.Journal
	listing sync.Mutex       // held by who adds to the journal or seals it
	listed  bool             // the journal is in the evidence and gets nothing more
	list    eventList        // what the journal holds, guarded by listing
	paid    *journal.Journal // of paid calls; nil if nothing is live
	spools  []*store.Journal

	ending sync.RWMutex // held by drivers that write to the ledger, which is closed after over
	over   bool

	// offering ends, by withdraw, when the records answer the question of the
	// attempt: cases that no worker has taken by then are not run.
	offering context.Context
	withdraw context.CancelFunc

	mu        sync.Mutex
	results   map[planned]brief
	last      *circumstances // of the last of these
	spent     int64          // micro-dollars, for the limit of the attempt
	unpriced  int64          // calls that are not in it
	suspended []string
	aside     []job // cases that ask something new, for the second pass
	disagreed int   // cases that two workers of a fleet ran with another result
	finished  bool
}

// planned names one execution that the plan promises.
type planned struct {
	id     string
	repeat int
}

// A job is one case to run.
type job struct {
	index     int // in the set of cases
	id        string
	repeat    int
	execution int
	resumed   bool // an earlier process began this execution and paid for calls
	begun     bool // the ledger has that it started: the pass before set it aside
	offline   bool // no model is asked
}

// runAll runs the cases of the plan that are not recorded yet. Where models are asked for
// what recordings do not answer, everything is driven offline first: what that takes is
// known before anything is paid, and the estimate is about exactly the cases that ask
// something new.
func (a *attempt) runAll(ctx context.Context) error {
	if !a.cfg.Spec.asksWhatIsMissing() || a.cfg.Drivers != nil {
		return a.pass(ctx, a.left, false)
	}
	first := slices.Clone(a.left)
	first = slices.DeleteFunc(first, func(j job) bool {
		if j.resumed { // it has paid for calls: it is brought to its end as it was
			a.aside = append(a.aside, j)
		}
		return j.resumed
	})
	if err := a.pass(ctx, first, true); err != nil || len(a.aside) == 0 {
		return err
	}
	again := a.aside
	a.aside = nil
	slices.SortFunc(again, func(x, y job) int { return cmp.Or(x.index-y.index, x.repeat-y.repeat) })
	refused := a.estimate(again)
	if refused != nil && !isUnanswered(refused) {
		return refused
	}
	for i := range again {
		again[i].offline = refused != nil // then they are recorded as what they are: not answered
	}
	return a.pass(ctx, again, false)
}

// estimate tells the live side which cases it will be asked about. It may refuse.
func (a *attempt) estimate(jobs []job) error {
	e, ok := a.cfg.Live.(Estimator)
	if !ok {
		return nil
	}
	var ids []string
	for _, j := range jobs {
		ids = append(ids, j.id)
	}
	return e.Ahead(ids, a.plan.CaseCount*a.plan.Repeat)
}

// pass runs cases side by side. In the first of two passes, which asks no model, cases
// that ask something new are set aside: nothing is recorded of them but that they began.
func (a *attempt) pass(ctx context.Context, jobs []job, first bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	a.offering, a.withdraw = context.WithCancel(ctx)
	defer a.withdraw()
	queue := make(chan job)
	var workers sync.WaitGroup
	for n := range a.atOnce() {
		workers.Go(func() {
			for j := range queue {
				j.offline = j.offline || first
				if err := a.runOne(ctx, n, j); err != nil {
					cancel(err) // the harness itself failed: stop the others
				}
			}
		})
	}
	for _, j := range jobs {
		if a.decided() {
			break
		}
		select {
		case queue <- j:
			continue
		case <-ctx.Done():
		}
		break
	}
	close(queue)
	workers.Wait()
	if ctx.Err() == nil {
		return nil
	}
	err := context.Cause(ctx)
	if errors.Is(err, context.Canceled) {
		return refusal.Newf(refusal.Interrupted, "attempt %s was stopped after %d of %d cases", a.id, len(a.results), a.plan.CaseCount*a.plan.Repeat).
			WithHint("resume with %s; nothing that was recorded is run again", a.again())
	}
	return err
}

// runOne takes one case from case.started to its record.
func (a *attempt) runOne(ctx context.Context, n int, j job) error {
	if ctx.Err() != nil {
		return nil // stopped: what has not begun is left for a resume
	}
	if !j.resumed && !j.begun && a.decided() {
		return nil // the question is answered: nothing more is begun
	}
	if a.cfg.Drivers != nil {
		return a.runRemote(ctx, j)
	}
	if !j.resumed && !j.begun {
		if err := a.startCase(j, ""); err != nil {
			return err
		}
	}
	g, err := a.execute(ctx, n, j)
	if j.resumed && refusal.Is(err, refusal.JournalDiffers) {
		return a.startAgain(ctx, n, j, err)
	}
	if err != nil {
		return err
	}
	defer g.release()
	if g == nil {
		return nil // killed in the middle: the ledger knows that it began
	}
	if j.offline && !j.begun && g.Record.Unanswered {
		j.begun, j.offline = true, false
		a.mu.Lock()
		defer a.mu.Unlock()
		a.aside = append(a.aside, j)
		return nil
	}
	return a.put(ctx, j, g)
}

// put writes what a case came to.
func (a *attempt) put(ctx context.Context, j job, g *Graded) error {
	for _, c := range g.Crossings {
		if err := a.crossed(c); err != nil {
			return err
		}
	}
	switch {
	case ctx.Err() != nil:
		return nil
	case g.Suspended:
		return a.suspend(j)
	}
	return a.record(j, g)
}

// execute has the worker drive and grade a case, or passes over it if the money
// is spent. It gives nil if the attempt was stopped meanwhile.
func (a *attempt) execute(ctx context.Context, n int, j job) (*Graded, error) {
	given := Job{Attempt: a.id, Case: j.id, Repeat: j.repeat, Execution: j.execution, Offline: j.offline}
	// What was paid for already is brought to its end: nothing new is sent that
	// does not fit into the limit.
	if !j.resumed && !j.offline && a.overBudget() {
		return a.skip(j, given)
	}
	if a.paid != nil && !j.offline {
		var err error
		if given.Paid, err = a.paid.Case(journal.Execution{Case: j.id, Repeat: j.repeat, Number: j.execution}); err != nil {
			return nil, err
		}
	}
	if a.spools != nil {
		if err := a.spools[n].Restart(); err != nil {
			return nil, err
		}
		given.Spool = a.spools[n].Append
	}
	g, err := a.worker.do(ctx, j.index, given)
	if err != nil && ctx.Err() != nil {
		return nil, nil
	}
	return g, err
}

// overBudget reports whether the attempt has spent what it may.
func (a *attempt) overBudget() bool {
	return a.cfg.Spec.MaxCostMicroUSD > 0 && (a.spentSoFar() >= a.cfg.Spec.MaxCostMicroUSD || a.unbounded() > 0)
}

// unbounded is how many calls there are of which nothing bounds what they cost. The
// journal of a live attempt counts an unpriced call at the most that it can have cost;
// a recording does not tell that.
func (a *attempt) unbounded() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.paid != nil {
		return 0
	}
	return a.unpriced
}

// skip passes over a case, because the money is spent or may be.
func (a *attempt) skip(j job, given Job) (*Graded, error) {
	limit := a.cfg.Spec.MaxCostMicroUSD
	why := fmt.Errorf("the attempt has spent its limit of %d micro-dollars; the case was not run", limit)
	if n := a.unbounded(); n > 0 {
		why = fmt.Errorf("the attempt may have spent its limit of %d micro-dollars, because the cost of %s is not known; the case was not run (run without --max-cost, or record again with the prices of the models in providers.yaml and usage in the replies)",
			limit, plain.Plural(int(n), "call"))
	}
	return a.worker.skip(j.index, given, limit, why)
}

// spentSoFar is what the attempt has cost, calls that are under way at their most.
func (a *attempt) spentSoFar() int64 {
	if a.paid != nil {
		paid := a.paid.Paid()
		return paid.Most()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.spent
}

// record puts the evidence of a case on disk, and then its record.
func (a *attempt) record(j job, g *Graded) error {
	if err := a.keep(j, g); err != nil {
		return err
	}
	if err := a.noteRecording(j, g); err != nil {
		return err
	}
	if a.paid != nil {
		paid := a.paid.PaidFor(j.id, j.repeat)
		g.Record.Paid = &paid
	}
	pos, err := a.books.Ledger.AppendRecord(evidence.CaseScoredKind, &g.Record)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	b := briefOf(pos.Index, &g.Record, &a.last)
	a.results[planned{j.id, j.repeat}] = b
	a.spent += b.cost.MicroUSD - b.cached
	a.unpriced += b.cost.Unpriced
	if a.answered() {
		a.withdraw()
	}
	if a.cfg.Progress != nil {
		a.cfg.Progress.Recorded(Result{Index: pos.Index, Total: a.plan.CaseCount * a.plan.Repeat, Case: j.id, Repeat: j.repeat, Record: g.Record, HeldOut: g.Files.HeldOut})
	}
	return nil
}

// keep puts the evidence of a case on disk. If that fails and texts were noted,
// the case is kept without them, in another pack: a write that fails costs the
// attempt that it can be submitted, and an event says so, but not what was paid for.
// If that cannot be written either, as on a disk that stays full, there is nothing
// that a record could name, and the attempt stops.
func (a *attempt) keep(j job, g *Graded) error {
	pack := a.packNow()
	err := putAll(pack, g.Pieces)
	if err == nil || a.plan.Recording == "" {
		return err
	}
	lost := g.Files.Watch != nil
	if lost {
		if lerr := g.leaveOut(); lerr != nil {
			return errors.Join(err, lerr)
		}
	}
	next, nerr := a.packAfter(pack)
	if nerr == nil {
		nerr = putAll(next, g.Pieces)
	}
	switch {
	case nerr != nil:
		return errors.Join(err, nerr)
	case !lost:
		return nil
	}
	// After the evidence and before the record: the event stands for a case that
	// has a record without notes, and not for one that is run again.
	e, err := recordingFailed(a.id, j.id, j.repeat, err)
	if err != nil {
		return err
	}
	return a.crossed(Crossing{Case: j.id, Event: e, Time: evidence.At(a.cfg.Now())})
}

func putAll(pack *store.Pack, pieces [][]byte) error {
	for _, p := range pieces {
		pack.Put(p)
	}
	return pack.Commit()
}

func (a *attempt) packNow() *store.Pack {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.pack
}

// packAfter is the pack in place of a broken one. The first caller makes it.
func (a *attempt) packAfter(broken *store.Pack) (*store.Pack, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pack != broken {
		return a.pack, nil
	}
	next, err := a.newPack()
	if err != nil {
		return nil, err
	}
	broken.Close() // what it holds whole is found there
	a.pack = next
	return next, nil
}

// noteRecording records that a live run made a cassette. It is kept in the
// evidence and never becomes the bench's.
func (a *attempt) noteRecording(j job, g *Graded) error {
	if g.Recording == nil {
		return nil
	}
	c, err := cassette.Parse(g.Recording, cassette.Limits{})
	if err != nil {
		return err
	}
	_, err = a.books.Ledger.AppendRecord(evidence.CassetteRecordedKind, RecordingEntry(a.cfg.Bench.Class(), j.id, c, cassette.Digest(g.Recording)))
	return err
}

// RecordingEntry is what the ledger gets of a recording that is kept.
func RecordingEntry(class, caseID string, c *cassette.Cassette, d digest.Content) *evidence.CassetteRecorded {
	t := c.Header.Totals
	models := int(t.ModelCalls)
	return &evidence.CassetteRecorded{Class: class, CaseID: caseID, Digest: d, Provenance: string(c.Header.Provenance), Kept: true,
		Calls: len(c.Interactions), CostMicro: t.CostMicrodollars, Unpriced: &t.UnpricedCalls, ModelCalls: &models, Endpoints: c.Header.Endpoints}
}

func (a *attempt) suspend(j job) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.suspended = append(a.suspended, j.id)
	return nil
}
