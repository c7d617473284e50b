package web

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"tallystick/internal/serve/registry"
)

// base is the public URL of registries in tests. No server listens there.
const base = "https://r.example"

// A place is a registry with a server in front of it, whose every answer is
// compared with the OpenAPI document.
type place struct {
	t   testing.TB
	dir string
	reg *registry.Registry
	web *Server
	h   http.Handler
	log *lockedBuffer
	d   *description

	mu  sync.Mutex
	now time.Time
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func newPlace(t testing.TB, change func(dir string, s *registry.Settings)) *place {
	t.Helper()
	p := &place{t: t, dir: filepath.Join(t.TempDir(), "registry"), log: &lockedBuffer{}, now: time.Now().Add(time.Minute)} // entries never go back in time
	s := registry.Default()
	s.Origin, s.Operator, s.PublicURL, s.Judges, s.Quorum = "registry.test/log", "olga", base, 0, 0
	s.IssueDocuments = true
	s.RatePerMinute, s.ReadsPerMinute, s.RegistersPerHour = 1_000_000, 1_000_000, 1_000_000
	if change != nil {
		change(p.dir, &s)
	}
	state := t.TempDir()
	t.Setenv("XDG_STATE_HOME", state)
	ctx := context.Background()
	if _, err := registry.Init(ctx, p.dir, s); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewJSONHandler(p.log, nil))
	var err error
	if p.reg, err = registry.Open(ctx, registry.Options{Dir: p.dir, Now: p.clock, Log: log}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.reg.Close() })
	p.web, err = New(Config{Writer: p.reg, PublicURL: base, Log: log, Now: p.clock,
		WritesPerMinute: s.RatePerMinute, ReadsPerMinute: s.ReadsPerMinute, RegistersPerHour: s.RegistersPerHour})
	if err != nil {
		t.Fatal(err)
	}
	p.d = readDescription(t, p.web.spec)
	p.h = described(t, p.web, p.d)
	t.Cleanup(func() { remember(p.d) })
	return p
}

// clock moves a little with each look, as a clock does.
func (p *place) clock() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now = p.now.Add(time.Millisecond)
	return p.now
}

func (p *place) later(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now = p.now.Add(d)
}

// An answer is what came back.
type answer struct {
	t testing.TB
	*httptest.ResponseRecorder
}

func (p *place) get(target string, headers ...string) answer {
	return answer{p.t, ask(p.h, "GET", target, "", headers...)}
}

func (p *place) post(target, key, body string, headers ...string) answer {
	if key != "" {
		headers = append(headers, "Authorization", "Bearer "+key)
	}
	return answer{p.t, ask(p.h, "POST", target, body, headers...)}
}

// is wants a status.
func (a answer) is(status int) answer {
	a.t.Helper()
	if a.Code != status {
		a.t.Fatalf("answered %d, want %d: %s", a.Code, status, a.Body)
	}
	return a
}

// has wants a member, by a path of names with dots, and gives it as text.
func (a answer) has(path string) string {
	a.t.Helper()
	var v any
	if err := json.Unmarshal(a.Body.Bytes(), &v); err != nil {
		a.t.Fatalf("%v: %s", err, a.Body)
	}
	for name := range strings.SplitSeq(path, ".") {
		switch w := v.(type) {
		case map[string]any:
			v = w[name]
		case []any:
			i := 0
			if fmt.Sscan(name, &i); i >= len(w) {
				a.t.Fatalf("no %s in %s", path, a.Body)
			}
			v = w[i]
		}
	}
	if v == nil {
		a.t.Fatalf("no %s in %s", path, a.Body)
	}
	if text, ok := v.(string); ok {
		return text
	}
	text, _ := json.Marshal(v)
	return string(text)
}

// A member is an agent with its keys.
type member struct {
	id, key string
	private ed25519.PrivateKey
}

func (p *place) register() member {
	p.t.Helper()
	a := p.post("/api/agent/v1/register", "", `{"profile":{"name":"a test"}}`).is(201)
	seed, err := hex.DecodeString(a.has("privateKey"))
	if err != nil {
		p.t.Fatal(err)
	}
	return member{a.has("agent"), a.has("apiKey"), ed25519.NewKeyFromSeed(seed)}
}

const (
	modelPath   = "/artifacts/models/acme/tiny"
	harnessPath = "/artifacts/eval-harnesses/lm-eval-harness/v0.4.5"
	datasetPath = "/artifacts/datasets/mmlu-pro"
)

// artifacts proposes what an eval needs.
func (p *place) artifacts(m member) {
	p.t.Helper()
	for kind, path := range map[string]string{"model": modelPath, "eval-harness": harnessPath, "dataset": datasetPath} {
		if got := p.post("/api/knowledge/"+kind+"/propose", m.key, `{"path":"`+path+`"}`).is(201).has("status"); got != "published" {
			p.t.Fatalf("%s is %s", path, got)
		}
	}
}

func evalManifest(accuracy string) string {
	return `{"artifactPath":"` + modelPath + `","evalHarnessPath":"` + harnessPath + `","datasetPath":"` + datasetPath + `","metrics":{"accuracy":` + accuracy + `,"receipt":"/mine"},"runDetails":{"runner":"lm-eval-harness","seed":42}}`
}

// seenAnywhere has what the tests of this package saw, to find routes that none
// of them asked for.
var seenAnywhere = struct {
	sync.Mutex
	m map[string]map[int]bool
}{m: map[string]map[int]bool{}}

func remember(d *description) {
	d.mu.Lock()
	defer d.mu.Unlock()
	seenAnywhere.Lock()
	defer seenAnywhere.Unlock()
	for op, statuses := range d.seen {
		if seenAnywhere.m[op] == nil {
			seenAnywhere.m[op] = map[int]bool{}
		}
		for s := range statuses {
			seenAnywhere.m[op][s] = true
		}
	}
}

// TestMain wants every answer of the table that is not an error to have been seen,
// when all tests were run.
func TestMain(m *testing.M) {
	code := m.Run()
	if code == 0 && allTests() {
		for _, r := range routes() {
			for _, g := range r.gives {
				if g.status < 300 && !seenAnywhere.m[r.name][g.status] {
					fmt.Printf("no test saw %s %s answer %d\n", r.method, r.path, g.status)
					code = 1
				}
			}
		}
	}
	os.Exit(code)
}

func allTests() bool {
	for _, a := range os.Args[1:] {
		if strings.HasPrefix(a, "-test.run") || strings.HasPrefix(a, "-test.skip") || strings.HasPrefix(a, "-test.list") || strings.HasPrefix(a, "-test.fuzz") || strings.HasPrefix(a, "-test.bench") {
			return false
		}
	}
	return true
}

// entryBlob is the digest of the manifest that an entry names.
func (p *place) entryBlob(index string) string {
	p.t.Helper()
	a := p.get("/entries?n=1&from=" + index).is(200)
	var e struct{ Body struct{ Manifest string } }
	if err := json.Unmarshal(a.Body.Bytes(), &e); err != nil || e.Body.Manifest == "" {
		p.t.Fatalf("%v: %s", err, a.Body)
	}
	return e.Body.Manifest
}
