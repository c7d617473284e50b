package cli

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"tallystick/internal/read/answer"
	"tallystick/internal/read/dossier"
	"tallystick/internal/read/gate"
	"tallystick/internal/read/history"
	"tallystick/internal/read/recount"
	"tallystick/internal/read/scorecard"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/bench"
)

// report reads the attempt back from the verified ledger: its level, its
// scorecard and its gates come from there and not from what the run remembers.
// It returns the refusal of gates that are not met.
func (r *runner) report(a *recount.Run) error {
	o := r.o
	past := r.reading
	if err := past.Refresh(); err != nil {
		return err
	}
	d, err := past.Attempt(a.Attempt.ID)
	if err != nil {
		return err
	}
	attempt := d.Attempt
	a.Attempt = recount.RunLineOf(attempt)
	a.TellGAIA(attempt)
	if err := a.TellSubmittable(attempt, past.Piece); err != nil {
		return past.Refused(err)
	}
	a.Mixed = recount.MixedOf(attempt)
	// An attempt that was not answered has no score, so it has no scorecard.
	if attempt.Unanswered() == 0 {
		if a.Scorecard, err = scorecard.Of(past.History, scorecard.View{Attempts: []*history.Attempt{attempt}}); err != nil {
			return past.Refused(err)
		}
	}
	in, err := gate.NewInput(r.bench, d)
	if err != nil {
		return err
	}
	decision, err := gate.Decide(in)
	if err != nil {
		return err
	}
	if a.Finished {
		a.Decision, a.Gate = decision, recount.NewRunGates(decision)
	}
	level := past.RequireProperties(o.required, attempt)
	refused := cmp.Or(level, decision.Err(attempt))
	// A comparison that cannot be made must not hide a gate that is not met.
	var compared error
	if o.baseline != "" {
		compared = r.compare(d, a, decision)
	}
	if err := answer.WriteReports(d, answer.Decided{Decision: decision, Refused: refused, Level: level}, r.files(attempt)); err != nil {
		return err
	}
	if !a.Finished && level == nil {
		refused = nil // what stopped the run is said
	}
	if refused != nil && compared != nil {
		r.env.Note("no comparison: %v", compared)
	}
	return cmp.Or(refused, compared)
}

// compare sets the run beside an earlier one.
func (r *runner) compare(attempt *dossier.Dossier, a *recount.Run, decision *gate.Decision) error {
	past := attempt.Reading()
	baseline, err := past.Attempt(r.o.baseline)
	if err != nil {
		return err
	}
	o := scorecard.CompareOptions{MaxDivergences: 20}
	o.Divergence, o.Moves = attempt.PartingFrom(baseline)
	if decision.Unanswered > 0 {
		return r.writeMarkdown(attempt, unansweredMarkdown(attempt.ID, decision))
	}
	c, err := scorecard.Compare(baseline.Attempt, attempt.Attempt, o)
	if refusal.Is(err, refusal.NotComparable) {
		return refusal.Newf(refusal.NotComparable, "%w", err).
			WithHint(`their cases or rubric differ; "tally compare %s %s --across-benches" compares the cases that are the same`, baseline.ID, attempt.ID)
	}
	if err != nil {
		return past.Refused(err)
	}
	a.Comparison = c
	return r.writeMarkdown(attempt, comparisonMarkdown(c, decision))
}

func (r *runner) writeMarkdown(attempt *dossier.Dossier, text []byte) error {
	file := r.o.markdown
	if file == "" {
		return nil
	}
	if r.several {
		file = named(file, attempt.Target)
	}
	return dossier.WriteOutput(file, text)
}

// unansweredMarkdown is what a pull request is told of an attempt that has no score.
func unansweredMarkdown(id string, decision *gate.Decision) []byte {
	return fmt.Appendf(nil, "### %s\n\n**Gate %s**: %s\n\nThere is no score and no comparison before these cases are recorded.\n", markdownText(id), decision.State(), markdownText(decision.Reason))
}

// comparisonMarkdown is a comparison for a pull request: what was decided about the
// newer attempt, then what changed.
func comparisonMarkdown(c *scorecard.Comparison, decision *gate.Decision) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "### %s against %s\n\n", markdownText(c.B.ID), markdownText(c.A.ID))
	fmt.Fprintf(&b, "**Gate %s**: %s\n\n", decision.State(), markdownText(decision.Reason))
	for _, r := range decision.Results {
		fmt.Fprintf(&b, "- %s: %s\n", r.Word(), markdownText(r.Text()))
	}
	b.WriteString("\n")
	fmt.Fprintf(&b, "| | %s (%s) | %s (%s) | change |\n|---|---|---|---|\n", markdownText(c.A.ID), c.A.Level, markdownText(c.B.ID), c.B.Level)
	if s := c.Scores; s != nil {
		fmt.Fprintf(&b, "| mean score | %s | %s | %+.4f [%+.4f, %+.4f] |\n", plain.Score(s.Mean.A, 4), plain.Score(s.Mean.B, 4), s.Mean.Change, s.ChangeCI95[0], s.ChangeCI95[1])
	}
	fmt.Fprintf(&b, "| solve rate | %s | %s | %+.4f [%+.4f, %+.4f] |\n", plain.Score(c.SolveRate.A, 4), plain.Score(c.SolveRate.B, 4), c.Difference, c.DifferenceCI95[0], c.DifferenceCI95[1])
	fmt.Fprintf(&b, "| cost | %s | %s | %s |\n", c.Cost.A, c.Cost.B, c.Cost.Change)
	fmt.Fprintf(&b, "| tokens | %d | %d | %+d |\n", c.Tokens.A, c.Tokens.B, c.Tokens.Change)
	fmt.Fprintf(&b, "| median latency | %d ms | %d ms | %+d ms |\n\n", c.Latency.A, c.Latency.B, c.Latency.Change)
	fmt.Fprintf(&b, "%s\n", compareHeadline(c))
	if c.ThresholdsChanged {
		fmt.Fprintf(&b, "\n%s\n", thresholdsChanged)
	}
	for _, side := range []scorecard.AttemptLine{c.A, c.B} {
		for _, q := range side.Qualifications {
			if q.Name == history.QualScratch {
				continue // the table's head has the level
			}
			fmt.Fprintf(&b, "\n- %s: %s\n", markdownText(side.ID), markdownText(q.Text))
		}
	}
	for _, x := range c.Corrected {
		fmt.Fprintf(&b, "\n- corrected, and the table is as recorded: %s\n", markdownText(x.Text()))
	}
	for _, x := range c.Cases {
		fmt.Fprintf(&b, "\n- **%s** %s: %s to %s\n", x.Change, markdownText(x.CaseID), markdownText(sideText(x.A)), markdownText(sideText(x.B)))
		if x.Moves != "" || x.Divergence != "" {
			b.WriteString("\n")
			for line := range strings.Lines(cmp.Or(x.Moves, x.Divergence)) {
				// Indented code: nothing in it is read as Markdown or HTML.
				fmt.Fprintf(&b, "      %s\n", plain.Line(strings.TrimRight(line, "\n")))
			}
		}
	}
	return b.Bytes()
}

// markdownText makes a text from a record safe in a line or a table of
// Markdown: the agent may have had a hand in it.
func markdownText(s string) string {
	var b strings.Builder
	for _, c := range plain.Line(s) {
		if strings.ContainsRune("\\`*_{}[]<>()#+-.!|~@&:", c) && !(c == '-' || c == '.' || c == '_') {
			b.WriteByte('\\')
		}
		b.WriteRune(c)
	}
	return b.String()
}

// decisionText prints what was decided, a line for each gate. What is asked besides the
// gates of a class has a name of its own: it is not a gate, and may pass where none is
// met.
func decisionText(out io.Writer, d *gate.Decision) {
	if d == nil {
		return
	}
	for _, x := range d.Results {
		label, text := "gate", x.Text()
		switch x.Metric {
		case gate.Selection:
			label, text = "selected", x.Reason
		case gate.Question:
			label, text = "question", x.Reason
		}
		fmt.Fprintf(out, "%-8s %s: %s\n", label, stateText(x), plain.Line(text))
	}
}

func (o *runOptions) files() answer.ReportFiles {
	return answer.ReportFiles{JUnit: o.junit, TAP: o.tap}
}

// files are where the reports of an attempt go: of several targets each has its
// own, with the target's name before the ending.
func (r *runner) files(a *history.Attempt) answer.ReportFiles {
	f := r.o.files()
	if r.several {
		f.JUnit, f.TAP = named(f.JUnit, a.Target), named(f.TAP, a.Target)
	}
	return f
}

func named(file, target string) string {
	if file == "" {
		return ""
	}
	ending := filepath.Ext(file)
	return strings.TrimSuffix(file, ending) + "." + bench.TargetFolder(target) + ending
}
