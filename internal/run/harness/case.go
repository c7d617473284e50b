package harness

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/format"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/run/agent"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/grade"
	"tallystick/internal/run/replies"
	"tallystick/internal/run/sandbox"
	"tallystick/internal/run/scenario"
	"tallystick/internal/run/session"
	"tallystick/internal/run/tools"
	"tallystick/internal/run/trajectory"
	"tallystick/internal/run/user"
	"tallystick/internal/run/vantage"
)

// A run is one case under way.
type run struct {
	w          *Worker
	job        Job
	c          *scenario.Task
	s          *session.Session
	folder     *session.Folder
	env        *environment  // of a case with a world
	worldErr   error         // why its world cannot be acted on
	worldClass sandbox.Class // that its world ran in; "" if it did not run
	folderGone bool          // there was one, and its contents are unknown
	player     *cassette.Player
	judges     *cassette.Player // of the same cassette, out of the agent's reach
	kept       *replies.Shelf   // the library for the agent, and judgeKept for the judge; nil for none
	judgeKept  *replies.Shelf
	users      *cassette.Player // of the simulated user, out of the reach of both
	userKept   *replies.Shelf
	user       *user.Party               // nil for a case of fixed turns
	embedded   map[digest.Content][]byte // replies with vectors that the evidence has, by their requests
	modelNames []string
	provenance cassette.Provenance // as the cassette itself says
	live       Recording
	driven     agent.DriveResult
	test       *TestResult
	before     *TestResult // the test without the agent, once it ran
	testActs   []string    // what the test tried by itself
	result     session.Result
	remote     *DriveResult  // what another worker drove; nil of what is driven here
	heard      *books        // what live models were asked for another worker
	alone      bool          // driven again, to compare: what was heard answers
	paused     bool          // driven for another process, which runs the case's test and ends it
	watch      *watcher      // nil if nothing is noted
	grader     *grade.Grader // once it is needed
	started    time.Time
	unjudged   bool // grading asked for a reply that is not recorded
}

var errWallClock = errors.New("the time for the case is over")

// prepare makes the session with its tools, replies and folder.
func (r *run) prepare(ctx context.Context) (remove func(), err error) {
	w, c := r.w, r.c
	remove = func() {}
	if r.paused || needsFolder(w.cfg.Target, &c.Scenario) {
		dir, clear, err := w.workFolder()
		if err != nil {
			return nil, err
		}
		remove = func() { _ = clear() }
		if r.folder, err = session.NewFolder(dir, c.Files); err != nil {
			remove()
			return nil, err
		}
	}
	fail := func(err error) (func(), error) { remove(); return nil, err }
	models, source, err := r.models()
	if err != nil {
		return fail(err)
	}
	dir := ""
	if r.folder != nil {
		dir = r.folder.Dir
	}
	var redactor *cassette.Redactor
	if w.cfg.Live != nil && !r.alone { // a worker does not know the keys of providers
		redactor = w.cfg.Live.Redactor()
	}
	defined := c.Scenario.Tools
	if c.Scenario.World != nil {
		if r.env, r.worldErr = r.startWorld(ctx); r.worldErr != nil && !isOfWorld(r.worldErr) {
			r.env.abandon()
			return fail(r.worldErr)
		}
		defined, r.worldClass = r.env.tools, r.env.class()
		clear := remove
		remove = func() { r.env.abandon(); clear() }
	}
	box, err := tools.New(defined, dir, r.player, redactor)
	if err != nil {
		return fail(err)
	}
	var toolBox session.ToolBox = box
	if r.alone && r.heard != nil {
		toolBox = bookTools{box, r.heard}
	}
	if live, ok := r.live.(LiveTools); ok {
		toolBox = live.ToolBox(box)
		clear := remove
		remove = func() { live.Close(); clear() }
	}
	if r.env != nil {
		toolBox = &worldBox{box, toolBox, r.env}
	}
	start, err := c.Scenario.StartTime()
	if err != nil {
		return fail(err)
	}
	input := trajectory.NewContent([]byte(c.Scenario.Turns[0].Text), trajectory.PromptHead)
	cfg := session.Config{
		Run:   trajectory.RunStarted{Attempt: r.job.Attempt, Case: c.ID, Class: w.class, Target: w.cfg.Target.Name, Repeat: r.job.Repeat, Execution: r.job.Execution, Input: &input, Vantage: r.vantage()},
		Rules: w.rules, Start: start, Models: models, Source: source, Tools: toolBox, Limits: w.limits, Memory: w.memory, Folder: r.folder,
		Approvals: c.Scenario.Approvals, Sink: r.job.Spool, Redactor: redactor,
	}
	if len(w.cfg.Target.Egress) > 0 {
		cfg.Web = r.web()
	}
	if w.cfg.Spec.Recording != "" && !r.alone {
		if r.grader, err = w.graderOf(c, nil); err != nil {
			return fail(err)
		}
		r.watch = newWatcher(c.Scenario.Turns[0].Text, r.grader.Gold())
		cfg.Watch = r.watch.see
	}
	if w.cfg.People != nil && !r.alone {
		cfg.Person = func(ctx context.Context, q session.Question) (bool, bool, error) {
			return w.cfg.People.Approve(ctx, c.ID, q)
		}
	}
	r.hear(&cfg)
	if r.s, err = session.New(cfg); err != nil {
		return fail(err)
	}
	if err := r.openUser(); err != nil {
		return fail(err)
	}
	if err := noteFindings(r.s, box); err != nil {
		return fail(err)
	}
	if r.env != nil && r.worldErr == nil {
		files, err := c.WorldDigest()
		if err == nil {
			err = r.env.record(r.s, files)
		}
		if err != nil {
			return fail(err)
		}
	}
	return remove, nil
}

// isOfWorld reports whether an error is about the world of a case, and not about this
// machine.
func isOfWorld(err error) bool {
	return refusal.Is(err, refusal.WorldFailed) || refusal.Is(err, refusal.WorldDiffers) || refusal.Is(err, refusal.CassetteMiss)
}

// web answers the HTTP requests of the agent's program: the servers, or the recording
// of the case. There is nothing in between.
func (r *run) web() session.Web {
	if live, ok := r.live.(LiveWeb); ok {
		return live.Web()
	}
	return &session.WebReplay{Player: r.player}
}

// workFolder names a fresh working folder. Those of a preloaded agent lie
// together: its one sandbox can only show what is below a folder that it has.
func (w *Worker) workFolder() (dir string, remove func() error, err error) {
	if w.warm != nil {
		return store.Fresh(w.warm.Folders)
	}
	dir, remove, err = store.TempDir("tally-work-")
	return filepath.Join(dir, "work"), remove, err
}

// needsFolder reports whether a target has a working folder in a scenario.
func needsFolder(t *agent.Target, s *scenario.Scenario) bool {
	if t.NeedsFolder() || s.Test != nil {
		return true
	}
	return slices.ContainsFunc(s.Tools, func(d tools.Definition) bool { return d.Source == tools.Folder })
}

// models says who answers model calls: real models, the replies that the case
// itself has, or its recording.
func (r *run) models() (session.Models, string, error) {
	if r.alone && r.heard != nil {
		return bookReplay{r.heard}, "live", nil
	}
	r.openLibrary()
	if r.c.Cassette != nil {
		data, err := r.c.Cassette.Data()
		if err != nil {
			return nil, "", err
		}
		parsed, err := cassette.Parse(data, cassette.Limits{})
		if err != nil {
			return nil, "", fmt.Errorf("case %s: its cassette: %w", r.c.ID, err)
		}
		r.player, r.judges, r.users = cassette.NewMatchingPlayer(parsed, matching(&r.w.reg, r.w.cfg.Target, r.c)), cassette.NewJudgePlayer(parsed), cassette.NewUserPlayer(parsed)
		r.modelNames, r.provenance = parsed.For(cassette.ForAgent).Models(), parsed.Header.Provenance
	}
	switch {
	case r.w.cfg.Live != nil && !r.scripted():
		var err error
		r.live, err = r.w.cfg.Live.Case(r.c, r.job)
		return r.live, "live", err
	case r.job.Authored != nil:
		return r.job.Authored, "authored", nil
	case r.authored().Len() > 0:
		return session.NewScript(r.authored()), "authored", nil
	}
	if r.player != nil || r.kept != nil {
		return &session.Replay{Player: r.player, Kept: r.kept}, "cassette", nil
	}
	return nil, "cassette", nil
}

// openLibrary has the library answer what the recording of the case misses.
func (r *run) openLibrary() {
	if find := r.w.cfg.Library; find != nil && !r.alone && r.w.cfg.Drivers == nil {
		r.kept, r.judgeKept, r.userKept = find(r.c, cassette.ForAgent), find(r.c, cassette.ForJudge), find(r.c, cassette.ForUser)
	}
}

// reused says how many replies came from the library, nil if none.
func (r *run) reused() *evidence.Reused {
	if live, ok := r.live.(Reuser); ok {
		return live.Reused()
	}
	return replies.Reused(r.kept, r.judgeKept, r.userKept)
}

// authored are the replies that the case has for its agent.
func (r *run) authored() scenario.Authored { return r.c.Scenario.RepliesFor(cassette.ForAgent) }

// scripted reports whether the case's own replies answer: in a replay, also in
// one that asks models for what is missing.
func (r *run) scripted() bool {
	if r.authored().Len() == 0 && r.job.Authored == nil {
		return false
	}
	replies := r.w.cfg.Spec.Replies()
	return r.w.cfg.Live == nil || replies != nil && replies.From == evidence.FromCassette
}

// drive takes the agent through the case, then runs the case's test on what it
// left, and ends the trajectory.
func (r *run) drive(ctx context.Context) {
	w := r.w
	if r.worldErr != nil {
		r.result = r.s.Fail(r.worldErr)
		return
	}
	driven, err := r.driveTarget(ctx)
	r.driven = driven
	if ctx.Err() != nil && errors.Is(context.Cause(ctx), errWallClock) {
		limit := w.reg.Limits.WallClockSeconds * 1000
		_ = r.s.Event(&trajectory.LimitReached{Limit: "wall_clock_ms", Max: limit})
		r.s.Halt(session.Truncated, refusal.LimitReached, session.LimitError("wall_clock_ms", limit))
	}
	// Before another program touches what the agent left.
	if lost := r.s.LookAtFolder(); err == nil {
		err = lost
	}
	// All processes of the agent are dead: nothing changes the world any more.
	if err == nil && r.s.Stopped() == nil {
		err = r.env.end(ctx, r.s)
	}
	// What is graded is what is kept, and secrets are not kept.
	r.driven.Answer = r.s.Safe(driven.Answer)
	if r.paused = r.paused && err == nil && r.s.Stopped() == nil && r.folderKnown(); r.paused {
		if err = r.fitsToTravel(); err == nil {
			r.result = r.s.Pause()
			return
		}
		r.paused = false
	}
	r.conclude(ctx, driven.Answer, err)
}

// driveTarget drives the agent while what it is shown stays what was digested. What
// an agent did that was shown something else is not worth more than an error.
func (r *run) driveTarget(ctx context.Context) (driven agent.DriveResult, err error) {
	err = r.w.shown.While(func() (err error) {
		o := r.w.agentOptions(r.modelNames)
		if r.env != nil {
			o.Services = r.env.services.services()
		}
		driven, err = r.w.cfg.Target.Drive(ctx, r.s, &r.c.Scenario, o)
		return err
	})
	driven.Vantage = r.vantage()
	return driven, err
}

// vantage is what can be seen of the agent in this case: less, if it may speak with
// services of its world, which are not parsed.
func (r *run) vantage() vantage.Vantage {
	if world := r.c.Scenario.World; world != nil && len(world.Services) > 0 && r.w.cfg.Target.Kind == agent.KindCommand {
		return vantage.World
	}
	return r.w.cfg.Target.Vantage()
}

// conclude runs the case's test on what the agent left, if it came that far, and ends
// the trajectory.
func (r *run) conclude(ctx context.Context, answer string, err error) {
	if err == nil && r.c.Scenario.Test != nil && r.s.Stopped() == nil {
		r.test, err = r.runTest(ctx)
	}
	if err != nil {
		r.result = r.s.Fail(err)
		return
	}
	r.result = r.s.Complete(answer, r.driven.Refused)
}

// folderKnown reports whether it is known what the agent left. There is no test
// of what is unknown.
func (r *run) folderKnown() bool {
	_, err := r.folder.Now()
	return err == nil
}

// agentOptions are how the target is driven.
func (w *Worker) agentOptions(models []string) agent.Options {
	return agent.Options{Unsafe: w.cfg.Spec.Unsafe(), Hidden: w.cfg.Hidden, Accept: w.rubrics.accept(), Timeout: w.limits.Wall, Live: w.cfg.Live != nil, Models: models, Warm: w.warm, Shown: w.shown, Steps: w.cfg.Steps}
}

// finish grades the case and gathers its record and evidence.
func (r *run) finish(ctx context.Context) (*Graded, error) {
	g := &Graded{Case: r.c, Repeat: r.job.Repeat, Trajectory: r.result.Trajectory, Verified: r.result.Verified, Answer: r.driven.Answer}
	stop := r.result.Stop
	if stop != nil && stop.Kind == session.Suspended {
		g.Suspended = true
		return g, nil
	}
	if stop != nil && stop.Kind == session.Broken {
		return nil, stop
	}
	g.Record = r.newRecord()
	if err := r.gather(g); err != nil {
		return nil, err
	}
	if stop != nil {
		g.Record.Reason = r.whyStopped(stop)
		g.Record.Outcome = evidence.Errored
		g.Record.Unanswered = isUnanswered(stop)
		if stop.Kind == session.Truncated {
			g.Record.Outcome = evidence.Truncated
		}
	} else if err := r.grade(ctx, g); err != nil {
		return nil, err
	}
	r.noteWorldClass(&g.Record)
	if err := r.keepIssue(ctx, g); err != nil {
		return nil, err
	}
	if err := r.keepRecording(g); err != nil {
		return nil, err
	}
	if err := r.keepWatch(g); err != nil {
		return nil, err
	}
	g.Record.Reused = r.reused()
	finished := r.w.cfg.Now()
	g.Record.FinishedAt = evidence.At(finished)
	if s := g.Record.Score; s != nil {
		s.DurationSeconds = finished.Sub(r.started).Round(time.Millisecond).Seconds()
		s.CostUSD = float64(g.Record.CostMicroUSD) / 1e6
	}
	if err := r.completed(g); err != nil {
		return nil, err
	}
	return g, g.close()
}

// recordIt is the command that records what an attempt missed. A case that has
// its own replies, and a class that comes with the program, are not recorded.
func (r *run) recordIt(stop *session.Stop) string {
	class := r.w.class
	if stop.Name != refusal.CassetteMiss || r.job.Attempt == r.w.unnumbered() || r.live != nil || r.scripted() || bench.IsShipped(class) {
		return ""
	}
	return fmt.Sprintf("; record it with: tally record %s --target %s --case %s --only-missing", class, r.w.cfg.Target.Name, r.c.ID)
}

// newRecord fills in everything that does not depend on the grade.
func (r *run) newRecord() evidence.CaseScored {
	cfg, counts := &r.w.cfg, r.result.Counts
	spent := session.CountsOf(r.result.Verified).Cost
	rec := evidence.CaseScored{SchemaVersion: evidence.SchemaVersion, Attempt: r.job.Attempt, Class: cfg.Bench.Class(), CaseID: r.c.ID, Tags: r.c.Tags,
		Repeat: r.job.Repeat, Execution: r.job.Execution, CaseDigest: r.c.Digest, HarnessVersion: cfg.Spec.Version, IsolationClass: "builtin",
		AgentIsolation: r.driven.Isolation, StartedAt: evidence.At(r.started), Operator: cfg.Operator,
		Policy: evidence.PolicyCount{Violations: counts.Violations, Rollbacks: counts.Rollbacks, RollbacksVerified: counts.RollbacksIdentical},
		Turns:  counts.Turns, Tokens: counts.Tokens, CostMicroUSD: spent.MicroUSD, Retries: counts.Retries, Vantage: string(r.driven.Vantage)}
	if rec.AgentScope = r.driven.Scope; r.driven.Preload != nil {
		p := r.driven.Preload
		rec.Preload = &evidence.Preload{Digest: p.Digest, Milliseconds: int64(p.Milliseconds), Modules: p.Modules, Rehearsed: max(p.Rehearsed, 0),
			Stderr: head(strings.ToValidUTF8(r.s.Safe(p.StderrHead), "\uFFFD"), 500), Unrehearsed: head(strings.ToValidUTF8(r.s.Safe(p.Unrehearsed), "\uFFFD"), 500)}
	}
	if again, ok := r.live.(Retrier); ok {
		n, unanswered := again.Retries()
		rec.Retries += n
		spent.Unpriced += unanswered
	}
	spent.Unpriced += r.job.Paid.Unanswered()
	rec.Retries += r.job.Paid.Retries()
	rec.Resumed = r.job.Paid.Resumed()
	if rec.Vantage == "" { // it ended before the agent was driven
		rec.Vantage = string(r.vantage())
	}
	if vantage.Of(rec.Vantage).Sees(vantage.Cost).Sight == vantage.Seen {
		rec.Unpriced = &spent.Unpriced
	}
	if view := trajectory.CallsOf(r.result.Verified); vantage.Of(rec.Vantage).Sees(vantage.ToolCalls).Sight != vantage.Not {
		n := view.Count()
		rec.ToolCalls = &evidence.ToolCallCount{Executed: n.Executed, Reported: n.Reported, Proposed: n.Proposed}
	}
	rec.User = userOf(r.result.Verified)
	r.noteNormalised(&rec)
	if r.c.Cassette != nil {
		rec.CassetteDigest = &r.c.Cassette.Digest
		rec.Provenance = string(r.c.Provenance)
		// A case that was signed as recorded may have got another cassette since,
		// which people signed for its digest. The cassette knows better.
		if rec.Provenance == string(cassette.Recorded) && r.provenance != "" {
			rec.Provenance = string(r.provenance)
		}
	}
	if r.scripted() {
		rec.Provenance = string(cassette.Authored)
	}
	return rec
}

// gather collects the evidence of what the agent did.
func (r *run) gather(g *Graded) error {
	r.gatherTexts(g)
	return r.gatherFolder(g)
}

func (r *run) gatherTexts(g *Graded) {
	g.Files = evidence.CaseFiles{Version: format.Version, HeldOut: r.c.HeldOut}
	g.Files.Trajectory = evidence.TrajectoryFile{Digest: *g.put(r.result.Trajectory), Head: r.result.Head}
	for d, text := range r.result.Contents {
		g.Pieces = append(g.Pieces, text)
		g.Files.Contents = append(g.Files.Contents, d)
	}
	slices.SortFunc(g.Files.Contents, func(a, b digest.Content) int { return slices.Compare(a[:], b[:]) })
	if r.driven.Answer != "" {
		g.Files.Answer = g.put([]byte(r.driven.Answer))
	}
	if r.result.Plan != "" {
		g.Files.Plan = g.put([]byte(r.result.Plan))
	}
	if r.test != nil {
		g.Files.TestLog = g.put(r.test.Log)
	}
}

func (r *run) gatherFolder(g *Graded) error {
	if r.folderGone && r.remote != nil && r.remote.Files.Diff != nil {
		// What changed was too much to travel. How it differs is known.
		diff, err := r.remote.piece(*r.remote.Files.Diff)
		if err == nil {
			g.Files.Diff = g.put(diff)
		}
		return err
	}
	if r.folder == nil {
		return nil
	}
	changes, err := r.folder.Changes()
	if err != nil {
		return nil // there is no diff, and the case has failed: see grade
	}
	g.Files.Diff = g.put(unifiedDiff(changes))
	g.Files.Folder, err = r.keepFolder(g, changes, maxKeptFolder)
	return err
}

// keepRecording puts what live models said into the evidence, those that judged
// included.
func (r *run) keepRecording(g *Graded) error {
	if r.live == nil {
		return nil
	}
	data, err := r.live.Cassette()
	if err != nil {
		return err
	}
	g.Files.Recording = g.put(data)
	g.Recording = data
	return nil
}

// completed notes that the case has ended.
func (r *run) completed(g *Graded) error {
	name, severity := "bench.case.completed", evidence.Info
	if g.Record.Outcome != evidence.Passed {
		name = "bench.case.failed"
		severity = evidence.Warn
	}
	e, err := boundary(name, severity, "case "+r.c.ID+" "+string(g.Record.Outcome),
		map[string]any{"attempt": r.job.Attempt, "outcome": g.Record.Outcome, "repeat": r.job.Repeat, "execution": r.job.Execution})
	if err != nil {
		return err
	}
	r.cross(g, e)
	return nil
}

// cross notes a boundary that the case crossed.
func (r *run) cross(g *Graded, e evidence.IntegrityEvent) {
	g.Crossings = append(g.Crossings, Crossing{Case: r.c.ID, Event: e, Time: evidence.At(r.w.cfg.Now())})
}

// announce notes a boundary that the case is about to cross, on disk if there
// is a ledger to write it.
func (r *run) announce(g *Graded, e evidence.IntegrityEvent) error {
	if r.w.cfg.Crossed == nil {
		r.cross(g, e)
		return nil
	}
	return r.w.cfg.Crossed(Crossing{Case: r.c.ID, Event: e, Time: evidence.At(r.w.cfg.Now())})
}

func head(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "")
}
