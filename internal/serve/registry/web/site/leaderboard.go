package site

import (
	"cmp"
	"context"
	"html/template"
	"math"
	"slices"
	"strconv"
	"strings"

	"tallystick/internal/read/scorecard"
	"tallystick/internal/record/evidence"
	"tallystick/internal/serve/registry"
	"tallystick/internal/serve/viewer/layout"
	"tallystick/internal/share/browser"
)

const (
	// maxBoard bounds how many evaluations are looked at for a leaderboard, the newest
	// first, and maxRanked how many it ranks.
	maxBoard  = 5000
	maxRanked = 200
	// z is the quantile of intervals at 95 percent.
	z = 1.959963984540054
)

type boardData struct {
	Dataset, Metric string
	DatasetURL      string
	Lower           bool // smaller is better
	Datasets        []choice
	Metrics         []choice
	Rows            []*standing
	Unranked        []*standing
	Looked          int
	Partial, Cut    bool
	Paired          bool // some rows were compared case by case
	OtherWay, Here  string
}

// A choice is something to choose, with how many rows have it.
type choice struct {
	Name, URL string
	N         int
	Chosen    bool
}

// A standing is a row of a leaderboard.
type standing struct {
	*row
	Value      value
	Lo, Hi     float64 // bounds of the interval
	How        string  // where the interval comes from; "" if there is none
	First, End int     // the ranks that it may have
	Cred       *credential

	paired *outcomes // nil if the credential does not tell them
	Pairs  int       // rows with which it was compared case by case
	// Behind is how far it is from the best row, on the same cases; "" if these two
	// were not compared case by case.
	Behind string
}

// Leaderboard ranks the published evaluations of one dataset by one metric. Without
// a dataset it lists those that there are.
func (s *Site) Leaderboard(ctx context.Context, dataset, metric, better string) (*layout.Page, error) {
	d := &boardData{Dataset: dataset, Metric: metric, Lower: better == "lower", Here: s.prefix + "/leaderboard"}
	datasets := map[string]int{}
	l, err := s.scan(ctx, registry.Query{Thing: registry.Eval, Status: registry.Published}, maxBoard, func(r *row) bool {
		if r.Dataset != "" {
			datasets[r.Dataset]++
		}
		return r.Dataset == dataset && dataset != "" && !r.TakenDown
	})
	if err != nil {
		return nil, err
	}
	d.Looked, d.Partial = l.Looked, l.Partial
	d.Datasets = choices(datasets, dataset, func(name string) string { return s.leaderboardURL(name, "") })
	p := layout.Page{Title: "Leaderboards", Template: "leaderboard", Section: "Leaderboard", Data: d}
	if dataset == "" {
		return s.page(ctx, p)
	}
	s.chooseMetric(d, l.Rows)
	d.DatasetURL = s.artifactURL(dataset)
	if err := s.standings(ctx, d, l.Rows); err != nil {
		return nil, err
	}
	p.Title = lastPart(dataset) + ", " + d.Metric
	if d.Metric == "" {
		p.Title = lastPart(dataset)
	}
	p.Crumbs = []layout.Link{{Text: "Leaderboards", URL: d.Here}, {Text: lastPart(dataset), URL: d.DatasetURL}, {Text: d.Metric}}
	p.Next = []layout.Command{{What: "Every evaluation as JSON", Line: layout.Shell("curl", "-s", s.public+"/api/knowledge/eval/list?limit=200")}}
	return s.page(ctx, p)
}

// choices sorts names by how many rows have them.
func choices(n map[string]int, chosen string, address func(string) string) []choice {
	var out []choice
	for name, count := range n {
		out = append(out, choice{name, address(name), count, name == chosen})
	}
	slices.SortFunc(out, func(a, b choice) int { return cmp.Or(cmp.Compare(b.N, a.N), strings.Compare(a.Name, b.Name)) })
	return out[:min(len(out), maxRanked)]
}

// chooseMetric takes the metric that was asked for, else a rate that most rows have,
// else what most have.
func (s *Site) chooseMetric(d *boardData, rows []*row) {
	n := map[string]int{}
	for _, r := range rows {
		for _, v := range r.Values {
			if !isError(v.Name) {
				n[v.Name]++
			}
		}
	}
	all := choices(n, d.Metric, func(name string) string { return s.leaderboardURL(d.Dataset, name) })
	if d.Metric == "" && len(all) > 0 {
		i := max(0, slices.IndexFunc(all, func(c choice) bool { return isRate(c.Name) }))
		d.Metric, all[i].Chosen = all[i].Name, true
	}
	d.Metrics = all
	d.OtherWay = s.leaderboardURL(d.Dataset, d.Metric)
	if !d.Lower {
		d.OtherWay += "&better=lower"
	}
}

// standings reads what the rows' credentials say, and ranks them.
func (s *Site) standings(ctx context.Context, d *boardData, rows []*row) error {
	for _, r := range rows {
		v, there := r.find(d.Metric)
		if !there {
			continue
		}
		if len(d.Rows)+len(d.Unranked) >= maxRanked {
			d.Cut = true
			break
		}
		st := &standing{row: r, Value: v}
		var proposed evidence.RegistryProposed
		if r.Credential != "" {
			if err := s.proposed(ctx, r.Entry, &proposed); err != nil {
				return err
			}
			var err error
			if st.Cred, err = s.credential(ctx, proposed.Credential); err != nil {
				return err
			}
		}
		st.interval()
		st.paired = outcomesOf(st)
		if st.How == "" {
			d.Unranked = append(d.Unranked, st)
		} else {
			d.Rows = append(d.Rows, st)
		}
	}
	pairs := pair(d.Rows)
	rank(d.Rows, d.Lower, pairs)
	order := func(a, b *standing) int {
		if d.Lower {
			a, b = b, a
		}
		return cmp.Or(cmp.Compare(b.Value.Number, a.Value.Number), cmp.Compare(a.Entry, b.Entry))
	}
	slices.SortStableFunc(d.Rows, func(a, b *standing) int { return cmp.Or(cmp.Compare(a.First, b.First), order(a, b)) })
	slices.SortStableFunc(d.Unranked, order)
	d.behind()
	return nil
}

// interval finds the bounds of a value: from the standard error beside it, else
// from the number of samples if it is a rate.
func (st *standing) interval() {
	x := st.Value.Number
	if e, ok := st.standardError(); ok {
		st.Lo, st.Hi, st.How = x-z*e, x+z*e, "stated standard error"
		if isRate(st.Value.Name) && x >= 0 && x <= 1 {
			st.Lo, st.Hi = max(st.Lo, 0), min(st.Hi, 1)
		}
		return
	}
	if st.Cred != nil && st.Cred.Samples > 0 && st.Cred.Samples <= math.MaxInt32 && isRate(st.Value.Name) && x >= 0 && x <= 1 {
		st.Lo, st.Hi = scorecard.WilsonRate(x, int(st.Cred.Samples), z)
		st.How = "Wilson, " + grouped(st.Cred.Samples) + " samples"
	}
}

// standardError finds the standard error of the value: NAME_stderr, in lm-eval's
// spelling too, or stderr if there is one measure beside it. Zero says nothing: who
// states it would be surely better than everybody.
func (st *standing) standardError() (float64, bool) {
	folder, name := splitMetric(st.Value.Name)
	base, filter, filtered := strings.Cut(name, ",")
	own := folder + base + "_stderr"
	if filtered {
		own += "," + filter
	}
	if v, ok := st.find(own); ok {
		return v.Number, v.Number > 0
	}
	measures := 0
	for _, v := range st.Values {
		if at, _ := splitMetric(v.Name); at == folder && !isError(v.Name) {
			measures++
		}
	}
	if v, ok := st.find(folder + "stderr"); ok && measures == 1 {
		return v.Number, v.Number > 0
	}
	return 0, false
}

// rank gives each row the ranks that it may have: from one more than are surely
// better to as many as are not surely worse. Surely means that a paired test tells
// them apart, or where two rows cannot be paired, that their intervals do not meet.
func rank(rows []*standing, lower bool, pairs map[[2]*standing]bool) {
	better := func(a, b *standing) bool { // a is surely better than b
		if apart, ok := pairs[[2]*standing{a, b}]; ok {
			return apart && (a.Value.Number > b.Value.Number) != lower
		}
		if lower {
			return a.Hi < b.Lo
		}
		return a.Lo > b.Hi
	}
	for _, a := range rows {
		a.First, a.End = 1, len(rows)
		for _, b := range rows {
			if better(b, a) {
				a.First++
			}
			if better(a, b) {
				a.End--
			}
		}
	}
}

// Rank is the range of ranks in words.
func (st *standing) Rank() string {
	if st.First == st.End {
		return strconv.Itoa(st.First)
	}
	return strconv.Itoa(st.First) + " to " + strconv.Itoa(st.End)
}

// Bounds are those of the interval in words.
func (st *standing) Bounds() string { return browser.Number(st.Lo) + " to " + browser.Number(st.Hi) }

// Picture draws the interval of a value between 0 and 1.
func (st *standing) Picture() template.HTML {
	if st.Lo < 0 || st.Hi > 1 {
		return ""
	}
	return layout.Interval(st.Value.Number, [2]float64{st.Lo, st.Hi})
}
