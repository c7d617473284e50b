package lab

import (
	"cmp"
	"slices"

	"tallystick/internal/read/dossier"
	"tallystick/internal/read/history"
	"tallystick/internal/record/cost"
	"tallystick/internal/run/grade"
	"tallystick/internal/run/judge"
)

// A JudgedSummary is what models said in an attempt, taken together.
type JudgedSummary struct {
	Attempt string `json:"attempt"`
	// Standing says whether the judge was compared with people: calibrated, stale or
	// not_calibrated; "" of an attempt from before there were calibrations.
	Standing    history.JudgeState `json:"calibration,omitempty"`
	Calibration string             `json:"calibration_text,omitempty"`

	Checks   int `json:"checks"`   // that a model judged
	Unscored int `json:"unscored"` // of them
	// Compared counts comparisons of two answers in both orders; First and Second
	// those in which the same place was preferred in both.
	Compared int `json:"compared"`
	First    int `json:"preferred_first"`
	Second   int `json:"preferred_second"`
	// Panels counts checks by a panel with a result; Differ is the mean share of
	// pairs of judges that differ, Range the largest range of scores.
	Panels int     `json:"panels"`
	Differ float64 `json:"panel_differ"`
	Range  float64 `json:"panel_range"`

	// Votes counts verdicts with several votes; Split those whose votes differ, and
	// Spread is the largest distance between two votes of one.
	Votes  int     `json:"voted"`
	Split  int     `json:"split"`
	Spread float64 `json:"spread"`
	// CostMicroUSD is what the calls cost whose price was known, when they were made;
	// Unpriced counts the others.
	CostMicroUSD int64 `json:"cost_microdollars"`
	Unpriced     int   `json:"unpriced"`

	Members []JudgedMember `json:"members"`
	// LeftOut counts cases whose evidence is not at hand.
	LeftOut int `json:"left_out"`
}

// A JudgedMember is what one judge of the panels said.
type JudgedMember struct {
	Judge    string  `json:"judge"`
	Verdicts int     `json:"verdicts"`
	Unscored int     `json:"unscored"`
	Mean     float64 `json:"mean_score"`
}

// Judged sums up what models said in an attempt that was read with its records. It
// is nil if no model judged.
func Judged(a *dossier.Dossier) (*JudgedSummary, error) {
	out := &JudgedSummary{Attempt: a.ID, Members: []JudgedMember{}}
	if s := a.Judge(); s != nil {
		out.Standing, out.Calibration = s.State, s.Text()
	}
	judged := false
	for c := range a.Cases() {
		if c.Index < 0 || !c.Context.JudgedByModel {
			continue
		}
		checks, err := c.Checks()
		if err != nil {
			out.LeftOut++
			judged = true
			continue
		}
		for i := range checks {
			if grade.IsJudged(checks[i].Grader) { // vectors are a model's too, and no verdict
				judged = true
				out.add(&checks[i])
			}
		}
		if out.pay(a.Reading(), c) != nil {
			out.LeftOut++
		}
	}
	if !judged {
		return nil, nil
	}
	if out.Panels > 0 {
		out.Differ /= float64(out.Panels)
	}
	for i := range out.Members {
		if m := &out.Members[i]; m.Verdicts > 0 {
			m.Mean /= float64(m.Verdicts)
		}
	}
	slices.SortFunc(out.Members, func(x, y JudgedMember) int { return cmp.Compare(x.Judge, y.Judge) })
	return out, nil
}

func (j *JudgedSummary) add(d *grade.Detail) {
	j.Checks++
	if d.Outcome == grade.Unscored {
		j.Unscored++
	}
	j.position(d.Position)
	j.votes(d.Votes)
	if d.Panel == nil {
		return
	}
	if d.Panel.Differ != nil && d.Panel.Range != nil {
		j.Panels++
		j.Differ += *d.Panel.Differ
		j.Range = max(j.Range, *d.Panel.Range)
	}
	for i := range d.Panel.Members {
		m := &d.Panel.Members[i]
		j.position(m.Position)
		j.votes(m.Votes)
		at := slices.IndexFunc(j.Members, func(x JudgedMember) bool { return x.Judge == m.Judge })
		if at < 0 {
			at = len(j.Members)
			j.Members = append(j.Members, JudgedMember{Judge: m.Judge})
		}
		if m.Score == nil {
			j.Members[at].Unscored++
			continue
		}
		j.Members[at].Verdicts++
		j.Members[at].Mean += *m.Score
	}
}

func (j *JudgedSummary) position(p *grade.Position) {
	if p != nil {
		j.Compared, j.First, j.Second = j.Compared+p.Of, j.First+p.First, j.Second+p.Second
	}
}

func (j *JudgedSummary) votes(votes []float64) {
	if len(votes) < 2 {
		return
	}
	j.Votes++
	if spread := slices.Max(votes) - slices.Min(votes); spread > 0 {
		j.Split++
		j.Spread = max(j.Spread, spread)
	}
}

// Cost is what the calls cost.
func (j *JudgedSummary) Cost() cost.Cost { return cost.Of(j.CostMicroUSD, int64(j.Unpriced)) }

// pay adds what the verdicts of a case cost, from their documents.
func (j *JudgedSummary) pay(r *dossier.Reading, c *dossier.Case) error {
	files, err := c.Files()
	if err != nil {
		return err
	}
	for _, v := range files.Verdicts {
		data, err := r.Piece(v.Document)
		if err != nil {
			return err
		}
		d, err := judge.ParseDocument(data)
		if err != nil {
			return err
		}
		j.CostMicroUSD += d.CostMicroUSD
		j.Unpriced += d.Unpriced
	}
	return nil
}
