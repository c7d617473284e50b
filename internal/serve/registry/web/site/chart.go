package site

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"

	"tallystick/internal/serve/registry"
	"tallystick/internal/share/browser"
)

// A chart is one metric on one dataset over time. The table below it has the same
// numbers.
type chart struct {
	Dataset, Metric string
	SVG             template.HTML
}

// maxCharts bounds the charts of a page.
const maxCharts = 6

type series struct {
	dataset, metric string
	rows            []*row // the oldest first
	values          []float64
}

// chartsOf draws what was published more than once: each dataset with the metric
// that stands for its rows.
func chartsOf(rows []*row) []chart {
	var all []*series
	for _, r := range slices.Backward(rows) {
		v := r.Main()
		if r.Status != registry.Published || v == nil {
			continue
		}
		i := slices.IndexFunc(all, func(s *series) bool { return s.dataset == r.Dataset && s.metric == v.Name })
		if i < 0 {
			all, i = append(all, &series{dataset: r.Dataset, metric: v.Name}), len(all)
		}
		all[i].rows, all[i].values = append(all[i].rows, r), append(all[i].values, v.Number)
	}
	var out []chart
	for _, s := range all {
		if len(s.rows) > 1 && len(out) < maxCharts {
			out = append(out, chart{s.dataset, s.metric, s.draw()})
		}
	}
	return out
}

// scale is the range of the axis: 0 to 1 for rates, else what is there and a little.
func (s *series) scale() (lo, hi float64) {
	lo, hi = slices.Min(s.values), slices.Max(s.values)
	if lo >= 0 && hi <= 1 {
		return 0, 1
	}
	pad := (hi - lo) * 0.08
	if pad == 0 {
		pad = max(math.Abs(hi)*0.08, 1e-9)
	}
	return lo - pad, hi + pad
}

func (s *series) draw() template.HTML {
	const left, right, top, bottom = 56.0, 590.0, 14.0, 150.0
	lo, hi := s.scale()
	first, last := s.rows[0].ProposedAt.Go(), s.rows[len(s.rows)-1].ProposedAt.Go()
	x := func(i int) float64 {
		share := float64(i) / float64(len(s.rows)-1)
		if span := last.Sub(first); span > 0 {
			share = float64(s.rows[i].ProposedAt.Go().Sub(first)) / float64(span)
		}
		return left + 10 + share*(right-left-20)
	}
	y := func(v float64) float64 { return bottom - (v-lo)/(hi-lo)*(bottom-top) }
	caption := fmt.Sprintf("%s on %s, %d evaluations from %s to %s", s.metric, s.dataset, len(s.rows), first.Format("2006-01-02"), last.Format("2006-01-02"))
	var b, path strings.Builder
	fmt.Fprintf(&b, `<svg class="curve" viewBox="0 0 600 176" role="img" aria-label="%s">`, template.HTMLEscapeString(browser.Line(caption)))
	for i := range 5 {
		tick := lo + (hi-lo)*float64(i)/4
		fmt.Fprintf(&b, `<line class="grid" x1="%.0f" y1="%.1f" x2="%.0f" y2="%.1f"/><text class="tick y" x="%.0f" y="%.1f">%.4g</text>`, left, y(tick), right, y(tick), left-6, y(tick)+3, tick)
	}
	for i, v := range s.values {
		verb := "L"
		if i == 0 {
			verb = "M"
		}
		fmt.Fprintf(&path, "%s%.1f %.1f", verb, x(i), y(v))
	}
	fmt.Fprintf(&b, `<path class="line" d="%s"/>`, path.String())
	for i, v := range s.values {
		fmt.Fprintf(&b, `<circle class="rate" cx="%.1f" cy="%.1f" r="3.5"><title>%s: %s</title></circle>`, x(i), y(v), browser.Time(s.rows[i].ProposedAt), browser.Number(v))
	}
	fmt.Fprintf(&b, `<text class="axis start" x="%.0f" y="170">%s</text><text class="tick y" x="%.0f" y="170">%s</text></svg>`, left, first.Format("2006-01-02"), right, last.Format("2006-01-02"))
	return template.HTML(b.String())
}
