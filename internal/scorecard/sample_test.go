package scorecard

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"tallystick/internal/canon"
	"tallystick/internal/digest"
	"tallystick/internal/evidence"
	"tallystick/internal/ledger"
	"tallystick/internal/seal"
	"tallystick/internal/sequencer"
	"tallystick/internal/store"
)

const (
	testOrigin = "example.com/evals"
	olga       = 1 // operator of the ledger
	rita       = 2 // another operator: the second runner
	alice      = 3 // a curator
)

func testKey(t testing.TB, n byte) *seal.Key {
	t.Helper()
	k, err := seal.NewKey(bytes.NewReader(bytes.Repeat([]byte{n}, ed25519.SeedSize)))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// A book is a ledger that a test writes through the sequencer, as the harness
// would, at a clock that the test moves.
type book struct {
	t   testing.TB
	cfg sequencer.Config
	l   *sequencer.Ledger
	now time.Time
}

func newBook(t testing.TB) *book {
	t.Helper()
	signers, err := seal.Compose(1, digest.ID{}, []seal.Entry{
		{Principals: "olga@example.com", Key: testKey(t, olga).Public(), Roles: []seal.Role{seal.Operator}},
		{Principals: "rita@example.com", Key: testKey(t, rita).Public(), Roles: []seal.Role{seal.Operator}},
		{Principals: "alice@example.com", Key: testKey(t, alice).Public(), Roles: []seal.Role{seal.Curator}},
	})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "ledger"), 0o700); err != nil {
		t.Fatal(err)
	}
	b := &book{t: t, now: time.Date(2026, 5, 11, 9, 0, 0, 0, time.UTC)}
	b.cfg = sequencer.Config{
		Place:  sequencer.Place{FS: store.OS{}, Dir: filepath.Join(dir, "ledger"), StateDir: filepath.Join(dir, "state")},
		Origin: testOrigin, TrustRoot: digest.IDOf(signers), Key: testKey(t, olga), Now: func() time.Time { return b.now },
	}
	if b.l, err = sequencer.Create(context.Background(), b.cfg, signers); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.l.Close() })
	return b
}

// add appends a record and returns its index.
func (b *book) add(kind evidence.Kind, record evidence.Body) int64 {
	b.t.Helper()
	pos, err := b.l.AppendRecord(kind, record)
	if err != nil {
		b.t.Fatal(err)
	}
	return pos.Index
}

// byHand appends a record as "tally ledger append" does.
func (b *book) byHand(kind evidence.Kind, record evidence.Body) {
	b.t.Helper()
	data, err := canon.Marshal(record)
	if err != nil {
		b.t.Fatal(err)
	}
	p, err := b.l.SubmitManual(kind, data)
	if err == nil {
		_, err = p.Wait()
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// read verifies the ledger and reads its history.
func (b *book) read(o Options) *History {
	b.t.Helper()
	h, err := Read(b.verify, o)
	if err != nil {
		b.t.Fatal(err)
	}
	return h
}

func (b *book) verify(visit func(ledger.Record) error) (*ledger.Verified, error) {
	return b.cfg.Verify(ledger.Options{Origin: testOrigin, TrustRoot: b.cfg.TrustRoot, Visit: visit})
}

func mustMarshal(t testing.TB, v any) []byte {
	t.Helper()
	data, err := canon.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func contentOf(format string, args ...any) digest.Content {
	return digest.ContentOf(fmt.Appendf(nil, format, args...))
}

// registration is that of an attempt at cases case-01 to case-n.
func registration(attempt, target string, number, n, repeat int) *evidence.AttemptRegistered {
	r := &evidence.AttemptRegistered{SchemaVersion: 1, Attempt: attempt, Origin: testOrigin, Class: "repo-fix", Target: target, Number: number, Mode: "replay",
		Plan: evidence.Plan{BenchDigest: digest.IDOf([]byte("bench 1")), RegistrationDigest: contentOf("registration"),
			TargetDigest: contentOf("target %s", target), CaseCount: n, Repeat: repeat},
		Operator: digest.IDOf([]byte("olga"))}
	for i := range n {
		r.Plan.Cases = append(r.Plan.Cases, evidence.PlannedCase{ID: caseName(i), Digest: contentOf("case %d", i)})
	}
	return r
}

func caseName(i int) string { return fmt.Sprintf("case-%02d", i+1) }

// sign signs a registration with the n-th key.
func sign(t testing.TB, r *evidence.AttemptRegistered, n byte) *evidence.AttemptRegistered {
	t.Helper()
	message, err := r.Message()
	if err != nil {
		t.Fatal(err)
	}
	sig, err := seal.SignWith(testKey(t, n).Signer(), seal.NamespaceAttempt, message)
	if err != nil {
		t.Fatal(err)
	}
	r.Signature = string(sig)
	return r
}

// score is the record of a case of the attempt: passed for 1, failed for less,
// as graders of examples do.
func score(r *evidence.AttemptRegistered, i, repeat int, value float64) *evidence.CaseScored {
	start := time.Date(2026, 5, 11, 9, 0, 0, 0, time.UTC)
	s := &evidence.CaseScored{SchemaVersion: 1, Attempt: r.Attempt, Class: r.Class, CaseID: caseName(i), Repeat: repeat, Execution: 1,
		CaseDigest: contentOf("case %d", i), HarnessVersion: "v1", IsolationClass: "gvisor", IsolationScope: "case", Outcome: evidence.Passed,
		Score:     &evidence.Score{Passed: true, Score: value, Breakdown: map[string]float64{"tests": value}, FailureModes: []string{}, CostUSD: 0.0003, DurationSeconds: 0.25},
		StartedAt: evidence.At(start), FinishedAt: evidence.At(start.Add(time.Duration(100*(i+1)) * time.Millisecond)), Operator: r.Operator,
		Turns: 2, Tokens: 1000, CostMicroUSD: 300, Vantage: "gateway", EvidenceDigests: []digest.Content{contentOf("evidence of %s %d", r.Attempt, i)}}
	if value < 1 {
		s.Outcome, s.Score.Passed = evidence.Failed, false
		s.Score.FailureModes = []string{"tests.failed"}
	}
	return s
}

// unscoredCase is a record without a score.
func unscoredCase(r *evidence.AttemptRegistered, i, repeat int, o evidence.Outcome) *evidence.CaseScored {
	s := score(r, i, repeat, 1)
	s.Outcome, s.Score, s.Reason = o, nil, "because"
	return s
}

// run writes a whole attempt whose first repetition of case i has the i-th
// score; a negative one leaves the case out. It returns the indexes of the
// records.
func (b *book) run(r *evidence.AttemptRegistered, scores ...float64) []int64 {
	b.t.Helper()
	b.register(r)
	var at []int64
	for i, v := range scores {
		if v >= 0 {
			at = append(at, b.case_(r, score(r, i, 1, v)))
		}
	}
	b.finish(r)
	return at
}

func (b *book) register(r *evidence.AttemptRegistered) int64 {
	b.t.Helper()
	if r.Signature == "" {
		sign(b.t, r, olga)
	}
	return b.add(evidence.AttemptRegisteredKind, r)
}

func (b *book) start(r *evidence.AttemptRegistered, i, repeat, execution int) {
	b.t.Helper()
	b.add(evidence.CaseStartedKind, &evidence.CaseStarted{Attempt: r.Attempt, CaseID: caseName(i), Repeat: repeat, Execution: execution})
}

// case_ writes the start of a case and its record.
func (b *book) case_(r *evidence.AttemptRegistered, s *evidence.CaseScored) int64 {
	b.t.Helper()
	b.add(evidence.CaseStartedKind, &evidence.CaseStarted{Attempt: s.Attempt, CaseID: s.CaseID, Repeat: s.Repeat, Execution: s.Execution})
	return b.add(evidence.CaseScoredKind, s)
}

func (b *book) finish(r *evidence.AttemptRegistered) int64 {
	b.t.Helper()
	return b.add(evidence.AttemptFinishedKind, &evidence.AttemptFinished{SchemaVersion: 1, Attempt: r.Attempt, Outcomes: map[evidence.Outcome]int{},
		CaseDigests: contentOf(""), RubricDigests: []digest.Content{}, CassetteDigests: contentOf(""), ImageDigests: []digest.Content{}, FailureModes: []string{}})
}
