package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"tallystick/internal/agent"
	"tallystick/internal/archive"
	"tallystick/internal/bench"
	"tallystick/internal/ceremony"
	"tallystick/internal/evidence"
	"tallystick/internal/harness"
	"tallystick/internal/history"
	"tallystick/internal/lab"
	"tallystick/internal/plain"
	"tallystick/internal/recount"
	"tallystick/internal/refusal"
	"tallystick/internal/sandbox"
	"tallystick/internal/scorecard"
)

type runOptions struct {
	class   string
	target  string
	cases   string
	tag     string
	repeat  int
	jobs    int
	resume  bool
	errors  string // the attempt whose errors are run again
	maxCost float64

	sandbox     string
	scope       string
	unsafeAgent bool
	live        bool
	trustRoot   string

	junit, tap         string
	showHeldOut        bool
	baseline, markdown string

	requireLevel string
	required     []history.Property
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
"--resume" resumes; no recorded case is run again. A live case resumes at the call where
it was interrupted: calls that were answered are not paid again (docs/paid-work.md).`,
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
	f.StringVar(&o.errors, "retry-errors", "", "run only cases that ended as errors in the finished `ATTEMPT`, by default the newest of this class and target, as an attempt of its own, which never counts for promotion")
	f.Lookup("retry-errors").NoOptDefVal = lab.Newest
	f.Float64Var(&o.maxCost, "max-cost", 0, "spend at most `USD` dollars, counting every execution and calls whose outcome is unknown; what is left is recorded as truncated")
	f.StringVar(&o.sandbox, "sandbox", "", "isolation `CLASS` in place of those of the registration")
	f.StringVar(&o.scope, "sandbox-scope", "", "`SCOPE` of the rubric's sandbox: case or attempt")
	f.BoolVar(&o.unsafeAgent, "unsafe-agent", false, "run a command target without a sandbox; labelled, never counts")
	f.BoolVar(&o.live, "live", false, "answer model calls from real models; the recording goes to the evidence")
	f.StringVar(&o.junit, "junit", "", "write a JUnit XML report to `FILE`")
	f.StringVar(&o.tap, "tap", "", "write a TAP report to `FILE`")
	f.StringVar(&o.baseline, "baseline", "", "compare with the earlier attempt `ID`")
	f.StringVar(&o.markdown, "markdown", "", "write the comparison with --baseline to `FILE`, for a pull request")
	addHeldOutFlag(cmd, &o.showHeldOut)
	f.StringVar(&o.requireLevel, "require-level", "", "exit 4 unless the attempt is of `LEVEL`: signed, pinned or witnessed, or several with commas")
	addTrustRootFlag(cmd, &o.trustRoot)
	return cmd
}

func runRun(ctx context.Context, env *Env, o runOptions) error {
	if err := o.validate(); err != nil {
		return err
	}
	place, err := openPlace(env)
	if err != nil {
		return err
	}
	local, err := openCheckout(ctx, env, place)
	if err != nil {
		return err
	}
	past, began := &harness.Past{}, false
	c, err := place.ReadCorpus(o.trustRoot, o.asks(past, &began))
	if err != nil {
		return err
	}
	defer c.Close()
	setup, err := lab.New(c, o.setup())
	if err != nil {
		return err
	}
	r := &runner{env: env, o: o, origin: c.Settings.Origin, bench: setup.Bench, past: past, reading: c.Reading}
	if err := c.Reading.RequireProspect(o.required, setup.Bench); err != nil {
		return err
	}
	began = true
	ran, err := r.run(ctx, setup)
	if ran == nil {
		return err
	}
	answer := r.answer(ran)
	answer.LocalLedger = local
	// What stopped the run is said first; a gate that is not met comes after
	// everything was shown.
	reported := r.report(answer)
	if err == nil || answer.Scorecard == nil {
		err = cmp.Or(err, reported)
	}
	if serr := lab.KeepAnswer(c.Place, answer.Attempt.ID, answer); serr != nil {
		return serr
	}
	if aerr := env.Answer(answer, func(out io.Writer) { runText(out, answer, ran.ByRubric) }); aerr != nil {
		return aerr
	}
	return err
}

// openCheckout begins a ledger in a checkout that has none, and says so. It
// returns nil where the workspace has its ledger.
func openCheckout(ctx context.Context, env *Env, place *archive.Place) (*recount.LocalLedger, error) {
	begun, err := ceremony.OpenCheckout(ctx, place)
	if err != nil || place.Shared == nil {
		return nil, err
	}
	if begun {
		env.Note("this checkout has no ledger of %s; began a local one, %s: its attempts are scratch, whatever was signed, and never count for promotion", place.Shared.Origin, place.Settings.Origin)
	}
	return &recount.LocalLedger{Origin: place.Settings.Origin, Of: place.Shared.Origin, Begun: begun}, nil
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
	if err := o.checkLevel(); err != nil {
		return err
	}
	if err := o.checkReports(); err != nil {
		return err
	}
	if _, err := path.Match(o.cases, ""); err != nil {
		return refusal.Newf(refusal.Usage, "--case %s: %w", o.cases, err)
	}
	return nil
}

// checkLevel reads --require-level.
func (o *runOptions) checkLevel() (err error) {
	if o.required, err = requiredLevel(o.requireLevel); err != nil {
		return err
	}
	if slices.Contains(o.required, history.ReproducedProperty) {
		return refusal.Newf(refusal.Usage, "--require-level reproduced: nobody can have run an attempt again that has not begun").
			WithHint(`run it, "tally reproduce" it, then "tally gate --require-level reproduced"`)
	}
	return nil
}

// requiredLevel reads the value of --require-level.
func requiredLevel(list string) ([]history.Property, error) {
	if list == "" {
		return nil, nil
	}
	needed, err := history.Required(list)
	if err != nil {
		return nil, refusal.Newf(refusal.Usage, "--require-level: %w", err)
	}
	return needed, nil
}

// setup is what the flags say about the class, the target and how they are run.
func (o *runOptions) setup() lab.Options {
	return lab.Options{Class: o.class, Target: o.target, Cases: o.cases, Tag: o.tag, Errors: o.errors, Repeat: o.repeat, Jobs: o.jobs,
		Sandbox: sandbox.Class(o.sandbox), Scope: sandbox.Scope(o.scope), UnsafeAgent: o.unsafeAgent, Live: o.live, Version: thisBuild().Harness()}
}

// A runner is one "tally run".
type runner struct {
	env    *Env
	o      runOptions
	origin string // of the ledger
	bench  *bench.Verified

	past    *harness.Past    // what the harness must know of earlier attempts
	reading *archive.Reading // the ledger as it was before the run
}

// run runs the attempt while the person looks on.
func (r *runner) run(ctx context.Context, setup *lab.Setup) (*lab.Ran, error) {
	m := newMeter(r.env, r.o.live)
	o := lab.RunOptions{Resume: r.o.resume, MaxCostMicroUSD: int64(r.o.maxCost * 1e6), Past: r.past, Progress: m, Admit: r.checkBaseline}
	if r.env.Interactive() {
		o.People = &asker{env: r.env, meter: m}
	}
	ran, err := setup.Run(ctx, o)
	m.end()
	if ran != nil {
		for _, id := range ran.Unfinished {
			r.env.Note("attempt %s was never finished; it stays in the ledger and counts against its class", id)
		}
	}
	return ran, err
}

// checkBaseline refuses an attempt to compare with that the ledger does not have,
// before anything runs: a typing mistake must not cost an attempt.
func (r *runner) checkBaseline(known []string) error {
	if r.o.baseline == "" || slices.Contains(known, r.o.baseline) {
		return nil
	}
	return archive.NoAttempt(r.origin, known, r.o.baseline)
}

// An asker puts approvals to the person at the terminal, one at a time.
type asker struct {
	env   *Env
	meter *meter
	mu    sync.Mutex
}

// Approve asks; what is neither yes nor no is not an answer.
func (a *asker) Approve(ctx context.Context, caseID string, q harness.Question) (approve, answered bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.meter.pause()
	io.WriteString(a.env.Stderr, lab.ApprovalText(caseID, q))
	line, err := readAnswer(ctx, a.env.Stdin)
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
func (r *runner) answer(s *lab.Ran) *recount.Run {
	a := &recount.Run{Rules: scorecard.Rules, Attempt: recount.RunAttempt{ID: s.Attempt, Number: s.Number, Level: history.Scratch.String()}, Class: s.Class, Target: s.Target, Total: s.Planned,
		Passed: s.Outcomes[evidence.Passed], Failed: s.Outcomes[evidence.Failed], Skipped: s.Outcomes[evidence.Skipped],
		Unscored: s.Outcomes[evidence.Unscored], Truncated: s.Outcomes[evidence.Truncated], Errors: s.Outcomes[evidence.Errored],
		MeanScore: s.MeanScore, FailureModes: s.FailureModes, JudgeCostUSD: float64(s.JudgeCostMicroUSD) / 1e6,
		Paid: history.PaidOf(s.Paid), Isolation: s.IsolationClass, Head: s.Head, Finished: s.Finished}
	a.NotRun = a.Total - a.Passed - a.Failed - a.Skipped - a.Unscored - a.Truncated - a.Errors
	if !s.CostUnknown {
		cost := float64(s.CostMicroUSD) / 1e6
		a.CostUSD = &cost
	}
	return a
}

func runText(out io.Writer, a *recount.Run, byRubric bool) {
	fmt.Fprintf(out, "attempt  %s (number %d%s, %s)\n", plain.Line(a.Attempt.ID), a.Attempt.Number, ofClass(a.Attempt.Of), levelText(a.Attempt.Level, a.Attempt.Properties))
	othersText(out, a)
	fmt.Fprintf(out, "cases    %d: %d passed, %d failed", a.Total, a.Passed, a.Failed)
	for _, n := range []count{{a.Errors, "errors"}, {a.Truncated, "truncated"}, {a.Unscored, "unscored"}, {a.Skipped, "skipped"}, {a.NotRun, "not run"}} {
		if n.n > 0 {
			fmt.Fprintf(out, ", %d %s", n.n, n.what)
		}
	}
	fmt.Fprintln(out)
	runMeanText(out, a)
	if len(a.FailureModes) > 0 {
		fmt.Fprintf(out, "modes    %s\n", plain.Line(strings.Join(a.FailureModes, ", ")))
	}
	runCostText(out, a)
	if a.Isolation != "" {
		fmt.Fprintf(out, "graded   %s\n", gradedWhere(a, byRubric))
	}
	if a.Scorecard != nil {
		qualificationsText(out, "note     ", a.Scorecard.Qualifications)
	}
	runGatesText(out, a)
	fmt.Fprintf(out, "head     %s\n", a.Head)
	if a.Comparison != nil {
		fmt.Fprintln(out)
		compareText(out, a.Comparison)
	}
	switch a.Attempt.Level {
	case history.Scratch.String():
		fmt.Fprintln(out, "SCRATCH: nobody vouches for this bench or this ledger; the result never counts for promotion")
	case history.Example.String():
		fmt.Fprintln(out, "EXAMPLES: the signers come with \"tally init\" and their keys lie here; the result never counts for promotion")
	}
	if a.Passed < a.Total && a.Finished {
		fmt.Fprintln(out, `Next: "tally why CASE" tells why a case failed`)
	}
}

func ofClass(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" of %d", n)
}

// levelText is the level and what else is known: each property adds something
// of its own, and the level names only one.
func levelText(level string, properties []history.Property) string {
	text := level
	for _, p := range properties {
		if p != history.ExamplesProperty && string(p) != level {
			text += ", " + string(p)
		}
	}
	return text
}

// othersText lists the other attempts of the class, by every target: whoever
// sees one result should know of the others. The newest come last, a few of them.
func othersText(out io.Writer, a *recount.Run) {
	if a.Scorecard == nil {
		return
	}
	othersLines(out, a.Scorecard.Siblings, 10)
}

// othersLines prints at most the newest of some attempts; 0 means all.
func othersLines(out io.Writer, others []scorecard.AttemptLine, most int) {
	if left := len(others) - most; most > 0 && left > 0 {
		fmt.Fprintf(out, "besides  %d older attempts of the class: \"tally scorecard\" lists them\n", left)
		others = others[left:]
	}
	for _, o := range others {
		fmt.Fprintf(out, "besides  %s by %s: number %d, %d of %d passed, %s%s\n", plain.Line(o.ID), plain.Line(o.Target), o.Number, o.Passed, o.Tasks, levelText(o.Level.String(), o.Properties), labels(o))
	}
}

// runMeanText prints the mean, and what it could be if every case had a score.
func runMeanText(out io.Writer, a *recount.Run) {
	if a.MeanScore == nil {
		return
	}
	fmt.Fprintf(out, "mean     %.4f", *a.MeanScore)
	if c := a.Scorecard; c != nil && c.MeanScoreBounds != nil {
		fmt.Fprintf(out, " of %d scored; with every case scored %.4f to %.4f", c.ScoredTasks, c.MeanScoreBounds[0], c.MeanScoreBounds[1])
	}
	fmt.Fprintln(out)
}

// runCostText prints what the agent cost, and the judge.
func runCostText(out io.Writer, a *recount.Run) {
	cost := "unknown"
	if a.CostUSD != nil {
		cost = fmt.Sprintf("$%.6f", *a.CostUSD)
	}
	if a.CostUSD != nil && *a.CostUSD > 0 {
		switch {
		case qualified(a, history.QualReplayed) > 0:
			cost += " recorded cost, not paid now"
		case qualified(a, history.QualAuthored) > 0:
			cost += " authored cost, not paid now"
		}
	}
	fmt.Fprintf(out, "cost     %s", cost)
	if a.JudgeCostUSD > 0 {
		fmt.Fprintf(out, ", and $%.6f for judging", a.JudgeCostUSD)
	}
	fmt.Fprintln(out)
	paidText(out, a.Paid, a.CostUSD)
}

// paidText prints what was paid, where that is not what was scored.
func paidText(out io.Writer, p *history.Paid, scored *float64) {
	if text := p.Beside(scored); text != "" {
		fmt.Fprintf(out, "paid     %s\n", text)
	}
}

// qualified is of how many tasks of a run a qualification is true.
func qualified(a *recount.Run, name string) int {
	if a.Scorecard != nil {
		for _, q := range a.Scorecard.Qualifications {
			if q.Name == name {
				return q.Tasks
			}
		}
	}
	return 0
}

// qualificationsText prints what must be known beside the numbers, a line each,
// but for the level, which is printed with the attempt's name.
func qualificationsText(out io.Writer, label string, said []history.Qualification) {
	for _, q := range said {
		if q.Name != history.QualScratch {
			fmt.Fprintf(out, "%s%s\n", label, plain.Line(q.Text))
		}
	}
}

// gradedWhere says in words where the scores were made.
func gradedWhere(a *recount.Run, byRubric bool) string {
	judged := qualified(a, history.QualJudged)
	by := "by the rubric, in " + plain.Line(a.Isolation)
	switch {
	case a.Isolation == "builtin":
		by = "by built-in graders"
	case a.Isolation == "mixed":
		by = "in several ways: see each case's record"
	case !byRubric:
		by = "by the tests of the cases, in " + plain.Line(a.Isolation)
	}
	switch {
	case judged > 0 && judged == a.Total:
		return "by a model"
	case judged > 0:
		return fmt.Sprintf("%s, %d cases by a model", by, judged)
	}
	return by
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
	cost   int64 // shown if it is paid now
	live   bool
}

func newMeter(env *Env, live bool) *meter {
	return &meter{env: env, live: live, terminal: !env.Quiet && !env.JSON && isTerminal(env.Stderr), began: time.Now()}
}

// Recorded shows a case that was recorded.
func (m *meter) Recorded(r harness.Result) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.total = max(m.total, r.Total)
	m.count++
	m.cost += r.Record.CostMicroUSD
	if r.Record.Outcome == evidence.Passed {
		m.passed++
	} else {
		m.clear()
		m.env.Note("case %s %s%s", r.Case, r.Record.Outcome, because(r))
	}
	if !m.terminal || time.Since(m.shown) < 100*time.Millisecond && m.count < m.total {
		return
	}
	m.shown = time.Now()
	rate := float64(m.count) / time.Since(m.began).Seconds()
	left := time.Duration(float64(m.total-m.count)/rate) * time.Second
	paid := ""
	if m.live {
		paid = fmt.Sprintf(", $%.4f", float64(m.cost)/1e6)
	}
	fmt.Fprintf(m.env.Stderr, "\r\x1b[K%d of %d cases, %d passed%s, %.1f/s, %v left", m.count, m.total, m.passed, paid, rate, left.Round(time.Second))
}

func because(result harness.Result) string {
	switch r := result.Record; {
	case r.Reason != "" && result.HeldOut:
		return ", held out"
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
