package viewer

import (
	"cmp"
	"fmt"
	"html/template"
	"maps"
	"slices"
	"strings"

	"tallystick/internal/read/history"
	"tallystick/internal/read/scorecard"
	"tallystick/internal/record/evidence"
)

// A share is a bar: how many of some cases passed.
type share struct {
	Label, URL string // the address may be ""
	Passed, Of int
}

// shareBars draws how many of each kind passed, each with its interval at 95 percent.
func shareBars(list []share, caption string) template.HTML {
	if len(list) == 0 {
		return ""
	}
	const row, left, right = 26.0, 190.0, 600.0
	x := func(v float64) float64 { return left + v*(right-left) }
	height := row*float64(len(list)) + 22
	var b strings.Builder
	words := caption
	for _, s := range list {
		words += fmt.Sprintf("; %s: %d of %d", s.Label, s.Passed, s.Of)
	}
	fmt.Fprintf(&b, `<svg class="bars" viewBox="0 0 720 %.0f" role="group" aria-label="%s">`, height, template.HTMLEscapeString(Line(words)))
	for _, tick := range []float64{0, 0.5, 1} {
		fmt.Fprintf(&b, `<line class="grid" x1="%.1f" y1="0" x2="%.1f" y2="%.1f"/><text class="tick" x="%.1f" y="%.1f" aria-hidden="true">%.0f %%</text>`, x(tick), x(tick), height-18, x(tick), height-4, tick*100)
	}
	for i, s := range list {
		top := row * float64(i)
		rate := float64(s.Passed) / float64(max(s.Of, 1))
		lo, hi := scorecard.Wilson(s.Passed, s.Of, scorecard.Z95)
		// A link is called by the words that stand in it, for who reads and for who speaks.
		title := template.HTMLEscapeString(Line(fmt.Sprintf("%s: %d of %d, %s", s.Label, s.Passed, s.Of, Percent(rate))))
		if s.URL != "" {
			fmt.Fprintf(&b, `<a href="%s">`, template.HTMLEscapeString(s.URL))
		}
		fmt.Fprintf(&b, `<title>%s</title><rect class="press" x="0" y="%.1f" width="720" height="%.0f"/><text class="tick end" x="%.0f" y="%.1f">%s</text> `, title, top, row, left-8, top+17, template.HTMLEscapeString(Line(clip(s.Label, 26))))
		fmt.Fprintf(&b, `<rect class="column" x="%.1f" y="%.1f" width="%.1f" height="12"/><line class="whisker" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`, x(0), top+7, x(rate)-x(0), x(lo), top+13, x(hi), top+13)
		fmt.Fprintf(&b, `<text class="tick start" x="%.0f" y="%.1f">%d of %d</text>`, right+12, top+17, s.Passed, s.Of)
		if s.URL != "" {
			b.WriteString(`</a>`)
		}
	}
	b.WriteString(`</svg>`)
	return template.HTML(b.String())
}

// maxBars bounds the bars of a picture.
const maxBars = 24

// tagShares are the cases of an attempt by their tags, the worst first. An attempt that is
// not answered has no score, and so no bars.
func tagShares(a *history.Attempt) []share {
	if a.Unanswered() > 0 {
		return nil
	}
	of := make(map[string]*share)
	for c := range a.Cases() {
		for _, tag := range c.Tags() {
			if of[tag] == nil {
				of[tag] = &share{Label: tag, URL: attemptURL(a.ID) + with(nil, "tag", tag) + "#cases"}
			}
			of[tag].Of++
			if c.Outcome() == evidence.Passed {
				of[tag].Passed++
			}
		}
	}
	var out []share
	for _, s := range slices.SortedFunc(maps.Values(of), func(a, b *share) int {
		return cmp.Or(cmp.Compare(a.Passed*b.Of, b.Passed*a.Of), cmp.Compare(b.Of, a.Of), cmp.Compare(a.Label, b.Label))
	}) {
		out = append(out, *s)
	}
	return out
}

// A tagPicture is how one attempt did by tag.
type tagPicture struct {
	Attempt string
	Chart   template.HTML
	More    int // tags that are not drawn
}

// tagPictures show the newest whole attempt of each target at a class by tag.
func (v *Viewer) tagPictures(class string) []tagPicture {
	list, _ := remembered(v, "tags of "+class, func() ([]tagPicture, error) {
		var out []tagPicture
		seen := map[string]bool{}
		for _, a := range slices.Backward(v.r.History.Attempts) {
			if a.Class != class || seen[a.Target] || a.Finished == nil || !scorecard.IsWhole(a) || len(out) == maxTagPictures {
				continue
			}
			seen[a.Target] = true
			if bars := tagShares(a); len(bars) > 1 {
				shown := bars[:min(len(bars), maxBars)]
				out = append(out, tagPicture{a.ID, shareBars(shown, "Passed by tag in "+a.ID), len(bars) - len(shown)})
			}
		}
		return out, nil
	})
	return list
}

// maxTagPictures bounds how many attempts are drawn by tag on one page.
const maxTagPictures = 4
