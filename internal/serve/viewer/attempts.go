package viewer

import (
	"cmp"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"tallystick/internal/read/answer"
	"tallystick/internal/read/history"
	"tallystick/internal/read/scorecard"
)

type attemptsData struct {
	Filter  attemptFilter
	Classes []string
	Targets []string
	Tags    []string
	Rows    []attemptRow
	Total   int
	Pager   pager

	Trends   []trendPicture
	MoreThan int // targets that have no picture of their own, beyond those that have
	Costs    template.HTML
	Without  int // attempts that are not in the picture of costs
}

// A trendPicture is the course of a target at a class.
type trendPicture struct {
	Class, Target string
	Chart         template.HTML
	Before        int // attempts that are older than those of the picture
}

// trendsShown bounds how many targets have a picture on one page.
const trendsShown = 6

// An attemptFilter is what the query string chooses.
type attemptFilter struct{ Class, Target, State, Tag, Text, Sort string }

// An attemptRow is an attempt and the entries that its row shows.
type attemptRow struct {
	answer.Logged
	Registered, End *entry
	Called          called
}

// called is the name and the note that "tally name" gave an attempt, with the entries
// that say so; nil where there is none.
type called struct{ Name, Note *entry }

// HTML shows both beside the attempt's id.
func (c called) HTML() template.HTML {
	var b strings.Builder
	if c.Name != nil {
		fmt.Fprintf(&b, ` <span class="called">“%s”</span>`, c.Name.Val("/name", AsText))
	}
	if c.Note != nil {
		fmt.Fprintf(&b, `<br><span class="soft small">%s</span>`, c.Note.Val("/note", AsText))
	}
	return template.HTML(b.String())
}

// attemptsOnPage is how many attempts a page lists.
const attemptsOnPage = 50

func (v *Viewer) attempts(req *http.Request) (*page, error) {
	q := req.URL.Query()
	f := attemptFilter{q.Get("class"), q.Get("target"), q.Get("state"), q.Get("tag"), q.Get("q"), q.Get("sort")}
	data := attemptsData{Filter: f}
	var chosen []*history.Attempt
	for _, a := range slices.Backward(v.r.History.Attempts) {
		tags := v.tagsOf(a)
		data.Classes, data.Targets, data.Tags = append(data.Classes, a.Class), append(data.Targets, a.Target), append(data.Tags, tags...)
		if f.takes(a) && (f.Tag == "" || slices.Contains(tags, f.Tag)) {
			chosen = append(chosen, a)
		}
	}
	data.Classes, data.Targets, data.Tags = names(data.Classes), names(data.Targets), names(data.Tags)
	f.order(chosen)
	data.Total = len(chosen)
	data.Pager = newPager(q, len(chosen), attemptsOnPage)
	var err error
	if data.Rows, err = v.attemptRows(chosen[data.Pager.from:data.Pager.to]); err != nil {
		return nil, err
	}
	data.pictures(chosen, f)
	p := &page{Title: "Attempts", Template: "attempts", Section: "Attempts", Data: data, Next: []command{{What: "The same in the terminal", Line: f.command()}}}
	if len(chosen) > 1 {
		p.Next = append(p.Next, command{What: "Compare the two newest", Line: shell("tally", "compare", chosen[1].ID, chosen[0].ID)})
	}
	return p, nil
}

// pictures draws what was chosen of one class: how each target did over attempts, and what
// the attempts cost for how well they did.
func (d *attemptsData) pictures(chosen []*history.Attempt, f attemptFilter) {
	if f.Class == "" {
		return
	}
	chosen = slices.Clone(chosen)
	slices.SortFunc(chosen, func(a, b *history.Attempt) int { return cmp.Compare(a.Index, b.Index) })
	of := make(map[string][]*history.Attempt)
	var targets []string // the one that ran last first
	for _, a := range slices.Backward(chosen) {
		if of[a.Target] == nil {
			targets = append(targets, a.Target)
		}
		of[a.Target] = append(of[a.Target], a)
	}
	var costs []priced
	for i, target := range targets {
		slices.Reverse(of[target])
		points := scorecard.TrendOf(of[target])
		if len(points) > 1 && i < trendsShown {
			d.Trends = append(d.Trends, trendPicture{f.Class, target, trendChart(points, "Solve rate of "+f.Class+" by "+target), max(0, len(points)-trendMost)})
		}
		for _, p := range points {
			label := p.Name
			if label == "" {
				label = p.Attempt
			}
			if at, ok := pricedOf(p, label); ok && !p.Part {
				costs = append(costs, at)
			} else {
				d.Without++
			}
		}
	}
	d.MoreThan = max(0, len(targets)-trendsShown)
	if len(costs) > costsMost {
		return // points that nobody could tell apart
	}
	d.Costs = frontier(costs, "Cost against solve rate of attempts of "+f.Class)
}

// costsMost bounds the points of a picture of costs.
const costsMost = 200

// tagsOf are the tags that cases of an attempt have.
func (v *Viewer) tagsOf(a *history.Attempt) []string {
	tags, _ := remembered(v, "tags "+a.ID, func() ([]string, error) {
		var list []string
		for c := range a.Cases() {
			for _, tag := range c.Tags() {
				if !slices.Contains(list, tag) {
					list = append(list, tag)
				}
			}
		}
		return list, nil
	})
	return tags
}

func (f attemptFilter) takes(a *history.Attempt) bool {
	switch {
	case f.Class != "" && a.Class != f.Class, f.Target != "" && a.Target != f.Target, f.Text != "" && !hasText(a, f.Text):
		return false
	case f.State == "finished":
		return a.Finished != nil
	case f.State == "unfinished":
		return a.Finished == nil
	case f.State == "scratch":
		return a.Level == history.Scratch
	}
	return true
}

// hasText reports whether a text occurs in the id of an attempt, its name or its note.
func hasText(a *history.Attempt, text string) bool {
	return slices.ContainsFunc([]string{a.ID, a.Name, a.Note}, func(s string) bool { return strings.Contains(strings.ToLower(s), strings.ToLower(text)) })
}

func (f attemptFilter) order(list []*history.Attempt) {
	switch f.Sort {
	case "oldest":
		slices.Reverse(list)
	case "class":
		slices.SortStableFunc(list, func(a, b *history.Attempt) int {
			return cmp.Or(cmp.Compare(a.Class, b.Class), cmp.Compare(a.Target, b.Target))
		})
	case "passed":
		slices.SortStableFunc(list, func(a, b *history.Attempt) int {
			return cmp.Compare(float64(a.Passed)/float64(a.Tasks()), float64(b.Passed)/float64(b.Tasks()))
		})
	}
}

func (f attemptFilter) command() string {
	words := []string{"tally", "log"}
	if f.Class != "" {
		words = append(words, "--class", f.Class)
	}
	if f.Target != "" {
		words = append(words, "--target", f.Target)
	}
	return shell(words...)
}

// attemptRows are attempts with the entries that vouch for their rows.
func (v *Viewer) attemptRows(list []*history.Attempt) ([]attemptRow, error) {
	var indexes []int64
	for _, a := range list {
		indexes = append(indexes, a.Index)
		if a.Finished != nil {
			indexes = append(indexes, a.Finished.Index)
		}
		if a.Name != "" {
			indexes = append(indexes, a.NamedAt)
		}
		if a.Note != "" {
			indexes = append(indexes, a.NotedAt)
		}
	}
	entries, err := v.entries(indexes...)
	if err != nil {
		return nil, err
	}
	var rows []attemptRow
	for _, a := range list {
		l, err := v.loggedOf(a)
		if err != nil {
			return nil, err
		}
		row := attemptRow{Logged: l, Registered: entries[a.Index]}
		if a.Finished != nil {
			row.End = entries[a.Finished.Index]
		}
		if a.Name != "" {
			row.Called.Name = entries[a.NamedAt]
		}
		if a.Note != "" {
			row.Called.Note = entries[a.NotedAt]
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// names is a sorted list without repetitions.
func names(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}

// A pager says which part of a list a page shows.
type pager struct {
	Page, Pages, First, Last, Total int
	Before, After                   string // addresses; "" at the ends

	from, to int
}

func newPager(q url.Values, total, each int) pager {
	pages := max(1, (total+each-1)/each)
	n, err := strconv.Atoi(q.Get("page"))
	if err != nil || n < 1 {
		n = 1
	}
	n = min(n, pages)
	p := pager{Page: n, Pages: pages, Total: total, from: (n - 1) * each, to: min(n*each, total)}
	p.First, p.Last = min(p.from+1, total), p.to
	if n > 1 {
		p.Before = with(q, "page", strconv.Itoa(n-1))
	}
	if n < pages {
		p.After = with(q, "page", strconv.Itoa(n+1))
	}
	return p
}

// counted are the outcomes of an attempt, in the order in which they are shown.
func counted(l answer.Logged) counts {
	by := map[string]int{"failed": l.Failed, "errored": l.Errors, "truncated": l.Truncated, "unscored": l.Unscored, "skipped": l.Skipped, "not_run": l.NotRun, "passed": l.Passed}
	var out counts
	for _, o := range outcomes {
		out = append(out, outcomeCount{o, by[string(o)]})
	}
	return out
}

// States and Orders are what the form offers.
func (attemptsData) States() []string { return []string{"finished", "unfinished", "scratch"} }

// Orders are those of the list.
func (attemptsData) Orders() []string { return []string{"oldest", "passed", "class"} }
