package cli

import (
	"os"

	"tallystick/internal/read/dossier"
	"tallystick/internal/read/history"
	"tallystick/internal/read/recount"
	"tallystick/internal/read/scorecard"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/workspace"
)

// maxParted bounds how many flipped cases are looked into: each takes two trajectories.
const (
	maxParted          = 20
	maxPartedInComment = 200 // there they are grouped by cause
)

// isFolder reports whether a baseline is the folder of another workspace and not an
// attempt of this one.
func isFolder(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// baselineName is an attempt, or a folder that another job left.
func (r *resolver) baseline(flag, text string) (string, error) {
	if isFolder(text) {
		return text, nil
	}
	return r.attempt(flag, text)
}

// baseline finds the attempt to compare with: one of this ledger; or of a folder the
// newest of the class by the target, whose ledger and evidence verify like every other's.
// Which key sealed it is for the reader to know: the comparison names the ledger.
func (r *runner) baseline(class, target string) (*dossier.Dossier, error) {
	name := r.o.baseline
	if !isFolder(name) {
		return r.reading.Attempt(name)
	}
	place, err := dossier.Open(name, worldOf(r.env))
	if err != nil {
		return nil, err
	}
	if !workspace.Exists(place.LedgerDir()) {
		return nil, refusal.Newf(refusal.NotFound, "--baseline %s: the folder has tally.yaml and no ledger", name).
			WithHint("give the folder in which the base was run, with its .tally/ledger and .tally/evidence; docs/ci.md says what a job passes on")
	}
	found, err := place.Read(dossier.Ask{Again: true, ShowHeldOut: r.o.spec.ShowHeldOut, Want: func(a *history.Attempt) bool { return a.Class == class }})
	if err != nil {
		return nil, err
	}
	a, err := found.History.Find("latest", history.Scope{Class: class, Target: target})
	if err != nil {
		return nil, refusal.Newf(refusal.UnknownName, "--baseline %s: %w", name, err).
			WithHint("run class %s by target %s there first", class, target)
	}
	return found.Attempt(a.ID)
}

// compare sets the run beside an earlier one.
func (r *runner) compare(attempt *dossier.Dossier, a *recount.Run) error {
	baseline, err := r.baseline(attempt.Class, attempt.Target)
	if err != nil {
		return err
	}
	o := scorecard.CompareOptions{MaxDivergences: maxParted}
	if r.o.markdown != "" {
		o.MaxDivergences = maxPartedInComment
	}
	o.Divergence, o.Moves = attempt.PartingFrom(baseline)
	c, err := scorecard.Compare(baseline.Attempt, attempt.Attempt, o)
	if refusal.Is(err, refusal.NotComparable) {
		hint := `their cases or rubric differ; "tally compare ` + baseline.ID + " " + attempt.ID + ` --across-benches" compares the cases that are the same`
		if isFolder(r.o.baseline) {
			hint = "their cases or rubric differ; run the class as it is now on the base commit too"
		}
		return refusal.Newf(refusal.NotComparable, "%w", err).WithHint("%s", hint)
	}
	if err != nil {
		return attempt.Reading().Refused(err)
	}
	if isFolder(r.o.baseline) {
		line := baseline.Reading().History.Line()
		c.BaselineLedger = &line
	}
	a.Comparison = c
	return nil
}
