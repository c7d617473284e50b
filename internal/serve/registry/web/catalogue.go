package web

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/refusal"
	"tallystick/internal/serve/registry"
)

// decode reads a body into a value. Names must be those of the value, each once.
func (c *call) decode(v any) error {
	if err := canon.Unmarshal(c.body, v); err != nil {
		return refusal.Newf(refusal.Malformed, "the body: %w", err)
	}
	return nil
}

func register(c *call) (*reply, error) {
	var form struct {
		PublicKey string           `json:"publicKey"`
		Profile   canon.RawMessage `json:"profile"`
	}
	if err := c.decode(&form); err != nil {
		return nil, err
	}
	once, err := c.once()
	if err != nil {
		return nil, err
	}
	made, err := c.s.cfg.Writer.Register(c.ctx(), registry.SignUp{PublicKey: form.PublicKey, Profile: form.Profile, Once: once})
	if err != nil {
		return nil, err
	}
	c.agent = &made.Agent
	type registered struct {
		Agent      string `json:"agent"`
		APIKey     string `json:"apiKey"`
		PublicKey  string `json:"publicKey"`
		PrivateKey string `json:"privateKey,omitempty"`
		URL        string `json:"url"`
	}
	status := http.StatusOK
	if made.New {
		status = http.StatusCreated
	}
	return asJSON(status, registered{made.Agent.ID, made.APIKey, made.Agent.PublicKey, made.PrivateKey, c.url("/api/agents/" + made.Agent.ID)})
}

func replaceKey(c *call) (*reply, error) {
	if err := c.decode(&struct{}{}); err != nil {
		return nil, err
	}
	once, err := c.once()
	if err != nil {
		return nil, err
	}
	key, err := c.s.cfg.Writer.ReplaceAPIKey(c.ctx(), c.agent, c.apiKey, once)
	if err != nil {
		return nil, err
	}
	return asJSON(http.StatusCreated, map[string]string{"apiKey": key})
}

func showAgent(c *call) (*reply, error) {
	a, err := c.s.reads.Agent(c.ctx(), c.path("tag"))
	if err != nil {
		return nil, err
	}
	return asJSON(http.StatusOK, a)
}

// things are the kinds that have a list and a propose route.
var things = []string{string(registry.Artifact), string(registry.Model), string(registry.EvalHarness), string(registry.Dataset), string(registry.Eval)}

// thing reads the kind in the path.
func (c *call) thing() (registry.Thing, error) {
	kind := c.path("kind")
	if !slices.Contains(things, kind) {
		return "", refusal.Newf(refusal.NotFound, "the catalogue has no kind %q", kind).
			Suggest(kind, things, "there are artifact, model, eval-harness, dataset and eval")
	}
	return registry.Thing(kind), nil
}

func propose(c *call) (*reply, error) {
	thing, err := c.thing()
	if err != nil {
		return nil, err
	}
	key, err := c.idempotency()
	if err != nil {
		return nil, err
	}
	p, err := c.s.cfg.Writer.Propose(c.ctx(), c.agent, thing, c.body, key)
	if err != nil {
		return c.unknownPath(err)
	}
	return c.proposed(p)
}

// unknownPath tells a client that named a path that the catalogue does not have
// where to propose it.
func (c *call) unknownPath(err error) (*reply, error) {
	var missing *registry.MissingPath
	if !errors.As(err, &missing) {
		return nil, err
	}
	p := problemOf(err)
	p.ProposeRoute = c.url(missing.Route())
	return c.refuse(http.StatusBadRequest, p), nil
}

// A brief is the answer to a proposal.
type brief struct {
	Proposal string `json:"proposalId"`
	IPPath   string `json:"ipPath"`
	Status   string `json:"status"`
	Note     string `json:"note,omitempty"`
	Entry    int64  `json:"entry"`
	Receipt  string `json:"receipt"`
	URL      string `json:"url"`
	// Credential is the address of the credential that the same request made.
	Credential string `json:"credential,omitempty"`
}

func (c *call) proposed(p *registry.Proposal) (*reply, error) {
	status := http.StatusOK
	if p.New {
		status = http.StatusCreated
	}
	address := c.url("/proposal/" + p.ID)
	rep, err := asJSON(status, brief{p.ID, p.IPPath, p.Status, p.Note, p.Entry, c.absolute(p.Receipt), address, c.absolute(p.Credential)})
	if err == nil && p.New {
		rep.location = address
	}
	return rep, err
}

// absolute makes an address of the registry absolute, if there is one.
func (c *call) absolute(address string) string {
	if address == "" || address[0] != '/' {
		return address
	}
	return c.url(address)
}

func list(c *call) (*reply, error) {
	thing, err := c.thing()
	if err != nil {
		return nil, err
	}
	return c.rows(registry.Query{Thing: thing, Artifact: c.query["artifact"]})
}

func forArtifact(c *call) (*reply, error) {
	path := "/" + c.path("path")
	if err := registry.CheckPath(path); err != nil {
		return nil, err
	}
	return c.rows(registry.Query{Thing: registry.Eval, Artifact: path})
}

// rows answers a page of a list.
func (c *call) rows(q registry.Query) (*reply, error) {
	q.Status, q.Runner, q.After = c.query["status"], c.query["runner"], c.query["after"]
	if q.Status != "" && !slices.Contains([]string{registry.Published, registry.Pending, registry.Rejected, registry.Withdrawn, registry.Lapsed, "all"}, q.Status) {
		return nil, refusal.Newf(refusal.Malformed, "status: found %q, expected published, pending, rejected, withdrawn, lapsed or all", q.Status)
	}
	var err error
	if q.Limit, err = c.number("limit", 50, 1, 200); err != nil {
		return nil, err
	}
	page, err := c.s.reads.List(c.ctx(), q)
	if err != nil {
		return nil, err
	}
	name := c.r.URL.Path + "?" + c.r.URL.RawQuery + " " + page.ETag
	rep := given(typeJSON, c.s.pages.get(name, func() []byte { return absoluteRows(page.Rows, c.s.cfg.PublicURL) }))
	rep.etag = page.ETag
	if page.Next != "" {
		rep.link = c.nextPage(page.Next)
	}
	return rep, nil
}

// nextPage is the Link header (RFC 8288) of a page that is not the last.
func (c *call) nextPage(after string) string {
	q := url.Values{}
	for name, value := range c.query {
		q.Set(name, value)
	}
	q.Set("after", after)
	return fmt.Sprintf(`<%s?%s>; rel="next"`, c.url(c.r.URL.Path), q.Encode())
}

// number reads a number of the query within bounds.
func (c *call) number(name string, otherwise, least, most int) (int, error) {
	text, there := c.query[name]
	if !there {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most || strconv.Itoa(n) != text {
		return 0, refusal.Newf(refusal.Malformed, "%s: found %q, expected a number from %d to %d", name, text, least, most)
	}
	return n, nil
}

func tree(c *call) (*reply, error) {
	node, err := c.s.reads.Tree(c.ctx(), "/"+c.path("path"))
	if err != nil {
		return nil, err
	}
	node.Receipt = c.absolute(node.Receipt)
	return asJSON(http.StatusOK, node)
}

func proposal(c *call) (*reply, error) {
	p, err := c.s.reads.Proposal(c.ctx(), c.path("id"))
	if err != nil {
		return nil, err
	}
	c.absoluteAddresses(p)
	return asJSON(http.StatusOK, p)
}

func (c *call) absoluteAddresses(p *registry.Proposal) {
	p.Receipt, p.Credential = c.absolute(p.Receipt), c.absolute(p.Credential)
	for i := range p.Judgements {
		j := &p.Judgements[i]
		j.Receipt, j.Reason = c.absolute(j.Receipt), c.absolute(j.Reason)
	}
}

func withdraw(c *call) (*reply, error) {
	var form struct {
		Proposal string `json:"proposalId"`
	}
	if err := c.decode(&form); err != nil {
		return nil, err
	}
	once, err := c.once()
	if err != nil {
		return nil, err
	}
	p, err := c.s.cfg.Writer.Withdraw(c.ctx(), c.agent, form.Proposal, once)
	if err != nil {
		return nil, err
	}
	p.New = false
	return c.proposed(p)
}
