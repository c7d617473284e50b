package web

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"net/netip"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/serve/registry"
	"tallystick/internal/serve/registry/web/site"
	"tallystick/internal/share/attest"
)

// A Config is what a server needs.
type Config struct {
	// Writer is the registry, in the process that writes. Without one the server
	// says that it only reads, and Reader answers.
	Writer *registry.Registry
	Reader reads
	// PublicURL begins every address that the server gives out. What a client
	// calls the server (the Host header) never does.
	PublicURL string

	// Bounds; zero for none.
	WritesPerMinute  int // of one API key
	ReadsPerMinute   int // requests of one address, of any kind
	RegistersPerHour int // registrations from one address
	// Proxies are those whose X-Forwarded-For is trusted.
	Proxies []netip.Prefix

	Log *slog.Logger
	Now func() time.Time

	routes []route // all of them; a test adds one
}

// A Server answers the routes of the table in routes.go.
type Server struct {
	cfg     Config
	routes  []route
	reads   reads
	mux     *http.ServeMux
	spec    []byte // the OpenAPI document
	metrics *metrics
	slots   chan struct{}
	budget  *budget
	pages   pages
	site    *site.Site // pages for people

	started string

	byAgent, byAddress, registers *limiter
}

// New makes a server. It starts nothing.
func New(cfg Config) (*Server, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.routes == nil {
		cfg.routes = routes()
	}
	cfg.PublicURL = strings.TrimSuffix(cfg.PublicURL, "/")
	s := &Server{
		cfg: cfg, routes: cfg.routes, mux: http.NewServeMux(), metrics: newMetrics(), slots: make(chan struct{}, maxUnderWay), budget: newBudget(),
		byAgent:   newLimiter(cfg.WritesPerMinute, time.Minute),
		byAddress: newLimiter(cfg.ReadsPerMinute, time.Minute),
		registers: newLimiter(cfg.RegistersPerHour, time.Hour),
		started:   cfg.Now().UTC().Format(time.RFC3339),
	}
	if s.reads = cfg.Reader; cfg.Writer != nil {
		s.reads = cfg.Writer
	}
	s.site = site.New(s.reads, cfg.PublicURL)
	var err error
	if s.spec, err = openAPI(s.routes, cfg.PublicURL); err != nil {
		return nil, err
	}
	for path, methods := range resources(s.routes) {
		s.mux.Handle(path, &resource{s, methods})
	}
	s.mux.Handle("/", &resource{server: s}) // whatever else is asked for
	return s, nil
}

// reads is what answers reads: the registry itself in the process that writes, where
// what decides comes from the ledger's own entries, else the reader of its database.
type reads interface {
	Agent(ctx context.Context, id string) (*registry.Agent, error)
	Authenticate(ctx context.Context, apiKey string) (*registry.Agent, error)
	Blob(ctx context.Context, d digest.Content) ([]byte, error)
	Checkpoint(ctx context.Context) ([]byte, error)
	Config(ctx context.Context) (*registry.Public, error)
	Credential(ctx context.Context, id digest.ID) (*registry.Minted, error)
	Entries(ctx context.Context, from int64, n int) ([][]byte, error)
	Judgment(ctx context.Context, kind, rid, jid string) ([]byte, error)
	Keys(ctx context.Context) (*registry.KeyDocuments, error)
	List(ctx context.Context, q registry.Query) (*registry.Page, error)
	Proposal(ctx context.Context, id string) (*registry.Proposal, error)
	Ready(ctx context.Context) error
	Receipt(ctx context.Context, index int64) (*registry.Receipt, error)
	StatusList(ctx context.Context, n int) (*registry.StatusList, error)
	Tile(ctx context.Context, path string) ([]byte, error)
	TreeSize() int64
	Tree(ctx context.Context, path string) (*registry.Node, error)
	Trust(ctx context.Context) (attest.Trust, error)
	VerifyChain(ctx context.Context, proposal string, manifest []byte) (*registry.ChainVerified, error)
}

// A resource is one path with a route for each method.
type resource struct {
	server  *Server
	methods map[string]*route
}

// resources gathers the routes of the table by path.
func resources(table []route) map[string]map[string]*route {
	all := map[string]map[string]*route{}
	for i := range table {
		r := &table[i]
		if all[r.path] == nil {
			all[r.path] = map[string]*route{}
		}
		all[r.path][r.method] = r
	}
	return all
}

// ServeHTTP answers what the mux found, with the wildcards of its path.
func (res *resource) ServeHTTP(w http.ResponseWriter, r *http.Request) { res.server.serve(w, r, res) }

// A call is one request on its way.
type call struct {
	s     *Server
	r     *http.Request
	route *route // nil: no route of the table
	id    string

	agent  *registry.Agent // who asks, if the route wants to know
	apiKey string
	body   []byte
	held   int64 // bytes of the body that the budget counts
	query  map[string]string

	status int
	sent   int
}

// path gives a wildcard of the route's path.
func (c *call) path(name string) string { return c.r.PathValue(name) }

// url makes an absolute address.
func (c *call) url(path string) string { return c.s.cfg.PublicURL + path }

func (c *call) ctx() context.Context { return c.r.Context() }

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if checkPath(r.URL) != nil {
		s.serve(w, r, nil) // the mux would answer some of these with a redirect
		return
	}
	s.mux.ServeHTTP(w, r)
}

// serve answers one request, measures it and logs it.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, res *resource) {
	start := time.Now()
	c := &call{s: s, r: r, id: newRequestID()}
	s.metrics.underWay.Add(1)
	defer s.metrics.underWay.Add(-1)
	defer func() { s.budget.release(c.held) }()
	c.write(w, c.answer(w, res))
	took := time.Since(start)
	name := "none"
	if c.route != nil {
		name = c.route.method + " " + c.route.path
	}
	s.metrics.observe(name, c.status, took)
	c.log(name, took)
}

// log writes one line about a request. Headers, query and body stay out of it:
// they may hold an API key.
func (c *call) log(name string, took time.Duration) {
	attrs := []slog.Attr{
		slog.String("id", c.id), slog.String("route", name), slog.Int("status", c.status),
		slog.Float64("ms", float64(took.Microseconds())/1000), slog.Int("bytes", c.sent),
		slog.String("address", addressOf(c.r, c.s.cfg.Proxies)),
	}
	if c.agent != nil {
		attrs = append(attrs, slog.String("agent", c.agent.ID))
	}
	level := slog.LevelInfo
	if c.status >= 500 {
		level = slog.LevelError
	}
	c.s.cfg.Log.LogAttrs(c.ctx(), level, "request", attrs...)
}

func newRequestID() string {
	var b [12]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// answer takes a request through every check in order, and to its handler.
func (c *call) answer(w http.ResponseWriter, res *resource) (rep *reply) {
	defer func() {
		if p := recover(); p != nil {
			c.s.cfg.Log.Error("panic", "id", c.id, "value", plain.Line(fmt.Sprint(p)), "stack", string(debug.Stack()))
			rep = c.internal()
		}
	}()
	select {
	case c.s.slots <- struct{}{}:
		defer func() { <-c.s.slots }()
	default:
		return c.refuse(http.StatusServiceUnavailable, &problem{Name: nameBusy, Error: "too many requests are being answered", RetryAfter: 1})
	}
	if err := checkPath(c.r.URL); err != nil {
		return c.failed(err)
	}
	if res.methods == nil {
		return c.refuse(http.StatusNotFound, &problem{
			Name: refusal.NotFound, Error: "there is nothing at this address",
			Hint: "GET " + c.url("/openapi.json") + " lists every address",
		})
	}
	if rep := c.choose(res); rep != nil {
		return rep
	}
	if rep := c.admit(); rep != nil {
		return rep
	}
	if rep := c.read(w); rep != nil {
		return rep
	}
	if c.route.large && len(c.body) > maxForm {
		who := addressOf(c.r, c.s.cfg.Proxies)
		if c.agent != nil {
			who = "agent " + c.agent.ID
		}
		done, err := c.s.budget.begin(c.ctx(), who)
		if err != nil {
			return c.notNow(err)
		}
		defer done()
	}
	rep, err := c.route.handle(c)
	if err != nil {
		return c.failed(err)
	}
	return rep
}

// notNow answers a request that has to wait for room.
func (c *call) notNow(err error) *reply {
	p := problemOf(err)
	p.RetryAfter = 1
	if p.Name == refusal.RateLimited {
		return c.refuse(http.StatusTooManyRequests, p)
	}
	return c.refuse(http.StatusServiceUnavailable, p)
}

// choose finds the route for the method, or answers what needs no handler.
func (c *call) choose(res *resource) *reply {
	method := c.r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	var allow []string
	for m := range res.methods {
		allow = append(allow, m)
		if m == http.MethodGet {
			allow = append(allow, http.MethodHead)
		}
	}
	allow = append(allow, http.MethodOptions)
	slices.Sort(allow)
	if route, ok := res.methods[method]; ok {
		c.route = route
		return nil
	}
	list := strings.Join(allow, ", ")
	if method == http.MethodOptions {
		c.route = res.methods[http.MethodGet] // says whether pages elsewhere may read it
		return &reply{status: http.StatusNoContent, allow: list}
	}
	rep := c.refuse(http.StatusMethodNotAllowed, &problem{
		Name: nameMethod, Error: fmt.Sprintf("this address does not take %s", plain.Line(c.r.Method)), Hint: "it takes " + list,
	})
	rep.allow = list
	return rep
}

// read takes the query and the body, within the bounds of the route.
func (c *call) read(w http.ResponseWriter) *reply {
	var err error
	if c.query, err = readQuery(c.r.URL, c.route.query); err != nil {
		return c.failed(err)
	}
	if c.route.takes == "" {
		return nil
	}
	if err := checkMedia(c.r.Header); err != nil {
		return c.refuse(http.StatusUnsupportedMediaType, problemOf(err))
	}
	err = c.readBody(w)
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return c.failed(refusal.Newf(refusal.TooLarge, "the body has more than %d bytes", large.Limit))
	case isNamed(err, nameBusy):
		return c.notNow(err)
	case isNamed(err, refusal.TooLarge):
		return c.failed(err)
	case err != nil:
		return c.failed(refusal.Newf(refusal.Malformed, "the body did not come through"))
	}
	return nil
}

// checkMedia wants JSON that is not packed. Strictness here keeps web pages of
// others out: a form or a simple cross-origin request cannot have this type.
func checkMedia(h http.Header) error {
	if e := h.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		return refusal.Newf(nameMedia, "found Content-Encoding %.40q, expected none", e).WithHint("send the body as it is, without Content-Encoding")
	}
	found := h.Values("Content-Type")
	if len(found) != 1 {
		return refusal.Newf(nameMedia, "found %d Content-Type headers, expected one", len(found)).WithHint("send Content-Type: application/json")
	}
	kind, params, err := mime.ParseMediaType(found[0])
	ok := err == nil && slices.Contains([]string{typeJSON, "application/ld+json", typeCredential, "application/vc+ld+json"}, kind)
	if charset, there := params["charset"]; there && !strings.EqualFold(charset, "utf-8") {
		ok = false
	}
	if !ok {
		return refusal.Newf(nameMedia, "found Content-Type %.80q, expected application/json", found[0]).WithHint("send Content-Type: application/json")
	}
	return nil
}
