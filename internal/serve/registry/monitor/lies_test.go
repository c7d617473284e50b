package monitor

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/serve/registry"
	"tallystick/internal/serve/registry/client"
	"tallystick/internal/serve/registry/web"
	"tallystick/internal/testing/pgtest"
)

var update = flag.Bool("update", false, "write the table of routes in docs/registry.md")

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// A town is a real registry with something of everything in it, and a server in front
// that can be made to lie.
type town struct {
	t      testing.TB
	dir    string
	reg    *registry.Registry
	server *web.Server
	url    string

	mu  sync.Mutex
	now time.Time
	lie func(method, target string, page bool, honest *httptest.ResponseRecorder) *httptest.ResponseRecorder
}

func (w *town) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *town) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// newTown makes a registry at an address where it is really reached, so that every
// address in an answer is one of its own.
func newTown(t testing.TB, db string) *town {
	t.Helper()
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	w := &town{t: t, dir: filepath.Join(t.TempDir(), "registry"), now: time.Now().UTC().Truncate(time.Second).Add(time.Minute)}
	front := httptest.NewServer(w)
	t.Cleanup(front.Close)
	w.url = front.URL
	s := registry.Default()
	s.Origin, s.Operator, s.PublicURL, s.Judges, s.Quorum = "registry.test/log", "olga", front.URL, 1, 1
	s.RatePerMinute, s.ReadsPerMinute, s.RegistersPerHour = 1_000_000, 1_000_000, 1_000_000
	if _, err := registry.Init(context.Background(), w.dir, s); err != nil {
		t.Fatal(err)
	}
	w.reg = must[*registry.Registry](t)(registry.Open(context.Background(), registry.Options{Dir: w.dir, DB: db, Now: w.clock}))
	t.Cleanup(func() { w.reg.Close() })
	w.server = must[*web.Server](t)(web.New(web.Config{Writer: w.reg, PublicURL: front.URL, Now: w.clock}))
	return w
}

// readOnly answers from the database from now on.
func (w *town) readOnly(db string) {
	w.t.Helper()
	r := must[*registry.Reader](w.t)(registry.OpenReader(context.Background(), registry.ReaderOptions{DB: db, Now: w.clock}))
	w.t.Cleanup(func() { r.Close() })
	w.server = must[*web.Server](w.t)(web.New(web.Config{Reader: r, PublicURL: w.url, Now: w.clock}))
}

// ServeHTTP answers as the registry does, or lies.
func (w *town) ServeHTTP(to http.ResponseWriter, r *http.Request) {
	rec := httptest.NewRecorder()
	w.server.ServeHTTP(rec, r)
	if w.lie != nil {
		rec = w.lie(r.Method, r.URL.RequestURI(), r.Header.Get("Accept") == client.PageAnswer, rec)
	}
	for name, values := range rec.Header() {
		if name != "Content-Length" {
			to.Header()[name] = values
		}
	}
	to.WriteHeader(rec.Code)
	to.Write(rec.Body.Bytes())
}

type citizen struct {
	*registry.Agent
	key ed25519.PrivateKey
}

func (w *town) register() citizen {
	got := must[*registry.Registered](w.t)(w.reg.Register(context.Background(), registry.SignUp{Profile: []byte(`{"name":"a citizen"}`)}))
	seed := must[[]byte](w.t)(hex.DecodeString(got.PrivateKey))
	return citizen{&got.Agent, ed25519.NewKeyFromSeed(seed)}
}

const (
	townModel   = "/artifacts/models/acme/tiny"
	townHarness = "/artifacts/eval-harnesses/lm-eval-harness/v0.4.5"
	townData    = "/artifacts/datasets/mmlu-pro"
)

func townEval(accuracy string) string {
	return `{"artifactPath":"` + townModel + `","evalHarnessPath":"` + townHarness + `","datasetPath":"` + townData + `","metrics":{"accuracy":` + accuracy + `,"stderr":0.01},"runDetails":{"runner":"lm-eval-harness","seed":42}}`
}

// townBody is a body of a run with other ids: what follows the first is replaced.
func townBody(n int) string {
	return strings.Replace(goodBody, "00000000-0000-4000-8000-000000000000", fmt.Sprintf("00000000-0000-4000-8000-%012d", n), 1)
}

// settle has whatever is drawn to one of the judges voted on.
func (w *town) settle(judges map[string]citizen, proposal, verdict string) {
	w.t.Helper()
	ctx := context.Background()
	if err := w.reg.Tick(ctx); err != nil {
		w.t.Fatal(err)
	}
	p := must[*registry.Proposal](w.t)(w.reg.Proposal(ctx, proposal))
	for _, person := range p.Judges.Persons {
		j := registry.Judgement{Proposal: proposal, Verdict: verdict, Reason: "I looked at " + proposal}
		judge := judges[person]
		j.Signature = seal.EncodeMultibase(ed25519.Sign(judge.key, must[[]byte](w.t)(w.reg.JudgementMessage(ctx, j))))
		if _, err := w.reg.Judge(ctx, judge.Agent, j); err != nil {
			w.t.Fatal(err)
		}
	}
}

// populate makes something of everything, and returns the status list as it was
// before a revocation.
func (w *town) populate() (before []byte) {
	w.t.Helper()
	t, ctx := w.t, context.Background()
	author := w.register()
	judges := map[string]citizen{}
	for _, person := range []string{"ada", "bo"} {
		judges[person] = w.register()
		if err := w.reg.AdmitJudge(ctx, person, []string{judges[person].ID}); err != nil {
			t.Fatal(err)
		}
	}
	propose := func(thing registry.Thing, body string) string {
		t.Helper()
		return must[*registry.Proposal](t)(w.reg.Propose(ctx, author.Agent, thing, []byte(body), "")).ID
	}
	for _, a := range []struct {
		thing registry.Thing
		path  string
	}{{registry.Model, townModel}, {registry.EvalHarness, townHarness}, {registry.Dataset, townData}, {registry.Artifact, "/artifacts/other/thing"}} {
		w.settle(judges, propose(a.thing, `{"path":"`+a.path+`"}`), "accept")
	}
	w.settle(judges, propose(registry.Eval, townEval("0.25")), "accept")
	w.settle(judges, propose(registry.Eval, townEval("0.5")), "accept")
	w.settle(judges, propose(registry.Eval, townEval("0.75")), "reject")
	withdrawn := propose(registry.Eval, townEval("0.1"))
	if _, err := w.reg.Withdraw(ctx, author.Agent, withdrawn, registry.Once{}); err != nil {
		t.Fatal(err)
	}
	propose(registry.Eval, townEval("0.2")) // lapses
	if err := w.reg.Tick(ctx); err != nil {
		t.Fatal(err)
	}
	w.pass(8 * 24 * time.Hour)
	if err := w.reg.Tick(ctx); err != nil {
		t.Fatal(err)
	}
	propose(registry.Eval, townEval("0.3")) // stays open
	var withCredential map[string]any
	if err := json.Unmarshal([]byte(townBody(1)), &withCredential); err != nil {
		t.Fatal(err)
	}
	withCredential["artifactPath"], withCredential["evalHarnessPath"], withCredential["datasetPath"] = townModel, townHarness, townData
	w.settle(judges, propose(registry.Eval, string(must[[]byte](t)(json.Marshal(withCredential)))), "accept")

	minted := must[*registry.Minted](t)(w.reg.Mint(ctx, author.Agent, []byte(townBody(2)), ""))
	must[*registry.Minted](t)(w.reg.Mint(ctx, author.Agent, []byte(townBody(3)), ""))
	before = must[*registry.StatusList](t)(w.reg.StatusList(ctx, 0)).Credential
	if err := w.reg.Revoke(ctx, author.Agent, minted.Digest, "contaminated", registry.Once{}); err != nil {
		t.Fatal(err)
	}
	down := propose(registry.Eval, townEval("0.9"))
	w.settle(judges, down, "accept")
	entry := must[*registry.Proposal](t)(w.reg.Proposal(ctx, down)).Manifest
	if err := w.reg.TakeDown(ctx, digest.ContentOf(entry), "privacy"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.reg.RotateKey(ctx, registry.CredentialPurpose); err != nil {
		t.Fatal(err)
	}
	must[*registry.Minted](t)(w.reg.Mint(ctx, author.Agent, []byte(townBody(4)), ""))
	return before
}

func (w *town) monitor() *Monitor {
	w.t.Helper()
	c := must[*client.Client](w.t)(client.New(client.Options{URL: w.url}))
	m := &Monitor{Client: c, Dir: w.t.TempDir(), Now: w.clock, All: true, wait: func(context.Context, time.Duration) error { return nil }}
	w.t.Cleanup(func() { m.Close() })
	return m
}

// requests are all that a monitor asks when it compares everything.
func (m *Monitor) requests() []request {
	all := m.always()
	for _, target := range m.lists() {
		all = append(all, get(target))
	}
	for n := range m.mirror.StatusLists() {
		q := get(registry.StatusListAddress(n))
		q.check = func(ctx context.Context, a *client.Answer) (string, error) { return m.differsStatusList(ctx, n, a) }
		all = append(all, q)
	}
	return append(all, m.about(m.mirror.Everything())...)
}

// A step leads to a member: a name, or an item of a list.
type step struct {
	name string
	item bool
}

func at(path []step) string {
	var b strings.Builder
	for _, s := range path {
		if s.item {
			b.WriteString("[]")
		} else {
			b.WriteString("." + s.name)
		}
	}
	return strings.TrimPrefix(b.String(), ".")
}

// members lists the members that a schema describes.
func members(schema map[string]any, components map[string]any, prefix []step, depth int, into map[string][]step) {
	if depth == 0 {
		return
	}
	if ref, ok := schema["$ref"].(string); ok {
		named, _ := components[strings.TrimPrefix(ref, "#/components/schemas/")].(map[string]any)
		members(named, components, prefix, depth, into)
	}
	for _, several := range []string{"oneOf", "allOf", "anyOf"} {
		list, _ := schema[several].([]any)
		for _, one := range list {
			if s, ok := one.(map[string]any); ok {
				members(s, components, prefix, depth, into)
			}
		}
	}
	if properties, ok := schema["properties"].(map[string]any); ok {
		for name, sub := range properties {
			path := append(slices.Clone(prefix), step{name: name})
			into[at(path)] = path
			if s, ok := sub.(map[string]any); ok {
				members(s, components, path, depth-1, into)
			}
		}
	}
	if items, ok := schema["items"].(map[string]any); ok {
		path := append(slices.Clone(prefix), step{item: true})
		into[at(path)] = path
		members(items, components, path, depth-1, into)
	}
}

// present lists the members that a document has.
func present(v any, prefix []step, depth int, into map[string][]step) {
	if depth == 0 {
		return
	}
	switch v := v.(type) {
	case map[string]any:
		for name, sub := range v {
			path := append(slices.Clone(prefix), step{name: name})
			into[at(path)] = path
			present(sub, path, depth-1, into)
		}
	case []any:
		path := append(slices.Clone(prefix), step{item: true})
		if len(v) > 0 {
			into[at(path)] = path
		}
		for _, sub := range v {
			present(sub, path, depth-1, into)
		}
	}
}

// edited changes the first member at a path with a function that reports whether it
// did.
func edited(v any, path []step, do func(parent any, last step) (any, bool)) (any, bool) {
	if len(path) == 1 {
		return do(v, path[0])
	}
	switch v := v.(type) {
	case map[string]any:
		if sub, there := v[path[0].name]; there && !path[0].item {
			changed, ok := edited(sub, path[1:], do)
			v[path[0].name] = changed
			return v, ok
		}
	case []any:
		for i := range v {
			if !path[0].item {
				break
			}
			changed, ok := edited(v[i], path[1:], do)
			v[i] = changed
			if ok {
				return v, true
			}
		}
	}
	return v, false
}

// another is a value of the same type that differs.
func another(v any) any {
	switch v := v.(type) {
	case string:
		if v == "" {
			return "x"
		}
		runes := []rune(v)
		if runes[len(runes)-1] == 'a' {
			return string(runes[:len(runes)-1]) + "b"
		}
		return string(runes[:len(runes)-1]) + "a"
	case json.Number:
		if v.String() == "1" {
			return json.Number("2")
		}
		return json.Number("1")
	case bool:
		return !v
	case map[string]any:
		return map[string]any{"other": true}
	case []any:
		return append(slices.Clone(v), "other")
	}
	return "other"
}

var ways = map[string]func(parent any, last step) (any, bool){
	"changed": func(parent any, last step) (any, bool) {
		switch p := parent.(type) {
		case map[string]any:
			if v, there := p[last.name]; there && !last.item {
				p[last.name] = another(v)
				return p, true
			}
		case []any:
			if last.item && len(p) > 0 {
				p[len(p)-1] = another(p[len(p)-1])
				return p, true
			}
		}
		return parent, false
	},
	"dropped": func(parent any, last step) (any, bool) {
		switch p := parent.(type) {
		case map[string]any:
			if _, there := p[last.name]; there && !last.item {
				delete(p, last.name)
				return p, true
			}
		case []any:
			if last.item && len(p) > 0 {
				return p[:len(p)-1], true
			}
		}
		return parent, false
	},
	// A member that was not there: one that the schema has, or beside one that is there.
	"invented": func(parent any, last step) (any, bool) {
		switch p := parent.(type) {
		case map[string]any:
			if last.item {
				break
			}
			if _, there := p[last.name]; there {
				p[last.name+"Too"] = "invented"
			} else {
				p[last.name] = "invented"
			}
			return p, true
		case []any:
			if last.item && len(p) > 0 {
				return append(p, p[0]), true
			}
		}
		return parent, false
	},
}

// A falsehood makes a false body of an honest one, if it can be told of it.
type falsehood struct {
	member, way string
	tell        func(body []byte) ([]byte, bool)
}

func jsonLies(t testing.TB, honest []byte, schema map[string]any, components map[string]any) []falsehood {
	var doc any
	decoder := json.NewDecoder(bytes.NewReader(honest))
	decoder.UseNumber()
	if err := decoder.Decode(&doc); err != nil {
		return nil
	}
	paths := map[string][]step{}
	depth := 4
	if schema["$ref"] == "#/components/schemas/AnyObject" {
		depth = 2 // documents of the program, alike all the way down
	}
	present(doc, nil, depth, paths)
	members(schema, components, nil, 5, paths)
	var all []falsehood
	for _, name := range slices.Sorted(maps.Keys(paths)) {
		for _, way := range slices.Sorted(maps.Keys(ways)) {
			all = append(all, falsehood{name, way, func(body []byte) ([]byte, bool) {
				var v any
				d := json.NewDecoder(bytes.NewReader(body))
				d.UseNumber()
				if d.Decode(&v) != nil {
					return nil, false
				}
				changed, ok := edited(v, paths[name], ways[way])
				if !ok {
					return nil, false
				}
				text, err := canon.Marshal(changed)
				if err != nil {
					t.Fatal(err)
				}
				if bytes.HasSuffix(body, []byte("\n")) {
					text = append(text, '\n')
				}
				return text, !bytes.Equal(text, body)
			}})
		}
	}
	return all
}

func byteLies() []falsehood {
	lie := func(way string, tell func([]byte) []byte) falsehood {
		return falsehood{"the bytes", way, func(body []byte) ([]byte, bool) {
			if len(body) == 0 {
				return nil, false
			}
			return tell(bytes.Clone(body)), true
		}}
	}
	return []falsehood{
		lie("changed", func(b []byte) []byte { b[len(b)/2] ^= 1; return b }),
		lie("dropped", func(b []byte) []byte { return b[:len(b)-1] }),
		lie("invented", func(b []byte) []byte { return append(b, b[0]) }),
		lie("emptied", func([]byte) []byte { return nil }),
	}
}

// A tally counts the lies of a route.
type liesTold struct{ tried, found, excepted int }

// tellLies tells every lie of every route, one at a time, and counts those that the
// monitor finds.
func tellLies(t *testing.T, w *town, wanted func(web.Follows) bool) map[string]*liesTold {
	ctx := context.Background()
	m := w.monitor()
	report, err := m.Once(ctx)
	if err != nil {
		t.Fatalf("an honest registry: %v\n%+v", err, report)
	}
	t.Logf("%d answers are the same", report.Answers)
	var spec struct {
		Paths map[string]map[string]struct {
			ID        string `json:"operationId"`
			Responses map[string]struct {
				Content map[string]struct {
					Schema map[string]any `json:"schema"`
				} `json:"content"`
			} `json:"responses"`
		} `json:"paths"`
		Components struct {
			Schemas map[string]any `json:"schemas"`
		} `json:"components"`
	}
	a := must[*client.Answer](t)(m.Client.Get(ctx, "/openapi.json"))
	if err := json.Unmarshal(a.Body, &spec); err != nil {
		t.Fatal(err)
	}
	schemas := map[string]map[string]any{}
	for _, methods := range spec.Paths {
		for _, op := range methods {
			for _, c := range op.Responses["200"].Content {
				if c.Schema != nil {
					schemas[op.ID] = c.Schema
				}
			}
		}
	}
	counted := map[string]*liesTold{}
	told := map[string]bool{}
	for _, q := range m.requests() {
		r := must[*http.Request](t)(http.NewRequest(q.method, w.url+q.target, nil))
		f, known := m.honest.FollowsOf(r)
		if !known {
			t.Fatalf("%s %s has no route", q.method, q.target)
		}
		if !wanted(f) {
			continue
		}
		honest := must[*client.Answer](t)(m.ask(ctx, q))
		if honest.Status != http.StatusOK && f.Route != "vcVerify" {
			continue // an error has a request id
		}
		if counted[f.Route] == nil {
			counted[f.Route] = &liesTold{}
		}
		isJSON := strings.Contains(honest.Header.Get("Content-Type"), "json") || strings.Contains(honest.Header.Get("Content-Type"), "/vc")
		lies := byteLies()
		if isJSON && f.How != web.Verified || slices.Contains([]string{"statusList", "pageReceipt", "pageCheckpoint"}, f.Route) {
			lies = append(lies, jsonLies(t, honest.Body, schemas[f.Route], spec.Components.Schemas)...)
		}
		for _, lie := range lies {
			name := f.Route + " " + fmt.Sprint(q.page) + lie.member + " " + lie.way
			falsely, can := lie.tell(honest.Body)
			if told[name] || !can {
				continue
			}
			told[name] = true
			w.lie = func(method, target string, page bool, rec *httptest.ResponseRecorder) *httptest.ResponseRecorder {
				if method == q.method && target == q.target && page == q.page {
					rec.Body = bytes.NewBuffer(falsely)
				}
				return rec
			}
			found := w.found(ctx, m, q)
			w.lie = nil
			_, excepted := f.Except[lie.member]
			if excepted && lie.way == "changed" {
				counted[f.Route].excepted++
				continue
			}
			counted[f.Route].tried++
			if found {
				counted[f.Route].found++
			} else {
				t.Errorf("%s %s: %s is %s, and nothing is found", q.method, q.target, lie.member, lie.way)
			}
		}
	}
	entries := &liesTold{}
	counted["entries"] = entries
	for _, lie := range byteLies() {
		fresh := w.monitor()
		fresh.rowsOnly = true
		w.lie = func(_, target string, _ bool, rec *httptest.ResponseRecorder) *httptest.ResponseRecorder {
			if strings.HasPrefix(target, "/entries") {
				body, _ := lie.tell(rec.Body.Bytes())
				rec.Body = bytes.NewBuffer(body)
			}
			return rec
		}
		_, err := fresh.Once(ctx)
		w.lie = nil
		entries.tried++
		if err != nil && refusal.ExitCode(err) != 0 {
			entries.found++
		} else {
			t.Errorf("entries: %s, and nothing is found", lie.way)
		}
	}
	return counted
}

// found reports whether one request is enough to find a lie.
func (w *town) found(ctx context.Context, m *Monitor, q request) bool {
	report := &Report{}
	err := m.compareAnswer(ctx, q, report)
	return err != nil || len(report.Findings) > 0
}

func every(web.Follows) bool { return true }

// stored are the routes whose answers come out of a database.
func stored(f web.Follows) bool { return !strings.HasPrefix(f.From, "the program") }

// checkCounts wants every lie of every route to be found.
func checkCounts(t *testing.T, counted map[string]*liesTold, wanted func(web.Follows) bool) {
	for _, f := range web.AllFollows() {
		c := counted[f.Route]
		checked := (f.How == web.Computed || f.How == web.Verified) && wanted(f)
		switch {
		case checked && (c == nil || c.tried < 4):
			t.Errorf("%s %s: no lie was told about it", f.Method, f.Path)
		case c != nil && c.tried != c.found:
			t.Errorf("%s %s: %d of %d lies are found", f.Method, f.Path, c.found, c.tried)
		}
	}
}

// Every lie about every member of every route alarms, and the table in the page says
// how many there were.
func TestEveryLieOfEveryRouteIsFound(t *testing.T) {
	w := newTown(t, "")
	before := w.populate()
	counted := tellLies(t, w, every)
	checkCounts(t, counted, every)
	writeTable(t, counted)

	// The list from before a revocation was signed by the issuer, and is still in force.
	w.lie = func(_, target string, _ bool, rec *httptest.ResponseRecorder) *httptest.ResponseRecorder {
		if target == "/credentials/status/0" {
			rec.Body = bytes.NewBuffer(before)
		}
		return rec
	}
	m := w.monitor()
	report, err := m.Once(context.Background())
	if !refusal.Is(err, refusal.RegistryMismatch) || refusal.ExitCode(err) != 3 || !slices.ContainsFunc(report.Findings, func(f Finding) bool {
		return f.Name == AnswerDiffers && strings.Contains(f.Detail, "/credentials/status/0")
	}) {
		t.Errorf("a status list rolled back: %v\n%+v", err, report)
	}
}

func TestEveryLieOfAReplicaIsFound(t *testing.T) {
	w := newTown(t, "")
	w.populate()
	w.readOnly(filepath.Join(w.dir, "registry.db"))
	checkCounts(t, tellLies(t, w, stored), stored)
}

func TestEveryLieOnPostgreSQLIsFound(t *testing.T) {
	db := pgtest.Database(t)
	w := newTown(t, db)
	w.populate()
	checkCounts(t, tellLies(t, w, stored), stored)
	w.readOnly(db)
	checkCounts(t, tellLies(t, w, stored), stored)
}

// A registry without a public URL answers with where it listens, which may be spelled
// otherwise than where it was reached; it cannot answer with the address of another.
func TestARegistryWithoutANameIsComparedToo(t *testing.T) {
	w := newTown(t, "")
	w.reg.Close()
	settings := filepath.Join(w.dir, "registry.yaml")
	text := must[[]byte](t)(os.ReadFile(settings))
	var kept []string
	for line := range strings.SplitSeq(string(text), "\n") {
		if !strings.HasPrefix(line, "public_url:") {
			kept = append(kept, line)
		}
	}
	if err := os.WriteFile(settings, []byte(strings.Join(kept, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	w.reg = must[*registry.Registry](t)(registry.Open(context.Background(), registry.Options{Dir: w.dir, Now: w.clock}))
	t.Cleanup(func() { w.reg.Close() })
	for public, honest := range map[string]bool{
		strings.Replace(w.url, "127.0.0.1", "localhost", 1): true, strings.Replace(w.url, "127.0.0.1", "[::]", 1): true, w.url: true,
		"http://evil.example": false, w.url + "/below": false,
	} {
		w.server = must[*web.Server](t)(web.New(web.Config{Writer: w.reg, PublicURL: public, Now: w.clock}))
		report, err := w.monitor().Once(context.Background())
		if honest != (err == nil) {
			t.Errorf("%s: %v\n%+v", public, err, report)
		}
	}
}

// A monitor that stays and one that begins again each time come to the same, while the
// registry is written to.
func TestAnHonestRegistryThatGrowsHasNoFindings(t *testing.T) {
	w := newTown(t, "")
	w.populate()
	ctx := context.Background()
	m := w.monitor()
	m.All, m.wait = false, nil
	if _, err := m.Once(ctx); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var writing sync.WaitGroup
	writing.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
				w.register()
			}
		}
	})
	for range 3 {
		report, err := m.Once(ctx)
		if err != nil {
			t.Errorf("%v\n%+v", err, report)
		}
	}
	close(stop)
	writing.Wait()
	again := &Monitor{Client: m.Client, Dir: m.Dir, Now: w.clock}
	m.Close()
	defer again.Close()
	report, err := again.Once(ctx)
	if err != nil || report.Answers == 0 || len(report.Routes) == 0 {
		t.Errorf("begun again: %v\n%+v", err, report)
	}
}

// An answer must name a tree that was signed, and never an older one than before.
func TestAnswersNameTheirTree(t *testing.T) {
	w := newTown(t, "")
	w.populate()
	m := w.monitor()
	if _, err := m.Once(context.Background()); err != nil {
		t.Fatal(err)
	}
	for name, size := range map[string]string{"none": "", "not a number": "many", "one that is not signed": "100000", "an old one": "3"} {
		w.lie = func(_, target string, _ bool, rec *httptest.ResponseRecorder) *httptest.ResponseRecorder {
			if target == "/openapi.json" {
				rec.Header().Set(web.TreeSizeHeader, size)
			}
			return rec
		}
		if !w.found(context.Background(), m, get("/openapi.json")) {
			t.Errorf("%s: nothing is found", name)
		}
	}
}

// A text that an entry names and the registry does not give is told, unless an entry
// took it down.
func TestATextThatIsHiddenIsFound(t *testing.T) {
	w := newTown(t, "")
	w.populate()
	w.lie = func(_, target string, _ bool, rec *httptest.ResponseRecorder) *httptest.ResponseRecorder {
		if strings.HasPrefix(target, "/blob/") {
			gone := httptest.NewRecorder()
			maps.Copy(gone.Header(), rec.Header())
			gone.WriteHeader(http.StatusNotFound)
			gone.Body.WriteString(`{"error":"x","name":"NotFound","requestId":"x"}`)
			return gone
		}
		return rec
	}
	m := w.monitor()
	report, err := m.Once(context.Background())
	if err == nil {
		t.Errorf("%+v", report)
	}
}

const registryPage = "../../../../docs/registry.md"

// writeTable holds the table of routes in docs/registry.md to what was tried.
func writeTable(t *testing.T, counted map[string]*liesTold) {
	t.Helper()
	var b strings.Builder
	b.WriteString("| Route | Follows from | | Lies tried | found |\n|---|---|---|---|---|\n")
	for _, f := range web.AllFollows() {
		how := string(f.How)
		for _, name := range slices.Sorted(maps.Keys(f.Except)) {
			how += "; not the value of `" + name + "`, which " + f.Except[name]
		}
		tried, found := "", ""
		if c := counted[f.Route]; c != nil {
			tried, found = fmt.Sprint(c.tried), fmt.Sprint(c.found)
		}
		fmt.Fprintf(&b, "| `%s %s` | %s | %s | %s | %s |\n", f.Method, f.Path, f.From, how, tried, found)
	}
	file := must[*os.File](t)(os.Open(registryPage))
	data := must[[]byte](t)(io.ReadAll(file))
	file.Close()
	begin, end := "<!-- routes: go test ./internal/serve/registry/monitor -run EveryLieOfEveryRoute -update -->\n", "<!-- end of the routes -->"
	before, rest, ok := strings.Cut(string(data), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the table of routes", registryPage)
	}
	text := before + begin + b.String() + end + after
	if text == string(data) {
		return
	}
	if !*update {
		t.Fatalf("%s is not what was tried; run \"go test ./internal/serve/registry/monitor -run EveryLieOfEveryRoute -update\" and read the diff", registryPage)
	}
	if err := os.WriteFile(registryPage, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
