package chaostest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tallystick/internal/record/evidence"
)

// scripted gives the class cases that answer themselves, so that nothing is live.
func (y *yard) scripted(n int, more string) {
	y.Helper()
	var lines strings.Builder
	for i := range n {
		fmt.Fprintf(&lines, `{"id":"case-%03d","input":"x","model":[{"text":"y"}],"expected":"y","grade":{"kind":"exact"}%s}`+"\n", i, more)
	}
	y.write("bench/paid/dataset.jsonl", lines.String())
}

// TestMaxCostStopsTheFleet: two workers spend what the attempt may and no more, and
// what was not run is recorded as truncated.
func TestMaxCostStopsTheFleet(t *testing.T) {
	// In micro-dollars. Before a call is sent up to 2,700 are set aside for it, so two
	// at once fit, and in the end none.
	const cases, limit = 12, 12_000
	y := newYard(t, cases)
	c := y.coordinator("--live", "--max-cost", "0.012")
	y.worker(1)
	y.worker(2)
	c.wait(4) // the gate: not every case passed
	b := y.read("paid.default.1")
	if b.finished == nil || len(b.scored) != cases {
		t.Fatalf("%d of %d cases are recorded", len(b.scored), cases)
	}
	y.balanced(b)
	if spent := y.counted() * callCost; spent > limit {
		t.Errorf("the provider was asked for %d micro-dollars, %d are allowed", spent, limit)
	}
	outcomes := b.finished.Outcomes
	if outcomes[evidence.Passed] == 0 || outcomes[evidence.Truncated] == 0 || outcomes[evidence.Passed]+outcomes[evidence.Truncated] != cases {
		t.Errorf("outcomes: %v", outcomes)
	}
	y.run("ledger", "verify", "--strict")
}

// TestWorkersShareTheLimitsOfAProvider: eight cases at once on two workers are three
// calls at once, because the coordinator makes them all.
func TestWorkersShareTheLimitsOfAProvider(t *testing.T) {
	const cases, atOnce = 16, 3
	y := newYard(t, cases)
	y.write("providers.yaml", fmt.Sprintf("version: 1\nopenai:\n  base_url: %s/v1\n  limits: {calls_at_once: %d}\n  prices: {fake-1: {input: 1000000, output: 4000000}}\n", y.url, atOnce))
	y.slow = 300 * time.Millisecond
	c := y.coordinator("--live", "--max-cost", "1")
	y.workerWith(1, "4")
	y.workerWith(2, "4")
	c.wait(0)
	y.balanced(y.read("paid.default.1"))
	if y.most > atOnce || y.most < 2 {
		t.Errorf("%d calls at once, %d are allowed", y.most, atOnce)
	}
}

// TestDoubleWithOneWorkerEnds: a case that is to be run twice does not wait for ever
// for a second worker. It is recorded as not doubled.
func TestDoubleWithOneWorkerEnds(t *testing.T) {
	y := newYard(t, 0)
	y.scripted(3, "")
	// It waits eight times as long as a worker may be silent.
	y.env = append(y.env, silenceEnv+"=2s")
	c := y.coordinator("--double", "1")
	y.worker(1)
	if said := c.wait(4); !strings.Contains(said, "no second worker took anything") {
		t.Errorf("it does not say why it waited:\n%s", said)
	}
	b := y.read("paid.default.1")
	if len(b.scored) != 3 {
		t.Fatalf("%d cases are recorded", len(b.scored))
	}
	for id, r := range b.scored {
		if r.Outcome != evidence.Unscored || !strings.HasPrefix(r.Reason, "NotDoubled: ") {
			t.Errorf("case %s: %s, %s", id, r.Outcome, r.Reason)
		}
	}
	y.run("ledger", "verify", "--strict")
}

// TestEarlyStopIsTheSameOverAFleet: the same question gets the same answer after the
// same cases, and what no worker has begun by then is not run.
func TestEarlyStopIsTheSameOverAFleet(t *testing.T) {
	const cases = 60
	y := newYard(t, 0)
	y.scripted(cases, "")
	y.write("bench/paid/registration.yaml", registration+"stop_early: {rule: sprt, p0: 0.6, p1: 0.8, alpha: 0.05, beta: 0.05, seed: 7}\n")
	y.run("run", "paid", "--stop-early", "--jobs", "1")
	c := y.coordinator("--stop-early", "--jobs", "2")
	y.worker(1)
	y.worker(2)
	c.wait(0)
	one, two := y.read("paid.default.1").finished.Stopped, y.read("paid.default.2")
	if one == nil || two.finished.Stopped == nil || *one != *two.finished.Stopped {
		t.Errorf("alone %+v, over a fleet %+v", one, two.finished.Stopped)
	}
	if n := len(two.scored); n < one.After || n == cases {
		t.Errorf("%d of %d cases were run, %d decide", n, cases, one.After)
	}
	y.run("ledger", "verify", "--strict")
}
