package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"tallystick/internal/digest"
	"tallystick/internal/evidence"
	"tallystick/internal/grade"
	"tallystick/internal/ledger"
	"tallystick/internal/plain"
	"tallystick/internal/refusal"
	"tallystick/internal/scorecard"
)

type whyOptions struct {
	caseID  string
	attempt string
	class   string
}

func newWhy(env *Env) *cobra.Command {
	var o whyOptions
	cmd := &cobra.Command{
		Use:   "why CASE",
		Short: "Why a case failed: what was compared, where it diverged, what changed",
		Long: `Tell why a case ended as it did in the newest attempt that ran it, or in --attempt, or
in the newest of --class if several classes have a case of that name: what each grader
compared with what, where the run first parted from its golden trace or from the last
attempt that passed, what has changed since then, and how the score was amended.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.caseID = args[0]
			return runWhy(cmd.Context(), env, o)
		},
	}
	cmd.Flags().StringVar(&o.attempt, "attempt", "", "the attempt `ID` to look at, in place of the newest")
	cmd.Flags().StringVar(&o.class, "class", "", "the newest attempt of this task `CLASS`")
	return cmd
}

type whyAnswer struct {
	Case         string         `json:"case"`
	Attempt      string         `json:"attempt"`
	Level        string         `json:"level"`
	Entry        int64          `json:"entry"`
	Outcome      string         `json:"outcome"`
	Reason       string         `json:"reason,omitempty"`
	FailureModes []string       `json:"failure_modes"`
	Checks       []grade.Detail `json:"checks"`
	RubricSaid   string         `json:"rubric_said,omitempty"` // on its standard error
	Divergence   string         `json:"divergence,omitempty"`
	LastPassed   string         `json:"last_passed,omitempty"` // attempt
	Changed      []whyChange    `json:"changed"`
	Missing      string         `json:"evidence_missing,omitempty"`
	Amendment    *whyAmendment  `json:"amendment,omitempty"` // the last
}

// A whyAmendment is what somebody set beside the score. Checks are what was
// compared then, if the evidence has it.
type whyAmendment struct {
	Author string         `json:"author"`
	Reason string         `json:"reason"`
	Passed bool           `json:"passed"`
	Score  float64        `json:"score"`
	Raises bool           `json:"raises"` // it is more than the record has, and does not count
	Checks []grade.Detail `json:"checks"`
}

type whyChange struct {
	What string `json:"what"`
	Was  string `json:"was"`
	Now  string `json:"now"`
}

func runWhy(_ context.Context, env *Env, o whyOptions) error {
	if o.attempt != "" && o.class != "" {
		return refusal.Newf(refusal.Usage, "an attempt is named, and --class chooses one").WithHint("give one or the other")
	}
	p, err := env.readPast(func(*scorecard.Attempt) bool { return true })
	if err != nil {
		return err
	}
	attempt, c, err := p.findCase(o)
	if err != nil {
		return err
	}
	a := whyAnswer{Case: c.ID, Attempt: attempt.ID, Level: attempt.Level.String(), Entry: c.Index, Outcome: string(c.Effective()),
		FailureModes: append([]string{}, c.FailureModes()...), Checks: []grade.Detail{}, Changed: []whyChange{}}
	record, amended, err := env.recordAt(c.Index)
	if err != nil {
		return err
	}
	a.Reason = record.Reason
	if a.Checks, err = p.checks(c); err != nil {
		a.Missing = err.Error()
	}
	if a.RubricSaid, err = p.rubricSaid(c); err != nil {
		a.Missing = err.Error()
	}
	if amended != nil {
		a.Amendment = &whyAmendment{Author: amended.Author, Reason: amended.Reason, Passed: amended.Score.Passed, Score: amended.Score.Score, Raises: c.Raises(), Checks: []grade.Detail{}}
		if amended.Grading != nil {
			if a.Amendment.Checks, err = p.checksIn(*amended.Grading); err != nil {
				a.Missing = err.Error()
			}
		}
	}
	if c.Effective() != evidence.Passed {
		a.Divergence = p.parted(attempt, c)
		if before, last := p.lastPassed(attempt, c); last != nil {
			a.LastPassed = before.ID
			a.Changed = append(a.Changed, changes(before, attempt, last, c)...)
		}
	}
	return env.Answer(a, a.print)
}

// recordAt is the whole record of a case, and its last amendment if there is
// one: the history keeps only what numbers need.
func (e *Env) recordAt(index int64) (*evidence.CaseScored, *evidence.ScoreAmended, error) {
	var found *evidence.CaseScored
	var amended *evidence.ScoreAmended
	_, _, err := e.verifiedLedger(func(r ledger.Record) error {
		switch b := r.Body.(type) {
		case *evidence.CaseScored:
			if r.Index == index {
				found = b
			}
		case *evidence.ScoreAmended:
			if b.Entry == index {
				amended = b
			}
		}
		return nil
	})
	if err == nil && found == nil {
		err = refusal.Newf(refusal.NotFound, "entry %d is no record of a case", index)
	}
	return found, amended, err
}

// findCase finds a case in the attempt that was named, or in the newest that
// has a record of it.
func (p *pastReading) findCase(o whyOptions) (*scorecard.Attempt, *scorecard.Case, error) {
	var known []string
	for i := len(p.history.Attempts) - 1; i >= 0; i-- {
		a := p.history.Attempts[i]
		if o.attempt != "" && a.ID != o.attempt || o.class != "" && a.Class != o.class {
			continue
		}
		for c := range a.Cases() {
			if c.ID == o.caseID && c.Index >= 0 {
				return a, c, nil
			}
			known = append(known, c.ID)
		}
	}
	if o.attempt != "" {
		if _, err := p.attempt(o.attempt); err != nil {
			return nil, nil, err
		}
	}
	where := "no attempt has a record"
	switch {
	case o.attempt != "":
		where = "attempt " + o.attempt + " has no record"
	case o.class != "":
		where = "no attempt of class " + o.class + " has a record"
	}
	err := refusal.Newf(refusal.UnknownName, "%s of case %q", where, o.caseID)
	if near, ok := closest(o.caseID, known); ok {
		return nil, nil, err.WithHint("did you mean %q?", near)
	}
	return nil, nil, err.WithHint(`"tally scorecard" lists the attempts`)
}

// checks reads what was compared with what.
func (p *pastReading) checks(c *scorecard.Case) ([]grade.Detail, error) {
	files, err := scorecard.FilesOf(c, p.read)
	if err != nil || files.Grading == nil {
		return []grade.Detail{}, err
	}
	return p.checksIn(*files.Grading)
}

// rubricSaid reads what the rubric wrote to its standard error.
func (p *pastReading) rubricSaid(c *scorecard.Case) (string, error) {
	files, err := scorecard.FilesOf(c, p.read)
	if err != nil || files.Rubric == nil || files.Rubric.Stderr == nil {
		return "", err
	}
	said, err := p.read(*files.Rubric.Stderr)
	return string(said), err
}

// checksIn reads a grading document.
func (p *pastReading) checksIn(name digest.Content) ([]grade.Detail, error) {
	data, err := p.read(name)
	if err != nil {
		return []grade.Detail{}, err
	}
	var doc struct {
		Checks []grade.Detail `json:"checks"`
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		return []grade.Detail{}, refusal.Newf(refusal.Malformed, "the grading document %s: %w", name, err)
	}
	return append([]grade.Detail{}, doc.Checks...), nil
}

// lastPassed is the newest earlier attempt of the same class and target in
// which the case passed.
func (p *pastReading) lastPassed(a *scorecard.Attempt, c *scorecard.Case) (*scorecard.Attempt, *scorecard.Case) {
	for i := len(p.history.Attempts) - 1; i >= 0; i-- {
		earlier := p.history.Attempts[i]
		if earlier.Class != a.Class || earlier.Target != a.Target || earlier.Index >= a.Index {
			continue
		}
		for x := range earlier.Cases() {
			if x.ID == c.ID && x.Passed() {
				return earlier, x
			}
		}
	}
	return nil, nil
}

// changes lists what is not as it was when the case last passed.
func changes(before, now *scorecard.Attempt, was, is *scorecard.Case) []whyChange {
	var out []whyChange
	add := func(what, a, b string) {
		if a != b {
			out = append(out, whyChange{what, a, b})
		}
	}
	add("the case", was.Digest.String(), is.Digest.String())
	add("the bench", before.Plan.BenchDigest.String(), now.Plan.BenchDigest.String())
	add("the registration", before.Plan.RegistrationDigest.String(), now.Plan.RegistrationDigest.String())
	add("the target", before.Plan.TargetDigest.String(), now.Plan.TargetDigest.String())
	add("the rubric", orNone(before.Plan.RubricDigest), orNone(now.Plan.RubricDigest))
	add("the cassette", orNone(was.Cassette), orNone(is.Cassette))
	add("the mode", before.Mode, now.Mode)
	if was.Context != nil && is.Context != nil {
		add("the harness", was.Context.HarnessVersion, is.Context.HarnessVersion)
		add("the isolation", was.Context.Isolation, is.Context.Isolation)
	}
	return out
}

func orNone[T fmt.Stringer](d *T) string {
	if d == nil {
		return "none"
	}
	return (*d).String()
}

func (a whyAnswer) print(out io.Writer) {
	fmt.Fprintf(out, "case     %s: %s in attempt %s (%s), entry %d\n", plain.Line(a.Case), a.Outcome, plain.Line(a.Attempt), a.Level, a.Entry)
	if a.Reason != "" {
		fmt.Fprintf(out, "reason   %s\n", plain.Line(a.Reason))
	}
	if len(a.FailureModes) > 0 {
		fmt.Fprintf(out, "modes    %s\n", plain.Line(strings.Join(a.FailureModes, ", ")))
	}
	printChecks(out, a.Checks)
	for line := range strings.Lines(a.RubricSaid) {
		fmt.Fprintf(out, "rubric   %s\n", plain.Line(strings.TrimSuffix(line, "\n")))
	}
	if m := a.Amendment; m != nil {
		word, counts := "failed", ""
		if m.Passed {
			word = "passed"
		}
		if m.Raises {
			counts = "; it is more than the record has, so it does not count"
		}
		fmt.Fprintf(out, "amended  by %s to %s with score %v: %s%s\n", plain.Line(m.Author), word, m.Score, plain.Line(m.Reason), counts)
		printChecks(out, m.Checks)
	}
	if a.Missing != "" {
		fmt.Fprintf(out, "evidence could not be read: %s\n", plain.Line(a.Missing))
	}
	if a.Divergence != "" {
		fmt.Fprintln(out, "parted   first here:")
		for line := range strings.Lines(a.Divergence) {
			fmt.Fprintf(out, "  %s\n", plain.Line(strings.TrimRight(line, "\n")))
		}
	}
	switch {
	case a.LastPassed != "" && len(a.Changed) == 0:
		fmt.Fprintf(out, "since    %s, when it last passed, nothing that is recorded has changed\n", plain.Line(a.LastPassed))
	case a.LastPassed != "":
		fmt.Fprintf(out, "since    %s, when it last passed, these have changed:\n", plain.Line(a.LastPassed))
		for _, c := range a.Changed {
			fmt.Fprintf(out, "  %s: %s, now %s\n", c.What, plain.Line(c.Was), plain.Line(c.Now))
		}
	}
}

// printChecks shows what each check compared with what.
func printChecks(out io.Writer, checks []grade.Detail) {
	for _, c := range checks {
		fmt.Fprintf(out, "check    %s %s: %s\n", plain.Line(strings.TrimSpace(c.Check+" "+string(c.Grader))), c.Outcome, plain.Line(c.Why))
		if c.Extracted != nil {
			fmt.Fprintf(out, "  got    %s\n", plain.Line(short(c.Extracted.Head)))
		}
		if c.Missing != "" {
			fmt.Fprintf(out, "  got    nothing: %s\n", plain.Line(c.Missing))
		}
		if c.Expected != nil {
			fmt.Fprintf(out, "  want   %s\n", plain.Line(short(c.Expected.Head)))
		}
	}
}
