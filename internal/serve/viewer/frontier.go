package viewer

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"

	"tallystick/internal/read/scorecard"
)

// A priced is one point of a picture of cost against score.
type priced struct {
	Label  string // beside the point
	Words  string // the whole of it
	URL    string
	Cost   int64 // microdollars for each case
	Rate   float64
	Hollow bool

	best bool // no other is as good for less, or better for as little
}

// pricedOf is a trend's point by its cost. An attempt without a rate, or of which not all
// of the cost is known, has no place in the picture.
func pricedOf(p scorecard.TrendPoint, label string) (priced, bool) {
	if p.Rate == nil || !p.Cost.Known() || p.Tasks == 0 {
		return priced{}, false
	}
	each := p.Cost.MicroUSD / int64(p.Tasks)
	return priced{Label: label, Words: fmt.Sprintf("%s, %s a case", pointWords(p), Dollars(each)), URL: attemptURL(p.Attempt), Cost: each, Rate: *p.Rate, Hollow: p.Hollow}, true
}

// markFrontier finds the points that no other beats in both.
func markFrontier(list []priced) {
	slices.SortStableFunc(list, func(a, b priced) int { return cmp.Or(cmp.Compare(a.Cost, b.Cost), cmp.Compare(b.Rate, a.Rate)) })
	most := -1.0
	for i := range list {
		if list[i].best = list[i].Rate > most; list[i].best {
			most = list[i].Rate
		}
	}
}

// frontier draws cost against score, each point a link, with a line through the best for
// their price. It is "" where there are not two prices to compare.
func frontier(list []priced, caption string) template.HTML {
	list = slices.Clone(list)
	markFrontier(list)
	if len(list) < 2 || list[0].Cost == list[len(list)-1].Cost {
		return ""
	}
	const left, right, top, bottom = 46.0, 690.0, 16.0, 220.0
	most := float64(list[len(list)-1].Cost) * 1.08
	x := func(c int64) float64 { return left + float64(c)/most*(right-left) }
	y := func(v float64) float64 { return bottom - v*(bottom-top) }
	var b, marks strings.Builder
	path, best := &stroke{}, 0
	var labels [][2]float64 // where there are some
	for i, p := range list {
		if p.best {
			if best > 0 { // what less money buys is what the last one had
				path.to(x(p.Cost), y(lastBest(list[:i])))
			}
			path.to(x(p.Cost), y(p.Rate))
			best++
		}
		class := "rate"
		if p.Hollow {
			class = "rate hollow"
		}
		if !p.best {
			class += " beaten"
		}
		words := template.HTMLEscapeString(Line(p.Words))
		fmt.Fprintf(&marks, `<a href="%s" aria-label="%s"><title>%s</title><circle class="press" cx="%.1f" cy="%.1f" r="12"/><circle class="%s" cx="%.1f" cy="%.1f" r="5"/></a>`,
			template.HTMLEscapeString(p.URL), words, words, x(p.Cost), y(p.Rate), class, x(p.Cost), y(p.Rate))
		taken := slices.ContainsFunc(labels, func(at [2]float64) bool { return math.Abs(at[0]-x(p.Cost)) < 180 && math.Abs(at[1]-y(p.Rate)) < 16 })
		if p.best && p.Label != "" && !taken {
			labels = append(labels, [2]float64{x(p.Cost), y(p.Rate)})
			anchor, dx := "start", 9.0
			if x(p.Cost) > (left+right)/2 {
				anchor, dx = "end", -9.0
			}
			fmt.Fprintf(&marks, `<text class="tick %s" x="%.1f" y="%.1f" aria-hidden="true">%s</text>`, anchor, x(p.Cost)+dx, y(p.Rate)+15, template.HTMLEscapeString(Line(clip(p.Label, 28))))
		}
	}
	words := fmt.Sprintf("%s: %s; %d of them are the best for their price", caption, plural(len(list), "point"), best)
	fmt.Fprintf(&b, `<svg class="trend" viewBox="0 0 720 252" role="group" aria-label="%s">`, template.HTMLEscapeString(Line(words)))
	for _, tick := range []float64{0, 0.25, 0.5, 0.75, 1} {
		fmt.Fprintf(&b, `<line class="grid" x1="%.0f" y1="%.1f" x2="%.0f" y2="%.1f"/><text class="tick y" x="%.0f" y="%.1f" aria-hidden="true">%.0f %%</text>`, left, y(tick), right, y(tick), left-6, y(tick)+4, tick*100)
	}
	b.WriteString(path.svg("line stairs") + marks.String())
	fmt.Fprintf(&b, `<text class="tick start" x="%.0f" y="240" aria-hidden="true">$0 a case</text><text class="tick end" x="%.0f" y="240" aria-hidden="true">%s a case</text></svg>`, left, right, Dollars(int64(most)))
	return template.HTML(b.String())
}

func lastBest(list []priced) float64 {
	for _, p := range slices.Backward(list) {
		if p.best {
			return p.Rate
		}
	}
	return 0
}

// clip shortens a label that would run out of its picture.
func clip(s string, most int) string {
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return s
}
