package viewer

import (
	"encoding/json"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"tallystick/internal/read/answer"
	"tallystick/internal/read/history"
	"tallystick/internal/read/scorecard"
	"tallystick/internal/read/survey"
	"tallystick/internal/record/cost"
	"tallystick/internal/record/evidence"
)

type attemptData struct {
	attemptRow
	Card     *scorecard.Card
	Answered int // tasks, of those of the card
	Counts   counts
	overall
	Filter      caseFilter
	States      []stateTab
	Failing     stateTab // the tab that the key f chooses
	Sharings    []sharing
	List        template.HTML
	Hidden      []link // what the search keeps of the address
	ColumnsKeep []link // what the choice of columns keeps of it
	Columns     []columnChoice
	Search      searching
	Beside      *beside  // the case beside the list; nil if none is chosen
	Running     *running // nil once it has ended
	Earlier     string   // the attempt of the same target before it
	Later       string

	HasRepeat bool
	Floor     *evidence.Floor // what null answers pass in the class; nil if it is not known
}

// An overall is how the cases of an attempt are spread, which takes looking at all of them.
type overall struct {
	Histogram template.HTML
	Budget    template.HTML
	answered  int
	endpoints []evidence.EndpointUse // who answered the models' calls
}

// A columnChoice is a column that the list may have.
type columnChoice struct {
	caseColumn
	Chosen bool
}

// searching is what the page says of the search through the transcripts.
type searching struct {
	None   bool   // there is none
	Done   string // how far the transcripts are read, while they are; "" once they are
	Cut    int    // cases of which not all texts are searched
	Unread int    // cases whose evidence could not be read
	Asked  bool   // what the page shows needs it
}

// A stateTab chooses cases by their outcome.
type stateTab struct {
	Text, URL string
	N         int
	Current   bool
}

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
	data := attemptData{attemptRow: rows[0], HasRepeat: a.Plan.Repeat > 1, Floor: a.Plan.Floor, Filter: filterOf(q), Hidden: hiddenOf(q, "q"), ColumnsKeep: hiddenOf(q, "cols")}
	if data.Card, err = v.card(a); err != nil {
		return nil, err
	}
	if data.overall, err = v.overallOf(a); err != nil {
		return nil, err
	}
	data.Answered = data.Card.TotalTasks - data.answered
	data.Counts = counted(data.Logged)
	data.States, data.Failing = v.stateTabs(q, data.Counts)
	data.Earlier, data.Later = v.neighbours(a)
	for _, c := range caseColumns {
		data.Columns = append(data.Columns, columnChoice{c, slices.ContainsFunc(chosenColumns(q), func(x caseColumn) bool { return x.Name == c.Name })})
	}
	asked := v.surveyOf(a)
	s := data.Search.note(asked, data.Filter)
	data.Sharings = v.sharings(a, q, s, asked != nil)
	p := &page{Title: a.ID, Template: "attempt", Section: "Attempts", Data: &data,
		Crumbs: []link{{Text: "Attempts", URL: "/attempts"}, {Text: a.Class, URL: "/attempts?class=" + url.QueryEscape(a.Class)}, {Text: a.ID, URL: ""}}, Next: attemptCommands(a, data.Earlier)}
	if err := v.list(p, &data, a, s, req); err != nil {
		return nil, err
	}
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

// list adds the list of cases, and the case beside it if one is chosen.
func (v *Viewer) list(p *page, data *attemptData, a *history.Attempt, s *survey.Survey, req *http.Request) error {
	q := req.URL.Query()
	x, err := v.listed(a, data.Filter, s)
	if err != nil {
		return err
	}
	var list caseList
	each := casesOnPage
	if q.Get("show") != "" {
		each = casesBeside
		if data.Beside, err = v.besides(p, a, x.cases, req); err != nil {
			return err
		}
		if k := data.Beside.at; k >= 0 {
			q = maps.Clone(q)
			q.Set("page", strconv.Itoa(k/each+1))
		}
	}
	list.Pager = newPager(q, len(x.cases), each)
	if data.Beside != nil { // a page of the list leads out of the case
		for _, to := range []*string{&list.Pager.Before, &list.Pager.After} {
			if *to != "" {
				*to = v.besideURL(a, x.cases[nextPart(list.Pager, to == &list.Pager.After)].Case, q)
			}
		}
	}
	part := x.cases[list.Pager.from:list.Pager.to]
	for _, c := range chosenColumns(q) {
		list.Columns = append(list.Columns, headingOf(c, q))
	}
	list.Case, list.State = headingOf(caseColumn{Title: "Case", Sort: "case"}, q), headingOf(caseColumn{Title: "Outcome", Sort: "state"}, q)
	list.Narrow = data.Beside != nil
	name := fmt.Sprintf("list of %s, survey %t, %s", a.ID, s != nil, q.Encode())
	data.List, err = v.fragments.of(name, func() (template.HTML, bool, error) {
		if list.Rows, err = v.caseRows(a, part, q, s); err != nil {
			return "", false, err
		}
		for i := range list.Rows {
			if data.Beside != nil && list.Pager.from+i == data.Beside.at {
				list.Rows[i].Current = true
			}
			if k := list.Pager.from + i; x.of != nil && (i == 0 || x.of[k] != x.of[k-1]) {
				list.Rows[i].Heading = x.of[k]
			}
		}
		html, err := drawn("attempt", "cases", list)
		return html, true, err
	})
	return err
}

// nextPart is the first case of the part of the list after a page, or the last of the one
// before it.
func nextPart(p pager, after bool) int {
	if after {
		return p.to
	}
	return p.from - 1
}

// A caseList is a part of the cases of an attempt.
type caseList struct {
	Rows    []caseRow
	Pager   pager
	Case    heading
	State   heading
	Columns []heading
	Narrow  bool // a case stands beside it
}

// Width is how many columns the table has.
func (l caseList) Width() int { return len(l.Columns) + 2 }

// listed is what a filter takes of an attempt, in its order.
type listed struct {
	cases []placed
	of    []*caseGroup // the group of each; nil if they are not arranged
}

// maxLists bounds the lists that are remembered: people look at a list in parts.
const maxLists = 8

func (v *Viewer) listed(a *history.Attempt, f caseFilter, s *survey.Survey) (*listed, error) {
	name := fmt.Sprintf("%s %t %q", a.ID, s != nil, f)
	lists, _ := remembered(v, "lists", func() (*recent[*listed], error) { return &recent[*listed]{}, nil })
	return lists.of(name, maxLists, func() (*listed, error) {
		d := v.r.Dossier(a)
		x := &listed{cases: f.choose(a, func(c *history.Case) bool { return d.Case(c).IsHeldOutNow() }, s)}
		if by := groupingOf(f.Group); by != nil && (s != nil || !by.surveyed) {
			x.cases, x.of = arrange(x.cases, by, v.groupsOf(a, by, s), s)
		}
		return x, nil
	})
}

// note takes what there is to say of a survey, and returns it once it is made.
func (x *searching) note(s *surveying, f caseFilter) *survey.Survey {
	x.Asked = f.needsSurvey()
	if x.None = s == nil; x.None {
		return nil
	}
	done := s.done.Load()
	if done == nil {
		x.Done = s.Done()
		return nil
	}
	x.Cut, x.Unread = done.Cut, done.Unread
	return done
}

// overallOf looks at all cases of an attempt, once for each state of the ledger.
func (v *Viewer) overallOf(a *history.Attempt) (overall, error) {
	return remembered(v, "overall of "+a.ID, func() (overall, error) {
		return overall{scoreHistogram(a), budgetCurve(a), a.Unanswered(), v.r.History.EndpointsOf(a)}, nil
	})
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

// stateTabs are the tabs of the list. The second is that of all cases that did not pass:
// the key f goes there and back.
func (v *Viewer) stateTabs(q url.Values, list counts) (tabs []stateTab, failing stateTab) {
	total, passed := 0, 0
	for _, c := range list {
		total += c.N
		if c.Outcome == evidence.Passed {
			passed = c.N
		}
	}
	current := q.Get("state")
	tab := func(text, state string, n int) stateTab {
		return stateTab{text, v.listURL(q, "state", state), n, current == state}
	}
	tabs = []stateTab{tab("All", "", total)}
	if failing = tab("Not passed", notPassed, total-passed); failing.Current {
		failing.URL = tabs[0].URL
	}
	for _, c := range list {
		if c.N > 0 {
			tabs = append(tabs, tab(OutcomeName(c.Outcome), string(c.Outcome), c.N))
		}
	}
	return tabs, failing
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

// AnsweredBy says who answered the models' calls.
func (d attemptData) AnsweredBy() (texts []string) {
	for _, u := range d.endpoints {
		texts = append(texts, u.Text())
	}
	return texts
}

// RunTook is how long the attempt took, for people; "" if that is what was recorded, which
// stands beside it.
func (d attemptData) RunTook() string {
	ms, _ := at(d.End.body, "/runtime_ms")
	n, _ := ms.(json.Number)
	spent, _ := n.Int64()
	if spent < 1000 {
		return ""
	}
	return took(spent)
}

// FloorRate is the share that null answers pass.
func (d attemptData) FloorRate() string {
	return Percent(float64(d.Floor.Passed) / float64(max(d.Floor.Cases, 1)))
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
