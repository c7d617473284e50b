package viewer

import (
	"fmt"
	"html/template"
	"strings"

	"tallystick/internal/read/scorecard"
)

// sparkMost and trendMost bound how many attempts a small and a large picture show: the
// newest.
const (
	sparkMost = 24
	trendMost = 80
)

// newestPoints are the last of a trend, and how many there are before them.
func newestPoints(points []scorecard.TrendPoint, most int) ([]scorecard.TrendPoint, int) {
	before := max(0, len(points)-most)
	return points[before:], before
}

// sparkline draws the rates of attempts, oldest first, on a scale from 0 to 1. Those that
// are no equals of the others are hollow; a line joins the attempts of the whole bench.
func sparkline(all []scorecard.TrendPoint) template.HTML {
	points, before := newestPoints(all, sparkMost)
	const width, height = 148.0, 34.0
	x := func(i int) float64 {
		step := min(12.0, (width-10)/float64(max(len(points)-1, 1)))
		return width - 6 - float64(len(points)-1-i)*step
	}
	y := func(rate float64) float64 { return height - 5 - rate*(height-10) }
	var b, marks strings.Builder
	fmt.Fprintf(&b, `<svg class="spark" width="%.0f" height="%.0f" viewBox="0 0 %.0f %.0f" role="img" aria-label="%s">`, width, height, width, height, template.HTMLEscapeString(Line(trendWords(all, before))))
	fmt.Fprintf(&b, `<line class="grid" x1="0" y1="%.1f" x2="%.0f" y2="%.1f"/><line class="grid" x1="0" y1="%.1f" x2="%.0f" y2="%.1f"/>`, y(0), width, y(0), y(1), width, y(1))
	path := &stroke{}
	for i, p := range points {
		title := "<title>" + template.HTMLEscapeString(Line(pointWords(p))) + "</title>"
		if p.Rate == nil {
			fmt.Fprintf(&marks, `<path class="cross" d="M%.1f %.1fl4 4m0 -4l-4 4">%s</path>`, x(i)-2, y(0)-2, title)
			continue
		}
		if !p.Part {
			path.to(x(i), y(*p.Rate))
		}
		class, r := "rate", 2.2
		if p.Hollow {
			class = "rate hollow"
		}
		if i == len(points)-1 {
			r = 3.4
		}
		fmt.Fprintf(&marks, `<circle class="%s" cx="%.1f" cy="%.1f" r="%.1f">%s</circle>`, class, x(i), y(*p.Rate), r, title)
	}
	b.WriteString(path.svg("line thin") + marks.String() + `</svg>`)
	return template.HTML(b.String())
}

// A stroke is a path that grows point by point.
type stroke struct{ d strings.Builder }

func (s *stroke) to(x, y float64) {
	verb := "L"
	if s.d.Len() == 0 {
		verb = "M"
	}
	fmt.Fprintf(&s.d, "%s%.1f %.1f", verb, x, y)
}

func (s *stroke) svg(class string) string {
	if s.d.Len() == 0 {
		return ""
	}
	return `<path class="` + class + `" d="` + s.d.String() + `"/>`
}

// trendWords say what a trend shows, for a reader who does not see it.
func trendWords(points []scorecard.TrendPoint, before int) string {
	var rates []float64
	hollow, none := 0, 0
	for _, p := range points[before:] {
		switch {
		case p.Rate == nil:
			none++
		case p.Hollow:
			hollow++
			fallthrough
		default:
			rates = append(rates, *p.Rate)
		}
	}
	words := plural(len(points), "attempt")
	if before > 0 {
		words = fmt.Sprintf("the newest %d of %s", len(points)-before, words)
	}
	if n := len(rates); n > 0 {
		lowest, highest := rates[0], rates[0]
		for _, r := range rates {
			lowest, highest = min(lowest, r), max(highest, r)
		}
		words += fmt.Sprintf(": from %s to %s, lowest %s, highest %s", Percent(rates[0]), Percent(rates[n-1]), Percent(lowest), Percent(highest))
	}
	if hollow > 0 {
		words += fmt.Sprintf("; %d hollow, scratch or in part", hollow)
	}
	if none > 0 {
		words += fmt.Sprintf("; %d without a rate", none)
	}
	return words
}

// pointWords say which attempt a point is and how it did.
func pointWords(p scorecard.TrendPoint) string {
	words := p.Attempt
	if p.Name != "" {
		words += " “" + p.Name + "”"
	}
	if p.Rate == nil {
		words += ": " + p.Why
	} else {
		words += fmt.Sprintf(": %s, %d of %d", Percent(*p.Rate), p.Passed, p.Tasks)
	}
	if len(p.Labels) > 0 {
		words += " (" + strings.Join(p.Labels, ", ") + ")"
	}
	return words
}

// trendChart draws the rates of attempts with their intervals, each a link to its attempt.
func trendChart(all []scorecard.TrendPoint, caption string) template.HTML {
	points, before := newestPoints(all, trendMost)
	if len(points) == 0 {
		return ""
	}
	const left, right, top, bottom = 46.0, 708.0, 14.0, 170.0
	x := func(i int) float64 {
		if len(points) == 1 {
			return (left + right) / 2
		}
		return left + 14 + float64(i)/float64(len(points)-1)*(right-left-28)
	}
	y := func(v float64) float64 { return bottom - v*(bottom-top) }
	var b, marks strings.Builder
	words := caption + ", " + trendWords(all, before)
	fmt.Fprintf(&b, `<svg class="trend" viewBox="0 0 720 200" role="group" aria-label="%s">`, template.HTMLEscapeString(Line(words)))
	for _, tick := range []float64{0, 0.25, 0.5, 0.75, 1} {
		fmt.Fprintf(&b, `<line class="grid" x1="%.0f" y1="%.1f" x2="%.0f" y2="%.1f"/><text class="tick y" x="%.0f" y="%.1f" aria-hidden="true">%.0f %%</text>`, left, y(tick), right, y(tick), left-6, y(tick)+4, tick*100)
	}
	path := &stroke{}
	for i, p := range points {
		label := template.HTMLEscapeString(Line(pointWords(p)))
		fmt.Fprintf(&marks, `<a href="%s" aria-label="%s"><title>%s</title>`, template.HTMLEscapeString(attemptURL(p.Attempt)), label, label)
		// What is pressed is as high as the picture, so that a finger finds it.
		half := min((right-left)/float64(max(len(points), 2))/2, 20)
		fmt.Fprintf(&marks, `<rect class="press" x="%.1f" y="%.0f" width="%.1f" height="%.0f"/>`, x(i)-half, top, 2*half, bottom-top)
		if p.Rate == nil {
			fmt.Fprintf(&marks, `<path class="cross" d="M%.1f %.1fl7 7m0 -7l-7 7"/></a>`, x(i)-3.5, bottom-3.5)
			continue
		}
		if !p.Part {
			path.to(x(i), y(*p.Rate))
		}
		class := "rate"
		if p.Hollow {
			class = "rate hollow"
		}
		fmt.Fprintf(&marks, `<line class="range thin" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/><circle class="%s" cx="%.1f" cy="%.1f" r="4.5"/></a>`,
			x(i), y(p.CI95[0]), x(i), y(p.CI95[1]), class, x(i), y(*p.Rate))
	}
	b.WriteString(path.svg("line") + marks.String())
	fmt.Fprintf(&b, `<text class="tick start" x="%.0f" y="190" aria-hidden="true">%s</text>`, left, points[0].At.Date())
	if n := len(points); n > 1 {
		fmt.Fprintf(&b, `<text class="tick end" x="%.0f" y="190" aria-hidden="true">%s</text>`, right, points[n-1].At.Date())
	}
	b.WriteString(`</svg>`)
	return template.HTML(b.String())
}
