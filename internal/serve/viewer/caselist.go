package viewer

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"tallystick/internal/read/answer"
	"tallystick/internal/read/history"
	"tallystick/internal/read/survey"
	"tallystick/internal/record/evidence"
)

// A caseFilter is what the address chooses of the cases of an attempt.
type caseFilter struct {
	State string // an outcome, or [notPassed]
	Tag   string
	Mode  string // of failure
	Tool  string
	Left  string // where it left an earlier run
	Text  string // that is looked for
	Sort  string // a name of [orders], with a minus for the other way round
	Group string // a name of [groupings]
}

// notPassed chooses every case that did not pass.
const notPassed = "failing"

// listKeys are the values of the address that are about the list; others are about the
// case that stands beside it.
var listKeys = []string{"state", "tag", "mode", "tool", "left", "q", "sort", "group", "cols", "page", "show"}

func filterOf(q url.Values) caseFilter {
	return caseFilter{q.Get("state"), q.Get("tag"), q.Get("mode"), q.Get("tool"), q.Get("left"), q.Get("q"), q.Get("sort"), q.Get("group")}
}

// needsSurvey reports whether the filter asks for what only the transcripts tell.
func (f caseFilter) needsSurvey() bool {
	return f.Tool != "" || f.Left != "" || f.Text != "" || f.Group == "tool" || f.Group == "left"
}

// A caseColumn is a column of the list.
type caseColumn struct {
	Name, Title string
	Sort        string // of [orders]; "" if it cannot be ordered by
	Num         bool
	First       bool // it is there unless the address says otherwise
}

var caseColumns = []caseColumn{
	{Name: "input", Title: "Input", First: true},
	{Name: "answer", Title: "Answer", First: true},
	{Name: "expected", Title: "Expected", First: true},
	{Name: "wrong", Title: "What was wrong", First: true},
	{Name: "score", Title: "Score", Sort: "score", Num: true, First: true},
	{Name: "turns", Title: "Turns", Sort: "turns", Num: true},
	{Name: "tokens", Title: "Tokens", Sort: "tokens", Num: true},
	{Name: "took", Title: "Took", Sort: "latency", Num: true},
	{Name: "cost", Title: "Cost", Sort: "cost", Num: true},
	{Name: "modes", Title: "Failure modes"},
	{Name: "tags", Title: "Tags"},
	{Name: "tools", Title: "Tools"},
}

// orders of the list. Those of what is spent begin with the most.
var orders = map[string]func(a, b *history.Case) int{
	"case":    func(a, b *history.Case) int { return cmp.Compare(a.ID, b.ID) },
	"state":   func(a, b *history.Case) int { return cmp.Compare(rank(a), rank(b)) },
	"score":   func(a, b *history.Case) int { return cmp.Compare(a.Score, b.Score) },
	"cost":    func(a, b *history.Case) int { return b.Cost.Compare(a.Cost) },
	"latency": func(a, b *history.Case) int { return cmp.Compare(b.LatencyMS, a.LatencyMS) },
	"turns":   func(a, b *history.Case) int { return cmp.Compare(b.Turns, a.Turns) },
	"tokens":  func(a, b *history.Case) int { return cmp.Compare(b.Tokens, a.Tokens) },
}

// descends are the orders whose first way is from the most to the least.
var descends = []string{"cost", "latency", "turns", "tokens"}

// rank is where the outcome of a case stands among [outcomes]; others come first.
func rank(c *history.Case) int { return slices.Index(outcomes, c.Outcome()) }

// A heading is the head of a column: what it is called, and the address of the list in its
// order.
type heading struct {
	caseColumn
	URL  string // "" if it cannot be ordered by
	Aria string // as aria-sort says it; "" if the list is in another order
	Mark string
}

func headingOf(c caseColumn, q url.Values) heading {
	h := heading{caseColumn: c}
	if c.Sort == "" {
		return h
	}
	now, turned := strings.CutPrefix(q.Get("sort"), "-")
	h.URL = with(q, "sort", c.Sort, "page", "", "show", "", "repeat", "")
	if now != c.Sort {
		return h
	}
	if !turned {
		h.URL = with(q, "sort", "-"+c.Sort, "page", "", "show", "", "repeat", "")
	}
	h.Aria, h.Mark = "ascending", "↑"
	if slices.Contains(descends, c.Sort) != turned {
		h.Aria, h.Mark = "descending", "↓"
	}
	return h
}

// chosenColumns are those that the address asks for.
func chosenColumns(q url.Values) (list []caseColumn) {
	for _, c := range caseColumns {
		if asked := q["cols"]; len(asked) == 0 && c.First || slices.Contains(asked, c.Name) {
			list = append(list, c)
		}
	}
	return list
}

// A placed is a case and its place in the attempt, by which a survey knows it.
type placed struct {
	*history.Case
	place int
}

// choose picks and orders cases. Those that did not pass come first. hidden says which
// cases are not found by their texts; s is nil if there is no survey yet.
func (f caseFilter) choose(a *history.Attempt, hidden func(*history.Case) bool, s *survey.Survey) []placed {
	var out []placed
	var found []bool
	text := strings.ToLower(strings.TrimSpace(f.Text))
	if s != nil && text != "" {
		found = s.Find(text)
	}
	place := -1
	for c := range a.Cases() {
		place++
		if !f.takes(c) || !f.takesSurveyed(s, place) {
			continue
		}
		if text == "" || namesHold(c, text) || place < len(found) && found[place] && !hidden(c) {
			out = append(out, placed{c, place})
		}
	}
	return f.ordered(out)
}

// namesHold reports whether the id or a failure mode of a case holds a text.
func namesHold(c *history.Case, text string) bool {
	return strings.Contains(strings.ToLower(c.ID), text) || slices.ContainsFunc(c.FailureModes(), func(m string) bool { return strings.Contains(strings.ToLower(m), text) })
}

func (f caseFilter) ordered(list []placed) []placed {
	name, turned := strings.CutPrefix(f.Sort, "-")
	order, known := orders[name]
	switch {
	case !known:
		return failingFirst(list)
	case turned:
		slices.SortStableFunc(list, func(a, b placed) int { return order(b.Case, a.Case) })
	default:
		slices.SortStableFunc(list, func(a, b placed) int { return order(a.Case, b.Case) })
	}
	return list
}

// takes reports whether a case is chosen, by what its record says.
func (f caseFilter) takes(c *history.Case) bool {
	switch {
	case f.State == notPassed:
		return c.Outcome() != evidence.Passed && f.takesWords(c)
	case f.State != "":
		return string(c.Outcome()) == f.State && f.takesWords(c)
	}
	return f.takesWords(c)
}

func (f caseFilter) takesWords(c *history.Case) bool {
	return (f.Tag == "" || slices.Contains(c.Tags(), f.Tag)) && (f.Mode == "" || slices.Contains(c.FailureModes(), f.Mode))
}

func (f caseFilter) takesSurveyed(s *survey.Survey, place int) bool {
	if f.Tool == "" && f.Left == "" {
		return true
	}
	return s != nil && (f.Tool == "" || slices.Contains(s.Tools(place), f.Tool)) && (f.Left == "" || s.Left(place) == f.Left)
}

// failingFirst orders cases by their outcome, in the order of [outcomes]; others come
// first.
func failingFirst(list []placed) []placed {
	groups := make([][]placed, len(outcomes)+1)
	for _, c := range list {
		k := rank(c.Case) + 1
		groups[k] = append(groups[k], c)
	}
	return slices.Concat(groups...)
}

// rowsOnPage is how many rows other lists of cases have on a page.
const rowsOnPage = 200

const (
	// casesOnPage is how many cases a page lists, and casesBeside how many stand beside a
	// case: what fits on a screen, so that rows stay where they are while a reader walks.
	casesOnPage = 100
	casesBeside = 12
)

// A caseRow is one repetition of a case in the list.
type caseRow struct {
	answer.ShownRow
	Record  *entry // nil if it was not run
	Tags    []string
	Tools   []string
	Tokens  int64
	HeldOut bool
	URL     string
	Current bool
	Brief   brief

	// Heading begins a group; nil within one.
	Heading *caseGroup
}

// OwnModes are the failure modes that the class names; the others only say that a check
// did not pass.
func (r caseRow) OwnModes() []string {
	return slices.DeleteFunc(slices.Clone(r.Modes), func(m string) bool { return strings.HasPrefix(m, "grade.") || strings.HasPrefix(m, "rubric.") })
}

// caseRows are rows of the list, as the address q has it.
func (v *Viewer) caseRows(a *history.Attempt, list []placed, q url.Values, s *survey.Survey) ([]caseRow, error) {
	d := v.r.Dossier(a)
	shownRows, err := answer.ShowCases(d, func(yield func(*history.Case) bool) {
		for _, c := range list {
			if !yield(c.Case) {
				return
			}
		}
	})
	if err != nil {
		return nil, err
	}
	var indexes []int64
	for _, c := range list {
		if c.Index >= 0 {
			indexes = append(indexes, c.Index)
		}
	}
	entries, err := v.entries(indexes...)
	if err != nil {
		return nil, err
	}
	rows := make([]caseRow, len(list))
	for i, c := range list {
		one := d.Case(c.Case)
		rows[i] = caseRow{ShownRow: shownRows[i], Record: entries[c.Index], Tags: c.Tags(), Tokens: c.Tokens, URL: v.besideURL(a, c.Case, q)}
		if rows[i].HeldOut, err = one.IsHidden(); err != nil {
			return nil, err
		}
		if rows[i].Brief, err = v.briefOf(one); err != nil {
			return nil, err
		}
		if s != nil && !rows[i].HeldOut {
			rows[i].Tools = s.Tools(c.place)
		}
	}
	return rows, nil
}

// besideURL is where a case is read beside the list. On a site of files it has a page of
// its own: there would be a file for each case and each list.
func (v *Viewer) besideURL(a *history.Attempt, c *history.Case, q url.Values) string {
	if v.config.Still {
		return caseURL(a.ID, c.ID, int(c.Repeat))
	}
	repeat := ""
	if c.Repeat > 1 {
		repeat = strconv.Itoa(int(c.Repeat))
	}
	return attemptURL(a.ID) + with(listOf(q), "show", c.ID, "repeat", repeat) + "#split"
}

// listOf is what an address says of the list, and not of its part or of the case beside it.
func listOf(q url.Values) url.Values {
	list := url.Values{}
	for _, key := range listKeys {
		if values := q[key]; len(values) > 0 && key != "page" && key != "show" {
			list[key] = values
		}
	}
	return list
}

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
