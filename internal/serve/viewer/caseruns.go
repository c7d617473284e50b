package viewer

import (
	"slices"

	"tallystick/internal/read/dossier"
	"tallystick/internal/read/history"
)

// A caseRun is one run of a case, in its history.
type caseRun struct {
	*history.Case
	Attempt *history.Attempt
	Record  *entry // nil if it was not run
	URL     string
	Here    bool
	Version string // of the target: the beginning of its digest
	Changed bool   // the target is another than in the run listed below
}

// maxRuns bounds the history of a case.
const maxRuns = 200

// runsOf lists the runs of a case in all attempts of its class, the newest first.
func (v *Viewer) runsOf(c *dossier.Case) ([]caseRun, int, error) {
	var runs []caseRun
	var indexes []int64
	left := 0
	for _, a := range slices.Backward(v.r.History.Attempts) {
		if a.Class != c.Dossier().Class {
			continue
		}
		for x := range a.Cases() {
			if x.ID != c.ID || x.Index < 0 {
				continue
			}
			if len(runs) == maxRuns {
				left++
				continue
			}
			runs = append(runs, caseRun{Case: x, Attempt: a, URL: caseURL(a.ID, x.ID, int(x.Repeat)), Here: x.Index == c.Index, Version: short(a.Plan.TargetDigest)})
			indexes = append(indexes, x.Index)
		}
	}
	entries, err := v.entries(indexes...)
	if err != nil {
		return nil, 0, err
	}
	for i := range runs {
		runs[i].Record = entries[runs[i].Index]
		for _, older := range runs[i+1:] {
			if older.Attempt.Target == runs[i].Attempt.Target && older.Attempt != runs[i].Attempt {
				runs[i].Changed = older.Version != runs[i].Version
				break
			}
		}
	}
	return runs, left, nil
}

// around are the cases before and after one, in the order of its attempt's page.
func (v *Viewer) around(c *dossier.Case) (before, after *link, err error) {
	a := c.Dossier().Attempt
	order, err := remembered(v, "order "+a.ID, func() ([]placed, error) {
		nothingHidden := func(*history.Case) bool { return false } // nothing is searched for
		return slices.DeleteFunc(caseFilter{}.choose(a, nothingHidden, nil), func(x placed) bool { return x.Index < 0 }), nil
	})
	if err != nil {
		return nil, nil, err
	}
	i := slices.IndexFunc(order, func(x placed) bool { return x.Index == c.Index })
	to := func(i int) *link {
		if i < 0 || i >= len(order) {
			return nil
		}
		return &link{Text: order[i].ID, URL: caseURL(a.ID, order[i].ID, int(order[i].Repeat))}
	}
	if i < 0 {
		return nil, nil, nil
	}
	return to(i - 1), to(i + 1), nil
}
