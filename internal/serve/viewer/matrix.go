package viewer

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"tallystick/internal/read/history"
	"tallystick/internal/read/scorecard"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
)

type matrixData struct {
	Class    string
	Classes  []string
	Columns  []scorecard.MatrixTarget
	Rows     []matrixRow
	Pairs    []scorecard.MatrixPair
	Pager    pager
	Only     bool // only cases that did not end alike
	OnlyURL  string
	AllURL   string
	Attempts []matrixChoice
	TooMany  bool
	Apart    bool // the columns are of benches that differ
}

// A matrixChoice is an attempt that could be a column.
type matrixChoice struct {
	ID     string
	Chosen bool
}

type matrixRow struct {
	Case  string
	Cells []matrixCell
}

type matrixCell struct {
	scorecard.MatrixCell
	Has       bool
	Text, URL string
	// Entry, Field and As say where the text stands; Field is "" if it is computed, as of
	// cases that ran several times.
	Entry int64
	Field string
	As    Format
}

// maxColumns bounds the attempts of a matrix, and columnsAtFirst those that it
// begins with; maxChoices those that are offered.
const (
	maxColumns     = 12
	columnsAtFirst = 5
	maxChoices     = 30
)

func (v *Viewer) matrix(req *http.Request) (*page, error) {
	q := req.URL.Query()
	data := &matrixData{Class: q.Get("class"), Only: q.Get("show") == "different", OnlyURL: with(q, "show", "different", "page", ""), AllURL: with(q, "show", "", "page", "")}
	for _, a := range v.r.History.Attempts {
		data.Classes = append(data.Classes, a.Class)
	}
	data.Classes = names(data.Classes)
	if data.Class == "" && len(data.Classes) > 0 {
		data.Class = v.r.History.Attempts[len(v.r.History.Attempts)-1].Class
	}
	chosen, err := v.columns(data, q["attempt"])
	if err != nil {
		return nil, err
	}
	if err := v.fillMatrix(data, chosen, q); err != nil {
		return nil, err
	}
	words := []string{"tally", "compare"}
	for _, a := range chosen[max(0, len(chosen)-2):] {
		words = append(words, a.ID)
	}
	p := &page{Title: "Matrix", Template: "matrix", Section: "Matrix", Data: data}
	if len(words) == 4 {
		p.Next = []command{{What: "The last two, case by case", Line: shell(words...)}}
	}
	if data.Class != "" {
		p.Next = append(p.Next, command{What: "Run several targets side by side", Line: shell("tally", "run", data.Class, "--target", "A", "--target", "B")})
	}
	return p, nil
}

// columns chooses the attempts: those that were asked for, or the newest of the
// class.
func (v *Viewer) columns(data *matrixData, asked []string) ([]*history.Attempt, error) {
	var chosen []*history.Attempt
	for _, id := range asked[:min(len(asked), maxColumns)] {
		a, err := v.attemptNamed(id)
		if err != nil {
			return nil, err
		}
		chosen = append(chosen, a)
	}
	for _, a := range slices.Backward(v.r.History.Attempts) {
		if a.Class != data.Class || len(data.Attempts) == maxChoices {
			continue
		}
		if len(asked) == 0 && len(chosen) < columnsAtFirst {
			chosen = append(chosen, a)
		}
		data.Attempts = append(data.Attempts, matrixChoice{a.ID, slices.Contains(chosen, a)})
	}
	slices.SortFunc(chosen, func(a, b *history.Attempt) int { return int(a.Index - b.Index) })
	return slices.Compact(chosen), nil
}

// maxMatrixTasks bounds the tasks of a matrix, which is made in memory.
const maxMatrixTasks = 40_000

func (v *Viewer) fillMatrix(data *matrixData, chosen []*history.Attempt, q url.Values) error {
	tasks := 0
	for _, a := range chosen {
		tasks += a.Tasks()
	}
	if data.TooMany = tasks > maxMatrixTasks; data.TooMany {
		return nil
	}
	var entries []scorecard.MatrixEntry
	for _, a := range chosen {
		card, err := scorecard.Of(v.r.History, scorecard.View{Attempts: []*history.Attempt{a}})
		if err != nil {
			return err
		}
		entries = append(entries, scorecard.MatrixEntry{Target: a.ID, Attempt: a, Card: card})
	}
	if len(entries) == 0 {
		return nil
	}
	m, err := scorecard.MatrixOf(entries)
	if refusal.Is(err, refusal.NotComparable) {
		m, data.Apart, err = scorecard.GridOf(entries), true, nil
	}
	if err != nil {
		return err
	}
	data.Columns, data.Pairs = m.Targets, m.Pairs
	cases := m.Cases
	if data.Only {
		cases = slices.DeleteFunc(slices.Clone(cases), func(c scorecard.MatrixRow) bool { return alike(c, len(m.Targets)) })
	}
	data.Pager = newPager(q, len(cases), rowsOnPage)
	records := recordsOf(chosen)
	for _, c := range cases[data.Pager.from:data.Pager.to] {
		row := matrixRow{Case: c.Case}
		for _, t := range m.Targets {
			cell, has := c.Results[t.Target]
			x := matrixCell{MatrixCell: cell, Has: has, URL: caseURL(t.Attempt, c.Case, 1)}
			if x.Text = OutcomeName(cell.Outcome); cell.Of > 1 {
				x.Text = strconv.Itoa(cell.Passed) + " of " + strconv.Itoa(cell.Of)
			} else if cell.Score != nil && cell.Outcome == evidence.Failed && *cell.Score > 0 {
				x.Text = Number(*cell.Score)
			}
			x.name(records[t.Attempt][c.Case])
			row.Cells = append(row.Cells, x)
		}
		data.Rows = append(data.Rows, row)
	}
	return nil
}

// recordsOf are the records of attempts in which each case ran once, by case.
func recordsOf(chosen []*history.Attempt) map[string]map[string]*history.Case {
	out := make(map[string]map[string]*history.Case)
	for _, a := range chosen {
		if a.Plan.Repeat > 1 {
			continue
		}
		out[a.ID] = make(map[string]*history.Case)
		for c := range a.Cases() {
			if c.Index >= 0 {
				out[a.ID][c.ID] = c
			}
		}
	}
	return out
}

// name says where the text of a cell stands, if a record has it.
func (x *matrixCell) name(c *history.Case) {
	switch {
	case c == nil:
	case x.Text == OutcomeName(c.Outcome()):
		x.Entry, x.Field, x.As = c.Index, "/outcome", AsOutcome
	case x.Text == Number(c.Score):
		x.Entry, x.Field, x.As = c.Index, "/score/score", AsNumber
	}
}

// alike reports whether a case ended the same way in every column.
func alike(c scorecard.MatrixRow, columns int) bool {
	if len(c.Results) != columns {
		return false
	}
	first := evidence.Outcome("")
	for _, cell := range c.Results {
		if first != "" && cell.Outcome != first {
			return false
		}
		first = cell.Outcome
	}
	return true
}
