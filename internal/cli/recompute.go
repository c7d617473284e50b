package cli

import (
	"errors"
	"io/fs"

	"tallystick/internal/scorecard"
	"tallystick/internal/store"
)

// maxRunFile bounds the kept answer of a run, which has a line for each case
// that failed at most.
const maxRunFile = 256 << 20

// recomputeAnswer says what came of counting everything again.
type recomputeAnswer struct {
	Attempts int `json:"attempts"`
	scorecard.Recomputed
}

// recomputeAll counts every attempt of the workspace again: from the records of
// its verified ledger, from their evidence, and compares with the totals in the
// ledger and with the kept answers of the runs. The error is a refusal if a
// number differs; the answer is there all the same.
func (e *Env) recomputeAll() (*recomputeAnswer, error) {
	p, err := e.readPast(nil)
	if err != nil {
		return nil, err
	}
	all := &recomputeAnswer{Recomputed: scorecard.Recomputed{Differences: []scorecard.Difference{}, Unchecked: []string{}}}
	for _, a := range p.history.Attempts {
		name := p.w.Private("runs", a.ID+".json")
		saved, err := store.ReadFile(store.OS{}, name, maxRunFile)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		r, err := scorecard.Recompute(p.history, a, scorecard.RecomputeOptions{Read: p.read, Saved: saved, SavedName: name, Evidence: p.evidence})
		if err != nil {
			return nil, err
		}
		all.Attempts++
		all.Checked += r.Checked
		all.Differences = append(all.Differences, r.Differences...)
		all.Unchecked = append(all.Unchecked, r.Unchecked...)
	}
	if err := all.Err(); err != nil {
		return all, e.alarm(p.w, err)
	}
	return all, nil
}
