package viewer

import (
	"cmp"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"tallystick/internal/read/history"
	"tallystick/internal/read/scorecard"
	"tallystick/internal/record/evidence"
)

type overviewData struct {
	Standings []standing
	Answer    worsened
	Costs     []costPicture
	Newest    []attemptRow
	Curve     template.HTML
	Weeks     []scorecard.Week
	LeftOut   int
	Health    health
}

// A standing is where a target stands with a class, as a row of the table.
type standing struct {
	scorecard.Standing
	classLine
	End     *entry     // that ended the newest attempt; nil if none is finished
	Row     attemptRow // of the newest attempt that ended, or else of the newest
	LastRun evidence.Time
}

// A classLine is what the bench of a class says of it now.
type classLine struct {
	Tier    string // "" if the bench does not verify now
	Title   string
	Problem string
}

// worsened are how many standings came to what, and those that got worse.
type worsened struct {
	Worse, Lower, Unmet      []standing
	Better, Unclear, Same, N int
	Alone                    int // with nothing to be compared with
}

// A costPicture shows what the targets of a class cost and how well they do.
type costPicture struct {
	Class   string
	Chart   template.HTML
	LeftOut int // without a rate, or whose cost is not wholly known
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

// newestShown is how many attempts the overview lists, namedShown how many regressions
// its first sentence names, and costsShown how many classes have a picture of their costs.
const (
	newestShown = 8
	namedShown  = 3
	costsShown  = 6
)

func (v *Viewer) overview(*http.Request) (*page, error) {
	h := v.r.History
	data := overviewData{Health: v.health()}
	list, err := remembered(v, "standings", func() ([]scorecard.Standing, error) { return scorecard.Standings(h.Attempts) })
	if err != nil {
		return nil, err
	}
	if data.Standings, err = v.standings(list); err != nil {
		return nil, err
	}
	data.Answer, data.Costs = answerOf(data.Standings), costPictures(list)
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
	p := &page{Title: "What got worse?", Template: "overview", Section: "Overview", Data: data, Next: data.next()}
	return p, nil
}

// next is what one would do after the overview: look at the worst change, then run again.
func (d *overviewData) next() []command {
	list := []command{{What: "Verify everything again", Line: "tally verify ."}, {What: "The same in the terminal", Line: "tally log"}}
	for _, s := range append(slices.Clone(d.Answer.Worse), d.Answer.Lower...) {
		list = append([]command{{What: "The first change, in the terminal", Line: shell("tally", "compare", s.Change.From, s.Change.To)}}, list...)
		break
	}
	if len(d.Standings) == 0 {
		return append(list, command{What: "Make a first attempt", Line: "tally run CLASS"})
	}
	return append(list, command{What: "Run a class again", Line: shell("tally", "run", d.Standings[0].Class)})
}

// standings are the rows of the table, what got worse first; of those that do not differ
// in that, first those whose gate is not met.
func (v *Viewer) standings(list []scorecard.Standing) ([]standing, error) {
	list = slices.Clone(list)
	scorecard.WorstFirst(list)
	shown := make([]*history.Attempt, len(list))
	for i, s := range list {
		id := s.Trend[len(s.Trend)-1].Attempt
		if s.Newest != nil {
			id = s.Newest.ID
		}
		shown[i] = v.r.History.Attempt(id)
	}
	rows, err := v.attemptRows(shown)
	if err != nil {
		return nil, err
	}
	out := make([]standing, len(list))
	for i, s := range list {
		out[i] = standing{Standing: s, classLine: v.classLine(s.Class), Row: rows[i], LastRun: s.Trend[len(s.Trend)-1].At}
		if s.Newest != nil {
			out[i].End = rows[i].End
		}
	}
	slices.SortStableFunc(out, func(a, b standing) int {
		if a.Change != nil || b.Change != nil {
			return 0
		}
		return cmp.Compare(a.metRank(), b.metRank())
	})
	return out, nil
}

// metRank puts a gate that is not met before others.
func (s *standing) metRank() int {
	if s.unmet() {
		return 0
	}
	return 1
}

func (s *standing) unmet() bool { return s.Row.GateMet != nil && !*s.Row.GateMet }

func answerOf(list []standing) worsened {
	out := worsened{N: len(list)}
	for _, s := range list {
		if s.unmet() {
			out.Unmet = append(out.Unmet, s)
		}
		if s.Change == nil {
			out.Alone++
			continue
		}
		switch s.Change.Verdict {
		case scorecard.Worse:
			out.Worse = append(out.Worse, s)
		case scorecard.ScoresLower:
			out.Lower = append(out.Lower, s)
		case scorecard.Better, scorecard.ScoresHigher:
			out.Better++
		case scorecard.Unchanged:
			out.Same++
		default:
			out.Unclear++
		}
	}
	return out
}

// Named are the regressions that the first sentence names.
func (d worsened) Named() []standing {
	all := d.All()
	return all[:min(len(all), namedShown)]
}

// All are all regressions.
func (d worsened) All() []standing { return append(slices.Clone(d.Worse), d.Lower...) }

// More is how many are not named.
func (d worsened) More() int { return max(0, len(d.All())-namedShown) }

// Rest says in words how the others stand.
func (d worsened) Rest() string {
	var words []string
	for _, x := range []struct {
		n    int
		what string
	}{{d.Better, "better"}, {d.Unclear, "changed by what could be chance"}, {d.Same, "as before"}, {d.Alone, "with nothing to compare with yet"}} {
		if x.n > 0 {
			words = append(words, fmt.Sprintf("%d %s", x.n, x.what))
		}
	}
	return strings.Join(words, ", ")
}

// CompareURL leads to the comparison that explains a change.
func (s standing) CompareURL() string {
	return "/compare?" + url.Values{"a": {s.Change.From}, "b": {s.Change.To}}.Encode()
}

// AttemptsURL lists the attempts of the target at the class.
func (s standing) AttemptsURL() string {
	return "/attempts?" + url.Values{"class": {s.Class}, "target": {s.Target}}.Encode()
}

// Spark is the course of the target.
func (s standing) Spark() template.HTML { return sparkline(s.Trend) }

// VerdictClass is the class in the stylesheet of what the tests came to.
func (s standing) VerdictClass() string {
	switch s.Change.Verdict {
	case scorecard.Worse, scorecard.ScoresLower:
		return "failed"
	case scorecard.Better, scorecard.ScoresHigher:
		return "passed"
	}
	return ""
}

// costPictures show the targets of classes that have several, each by its newest attempt.
func costPictures(list []scorecard.Standing) []costPicture {
	var out []costPicture
	points := make(map[string][]priced)
	for _, s := range list {
		at := slices.IndexFunc(out, func(c costPicture) bool { return c.Class == s.Class })
		if at < 0 {
			at = len(out)
			out = append(out, costPicture{Class: s.Class})
		}
		p, ok := priced{}, false
		for _, t := range s.Trend {
			if s.Newest != nil && t.Attempt == s.Newest.ID {
				p, ok = pricedOf(t, s.Target)
			}
		}
		if !ok {
			out[at].LeftOut++
			continue
		}
		points[s.Class] = append(points[s.Class], p)
	}
	for i := range out {
		out[i].Chart = frontier(points[out[i].Class], "Cost against solve rate of the targets of "+out[i].Class)
	}
	out = slices.DeleteFunc(out, func(c costPicture) bool { return c.Chart == "" })
	return out[:min(len(out), costsShown)]
}

// curveOf is the curve of what counts, or of everything if nothing does.
func curveOf(h *history.History) *scorecard.Curve {
	c := scorecard.CurveOf(h, scorecard.CurveOptions{})
	if len(c.Weeks) == 0 {
		c = scorecard.CurveOf(h, scorecard.CurveOptions{All: true})
	}
	return c
}

func (v *Viewer) classLine(class string) classLine {
	line, _ := remembered(v, "class "+class, func() (classLine, error) {
		out := classLine{}
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

// weeksCurve draws the outcome week by week; one week is no course, and the table has it.
func weeksCurve(weeks []scorecard.Week) template.HTML {
	if len(weeks) < 2 {
		return ""
	}
	var points []point
	for i, w := range weeks {
		points = append(points, point{X: float64(i) / float64(len(weeks)-1), Y: w.SolveRate, Lo: w.SolveRateCI95[0], Hi: w.SolveRateCI95[1], Label: fmt.Sprintf("%s: %s", w.Week, Percent(w.SolveRate))})
	}
	label := "week " + weeks[0].Week + " to " + weeks[len(weeks)-1].Week
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
