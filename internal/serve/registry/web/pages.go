package web

import (
	"mime"
	"net/http"
	"strings"

	"tallystick/internal/record/refusal"
	"tallystick/internal/serve/registry/web/site"
	"tallystick/internal/serve/viewer/layout"
)

// pageRoutes are the pages for people, and what their script asks for. The script
// finds that beside its own folder, in the shapes that the viewer of a workspace
// answers with; /receipt and /checkpoint keep those of C2SP.
func pageRoutes() []route {
	const get = http.MethodGet
	asked := func(name, about string) []gives { return ok(typeJSON, name, about) }
	return []route{
		{method: get, path: "/artifact/{path...}", name: "artifactPage", summary: "Page: a path of the catalogue, its evaluations over time, what lies below it", page: true,
			gives: ok(typeHTML, "", "the page"), handle: artifactPage},
		{method: get, path: "/evaluation/{id}", name: "evaluationPage", summary: "Page: a proposal with its manifest, judges and proof", page: true,
			gives: ok(typeHTML, "", "the page"), handle: evaluationPage},
		{method: get, path: "/leaderboard", name: "leaderboardPage", summary: "Page: the published evaluations of a dataset by a metric, with intervals and ranks as ranges", page: true,
			query: []param{
				{"dataset", "a dataset path; without it the datasets are listed", `{"type":"string"}`},
				{"metric", "a JSON pointer below metrics without its first slash, such as accuracy", `{"type":"string"}`},
				{"better", "higher (the default) or lower", `{"type":"string","enum":["higher","lower"]}`},
			},
			gives: ok(typeHTML, "", "the page"), handle: leaderboardPage},
		{method: get, path: site.Folder + "/{name}", name: "pageAsset", summary: "A stylesheet or script of the pages",
			gives: []gives{{200, typeCSS, "", "a stylesheet"}, {200, typeScript, "", "a script"}}, handle: pageAsset},
		{method: get, path: "/pages/keys", name: "pageKeys", summary: "The key of the ledger, as the pages' script asks for it", gives: asked("PageKeys", "the key"), handle: pageKeys},
		{method: get, path: "/pages/checkpoint", name: "pageCheckpoint", summary: "The checkpoint, as the pages' script asks for it", gives: asked("PageCheckpoint", "the checkpoint"), handle: pageCheckpoint},
		{method: get, path: "/pages/receipt/{index}", name: "pageReceipt", summary: "An entry with its receipt, as the pages' script asks for it", gives: asked("PageReceipt", "entry, receipt and key"), handle: pageReceipt},
		{method: get, path: "/pages/blob/{digest}", name: "pageBlob", summary: "The same as /blob, beside the pages' script", gives: ok(typeBytes, "", "the bytes"), handle: blob},
	}
}

// home answers browsers with a page and everybody else with what the registry says
// about itself.
func home(c *call) (*reply, error) {
	if !wantsPage(c.r.Header) {
		rep, err := about(c)
		if err == nil {
			rep.vary = "Accept"
		}
		return rep, err
	}
	rep, err := c.shown(c.s.site.Home(c.ctx(), c.query["q"]))
	if err == nil {
		rep.vary = "Accept"
	}
	return rep, err
}

// wantsPage reports whether text/html is asked for by name, as browsers do.
func wantsPage(h http.Header) bool {
	for _, line := range h.Values("Accept") {
		for member := range strings.SplitSeq(line, ",") {
			kind, params, err := mime.ParseMediaType(strings.TrimSpace(member))
			if err == nil && kind == "text/html" && params["q"] != "0" {
				return true
			}
		}
	}
	return false
}

func artifactPage(c *call) (*reply, error) {
	return c.shown(c.s.site.Artifact(c.ctx(), "/"+c.path("path")))
}

func evaluationPage(c *call) (*reply, error) {
	return c.shown(c.s.site.Evaluation(c.ctx(), c.path("id")))
}

func leaderboardPage(c *call) (*reply, error) {
	better := c.query["better"]
	if better != "" && better != "higher" && better != "lower" {
		return nil, refusal.Newf(refusal.Malformed, "better: found %.40q, expected higher or lower", better)
	}
	return c.shown(c.s.site.Leaderboard(c.ctx(), c.query["dataset"], c.query["metric"], better))
}

// shown answers with a page.
func (c *call) shown(p *layout.Page, err error) (*reply, error) {
	if err != nil {
		return nil, err
	}
	body, err := c.s.site.Render(p)
	if err != nil {
		return nil, err
	}
	rep := given(typeHTML, body)
	rep.policy = layout.Policy
	if p.Status != 0 {
		rep.status = p.Status
	}
	return rep, nil
}

// asPage shows a problem to a reader who asked for a page.
func (c *call) asPage(p *problem, rep *reply) *reply {
	page, err := c.shown(c.s.site.Failed(rep.status, string(p.Name), p.Error, p.Hint, c.id), nil)
	if err != nil {
		return rep
	}
	page.retryAfter = rep.retryAfter
	return page
}

func pageAsset(c *call) (*reply, error) {
	a, found := layout.FindAsset(c.path("name"))
	if !found {
		return nil, refusal.Newf(refusal.NotFound, "there is no such file")
	}
	return given(a.Type, a.Data), nil
}

// A pageKey is a verifier key (C2SP signed-note) and the name in it.
type pageKey struct {
	Name   string `json:"name"`
	Public string `json:"public"`
}

// pageKeys are all keys that ever sealed the ledger, that of now first: a receipt may
// come with a checkpoint from before a rotation.
func pageKeys(c *call) (*reply, error) {
	config, err := c.s.reads.Config(c.ctx())
	if err != nil {
		return nil, err
	}
	keys := []pageKey{{config.Origin, config.LogKey}}
	for _, former := range config.FormerLogKeys {
		keys = append(keys, pageKey{config.Origin, former.Key})
	}
	return asJSON(http.StatusOK, map[string]any{"origin": config.Origin, "keys": keys})
}

func pageCheckpoint(c *call) (*reply, error) {
	note, err := c.s.reads.Checkpoint(c.ctx())
	if err != nil {
		return nil, err
	}
	return asJSON(http.StatusOK, map[string]string{"checkpoint": string(note)})
}

func pageReceipt(c *call) (*reply, error) {
	index, err := parseIndex(c.path("index"))
	if err != nil {
		return nil, err
	}
	r, err := c.s.reads.Receipt(c.ctx(), index)
	if err != nil {
		return nil, err
	}
	config, err := c.s.reads.Config(c.ctx())
	if err != nil {
		return nil, err
	}
	return asJSON(http.StatusOK, map[string]any{"entry": string(r.Entry), "receipt": string(r.File), "key": pageKey{config.Origin, config.LogKey}})
}
