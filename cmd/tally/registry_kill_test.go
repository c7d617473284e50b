package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"tallystick/internal/record/ledger"
	"tallystick/internal/record/seal"
	"tallystick/internal/serve/registry/client"
	"tallystick/internal/serve/registry/monitor"
	"tallystick/internal/testing/pgtest"
	"tallystick/internal/testing/servetest"
)

// registryKills is how often the server is killed in every run of the suite;
// .ci/conformance.d/registry sets TALLY_REGISTRY_KILLS to do it more often.
const registryKills = 4

// TestKilledRegistryLosesNothingItAcknowledged kills the real server at random moments
// while writers propose. Whatever was answered must be listed with its content and a
// receipt that verifies, a request sent again must make nothing twice, and the
// database made again from the ledger must have the same rows.
func TestKilledRegistryLosesNothingItAcknowledged(t *testing.T) {
	t.Run("SQLite", func(t *testing.T) { t.Parallel(); killRegistry(t, "SQLite", "") })
	t.Run("PostgreSQL", func(t *testing.T) {
		if os.Getenv("TALLY_REGISTRY_KILLS") == "" {
			t.Skip("with PostgreSQL it is killed in .ci/conformance.d/registry")
		}
		server, err := pgtest.Start(false)
		if errors.Is(err, pgtest.ErrNone) {
			t.Skip(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		defer server.Stop()
		address, err := server.Create()
		if err != nil {
			t.Fatal(err)
		}
		killRegistry(t, "PostgreSQL", address)
	})
}

func killRegistry(t *testing.T, name, db string) {
	kills := registryKills
	if n, err := strconv.Atoi(os.Getenv("TALLY_REGISTRY_KILLS")); err == nil {
		kills = n
	}
	r := newKilledRegistry(t, db)
	r.start()
	r.prepare()
	w := &proposers{t: t, acked: map[string]string{}}
	for round := range kills {
		w.run(r, round, time.Duration(20+rand.IntN(400))*time.Millisecond)
		r.start()
		w.sendAgain(r)
	}
	if len(w.acked) == 0 {
		t.Fatal("nothing was ever acknowledged, so nothing was tested")
	}
	w.check(r)
	digest := r.stopAndRebuild()
	t.Logf("%s: %d kills: %d proposals acknowledged, all listed with receipts that verify; %d sent again after a kill; rows %s before and after a rebuild",
		name, kills, len(w.acked), w.again, digest)
}

// A killedRegistry is a registry that is killed.
type killedRegistry struct {
	*servetest.Registry
	t          *testing.T
	db, apiKey string
}

func newKilledRegistry(t *testing.T, db string) *killedRegistry {
	return &killedRegistry{Registry: servetest.New(t, "tally"), t: t, db: db}
}

func (r *killedRegistry) start() { r.t.Helper(); r.Start(r.db) }

func (r *killedRegistry) post(path, idempotency string, body, into any) (int, error) {
	return r.Post(path, r.apiKey, idempotency, body, into)
}

// prepare registers an agent and proposes what evaluations are about.
func (r *killedRegistry) prepare() {
	r.t.Helper()
	var registered struct{ APIKey string }
	if status, err := r.post("/api/agent/v1/register", "", map[string]any{}, &registered); err != nil || status != http.StatusCreated {
		r.t.Fatal(status, err)
	}
	r.apiKey = registered.APIKey
	for kind, path := range map[string]string{"model": "/artifacts/models/a/m", "eval-harness": "/artifacts/eval-harnesses/h/v1", "dataset": "/artifacts/datasets/d"} {
		var made map[string]any
		if status, err := r.post("/api/knowledge/"+kind+"/propose", "", map[string]any{"path": path}, &made); err != nil || status != http.StatusCreated {
			r.t.Fatalf("%s: %d %v %v", path, status, err, made)
		}
	}
}

// stopAndRebuild stops the server and makes its database again.
func (r *killedRegistry) stopAndRebuild() string {
	r.t.Helper()
	r.Stop()
	args := []string{"registry", "rebuild", "--dir", r.Dir, "--json"}
	if r.db != "" {
		args = append(args, "--db", r.db)
	}
	var made struct {
		Rows           int64
		Digest, Before string
	}
	if err := json.Unmarshal(r.Run(args...), &made); err != nil {
		r.t.Fatal(err)
	}
	if made.Rows == 0 || made.Digest != made.Before {
		r.t.Errorf("%d rows, digest %s after the rebuild, %s before", made.Rows, made.Digest, made.Before)
	}
	return made.Digest
}

// proposers propose evaluations until the server is killed.
type proposers struct {
	t     *testing.T
	mu    sync.Mutex
	acked map[string]string // proposal to idempotency key
	sent  []string          // idempotency keys without an answer
	again int
}

func evaluation(key string) map[string]any {
	return map[string]any{"artifactPath": "/artifacts/models/a/m", "evalHarnessPath": "/artifacts/eval-harnesses/h/v1", "datasetPath": "/artifacts/datasets/d",
		"metrics": map[string]any{"name": key}, "runDetails": map[string]any{"runner": "h"}}
}

// run proposes with several writers and kills the server after a while.
func (p *proposers) run(r *killedRegistry, round int, after time.Duration) {
	timer := time.AfterFunc(after, func() { r.Server.Process.Kill() })
	defer timer.Stop()
	var writers sync.WaitGroup
	for w := range 8 {
		writers.Go(func() {
			for n := 0; p.propose(r, fmt.Sprintf("k-%d-%d-%d", round, w, n)); n++ {
			}
		})
	}
	writers.Wait()
	r.Server.Wait()
}

// propose sends one proposal and reports whether it was answered.
func (p *proposers) propose(r *killedRegistry, key string) bool {
	var made struct{ ProposalID, Status string }
	status, err := r.post("/api/knowledge/eval/propose", key, evaluation(key), &made)
	// One that was sent before a kill may be found before it is decided: ask again.
	for tries := 0; err == nil && status == http.StatusOK && made.Status == "pending" && tries < 100; tries++ {
		time.Sleep(20 * time.Millisecond)
		status, err = r.post("/api/knowledge/eval/propose", key, evaluation(key), &made)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.sent = append(p.sent, key)
		return false
	}
	if status != http.StatusCreated && status != http.StatusOK || made.Status != "published" {
		p.t.Errorf("proposal %s: status %d, %+v", key, status, made)
		return false
	}
	p.acked[made.ProposalID] = key
	return true
}

// sendAgain repeats every request whose answer was lost.
func (p *proposers) sendAgain(r *killedRegistry) {
	p.t.Helper()
	lost := p.sent
	p.sent = nil
	for _, key := range lost {
		p.again++
		if !p.propose(r, key) {
			p.t.Fatalf("%s could not be sent again\n%s", key, r.Log())
		}
	}
}

// check wants every acknowledged proposal in the list with its content, once, and
// lets a monitor verify all of it: entries, receipts, rows.
func (p *proposers) check(r *killedRegistry) {
	p.t.Helper()
	name, pub, err := seal.ParseLogKey(r.LogKey)
	if err != nil {
		p.t.Fatal(err)
	}
	c, err := client.New(client.Options{URL: r.URL})
	if err != nil {
		p.t.Fatal(err)
	}
	m := &monitor.Monitor{Client: c, Keys: []ledger.LogKey{{Origin: name, Key: pub}}, Dir: p.t.TempDir(), AllReceipts: true, Now: time.Now}
	report, err := m.Once(context.Background())
	if err != nil {
		p.t.Fatalf("%v\n%+v", err, report)
	}
	keys := map[string]bool{}
	for _, key := range p.acked {
		if keys[key] {
			p.t.Errorf("%s became two proposals", key)
		}
		keys[key] = true
	}
	if report.Rows != len(p.acked) || report.Receipts != 2*len(p.acked) {
		p.t.Errorf("%d rows with %d receipts, %d were acknowledged", report.Rows, report.Receipts, len(p.acked))
	}
	for proposal, key := range p.acked {
		var full struct {
			Manifest struct{ Metrics map[string]string }
		}
		resp, err := http.Get(r.URL + "/proposal/" + proposal)
		if err != nil {
			p.t.Fatal(err)
		}
		err = json.NewDecoder(resp.Body).Decode(&full)
		resp.Body.Close()
		if err != nil || full.Manifest.Metrics["name"] != key {
			p.t.Errorf("%s has the metrics %v, acknowledged was %s: %v", proposal, full.Manifest.Metrics, key, err)
		}
	}
}
