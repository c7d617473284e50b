// Package historytest writes ledgers for tests of what reads them: through the
// sequencer, as the harness would, at a clock that the test moves.
package historytest

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/sequencer"
	"tallystick/internal/record/store"
)

// Origin is the name of every Book.
const Origin = "example.com/evals"

// The numbers of the keys.
const (
	Olga  = 1 // operator of the ledger
	Rita  = 2 // another operator: the second runner
	Alice = 3 // a curator
)

// Key is the n-th key.
func Key(t testing.TB, n byte) *seal.Key {
	t.Helper()
	k, err := seal.NewKey(bytes.NewReader(bytes.Repeat([]byte{n}, ed25519.SeedSize)))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// A Book is a ledger that a test writes through the sequencer, as the harness
// would, at a clock that the test moves.
type Book struct {
	Config sequencer.Config
	Ledger *sequencer.Ledger
	Now    time.Time

	testing.TB
	signers []byte
}

// New begins a ledger.
func New(t testing.TB) *Book {
	t.Helper()
	return SignedBy(t, Line(t, "olga@example.com", Olga, seal.Operator), Line(t, "rita@example.com", Rita, seal.Operator), Line(t, "alice@example.com", Alice, seal.Curator))
}

// Line is a line of a signers file, with the n-th key.
func Line(t testing.TB, name string, n byte, roles ...seal.Role) seal.Entry {
	t.Helper()
	return seal.Entry{Principals: name, Key: Key(t, n).Public(), Roles: roles}
}

// SignedBy begins a ledger with these people. The key of Olga must be an operator's.
func SignedBy(t testing.TB, people ...seal.Entry) *Book {
	t.Helper()
	signers, err := seal.Compose(1, digest.ID{}, people)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := store.MakeDir(store.OS{}, filepath.Join(dir, "ledger"), 0o700); err != nil {
		t.Fatal(err)
	}
	b := &Book{TB: t, signers: signers, Now: time.Date(2026, 5, 11, 9, 0, 0, 0, time.UTC)}
	b.Config = sequencer.Config{
		Place:  sequencer.Place{FS: store.OS{}, Dir: filepath.Join(dir, "ledger"), StateDir: filepath.Join(dir, "state")},
		Origin: Origin, TrustRoot: digest.IDOf(signers), Key: Key(t, Olga), Now: func() time.Time { return b.Now },
	}
	if b.Ledger, err = sequencer.Create(context.Background(), b.Config, signers); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Ledger.Close() })
	return b
}

// Appoint appends the second version of the signers, signed with these keys.
func (b *Book) Appoint(people []seal.Entry, by ...byte) {
	b.Helper()
	next, err := seal.Compose(2, digest.IDOf(b.signers), people)
	if err != nil {
		b.Fatal(err)
	}
	change := &evidence.SignersChanged{Version: 2, Signers: string(next)}
	for _, n := range by {
		sig, err := seal.SignWith(Key(b, n).Signer(), seal.NamespaceSigners, next)
		if err != nil {
			b.Fatal(err)
		}
		change.Signatures = append(change.Signatures, string(sig))
	}
	b.Add(evidence.SignersChangedKind, change)
}

// Reopen opens the ledger again after it was closed.
func (b *Book) Reopen() {
	b.Helper()
	var err error
	if b.Ledger, err = sequencer.Open(context.Background(), b.Config); err != nil {
		b.Fatal(err)
	}
}

// Add appends a record and returns its index.
func (b *Book) Add(kind evidence.Kind, record evidence.Body) int64 {
	b.Helper()
	pos, err := b.Ledger.AppendRecord(kind, record)
	if err != nil {
		b.Fatal(err)
	}
	return pos.Index
}

// ByHand appends a record as "tally ledger append" does.
func (b *Book) ByHand(kind evidence.Kind, record evidence.Body) {
	b.Helper()
	data, err := canon.Marshal(record)
	if err != nil {
		b.Fatal(err)
	}
	p, err := b.Ledger.SubmitManual(kind, data)
	if err == nil {
		_, err = p.Wait()
	}
	if err != nil {
		b.Fatal(err)
	}
}

// Verify is for [tallystick/internal/read/history.Read].
func (b *Book) Verify(visit func(ledger.Record) error) (*ledger.Verified, error) {
	return b.Config.Verify(ledger.Options{Origin: Origin, TrustRoot: b.Config.TrustRoot, Visit: visit})
}

// Marshal is canon.Marshal that cannot fail.
func Marshal(t testing.TB, v any) []byte {
	t.Helper()
	data, err := canon.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// ContentOf is the digest of a text.
func ContentOf(format string, args ...any) digest.Content {
	return digest.ContentOf(fmt.Appendf(nil, format, args...))
}

// Registration is that of an attempt at cases case-01 to case-n.
func Registration(attempt, target string, number, n, repeat int) *evidence.AttemptRegistered {
	r := &evidence.AttemptRegistered{SchemaVersion: 1, Attempt: attempt, Origin: Origin, Class: "repo-fix", Target: target, Number: number, Mode: "replay",
		Plan: evidence.Plan{BenchDigest: digest.IDOf([]byte("bench 1")), RegistrationDigest: ContentOf("registration"),
			TargetDigest: ContentOf("target %s", target), CaseCount: n, Repeat: repeat},
		Operator: digest.IDOf([]byte("olga"))}
	for i := range n {
		r.Plan.Cases = append(r.Plan.Cases, evidence.PlannedCase{ID: CaseName(i), Digest: ContentOf("case %d", i)})
	}
	return r
}

// CaseName is the id of the case at i.
func CaseName(i int) string { return fmt.Sprintf("case-%02d", i+1) }

// Sign signs a registration with the n-th key.
func Sign(t testing.TB, r *evidence.AttemptRegistered, n byte) *evidence.AttemptRegistered {
	t.Helper()
	message, err := r.Message()
	if err != nil {
		t.Fatal(err)
	}
	sig, err := seal.SignWith(Key(t, n).Signer(), seal.NamespaceAttempt, message)
	if err != nil {
		t.Fatal(err)
	}
	r.Signature = string(sig)
	return r
}

// Score is the record of a case of the attempt: passed for 1, failed for less,
// as graders of examples do.
func Score(r *evidence.AttemptRegistered, i, repeat int, value float64) *evidence.CaseScored {
	start := time.Date(2026, 5, 11, 9, 0, 0, 0, time.UTC)
	s := &evidence.CaseScored{SchemaVersion: 1, Attempt: r.Attempt, Class: r.Class, CaseID: CaseName(i), Repeat: repeat, Execution: 1,
		CaseDigest: ContentOf("case %d", i), HarnessVersion: "v1", IsolationClass: "gvisor", IsolationScope: "case", Outcome: evidence.Passed,
		Score:     &evidence.Score{Passed: true, Score: value, Breakdown: map[string]float64{"tests": value}, FailureModes: []string{}, CostUSD: 0.0003, DurationSeconds: 0.25},
		StartedAt: evidence.At(start), FinishedAt: evidence.At(start.Add(time.Duration(100*(i+1)) * time.Millisecond)), Operator: r.Operator,
		Turns: 2, Tokens: 1000, CostMicroUSD: 300, Vantage: "gateway", EvidenceDigests: []digest.Content{ContentOf("evidence of %s %d", r.Attempt, i)}}
	if i < len(r.Plan.Cases) {
		s.CassetteDigest = r.Plan.Cases[i].Cassette
	}
	if value < 1 {
		s.Outcome, s.Score.Passed = evidence.Failed, false
		s.Score.FailureModes = []string{"tests.failed"}
	}
	return s
}

// UnscoredCase is a record without a score.
func UnscoredCase(r *evidence.AttemptRegistered, i, repeat int, o evidence.Outcome) *evidence.CaseScored {
	s := Score(r, i, repeat, 1)
	s.Outcome, s.Score, s.Reason = o, nil, "because"
	return s
}

// Run writes a whole attempt whose first repetition of case i has the i-th
// score; a negative one leaves the case out. It returns the indexes of the
// records.
func (b *Book) Run(r *evidence.AttemptRegistered, scores ...float64) []int64 {
	b.Helper()
	b.Register(r)
	var at []int64
	for i, v := range scores {
		if v >= 0 {
			at = append(at, b.Case(r, Score(r, i, 1, v)))
		}
	}
	b.Finish(r)
	return at
}

// Register appends a registration, signed by Olga unless it is signed.
func (b *Book) Register(r *evidence.AttemptRegistered) int64 {
	b.Helper()
	if r.Signature == "" {
		Sign(b, r, Olga)
	}
	return b.Add(evidence.AttemptRegisteredKind, r)
}

// Start appends the start of a case.
func (b *Book) Start(r *evidence.AttemptRegistered, i, repeat, execution int) {
	b.Helper()
	b.Add(evidence.CaseStartedKind, &evidence.CaseStarted{Attempt: r.Attempt, CaseID: CaseName(i), Repeat: repeat, Execution: execution})
}

// Case writes the start of a case and its record.
func (b *Book) Case(r *evidence.AttemptRegistered, s *evidence.CaseScored) int64 {
	b.Helper()
	b.Add(evidence.CaseStartedKind, &evidence.CaseStarted{Attempt: s.Attempt, CaseID: s.CaseID, Repeat: s.Repeat, Execution: s.Execution})
	return b.Add(evidence.CaseScoredKind, s)
}

// Finish appends the end of an attempt.
func (b *Book) Finish(r *evidence.AttemptRegistered) int64 {
	b.Helper()
	return b.Add(evidence.AttemptFinishedKind, &evidence.AttemptFinished{SchemaVersion: 1, Attempt: r.Attempt, Outcomes: map[evidence.Outcome]int{},
		CaseDigests: ContentOf(""), RubricDigests: []digest.Content{}, CassetteDigests: ContentOf(""), ImageDigests: []digest.Content{}, FailureModes: []string{}})
}
