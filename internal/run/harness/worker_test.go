package harness

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
)

// A notebook is a ledger in memory. Its records are checked and kept as bytes,
// as those of a real one are.
type notebook struct {
	mu        sync.Mutex
	entries   []entry
	cosigned  []int // how many entries there were
	published []int
	full      int // refuse once there are so many; 0 for never
	unseen    error
	before    func(evidence.Kind) // what happens before a record is written; nil for nothing
}

type entry struct {
	kind evidence.Kind
	body []byte
}

func (n *notebook) AppendRecord(kind evidence.Kind, record evidence.Body) (ledger.Position, error) {
	body, err := canon.Marshal(record)
	if err == nil {
		_, err = evidence.DecodeBody(kind, body)
	}
	if err != nil {
		return ledger.Position{}, err
	}
	if n.before != nil {
		n.before(kind)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.full > 0 && len(n.entries) >= n.full {
		return ledger.Position{}, refusal.Newf(refusal.DiskFull, "the notebook is full")
	}
	n.entries = append(n.entries, entry{kind, body})
	return ledger.Position{Index: int64(len(n.entries) - 1)}, nil
}

func (n *notebook) Head() digest.ID {
	n.mu.Lock()
	defer n.mu.Unlock()
	var all []byte
	for _, e := range n.entries {
		all = append(all, e.body...)
	}
	return digest.IDOf(all)
}

func (n *notebook) Cosign(context.Context) error {
	n.cosigned = append(n.cosigned, len(n.entries))
	return n.unseen
}

func (n *notebook) Publish(context.Context) error {
	n.published = append(n.published, len(n.entries))
	return nil
}

// past is what a reader who opens the notebook finds in it.
func (n *notebook) past(t *testing.T) *Past {
	t.Helper()
	p := &Past{}
	for i, e := range n.entries {
		if err := p.Visit(ledger.Record{Position: ledger.Position{Index: int64(i)}, Envelope: evidence.Envelope{Kind: e.kind, Body: e.body}}); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func (n *notebook) kinds() string {
	var names []string
	for _, e := range n.entries {
		names = append(names, string(e.kind))
	}
	return strings.Join(names, " ")
}

func inNotebook(t *testing.T, n *notebook) func(*setup) {
	return func(s *setup) { s.Ledger, s.Past, s.Spec.Jobs = n, n.past(t), 1 }
}

// TestAnyLedgerWillDo: an attempt needs of a ledger what the interface says, and
// goes on from it when the first one was full.
func TestAnyLedgerWillDo(t *testing.T) {
	p := newPlace(t, sums(3)...)
	n := &notebook{full: 4} // registered, started, scored, started
	if _, err := p.run(context.Background(), inNotebook(t, n)); !refusal.Is(err, refusal.DiskFull) {
		t.Fatalf("a full ledger: %v", err)
	}
	if len(n.published) != 0 {
		t.Error("an attempt that is not finished was published")
	}
	n.full = 0
	s, err := p.run(context.Background(), func(s *setup) { inNotebook(t, n)(s); s.Spec.Resume = true })
	if err != nil || !s.Finished || s.Outcomes[evidence.Passed] != 3 || s.Head != n.Head() {
		t.Fatalf("%+v, %v", s, err)
	}
	if got, want := n.kinds(), "attempt.registered case.started case.scored case.started case.started case.scored case.started case.scored attempt.finished"; got != want {
		t.Errorf("entries\n got %s\nwant %s", got, want)
	}
	if !slices.Equal(n.cosigned, []int{1}) || !slices.Equal(n.published, []int{len(n.entries)}) {
		t.Errorf("cosigned after %v entries, published after %v", n.cosigned, n.published)
	}
}

// TestNoCaseRunsThatWitnessesHaveNotSeen: the registration stands, and waits.
func TestNoCaseRunsThatWitnessesHaveNotSeen(t *testing.T) {
	p := newPlace(t, sum(1, "2"))
	n := &notebook{unseen: errors.New("no witness")}
	if _, err := p.run(context.Background(), inNotebook(t, n)); !errors.Is(err, n.unseen) || n.kinds() != "attempt.registered" {
		t.Errorf("%v; entries %s", err, n.kinds())
	}
}

// TestAWorkerNeedsNoLedger: what it gives for a job is to the byte what an
// attempt records, so that another process may do the recording.
func TestAWorkerNeedsNoLedger(t *testing.T) {
	p := newPlace(t, sum(1, "2"), sum(2, "wrong"))
	p.tick = 0 // the clock is not what is compared
	n := &notebook{}
	if _, err := p.run(context.Background(), func(s *setup) { inNotebook(t, n)(s); s.Spec.Repeat = 2 }); err != nil {
		t.Fatal(err)
	}
	c, err := p.config()
	if err != nil {
		t.Fatal(err)
	}
	c.Operator = digest.IDOf([]byte("olga"))
	ready, err := open(context.Background(), c.Config)
	if err != nil {
		t.Fatal(err)
	}
	w := ready.worker
	defer w.Close()
	vault := store.OpenVault(store.OS{}, filepath.Join(p.dir, "evidence"))
	scored := 0
	for _, e := range n.entries {
		if e.kind != evidence.CaseScoredKind {
			continue
		}
		scored++
		var want evidence.CaseScored
		if err := canon.Unmarshal(e.body, &want); err != nil {
			t.Fatal(err)
		}
		var spooled []byte
		g, err := w.Do(context.Background(), Job{Attempt: want.Attempt, Case: want.CaseID, Repeat: want.Repeat, Execution: want.Execution,
			Spool: func(line []byte) error { spooled = append(spooled, line...); return nil }})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := canon.Marshal(&g.Record); err != nil || string(got) != string(e.body) {
			t.Errorf("case %s, repeat %d: the worker's record is\n%s\nrecorded is\n%s\n%v", want.CaseID, want.Repeat, got, e.body, err)
		}
		if string(spooled) != string(g.Trajectory) {
			t.Errorf("case %s: the spool has %q", want.CaseID, spooled)
		}
		for _, piece := range g.Pieces {
			if kept, err := vault.Get(digest.ContentOf(piece), 1<<20); err != nil || string(kept) != string(piece) {
				t.Errorf("case %s: a piece of the worker is not in the evidence: %v", want.CaseID, err)
			}
		}
		if g.Piece(want.EvidenceDigests[0]) == nil || g.Piece(g.Files.Trajectory.Digest) == nil || len(g.Crossings) != 1 {
			t.Errorf("case %s: the index, the trajectory or the crossing is missing: %d crossings", want.CaseID, len(g.Crossings))
		}
	}
	if scored != 4 {
		t.Errorf("%d records were compared", scored)
	}
	if _, err := w.Do(context.Background(), Job{Case: "elsewhere"}); !refusal.Is(err, refusal.UnknownName) {
		t.Errorf("a case of another bench: %v", err)
	}
	stopped, cancel := context.WithCancel(context.Background())
	cancel()
	if g, err := w.Do(stopped, Job{Attempt: "sums.default.1", Case: "case-000001", Repeat: 1, Execution: 1}); !errors.Is(err, context.Canceled) {
		t.Errorf("a worker that was stopped gave %+v, %v", g, err)
	}
}
