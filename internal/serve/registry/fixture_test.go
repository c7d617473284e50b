package registry

import (
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/testing/pgtest"
)

// A world is a registry in a temporary folder, at a clock that the test moves.
type world struct {
	*Registry
	t   testing.TB
	dir string
	db  string

	mu  sync.Mutex
	now time.Time
}

// postgres says that the tests run on PostgreSQL.
var postgres bool

// TestMain runs every test twice: on SQLite, and on a real PostgreSQL, whose tests
// skip where there is none.
func TestMain(m *testing.M) {
	code := m.Run()
	if code == 0 {
		postgres = true
		fmt.Println("the same tests on PostgreSQL:")
		code = pgtest.Main(m)
	}
	os.Exit(code)
}

func newWorld(t testing.TB, change func(*Settings)) *world {
	t.Helper()
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	db := ""
	if postgres {
		db = pgtest.Database(t)
	}
	w := &world{t: t, dir: filepath.Join(t.TempDir(), "registry"), db: db, now: time.Now().UTC().Truncate(time.Second)}
	s := Default()
	s.Origin, s.Operator, s.Judges, s.Quorum, s.PublicURL = "registry.example/log", "olga", 0, 0, "https://registry.example"
	if change != nil {
		change(&s)
	}
	if _, err := Init(context.Background(), w.dir, s); err != nil {
		t.Fatal(err)
	}
	w.open()
	t.Cleanup(func() { w.Registry.Close() })
	return w
}

func (w *world) options() Options {
	return Options{Dir: w.dir, DB: w.db, Now: w.clock}
}

func (w *world) open() {
	w.t.Helper()
	r, err := Open(context.Background(), w.options())
	if err != nil {
		w.t.Fatal(err)
	}
	w.Registry = r
}

func (w *world) reopen() {
	w.t.Helper()
	if err := w.Close(); err != nil {
		w.t.Fatal(err)
	}
	w.open()
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

func (w *world) tick() {
	w.t.Helper()
	if err := w.Tick(context.Background()); err != nil {
		w.t.Fatal(err)
	}
}

// A member is an agent with its keys.
type member struct {
	*Agent
	apiKey string
	key    ed25519.PrivateKey
}

func (w *world) register() *member {
	w.t.Helper()
	got, err := w.Register(context.Background(), SignUp{Profile: []byte(`{"name":"an agent"}`)})
	if err != nil {
		w.t.Fatal(err)
	}
	seed, err := hex.DecodeString(got.PrivateKey)
	if err != nil {
		w.t.Fatal(err)
	}
	return &member{&got.Agent, got.APIKey, ed25519.NewKeyFromSeed(seed)}
}

const (
	modelPath   = "/artifacts/models/meta-llama/Llama-3.1-70B-Instruct"
	harnessPath = "/artifacts/eval-harnesses/lm-eval-harness/v0.4.5"
	datasetPath = "/artifacts/datasets/mmlu-pro"
)

func (w *world) propose(a *member, thing Thing, body string) *Proposal {
	w.t.Helper()
	p, err := w.Propose(context.Background(), a.Agent, thing, []byte(body), "")
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

// publishPaths puts a model, a harness and a dataset into the catalogue.
func (w *world) publishPaths(a *member) {
	w.t.Helper()
	for thing, path := range map[Thing]string{Model: modelPath, EvalHarness: harnessPath, Dataset: datasetPath} {
		w.propose(a, thing, fmt.Sprintf(`{"path":%q,"description":"x"}`, path))
	}
}

func evalBody(accuracy float64) string {
	return fmt.Sprintf(`{"artifactPath":%q,"evalHarnessPath":%q,"datasetPath":%q,"metrics":{"accuracy":%g},"runDetails":{"runner":"lm-eval-harness","seed":42}}`,
		modelPath, harnessPath, datasetPath, accuracy)
}

func (w *world) sign(m *member, j Judgement) Judgement {
	w.t.Helper()
	message, err := w.JudgementMessage(context.Background(), j)
	if err != nil {
		w.t.Fatal(err)
	}
	j.Signature = seal.EncodeMultibase(ed25519.Sign(m.key, message))
	return j
}

func (w *world) vote(m *member, proposal, verdict string) (*Proposal, error) {
	w.t.Helper()
	return w.Judge(context.Background(), m.Agent, w.sign(m, Judgement{Proposal: proposal, Verdict: verdict}))
}

func wantRefusal(t testing.TB, err error, name refusal.Name, words ...string) {
	t.Helper()
	if !refusal.Is(err, name) {
		t.Errorf("refused as %v, expected %s", err, name)
		return
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("the refusal %q does not say %q", err, word)
		}
	}
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

func writeFile(t testing.TB, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// noneHas looks for texts in every file of the registry.
func noneHas(t testing.TB, dir string, texts ...string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(name)
		for _, text := range texts {
			if strings.Contains(string(data), text) {
				t.Errorf("%s has %.30q", name, text)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
