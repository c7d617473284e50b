package harness

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/diff"

	"tallystick/internal/agent"
	"tallystick/internal/canon"
	"tallystick/internal/cassette"
	"tallystick/internal/digest"
	"tallystick/internal/evidence"
	"tallystick/internal/refusal"
	"tallystick/internal/scenario"
	"tallystick/internal/session"
	"tallystick/internal/store"
	"tallystick/internal/tools"
	"tallystick/internal/trajectory"
)

// An outcome is what came of one case, before it is put away.
type outcome struct {
	record    evidence.CaseScored
	files     evidence.CaseFiles
	pieces    [][]byte // evidence that files names
	recording []byte   // the cassette of a live run
	suspended bool
}

// put adds a piece of evidence and returns its name.
func (o *outcome) put(data []byte) *digest.Content {
	d := digest.ContentOf(data)
	o.pieces = append(o.pieces, data)
	return &d
}

// keep hands the evidence of a case to the pack, the index last.
func (a *attempt) keep(o *outcome) (digest.Content, error) {
	for _, p := range o.pieces {
		a.pack.Put(p)
	}
	index, err := canon.Marshal(&o.files)
	if err != nil {
		return digest.Content{}, err
	}
	return a.pack.Put(index), nil
}

// A run is one case under way.
type run struct {
	a          *attempt
	job        job
	c          *scenario.Case
	s          *session.Session
	folder     *session.Folder
	folderGone bool // there was one, and nobody knows what was in it
	player     *cassette.Player
	modelNames []string
	provenance cassette.Provenance // as the cassette itself says
	live       Recording
	driven     agent.Driven
	test       *testResult
	result     session.Result
	started    time.Time
}

// execute drives the agent through one case and grades what it did. An error
// means that the harness could not do its work; whatever the agent did is an
// outcome.
func (a *attempt) execute(ctx context.Context, worker int, j job) (*outcome, error) {
	_, out, err := a.executeRun(ctx, worker, j)
	return out, err
}

func (a *attempt) executeRun(ctx context.Context, worker int, j job) (*run, *outcome, error) {
	c, err := a.cases.Case(j.index)
	if err != nil {
		return nil, nil, err
	}
	r := &run{a: a, job: j, c: c, started: a.cfg.Now()}
	if a.overBudget() {
		out, err := r.skipped()
		return r, out, err
	}
	remove, err := r.prepare(worker)
	if err != nil {
		return nil, nil, err
	}
	defer remove()
	// The session counts logical time; this bounds what an agent takes for
	// itself.
	wall := time.Duration(a.cfg.Bench.Registration().Limits.WallClockSeconds) * time.Second
	within, cancel := context.WithTimeoutCause(ctx, wall, errWallClock)
	defer cancel()
	r.drive(within)
	if ctx.Err() != nil {
		return r, nil, nil
	}
	out, err := r.finish(ctx)
	return r, out, err
}

var errWallClock = errors.New("the time for the case is over")

// overBudget reports whether the attempt has spent what it may.
func (a *attempt) overBudget() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.cfg.MaxCostMicroUSD > 0 && a.spent >= a.cfg.MaxCostMicroUSD
}

// prepare makes the session with its tools, replies and folder.
func (r *run) prepare(worker int) (remove func(), err error) {
	a, c := r.a, r.c
	remove = func() {}
	if needsFolder(a.cfg.Target, &c.Scenario) {
		dir, clear, err := store.TempDir("tally-work-")
		if err != nil {
			return nil, err
		}
		remove = func() { _ = clear() }
		if r.folder, err = session.NewFolder(filepath.Join(dir, "work"), c.Files); err != nil {
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
	box, err := tools.New(c.Scenario.Tools, dir, r.player, a.cfg.Redactor)
	if err != nil {
		return fail(err)
	}
	var toolBox session.ToolBox = box
	if live, ok := r.live.(LiveTools); ok {
		toolBox = live.ToolBox(box)
		clear := remove
		remove = func() { live.Close(); clear() }
	}
	start, err := c.Scenario.StartTime()
	if err != nil {
		return fail(err)
	}
	input := trajectory.NewContent([]byte(c.Scenario.Turns[0].Text), trajectory.PromptHead)
	var sink func([]byte) error
	if a.spools != nil {
		if err := a.spools[worker].Restart(); err != nil {
			return fail(err)
		}
		sink = a.spools[worker].Append
	}
	cfg := session.Config{
		Run:   trajectory.RunStarted{Attempt: a.id, Case: c.ID, Class: a.cfg.Bench.Class(), Target: a.cfg.Target.Name, Repeat: r.job.repeat, Execution: r.job.execution, Input: &input},
		Rules: a.rules, Start: start, Models: models, Source: source, Tools: toolBox, Limits: a.limits, Folder: r.folder,
		Approvals: c.Scenario.Approvals, Sink: sink, Redactor: a.cfg.Redactor,
	}
	if a.cfg.Person != nil {
		cfg.Person = func(ctx context.Context, q trajectory.ApprovalRequested) (bool, bool, error) {
			return a.cfg.Person(ctx, c.ID, q)
		}
	}
	if r.s, err = session.New(cfg); err != nil {
		return fail(err)
	}
	if err := noteFindings(r.s, box); err != nil {
		return fail(err)
	}
	return remove, nil
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
	if r.c.Cassette != nil {
		data, err := r.c.Cassette.Data()
		if err != nil {
			return nil, "", err
		}
		parsed, err := cassette.Parse(data, cassette.Limits{})
		if err != nil {
			return nil, "", fmt.Errorf("case %s: its cassette: %w", r.c.ID, err)
		}
		r.player, r.modelNames, r.provenance = cassette.NewPlayer(parsed), parsed.Header.Models, parsed.Header.Provenance
	}
	switch {
	case r.a.cfg.Live != nil:
		var err error
		r.live, err = r.a.cfg.Live(r.c)
		return r.live, "live", err
	case len(r.c.Scenario.Model) > 0:
		return session.NewScript(r.c.Scenario.Model), "authored", nil
	case r.player != nil:
		return &session.Replay{Player: r.player}, "cassette", nil
	}
	return nil, "cassette", nil
}

// drive takes the agent through the case, then runs the case's test on what it
// left, and ends the trajectory.
func (r *run) drive(ctx context.Context) {
	a := r.a
	driven, err := a.cfg.Target.Drive(ctx, r.s, &r.c.Scenario, agent.Options{Unsafe: a.cfg.Unsafe, Hidden: a.cfg.Hidden, Accept: a.rubrics.accept(), Timeout: a.limits.Wall, Live: a.cfg.Live != nil, Models: r.modelNames})
	r.driven = driven
	if ctx.Err() != nil && errors.Is(context.Cause(ctx), errWallClock) {
		limit := a.cfg.Bench.Registration().Limits.WallClockSeconds * 1000
		_ = r.s.Event(&trajectory.LimitReached{Limit: "wall_clock_ms", Max: limit})
		r.s.Halt(session.Truncated, refusal.LimitReached, fmt.Errorf("the limit of %d wall_clock_ms is reached", limit))
	}
	if err == nil && r.c.Scenario.Test != nil && r.s.Stopped() == nil {
		r.test, err = r.runTest(ctx)
	}
	if err != nil {
		r.result = r.s.Fail(err)
		return
	}
	r.result = r.s.Complete(driven.Answer, driven.Refused)
}

// finish grades the case and gathers its record and evidence.
func (r *run) finish(ctx context.Context) (*outcome, error) {
	stop := r.result.Stop
	if stop != nil && stop.Kind == session.Suspended {
		return &outcome{suspended: true}, nil
	}
	if stop != nil && stop.Kind == session.Broken {
		return nil, stop
	}
	o := &outcome{record: r.newRecord()}
	if err := r.gather(o); err != nil {
		return nil, err
	}
	if stop != nil {
		o.record.Reason = string(stop.Name) + ": " + head(stop.Error(), 2000)
		o.record.Outcome = evidence.Errored
		if stop.Kind == session.Truncated {
			o.record.Outcome = evidence.Truncated
		}
	} else if err := r.grade(ctx, o); err != nil {
		return nil, err
	}
	if err := r.keepRecording(o); err != nil {
		return nil, err
	}
	finished := r.a.cfg.Now()
	o.record.FinishedAt = evidence.At(finished)
	if s := o.record.Score; s != nil {
		s.DurationSeconds = finished.Sub(r.started).Round(time.Millisecond).Seconds()
		s.CostUSD = float64(o.record.CostMicroUSD) / 1e6
	}
	return o, r.completed(o)
}

// newRecord fills in everything that does not depend on the grade.
func (r *run) newRecord() evidence.CaseScored {
	a, counts := r.a, r.result.Counts
	rec := evidence.CaseScored{SchemaVersion: evidence.SchemaVersion, Attempt: a.id, Class: a.cfg.Bench.Class(), CaseID: r.c.ID, Tags: r.c.Tags,
		Repeat: r.job.repeat, Execution: r.job.execution, CaseDigest: r.c.Digest, HarnessVersion: a.cfg.Version, IsolationClass: "builtin",
		AgentIsolation: r.driven.Isolation, StartedAt: evidence.At(r.started), Operator: a.cfg.Operator,
		Policy: evidence.PolicyCount{Violations: counts.Violations, Rollbacks: counts.Rollbacks, RollbacksVerified: counts.RollbacksIdentical},
		Turns:  counts.Turns, Tokens: counts.Tokens, CostMicroUSD: counts.CostMicroUSD, Retries: counts.Retries, Vantage: r.driven.Vantage}
	if again, ok := r.live.(Retrier); ok {
		rec.Retries += again.Retries()
	}
	if rec.Vantage == "" {
		rec.Vantage = "inside"
	}
	if r.c.Cassette != nil {
		rec.CassetteDigest = &r.c.Cassette.Digest
		rec.Provenance = string(r.c.Provenance)
		// A case that was signed as recorded may have got another cassette since,
		// which people signed for its digest. The cassette knows better.
		if rec.Provenance == string(cassette.Recorded) && r.provenance != "" {
			rec.Provenance = string(r.provenance)
		}
	}
	if len(r.c.Scenario.Model) > 0 && r.a.cfg.Live == nil {
		rec.Provenance = string(cassette.Authored)
	}
	return rec
}

// gather collects the evidence of what the agent did.
func (r *run) gather(o *outcome) error {
	o.files = evidence.CaseFiles{Version: evidence.CaseFilesVersion}
	o.files.Trajectory = evidence.TrajectoryFile{Digest: *o.put(r.result.Trajectory), Head: r.result.Head}
	for d, text := range r.result.Contents {
		o.pieces = append(o.pieces, text)
		o.files.Contents = append(o.files.Contents, d)
	}
	slices.SortFunc(o.files.Contents, func(a, b digest.Content) int { return slices.Compare(a[:], b[:]) })
	if r.driven.Answer != "" {
		o.files.Answer = o.put([]byte(r.driven.Answer))
	}
	if r.result.Plan != "" {
		o.files.Plan = o.put([]byte(r.result.Plan))
	}
	if r.test != nil {
		o.files.TestLog = o.put(r.test.log)
	}
	if r.folder == nil {
		return nil
	}
	changes, err := r.folder.Changes()
	if err != nil {
		// What the agent left cannot be compared: links, sockets, too much.
		o.files.Diff = o.put([]byte("the working folder cannot be compared: " + err.Error() + "\n"))
		return nil
	}
	o.files.Diff = o.put(unifiedDiff(changes))
	o.files.Folder, err = r.keepFolder(o, changes)
	return err
}

// keepRecording puts what live models said into the evidence, those that judged
// included.
func (r *run) keepRecording(o *outcome) error {
	if r.live == nil {
		return nil
	}
	data, err := r.live.Cassette()
	if err != nil {
		return err
	}
	o.files.Recording = o.put(data)
	o.recording = data
	return nil
}

// unifiedDiff shows what an agent changed. A binary file is named, not shown.
func unifiedDiff(changes []session.Change) []byte {
	var b strings.Builder
	for _, c := range changes {
		before, after := "a/"+c.Path, "b/"+c.Path
		if c.Before == nil {
			before = "/dev/null"
		}
		if c.After == nil {
			after = "/dev/null"
		}
		if strings.Contains(string(c.Before)+string(c.After), "\x00") {
			fmt.Fprintf(&b, "Binary files %s and %s differ\n", before, after)
			continue
		}
		b.Write(diff.Diff(before, c.Before, after, c.After))
	}
	return []byte(b.String())
}

// skipped is the record of a case that was not run because the attempt has
// spent its money. It is truncated and never quietly missing.
func (r *run) skipped() (*outcome, error) {
	s, err := session.New(session.Config{Rules: r.a.rules, Run: trajectory.RunStarted{Attempt: r.a.id, Case: r.c.ID, Class: r.a.cfg.Bench.Class(),
		Target: r.a.cfg.Target.Name, Repeat: r.job.repeat, Execution: r.job.execution}})
	if err != nil {
		return nil, err
	}
	r.s = s
	_ = s.Event(&trajectory.LimitReached{Limit: "cost_microdollars", Max: r.a.cfg.MaxCostMicroUSD})
	s.Halt(session.Truncated, refusal.LimitReached, fmt.Errorf("the attempt has spent its limit of %d micro-dollars; the case was not run", r.a.cfg.MaxCostMicroUSD))
	r.result = s.Fail(nil)
	return r.finish(context.Background())
}

// completed writes the event that a case has ended.
func (r *run) completed(o *outcome) error {
	name, severity := "bench.case.completed", evidence.Info
	if o.record.Outcome != evidence.Passed {
		name = "bench.case.failed"
		severity = evidence.Warn
	}
	return r.a.event(name, "TB-4", severity, "case "+r.c.ID+" "+string(o.record.Outcome), r.c.ID,
		map[string]any{"attempt": r.a.id, "outcome": o.record.Outcome, "repeat": r.job.repeat, "execution": r.job.execution})
}

func head(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "")
}
