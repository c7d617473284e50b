package site

import (
	"context"
	"slices"
	"strings"

	"tallystick/internal/record/refusal"
	"tallystick/internal/serve/registry"
	"tallystick/internal/serve/viewer/layout"
)

// maxHistory bounds the evaluations of an artifact that are shown.
const maxHistory = 200

type artifactData struct {
	Node         *registry.Node
	Path         string
	Children     []child
	Rows         []*row
	Partial      bool
	Charts       []chart
	ProposalURL  string
	Leaderboards string // of a dataset
}

type child struct {
	Name, URL string
	Thing     registry.Thing
}

// Artifact is a path of the catalogue: what is below it, and its evaluations.
func (s *Site) Artifact(ctx context.Context, path string) (*layout.Page, error) {
	node, err := s.source.Tree(ctx, path)
	if err != nil {
		return nil, err
	}
	d := &artifactData{Node: node, Path: path}
	for _, c := range node.Children {
		address := s.artifactURL(c.Path)
		if c.Thing == registry.Eval {
			address = s.evaluationURL(c.Proposal)
		}
		d.Children = append(d.Children, child{c.Name, address, c.Thing})
	}
	if node.Proposal != "" {
		d.ProposalURL = s.evaluationURL(node.Proposal)
	}
	if node.Thing == registry.Dataset {
		d.Leaderboards = s.leaderboardURL(path, "")
	}
	if err := s.history(ctx, d); err != nil {
		return nil, err
	}
	next := []layout.Command{{What: "The same as JSON", Line: layout.Shell("curl", "-s", s.public+"/api/knowledge/tree/path"+path)}}
	if len(d.Rows) > 0 {
		next = append(next, layout.Command{What: "Its evaluations as JSON", Line: layout.Shell("curl", "-s", s.public+"/api/knowledge/eval/for-artifact"+path+"?status=all")})
	}
	return s.page(ctx, layout.Page{Title: shortName(path), Template: "artifact", Section: "Catalogue", Crumbs: s.crumbs(path), Data: d, Next: next})
}

// history reads the evaluations of the artifact and draws those that are published.
func (s *Site) history(ctx context.Context, d *artifactData) error {
	q := registry.Query{Thing: registry.Eval, Artifact: d.Path, Status: "all"}
	if err := registry.CheckPath(d.Path); err != nil {
		if refusal.Of(err).Name == refusal.Malformed {
			return nil // a folder at the top, which nothing is an evaluation of
		}
		return err
	}
	l, err := s.scan(ctx, q, maxHistory, func(*row) bool { return true })
	if err != nil {
		return err
	}
	d.Rows, d.Partial = l.Rows, l.Partial
	d.Charts = chartsOf(l.Rows)
	return nil
}

// crumbs lead to the folders above a path.
func (s *Site) crumbs(path string) []layout.Link {
	var out []layout.Link
	for p := path; p != ""; p = p[:strings.LastIndexByte(p, '/')] {
		address := s.artifactURL(p)
		if p == path {
			address = ""
		}
		out = append(out, layout.Link{Text: lastPart(p), URL: address})
	}
	slices.Reverse(out)
	return out
}
