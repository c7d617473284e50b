package harness

import (
	"cmp"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
)

// Past is what the ledger holds about earlier attempts: enough to number the
// next one and to resume one that was cut short. It is gathered while the
// ledger is verified; nothing in it may be used before that has succeeded.
type Past struct {
	counts map[string]int // by class, whichever the target
	open   map[string]*unfinished
	order  []string // ids of all attempts, oldest first
	Noted  []string // attempts that were left open, for a message
	next   int64    // entries before this one were seen

	mu    sync.Mutex // of what changes while an attempt runs
	draws map[question]drawn

	calibrations map[string]int64 // of judges, by class
}

// An unfinished is an attempt without attempt.finished.
type unfinished struct {
	registered evidence.AttemptRegistered
	executions map[planned]int
	results    map[planned]brief
	last       *circumstances // of the last of these
}

// Visit is for sequencer.Config.Visit. An entry that is shown again, as to a
// process that reads the ledger before a run and after it, counts once.
func (p *Past) Visit(r ledger.Record) error {
	if r.Index < p.next {
		return nil
	}
	p.next = r.Index + 1
	if r.Envelope.Manual {
		return nil
	}
	switch r.Envelope.Kind {
	case evidence.AttemptRegisteredKind, evidence.CaseStartedKind, evidence.CaseScoredKind, evidence.AttemptFinishedKind, evidence.JudgeDrawnKind, evidence.JudgeCalibratedKind:
	default:
		return nil
	}
	body := r.Body
	if body == nil {
		var err error
		if body, err = evidence.DecodeBody(r.Envelope.Kind, r.Envelope.Body); err != nil {
			return err
		}
	}
	switch b := body.(type) {
	case *evidence.AttemptRegistered:
		p.registered(b)
	case *evidence.CaseStarted:
		if u := p.open[b.Attempt]; u != nil {
			u.executions[planned{b.CaseID, b.Repeat}] = b.Execution
		}
	case *evidence.CaseScored:
		if u := p.open[b.Attempt]; u != nil {
			u.results[planned{b.CaseID, b.Repeat}] = briefOf(r.Index, b, &u.last)
		}
	case *evidence.AttemptFinished:
		delete(p.open, b.Attempt)
	case *evidence.JudgeDrawn:
		p.NoteDraw(b)
	case *evidence.JudgeCalibrated:
		if p.calibrations == nil {
			p.calibrations = map[string]int64{}
		}
		p.calibrations[b.Class]++
	}
	return nil
}

func (p *Past) registered(b *evidence.AttemptRegistered) {
	if p.counts == nil {
		p.counts, p.open = map[string]int{}, map[string]*unfinished{}
	}
	p.counts[b.Class]++
	p.open[b.Attempt] = &unfinished{registered: *b, executions: map[planned]int{}, results: map[planned]brief{}}
	p.order = append(p.order, b.Attempt)
}

// Attempts are the ids of all attempts, oldest first.
func (p *Past) Attempts() []string { return slices.Clone(p.order) }

// count is how many attempts of a class there are, by whichever target.
func (p *Past) count(class string) int { return p.counts[class] }

// newestOpen is the last attempt of a class and target that has no end.
func (p *Past) newestOpen(class, target string) *unfinished {
	for i := len(p.order) - 1; i >= 0; i-- {
		if u := p.open[p.order[i]]; u != nil && u.registered.Class == class && u.registered.Target == target {
			return u
		}
	}
	return nil
}

func (p *Past) note(u *unfinished) { p.Noted = append(p.Noted, u.registered.Attempt) }

func (u *unfinished) spent() (sum, unpriced int64) {
	for _, b := range u.results {
		sum += b.cost.MicroUSD - b.cached
		unpriced += b.cost.Unpriced
	}
	return sum, unpriced
}

func (u *unfinished) done() int  { return len(u.results) }
func (u *unfinished) total() int { return u.registered.Plan.CaseCount * u.registered.Plan.Repeat }

// samePlan refuses to resume with another plan than the one that was registered.
// Everything that it fixes is compared, the list of cases too: as many others
// would be another attempt.
func samePlan(registered *evidence.AttemptRegistered, now *evidence.Plan, mode string) error {
	was := &registered.Plan
	listWas, err := listDigest(was)
	if err != nil {
		return err
	}
	listNow, err := listDigest(now)
	if err != nil {
		return err
	}
	for _, same := range []struct {
		what     string
		was, now any
	}{
		{"the bench digest", was.BenchDigest, now.BenchDigest},
		{"the registration", was.RegistrationDigest, now.RegistrationDigest},
		{"the target digest", was.TargetDigest, now.TargetDigest},
		{"the judge", orNone(was.JudgeDigest), orNone(now.JudgeDigest)},
		{"the judge's templates", orNone(was.JudgesDigest), orNone(now.JudgesDigest)},
		{"what the judge is asked", orNone(was.JudgeQuestion), orNone(now.JudgeQuestion)},
		{"who plays users", orNone(was.UserDigest), orNone(now.UserDigest)},
		{"the rubric", orNone(was.RubricDigest), orNone(now.RubricDigest)},
		{"the image of the rubric", orNone(was.ImageDigest), orNone(now.ImageDigest)},
		{"the number of cases", was.CaseCount, now.CaseCount},
		{"the list of cases that --case, --tag, --limit and --sample select", listWas, listNow},
		{"whether --case, --tag, --limit or --sample selects cases", was.Filtered, now.Filtered},
		{"the attempt whose errors it runs again", was.Retries, now.Retries},
		{"the number of repeats", was.Repeat, now.Repeat},
		{"where replies come from", was.Replies.String(), now.Replies.String()},
		{"the normalisers", normalisersText(was), normalisersText(now)},
		{"the policy", policyText(was), policyText(now)},
		{"how repeats are reduced (--reduce)", reducer(was), reducer(now)},
		{"whether it stops early (--stop-early)", stopText(was), stopText(now)},
		{"what the target mounts", mountsText(was), mountsText(now)},
		{"the root file system of the agent", rootText(was.AgentRoot, now.AgentRoot), rootText(now.AgentRoot, now.AgentRoot)},
		{"the root file system of the tests", rootText(was.TestRoot, now.TestRoot), rootText(now.TestRoot, now.TestRoot)},
		{"the root file systems of worlds", worldRootsText(was), worldRootsText(now)},
		{"the mode", registered.Mode, mode},
		{"whether it is to be submitted (--submit-intent)", was.SubmitIntent, now.SubmitIntent},
		{"who gives second views (--second-view)", cmp.Or(was.SecondView, "no judge"), cmp.Or(now.SecondView, "no judge")},
		{"what is recorded of its texts", cmp.Or(was.Recording, "nothing"), cmp.Or(now.Recording, "nothing")},
	} {
		if same.was != same.now {
			return refusal.Newf(refusal.PlanChanged, "attempt %s: %s was %v when it was registered and is %v now", registered.Attempt, same.what, same.was, same.now).
				WithHint("restore what the attempt was registered with, or start a new attempt; the unfinished one stays in the ledger")
		}
	}
	return nil
}

func policyText(p *evidence.Plan) string {
	if p.Policy == nil {
		return "that of the registration"
	}
	return p.Policy.String()
}

func reducer(p *evidence.Plan) string { return cmp.Or(string(p.Reduce), "not at all") }

// CheckPlan refuses unless the config is what an attempt was registered with.
func CheckPlan(cfg Config, registered *evidence.AttemptRegistered) error {
	p, err := prepare(cfg)
	if err != nil {
		return err
	}
	return samePlan(registered, &p.plan, cfg.Spec.Mode())
}

// CheckReproduces refuses a config whose bench or agent is not that of an attempt.
func CheckReproduces(cfg Config, attempt string, plan *evidence.Plan) error {
	for _, same := range []struct {
		what     string
		was, now any
	}{
		{"the bench digest", plan.BenchDigest, cfg.Bench.Digest()},
		{"the target digest", plan.TargetDigest, cfg.Target.Digest},
	} {
		if same.was != same.now {
			return refusal.Newf(refusal.PlanChanged, "attempt %s: %s was %s and is %s now", attempt, same.what, same.was, same.now).
				WithHint("check out the commit that the attempt was run at")
		}
	}
	return nil
}

// listDigest names the list of cases of a plan.
func listDigest(p *evidence.Plan) (digest.Content, error) {
	if p.CasesDigest != nil {
		return *p.CasesDigest, nil
	}
	data, err := canon.Marshal(p.Cases)
	return digest.ContentOf(data), err
}

// rootText tells which root was planned. A plan that does not say is taken to agree:
// it is of an earlier program, and its attempt does not count above bronze.
func rootText(was, now *evidence.Root) string {
	if was == nil {
		was = now
	}
	return was.Text()
}

func mountsText(p *evidence.Plan) string {
	var out []string
	for _, m := range p.Mounts {
		what := "not digested"
		if m.Digest != nil {
			what = m.Digest.String()
		}
		out = append(out, m.Inside+" "+what)
	}
	return strings.Join(out, ", ")
}

func orNone(d *digest.Content) string {
	if d == nil {
		return "none"
	}
	return d.String()
}

// resume continues the newest unfinished attempt. Everything that its plan
// fixed must be the same now: another bench, target or selection would be
// another attempt.
func (a *attempt) resume() (err error) {
	class, target := a.cfg.Bench.Class(), a.cfg.Target.Name
	u := a.books.Past.newestOpen(class, target)
	if u == nil {
		return refusal.Newf(refusal.NotFound, "no unfinished attempt of class %s by target %s", class, target).
			WithHint(`start one with "tally run %s"`, class)
	}
	if err := samePlan(&u.registered, &a.plan, a.worker.mode()); err != nil {
		return err
	}
	a.registered = &u.registered
	a.id, a.number, a.results = u.registered.Attempt, u.registered.Number, u.results
	a.spent, a.unpriced = u.spent()
	if err := a.resumePaid(u); err != nil {
		return err
	}
	parts := 2
	var left []job
	for _, j := range a.left {
		key := planned{j.id, j.repeat}
		if _, done := u.results[key]; !done {
			left = append(left, a.next(j, u.executions[key]))
		}
	}
	a.left = left
	for {
		err := a.open(parts)
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
		parts++
	}
	return a.event("bench.run.started", "attempt "+a.id+" goes on", map[string]any{"attempt": a.id, "resumed": true, "left": len(a.left)})
}

// worldRootsText is what the worlds of an attempt find, for a comparison.
func worldRootsText(p *evidence.Plan) string {
	var words []string
	for i := range p.WorldRoots {
		words = append(words, p.WorldRoots[i].Text())
	}
	return cmp.Or(strings.Join(words, ", "), "none")
}
