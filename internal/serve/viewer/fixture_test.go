package viewer

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"tallystick/internal/app/ceremony"
	"tallystick/internal/app/lab"
	"tallystick/internal/read/dossier"
	"tallystick/internal/run/harness"
)

const registration = `version: 1
class: %s
trust: scratch
current_tier: bronze
gates: [{tag: "*", metric: solve_rate, threshold: 0.1}]
limits: {wall_clock_seconds: 60, memory_bytes: 1073741824, turns: 5, tokens: 10000000, cost_microdollars: 1000000}
governance: autonomous
isolation: {classes: [gvisor], scope: case, allow_weaker: false}
judged_scores_count: false
`

// secret is what the held-out case asks and what it wants.
const secret = "THE-HELD-OUT-ANSWER"

// hostile are texts that an agent might say, and what of them must never be in a
// page as it is.
var hostile = map[string][]string{
	"script":   {"<script>alert(1)</script>", "<script>alert"},
	"svg":      {"<svg onload=alert(2)></svg><img src=x onerror=alert(3)>", "<svg onload", "<img src=x"},
	"close":    {"</pre></li></ol><h1>forged</h1>", "<h1>forged"},
	"link":     {"[click](javascript:alert(4)) <a href=\"javascript:alert(5)\">x</a>", "href=\"javascript"},
	"bidi":     {"abc\u202etxt.exe\u2066\u200b", "\u202e", "\u2066", "\u200b"},
	"terminal": {"\x1b[31mred\x1b]0;title\a\x00", "\x1b", "\x07"},
	"long":     {strings.Repeat("x", 900_000)},
}

// world is that of tests: nothing of the machine but its clock.
func world(t testing.TB, vars map[string]string) dossier.World {
	return dossier.World{Getenv: func(name string) string { return vars[name] }, Now: func() time.Time { return time.Now().UTC() }, Note: func(string, ...any) {}}
}

// A shop is a workspace with attempts of every kind: the suites that come with the
// program, which have every type of event that the harness makes, and a class of
// hostile and held-out cases.
type shop struct {
	dir  string
	vars map[string]string
}

var makeShop = sync.OnceValues(func() (*shop, error) {
	dir, err := os.MkdirTemp("", "viewer")
	if err != nil {
		return nil, err
	}
	s := &shop{dir: filepath.Join(dir, "w"), vars: map[string]string{"XDG_STATE_HOME": filepath.Join(dir, "state"), "HOME": dir}}
	if _, err := ceremony.Init(context.Background(), ceremony.InitOptions{Dir: s.dir, Operator: "operator@local"}, world(nil, s.vars)); err != nil {
		return nil, err
	}
	if err := s.write("targets/default.yaml", "version: 1\nkind: builtin\nbuiltin: {model: fake-1, api: openai.chat, max_output_tokens: 100, retries: 0}\n"); err != nil {
		return nil, err
	}
	if err := s.hostileClass(); err != nil {
		return nil, err
	}
	for _, run := range [][2]string{{"hostile", "default"}, {"builtin:adversarial", "mitigated"}, {"builtin:adversarial", "vulnerable"}, {"builtin:long-horizon", "forgetful"}, {"hostile", "default"}} {
		if err := s.run(run[0], run[1]); err != nil {
			return nil, fmt.Errorf("%s by %s: %w", run[0], run[1], err)
		}
	}
	return s, nil
})

func (s *shop) hostileClass() error {
	var lines strings.Builder
	for name, texts := range hostile {
		lines.WriteString(line(map[string]any{"id": "hostile-" + name, "input": texts[0][:min(len(texts[0]), 1000)], "model": []any{map[string]any{"text": texts[0]}}, "expected": "nothing of the kind", "tags": []string{name}, "grade": map[string]any{"kind": "exact"}}))
	}
	lines.WriteString(line(map[string]any{"id": "kept-secret", "held_out": true, "input": "What is " + secret + "?", "model": []any{map[string]any{"text": "not " + secret}}, "expected": secret, "grade": map[string]any{"kind": "exact"}}))
	lines.WriteString(line(map[string]any{"id": "plain-one", "input": "What is 1 plus 1?", "model": []any{map[string]any{"text": "2"}}, "expected": "2", "grade": map[string]any{"kind": "exact"}}))
	if err := s.write("bench/hostile/registration.yaml", fmt.Sprintf(registration, "hostile")); err != nil {
		return err
	}
	return s.write("bench/hostile/dataset.jsonl", lines.String())
}

func line(v any) string {
	data, _ := json.Marshal(v)
	return string(data) + "\n"
}

func (s *shop) write(name, text string) error {
	file := filepath.Join(s.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(text), 0o644)
}

func (s *shop) run(class, target string) error {
	p, err := dossier.Open(s.dir, world(nil, s.vars))
	if err != nil {
		return err
	}
	c, err := p.OpenCorpus()
	if err != nil {
		return err
	}
	defer c.Close()
	setup, err := lab.New(c, harness.Spec{Class: class, Targets: []string{target}, Version: "test"})
	if err != nil {
		return err
	}
	_, err = setup.Run(context.Background(), harness.Parties{}, nil)
	return err
}

func TestMain(m *testing.M) {
	code := m.Run()
	if s, err := makeShop(); err == nil {
		os.RemoveAll(filepath.Dir(s.dir))
	}
	os.Exit(code)
}

// open shows the shop.
func openShop(t *testing.T) *Viewer {
	t.Helper()
	s, err := makeShop()
	if err != nil {
		t.Fatal(err)
	}
	p, err := dossier.Open(s.dir, world(t, s.vars))
	if err != nil {
		t.Fatal(err)
	}
	v, err := Open(Config{Place: p})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	return v
}

// get asks a viewer, without a door before it.
func get(t *testing.T, h http.Handler, path string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	return w
}
