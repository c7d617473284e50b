package harness

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/sequencer"
	"tallystick/internal/record/store"
	"tallystick/internal/run/agent"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/scenario"
	"tallystick/internal/run/session"
)

// A place is a workspace for one test: a bench that needs no signatures, the
// built-in target, and a ledger.
type place struct {
	t    testing.TB
	dir  string
	led  sequencer.Config
	key  *seal.Key
	now  time.Time
	tick time.Duration // by which each look at the clock moves it
	mu   sync.Mutex
}

const plainTarget = "version: 1\nkind: builtin\nbuiltin: {model: m, api: openai.chat}\n"

const registration = `version: 1
class: sums
trust: scratch
current_tier: bronze
limits: {wall_clock_seconds: 60, memory_bytes: 1073741824, turns: 100, tokens: 1000000, cost_microdollars: 1000000}
governance: autonomous
isolation: {classes: [gvisor], scope: case, allow_weaker: false}
judged_scores_count: false
`

// newPlace makes a workspace whose class has these dataset lines.
func newPlace(t testing.TB, lines ...string) *place {
	t.Helper()
	p := &place{t: t, dir: t.TempDir(), now: time.Date(2026, 5, 1, 9, 0, 0, 0, time.UTC), tick: time.Millisecond}
	var err error
	if p.key, err = seal.NewKey(bytes.NewReader(bytes.Repeat([]byte{1}, ed25519.SeedSize))); err != nil {
		t.Fatal(err)
	}
	var dataset bytes.Buffer
	for _, l := range lines {
		dataset.WriteString(l + "\n")
	}
	p.write("bench/sums/registration.yaml", registration)
	p.write("bench/sums/dataset.jsonl", dataset.String())
	p.write("targets/default.yaml", plainTarget)
	signers, err := seal.Compose(1, digest.ID{}, []seal.Entry{{Principals: "olga@example.com", Key: p.key.Public(), Roles: []seal.Role{seal.Operator}}})
	if err != nil {
		t.Fatal(err)
	}
	p.led = sequencer.Config{Place: sequencer.Place{FS: store.OS{}, Dir: filepath.Join(p.dir, "ledger"), StateDir: filepath.Join(p.dir, "state")},
		Origin: "example.com/evals", TrustRoot: digest.IDOf(signers), Key: p.key, Now: p.clock}
	if err := os.MkdirAll(p.led.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := sequencer.Create(context.Background(), p.led, signers)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *place) clock() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now = p.now.Add(p.tick)
	return p.now
}

func (p *place) write(name, text string) {
	p.t.Helper()
	file := filepath.Join(p.dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// A setup is all that a run of the class has, for a test to change.
type setup struct {
	Config
	Books
}

// config is what every run of the class has, without a ledger.
func (p *place) config() (setup, error) {
	p.t.Helper()
	root, err := os.OpenRoot(p.dir)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { root.Close() })
	v, err := bench.Verify(root, "sums", bench.Options{Now: p.clock()})
	if err != nil {
		return setup{}, err
	}
	targets, err := agent.LoadAll(root, "default")
	if err != nil {
		return setup{}, err
	}
	return setup{Config: Config{Spec: Spec{Class: "sums", Version: "test"}, Bench: v, Target: targets[0], Now: p.clock}}, nil
}

// run runs an attempt, with what change makes of its config.
func (p *place) run(ctx context.Context, change func(*setup)) (*Summary, error) {
	p.t.Helper()
	s, err := p.config()
	if err != nil {
		return nil, err
	}
	s.Operator = digest.IDOf([]byte("olga"))
	s.Books = Books{Past: &Past{}, Origin: p.led.Origin, Key: p.key, Packs: filepath.Join(p.dir, "evidence", "packs"), Runs: filepath.Join(p.dir, "runs")}
	led := p.led
	led.Visit = s.Past.Visit
	l, err := sequencer.Open(context.Background(), led)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	s.Ledger = onDisk{l}
	if change != nil {
		change(&s)
	}
	return Run(ctx, s.Config, s.Books)
}

// onDisk is a ledger without witnesses and without published anchors.
type onDisk struct{ *sequencer.Ledger }

func (l onDisk) Head() digest.ID               { return l.Tip().Head }
func (l onDisk) Cosign(context.Context) error  { return nil }
func (l onDisk) Publish(context.Context) error { return nil }

// rehearse drives the class without recording anything.
func (p *place) rehearse(change func(*setup), visit func(*Graded) error) error {
	p.t.Helper()
	s, err := p.config()
	if err != nil {
		return err
	}
	change(&s)
	return Rehearse(context.Background(), s.Config, visit)
}

// watching is progress that a test looks at.
type watching func(Result)

func (w watching) Recorded(r Result) { w(r) }

// answering is a person who always has an answer.
type answering func(caseID string, q session.Question) bool

func (a answering) Approve(_ context.Context, caseID string, q session.Question) (approve, answered bool, err error) {
	return a(caseID, q), true, nil
}

// playing is a live side that a test plays.
type playing func(*scenario.Task) (Recording, error)

func (p playing) Case(c *scenario.Task, _ Job) (Recording, error) { return p(c) }
func (playing) Redactor() *cassette.Redactor                      { return nil }

// records verifies the ledger and lists its records of some kinds.
func (p *place) records(kinds ...evidence.Kind) []ledger.Record {
	p.t.Helper()
	var out []ledger.Record
	_, err := p.led.Verify(ledger.Options{Origin: p.led.Origin, TrustRoot: p.led.TrustRoot, Decode: true, Visit: func(r ledger.Record) error {
		for _, k := range kinds {
			if r.Envelope.Kind == k {
				out = append(out, r)
			}
		}
		return nil
	}})
	if err != nil {
		p.t.Fatal(err)
	}
	return out
}

// sum is a dataset line: a question, what the authored model answers, and what
// is right.
func sum(i int, answer string) string {
	return fmt.Sprintf(`{"id":"case-%06d","input":"What is %d plus %d?","tags":["sum"],"model":[{"text":"%s"}],"expected":"%d","grade":{"kind":"exact"}}`, i, i, i, answer, 2*i)
}

func sums(n int) []string {
	lines := make([]string, n)
	for i := range lines {
		lines[i] = sum(i, fmt.Sprint(2*i))
	}
	return lines
}
