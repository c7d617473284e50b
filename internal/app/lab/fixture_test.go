package lab

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tallystick/internal/app/ceremony"
	"tallystick/internal/read/dossier"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/run/harness"
)

// A place is a workspace with a scratch class, cities, and the target default.
type place struct {
	t     *testing.T
	dir   string
	vars  map[string]string
	notes string // what a person was told
}

const registration = `version: 1
class: cities
trust: scratch
current_tier: bronze
gates: [{tag: "*", metric: solve_rate, threshold: 0.1}]
limits: {wall_clock_seconds: 60, memory_bytes: 1073741824, turns: 5, tokens: 100000, cost_microdollars: 1000000}
governance: autonomous
isolation: {classes: [gvisor], scope: case, allow_weaker: false}
judged_scores_count: false
`

func newPlace(t *testing.T) *place {
	t.Helper()
	p := &place{t: t, dir: filepath.Join(t.TempDir(), "w")}
	p.vars = map[string]string{"XDG_STATE_HOME": t.TempDir(), "HOME": t.TempDir(), "BENCH_KEY": "sk-bench-0123456789"}
	if _, err := ceremony.Init(context.Background(), ceremony.InitOptions{Dir: p.dir, Operator: "operator@local"}, p.world()); err != nil {
		t.Fatal(err)
	}
	p.write("bench/cities/registration.yaml", registration)
	p.write("targets/default.yaml", "version: 1\nkind: builtin\nbuiltin: {model: fake-1, api: openai.chat, max_output_tokens: 100, retries: 0}\n")
	return p
}

func (p *place) world() dossier.World {
	return dossier.World{
		Getenv: func(name string) string { return p.vars[name] },
		Now:    func() time.Time { return time.Now().UTC() },
		Note:   func(format string, args ...any) { p.notes += fmt.Sprintf(format, args...) + "\n" },
	}
}

func (p *place) dataset(lines ...string) {
	p.write("bench/cities/dataset.jsonl", strings.Join(lines, "\n")+"\n")
}

func (p *place) write(name, text string) {
	p.t.Helper()
	file := filepath.Join(p.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

func (p *place) open() *dossier.Place {
	p.t.Helper()
	w, err := dossier.Open(p.dir, p.world())
	if err != nil {
		p.t.Fatal(err)
	}
	return w
}

func (p *place) corpus() *dossier.Corpus {
	p.t.Helper()
	c, err := p.open().OpenCorpus()
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { c.Close() })
	return c
}

// setup is that of the class and the target, with what change makes of it.
func (p *place) setup(change func(*harness.Spec)) (*Setup, error) {
	p.t.Helper()
	spec := harness.Spec{Class: "cities", Version: "test"}
	if change != nil {
		change(&spec)
	}
	return New(p.corpus(), spec)
}

// run runs an attempt.
func (p *place) run(change func(*harness.Spec), with harness.Parties) (*RunResult, error) {
	p.t.Helper()
	s, err := p.setup(change)
	if err != nil {
		return nil, err
	}
	return s.Run(context.Background(), with, nil)
}

// visit verifies the ledger and shows its entries.
func (p *place) visit(see func(ledger.Record)) {
	p.t.Helper()
	if _, err := p.open().Verify(func(r ledger.Record) error { see(r); return nil }); err != nil {
		p.t.Fatal(err)
	}
}

// kinds lists the entries of a kind of the ledger that an attempt makes.
func (p *place) kinds() string {
	p.t.Helper()
	var out []string
	p.visit(func(r ledger.Record) {
		if r.Envelope.Kind != evidence.LedgerOpened {
			out = append(out, string(r.Envelope.Kind))
		}
	})
	return strings.Join(out, " ")
}

const norway = `{"id":"norway","input":"What is the capital of Norway?","model":[{"text":"Oslo"}],"grade":{"kind":"exact","expected":"Oslo"}}`
const sweden = `{"id":"sweden","input":"What is the capital of Sweden?","tags":["big"],"model":[{"text":"Gothenburg"}],"grade":{"kind":"exact","expected":"Stockholm"}}`
