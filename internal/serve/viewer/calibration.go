package viewer

import (
	"fmt"
	"html/template"
	"slices"
	"strings"

	"tallystick/internal/app/lab"
	"tallystick/internal/read/agreement"
	"tallystick/internal/read/history"
	"tallystick/internal/record/evidence"
	"tallystick/internal/run/judge"
)

// A calibrated is a comparison of a judge with people, as pictures.
type calibrated struct {
	Class, Check, Text string
	Record             *entry
	Unscored           int
	Labels             []string
	Grid               []gridRow
	Agreed             template.HTML // by what the judge said, how often people said the same
	Reliability        template.HTML // "" where the categories are no scale
}

// A gridRow is what people said; its cells are what the judge said of the same.
type gridRow struct {
	People string
	Cells  []gridCell
	Of     int
}

// A gridCell counts pairs. Shade is how dark it is, 0 to 5, by its share of the row.
type gridCell struct {
	Shade int
	Same  bool
	Text  template.HTML
}

// calibrationsShown bounds the calibrations of a page.
const calibrationsShown = 6

// calibrations are the newest of each class and check.
func (v *Viewer) calibrations() ([]calibrated, error) {
	var chosen []*history.Calibration
	seen := map[[2]string]bool{}
	for i := len(v.r.History.Calibrations) - 1; i >= 0 && len(chosen) < calibrationsShown; i-- {
		c := &v.r.History.Calibrations[i]
		if key := [2]string{c.Class, c.Check}; !seen[key] {
			seen[key] = true
			chosen = append(chosen, c)
		}
	}
	var indexes []int64
	for _, c := range chosen {
		indexes = append(indexes, c.Index)
	}
	entries, err := v.entries(indexes...)
	if err != nil {
		return nil, err
	}
	var out []calibrated
	for _, c := range chosen {
		if t, err := c.Agreement(); err == nil { // what does not follow from itself calibrates nothing
			out = append(out, newCalibrated(c, t, entries[c.Index]))
		}
	}
	return out, nil
}

func newCalibrated(c *history.Calibration, t *agreement.Table, record *entry) calibrated {
	out := calibrated{Class: c.Class, Check: c.Check, Text: c.Text(), Record: record, Unscored: c.Unscored, Labels: t.Labels}
	for i, people := range t.Labels {
		row := gridRow{People: people}
		for _, n := range t.Counts[i] {
			row.Of += n
		}
		for j, n := range t.Counts[i] {
			cell := gridCell{Same: i == j, Shade: (5*n + max(row.Of, 1) - 1) / max(row.Of, 1), Text: "0"}
			if at := slices.IndexFunc(c.Cells, func(x evidence.CalibrationCell) bool { return x.People == people && x.Judge == t.Labels[j] }); at >= 0 {
				cell.Text = record.Same(fmt.Sprintf("/cells/%d/n", at), AsText, fmt.Sprint(n))
			}
			row.Cells = append(row.Cells, cell)
		}
		out.Grid = append(out.Grid, row)
	}
	out.Agreed = shareBars(agreedShares(t), "How often people said the same, by what the judge said")
	if len(t.Labels) == 2 || c.Ordered && len(t.Labels) > 2 {
		out.Reliability = reliability(t)
	}
	return out
}

// agreedShares are, for each thing that the judge said, how often people said the same.
func agreedShares(t *agreement.Table) []share {
	var out []share
	for j, label := range t.Labels {
		s := share{Label: "judge: " + label, Passed: t.Counts[j][j]}
		for i := range t.Labels {
			s.Of += t.Counts[i][j]
		}
		if s.Of > 0 {
			out = append(out, s)
		}
	}
	return out
}

// reliability draws, for each step of the scale that the judge gave, the mean of what
// people gave, with the line on which both would be the same.
func reliability(t *agreement.Table) template.HTML {
	const left, right, top, bottom = 60.0, 340.0, 14.0, 214.0
	k := float64(len(t.Labels) - 1)
	x := func(v float64) float64 { return left + v*(right-left) }
	y := func(v float64) float64 { return bottom - v*(bottom-top) }
	var b, marks strings.Builder
	words := "Reliability of the judge: by what it said, the mean of what people said, both from 0 for the first category to 1 for the last"
	path := &stroke{}
	for j, label := range t.Labels {
		n, sum := 0, 0.0
		for i := range t.Labels {
			n += t.Counts[i][j]
			sum += float64(t.Counts[i][j]) * float64(i) / k
		}
		if n == 0 {
			continue
		}
		mean := sum / float64(n)
		say := fmt.Sprintf("judge %s: people %.2f over %d labels", label, mean, n)
		words += "; " + say
		path.to(x(float64(j)/k), y(mean))
		fmt.Fprintf(&marks, `<circle class="rate" cx="%.1f" cy="%.1f" r="%.1f"><title>%s</title></circle>`, x(float64(j)/k), y(mean), 3+6*float64(n)/float64(t.N), template.HTMLEscapeString(Line(say)))
		fmt.Fprintf(&marks, `<text class="tick" x="%.1f" y="232">%s</text>`, x(float64(j)/k), template.HTMLEscapeString(Line(clip(label, 12))))
		fmt.Fprintf(&marks, `<text class="tick end" x="%.0f" y="%.1f">%s</text>`, left-8, y(float64(j)/k)+4, template.HTMLEscapeString(Line(clip(label, 9))))
	}
	fmt.Fprintf(&b, `<svg class="reliability" viewBox="0 0 400 262" role="img" aria-label="%s">`, template.HTMLEscapeString(Line(words)))
	fmt.Fprintf(&b, `<rect class="frame" x="%.0f" y="%.0f" width="%.0f" height="%.0f"/><line class="grid" x1="%.0f" y1="%.0f" x2="%.0f" y2="%.0f"/>`, left, top, right-left, bottom-top, left, bottom, right, top)
	b.WriteString(path.svg("line") + marks.String())
	fmt.Fprintf(&b, `<text class="tick" x="%.0f" y="254">the judge said; beside it, people</text></svg>`, (left+right)/2)
	return template.HTML(b.String())
}

// judgeSpread draws how far the judges of panels lie apart: for each attempt the mean
// score of each judge. It is "" where no panel judged.
func judgeSpread(list []*lab.JudgedSummary) template.HTML {
	var rows []*lab.JudgedSummary
	for _, j := range list {
		if len(j.Members) > 1 {
			rows = append(rows, j)
		}
	}
	if len(rows) == 0 {
		return ""
	}
	const row, left, right = 44.0, 210.0, 690.0
	x := func(v float64) float64 { return left + v*(right-left) }
	height := row*float64(len(rows)) + 22
	var b strings.Builder
	words := "Mean score of each judge, by attempt"
	var body strings.Builder
	for i, j := range rows {
		mid := row*float64(i) + row/2 + 6
		lo, hi := 1.0, 0.0
		var dots strings.Builder
		for k, m := range j.Members {
			if m.Verdicts == 0 {
				continue
			}
			lo, hi = min(lo, m.Mean), max(hi, m.Mean)
			say := fmt.Sprintf("%s in %s: %s over %s", m.Judge, j.Attempt, Number(m.Mean), plural(m.Verdicts, "verdict"))
			words += "; " + say
			fmt.Fprintf(&dots, `<circle class="rate" cx="%.1f" cy="%.1f" r="5"><title>%s</title></circle>`, x(m.Mean), mid, template.HTMLEscapeString(Line(say)))
			above := -9.0
			if k%2 == 1 { // two that lie close do not write over each other
				above = 19
			}
			fmt.Fprintf(&dots, `<text class="tick" x="%.1f" y="%.1f">%s</text>`, x(m.Mean), mid+above, template.HTMLEscapeString(Line(clip(m.Judge, 12))))
		}
		fmt.Fprintf(&body, `<text class="tick end" x="%.0f" y="%.1f">%s</text>`, left-8, mid+4, template.HTMLEscapeString(Line(clip(j.Attempt, 28))))
		if hi > lo {
			fmt.Fprintf(&body, `<line class="range" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`, x(lo), mid, x(hi), mid)
		}
		body.WriteString(dots.String())
	}
	fmt.Fprintf(&b, `<svg class="bars" viewBox="0 0 720 %.0f" role="img" aria-label="%s">`, height, template.HTMLEscapeString(Line(words)))
	for _, tick := range []float64{0, 0.5, 1} {
		fmt.Fprintf(&b, `<line class="grid" x1="%.1f" y1="0" x2="%.1f" y2="%.1f"/><text class="tick" x="%.1f" y="%.1f">%.1f</text>`, x(tick), x(tick), height-18, x(tick), height-4, tick)
	}
	return template.HTML(b.String() + body.String() + `</svg>`)
}

// voteSpread draws how far the votes of one verdict lie apart; "" where none has several.
func voteSpread(list []judge.Listed) template.HTML {
	const n = 10
	bins := make([]bin, n+1)
	bins[0].From, bins[0].To = "0", "exactly: all votes the same"
	for i := 1; i <= n; i++ {
		bins[i].From, bins[i].To = fmt.Sprintf("%.1f", float64(i)/n), "or up to a tenth less"
	}
	voted := 0
	for _, l := range list {
		if l.Votes < 2 || l.Spread == nil {
			continue
		}
		voted++
		at := int(min(max(*l.Spread, 0), 1)*n + 0.999999)
		bins[min(at, n)].N++
	}
	if voted == 0 {
		return ""
	}
	return columns(bins, fmt.Sprintf("How far the votes of %s lie apart", plural(voted, "verdict")))
}
