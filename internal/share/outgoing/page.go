package outgoing

import (
	"fmt"

	"tallystick/internal/read/dossier"
	"tallystick/internal/read/gate"
	"tallystick/internal/read/history"
	"tallystick/internal/read/scorecard"
	"tallystick/internal/record/evidence"
	"tallystick/internal/share/browser/report"
)

// Bounds of a report. What does not fit is left out, what passed first, and counted.
const (
	maxReportRecords  = 5000
	maxReportEvidence = 16 << 20 // a page shows it besides, so a file is about twice as long
)

// A ReportPage is the page of an attempt, how many records it shows, and the ledger's key
// that it can be checked with.
type ReportPage struct {
	HTML  []byte
	Cases int
	Key   string
}

// Report verifies the ledger and makes the page of an attempt.
func Report(p *dossier.Place, ask ExportAsk) (*ReportPage, *dossier.Dossier, error) {
	found, err := p.ReadAttempt(ask.Attempt, dossier.Ask{Prove: true, ShowHeldOut: ask.ShowHeldOut})
	if err != nil {
		return nil, nil, err
	}
	if err := scorecard.RequireAnswered(found.Attempt); err != nil {
		return nil, nil, err
	}
	data, err := pageOf(found.Public(), ask.Glob)
	if err != nil {
		return nil, nil, err
	}
	if err := decideIn(data, found); err != nil {
		return nil, nil, err
	}
	page, err := report.Render(data)
	return &ReportPage{page, len(data.Cases), data.Key}, found, err
}

// pageOf gathers the cases whose id matches glob, or all if that is "", what failed
// before what passed.
func pageOf(a *dossier.Public, glob string) (*report.Data, error) {
	cases, err := reportOrder(a, glob)
	if err != nil {
		return nil, err
	}
	if len(cases) == 0 {
		return nil, NoCase(a.ID, glob)
	}
	d := &report.Data{Format: report.Format, Renderer: report.Renderer(), Attempt: a.ID, Examples: a.Level == history.Example, Cases: []report.Evidence{}}
	left := maxReportEvidence
	for _, c := range cases {
		one, err := evidenceOf(c, &left)
		if err != nil {
			return nil, fmt.Errorf("case %s: %w", c.ID, err)
		}
		d.Cases = append(d.Cases, one)
	}
	return d, prove(d, a, cases)
}

// decideIn gives a report the registration that its verdict is computed from. A verdict
// that the workspace decides otherwise, as where a filter selected every case, is not
// told: a report never says what "tally gate" does not.
func decideIn(d *report.Data, a *dossier.Dossier) error {
	decision, err := gate.Of(a)
	if err != nil {
		return err
	}
	if decision.By != gate.ByNothing { // else the bench is another one now, or there is nothing to decide
		registration, err := a.Public().Registration()
		if err != nil {
			return err
		}
		d.Registration = string(registration)
	}
	told, err := d.Verdict()
	if err != nil {
		return err
	}
	d.Elsewhere = told.State != report.NotTold && told.State != string(decision.State())
	return nil
}

// reportOrder lists the cases that have a record, what failed first, as many as fit.
func reportOrder(a *dossier.Public, glob string) ([]*dossier.PublicCase, error) {
	byOutcome := map[evidence.Outcome][]*history.Case{}
	for c := range matching(a, glob) {
		if c.Index >= 0 {
			byOutcome[c.Outcome()] = append(byOutcome[c.Outcome()], c)
		}
	}
	var all []*history.Case
	for _, o := range []evidence.Outcome{evidence.Failed, evidence.Errored, evidence.Truncated, evidence.Unscored, evidence.Skipped, evidence.Passed} {
		all = append(all, byOutcome[o]...)
	}
	all = all[:min(len(all), maxReportRecords)]
	var kept []*dossier.PublicCase
	for _, record := range all {
		c, err := a.Case(record)
		if err != nil {
			return nil, err
		}
		if c.MayProve() {
			kept = append(kept, c)
		}
	}
	return kept, nil
}

func evidenceOf(c *dossier.PublicCase, left *int) (report.Evidence, error) {
	one := report.Evidence{Entry: c.Index}
	switch {
	case c.IsHidden():
		one.Without = report.HeldOut
		return one, nil
	case len(c.Evidence) == 0:
		one.Without = report.NotNamed
		return one, nil
	}
	// Verified as a trajectory, so that no page shows what the record does not name.
	all, err := c.Originals()
	if err != nil {
		return one, err
	}
	size := len(all.Index) + len(all.Trajectory) + len(all.Grading)
	if size > *left {
		one.Without = report.TooLong
		return one, nil
	}
	*left -= size
	one.Index, one.Trajectory, one.Grading = string(all.Index), string(all.Trajectory), string(all.Grading)
	return one, nil
}

// prove proves the entries of a report: registration, the newest registration
// of the class, totals, records, and what was set beside these.
func prove(d *report.Data, a *dossier.Public, cases []*dossier.PublicCase) error {
	order := []int64{a.Index}
	newest := a.Attempt
	for _, other := range a.History().Attempts {
		if other.Class == a.Class && other.Index > newest.Index {
			newest = other
		}
	}
	if newest != a.Attempt {
		order = append(order, newest.Index)
	}
	if a.Finished != nil {
		order = append(order, a.Finished.Index)
	}
	for _, c := range cases {
		order = append(order, c.Index)
	}
	for _, c := range cases {
		if !c.IsHidden() { // a reason may tell what the case asks
			order = append(order, c.BesideEntries()...)
		}
	}
	proofs, key, err := a.Prove(order...)
	if err != nil {
		return err
	}
	d.Key = key
	for _, i := range order {
		x := proofs[i].Receipt()
		x.Entry = nil // it stands beside the receipt, once
		data, err := x.Marshal()
		if err != nil {
			return err
		}
		d.Entries = append(d.Entries, report.Entry{Index: i, Entry: string(proofs[i].Raw), Receipt: string(data)})
	}
	return nil
}
