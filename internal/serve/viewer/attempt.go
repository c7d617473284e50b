package viewer

import (
	"cmp"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"tallystick/internal/read/answer"
	"tallystick/internal/read/history"
	"tallystick/internal/read/scorecard"
	"tallystick/internal/record/cost"
	"tallystick/internal/record/evidence"
)

type attemptData struct {
	attemptRow
	Card      *scorecard.Card
	Answered  int // tasks, of those of the card
	Counts    counts
	Histogram template.HTML
	Budget    template.HTML
	Tags      []tagCount
	Filter    caseFilter
	States    []stateTab
	Rows      []caseRow
	Pager     pager
	Running   *running // nil once it has ended
	Earlier   string   // the attempt of the same target before it
	Later     string
	Query     url.Values
	HasRepeat bool
	endpoints []evidence.EndpointUse // who answered the models' calls
}

// A stateTab chooses cases by their outcome.
type stateTab struct {
	Text, URL string
	N         int
	Current   bool
}

type tagCount struct {
	Tag, URL  string
	N, Passed int
	Current   bool
}

// A caseRow is one repetition of a case in the table.
type caseRow struct {
	answer.ShownRow
	Record  *entry // nil if it was not run
	Tags    []string
	HeldOut bool
	URL     string
}

// A caseFilter is what the query string chooses.
type caseFilter struct{ State, Tag, Text, Sort string }

// rowsOnPage is how many cases a page lists.
const rowsOnPage = 200

func (v *Viewer) attempt(req *http.Request) (*page, error) {
	a, err := v.lookUp(req)
	if err != nil {
		return nil, err
	}
	rows, err := v.attemptRows([]*history.Attempt{a})
	if err != nil {
		return nil, err
	}
	q := req.URL.Query()
	data := attemptData{attemptRow: rows[0], Query: q, HasRepeat: a.Plan.Repeat > 1,
		Filter: caseFilter{q.Get("state"), q.Get("tag"), q.Get("q"), q.Get("sort")}}
	if data.Card, err = v.card(a); err != nil {
		return nil, err
	}
	data.Answered = data.Card.TotalTasks - a.Unanswered()
	data.Counts, data.endpoints = counted(data.Logged), v.r.History.EndpointsOf(a)
	data.States, data.Tags = stateTabs(q, data.Counts, data.Filter.State), tagsOf(a, q)
	data.Histogram, data.Budget = scoreHistogram(a), budgetCurve(a)
	data.Earlier, data.Later = v.neighbours(a)
	chosen := data.Filter.choose(a)
	data.Pager = newPager(q, len(chosen), rowsOnPage)
	if data.Rows, err = v.caseRows(a, chosen[data.Pager.from:data.Pager.to]); err != nil {
		return nil, err
	}
	p := &page{Title: a.ID, Template: "attempt", Section: "Attempts", Data: &data,
		Crumbs: []link{{Text: "Attempts", URL: "/attempts"}, {Text: a.Class, URL: "/attempts?class=" + url.QueryEscape(a.Class)}, {Text: a.ID, URL: ""}}, Next: attemptCommands(a, data.Earlier)}
	if a.Finished == nil {
		data.Running = v.running(a)
		if !data.Running.Stalled { // that it has not ended yet needs no excuse
			data.Qualifications = slices.DeleteFunc(slices.Clone(data.Qualifications), func(q history.Qualification) bool { return q.Name == history.QualUnfinished })
		}
		if s := v.fleetStatus(); s != nil && s.Attempt == a.ID {
			data.Running.Workers = len(s.Workers)
		}
		p.Live = req.URL.RequestURI()
	}
	return p, nil
}

func attemptCommands(a *history.Attempt, earlier string) []command {
	next := []command{{What: "The same in the terminal", Line: shell("tally", "show", a.ID)}, {What: "The whole scorecard", Line: shell("tally", "scorecard", a.ID)}}
	if a.Finished == nil {
		return append(next, command{What: "Finish it", Line: shell("tally", "run", a.Class, "--target", a.Target, "--resume")})
	}
	next = append(next, command{What: "Prove its totals to a stranger", Line: shell("tally", "export", a.ID, "--format", "receipt", "-o", a.ID+".proof")},
		command{What: "Look for signs of cheating", Line: shell("tally", "audit", a.ID)})
	if earlier != "" {
		next = append(next, command{What: "Compare it with the one before", Line: shell("tally", "compare", earlier, a.ID)})
	}
	return next
}

// card counts one attempt, with the evidence where that is a matter of a moment.
func (v *Viewer) card(a *history.Attempt) (*scorecard.Card, error) {
	view := scorecard.View{Attempts: []*history.Attempt{a}}
	if a.Tasks() <= answer.MaxGlance {
		shown, err := v.display.Dossier(a)
		if err != nil {
			return nil, err
		}
		view.Evidence = map[*history.Attempt]scorecard.Evidence{a: shown}
		return scorecard.Of(v.r.History, view)
	}
	return remembered(v, "card "+a.ID, func() (*scorecard.Card, error) { return scorecard.Of(v.r.History, view) })
}

// neighbours are the attempts of the same class and target before and after.
func (v *Viewer) neighbours(a *history.Attempt) (before, after string) {
	for _, x := range v.r.History.Attempts {
		if x.Class != a.Class || x.Target != a.Target || x == a {
			continue
		}
		if x.Index < a.Index {
			before = x.ID
		} else if after == "" {
			after = x.ID
		}
	}
	return before, after
}

func stateTabs(q url.Values, list counts, current string) []stateTab {
	total := 0
	for _, c := range list {
		total += c.N
	}
	tabs := []stateTab{{"All", with(q, "state", "", "page", ""), total, current == ""}}
	for _, c := range list {
		if c.N > 0 {
			tabs = append(tabs, stateTab{OutcomeName(c.Outcome), with(q, "state", string(c.Outcome), "page", ""), c.N, current == string(c.Outcome)})
		}
	}
	return tabs
}

// maxTags bounds how many tags are listed.
const maxTags = 40

func tagsOf(a *history.Attempt, q url.Values) []tagCount {
	by := map[string]*tagCount{}
	for c := range a.Cases() {
		for _, tag := range c.Tags() {
			if by[tag] == nil {
				by[tag] = &tagCount{Tag: tag, URL: with(q, "tag", tag, "page", ""), Current: q.Get("tag") == tag}
			}
			by[tag].N++
			if c.Outcome() == evidence.Passed {
				by[tag].Passed++
			}
		}
	}
	var out []tagCount
	for _, t := range slices.SortedFunc(maps.Values(by), func(a, b *tagCount) int { return cmp.Or(cmp.Compare(b.N, a.N), cmp.Compare(a.Tag, b.Tag)) }) {
		if len(out) < maxTags {
			out = append(out, *t)
		}
	}
	return out
}

// choose picks and orders cases. Those that did not pass come first.
func (f caseFilter) choose(a *history.Attempt) []*history.Case {
	var out []*history.Case
	text := strings.ToLower(f.Text)
	for c := range a.Cases() {
		if f.State != "" && string(c.Outcome()) != f.State || f.Tag != "" && !slices.Contains(c.Tags(), f.Tag) {
			continue
		}
		if text == "" || strings.Contains(strings.ToLower(c.ID), text) || slices.ContainsFunc(c.FailureModes(), func(m string) bool { return strings.Contains(m, text) }) {
			out = append(out, c)
		}
	}
	by := map[string]func(a, b *history.Case) int{
		"case":    func(a, b *history.Case) int { return cmp.Compare(a.ID, b.ID) },
		"score":   func(a, b *history.Case) int { return cmp.Compare(a.Score, b.Score) },
		"cost":    func(a, b *history.Case) int { return b.Cost.Compare(a.Cost) },
		"latency": func(a, b *history.Case) int { return cmp.Compare(b.LatencyMS, a.LatencyMS) },
		"turns":   func(a, b *history.Case) int { return cmp.Compare(b.Turns, a.Turns) },
	}
	if order, known := by[f.Sort]; known {
		slices.SortStableFunc(out, order)
		return out
	}
	return failingFirst(out)
}

// failingFirst orders cases by their outcome, in the order of [outcomes]; others come
// first.
func failingFirst(list []*history.Case) []*history.Case {
	groups := map[evidence.Outcome][]*history.Case{}
	for _, c := range list {
		o := c.Outcome()
		if !slices.Contains(outcomes, o) {
			o = ""
		}
		groups[o] = append(groups[o], c)
	}
	out := groups[""]
	for _, o := range outcomes {
		out = append(out, groups[o]...)
	}
	return out
}

func (v *Viewer) caseRows(a *history.Attempt, cases []*history.Case) ([]caseRow, error) {
	list, err := answer.ShowCases(v.r.Dossier(a), slices.Values(cases))
	if err != nil {
		return nil, err
	}
	var indexes []int64
	for _, c := range cases {
		if c.Index >= 0 {
			indexes = append(indexes, c.Index)
		}
	}
	entries, err := v.entries(indexes...)
	if err != nil {
		return nil, err
	}
	rows := make([]caseRow, len(cases))
	for i, c := range cases {
		rows[i] = caseRow{ShownRow: list[i], Record: entries[c.Index], Tags: c.Tags(), URL: caseURL(a.ID, c.ID, int(c.Repeat))}
		if rows[i].HeldOut, err = v.r.Dossier(a).Case(c).IsHidden(); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// scoreHistogram draws how scores are spread; "" if they are all nothing or all.
func scoreHistogram(a *history.Attempt) template.HTML {
	const n = 10
	bins := make([]bin, n+1) // the last is for those that have all
	for i := range bins {
		bins[i].From, bins[i].To = fmt.Sprintf("%.1f", float64(i)/n), fmt.Sprintf("to below %.1f", float64(i+1)/n)
	}
	bins[n].To = "exactly"
	scored := 0
	for c := range a.Cases() {
		if c.WasScored() {
			bins[min(int(c.Score*n), n)].N++
			scored++
		}
	}
	if scored == 0 {
		return ""
	}
	return columns(bins, fmt.Sprintf("How the scores of %d cases are spread from 0 to 1", scored))
}

// budgetCurve draws how many cases would be solved if each could spend no more than
// so much: money, or tokens or turns where money is not known.
func budgetCurve(a *history.Attempt) template.HTML {
	spent, unit := func(c *history.Case) int64 { return c.Cost.MicroUSD }, "dollars"
	for c := range a.Cases() {
		if !c.Cost.Known() { // a curve over the least that was spent would be a bargain
			spent = func(*history.Case) int64 { return 0 }
		}
	}
	most := func() (m int64) {
		for c := range a.Cases() {
			m = max(m, spent(c))
		}
		return m
	}
	if most() == 0 {
		spent, unit = func(c *history.Case) int64 { return c.Tokens }, "tokens"
	}
	if most() == 0 {
		spent, unit = func(c *history.Case) int64 { return int64(c.Turns) }, "turns"
	}
	var solved []int64
	n := 0
	for c := range a.Cases() {
		n++
		if c.Outcome() == evidence.Passed {
			solved = append(solved, spent(c))
		}
	}
	limit := most()
	if len(solved) == 0 || limit == 0 {
		return ""
	}
	slices.Sort(solved)
	const steps = 40
	var points []point
	for i := 0; i <= steps; i++ {
		budget := limit * int64(i) / steps
		k, _ := slices.BinarySearch(solved, budget+1)
		points = append(points, point{X: float64(i) / steps, Y: float64(k) / float64(n), Label: fmt.Sprintf("%d of %d solved", k, n)})
	}
	label := grouped(limit) + " " + unit
	if unit == "dollars" {
		label = Dollars(limit)
	}
	return curve(points, "budget of a case, 0 to "+label, "solved", "Share of cases that would be solved with a smaller budget for each")
}

// running is what is known of an attempt that has not ended.
type running struct {
	Done, Of int
	Rate     string // cases a minute
	Cost     string
	Left     string
	Share    float64
	Stalled  bool   // nothing was recorded for some time
	Quiet    string // for how long
	Workers  int    // of the fleet that runs it; 0 if none does
}

// stalledAfter is how long nothing is recorded before a page doubts that an attempt is
// still running. It cannot know: a case may take as long as its limits allow.
const stalledAfter = 2 * time.Minute

func (v *Viewer) running(a *history.Attempt) *running {
	out := &running{Of: a.Tasks(), Rate: none, Left: none}
	var spent cost.Cost
	var first, last int64
	for c := range a.Cases() {
		if c.Index < 0 {
			continue
		}
		out.Done++
		spent = spent.Plus(c.Cost)
		if first == 0 || c.StartedMS < first {
			first = c.StartedMS
		}
		last = max(last, c.StartedMS+c.LatencyMS)
	}
	out.Cost, out.Share = spent.Short(), float64(out.Done)/float64(max(out.Of, 1))
	if took := time.Duration(last-first) * time.Millisecond; out.Done > 0 && took > 0 {
		each := took / time.Duration(out.Done)
		out.Rate = strconv.FormatFloat(float64(time.Minute)/float64(each), 'f', 1, 64)
		out.Left = (each * time.Duration(out.Of-out.Done)).Round(time.Second).String()
	}
	newest := max(last, a.Time.Go().UnixMilli())
	quiet := v.config.Now().Sub(time.UnixMilli(newest))
	out.Stalled, out.Quiet = quiet > stalledAfter, took(quiet.Milliseconds())
	return out
}

// Orders are those of the cases.
func (attemptData) Orders() []string { return []string{"case", "score", "cost", "latency", "turns"} }

// AnsweredBy says who answered the models' calls.
func (d attemptData) AnsweredBy() (texts []string) {
	for _, u := range d.endpoints {
		texts = append(texts, u.Text())
	}
	return texts
}

// EvidenceWords say for how many of the solved cases the evidence is there.
func (d attemptData) EvidenceWords() string {
	share := d.Card.EvidenceCoverage
	switch {
	case d.Card.Solved == 0:
		return "no case was solved, so there is none to look at"
	case share == nil:
		return "not looked at: too many cases for this page; the scorecard command does"
	case *share == 0:
		return "missing or incomplete for every solved case"
	case *share == 1:
		return "complete for every solved case"
	}
	return "complete for " + Percent(*share) + " of the solved cases; missing or incomplete for the others"
}

// AllTags is the address without the tag.
func (d attemptData) AllTags() string { return with(d.Query, "tag", "", "page", "") }

// maxReason bounds a reason in its row.
const maxReason = 160

// ShortReason is the end of the reason: that of a traceback is the exception.
func (c caseRow) ShortReason() string {
	s := strings.TrimSpace(c.Reason)
	if i := strings.LastIndexByte(s, '\n'); i >= 0 {
		s = "… " + s[i+1:]
	}
	if runes := []rune(s); len(runes) > maxReason {
		s = string(runes[:maxReason]) + "…"
	}
	return Line(s)
}
