package viewer

import (
	"cmp"
	"maps"
	"net/http"
	"slices"

	"tallystick/internal/read/answer"
	"tallystick/internal/read/promote"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/bench"
)

type promotionData struct {
	Class   string
	Advice  *promote.Recommendation // what would be said now
	Problem string
	Past    []*entry
	Shipped bool
}

func (v *Viewer) promotion(req *http.Request) (*page, error) {
	data := &promotionData{Class: req.PathValue("class")}
	if err := isClass(data.Class); err != nil {
		return nil, err
	}
	data.Shipped = bench.IsShipped(data.Class)
	if !data.Shipped {
		advice, err := answer.Advise(v.r, data.Class)
		if refusal.Is(err, refusal.UnknownName) {
			return nil, err
		}
		if data.Advice = advice; err != nil {
			data.Problem = err.Error()
		}
	}
	indexes := slices.SortedFunc(maps.Keys(answer.Advised(v.r, data.Class)), func(a, b int64) int { return cmp.Compare(b, a) })
	indexes = indexes[:min(len(indexes), attemptsOnPage)]
	entries, err := v.entries(indexes...)
	if err != nil {
		return nil, err
	}
	for _, i := range indexes {
		data.Past = append(data.Past, entries[i])
	}
	return &page{Title: "Promotion of " + data.Class, Template: "promotion", Section: "Corpus", Data: data,
		Crumbs: []link{{Text: "Corpus", URL: "/corpus"}, {Text: data.Class, URL: address("corpus", data.Class)}, {Text: "Promotion", URL: ""}},
		Next:   []command{{What: "Ask, and record the advice", Line: shell("tally", "promote", "recommend", data.Class)}}}, nil
}

// Evidence are the entries that decided, as far as they are listed.
func (promotionData) Evidence(r *promote.Recommendation) []int64 {
	return r.Evidence[:min(len(r.Evidence), rowsOnPage)]
}
