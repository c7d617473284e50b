package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"tallystick/internal/agent"
	"tallystick/internal/archive"
	"tallystick/internal/bench"
	"tallystick/internal/digest"
	"tallystick/internal/evidence"
	"tallystick/internal/harness"
	"tallystick/internal/judge"
	"tallystick/internal/plain"
	"tallystick/internal/provider"
	"tallystick/internal/refusal"
	"tallystick/internal/sandbox"
	"tallystick/internal/scenario"
	"tallystick/internal/scorecard"
	"tallystick/internal/seal"
	"tallystick/internal/sequencer"
	"tallystick/internal/store"
	"tallystick/internal/trajectory"
	"tallystick/internal/workspace"
)

type runOptions struct {
	class   string
	target  string
	cases   string
	tag     string
	repeat  int
	jobs    int
	resume  bool
	maxCost float64

	sandbox     string
	scope       string
	unsafeAgent bool
	live        bool
	trustRoot   string

	junit, tap         string
	baseline, markdown string
}

func newRun(env *Env) *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run CLASS",
		Short: "Run a bench against a target and record every case",
		Long: `Run every case of a class against a target: verify the bench, the ledger and the
last anchor; register the attempt with its plan before the first case; drive the
agent with model and tools answered from recordings; grade; record; anchor.

builtin:adversarial and builtin:long-horizon come with the program and need no files;
their targets are mitigated (if none is named), vulnerable, forgetful and cramped, and
any other --target is one of the workspace. docs/suites.md describes them.

Nothing touches the network unless --live is given. Ctrl-C leaves an attempt that
"--resume" goes on with; no recorded case is run again.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.class = args[0]
			chooseTarget(cmd, o.class, &o.target)
			return runRun(cmd.Context(), env, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.target, "target", agent.DefaultTarget, "`NAME` of the agent, from targets/NAME.yaml")
	f.StringVar(&o.cases, "case", "", "run only cases whose id matches `GLOB`; such an attempt never counts for promotion")
	f.StringVar(&o.tag, "tag", "", "run only cases with this `TAG`; such an attempt never counts for promotion")
	f.IntVar(&o.repeat, "repeat", 1, "run each case `N` times")
	f.IntVar(&o.jobs, "jobs", 0, "run `N` cases at once (default: a number that suits the target)")
	f.BoolVar(&o.resume, "resume", false, "go on with the newest unfinished attempt of this class and target")
	f.Float64Var(&o.maxCost, "max-cost", 0, "stop starting cases after `USD` dollars; what is left is recorded as truncated")
	f.StringVar(&o.sandbox, "sandbox", "", "isolation `CLASS` in place of those of the registration")
	f.StringVar(&o.scope, "sandbox-scope", "", "`SCOPE` of the rubric's sandbox: case or attempt")
	f.BoolVar(&o.unsafeAgent, "unsafe-agent", false, "run a command target without a sandbox; labelled, never counts")
	f.BoolVar(&o.live, "live", false, "answer model calls from real models; the recording goes to the evidence")
	f.StringVar(&o.junit, "junit", "", "write a JUnit XML report to `FILE`")
	f.StringVar(&o.tap, "tap", "", "write a TAP 14 report to `FILE`")
	f.StringVar(&o.baseline, "baseline", "", "compare with the earlier attempt `ID`")
	f.StringVar(&o.markdown, "markdown", "", "write the comparison with --baseline to `FILE`, for a pull request")
	addTrustRootFlag(cmd, &o.trustRoot)
	return cmd
}

// runAnswer is what a script gets.
type runAnswer struct {
	Attempt      runAttempt            `json:"attempt"`
	Class        string                `json:"class"`
	Target       string                `json:"target"`
	Total        int                   `json:"total"`
	Passed       int                   `json:"passed"`
	Failed       int                   `json:"failed"`
	Skipped      int                   `json:"skipped"`
	Unscored     int                   `json:"unscored"`
	Truncated    int                   `json:"truncated"`
	Errors       int                   `json:"errors"`
	MeanScore    *float64              `json:"mean_score"`
	FailureModes []string              `json:"failure_modes"`
	CostUSD      float64               `json:"cost_usd"`
	JudgeCostUSD float64               `json:"judge_cost_usd,omitempty"` // of live draws; not in CostUSD, which is the agent's
	Isolation    string                `json:"isolation_class"`
	Head         digest.ID             `json:"head"`
	Finished     bool                  `json:"finished"`
	Scorecard    *scorecard.Card       `json:"scorecard"`
	Gate         *runGates             `json:"gate,omitempty"`
	Comparison   *scorecard.Comparison `json:"comparison,omitempty"`
}

type runAttempt struct {
	ID     string `json:"id"`
	Number int    `json:"number"`
	Level  string `json:"level"`
}

func runRun(ctx context.Context, env *Env, o runOptions) error {
	if err := o.validate(); err != nil {
		return err
	}
	p, err := env.openCorpusFor(o.trustRoot)
	if err != nil {
		return err
	}
	defer p.Root.Close()
	r, err := env.newRunner(p, o)
	if err != nil {
		return err
	}
	summary, head, err := r.run(ctx)
	if summary == nil {
		return err
	}
	answer := r.answer(summary, head)
	// What stopped the run is said first; a gate that is not met comes after
	// everything was shown.
	reported := r.report(answer)
	if err == nil || answer.Scorecard == nil {
		err = cmp.Or(err, reported)
	}
	if serr := r.save(answer); serr != nil {
		return serr
	}
	if aerr := env.Answer(answer, answer.print); aerr != nil {
		return aerr
	}
	return err
}

func (o *runOptions) validate() error {
	switch {
	case o.repeat < 1:
		return refusal.Newf(refusal.Usage, "--repeat %d: expected 1 or more", o.repeat)
	case o.jobs < 0:
		return refusal.Newf(refusal.Usage, "--jobs %d: expected 1 or more", o.jobs)
	case o.maxCost < 0:
		return refusal.Newf(refusal.Usage, "--max-cost %v: expected more than 0", o.maxCost)
	case o.scope != "" && o.scope != string(sandbox.ScopeCase) && o.scope != string(sandbox.ScopeAttempt):
		return refusal.Newf(refusal.Usage, "--sandbox-scope %s: expected case or attempt", o.scope)
	case o.sandbox != "" && !slices.Contains(sandbox.Classes(), sandbox.Class(o.sandbox)):
		return refusal.Newf(refusal.Usage, "--sandbox %s: expected one of %v", o.sandbox, sandbox.Classes())
	}
	if err := o.checkReports(); err != nil {
		return err
	}
	if _, err := path.Match(o.cases, ""); err != nil {
		return refusal.Newf(refusal.Usage, "--case %s: %w", o.cases, err)
	}
	return nil
}

// A runner is one "tally run".
type runner struct {
	env    *Env
	o      runOptions
	place  *archive.Corpus
	bench  *bench.Verified
	target *agent.Target
	past   *harness.Past
	meter  *meter
	judged atomic.Int64 // what judges cost, in micro-dollars
}

func (e *Env) newRunner(p *archive.Corpus, o runOptions) (*runner, error) {
	v, err := p.Bench(o.class)
	if err != nil {
		return nil, p.Alarm(err)
	}
	for _, w := range v.Warnings() {
		if w.Case == "" && v.Level() == string(bench.Scratch) {
			continue // the answer says it, at its end
		}
		e.Note("%s", strings.TrimPrefix(w.Case+": "+w.Detail, ": "))
	}
	t, err := e.target(p, o.class, o.target)
	if err != nil {
		return nil, err
	}
	if t.HTTP != nil && !t.HTTP.Local() && !o.live {
		return nil, refusal.Newf(refusal.Usage, "target %s is at %s, and a replay touches no network", t.Name, t.HTTP.URL).WithHint("give --live to allow it")
	}
	return &runner{env: e, o: o, place: p, bench: v, target: t, past: &harness.Past{}}, nil
}

// run runs the attempt and publishes an anchor at its end.
func (r *runner) run(ctx context.Context) (*harness.Summary, digest.ID, error) {
	w := r.place.Place
	cfg, err := w.Config()
	if err != nil {
		return nil, digest.ID{}, err
	}
	cfg.Visit = r.past.Visit
	ledger, err := w.OpenWith(ctx, cfg, archive.LockWait)
	if err != nil {
		return nil, digest.ID{}, err
	}
	summary, err := r.runOn(ctx, ledger, cfg.Key)
	head := ledger.Tip().Head
	if cerr := ledger.Close(); err == nil {
		err = cerr
	}
	return summary, head, err
}

func (r *runner) runOn(ctx context.Context, ledger *sequencer.Ledger, key *seal.Key) (*harness.Summary, error) {
	// Before anything runs: a typing mistake must not cost an attempt.
	if known := r.past.Attempts(); r.o.baseline != "" && !slices.Contains(known, r.o.baseline) {
		return nil, noAttempt(r.place.Settings.Origin, known, r.o.baseline)
	}
	hc, err := r.config(ledger, key)
	if err != nil {
		return nil, err
	}
	r.meter = newMeter(r.env)
	hc.Done = r.meter.done
	summary, err := harness.Run(ctx, hc)
	r.meter.end()
	for _, id := range r.past.Noted {
		r.env.Note("attempt %s was never finished; it stays in the ledger and counts against its class", id)
	}
	if err != nil {
		return summary, err
	}
	// Also when Ctrl-C came during the last case: the attempt is finished and
	// must not lack its anchor.
	return summary, r.publish(context.WithoutCancel(ctx), ledger)
}

// config fills in what the harness needs.
func (r *runner) config(l *sequencer.Ledger, key *seal.Key) (harness.Config, error) {
	w, o := r.place.Place, r.o
	operator, err := r.place.Operator(key)
	if err != nil {
		return harness.Config{}, err
	}
	hc, err := r.rehearsal()
	if err != nil {
		return harness.Config{}, err
	}
	hc.Ledger, hc.Past, hc.Origin, hc.Operator = l, r.past, w.Settings.Origin, operator
	hc.Packs, hc.Runs = filepath.Join(w.EvidenceDir(), "packs"), w.Private("runs")
	hc.Resume, hc.MaxCostMicroUSD = o.resume, int64(o.maxCost*1e6)
	hc.Sign = func(message []byte) (string, error) {
		sig, err := seal.SignWith(key.Signer(), seal.NamespaceAttempt, message)
		return string(sig), err
	}
	hc.Registered = func(ctx context.Context) error { return r.cosign(ctx, l) }
	if r.env.Interactive() {
		hc.Person = r.askPerson
	}
	if o.live {
		err = r.goLive(&hc, l)
	} else {
		err = r.judgeOf(&hc, judge.Replay, l)
	}
	return hc, err
}

// goLive answers model calls, those of the judge too, from the providers of
// providers.yaml. Every case has a recorder of its own; all of them share one
// budget.
func (r *runner) goLive(hc *harness.Config, l *sequencer.Ledger) error {
	settings, err := provider.LoadSettings(r.place.Path(provider.SettingsFile))
	if err != nil {
		return err
	}
	access, err := settings.Access(r.env.Getenv)
	if err != nil {
		return err
	}
	if b := r.target.Builtin; b != nil {
		if err := access.CheckModel(b.API, b.Model, b.MaxOutputTokens); err != nil {
			return err
		}
	}
	if hc.MaxCostMicroUSD == 0 {
		return refusal.Newf(refusal.Usage, "--live costs money and there is no limit").WithHint("say with --max-cost how many dollars may be spent")
	}
	left := hc.MaxCostMicroUSD
	if r.o.resume { // the limit is the attempt's, not the process's
		left = max(0, left-r.past.Spent(r.bench.Class(), r.target.Name))
	}
	budget := provider.NewBudget(left)
	hc.Redactor = access.Redactor()
	hc.Live = func(c *scenario.Case) (harness.Recording, error) {
		live, err := access.Case(provider.CaseOptions{Budget: budget, Now: r.env.Now(), OnRetry: func(t provider.Retry) {
			r.env.Note("case %s: %s; trying again in %s", c.ID, t.Reason, t.Wait)
		}})
		return liveCase{live}, err
	}
	return r.liveJudge(hc, access, l)
}

// A liveCase tells the harness how often a provider was asked again.
type liveCase struct{ *provider.Case }

func (l liveCase) Retries() int { return int(l.Stats().Retries) }

// rehearsal is the config of a run that records nothing.
func (r *runner) rehearsal() (harness.Config, error) {
	state, err := workspace.StateDir(r.env.Getenv)
	if err != nil {
		return harness.Config{}, err
	}
	o := r.o
	hc := harness.Config{Bench: r.bench, Target: r.target, Now: r.env.Now, Version: thisBuild().Version, Jobs: o.jobs, Repeat: o.repeat,
		Select: o.selector(), Scope: sandbox.Scope(o.scope), Image: findRubricImage, Unsafe: o.unsafeAgent, Hidden: []string{r.place.Dir, state}}
	if o.sandbox != "" {
		hc.Sandbox = []sandbox.Class{sandbox.Class(o.sandbox)}
	}
	err = r.judgeOf(&hc, judge.Replay, nil)
	return hc, err
}

// selector is the filter that the flags describe, nil if there is none.
func (o *runOptions) selector() func(*scenario.Case) bool {
	if o.cases == "" && o.tag == "" {
		return nil
	}
	return func(c *scenario.Case) bool {
		if o.cases != "" {
			if ok, _ := path.Match(o.cases, c.ID); !ok {
				return false
			}
		}
		return o.tag == "" || slices.Contains(c.Tags, o.tag)
	}
}

// findRubricImage finds a pinned image in the cache; a scratch class that pins
// none gets a snapshot of this machine's Python.
func findRubricImage(pinned digest.Content) (*sandbox.Image, error) {
	cache, err := sandbox.ImageCache()
	if err != nil {
		return nil, err
	}
	if pinned == (digest.Content{}) {
		return sandbox.SnapshotHost(cache, "")
	}
	return sandbox.FindImage(cache, pinned.String())
}

// cosign has witnesses cosign the registration before the first case runs, so
// that the attempt can be of the level witnessed.
func (r *runner) cosign(ctx context.Context, l *sequencer.Ledger) error {
	if len(r.place.Settings.Witnesses) == 0 {
		return nil
	}
	err := r.publish(ctx, l)
	if refusal.Is(err, refusal.WitnessFailed) {
		// No case has run: the result cannot be of the level witnessed, so the
		// attempt waits. It is in the ledger already.
		return refusal.Newf(refusal.WitnessFailed, "the attempt is registered and no case has run: %w", err).
			WithHint(`when the witnesses can be reached, go on with "tally run %s --target %s --resume"`, r.o.class, r.o.target)
	}
	return err
}

func (r *runner) publish(ctx context.Context, l *sequencer.Ledger) error {
	cosigners, err := cosigners(r.place.Settings)
	if err != nil {
		return err
	}
	pub, err := l.PublishAnchor(ctx, cosigners)
	if err != nil {
		return r.place.Alarm(err)
	}
	// The day's anchor file is replaced by the next publication, and with it
	// what shows that witnesses saw the registration before the first case.
	if err := keepCheckpoint(r.place.Place, pub); err != nil {
		return err
	}
	if len(pub.Failed) > 0 {
		return witnessFailure(pub)
	}
	return nil
}

// asking keeps two cases from asking at once.
var asking sync.Mutex

// askPerson puts an escalation to the person at the terminal.
func (r *runner) askPerson(ctx context.Context, caseID string, q trajectory.ApprovalRequested) (approve, answered bool, err error) {
	asking.Lock()
	defer asking.Unlock()
	r.meter.pause()
	fmt.Fprintf(r.env.Stderr, "\ncase %s: %s %s needs an approval: %s\napprove? [y/n] ", plain.Line(caseID), q.Action, plain.Line(q.Name), plain.Line(q.Reason))
	line, err := readAnswer(ctx, r.env.Stdin)
	if err != nil {
		return false, false, err
	}
	switch strings.ToLower(line) {
	case "y", "yes":
		return true, true, nil
	case "n", "no":
		return false, true, nil
	}
	return false, false, nil
}

// answer puts the summary into the form that is promised.
func (r *runner) answer(s *harness.Summary, head digest.ID) *runAnswer {
	return &runAnswer{Attempt: runAttempt{s.Attempt, s.Number, r.bench.Level()}, Class: s.Class, Target: s.Target, Total: s.Planned,
		Passed: s.Outcomes[evidence.Passed], Failed: s.Outcomes[evidence.Failed], Skipped: s.Outcomes[evidence.Skipped],
		Unscored: s.Outcomes[evidence.Unscored], Truncated: s.Outcomes[evidence.Truncated], Errors: s.Outcomes[evidence.Errored],
		MeanScore: s.MeanScore, FailureModes: s.FailureModes, CostUSD: float64(s.CostMicroUSD) / 1e6, JudgeCostUSD: float64(r.judged.Load()) / 1e6, Isolation: s.IsolationClass, Head: head, Finished: s.Finished}
}

// save keeps the answer beside the ledger. It proves nothing: "tally verify
// --recompute" counts again.
func (r *runner) save(a *runAnswer) error {
	data, err := json.MarshalIndent(a, "", "  ")
	if err != nil {
		return err
	}
	return store.WriteFile(store.OS{}, r.place.Private("runs", a.Attempt.ID+".json"), append(data, '\n'), 0o600)
}

func (a *runAnswer) print(out io.Writer) {
	fmt.Fprintf(out, "attempt  %s (number %d, %s)\n", plain.Line(a.Attempt.ID), a.Attempt.Number, a.Attempt.Level)
	fmt.Fprintf(out, "cases    %d: %d passed, %d failed", a.Total, a.Passed, a.Failed)
	for _, n := range []struct {
		count int
		what  string
	}{{a.Errors, "errors"}, {a.Truncated, "truncated"}, {a.Unscored, "unscored"}, {a.Skipped, "skipped"}} {
		if n.count > 0 {
			fmt.Fprintf(out, ", %d %s", n.count, n.what)
		}
	}
	fmt.Fprintln(out)
	if a.MeanScore != nil {
		fmt.Fprintf(out, "mean     %.4f\n", *a.MeanScore)
	}
	if len(a.FailureModes) > 0 {
		fmt.Fprintf(out, "modes    %s\n", plain.Line(strings.Join(a.FailureModes, ", ")))
	}
	fmt.Fprintf(out, "cost     $%.6f", a.CostUSD)
	if a.JudgeCostUSD > 0 {
		fmt.Fprintf(out, ", and $%.6f for judging", a.JudgeCostUSD)
	}
	fmt.Fprintln(out)
	if a.Isolation != "" {
		fmt.Fprintf(out, "graded   %s\n", gradedWhere(a.Isolation))
	}
	if a.Gate != nil {
		a.Gate.print(out)
	}
	fmt.Fprintf(out, "head     %s\n", a.Head)
	if a.Comparison != nil {
		fmt.Fprintln(out)
		compareText(out, a.Comparison)
	}
	if a.Attempt.Level == string(bench.Scratch) {
		fmt.Fprintln(out, "SCRATCH: nobody signed this bench; the result never counts for promotion")
	}
	if a.Passed < a.Total && a.Finished {
		fmt.Fprintln(out, `Next: "tally why CASE" tells why a case failed`)
	}
}

// gradedWhere says in words where the scores were made.
func gradedWhere(isolation string) string {
	switch isolation {
	case "builtin":
		return "by built-in graders"
	case "mixed":
		return "in several ways: see each case's record"
	}
	return "by the rubric, in " + plain.Line(isolation)
}

// A meter shows how an attempt is going: one line that is written over on a
// terminal, and nothing in a pipe but the cases that did not pass.
type meter struct {
	env      *Env
	terminal bool
	total    int
	began    time.Time

	mu     sync.Mutex
	shown  time.Time
	count  int
	passed int
	cost   int64
}

func newMeter(env *Env) *meter {
	return &meter{env: env, terminal: !env.Quiet && !env.JSON && isTerminal(env.Stderr), began: time.Now()}
}

func (m *meter) done(r harness.Result) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.total = max(m.total, r.Total)
	m.count++
	m.cost += r.Record.CostMicroUSD
	if r.Record.Outcome == evidence.Passed {
		m.passed++
	} else {
		m.clear()
		m.env.Note("case %s %s%s", r.Case, r.Record.Outcome, because(r.Record))
	}
	if !m.terminal || time.Since(m.shown) < 100*time.Millisecond && m.count < m.total {
		return
	}
	m.shown = time.Now()
	rate := float64(m.count) / time.Since(m.began).Seconds()
	left := time.Duration(float64(m.total-m.count)/rate) * time.Second
	fmt.Fprintf(m.env.Stderr, "\r\x1b[K%d of %d cases, %d passed, $%.4f, %.1f/s, %v left", m.count, m.total, m.passed, float64(m.cost)/1e6, rate, left.Round(time.Second))
}

func because(r evidence.CaseScored) string {
	switch {
	case r.Reason != "":
		return ": " + r.Reason
	case r.Score != nil && len(r.Score.FailureModes) > 0:
		return ": " + strings.Join(r.Score.FailureModes, ", ")
	}
	return ""
}

func (m *meter) clear() {
	if m.terminal {
		io.WriteString(m.env.Stderr, "\r\x1b[K")
	}
}

func (m *meter) pause() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.clear()
}

func (m *meter) end() { m.pause() }
