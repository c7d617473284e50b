// Package site shows a registry to people: what is in the catalogue, an artifact
// with its evaluations, an evaluation with its proof, and a leaderboard.
//
// It shows what the API says and decides nothing. A value that is in an entry of
// the ledger, or in a manifest that an entry names by its digest, says so in
// attributes of its element, and the script of package browser compares the two:
// docs/checking.md. Texts of others are text, whatever they contain.
package site

import (
	"context"
	"embed"
	"html/template"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"tallystick/internal/record/digest"
	"tallystick/internal/serve/registry"
	"tallystick/internal/serve/viewer/layout"
	"tallystick/internal/share/browser"
)

//go:embed templates parts
var files embed.FS

// A Source is what answers reads: the registry itself, or a reader of its database.
type Source interface {
	Blob(ctx context.Context, d digest.Content) ([]byte, error)
	Config(ctx context.Context) (*registry.Public, error)
	Credential(ctx context.Context, id digest.ID) (*registry.Minted, error)
	Entries(ctx context.Context, from int64, n int) ([][]byte, error)
	List(ctx context.Context, q registry.Query) (*registry.Page, error)
	Proposal(ctx context.Context, id string) (*registry.Proposal, error)
	Tree(ctx context.Context, path string) (*registry.Node, error)
}

// A Site makes pages.
type Site struct {
	source Source
	public string // the public URL
	prefix string // its path: what every address of a page begins with
}

// Folder is where pages find their files. What the script asks for is beside it:
// its addresses are relative to its own.
const Folder = "/pages/assets"

// New returns a Site whose addresses begin with the path of the public URL. The host
// is left out of links: a page read over another name must not lead elsewhere.
func New(source Source, publicURL string) *Site {
	s := &Site{source: source, public: publicURL}
	if u, err := url.Parse(publicURL); err == nil {
		s.prefix = strings.TrimSuffix(u.Path, "/")
	}
	return s
}

func (s *Site) page(ctx context.Context, p layout.Page) (*layout.Page, error) {
	config, err := s.source.Config(ctx)
	if err != nil {
		return nil, err
	}
	p.Origin = config.Origin
	return s.framed(&p), nil
}

// framed puts in what every page has.
func (s *Site) framed(p *layout.Page) *layout.Page {
	p.Home, p.Assets = s.prefix+"/", s.prefix+Folder
	p.Sections = []layout.Link{{Text: "Registry", URL: s.prefix + "/"}, {Text: "Catalogue", URL: s.prefix + "/artifact/artifacts"}, {Text: "Leaderboard", URL: s.prefix + "/leaderboard"}}
	return p
}

// Render makes the bytes of a page.
func (s *Site) Render(p *layout.Page) ([]byte, error) { return p.Render(templates()) }

// Failed is the page of a problem.
func (s *Site) Failed(status int, name, text, hint, request string) *layout.Page {
	return s.framed(&layout.Page{Title: "This cannot be shown", Template: "error", Status: status,
		Data: struct{ Name, Text, Hint, Request, Home string }{name, text, hint, request, s.prefix + "/"}})
}

// templates are parsed when the first page is asked for.
var templates = sync.OnceValue(func() map[string]*template.Template {
	return layout.Parse(files, "templates", template.FuncMap{
		"grouped": grouped,
	}, "parts/rows.html")
})

// stateClass is the class in the stylesheet of a status or a verdict.
func stateClass(status string) string {
	switch status {
	case registry.Published, "accept":
		return "state passed"
	case registry.Rejected, "reject":
		return "state failed"
	case registry.Withdrawn, registry.Lapsed:
		return "state errored"
	case registry.Pending:
		return "state truncated"
	}
	return "state"
}

func grouped(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "\u202f" + text[i:]
	}
	return text
}

// lastPart is the name at the end of a path.
func lastPart(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// shortName is a path without its root: "acme/tiny" of /artifacts/models/acme/tiny.
func shortName(path string) string {
	if parts := strings.SplitN(path, "/", 4); len(parts) == 4 {
		return parts[3]
	}
	return lastPart(path)
}

func (s *Site) artifactURL(path string) string {
	return s.prefix + "/artifact" + layout.Address(strings.Split(strings.TrimPrefix(path, "/"), "/")...)
}

func (s *Site) evaluationURL(id string) string {
	return s.prefix + layout.Address("evaluation", id)
}

func (s *Site) leaderboardURL(dataset, metric string) string {
	q := url.Values{"dataset": {dataset}}
	if metric != "" {
		q.Set("metric", metric)
	}
	return s.prefix + "/leaderboard?" + q.Encode()
}

// at makes an address of the registry one that a page can lead to.
func (s *Site) at(address string) string {
	if strings.HasPrefix(address, "/") {
		return s.prefix + address
	}
	return "" // addresses of rows are the registry's own
}

// textOf is a cell with a text of an entry.
func textOf(entry int64, field, text string) template.HTML {
	return layout.Cell{Entry: entry, Field: field, As: browser.AsText}.HTML(browser.Text(text))
}

// statusOf shows what became of a proposal: the outcome of its decision, or that
// there is none yet.
func statusOf(status string, decision *int64) template.HTML {
	if decision == nil {
		return template.HTML(`<span class="` + stateClass(status) + `">` + template.HTMLEscapeString(browser.Line(status)) + `</span>`)
	}
	return layout.Cell{Entry: *decision, Field: "/outcome", As: browser.AsText, Class: stateClass(status)}.HTML(browser.Text(status))
}
