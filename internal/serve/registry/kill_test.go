package registry

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"

	"tallystick/internal/record/evidence"
)

// TestKillLosesNothingAcknowledged kills a registry with signal 9 while many
// publish, several times, and opens it again: everything that was answered is
// there, and the index is what a rebuild gives.
func TestKillLosesNothingAcknowledged(t *testing.T) {
	w := newWorld(t, nil)
	a := w.register()
	w.publishPaths(a)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	agent := must[[]byte](t)(json.Marshal(a.Agent))
	answered := map[string]bool{}
	for round := range 3 {
		for id := range publishUntilKilled(t, w, string(agent), round) {
			answered[id] = true
		}
		w.open()
		for id := range answered {
			if p, err := w.Proposal(ctx, id); err != nil || p.Status != Published {
				t.Fatalf("round %d: proposal %s was answered: %v", round, id, err)
			}
			if p := w.state.proposals[id]; p == nil || !w.shelf.Has(p.Manifest) {
				t.Fatalf("round %d: the ledger or the blobs do not have %s", round, id)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	got := must[*Rebuilt](t)(Rebuild(ctx, w.options()))
	if got.Before != got.Digest {
		t.Errorf("after the kills the index differs from a rebuilt one: %+v", got)
	}
	t.Logf("%d publications answered, %d entries", len(answered), got.Entries)
	w.open()
}

// publishUntilKilled publishes in another process and kills it after a number of
// answers, which it returns.
func publishUntilKilled(t *testing.T, w *world, agent string, round int) map[string]bool {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run", "^TestPublisher$")
	cmd.Env = append(os.Environ(), "TALLY_TEST_PUBLISHER="+w.dir, "TALLY_TEST_PUBLISHER_DB="+w.db, "TALLY_TEST_PUBLISHER_AGENT="+agent, fmt.Sprintf("TALLY_TEST_PUBLISHER_ROUND=%d", round))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var id string
		if n, _ := fmt.Sscanf(lines.Text(), "answered %s", &id); n == 1 {
			ids[id] = true
		}
		if len(ids) == 100+50*round {
			cmd.Process.Kill()
		}
	}
	cmd.Wait()
	if len(ids) < 100 {
		t.Fatalf("the publisher answered %d times and ended", len(ids))
	}
	return ids
}

// TestPublisher is the process that is killed.
func TestPublisher(t *testing.T) {
	dir := os.Getenv("TALLY_TEST_PUBLISHER")
	if dir == "" || postgres {
		t.Skip("only as the other process of TestKillLosesNothingAcknowledged")
	}
	var a Agent
	if err := json.Unmarshal([]byte(os.Getenv("TALLY_TEST_PUBLISHER_AGENT")), &a); err != nil {
		t.Fatal(err)
	}
	r, err := Open(ctx, Options{Dir: dir, DB: os.Getenv("TALLY_TEST_PUBLISHER_DB")})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for n := range 16 {
		wg.Go(func() {
			for i := range 10_000 {
				body := fmt.Sprintf(`{"artifactPath":%q,"evalHarnessPath":%q,"datasetPath":%q,"metrics":{"round":%s,"writer":%d,"n":%d}}`,
					modelPath, harnessPath, datasetPath, os.Getenv("TALLY_TEST_PUBLISHER_ROUND"), n, i)
				p, err := r.Propose(ctx, &a, Eval, []byte(body), "")
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				fmt.Printf("answered %s\n", p.ID)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
}

// cutOff writes what follows from a request without its last entry, the decision, as a
// kill between the two leaves it, and opens the registry again.
func (w *world) cutOff(follows func() ([]evidence.Body, error)) {
	w.t.Helper()
	err := w.transact(nil, func() ([]evidence.Body, error) {
		bodies, err := follows()
		if err != nil {
			return nil, err
		}
		if _, decides := bodies[len(bodies)-1].(*evidence.RegistryDecided); !decides {
			w.t.Fatal("nothing is decided")
		}
		return bodies[:len(bodies)-1], nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.reopen()
}

// requireDecided wants that the decision is made now, once, and continues the chain.
func (w *world) requireDecided(id string) {
	w.t.Helper()
	if p := must[*Proposal](w.t)(w.Proposal(ctx, id)); p.Status != Pending {
		w.t.Fatalf("before: %+v", p)
	}
	w.tick()
	size := w.ledger.Tip().Size
	w.tick()
	if p := must[*Proposal](w.t)(w.Proposal(ctx, id)); p.Status != Published || p.Chain == nil || w.ledger.Tip().Size != size {
		w.t.Errorf("after: %+v, %d entries and then %d", p, size, w.ledger.Tip().Size)
	}
}

func TestAKillCannotKeepAProposalPending(t *testing.T) {
	w := newWorld(t, nil)
	a := w.register()
	w.publishPaths(a)
	w.propose(a, Eval, evalBody(0.5))
	d := must[*draft](t)(w.parse(ctx, Eval, []byte(evalBody(0.6))))
	e, before, err := w.prepare(a.Agent, d, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.cutOff(func() ([]evidence.Body, error) { return w.proposed(d, e, before) })
	w.requireDecided(e.Proposal)
	w.propose(a, Eval, evalBody(0.7)) // the chain goes on
}

func TestAKillCannotLoseTheLastVote(t *testing.T) {
	j := newJudged(t, 3, nil)
	p := j.proposeDrawn(0.7)
	voters := p.Judges.Persons
	must[*Proposal](t)(j.vote(j.judges[voters[0]][0], p.ID, "accept"))
	m := j.judges[voters[1]][0]
	v := j.sign(m, Judgement{Proposal: p.ID, Verdict: "accept"})
	e := &evidence.RegistryJudged{Agent: m.ID, Proposal: p.ID, Verdict: v.Verdict, Signature: v.Signature}
	j.cutOff(func() ([]evidence.Body, error) { return j.voted(j.state.proposals[p.ID], e) })
	j.requireDecided(p.ID)
}
