package viewer

import (
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"tallystick/internal/read/history"
	"tallystick/internal/read/scorecard"
	"tallystick/internal/record/evidence"
)

type matrixData struct {
	Class    string
	Classes  []string
	Target   string // "" for all
	Targets  []string
	Columns  []matrixColumn
	Rows     []matrixRow
	Pairs    []scorecard.MatrixPair
	Apart    int // pairs that cannot be compared
	Pager    pager
	Only     bool // only cases that did not end alike
	OnlyURL  string
	AllURL   string
	Attempts []matrixChoice
	TooMany  bool // for comparing
	Picture  template.HTML
	Heat     *scorecard.Heat
}

// A matrixColumn is an attempt.
type matrixColumn struct {
	scorecard.TrendPoint
	Target  string
	Number  int
	URL     string
	Compare string // leads to the comparison with the column before it; "" for the first
}

// A matrixChoice is an attempt that could be a column.
type matrixChoice struct {
	ID, Name string
	Chosen   bool
}

type matrixRow struct {
	Case, URL string
	Cells     []matrixCell
	Now       string // how it stands and since when
	Corrected []string
}

type matrixCell struct {
	Has       bool
	Class     string
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
	maxColumns     = 40
	columnsAtFirst = 12
	maxChoices     = 60
)

func (v *Viewer) matrix(req *http.Request) (*page, error) {
	q := req.URL.Query()
	data := &matrixData{Class: q.Get("class"), Target: q.Get("target"), Only: q.Get("show") == "different", OnlyURL: with(q, "show", "different", "page", ""), AllURL: with(q, "show", "", "page", "")}
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
	if len(chosen) > 0 {
		if err := v.fillMatrix(data, chosen, q); err != nil {
			return nil, err
		}
	}
	words := []string{"tally", "compare"}
	for _, a := range data.Columns[max(0, len(data.Columns)-2):] {
		words = append(words, a.Attempt)
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
		if a.Class != data.Class {
			continue
		}
		data.Targets = append(data.Targets, a.Target)
		if data.Target != "" && a.Target != data.Target || len(data.Attempts) == maxChoices {
			continue
		}
		if len(asked) == 0 && len(chosen) < columnsAtFirst {
			chosen = append(chosen, a)
		}
		data.Attempts = append(data.Attempts, matrixChoice{a.ID, a.Name, slices.Contains(chosen, a)})
	}
	data.Targets = names(data.Targets)
	slices.SortFunc(chosen, func(a, b *history.Attempt) int { return int(a.Index - b.Index) })
	return slices.Compact(chosen), nil
}

// maxPairedTasks bounds the tasks of attempts that are compared with each other for a page.
const maxPairedTasks = 60_000

func (v *Viewer) fillMatrix(data *matrixData, chosen []*history.Attempt, q url.Values) (err error) {
	tasks := 0
	for i, a := range chosen {
		tasks += a.Tasks()
		c := matrixColumn{TrendPoint: scorecard.TrendOf(chosen[i : i+1])[0], Target: a.Target, Number: a.Ordinal, URL: attemptURL(a.ID)}
		if i > 0 {
			c.Compare = "/compare?" + url.Values{"a": {chosen[i-1].ID}, "b": {a.ID}}.Encode()
		}
		data.Columns = append(data.Columns, c)
	}
	if data.TooMany = tasks > maxPairedTasks; !data.TooMany {
		if data.Pairs, data.Apart, err = scorecard.Pairs(chosen); err != nil {
			return err
		}
	}
	h := scorecard.HeatOf(chosen)
	data.Heat = h
	cases := h.Cases
	if data.Only {
		cases = cases[:h.Differ]
	}
	data.Pager = newPager(q, len(cases), rowsOnPage)
	if data.Pager.Pages > 1 {
		data.Picture = heatPicture(h)
	}
	for _, r := range h.Rows(cases[data.Pager.from:data.Pager.to]) {
		data.Rows = append(data.Rows, newMatrixRow(data, chosen, r))
	}
	return nil
}

func newMatrixRow(data *matrixData, chosen []*history.Attempt, r scorecard.HeatRow) matrixRow {
	row := matrixRow{Case: r.ID, URL: corpusCaseURL(data.Class, r.ID), Now: nowWords(data.Columns, r.HeatCase)}
	for k, result := range r.Results {
		x := matrixCell{Has: result != nil}
		if result != nil {
			x.fill(chosen[k].ID, result)
			for _, c := range result.Cases {
				if text := c.BesideChange(); text != "" {
					row.Corrected = append(row.Corrected, chosen[k].ID+": "+text)
				}
			}
		}
		row.Cells = append(row.Cells, x)
	}
	return row
}

// fill says what became of a case, and where that stands if a record has it.
func (x *matrixCell) fill(attempt string, r *scorecard.Reduced) {
	x.URL, x.Class, x.Text = caseURL(attempt, r.ID, 1), stateClass(r.Outcome), OutcomeName(r.Outcome)
	if len(r.Cases) > 1 {
		x.Text = strconv.Itoa(r.Passed) + " of " + strconv.Itoa(r.Of)
		if r.Outcome == scorecard.Mixed {
			x.Class = "mixed"
		}
		return
	}
	c := r.Cases[0]
	if c.Unanswered() {
		x.Class, x.Text = "unscored", "new"
		return
	}
	if c.Index < 0 {
		return
	}
	x.Entry, x.Field, x.As = c.Index, "/outcome", AsOutcome
	if c.Outcome() == evidence.Failed && c.Score > 0 {
		x.Text, x.Field, x.As = Number(c.Score), "/score/score", AsNumber
		x.Class = "failed partly"
	}
}

// nowWords say how a case stands in the last column, and since when. Columns of several
// targets have no common past.
func nowWords(columns []matrixColumn, c scorecard.HeatCase) string {
	if slices.ContainsFunc(columns, func(x matrixColumn) bool { return x.Target != columns[0].Target }) {
		return ""
	}
	since, passes := c.Since()
	if since < 0 {
		return "not in the last"
	}
	words := "does not pass"
	if passes {
		words = "passes"
	}
	if since > 0 {
		words += " since number " + strconv.Itoa(columns[since].Number)
	}
	if n := c.Changes(); n > 2 {
		words += ", changed " + strconv.Itoa(n) + " times"
	}
	return words
}

// heatRows is how many rows the picture of all cases has.
const heatRows = 240

// heatPicture draws all cases that did not pass everywhere, where a page has only some.
func heatPicture(h *scorecard.Heat) template.HTML {
	n := h.Differ + h.Never
	if n == 0 {
		return ""
	}
	shown := min(n, heatRows)
	var b strings.Builder
	words := fmt.Sprintf("%s by %s: %d did not end alike in all of them, %d passed in none", plural(n, "case"), plural(len(h.Attempts), "attempt"), h.Differ, h.Never)
	fmt.Fprintf(&b, `<svg class="heatmap" viewBox="0 0 %d %d" preserveAspectRatio="none" role="img" aria-label="%s">`, len(h.Attempts)*10, shown, template.HTMLEscapeString(words))
	for k := range h.Attempts {
		for y := 0; y < shown; {
			letter, from := h.Cases[y*n/shown].Past[k], y
			for y < shown && h.Cases[y*n/shown].Past[k] == letter {
				y++
			}
			fmt.Fprintf(&b, `<rect class="%s" x="%d" y="%d" width="9" height="%d"/>`, heatClasses[letter], k*10, from, y-from)
		}
	}
	b.WriteString(`</svg>`)
	return template.HTML(b.String())
}

// heatClasses are the classes in the stylesheet of the letters of a past.
var heatClasses = map[byte]string{'p': "passed", 'f': "failed", 'e': "errored", 't': "truncated", 'u': "unscored", 'm': "mixed", 's': "skipped", 'n': "not-run", '.': "absent"}

// corpusCaseURL is where a case of the corpus is.
func corpusCaseURL(class, id string) string { return address("corpus", class, "case", id) }
