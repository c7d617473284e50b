package viewer

import (
	"cmp"
	"html/template"
	"net/http"
	"slices"

	"tallystick/internal/app/lab"
	"tallystick/internal/read/history"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/judge"
)

type judgesData struct {
	Verdicts []judge.Listed
	Total    int
	Split    int // verdicts whose votes are not all the same
	Unused   int
	None     bool // no judge was ever asked live on this machine, so it keeps no verdict
	Attempts []*history.Attempt
	Judged   []*lab.JudgedSummary // the newest attempts that a model judged
	Pager    pager

	Calibrations []calibrated
	Members      template.HTML // how far the judges of panels lie apart
	Spread       template.HTML // how far the votes of one verdict do
}

func (v *Viewer) judges(req *http.Request) (*page, error) {
	data := &judgesData{}
	for _, a := range slices.Backward(v.r.History.Attempts) {
		if a.Draws > 0 && len(data.Attempts) < attemptsOnPage {
			data.Attempts = append(data.Attempts, a)
		}
	}
	if err := v.judgedAttempts(data); err != nil {
		return nil, err
	}
	var err error
	if data.Calibrations, err = v.calibrations(); err != nil {
		return nil, err
	}
	data.Members = judgeSpread(data.Judged)
	list, err := verdicts(v)
	if err != nil && !refusal.Is(err, refusal.NotFound) {
		return nil, err
	}
	data.None = err != nil
	for _, l := range list {
		if l.Spread != nil && *l.Spread > 0 {
			data.Split++
		}
		if l.State != "hit" {
			data.Unused++
		}
	}
	// Those that the votes disagree about most come first.
	slices.SortStableFunc(list, func(a, b judge.Listed) int { return cmp.Compare(spread(b), spread(a)) })
	data.Total, data.Spread = len(list), voteSpread(list)
	data.Pager = newPager(req.URL.Query(), len(list), rowsOnPage)
	data.Verdicts = list[data.Pager.from:data.Pager.to]
	return &page{Title: "Judges", Template: "judges", Section: "Judges", Data: data,
		Next: []command{{What: "The same in the terminal", Line: "tally judges list"}, {What: "Which judge it is", Line: "tally judges digest"}}}, nil
}

// Bounds of what is read for a page: the evidence of every case of an attempt.
const (
	judgedOnPage    = 10
	judgedCasesMost = 2000
)

// judgedAttempts sums up what the judges of the newest attempts said.
func (v *Viewer) judgedAttempts(data *judgesData) error {
	cases := 0
	for _, a := range slices.Backward(v.r.History.Attempts) {
		if a.Plan.JudgeDigest == nil || !a.Kept {
			continue
		}
		if cases += a.Records; len(data.Judged) == judgedOnPage || cases > judgedCasesMost {
			return nil
		}
		j, err := lab.Judged(v.r.Dossier(a))
		if err != nil {
			return err
		}
		if j != nil {
			data.Judged = append(data.Judged, j)
		}
	}
	return nil
}

func verdicts(v *Viewer) ([]judge.Listed, error) {
	cache, err := lab.JudgeCache(v.config.Place)
	if err != nil {
		return nil, err
	}
	return cache.List()
}

func spread(l judge.Listed) float64 {
	if l.Spread == nil {
		return 2 // it cannot be used at all
	}
	return *l.Spread
}
