package history

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/testing/historytest"
)

// sampleRecords are records with every optional member present and absent.
func sampleRecords() []*evidence.CaseScored {
	r := historytest.Registration("repo-fix.agent.1", "agent", 1, 3, 1)
	plain := historytest.Score(r, 0, 1, 1)
	full := historytest.Score(r, 1, 2, 0.125)
	d := historytest.ContentOf("x")
	full.RubricDigest, full.CassetteDigest, full.ImageDigest = &d, &d, &d
	full.AgentIsolation, full.Provenance, full.JudgedByModel, full.Reason = "namespace", "recorded", true, "see the diff"
	full.AgentScope, full.Preload = evidence.ScopeAttempt, &evidence.Preload{Digest: "00", Milliseconds: 1200, Modules: 700, Rehearsed: 70, Stderr: "a warning", Unrehearsed: "it does not end"}
	full.Score.FailureModes = []string{"tests.failed", "diff.empty"}
	full.Score.Breakdown = map[string]float64{"tests": 0.125, "diff": -2.5, "lint": 0}
	full.Policy = evidence.PolicyCount{Violations: 2, Rollbacks: 3, RollbacksVerified: 1}
	full.Retries, full.Tokens = 4, 1<<49
	full.Normalised = &evidence.NormalisedCount{Class: 1}
	full.Cached = &evidence.Cached{Attempt: "repo-fix.agent.0", Calls: 3, CostMicroUSD: 7, Recording: &d, Replies: 2}
	full.Reused = &evidence.Reused{From: []evidence.ReusedFrom{{Class: "c", Replies: 2, Target: "t"}}, Replies: 2, Unlisted: 1}
	full.ToolCalls = &evidence.ToolCallCount{Executed: 3, Reported: 2, Proposed: 1}
	full.Resumed, full.Unpriced = 2, new(int64(3))
	full.Worker = &evidence.Worker{HarnessVersion: "1.2.3", Key: "SHA256:abc"}
	full.Paid = &evidence.Paid{Calls: 3, CostMicroUSD: 1200, Journal: digest.IDOf([]byte("j")), Refused: 1, Unknown: 2, UnknownMicroUSD: 900}
	full.User = &evidence.User{By: "model", CostMicroUSD: 70, Ended: "reached", Model: "u", Moves: 4, Prompt: &d, Tokens: 900, ToolCalls: 2, Turns: 3, Unpriced: 1}
	full.EvidenceDigests = []digest.Content{d, historytest.ContentOf("y")}
	odd := historytest.Score(r, 2, 1, 0)
	odd.CaseID, odd.Vantage, odd.HarnessVersion = "käse \"1\"", "a\nb", ""
	odd.Score.CostUSD, odd.Score.DurationSeconds, odd.CostMicroUSD = 1e-6, 1e-7, 12345678901234567>>4
	none := historytest.UnscoredCase(r, 0, 1, evidence.Truncated)
	none.EvidenceDigests = nil
	asked := historytest.UnscoredCase(r, 1, 1, evidence.Errored)
	asked.Unanswered = true
	none.Paid = &evidence.Paid{Journal: digest.IDOf([]byte("j"))}
	// Records from before unpriced calls were counted, which prove it otherwise or do not.
	replayed, live, unknown, cached := historytest.Score(r, 0, 1, 1), historytest.Score(r, 0, 1, 1), historytest.Score(r, 0, 1, 1), historytest.Score(r, 0, 1, 1)
	replayed.Provenance, live.Provenance, unknown.Provenance, cached.Provenance = "recorded", "recorded", "recorded", "edited"
	live.Paid = &evidence.Paid{Calls: 1, Journal: digest.IDOf([]byte("j"))}
	unknown.Paid = &evidence.Paid{Journal: digest.IDOf([]byte("j")), Unknown: 1}
	cached.Paid, cached.Cached = live.Paid, full.Cached
	return []*evidence.CaseScored{plain, full, odd, none, replayed, live, unknown, cached, historytest.UnscoredCase(r, 1, 1, evidence.Unscored), historytest.UnscoredCase(r, 1, 1, evidence.Skipped), historytest.UnscoredCase(r, 1, 1, evidence.Errored), asked}
}

func recordOf(kind evidence.Kind, body []byte) ledger.Record {
	return ledger.Record{Envelope: evidence.Envelope{Kind: kind, Body: body}}
}

// comparableFields is what of the fields the two readers must agree on.
func comparableFields(f *scoredFields) any {
	c := *f
	lists := [][]string{list(c.tags), list(c.modes)}
	evidence := append([]digest.Content{}, c.evidence...)
	context := *c.context
	attempt, caseID, class := string(c.attempt), string(c.caseID), string(c.class)
	numbers := []int64{c.cost.MicroUSD, c.cost.Unpriced, c.cost.Untold, c.tokens, c.retries, c.turns, c.violations, c.rollbacks, c.rollbacksVerified, int64(c.repeat), int64(c.execution), c.startedMS, c.finishedMS,
		int64(c.toolCalls.Executed), int64(c.toolCalls.Reported), int64(c.toolCalls.Proposed)}
	return []any{attempt, caseID, class, c.caseDigest, c.cassette, c.hasCassette, evidence, context, c.outcome, c.score, numbers, lists, c.hasCached, c.cached, c.reused, c.hasUser, c.user}
}

// agree checks that whatever the fast walk accepts the strict decoder accepts
// too, with the same values. It reports whether the fast walk accepted.
func agree(t *testing.T, s *scanner, body []byte) bool {
	t.Helper()
	if !s.fast(body) {
		return false
	}
	fast := comparableFields(&s.out)
	decoded, err := evidence.DecodeBody(evidence.CaseScoredKind, body)
	if err != nil {
		t.Fatalf("the fast walk accepts what the decoder refuses: %v\n%s", err, body)
	}
	if err := s.slow(decoded.(*evidence.CaseScored)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(comparableFields(&s.out), fast, cmp.AllowUnexported(Context{})); diff != "" {
		t.Fatalf("decoder and fast walk differ (-decoder +walk):\n%s\n%s", diff, body)
	}
	return true
}

func TestScanReadsWhatTheDecoderReads(t *testing.T) {
	s := newScanner()
	for i, c := range sampleRecords() {
		body, err := canon.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		// The first time the names in it are new, and the decoder is asked.
		if _, err := s.scored(recordOf(evidence.CaseScoredKind, body)); err != nil {
			t.Fatal(err)
		}
		accepted := agree(t, s, body)
		if odd := i == 2; accepted == odd {
			t.Errorf("record %d: read fast is %v", i, accepted)
		}
		if id, ok := s.attemptOf(recordOf(evidence.CaseScoredKind, body)); !ok || string(id) != c.Attempt {
			t.Errorf("record %d: attempt %q, %v", i, id, ok)
		}
		if s.saysPassed(body) != (c.Outcome == evidence.Passed) {
			t.Errorf("record %d: outcome %s", i, c.Outcome)
		}
	}
}

// A change of any single byte, and many random ones, is read as the decoder
// reads it or not at all.
func TestScanIsNeverMoreLenientThanTheDecoder(t *testing.T) {
	if testing.Short() {
		t.Skip("long, and one goroutine has nothing to race with")
	}
	g := rand.New(rand.NewPCG(1, 2))
	for _, c := range sampleRecords() {
		body, err := canon.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		s := newScanner()
		if _, err := s.scored(recordOf(evidence.CaseScoredKind, body)); err != nil {
			t.Fatal(err)
		}
		for i := range body {
			for _, b := range []byte{'9', '"', 'A', body[i] ^ 1} {
				forged := bytes.Clone(body)
				forged[i] = b
				agree(t, s, forged)
			}
			agree(t, s, body[:i])
			agree(t, s, append(bytes.Clone(body[:i]), body[i+1:]...))
		}
		// Names that no score may have.
		for _, name := range []string{"llm_grade", "", strings.Repeat("x", 129)} {
			agree(t, s, bytes.Replace(body, []byte(`"tests":`), []byte(`"`+name+`":`), 1))
			agree(t, s, bytes.Replace(body, []byte(`"tests.failed"`), []byte(`"`+name+`"`), 1))
		}
		// Members moved, doubled, emptied.
		for range 200 {
			i, j := g.IntN(len(body)), g.IntN(len(body))
			agree(t, s, append(append(bytes.Clone(body[:i]), body[min(i, j):max(i, j)]...), body[i:]...))
		}
	}
}

func TestScanOfAStartAgreesWithTheDecoder(t *testing.T) {
	for _, worker := range []string{"", "SHA256:w"} {
		for _, list := range []*evidence.EventList{nil, {Count: 12, Digest: digest.ContentOf(nil)}} {
			body, err := canon.Marshal(&evidence.CaseStarted{Attempt: "a", CaseID: "c", Repeat: 2, Execution: 13, Worker: worker, Events: list})
			if err != nil {
				t.Fatal(err)
			}
			scanStart(t, body)
		}
	}
}

func scanStart(t *testing.T, body []byte) {
	s := newScanner()
	check := func(body []byte) {
		t.Helper()
		got, err := s.started(recordOf(evidence.CaseStartedKind, body))
		want, werr := evidence.DecodeBody(evidence.CaseStartedKind, body)
		if (err == nil) != (werr == nil) {
			t.Fatalf("%s: %v, the decoder says %v", body, err, werr)
		}
		if err != nil {
			return
		}
		w := want.(*evidence.CaseStarted)
		if string(got.attempt) != w.Attempt || string(got.caseID) != w.CaseID || int(got.repeat) != w.Repeat || int(got.execution) != w.Execution || string(got.worker) != w.Worker {
			t.Fatalf("%s: read as %q %q %d %d", body, got.attempt, got.caseID, got.repeat, got.execution)
		}
	}
	check(body)
	for i := range body {
		for _, b := range []byte{'0', '9', '"', ',', '}', ' ', '\\', body[i] ^ 1} {
			forged := bytes.Clone(body)
			forged[i] = b
			check(forged)
		}
	}
}

// The walk over a case list sees what the decoder reads, or the decoder is
// asked.
func TestCaseListIsReadAsTheDecoderReadsIt(t *testing.T) {
	tape := historytest.ContentOf("tape")
	honest := []evidence.PlannedCase{{ID: "a", Digest: historytest.ContentOf("1")}, {ID: "b", Digest: historytest.ContentOf("2"), Cassette: &tape}, {ID: "c", Digest: historytest.ContentOf("3")}}
	check := func(data []byte) {
		t.Helper()
		var want []evidence.PlannedCase
		werr := canon.UnmarshalCanonical(data, &want)
		each, ids, err := eachPlanned(data)
		if err != nil {
			if werr == nil {
				t.Fatalf("%s: %v", data, err)
			}
			return
		}
		if werr != nil {
			t.Fatalf("%s: read, and the decoder says %v", data, werr)
		}
		i := 0
		each(func(p *planned) {
			if diff := cmp.Diff(want[i], evidence.PlannedCase{ID: string(p.id), Digest: p.digest, Cassette: p.cassette}); diff != "" {
				t.Fatalf("%s: %s", data, diff)
			}
			i++
		})
		if i != len(want) || len(ids) != len(want) {
			t.Fatalf("%s: %d and %d of %d", data, i, len(ids), len(want))
		}
	}
	data := historytest.Marshal(t, honest)
	check(data)
	check([]byte("[]"))
	for i := range data {
		for _, b := range []byte{'9', '"', ',', ']', 'A', data[i] ^ 1} {
			forged := bytes.Clone(data)
			forged[i] = b
			check(forged)
		}
		check(data[:i])
		check(append(bytes.Clone(data[:i]), data[i+1:]...))
	}
}

// Whatever the fast walk accepts, the strict decoder accepts with the same
// values.
func FuzzScan(f *testing.F) {
	for _, c := range sampleRecords() {
		body, err := canon.Marshal(c)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		s := newScanner()
		// Names are learned from what the decoder accepts, so teach it.
		for _, c := range sampleRecords() {
			if err := s.slow(c); err != nil {
				t.Fatal(err)
			}
		}
		agree(t, s, body)
	})
}

func BenchmarkScan(b *testing.B) {
	body, err := canon.Marshal(sampleRecords()[0])
	if err != nil {
		b.Fatal(err)
	}
	s := newScanner()
	rec := recordOf(evidence.CaseScoredKind, body)
	if _, err := s.scored(rec); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.scored(rec); err != nil {
			b.Fatal(err)
		}
	}
}
