package cli

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"tallystick/internal/read/answer"
	"tallystick/internal/read/gate"
	"tallystick/internal/read/history"
	"tallystick/internal/read/recount"
	"tallystick/internal/read/scorecard"
	"tallystick/internal/record/plain"
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
	if o.baseline != "" && decision.Unanswered == 0 {
		compared = r.compare(d, a)
	}
	if err := answer.WriteReports(d, answer.Decided{Decision: decision, Refused: refused, Level: level}, r.files(attempt, a)); err != nil {
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
	return answer.ReportFiles{JUnit: o.junit, TAP: o.tap, Markdown: o.markdown}
}

// files are where the reports of an attempt go: of several targets each has its
// own, with the target's name before the ending.
func (r *runner) files(a *history.Attempt, said *recount.Run) answer.ReportFiles {
	f := r.o.files()
	if r.several {
		f.JUnit, f.TAP, f.Markdown = named(f.JUnit, a.Target), named(f.TAP, a.Target), named(f.Markdown, a.Target)
	}
	f.Cost, f.Comparison = said.Cost, said.Comparison
	return f
}

func named(file, target string) string {
	if file == "" {
		return ""
	}
	ending := filepath.Ext(file)
	return strings.TrimSuffix(file, ending) + "." + bench.TargetFolder(target) + ending
}
