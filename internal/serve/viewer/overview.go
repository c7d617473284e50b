package viewer

import (
	"fmt"
	"html/template"
	"net/http"
	"slices"

	"tallystick/internal/read/history"
	"tallystick/internal/read/scorecard"
	"tallystick/internal/record/evidence"
)

type overviewData struct {
	Classes []classLine
	Newest  []attemptRow
	Curve   template.HTML
	Weeks   []scorecard.Week
	LeftOut int
	Health  health
}

// A classLine is where the targets stand with one class.
type classLine struct {
	Class   string
	Tier    string // "" if the bench does not verify now
	Title   string
	Problem string
	Targets []targetLine
}

// A targetLine is where a target stands, with the entry that ended its newest attempt.
type targetLine struct {
	scorecard.ClassTarget
	End *entry // nil if none is finished
}

// A health is what is known of the ledger beside its entries.
type health struct {
	history.Line
	Time      evidence.Time
	Anchors   int
	LastDate  string // of the last anchor
	Anchored  int64  // entries that it covers
	Witnesses int
	Pin       string
	Events    []history.Event // that are more than information, the newest first
	Keys      []string
}

// newestShown is how many attempts the overview lists.
const newestShown = 8

func (v *Viewer) overview(*http.Request) (*page, error) {
	h := v.r.History
	data := overviewData{Health: v.health()}
	groups, err := remembered(v, "groups", func() ([]scorecard.ClassTarget, error) { return scorecard.ByClassTarget(h.Attempts), nil })
	if err != nil {
		return nil, err
	}
	for _, g := range groups {
		if n := len(data.Classes); n == 0 || data.Classes[n-1].Class != g.Class {
			data.Classes = append(data.Classes, v.classLine(g.Class))
		}
		c := &data.Classes[len(data.Classes)-1]
		line, err := v.targetLine(g)
		if err != nil {
			return nil, err
		}
		c.Targets = append(c.Targets, line)
	}
	newest := slices.Clone(h.Attempts[max(0, len(h.Attempts)-newestShown):])
	slices.Reverse(newest)
	if data.Newest, err = v.attemptRows(newest); err != nil {
		return nil, err
	}
	c, err := remembered(v, "curve", func() (*scorecard.Curve, error) { return curveOf(h), nil })
	if err != nil {
		return nil, err
	}
	data.Weeks, data.LeftOut = c.Weeks, c.LeftOut
	data.Curve = weeksCurve(c.Weeks)
	p := &page{Title: "Overview", Template: "overview", Section: "Overview", Data: data,
		Next: []command{{What: "Verify everything again", Line: "tally verify ."}, {What: "The same in the terminal", Line: "tally log"}}}
	if len(data.Classes) > 0 {
		p.Next = append(p.Next, command{What: "Run a class again", Line: shell("tally", "run", data.Classes[0].Class)})
	} else {
		p.Next = append(p.Next, command{What: "Make a first attempt", Line: "tally run CLASS"})
	}
	return p, nil
}

// curveOf is the curve of what counts, or of everything if nothing does.
func curveOf(h *history.History) *scorecard.Curve {
	c := scorecard.CurveOf(h, scorecard.CurveOptions{})
	if len(c.Weeks) == 0 {
		c = scorecard.CurveOf(h, scorecard.CurveOptions{All: true})
	}
	return c
}

func (v *Viewer) targetLine(g scorecard.ClassTarget) (targetLine, error) {
	out := targetLine{ClassTarget: g}
	if g.Newest == nil {
		return out, nil
	}
	a, err := v.attemptNamed(g.Newest.ID)
	if err != nil {
		return out, err
	}
	out.End, err = v.entry(a.Finished.Index)
	return out, err
}

func (v *Viewer) classLine(class string) classLine {
	line, _ := remembered(v, "class "+class, func() (classLine, error) {
		out := classLine{Class: class}
		b, err := v.r.Bench(class)
		if err != nil {
			out.Problem = err.Error()
		} else {
			reg := b.Registration()
			out.Tier, out.Title = string(reg.CurrentTier), reg.Title
		}
		return out, nil
	})
	return line
}

func (v *Viewer) health() health {
	h := v.r.History
	out := health{Line: h.Line(), Time: h.Time, Anchors: len(h.Anchors), Witnesses: len(v.r.Settings.Witnesses), Pin: pinWords(h.Pin(), v.r.ExamplesSign()), Keys: v.r.VerifierKeys()}
	if n := len(h.Anchors); n > 0 {
		out.LastDate, out.Anchored = h.Anchors[n-1].Date, h.Anchors[n-1].Size
	}
	for _, e := range slices.Backward(h.Events) {
		if e.Severity != evidence.Info && len(out.Events) < 10 {
			out.Events = append(out.Events, e)
		}
	}
	return out
}

// weeksCurve draws cost against outcome, week by week.
func weeksCurve(weeks []scorecard.Week) template.HTML {
	if len(weeks) == 0 {
		return ""
	}
	var points []point
	for i, w := range weeks {
		x := 0.5
		if len(weeks) > 1 {
			x = float64(i) / float64(len(weeks)-1)
		}
		points = append(points, point{X: x, Y: w.SolveRate, Lo: w.SolveRateCI95[0], Hi: w.SolveRateCI95[1], Label: fmt.Sprintf("%s: %s", w.Week, Percent(w.SolveRate))})
	}
	label := "week " + weeks[0].Week
	if len(weeks) > 1 {
		label += " to " + weeks[len(weeks)-1].Week
	}
	return curve(points, label, "solved", "Solve rate by week, with its interval at 95 percent; the table has the numbers")
}

// pinWords says whether two people signed for the ledger. Example people are not people.
func pinWords(p history.Pin, examples bool) string {
	if examples && p == history.PinnedWhole {
		return "only the example people of “tally init” signed for it, which proves nothing: put your own people in their place"
	}
	switch p {
	case history.PinnedWhole:
		return "two people signed for this very ledger"
	case history.OtherPinned:
		return "two people signed for another ledger: nothing in this one counts"
	}
	return "it is not pinned by any signature: it may have been begun anew"
}
