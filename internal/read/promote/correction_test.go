package promote

import (
	"slices"
	"strings"
	"testing"

	"tallystick/internal/read/history"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/seal"
	"tallystick/internal/run/bench"
)

// heads are the heads of the ledger's entries so far.
func (k *book) heads() []digest.ID {
	k.Helper()
	var heads []digest.ID
	_, err := history.NewReader(history.Options{}).Read(func(visit func(ledger.Record) error) (*ledger.Verified, error) {
		return k.cfg.Verify(ledger.Options{Origin: origin, TrustRoot: k.cfg.TrustRoot, Visit: func(r ledger.Record) error {
			heads = append(heads, r.Head)
			return visit(r)
		}})
	})
	k.must(err)
	return heads
}

// correct appends a correction of the first case of an attempt whose
// registration is at entry from.
func (k *book) correct(from int64, was, now evidence.Grade, number int, keys ...string) {
	k.Helper()
	m := &evidence.ScoreCorrected{Origin: origin, Attempt: "fix.agent.1", CaseID: caseID(0), Repeat: 1, Entry: from + 2, Head: k.heads()[from+2], Number: number,
		Was: was, Now: now, Reason: "the expected answer had a typing mistake"}
	message, err := m.Message()
	k.must(err)
	for _, key := range keys {
		sig, err := seal.SignWith(keyOf(k, key).Signer(), seal.NamespaceCorrection, message)
		k.must(err)
		m.Signatures = append(m.Signatures, string(sig))
	}
	k.add(evidence.ScoreCorrectedKind, m)
}

func TestWhichScoreOfACorrectedCaseCounts(t *testing.T) {
	failed, right := evidence.Grade{}, evidence.Grade{Passed: true, Score: 1}
	const (
		lowerCounts = "the lower counts"
		itCounts    = "two people signed, one of them security, so it counts"
	)
	again := func(k *book, r run) { k.reproduce(k.runs(r), "oscar", nil) }
	leaks := func(i int, s *evidence.CaseScored) {
		if failFirst(i, s); i == 0 {
			s.Score.FailureModes = []string{"leaked_secret"}
		}
	}
	for _, tt := range []struct {
		name  string
		write func(k *book)
		want  bench.Tier
		note  string // "" for none about a correction
		fault string
	}{
		{"a raise by two, one of them security", func(k *book) {
			again(k, run{score: failFirst})
			k.correct(1, failed, right, 1, "alice", "bob")
		}, bench.Silver, itCounts, ""},
		{"a raise by two, one after the other", func(k *book) {
			again(k, run{score: failFirst})
			k.correct(1, failed, right, 1, "alice")
			k.correct(1, failed, right, 1, "bob")
		}, bench.Silver, itCounts, ""},
		{"a raise by one, even with the security role", func(k *book) {
			again(k, run{score: failFirst})
			k.correct(1, failed, right, 1, "bob")
		}, bench.Bronze, lowerCounts, ""},
		{"a raise by one person twice", func(k *book) {
			again(k, run{score: failFirst})
			k.correct(1, failed, right, 1, "bob")
			k.correct(1, failed, right, 1, "bob")
		}, None, lowerCounts, "bob has signed this correction already"},
		{"a raise by two without the security role", func(k *book) {
			again(k, run{score: failFirst})
			k.correct(1, failed, right, 1, "alice", "carla")
		}, bench.Bronze, lowerCounts, ""},
		{"a raise by one and the operator", func(k *book) {
			again(k, run{score: failFirst})
			k.correct(1, failed, right, 1, "bob", "olga")
		}, bench.Bronze, lowerCounts, ""},
		{"a raise by the operator", func(k *book) {
			again(k, run{score: failFirst})
			k.correct(1, failed, right, 1, "olga")
		}, None, "", "needs 1 of alice, bob, carla"},
		{"a raise by a signer whose time has passed", func(k *book) {
			again(k, run{score: failFirst})
			k.correct(1, failed, right, 1, "old carl")
		}, None, "", "signature 1 of 1"},
		{"a raise of a record with a block code, by two", func(k *book) {
			again(k, run{score: leaks})
			k.correct(1, failed, right, 1, "alice", "bob")
		}, None, "the record has a block-severity failure, so the lower counts", ""},
		{"a lower score by one", func(k *book) {
			honest(k)
			k.correct(1, right, failed, 1, "alice")
		}, bench.Bronze, lowerCounts, ""},
		{"a lower score taken back by one", func(k *book) {
			honest(k)
			k.correct(1, right, failed, 1, "alice")
			k.correct(1, right, right, 2, "bob")
		}, bench.Bronze, lowerCounts, ""},
		{"a lower score taken back by two", func(k *book) {
			honest(k)
			k.correct(1, right, failed, 1, "alice")
			k.correct(1, right, right, 2, "alice", "bob")
		}, bench.Silver, itCounts, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			k := newBook(t, standard().verified(t))
			tt.write(k)
			rec := k.recommend()
			if rec.RecommendedTier != string(tt.want) {
				t.Errorf("recommended %s, want %s: %q", rec.RecommendedTier, tt.want, rec.Rationale)
			}
			note := slices.IndexFunc(rec.Notes, func(n string) bool { return strings.Contains(n, " corrected by ") })
			if (note >= 0) != (tt.note != "") || note >= 0 && !strings.HasSuffix(rec.Notes[note], tt.note) {
				t.Errorf("notes %q, want one that ends in %q", rec.Notes, tt.note)
			}
			if told := strings.Contains(strings.Join(rec.Unmet, "\n"), "the correction does not count: "); told != (tt.fault != "") || !strings.Contains(strings.Join(rec.Unmet, "\n"), tt.fault) {
				t.Errorf("unmet %q, want %q", rec.Unmet, tt.fault)
			}
		})
	}
}

// A correction neither makes a regression nor hides one.
func TestRegressionsAreCountedOnOriginals(t *testing.T) {
	failed, right := evidence.Grade{}, evidence.Grade{Passed: true, Score: 1}
	// Raised by two: it was not solved then, so not solving it now is not a step back.
	k := newBook(t, standard().verified(t))
	k.runs(run{score: failFirst})
	k.correct(1, failed, right, 1, "alice", "bob")
	k.reproduce(k.runs(run{version: "2", score: failFirst}), "oscar", nil)
	if rec := k.recommend(); len(rec.regressionLines()) != 0 {
		t.Errorf("%q", rec.Rationale)
	}
	// Lowered: it was solved then all the same.
	k = newBook(t, standard().verified(t))
	k.runs(run{})
	k.correct(1, right, failed, 1, "alice")
	k.reproduce(k.runs(run{version: "2", score: failFirst}), "oscar", nil)
	if rec := k.recommend(); len(rec.regressionLines()) != 1 {
		t.Errorf("%q", rec.Rationale)
	}
}
