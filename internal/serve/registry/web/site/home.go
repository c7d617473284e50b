package site

import (
	"context"
	"strings"

	"tallystick/internal/serve/registry"
	"tallystick/internal/serve/viewer/layout"
)

// How many rows are looked at for a page. What is older is found by its path.
const (
	maxCounted  = 1000
	maxSearched = 1000 // of each kind
	maxFound    = 100
	maxNewest   = 20
)

var allThings = []registry.Thing{registry.Eval, registry.Model, registry.Dataset, registry.EvalHarness, registry.Artifact}

type homeData struct {
	*registry.Public
	Q       string
	Counts  []count
	Newest  []*row
	Found   *look
	Cut     bool // more was found than is shown
	Partial bool
	Looked  int64

	Catalogue, Leaderboards, Here string
}

// SearchedEach is how many rows of each kind a search looks at.
func (*homeData) SearchedEach() int64 { return maxSearched }

type count struct {
	Status string
	N      int64
}

// Home is the first page: what there is, what is new, and a search.
func (s *Site) Home(ctx context.Context, q string) (*layout.Page, error) {
	config, err := s.source.Config(ctx)
	if err != nil {
		return nil, err
	}
	d := &homeData{Public: config, Q: q, Catalogue: s.artifactURL("/artifacts"), Leaderboards: s.prefix + "/leaderboard", Here: s.prefix + "/"}
	if q = strings.ToLower(strings.TrimSpace(q)); q != "" {
		if d.Found, err = s.search(ctx, q); err != nil {
			return nil, err
		}
		if d.Cut = len(d.Found.Rows) > maxFound; d.Cut {
			d.Found.Rows = d.Found.Rows[:maxFound]
		}
	} else if err := s.newest(ctx, d); err != nil {
		return nil, err
	}
	next := []layout.Command{
		{What: "Follow the registry from outside", Line: layout.Shell("tally", "registry", "monitor", s.public, "--key", config.LogKey)},
		{What: "What it says about itself", Line: layout.Shell("curl", "-s", s.public+"/.well-known/ip-knowledge.json")},
	}
	return s.page(ctx, layout.Page{Title: "Registry of evaluations", Template: "home", Section: "Registry", Data: d, Next: next})
}

// newest counts the newest evaluations by what became of them, and keeps some.
func (s *Site) newest(ctx context.Context, d *homeData) error {
	n := map[string]int64{}
	all, err := s.scan(ctx, registry.Query{Thing: registry.Eval, Status: "all"}, maxCounted, func(r *row) bool { n[r.Status]++; return true })
	if err != nil {
		return err
	}
	for _, status := range []string{registry.Published, registry.Pending, registry.Rejected, registry.Withdrawn, registry.Lapsed} {
		d.Counts = append(d.Counts, count{status, n[status]})
	}
	d.Newest, d.Partial, d.Looked = all.Rows[:min(maxNewest, len(all.Rows))], all.Partial, int64(all.Looked)
	return nil
}

// search finds rows in whose names every word of the question is.
func (s *Site) search(ctx context.Context, q string) (*look, error) {
	words := strings.Fields(q)
	found := &look{}
	for _, thing := range allThings {
		l, err := s.scan(ctx, registry.Query{Thing: thing, Status: "all"}, maxSearched, func(r *row) bool {
			text := strings.ToLower(strings.Join([]string{r.IPPath, r.Artifact, r.Dataset, r.Harness, r.Runner, r.Agent, r.ID, r.Status}, "\n"))
			for _, w := range words {
				if !strings.Contains(text, w) {
					return false
				}
			}
			return true
		})
		if err != nil {
			return nil, err
		}
		found.Rows, found.Looked, found.Partial = append(found.Rows, l.Rows...), found.Looked+l.Looked, found.Partial || l.Partial
	}
	return found, nil
}
