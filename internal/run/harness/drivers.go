package harness

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/format"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/agent"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/journal"
	"tallystick/internal/run/scenario"
	"tallystick/internal/run/session"
	"tallystick/internal/run/trajectory"
)

// Drivers drive the cases of an attempt elsewhere: a fleet of workers. What they
// bring back is verified and graded here, and recorded as if it had been driven here.
type Drivers interface {
	// Begin is called when the attempt is registered and before the first case.
	Begin(ctx context.Context, s Start) error
	// Claim offers a case and waits until a worker takes it. Nothing of the
	// case is shown before [Claim.Drive]. The error is [ErrNoSecond] if the
	// offer is for every worker but one, and there is no other.
	Claim(ctx context.Context, o Offer) (Claim, error)
	// AtOnce is how many cases to offer at a time, if --jobs does not say.
	AtOnce() int
	// Doubled reports whether a second worker is to run a case too.
	Doubled(caseID string, repeat int) bool
}

// A Start is what drivers must know of an attempt.
type Start struct {
	Registered *evidence.AttemptRegistered // signed by the operator
	// Offered are the tools that the policy allows because cases offer them.
	Offered []string
	// Refused writes down that a worker tried something that is not allowed.
	Refused func(evidence.IntegrityEvent) error
	Left    int // cases to run
	// Standing is asked by the caller that shows the state of the attempt.
	Standing func() Standing
}

// A Standing is what an attempt knows of itself, and its drivers do not.
type Standing struct {
	CostMicroUSD int64 // spent so far; of calls that are under way, what they may cost at most
	Unpriced     int64 // calls of which nothing bounds what they cost
	Disagreed    int   // cases whose two workers did not agree
}

// An Offer is a case that is to be driven.
type Offer struct {
	Job
	Not string // the key of a worker that must not have it; "" if every worker may
}

// A Claim is a case that a worker has taken.
type Claim interface {
	Worker() evidence.Worker
	// Drive shows the worker the case, and waits for what it brings back. The error
	// is [ErrDriverLost] if the worker was lost: the case may have run, or not.
	Drive(ctx context.Context, h Handout) (*DriveResult, error)
	// Verdict tells the worker's side whether what it brought back was taken.
	Verdict(err error)
}

// A Handout is what is needed to have a case driven.
type Handout struct {
	Job
	Case *scenario.Task
	Live Recording // answers model calls of the case here; nil in a replay
	// Authored answers them here from the replies that the case has for its agent;
	// nil if it has none. What the case says of its model is not shown to drivers.
	Authored session.Models
}

// ErrDriverLost says that a worker did not come back with its case.
var ErrDriverLost = errors.New("the worker was lost")

// ErrNoSecond says that no worker takes a case that another one has run, so
// that the two could be compared.
var ErrNoSecond = errors.New("no second worker takes the case")

// A DriveResult is what came of driving one case, in a form that travels:
// pieces named by their digests, and the few things that do not follow from the
// plan and the trajectory. What follows from them is not sent: the receiver of
// a result computes it. [Worker.accept] looks at one from elsewhere before
// anything is made of it.
type DriveResult struct {
	Files evidence.CaseFiles `json:"files"` // without what grading adds
	// Isolation is the class of the sandbox that the agent ran in, as its machine saw
	// it: one that the plan accepts.
	Isolation string `json:"isolation,omitempty"`
	// Refused says of an agent behind a URL whose case has a test that it would not do
	// what was asked: its trajectory has no end yet that could say so.
	Refused bool `json:"refused,omitempty"`

	Pieces map[digest.Content][]byte `json:"-"`
}

// travel gathers what was driven.
func (r *run) travel() (*DriveResult, error) {
	if stop := r.result.Stop; stop != nil && stop.Kind == session.Broken {
		return nil, stop
	}
	g := &Graded{}
	if err := r.gatherToTravel(g); err != nil {
		return nil, err
	}
	d := &DriveResult{Files: g.Files, Refused: r.saysRefused(), Isolation: r.driven.Isolation, Pieces: make(map[digest.Content][]byte, len(g.Pieces))}
	for _, p := range g.Pieces {
		d.Pieces[digest.ContentOf(p)] = p
	}
	return d, nil
}

// saysRefused reports whether only the driver knows that the agent would not do what was
// asked.
func (r *run) saysRefused() bool {
	return r.paused && r.w.cfg.Target.Kind == agent.KindHTTP && r.driven.Refused
}

// accept makes a case under way of what was driven elsewhere, as if it had been driven
// here. It refuses whatever is not of this job: the trajectory must be whole, of this
// attempt, case, repetition and execution, under this policy; it must follow from the
// plan and from what the agent did; and every piece must be there, and no other.
func (w *Worker) accept(ctx context.Context, r *run, d *DriveResult) (remove func(), err error) {
	remove = func() {}
	if err := d.onlyDriven(r.c); err != nil {
		return remove, err
	}
	log, err := d.piece(d.Files.Trajectory.Digest)
	if err != nil {
		return remove, err
	}
	v, err := trajectory.Verify(log, trajectory.HeadIs(d.Files.Trajectory.Head))
	if err != nil {
		return remove, err
	}
	r.remote = d
	r.result = session.Result{Trajectory: log, Verified: v, Head: v.Head(), Contents: map[digest.Content][]byte{}, Counts: session.CountsOf(v)}
	r.driven.Vantage, r.driven.Isolation = w.cfg.Target.Vantage(), d.Isolation
	if err := r.takeContents(v); err != nil {
		return remove, err
	}
	if err := r.readEvents(v); err != nil {
		return remove, err
	}
	if err := r.isolationFits(); err != nil {
		return remove, err
	}
	builtin := w.cfg.Target.Kind == agent.KindBuiltin
	if !builtin {
		if err := r.reenact(v); err != nil {
			return remove, err
		}
	}
	if err := d.boundFolder(); err != nil {
		return remove, err
	}
	if err := r.hasFolder(v); err != nil {
		return remove, err
	}
	remove, ok, err := r.restoreFolder(Stored{Files: d.Files, Read: d.piece})
	r.folderGone = !ok
	if err != nil {
		return remove, err
	}
	if r.result.Stop == nil {
		if r.paused && r.folder == nil {
			return remove, foreign("the final folder is missing, or is of a case that begins with other files")
		}
		if err := r.sameFolder(v); err != nil {
			return remove, err
		}
	}
	if !builtin {
		return remove, nil
	}
	sent := remove // of the folder that came
	own, err := r.driveAgain(ctx, log)
	return func() { own(); sent() }, err
}

// takeContents takes the whole texts of which events have the beginning: those of this
// trajectory, and no others. Long arguments of a call that was denied may be missing.
func (r *run) takeContents(v *trajectory.Verified) (err error) {
	if len(r.remote.Files.Contents) == 0 {
		return nil
	}
	named := map[digest.Content]bool{}
	for e := range v.Events() {
		for d := range trajectory.Named(e.Payload) {
			named[d] = true
		}
	}
	for _, c := range r.remote.Files.Contents {
		if !named[c] || r.result.Contents[c] != nil {
			return foreign("the text %s is not of the trajectory, or is named twice", c)
		}
		if r.result.Contents[c], err = r.remote.piece(c); err != nil {
			return err
		}
	}
	return nil
}

// isolationFits compares the sandbox that the agent is said to have run in with the plan.
func (r *run) isolationFits() error {
	var want []string
	switch got, t := r.remote.Isolation, r.w.cfg.Target; {
	case t.Kind == agent.KindBuiltin:
		want = []string{""}
	case t.Kind == agent.KindHTTP:
		want = []string{"remote"} // what runs in the asking process runs on no worker
	case got == "" && r.result.Stop != nil: // it ended before a sandbox was there
		return nil
	default:
		for _, c := range r.w.rubrics.accept() {
			want = append(want, string(c))
		}
	}
	if !slices.Contains(want, r.remote.Isolation) {
		return foreign("the agent is said to have run in %.40q, and the plan accepts %q", r.remote.Isolation, want)
	}
	return nil
}

// foreign is the refusal of something that does not belong to the job.
func foreign(format string, args ...any) error {
	return refusal.Newf(refusal.ResultRefused, format, args...)
}

// onlyDriven refuses files that driving does not make, and files of another case.
func (d *DriveResult) onlyDriven(c *scenario.Task) error {
	f := d.Files
	if f.Grading != nil || f.TestLog != nil || f.Rubric != nil || f.Recording != nil || f.Verdicts != nil || f.Embeddings != nil || f.Watch != nil || f.Issue != nil {
		return foreign("it holds files that only grading makes")
	}
	if f.Version != format.Version || f.HeldOut != c.HeldOut {
		return foreign("its files are of format %.40q and held out %t; expected %s and %t", f.Version, f.HeldOut, format.Version, c.HeldOut)
	}
	return nil
}

func (d *DriveResult) piece(name digest.Content) ([]byte, error) {
	data, ok := d.Pieces[name]
	if !ok || digest.ContentOf(data) != name {
		return nil, foreign("the piece %s is missing", name)
	}
	return data, nil
}

// readEvents compares the trajectory with the job, and takes from it what the
// session would have told.
func (r *run) readEvents(v *trajectory.Verified) error {
	w, ended := r.w, false
	var last, plan *trajectory.Content // what the agent said last, and means to do
	for e := range v.Events() {
		switch p := e.Payload.(type) {
		case *trajectory.RunStarted:
			short, policy := w.rules.Hashes()
			want := trajectory.RunStarted{Attempt: r.job.Attempt, Case: r.c.ID, Class: w.class, Target: w.cfg.Target.Name, Repeat: r.job.Repeat, Execution: r.job.Execution, Policy: policy, PolicyShort: short,
				Governance: w.rules.Policy().Mode, Vantage: w.cfg.Target.Vantage(), Format: trajectory.Format}
			got := *p
			got.Input = nil
			if got != want {
				return foreign("the trajectory is of %s case %s, repetition %d, execution %d, target %s, policy %s; expected %s case %s, repetition %d, execution %d, target %s, policy %s",
					got.Attempt, got.Case, got.Repeat, got.Execution, got.Target, got.Policy, want.Attempt, want.Case, want.Repeat, want.Execution, want.Target, want.Policy)
			}
			input := trajectory.NewContent([]byte(r.c.Scenario.Turns[0].Text), trajectory.PromptHead)
			if p.Input == nil || *p.Input != input {
				return foreign("the trajectory begins with another input than the case has")
			}
		case *trajectory.RunCompleted:
			if p.Status == "suspended" {
				r.result.Stop = &session.Stop{Kind: session.Suspended, Name: refusal.ApprovalPending, Err: errors.New("the case waits for an approval")}
				continue
			}
			ended, r.driven.Refused, last = true, p.Status == "refused", p.Answer
		case *trajectory.RunFailed:
			kind := session.Failed
			if p.Name == string(refusal.LimitReached) {
				kind = session.Truncated
			}
			if !refusal.Known(refusal.Name(p.Name)) {
				return foreign("it was stopped for %.40q, which is not the name of a refusal", p.Name)
			}
			r.result.Stop = &session.Stop{Kind: kind, Name: refusal.Name(p.Name), Err: errors.New(p.Detail)}
		case *trajectory.Failure:
			if p.Name == string(refusal.FolderUnreadable) {
				r.result.Folder = refusal.Newf(refusal.FolderUnreadable, "%s", p.Detail)
			}
		case *trajectory.Plan:
			plan = &p.Text
		case *trajectory.TurnCompleted:
			last = p.Answer
		case *trajectory.TestRun:
			return foreign("the trajectory tells of the case's test, which workers do not run")
		}
	}
	r.paused = !v.Complete()
	switch {
	case r.paused && r.c.Scenario.Test == nil:
		return foreign("the trajectory has no end, and the case has no test that would be run after it")
	case ended && r.c.Scenario.Test != nil && r.result.Folder == nil:
		return foreign("the run has ended without the case's test")
	case ended && last == nil, r.paused && last == nil:
		return foreign("the trajectory has no answer")
	case r.remote.Refused && !(r.paused && w.cfg.Target.Kind == agent.KindHTTP):
		return foreign("only the trajectory says whether the agent refused")
	}
	r.driven.Refused = r.driven.Refused || r.remote.Refused
	if err := r.takeText(last, r.remote.Files.Answer, &r.driven.Answer); err != nil {
		return err
	}
	return r.takeText(plan, r.remote.Files.Plan, &r.result.Plan)
}

// takeText takes a text that an event of the trajectory stands for. Sent is what the
// result names in its place: that, or nothing.
func (r *run) takeText(c *trajectory.Content, sent *digest.Content, into *string) error {
	if c == nil || c.Bytes == 0 {
		if sent != nil {
			return foreign("the trajectory has no such text as %s", sent)
		}
		return nil
	}
	if sent != nil && *sent != c.Digest {
		return foreign("the text %s is not that of the trajectory, which has %s", sent, c.Digest)
	}
	if digest.ContentOf([]byte(c.Head)) == c.Digest {
		*into = c.Head
		return nil
	}
	text, ok := r.result.Contents[c.Digest]
	if !ok {
		var err error
		if text, err = r.remote.piece(c.Digest); err != nil {
			return err
		}
	}
	*into = string(text)
	return nil
}

// beginDrivers tells the drivers, if there are any, of the attempt.
func (a *attempt) beginDrivers(ctx context.Context) error {
	if a.cfg.Drivers == nil {
		return nil
	}
	return a.cfg.Drivers.Begin(ctx, Start{Registered: a.registered, Offered: a.worker.offered, Left: len(a.left), Refused: a.refused, Standing: a.standing})
}

func (a *attempt) standing() Standing {
	spent, unpriced := a.spentSoFar(), a.unbounded()
	a.mu.Lock()
	defer a.mu.Unlock()
	return Standing{CostMicroUSD: spent, Unpriced: unpriced, Disagreed: a.disagreed}
}

// staysHere says why a case cannot be driven on another machine.
func staysHere(c *scenario.Task) string {
	switch {
	case c.Scenario.World != nil:
		return "it has a world, which runs on this machine only"
	case c.Scenario.User != nil:
		return "it has a simulated user, who answers on this machine only"
	}
	return ""
}

// refused is inLedger for drivers, which may be told something at any time: what comes
// after the attempt has ended is as if it had come after the program has.
func (a *attempt) refused(e evidence.IntegrityEvent) error {
	a.ending.RLock()
	defer a.ending.RUnlock()
	if a.over {
		return nil
	}
	return a.inLedger(e)
}

// inLedger writes an event beside the others and to the ledger, whatever its
// severity: what workers did must not be lost with this machine.
func (a *attempt) inLedger(e evidence.IntegrityEvent) error {
	if err := a.crossed(Crossing{Event: e, Time: evidence.At(a.cfg.Now())}); err != nil || e.Severity == evidence.Block {
		return err
	}
	_, err := a.books.Ledger.AppendRecord(evidence.IntegrityEventKind, &e)
	return err
}

func (a *attempt) note(name string, severity evidence.Severity, detail string, data map[string]any) error {
	e, err := boundary(name, severity, detail, data)
	if err != nil {
		return err
	}
	return a.inLedger(e)
}

// maxLosses is how often a case is given out again because a worker did not bring it
// back. What breaks every worker would otherwise be started without end.
const maxLosses = 5

// runRemote takes one case from its claim to its record.
func (a *attempt) runRemote(ctx context.Context, j job) error {
	for losses := 1; ; losses++ {
		if ctx.Err() != nil {
			return nil
		}
		given := Job{Attempt: a.id, Case: j.id, Repeat: j.repeat, Execution: j.execution}
		if !j.resumed && a.overBudget() {
			return a.skipUnoffered(ctx, j, given)
		}
		// What has begun is brought to its end; what has not is withdrawn when the
		// records answer the question of the attempt.
		offering := ctx
		if !j.resumed && losses == 1 {
			offering = a.offering
		}
		claim, err := a.cfg.Drivers.Claim(offering, Offer{Job: given})
		if err != nil {
			return ended(offering, err)
		}
		if offering.Err() != nil {
			claim.Verdict(context.Cause(offering))
			return nil
		}
		worker := claim.Worker()
		if !j.resumed {
			if err := a.startCase(j, worker.Key); err != nil {
				return err
			}
		}
		g, err := a.driveRemote(ctx, claim, j, given)
		switch {
		case ctx.Err() != nil:
			g.release()
			return nil
		case errors.Is(err, ErrDriverLost), refusal.Is(err, refusal.ResultRefused), j.resumed && refusal.Is(err, refusal.JournalDiffers):
			// The ledger says that it began. The next worker that takes it begins
			// another execution of it.
			if nerr := a.lost(j, worker, err); nerr != nil {
				return nerr
			}
			if losses == maxLosses {
				return a.giveUp(ctx, j, given, err)
			}
			j.execution, j.resumed = j.execution+1, false
			continue
		case err != nil:
			return err
		}
		defer g.release()
		return a.put(ctx, j, g)
	}
}

// skipUnoffered passes over a case because the money is spent. No worker is needed for
// that.
func (a *attempt) skipUnoffered(ctx context.Context, j job, given Job) error {
	if err := a.startCase(j, ""); err != nil {
		return err
	}
	g, err := a.skip(j, given)
	if err != nil {
		return err
	}
	defer g.release()
	return a.put(ctx, j, g)
}

// ended hides an error that came of the attempt being stopped.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// lost notes that a worker did not come back with a case, or with something else.
func (a *attempt) lost(j job, worker evidence.Worker, why error) error {
	return a.note("fleet.case.lost", evidence.Warn, fmt.Sprintf("case %s: worker %s: %s", j.id, worker.Key, head(strings.ToValidUTF8(why.Error(), "\uFFFD"), 500)),
		map[string]any{"attempt": a.id, "case": j.id, "repeat": j.repeat, "execution": j.execution, "worker": worker.Key})
}

// giveUp records a case that no worker brings back, as unscored.
func (a *attempt) giveUp(ctx context.Context, j job, given Job, last error) error {
	g, err := a.worker.notRun(j.index, given, func(s *session.Session) {
		s.Halt(session.Failed, refusal.Failed, fmt.Errorf("workers did not bring the case back in %d executions; the last: %s", maxLosses, head(strings.ToValidUTF8(last.Error(), "\uFFFD"), 500)))
	})
	if err != nil {
		return err
	}
	defer g.release()
	g.Record.Outcome, g.Record.Score = evidence.Unscored, nil
	return a.put(ctx, j, g)
}

// driveRemote has a worker drive a case, and grades what it brings back.
func (a *attempt) driveRemote(ctx context.Context, claim Claim, j job, given Job) (*Graded, error) {
	if !j.resumed && a.overBudget() {
		claim.Verdict(errors.New("the attempt has spent its money"))
		return a.skip(j, given)
	}
	if a.paid != nil {
		var err error
		if given.Paid, err = a.paid.Case(journal.Execution{Case: j.id, Repeat: j.repeat, Number: j.execution}); err != nil {
			return nil, err
		}
	}
	g, err := a.worker.gradeFrom(ctx, claim, j.index, given)
	claim.Verdict(err)
	if err != nil {
		return nil, err
	}
	if a.cfg.Drivers.Doubled(j.id, j.repeat) && !g.Suspended {
		if err := a.double(ctx, j, given, claim.Worker(), g); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// gradeFrom gives a case out, takes what comes back and grades it.
func (w *Worker) gradeFrom(ctx context.Context, claim Claim, index int, j Job) (*Graded, error) {
	r, err := w.take(index, j)
	if err != nil {
		return nil, err
	}
	models, source, err := r.models()
	if err != nil {
		return nil, err
	}
	h := Handout{Job: j, Case: r.c, Live: r.live}
	if source == "authored" {
		h.Authored = models
	}
	if r.live != nil {
		r.heard = &books{Recording: r.live}
		h.Live = r.heard
	}
	if live, ok := r.live.(LiveTools); ok {
		defer live.Close()
		if err := r.openTools(live); err != nil {
			return nil, err
		}
	}
	driven, err := claim.Drive(ctx, h)
	if err != nil {
		return nil, err
	}
	remove, err := w.accept(ctx, r, driven)
	defer remove()
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, ErrDriverLost):
		return nil, err
	case err != nil:
		return nil, asForeign(err)
	}
	if !r.result.Verified.Complete() {
		if err := r.concludeWithin(ctx); err != nil {
			return nil, err
		}
	}
	if err := r.sameAsBefore(); err != nil {
		return nil, err
	}
	g, err := r.finish(ctx)
	if err == nil && !g.Suspended {
		err = j.Paid.Equalled(journal.Judge)
	}
	if err != nil {
		return nil, err
	}
	worker := claim.Worker()
	g.Record.Worker = &worker
	return g, nil
}

// asForeign gives whatever is wrong with what a worker sent one name: it is the
// worker's, and not of this machine.
func asForeign(err error) error {
	if refusal.Is(err, refusal.ResultRefused) || refusal.Is(err, refusal.DiskFull) {
		return err
	}
	return refusal.Newf(refusal.ResultRefused, "%w", err)
}

// safe takes secrets out of a text, also of a case that was driven elsewhere.
func (r *run) safe(text string) string {
	if r.s != nil {
		return r.s.Safe(text)
	}
	clean, _ := (*cassette.Redactor)(nil).Text(text)
	return clean
}

// whyStopped is the reason that the record of a stopped case gives.
func (r *run) whyStopped(stop *session.Stop) string {
	return string(stop.Name) + ": " + head(strings.ToValidUTF8(r.safe(stop.Error()), "\uFFFD"), 2000) + r.suggestion(stop) + r.recordIt(stop)
}

// double has a second worker run a case that another has run, and compares. Two that
// do not agree leave the case unscored: one of them may have lied. So does a case that
// no second worker brings back: it was to be compared, and could not be.
func (a *attempt) double(ctx context.Context, j job, given Job, first evidence.Worker, g *Graded) error {
	tries := 0
	var err error
	for tries < maxLosses {
		err = a.doubleOnce(ctx, j, given, first, g)
		if errors.Is(err, ErrNoSecond) {
			break
		}
		if !errors.Is(err, ErrDriverLost) && !refusal.Is(err, refusal.ResultRefused) {
			return err
		}
		tries++
	}
	g.Record.Outcome, g.Record.Score = evidence.Unscored, nil
	g.Record.Reason = fmt.Sprintf("NotDoubled: no second worker brought the case back in %d tries; the last: %s", tries, head(strings.ToValidUTF8(err.Error(), "\uFFFD"), 500))
	return nil
}

// doubleOnce has one more worker run the case. The error is [ErrDriverLost] or
// [refusal.ResultRefused] if that one did not bring it back.
func (a *attempt) doubleOnce(ctx context.Context, j job, given Job, first evidence.Worker, g *Graded) error {
	claim, err := a.cfg.Drivers.Claim(ctx, Offer{Job: given, Not: first.Key})
	if err != nil {
		return err
	}
	second := claim.Worker()
	about := map[string]any{"attempt": a.id, "case": j.id, "repeat": j.repeat, "execution": j.execution, "worker": second.Key, "first": first.Key}
	// Before the second worker sees the case, as case.started is before the first.
	if err := a.note("fleet.case.doubled", evidence.Info, fmt.Sprintf("case %s is run by worker %s too", j.id, second.Key), about); err != nil {
		return err
	}
	other, err := a.worker.gradeFrom(ctx, claim, j.index, given)
	claim.Verdict(err)
	if errors.Is(err, ErrDriverLost) || refusal.Is(err, refusal.ResultRefused) {
		if nerr := a.lost(j, second, err); nerr != nil {
			return nerr
		}
	}
	if err != nil {
		return err
	}
	defer other.release()
	// The evidence of both is kept, whatever they say: people may compare more than this
	// program does.
	if err := a.keep(j, other); err != nil {
		return err
	}
	about["evidence"] = other.Record.EvidenceDigests
	difference, err := g.differs(other)
	if err != nil {
		return err
	}
	if difference == "" {
		return a.note("fleet.workers_agree", evidence.Info, fmt.Sprintf("case %s: workers %s and %s agree", j.id, first.Key, second.Key), about)
	}
	about["difference"] = difference
	if err := a.note("fleet.workers_disagree", evidence.Warn, fmt.Sprintf("case %s: workers %s and %s do not agree: %s", j.id, first.Key, second.Key, difference), about); err != nil {
		return err
	}
	a.mu.Lock()
	a.disagreed++
	a.mu.Unlock()
	g.Record.Outcome, g.Record.Score = evidence.Unscored, nil
	g.Record.Reason = fmt.Sprintf("WorkersDisagree: workers %s and %s do not agree: %s", first.Key, second.Key, difference)
	return nil
}
