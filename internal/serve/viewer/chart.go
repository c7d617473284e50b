package viewer

import (
	"fmt"
	"html/template"
	"strings"

	"tallystick/internal/read/history"
	"tallystick/internal/record/evidence"
)

// counts are how many cases ended how, in the order in which they are shown.
type counts []outcomeCount

type outcomeCount struct {
	Outcome evidence.Outcome
	N       int
}

// outcomeBar draws the shares of outcomes as one bar.
func outcomeBar(list counts) template.HTML {
	total := 0
	var words []string
	for _, c := range list {
		total += c.N
		if c.N > 0 {
			words = append(words, fmt.Sprintf("%d %s", c.N, strings.ToLower(OutcomeName(c.Outcome))))
		}
	}
	if total == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="shares" viewBox="0 0 1000 10" preserveAspectRatio="none" role="img" aria-label="%s">`, template.HTMLEscapeString(strings.Join(words, ", ")))
	x := 0.0
	for _, c := range list {
		w := float64(c.N) / float64(total) * 1000
		if c.N > 0 {
			fmt.Fprintf(&b, `<rect class="%s" x="%.2f" y="0" width="%.2f" height="10"/>`, stateClass(c.Outcome), x, w)
		}
		x += w
	}
	b.WriteString(`</svg>`)
	return template.HTML(b.String())
}

// outcomes is the order in which outcomes are shown.
var outcomes = []evidence.Outcome{evidence.Failed, evidence.Errored, evidence.Truncated, evidence.Unscored, evidence.Skipped, history.NotRun, evidence.Passed}

// A bin is a column of a histogram.
type bin struct {
	From string // what stands below it
	To   string // the rest of what it means, in words
	N    int
}

// columns draws a histogram. Its numbers are in a table for who cannot see it.
func columns(bins []bin, caption string) template.HTML {
	most := 1
	for _, x := range bins {
		most = max(most, x.N)
	}
	var b strings.Builder
	w := 600.0 / float64(max(len(bins), 1))
	fmt.Fprintf(&b, `<svg class="columns" viewBox="0 0 600 110" role="img" aria-label="%s">`, template.HTMLEscapeString(caption))
	b.WriteString(`<line class="scale" x1="0" y1="90" x2="600" y2="90"/>`)
	for i, x := range bins {
		h := float64(x.N) / float64(most) * 70
		if x.N > 0 {
			h = max(h, 2)
		}
		left := float64(i) * w
		fmt.Fprintf(&b, `<rect class="column" x="%.1f" y="%.1f" width="%.1f" height="%.1f"><title>%s %s: %d</title></rect>`, left+2, 90-h, w-4, h,
			template.HTMLEscapeString(x.From), template.HTMLEscapeString(x.To), x.N)
		if x.N > 0 {
			fmt.Fprintf(&b, `<text class="count" x="%.1f" y="%.1f">%d</text>`, left+w/2, 86-h, x.N)
		}
		fmt.Fprintf(&b, `<text class="tick" x="%.1f" y="105">%s</text>`, left+w/2, template.HTMLEscapeString(x.From))
	}
	b.WriteString(`</svg>`)
	return template.HTML(b.String())
}

// A point is one of a line.
type point struct {
	X, Y   float64 // 0 to 1
	Lo, Hi float64 // of Y; equal without an interval
	Label  string
}

// curve draws points that follow each other, with their intervals.
func curve(points []point, xLabel, yLabel, caption string) template.HTML {
	const left, right, top, bottom = 44.0, 590.0, 22.0, 160.0
	x := func(v float64) float64 { return left + 10 + min(max(v, 0), 1)*(right-left-20) }
	y := func(v float64) float64 { return bottom - min(max(v, 0), 1)*(bottom-top) }
	var b, path strings.Builder
	fmt.Fprintf(&b, `<svg class="curve" viewBox="0 0 600 196" role="img" aria-label="%s">`, template.HTMLEscapeString(caption))
	for _, tick := range []float64{0, 0.25, 0.5, 0.75, 1} {
		fmt.Fprintf(&b, `<line class="grid" x1="%.0f" y1="%.1f" x2="%.0f" y2="%.1f"/><text class="tick y" x="%.0f" y="%.1f">%.0f %%</text>`, left, y(tick), right, y(tick), left-6, y(tick)+3, tick*100)
	}
	for i, p := range points {
		verb := "L"
		if i == 0 {
			verb = "M"
		}
		fmt.Fprintf(&path, "%s%.1f %.1f", verb, x(p.X), y(p.Y))
		if p.Hi > p.Lo {
			fmt.Fprintf(&b, `<line class="range" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`, x(p.X), y(p.Lo), x(p.X), y(p.Hi))
		}
	}
	fmt.Fprintf(&b, `<path class="line" d="%s"/>`, path.String())
	if len(points) <= 60 {
		for _, p := range points {
			fmt.Fprintf(&b, `<circle class="rate" cx="%.1f" cy="%.1f" r="3.5"><title>%s</title></circle>`, x(p.X), y(p.Y), template.HTMLEscapeString(p.Label))
		}
	}
	fmt.Fprintf(&b, `<text class="axis" x="%.0f" y="190">%s</text><text class="axis start" x="4" y="10">%s</text></svg>`, (left+right)/2, template.HTMLEscapeString(xLabel), template.HTMLEscapeString(yLabel))
	return template.HTML(b.String())
}
