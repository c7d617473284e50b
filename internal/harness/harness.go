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
// Cases run side by side; their scores do not depend on how many do. The
// package takes only verified benches, knows no threshold and decides nothing
// about an attempt: readers do, from the ledger.
package harness

import (
	"context"
	"errors"
	"sync"
	"time"

	"tallystick/internal/agent"
	"tallystick/internal/bench"
	"tallystick/internal/cassette"
	"tallystick/internal/digest"
	"tallystick/internal/evidence"
	"tallystick/internal/policy"
	"tallystick/internal/refusal"
	"tallystick/internal/sandbox"
	"tallystick/internal/scenario"
	"tallystick/internal/sequencer"
	"tallystick/internal/session"
	"tallystick/internal/store"
	"tallystick/internal/tools"
	"tallystick/internal/trajectory"
)

// Config is what an attempt runs with.
type Config struct {
	Bench  *bench.Verified
	Target *agent.Target
	Ledger *sequencer.Ledger
	Past   *Past // what the ledger holds, gathered while it was opened
	Origin string

	Packs string // folder for the evidence
	Runs  string // folder for what is under way

	Operator digest.ID
	Sign     func(message []byte) (string, error) // as the operator, for an attempt
	Now      func() time.Time
	Version  string // of the harness

	Jobs   int                       // cases at once; 0 means a number that suits the target
	Repeat int                       // how often each case runs
	Select func(*scenario.Case) bool // nil for all cases
	Resume bool                      // go on with the newest unfinished attempt of this class and target

	MaxCostMicroUSD int64 // for the whole attempt; 0 for no limit

	// Sandbox is what rubrics run in; nil means what the registration says.
	Sandbox []sandbox.Class
	Scope   sandbox.Scope
	Image   func(digest.Content) (*sandbox.Image, error)

	// Live, if not nil, answers model calls from real models. The recording
	// that it returns at the end goes to the evidence.
	Live func(c *scenario.Case) (Recording, error)

	// Redactor takes secrets out of events: the keys of live providers.
	Redactor *cassette.Redactor

	// Person answers approvals that the case does not.
	Person func(ctx context.Context, caseID string, q trajectory.ApprovalRequested) (approve, answered bool, err error)

	// Judge asks a model about a value, and records each draw; nil if no model
	// is at hand, and then what needs one is unscored. JudgeDigest names its
	// settings, for the plan of an attempt that needs a judge.
	Judge       func(ctx context.Context, j Judging) (Judged, error)
	JudgeDigest *digest.Content

	Unsafe bool     // run a command target without a sandbox
	Hidden []string // folders that an agent must not see

	// Registered is called when the registration is durable and before the
	// first case, as for a witness to cosign it.
	Registered func(ctx context.Context) error
	// Done is called after each case was recorded, in any order, by one
	// goroutine at a time.
	Done func(Result)
}

// A Recording is a live provider and the cassette that it makes.
type Recording interface {
	session.Models
	Cassette() ([]byte, error)
}

// LiveTools is what a recording may be besides: one that calls the tools of MCP
// servers live, and is closed when the case has ended.
type LiveTools interface {
	ToolBox(*tools.State) session.ToolBox
	Close()
}

// A Retrier is a recording that counts how often it asked a provider again.
type Retrier interface{ Retries() int }

// A Result is one case as it was recorded.
type Result struct {
	Index  int64 // in the ledger
	Total  int   // how many the attempt will have
	Case   string
	Repeat int
	Record evidence.CaseScored
}

// Run runs an attempt. The summary is there also when the attempt could not be
// finished, with what was recorded so far.
func Run(ctx context.Context, cfg Config) (*Summary, error) {
	a, err := prepare(cfg)
	if err != nil {
		return nil, err
	}
	defer a.close()
	if err := a.register(ctx); err != nil {
		return nil, err
	}
	if err := a.runAll(ctx); err != nil {
		return a.summary(), err
	}
	if len(a.suspended) > 0 {
		return a.summary(), refusal.Newf(refusal.ApprovalPending, "attempt %s waits for an approval in %d of its cases: %s", a.id, len(a.suspended), list(a.suspended)).
			WithHint(`answer with "tally run %s --resume" at a terminal`, a.cfg.Bench.Class())
	}
	if err := a.finish(); err != nil {
		return a.summary(), err
	}
	return a.summary(), nil
}

// An attempt is one execution of a bench while it is under way.
type attempt struct {
	cfg     Config
	id      string
	number  int
	plan    evidence.Plan
	cases   *scenario.Set
	jobs    []job // what is to be run, in the order of the plan
	judged  bool  // a case of the plan is graded by a model
	rules   *policy.Ruleset
	limits  session.Limits
	started time.Time

	pack    *store.Pack
	journal *store.Journal
	spools  []*store.Journal
	rubrics *rubrics

	usesRubric bool // for one case at least
	usesTest   bool // the same

	mu        sync.Mutex
	results   map[planned]brief
	spent     int64 // micro-dollars, for the limit of the attempt
	suspended []string
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
}

// runAll runs the cases of the plan that are not recorded yet.
func (a *attempt) runAll(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	queue := make(chan job)
	var workers sync.WaitGroup
	for n := range a.workers() {
		workers.Go(func() {
			for j := range queue {
				if err := a.runOne(ctx, n, j); err != nil {
					cancel(err) // the harness itself failed: stop the others
				}
			}
		})
	}
	for _, j := range a.jobs {
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
			WithHint(`go on with "tally run %s --resume"; nothing that was recorded is run again`, a.cfg.Bench.Class())
	}
	return err
}

// runOne takes one case from case.started to its record.
func (a *attempt) runOne(ctx context.Context, worker int, j job) error {
	if ctx.Err() != nil {
		return nil // stopped: what has not begun is left for a resume
	}
	started := &evidence.CaseStarted{Attempt: a.id, CaseID: j.id, Repeat: j.repeat, Execution: j.execution}
	if _, err := a.cfg.Ledger.AppendRecord(evidence.CaseStartedKind, started); err != nil {
		return err
	}
	out, err := a.execute(ctx, worker, j)
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return nil // killed in the middle: the ledger knows that it began
	}
	if out.suspended {
		return a.suspend(j)
	}
	return a.record(j, out)
}

// record puts the evidence of a case on disk, and then its record.
func (a *attempt) record(j job, out *outcome) error {
	index, err := a.keep(out)
	if err != nil {
		return err
	}
	if err := a.pack.Commit(); err != nil {
		return err
	}
	out.record.EvidenceDigests = []digest.Content{index}
	if err := a.noteRecording(j, out); err != nil {
		return err
	}
	pos, err := a.cfg.Ledger.AppendRecord(evidence.CaseScoredKind, &out.record)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	r := Result{Index: pos.Index, Total: a.plan.CaseCount * a.plan.Repeat, Case: j.id, Repeat: j.repeat, Record: out.record}
	a.results[planned{j.id, j.repeat}] = briefOf(pos.Index, &out.record)
	a.spent += out.record.CostMicroUSD
	if a.cfg.Done != nil {
		a.cfg.Done(r)
	}
	return nil
}

// noteRecording records that a live run made a cassette. It is kept in the
// evidence and never becomes the bench's.
func (a *attempt) noteRecording(j job, out *outcome) error {
	if out.recording == nil {
		return nil
	}
	c, err := cassette.Parse(out.recording, cassette.Limits{})
	if err != nil {
		return err
	}
	t := c.Header.Totals
	_, err = a.cfg.Ledger.AppendRecord(evidence.CassetteRecordedKind, &evidence.CassetteRecorded{Class: a.cfg.Bench.Class(), CaseID: j.id, Digest: cassette.Digest(out.recording),
		Provenance: string(c.Header.Provenance), Kept: true, Calls: int(t.ModelCalls + t.ToolCalls + t.MCPExchanges), CostMicro: t.CostMicrodollars})
	return err
}

func (a *attempt) suspend(j job) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.suspended = append(a.suspended, j.id)
	return nil
}
