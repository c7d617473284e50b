package harness

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tallystick/internal/bench"
	"tallystick/internal/canon"
	"tallystick/internal/digest"
	"tallystick/internal/evidence"
	"tallystick/internal/policy"
	"tallystick/internal/refusal"
	"tallystick/internal/scenario"
	"tallystick/internal/session"
	"tallystick/internal/store"
)

// longPlan is how many cases a plan lists in the registration itself. The list
// of a longer one lies in the evidence, under its digest.
const longPlan = 500

// manyAtOnce is how many cases of the built-in agent run side by side if they are
// recorded: they wait for the disk most of the time, and commits that come
// together share one sync.
const manyAtOnce = 256

// prepare checks everything that can be checked before anything runs: each case
// can be read, each has a way to be graded, the policy compiles. A mistake in
// the last case should not show after an hour.
func prepare(cfg Config) (*attempt, error) {
	cases := scenario.Of(cfg.Bench)
	reg := cfg.Bench.Registration()
	a := &attempt{cfg: cfg, cases: cases, results: map[planned]brief{}, started: cfg.Now()}
	var err error
	if a.rules, err = rulesOf(reg); err != nil {
		return nil, err
	}
	a.limits = limitsOf(reg)
	chosen, err := a.choose()
	if err != nil {
		return nil, err
	}
	if a.cfg.Repeat < 1 {
		a.cfg.Repeat = 1
	}
	a.plan = evidence.Plan{BenchDigest: cfg.Bench.Digest(), RegistrationDigest: cfg.Bench.RegistrationDigest(), TargetDigest: cfg.Target.Digest,
		CaseCount: len(chosen), Repeat: a.cfg.Repeat, Filtered: cfg.Select != nil}
	if r := cfg.Bench.Rubric(); r.Main != "" {
		a.plan.RubricDigest = &r.Digest
	}
	if image, ok := cfg.Bench.Image(); ok && cfg.Bench.Rubric().Main == "rubric.py" {
		a.plan.ImageDigest = &image
	}
	if a.judged {
		a.plan.JudgeDigest = cfg.JudgeDigest
		if err := checkJudge(reg, cfg.JudgeDigest); err != nil {
			return nil, err
		}
	}
	for _, i := range chosen {
		ref := cases.Ref(i)
		a.plan.Cases = append(a.plan.Cases, evidence.PlannedCase{ID: ref.ID, Digest: ref.Digest, Cassette: ref.Cassette})
		for repeat := 1; repeat <= a.cfg.Repeat; repeat++ {
			a.jobs = append(a.jobs, job{index: i, id: ref.ID, repeat: repeat, execution: 1})
		}
	}
	return a, nil
}

// choose reads every case once and returns the places of those that are wanted.
func (a *attempt) choose() ([]int, error) {
	looked := a.lookAtAll()
	var chosen []int
	for i, l := range looked {
		if l.err != nil {
			return nil, l.err
		}
		if l.selected {
			a.judged = a.judged || l.judged
			a.usesRubric = a.usesRubric || l.rubric
			a.usesTest = a.usesTest || l.test
			chosen = append(chosen, i)
		}
	}
	if len(chosen) == 0 {
		return nil, refusal.Newf(refusal.UnknownName, "no case of class %s is selected", a.cfg.Bench.Class()).
			WithHint(`"tally bench list %s" shows the cases`, a.cfg.Bench.Class())
	}
	return chosen, nil
}

// A look is what choosing has to know of a case.
type look struct {
	selected, judged, rubric, test bool
	err                            error
}

// lookAtAll takes every case apart once, on all processors: a long dataset would
// keep one of them busy for seconds before anything runs.
func (a *attempt) lookAtAll() []look {
	looked := make([]look, a.cases.Len())
	var next atomic.Int64
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(looked)); i = next.Add(1) - 1 {
				looked[i] = a.lookAt(int(i))
			}
		})
	}
	workers.Wait()
	return looked
}

func (a *attempt) lookAt(i int) look {
	c, err := a.cases.Case(i)
	if err != nil {
		return look{err: err}
	}
	grader, err := a.graderOf(c)
	if err != nil {
		return look{err: fmt.Errorf("case %s: %w", c.ID, err)}
	}
	return look{selected: a.cfg.Select == nil || a.cfg.Select(c), judged: grader.UsesJudge(), rubric: grader.UsesRubric(), test: c.Scenario.Test != nil}
}

// checkJudge refuses a judge that is not the one that the class pins. Without any
// judge its cases are unscored, which nobody gains by.
func checkJudge(reg bench.Registration, judge *digest.Content) error {
	if reg.JudgeDigest == nil || judge == nil || *judge == *reg.JudgeDigest {
		return nil
	}
	return refusal.Newf(refusal.JudgeDigestMismatch, "class %s: judge.yaml is %s, the registration says %s", reg.Class, judge, reg.JudgeDigest).
		WithHint(`restore judge.yaml; if the change is meant, put the digest that "tally judge digest" prints into the registration and have two people sign`)
}

// limitsOf are the limits that a class sets to each of its cases.
func limitsOf(reg bench.Registration) session.Limits {
	return session.Limits{Turns: reg.Limits.Turns, Tokens: reg.Limits.Tokens, CostMicroUSD: reg.Limits.CostMicroUSD,
		Wall: time.Duration(reg.Limits.WallClockSeconds) * time.Second}
}

// rulesOf compiles the policy that the bench sets. A target has no say in it.
func rulesOf(reg bench.Registration) (*policy.Ruleset, error) {
	mode, err := policy.ParseMode(string(reg.Governance))
	if err != nil {
		return nil, err
	}
	p := policy.ForMode(mode)
	if len(reg.Policy) > 0 {
		if p, err = policy.Parse("policy of the registration", reg.Policy); err != nil {
			return nil, err
		}
		if p.Mode != mode {
			return nil, refusal.Newf(refusal.Malformed, "registration: the policy's mode is %s, governance is %s; expected the same", p.Mode, mode)
		}
	}
	return policy.Compile(p)
}

// register makes the attempt known, with its plan, before the first case; or
// finds the one to go on with.
func (a *attempt) register(ctx context.Context) error {
	class, target := a.cfg.Bench.Class(), a.cfg.Target.Name
	// A machine that cannot run the rubric, or the agent, must not leave an
	// attempt behind that was never going to finish.
	if err := a.openSandboxes(ctx); err != nil {
		return err
	}
	if a.cfg.Resume {
		return a.resume()
	}
	if open := a.cfg.Past.newestOpen(class, target); open != nil && open.done() < open.total() {
		a.cfg.Past.note(open)
	}
	a.number = a.cfg.Past.count(class, target) + 1
	a.id = attemptID(class, target, a.number)
	if err := a.open(1); err != nil {
		return err
	}
	full := a.plan.Cases
	if len(full) > longPlan {
		d, err := a.keepPlan(full)
		if err != nil {
			return err
		}
		a.plan.Cases, a.plan.CasesDigest = nil, &d
	}
	mode := "replay"
	if a.cfg.Live != nil {
		mode = "live"
	}
	r := &evidence.AttemptRegistered{SchemaVersion: evidence.SchemaVersion, Attempt: a.id, Origin: a.cfg.Origin, Class: class, Target: target,
		Number: a.number, Mode: mode, Scratch: a.cfg.Bench.Registration().Trust == bench.Scratch, Plan: a.plan, Operator: a.cfg.Operator}
	message, err := r.Message()
	if err != nil {
		return err
	}
	if r.Signature, err = a.cfg.Sign(message); err != nil {
		return err
	}
	if _, err := a.cfg.Ledger.AppendRecord(evidence.AttemptRegisteredKind, r); err != nil {
		return err
	}
	a.plan.Cases = full
	if err := a.begin(); err != nil {
		return err
	}
	if a.cfg.Registered != nil {
		return a.cfg.Registered(ctx)
	}
	return nil
}

// attemptID names an attempt; the number is the ledger's, so the name is of one
// attempt only.
func attemptID(class, target string, number int) string {
	return fmt.Sprintf("%s.%s.%d", strings.ReplaceAll(class, ":", "-"), target, number)
}

// keepPlan puts the list of cases into the evidence.
func (a *attempt) keepPlan(cases []evidence.PlannedCase) (digest.Content, error) {
	data, err := canon.Marshal(cases)
	if err != nil {
		return digest.Content{}, err
	}
	d := a.pack.Put(data)
	return d, a.pack.Commit()
}

// open makes the pack and the journals. An attempt that is gone on with gets a
// further pack.
func (a *attempt) open(part int) error {
	var err error
	name := a.id
	if part > 1 {
		name = fmt.Sprintf("%s.part%d", a.id, part)
	}
	if a.pack, err = store.CreatePack(store.OS{}, filepath.Join(a.cfg.Packs, name+".pack")); err != nil {
		return err
	}
	dir := filepath.Join(a.cfg.Runs, a.id)
	if a.journal, err = store.OpenJournal(filepath.Join(dir, "events.jsonl")); err != nil {
		return err
	}
	a.spools = make([]*store.Journal, a.workers())
	for i := range a.spools {
		if a.spools[i], err = store.OpenJournal(filepath.Join(dir, fmt.Sprintf("spool-%d.jsonl", i))); err != nil {
			return err
		}
	}
	return nil
}

func (a *attempt) workers() int {
	n := a.cfg.Jobs
	if n < 1 {
		n = runtime.NumCPU()
		if a.cfg.Ledger != nil && a.cfg.Target.Builtin != nil && a.cfg.Live == nil {
			n = manyAtOnce
		}
	}
	return max(1, min(n, len(a.jobs)))
}

func (a *attempt) close() {
	a.rubrics.close()
	for _, j := range a.spools {
		if j != nil {
			j.Close()
		}
	}
	if a.journal != nil {
		a.journal.Close()
	}
	if a.pack != nil {
		a.pack.Close()
	}
	if a.finished {
		for i := range a.spools {
			store.RemoveTree(filepath.Join(a.cfg.Runs, a.id, fmt.Sprintf("spool-%d.jsonl", i)))
		}
	}
}

func list(names []string) string {
	const most = 5
	if len(names) > most {
		return strings.Join(names[:most], ", ") + " and others"
	}
	return strings.Join(names, ", ")
}
