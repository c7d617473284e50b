package promote

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"tallystick/internal/read/dossier"
	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/seal"
	"tallystick/internal/run/bench"
)

// A history that only its operator has is carried no further than silver, and the
// advice says so in plain words.
func TestGoldNeedsAnOutsideObserver(t *testing.T) {
	witness := func(size int64) evidence.Outside {
		return evidence.Outside{Kind: evidence.OutsideWitness, By: "w.example", Size: size}
	}
	git := func(size int64) evidence.Outside {
		return evidence.Outside{Kind: evidence.OutsideGit, By: "https://git.example.com/evals.git", Size: size}
	}
	const far = 1000
	for _, tt := range []struct {
		name    string
		outside []evidence.Outside
		want    bench.Tier
		says    string
	}{
		{"no observer", []evidence.Outside{}, bench.Silver, "no one outside this machine has seen this history: gold needs a witness, or an anchor that git has from a remote"},
		{"a witness", []evidence.Outside{witness(far)}, bench.Gold, "witness w.example has seen 1000 entries of the history"},
		{"a remote", []evidence.Outside{git(far)}, bench.Gold, "1000 entries of the history are in git at https://git.example.com/evals.git: look there before you approve"},
		{"both, of which one has seen enough", []evidence.Outside{git(1), witness(far)}, bench.Gold, "witness w.example"},
		{"a witness of the beginning alone", []evidence.Outside{witness(2)}, bench.Silver, "no one outside this machine has seen attempt fix.agent.1 (entry 26)"},
		{"a remote with the beginning alone", []evidence.Outside{git(2), git(1)}, bench.Silver, "no one outside this machine has seen attempt fix.agent.1 (entry 26)"},
	} {
		c := standard()
		c.registration = lenient(bench.Silver)
		k := newBook(t, c.verified(t))
		honest(k)
		k.relive("oscar", nil)
		k.outside = tt.outside
		rec := k.recommend()
		if rec.RecommendedTier != string(tt.want) {
			t.Errorf("%s: recommended %s, want %s: %q", tt.name, rec.RecommendedTier, tt.want, rec.Rationale)
		}
		if !slices.ContainsFunc(rec.Rationale, func(line string) bool { return strings.Contains(line, tt.says) }) {
			t.Errorf("%s: no line says %q: %q", tt.name, tt.says, rec.Rationale)
		}
		if !slices.Equal(rec.Recommendation.Outside, tt.outside) {
			t.Errorf("%s: the record says %v", tt.name, rec.Recommendation.Outside)
		}
	}
}

// Whatever gold counts on must have been seen, not only what is under review: each
// kind of it comes last once, and the outside, or the last anchor, sees every length
// of the history.
func TestGoldNeedsThatAllItCountsOnWasSeen(t *testing.T) {
	right := evidence.Grade{Passed: true, Score: 1}
	for _, tt := range []struct {
		name string
		what string // the ground that comes last
		// write writes a history that carries gold, of which the last entry is needed.
		write func(k *book)
		// more is written after that, and nothing counts on it.
		more func(k *book)
	}{
		{name: "the live reproduction", what: "live attempt fix.agent.2", write: func(k *book) { honest(k); k.relive("oscar", nil) }},
		{name: "the reproduction", what: "the reproduction of attempt fix.agent.2",
			write: func(k *book) {
				k.last.target = "agent"
				k.relive("oscar", nil)
				k.reproduce(k.runs(run{}), "oscar", nil)
			}},
		{name: "the attempt under review", what: "attempt fix.agent.3",
			write: func(k *book) { honest(k); k.relive("oscar", nil); k.runs(run{}) }},
		{name: "a correction by two people", what: "the correction of case case-01 of fix.agent.1", write: func(k *book) {
			k.reproduce(k.runs(run{score: failFirst}), "oscar", nil)
			k.relive("oscar", nil)
			k.correct(1, evidence.Grade{}, right, 1, "alice", "bob")
		}},
		{name: "the second signature of a correction", what: "the correction of case case-01 of fix.agent.1", write: func(k *book) {
			k.reproduce(k.runs(run{score: failFirst}), "oscar", nil)
			k.relive("oscar", nil)
			k.correct(1, evidence.Grade{}, right, 1, "bob")
			k.correct(1, evidence.Grade{}, right, 1, "alice")
		}},
		{name: "an amendment", what: "the amendment of case case-01 of fix.agent.1", write: func(k *book) {
			honest(k)
			k.relive("oscar", nil)
			k.add(evidence.ScoreAmendedKind, &evidence.ScoreAmended{Entry: 3, Author: "olga", Reason: "a rounding",
				Score: evidence.Score{Passed: true, Score: 0.9, Breakdown: map[string]float64{"exact": 1}, FailureModes: []string{}}})
		}},
		{name: "who may sign", what: "version 2 of the signers", write: func(k *book) {
			honest(k)
			k.relive("oscar", nil)
			k.changeSigners()
		}},
		{name: "when a case was accepted", what: "the acceptance of case case-01", write: func(k *book) {
			honest(k)
			k.relive("oscar", nil)
			k.accept(class)
		}},
		{name: "what is not needed may come later", what: "live attempt fix.agent.2", write: func(k *book) { honest(k); k.relive("oscar", nil) },
			more: func(k *book) {
				k.reproduce("fix.agent.1", "oscar", nil)
				k.relive("oscar", nil)
				k.accept("another")
				k.add(evidence.NoteKind, &evidence.Note{})
			}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := standard()
			c.registration = lenient(bench.Silver)
			k := newBook(t, c.verified(t))
			tt.write(k)
			last := k.l.Tip().Size - 1
			if tt.more != nil {
				tt.more(k)
			}
			in := k.input()
			all := in.History.Entries
			try := func(size int64, by string, says string) {
				t.Helper()
				rec, err := Recommend(in)
				k.must(err)
				if got, want := rec.RecommendedTier == string(bench.Gold), size > last; got != want {
					t.Errorf("entry %d is needed, %s has seen %d entries: recommended %s: %q", last, by, size, rec.RecommendedTier, rec.Rationale)
				}
				if size == last && !slices.ContainsFunc(rec.Rationale, func(line string) bool {
					return strings.HasPrefix(line, says) && strings.Contains(line, fmt.Sprintf("%s (entry %d)", tt.what, last)) && strings.Contains(line, "anchor again")
				}) {
					t.Errorf("no line says that %s (entry %d) was not seen, and what to do: %q", tt.what, last, rec.Rationale)
				}
			}
			for size := int64(1); size <= all; size++ {
				in.Anchors = []dossier.CosignedAnchor{{Size: all}}
				in.Outside = []evidence.Outside{{Kind: evidence.OutsideWitness, By: "w.example", Size: size}}
				try(size, "the witness", "no one outside this machine has seen ")
				in.Anchors = []dossier.CosignedAnchor{{Size: size}}
				in.Outside[0].Size = all
				try(size, "the last anchor", "not covered by an anchor: ")
			}
		})
	}
}

// changeSigners puts version 2 of the signers into force, of the same people.
func (k *book) changeSigners() {
	k.Helper()
	one, err := seal.ParseSigners("signers", signersFile(k))
	k.must(err)
	next, err := seal.Compose(2, one.Digest(), one.Entries())
	k.must(err)
	change := &evidence.SignersChanged{Version: 2, Signers: string(next)}
	for _, who := range []string{"alice", "bob"} {
		sig, err := seal.SignWith(keyOf(k, who).Signer(), seal.NamespaceSigners, next)
		k.must(err)
		change.Signatures = append(change.Signatures, string(sig))
	}
	k.add(evidence.SignersChangedKind, change)
}

// accept fixes when the signatures of the first case had to be valid.
func (k *book) accept(class string) {
	k.Helper()
	signed, err := canon.Marshal("signed.json")
	k.must(err)
	k.add(evidence.CaseAcceptedKind, &evidence.CaseAccepted{Class: class, CaseID: caseID(0), Digest: digest.ContentOf(signed), Signed: digest.IDOf(signed), Signatures: []string{"a", "b"}})
}
