package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tallystick/internal/archive"
	"tallystick/internal/evidence"
	"tallystick/internal/gate"
	"tallystick/internal/grade"
	"tallystick/internal/ledger"
	"tallystick/internal/plain"
	"tallystick/internal/refusal"
	"tallystick/internal/scorecard"
	"tallystick/internal/store"
	"tallystick/internal/trajectory"
)

type gateOptions struct {
	attempt string
	class   string
	junit   string
	tap     string
	across  bool

	trustRoot string
}

func newGate(env *Env) *cobra.Command {
	var o gateOptions
	cmd := &cobra.Command{
		Use:   "gate [ATTEMPT]",
		Short: "Compare an attempt with the thresholds of the signed registration",
		Long: `Compare an attempt with the gates of its class: thresholds per tag and in all, written
in the signed registration. Without ATTEMPT it is the newest finished one, of --class if
there are several classes. The exit code is 4 when a gate is not met.

The bench and the ledger are verified first. A tag without a scored case fails. Cases
without a score count as not solved and as zero; cases of the bench that the attempt
left out fail the gates that they belong to.

An attempt at other cases, or under another rubric than the class has now, is refused,
because it says nothing about them. After "tally rescore" it may: --across-benches.

--junit and --tap write the cases and the gates for a test reporter.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				o.attempt = args[0]
			}
			return runGate(cmd.Context(), env, o)
		},
	}
	cmd.Flags().StringVar(&o.class, "class", "", "the newest finished attempt of this task `CLASS`")
	cmd.Flags().BoolVar(&o.across, "across-benches", false, "take an attempt although cases or rubric have changed since")
	cmd.Flags().StringVar(&o.junit, "junit", "", "write JUnit XML to `FILE`")
	cmd.Flags().StringVar(&o.tap, "tap", "", "write TAP 14 to `FILE`")
	addTrustRootFlag(cmd, &o.trustRoot)
	return cmd
}

type gateAnswer struct {
	Met     bool            `json:"met"`
	Gates   []gate.Result   `json:"gates"`
	Attempt string          `json:"attempt"`
	Class   string          `json:"class"`
	Level   scorecard.Level `json:"level"`

	Ledger scorecard.LedgerLine `json:"ledger"` // what was read
}

func runGate(_ context.Context, env *Env, o gateOptions) error {
	if o.attempt != "" && o.class != "" {
		return refusal.Newf(refusal.Usage, "an attempt is named, and --class chooses one").WithHint("give one or the other")
	}
	p, err := env.openCorpusFor(o.trustRoot)
	if err != nil {
		return err
	}
	defer p.Root.Close()
	// A report tells where a case left the run in which it last passed, and for
	// that the other attempts are needed too.
	past, err := env.readPast(func(a *scorecard.Attempt) bool {
		return a.ID == o.attempt || o.attempt == "" && (o.class == "" || a.Class == o.class) || o.junit != "" || o.tap != ""
	})
	if err != nil {
		return err
	}
	a, err := o.choose(past)
	if err != nil {
		return err
	}
	v, err := p.Bench(a.Class)
	if err != nil {
		return fmt.Errorf("gate of attempt %s: %w", a.ID, err)
	}
	results, err := gate.Evaluate(gate.Input{Bench: v, History: past.history, Attempt: a, Evidence: past.evidence, AcrossBenches: o.across})
	if err != nil {
		return err
	}
	if err := env.writeReports(past, a, results, o.junit, o.tap); err != nil {
		return err
	}
	if a.Plan.BenchDigest != v.Digest() {
		env.Note("attempt %s ran against another version of class %s", a.ID, a.Class)
	}
	answer := gateAnswer{gate.Met(results), results, a.ID, a.Class, a.Level, past.history.Line()}
	if err := env.Answer(answer, answer.text); err != nil {
		return err
	}
	return gateNotMet(a, results)
}

// gateNotMet is the refusal of an attempt whose gates are not all met, or nil.
func gateNotMet(a *scorecard.Attempt, results []gate.Result) error {
	var unmet []string
	for _, r := range results {
		if !r.Met {
			unmet = append(unmet, r.Text())
		}
	}
	if len(unmet) == 0 {
		return nil
	}
	return refusal.Newf(refusal.GateNotMet, "attempt %s: %d of %d gates are not met: %s", a.ID, len(unmet), len(results), strings.Join(unmet, "; ")).
		WithHint(`list the cases with "tally scorecard %s --failed"`, a.ID)
}

func (g gateAnswer) text(out io.Writer) {
	word := "NOT MET"
	if g.Met {
		word = "met"
	}
	fmt.Fprintf(out, "%s  %s (%s)\n", word, plain.Line(g.Attempt), g.Level)
	for _, r := range g.Gates {
		word := "FAIL"
		if r.Met {
			word = "ok  "
		}
		fmt.Fprintf(out, "  %s  %s\n", word, plain.Line(r.Text()))
	}
}

// choose finds the attempt: the named one, or the newest finished one of the
// class that is meant.
func (o gateOptions) choose(p *pastReading) (*scorecard.Attempt, error) {
	if o.attempt != "" {
		return p.attempt(o.attempt)
	}
	var newest *scorecard.Attempt
	var classes []string
	for _, a := range p.history.Attempts {
		if a.Finished == nil || o.class != "" && a.Class != o.class {
			continue
		}
		newest = a
		if !slices.Contains(classes, a.Class) {
			classes = append(classes, a.Class)
		}
	}
	switch {
	case newest == nil && o.class != "":
		return nil, refusal.Newf(refusal.NotFound, "class %s has no finished attempt", o.class).WithHint(`"tally run %s" makes one`, o.class)
	case newest == nil:
		return nil, refusal.Newf(refusal.NotFound, "there is no finished attempt").WithHint(`"tally run CLASS" makes one`)
	case len(classes) > 1:
		return nil, refusal.Newf(refusal.Usage, "there are attempts of %d classes", len(classes)).WithHint("name an attempt, or one of them with --class: %s", strings.Join(classes, ", "))
	}
	return newest, nil
}

// writeReports writes what test reporters read.
func (e *Env) writeReports(p *pastReading, a *scorecard.Attempt, results []gate.Result, junit, tap string) error {
	if junit == "" && tap == "" {
		return nil
	}
	report, err := e.reportOf(p, a, results)
	if err != nil {
		return err
	}
	for _, f := range []struct {
		path  string
		write func(io.Writer, gate.Report) error
	}{{junit, gate.WriteJUnit}, {tap, gate.WriteTAP}} {
		if f.path == "" {
			continue
		}
		var b bytes.Buffer
		if err := f.write(&b, report); err != nil {
			return err
		}
		if err := store.WriteFile(store.OS{}, f.path, b.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// reportOf gathers what a reporter shows of an attempt.
func (e *Env) reportOf(p *pastReading, a *scorecard.Attempt, results []gate.Result) (gate.Report, error) {
	report := gate.Report{Class: a.Class, Attempt: a.ID, Target: a.Target, Level: a.Level.String(), Started: a.Time.Go(), Gates: results}
	// Why a case has no score is in its record and nowhere in the totals.
	reasons := make(map[int64]string)
	_, _, err := e.verifiedLedger(func(r ledger.Record) error {
		if s, ok := r.Body.(*evidence.CaseScored); ok && s.Attempt == a.ID {
			reasons[r.Index] = s.Reason
		}
		return nil
	})
	if err != nil {
		return report, err
	}
	looked := 0
	for c := range a.Cases() {
		t := gate.Case{ID: c.ID, Outcome: c.Effective(), Duration: c.Latency(), FailureModes: c.FailureModes(), Reason: reasons[c.Index]}
		if a.Plan.Repeat > 1 {
			t.Repeat = int(c.Repeat)
		}
		if c.IsScored() {
			score := c.EffectiveScore()
			t.Score = &score
		}
		if c.IsScored() && !c.Passed() {
			p.compared(c, &t)
		}
		if c.Index >= 0 && !c.Passed() {
			if looked++; looked <= maxDivergences {
				t.Divergence = p.parted(a, c)
			}
		}
		report.Cases = append(report.Cases, t)
	}
	for range a.Unlisted() {
		report.Cases = append(report.Cases, gate.Case{ID: "a case whose name is not known", Outcome: scorecard.NotRun})
	}
	return report, nil
}

// maxDivergences bounds how many failed cases are compared with earlier runs:
// after a few the reader knows, and each takes two trajectories.
const maxDivergences = 50

// parted tells where a case left its golden trace, or the run in which the same
// target last passed it; "" if there is neither.
func (p *pastReading) parted(a *scorecard.Attempt, c *scorecard.Case) string {
	if golden, err := store.ReadFile(store.OS{}, p.w.GoldenFile(a.Class, c.ID), archive.MaxGolden); err == nil {
		if v, err := scorecard.TrajectoryOf(c, p.read); err == nil {
			if d, err := trajectory.CheckGolden(golden, v, archive.GoldenTrace); err == nil && d != nil {
				return d.String()
			}
		}
	}
	var passed *scorecard.Case
	for _, earlier := range p.history.Attempts {
		if earlier.Class != a.Class || earlier.Target != a.Target || earlier.Index >= a.Index {
			continue
		}
		for x := range earlier.Cases() {
			if x.ID == c.ID && x.Digest == c.Digest && x.Passed() {
				passed = x
			}
		}
	}
	if passed == nil {
		return ""
	}
	text, err := p.divergence(passed, c)
	if err != nil {
		return ""
	}
	return text
}

// compared adds to a case that did not pass what the grader compared that decided
// it. It is a help to people: without the evidence the report is shorter and as
// red.
func (p *pastReading) compared(c *scorecard.Case, t *gate.Case) {
	if c.Outcome() == evidence.Passed {
		t.Reason = fmt.Sprintf("amended by %s: %s", c.Amendment.Author, c.Amendment.Reason)
		return
	}
	checks, err := p.checks(c)
	if err != nil {
		return
	}
	check := grade.Decisive(checks)
	if check == nil {
		return
	}
	if t.Got = check.Missing; check.Extracted != nil {
		t.Got = check.Extracted.Head
	}
	if check.Expected != nil {
		t.Want = check.Expected.Head
	}
	if t.Reason == "" {
		t.Reason = check.Why
	}
}
