package judge

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/seal"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/provider"
	"tallystick/internal/run/session"
	"tallystick/internal/run/wire"
	"tallystick/internal/testing/fakemodel"
)

func keyOf(t testing.TB, seed byte) *seal.Key {
	t.Helper()
	key, err := seal.NewKey(bytes.NewReader(bytes.Repeat([]byte{seed}, ed25519.SeedSize)))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

const chatSettings = "version: 1\nmodel: fake-1\napi: openai.chat\ntemperature: 0\n"

func settings(t testing.TB, text string) *Settings {
	t.Helper()
	s, err := ParseSettings("judge.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A court is a judge with a fake model, a cache and a ledger.
type court struct {
	t      testing.TB
	server *fakemodel.Server
	models session.Models
	dir    string
	key    *seal.Key
	set    *Settings
	now    time.Time
	at     func(wire.API) (evidence.Endpoint, bool)

	mu    sync.Mutex
	draws []Draw
	fail  error // of the ledger
}

func newCourt(t testing.TB, server *fakemodel.Server) *court {
	t.Helper()
	c := &court{t: t, server: server, dir: filepath.Join(t.TempDir(), "judge-cache"), key: keyOf(t, 1), set: settings(t, chatSettings),
		now: time.Date(2026, 5, 1, 9, 0, 0, 0, time.UTC)}
	if server != nil {
		c.models = liveModels(t, server)
	}
	return c
}

func liveModels(t testing.TB, server *fakemodel.Server) *provider.Live {
	t.Helper()
	prices := "\n  prices:\n    fake-1: {input: 1000000, output: 4000000}\n"
	s, err := provider.ParseSettings("providers.yaml", []byte(fmt.Sprintf("version: 1\nopenai:\n  base_url: %s\n  key_env: TEST_KEY%santhropic:\n  base_url: %s\n  key_env: TEST_KEY%s",
		server.OpenAI(), prices, server.Anthropic(), prices)))
	if err != nil {
		t.Fatal(err)
	}
	access, err := s.Access(func(string) string { return "sk-test-0123456789" })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(access.Close)
	live, err := access.Case(provider.CaseOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return live.Live
}

// placeless are models whose place is not seen.
type placeless struct{ session.Models }

func (m placeless) Call(ctx context.Context, api wire.API, body []byte, onChunk func(string) error) (*cassette.Interaction, error) {
	it, err := m.Models.Call(ctx, api, body, onChunk)
	if err == nil {
		call, copied := *it.Model, *it
		call.From = nil
		copied.Model, it = &call, &copied
	}
	return it, err
}

func (c *court) drawn(caseID string, key digest.ID) Drawn {
	c.mu.Lock()
	defer c.mu.Unlock()
	var d Drawn
	for _, was := range c.draws {
		if was.CaseID == caseID && was.Key == key {
			d.Count++
			d.Verdict = was.Verdict
		}
	}
	return d
}

func (c *court) draw(d Draw) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fail != nil {
		return c.fail
	}
	c.draws = append(c.draws, d)
	return nil
}

func (c *court) judge(mode Mode) *Judge {
	c.t.Helper()
	j, err := New(Config{Settings: c.set, Mode: mode, Cache: OpenCache(c.dir, c.key), Drawn: c.drawn, Draw: c.draw, At: c.at,
		Now: func() time.Time { return c.now }})
	if err != nil {
		c.t.Fatal(err)
	}
	return j
}

func (c *court) ask(mode Mode, q Question) Opinion {
	c.t.Helper()
	o, err := c.judge(mode).Ask(context.Background(), q, c.models, FromCassette)
	if err != nil {
		c.t.Fatal(err)
	}
	return o
}

// entry is the file of a question in the cache.
func (c *court) entry(q Question) string {
	c.t.Helper()
	asked, _, err := c.set.ask(&q)
	if err != nil {
		c.t.Fatal(err)
	}
	key, err := asked.Key()
	if err != nil {
		c.t.Fatal(err)
	}
	return OpenCache(c.dir, c.key).file(key)
}

func aQuestion(answer string) Question {
	text, err := canon.Marshal(answer)
	if err != nil {
		panic(err)
	}
	return Question{Attempt: "sums.default.1", Class: "sums", CaseID: "add", Task: []string{"What is 2 plus 2?"}, Criteria: "The sum is right.",
		Expected: canon.RawMessage(`"4"`), Answer: text, Votes: 1}
}

func reply(score float64, passed bool, reason string) string {
	text, err := json.Marshal(map[string]any{"score": score, "passed": passed, "reason": reason})
	if err != nil {
		panic(err)
	}
	return string(text)
}

func says(texts ...string) []fakemodel.Reply {
	var out []fakemodel.Reply
	for _, s := range texts {
		out = append(out, fakemodel.Reply{Text: s})
	}
	return out
}

func eventNames(events []evidence.IntegrityEvent) string {
	var names []string
	for _, e := range events {
		names = append(names, e.Name+" "+string(e.Severity))
	}
	return strings.Join(names, ", ")
}

func (c *court) requireScore(o Opinion, want float64) {
	c.t.Helper()
	if o.Unscored != "" || o.Score != want {
		c.t.Fatalf("score %v (unscored %q), want %v", o.Score, o.Unscored, want)
	}
}

func requireUnscored(t testing.TB, o Opinion, part string) {
	t.Helper()
	if o.Unscored == "" || !strings.Contains(o.Unscored, part) {
		t.Fatalf("unscored is %q with score %v, want %q in it", o.Unscored, o.Score, part)
	}
	if o.Document != nil && o.Document.Verdict != nil {
		t.Errorf("there is a verdict beside it: %+v", *o.Document.Verdict)
	}
}

// edit changes a file as a forger would.
func edit(t testing.TB, file, old, new string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(data, []byte(old)) {
		t.Fatalf("%s has no %q: %s", file, old, data)
	}
	if err := os.WriteFile(file, bytes.Replace(data, []byte(old), []byte(new), 1), 0o600); err != nil {
		t.Fatal(err)
	}
}

// recorded makes a player of what a live judge was told.
func recorded(t testing.TB, models session.Models) *session.Replay {
	t.Helper()
	file, err := models.(*provider.Live).Cassette()
	if err != nil {
		t.Fatal(err)
	}
	c, err := cassette.Parse(file, cassette.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return &session.Replay{Player: cassette.NewJudgePlayer(c)}
}
