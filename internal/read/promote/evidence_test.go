package promote

import (
	"slices"
	"strings"
	"testing"

	"tallystick/internal/read/history"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/run/bench"
)

// People sign that a cassette was recorded; only the ledger's own entry of the
// recording makes it so.
func TestOnlyWhatTheLedgerSawRecordedCounts(t *testing.T) {
	tapes := func(k *book, edit func(*evidence.CassetteRecorded)) {
		for _, c := range k.bench.Cases() {
			r := tapeOf(class, c.Case().CaseID, *c.Case().CassetteDigest, modelServer)
			if edit != nil {
				edit(r)
			}
			k.add(evidence.CassetteRecordedKind, r)
		}
	}
	byHand := func(k *book) {
		for _, c := range k.bench.Cases() {
			k.byHand(evidence.CassetteRecordedKind, tapeOf(class, c.Case().CaseID, *c.Case().CassetteDigest, modelServer))
		}
	}
	for _, tt := range []struct {
		name  string
		write func(k *book)
		want  bench.Tier
	}{
		{"recorded before the attempt", func(k *book) { tapes(k, nil); honest(k) }, bench.Silver},
		{"not recorded here", honest, None},
		{"recorded after the attempt", func(k *book) { honest(k); tapes(k, nil) }, None},
		{"recorded and thrown away", func(k *book) { tapes(k, func(r *evidence.CassetteRecorded) { r.Kept = false }); honest(k) }, None},
		{"recorded, and could not be written", func(k *book) {
			tapes(k, nil)
			tapes(k, func(r *evidence.CassetteRecorded) { r.Kept = false })
			honest(k)
		}, None},
		{"edited, and so recorded in the ledger", func(k *book) { tapes(k, func(r *evidence.CassetteRecorded) { r.Provenance = "edited" }); honest(k) }, None},
		{"recorded for another class", func(k *book) { tapes(k, func(r *evidence.CassetteRecorded) { r.Class = "other" }); honest(k) }, None},
		{"another recording", func(k *book) {
			tapes(k, func(r *evidence.CassetteRecorded) { r.Digest = digest.ContentOf(r.Digest[:]) })
			honest(k)
		}, None},
		{"claimed by hand", func(k *book) { byHand(k); honest(k) }, None},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			k := newBook(t, standard().verified(t))
			k.noTapes = true
			tt.write(k)
			rec := k.recommend()
			told := strings.Contains(strings.Join(rec.Notes, "\n"), "12 cases count as failed, no cassette.recorded entry names its cassette")
			if rec.RecommendedTier != string(tt.want) || told != (tt.want == None) {
				t.Errorf("recommended %s, want %s: %q", rec.RecommendedTier, tt.want, rec.Rationale)
			}
		})
	}
}

// What a second runner signed is about one attempt and one result, counts once,
// and a disagreement stands.
func TestReproductionsThatDoNotCount(t *testing.T) {
	disagrees := func(r *evidence.AttemptReproduced) { r.Agrees, r.Divergence = false, "case-04, turn 2" }
	const stands = "attempt fix.agent.1 was run again by oscar and diverged: case-04, turn 2"
	const again = "no attempt under review was reproduced by a different runner"
	for _, tt := range []struct {
		name  string
		write func(k *book)
		want  string
	}{
		{"agrees, disagrees", func(k *book) {
			id := k.runs(run{})
			k.reproduce(id, "oscar", nil)
			k.reproduce(id, "oscar", disagrees)
		}, stands},
		{"disagrees, and then agrees", func(k *book) {
			id := k.runs(run{})
			k.reproduce(id, "oscar", disagrees)
			k.reproduce(id, "oscar", nil)
		}, stands},
		{"one disagrees, another agrees", func(k *book) {
			id := k.runs(run{})
			k.reproduce(id, "oscar", disagrees)
			k.reproduce(id, "olga's laptop", nil)
		}, stands},
		{"of another registration under this name", func(k *book) {
			other := digest.IDOf([]byte("another ledger"))
			k.reproduce(k.runs(run{}), "oscar", func(r *evidence.AttemptReproduced) { r.Registered = &other })
		}, again},
		{"of another end under this name", func(k *book) {
			other := digest.IDOf([]byte("another ledger"))
			k.reproduce(k.runs(run{}), "oscar", func(r *evidence.AttemptReproduced) { r.Finished = &other })
		}, again},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			k := newBook(t, standard().verified(t))
			tt.write(k)
			rec := k.recommend()
			if rec.RecommendedTier == string(bench.Silver) || !slices.ContainsFunc(rec.KeepsFrom(bench.Silver), func(why string) bool { return strings.Contains(why, tt.want) }) {
				t.Errorf("recommended %s: %q, want %q", rec.RecommendedTier, rec.KeepsFrom(bench.Silver), tt.want)
			}
		})
	}
}

// After a disagreement the operator appends the earlier agreement again: the ledger
// refuses it.
func TestAReproductionIsNotAppendedTwice(t *testing.T) {
	k := newBook(t, standard().verified(t))
	id := k.runs(run{})
	var first *evidence.AttemptReproduced
	k.reproduce(id, "oscar", func(r *evidence.AttemptReproduced) { first = r })
	k.reproduce(id, "oscar", func(r *evidence.AttemptReproduced) { r.Agrees, r.Divergence = false, "case-04" })
	if _, err := k.l.AppendRecord(evidence.AttemptReproducedKind, first); err == nil || !strings.Contains(err.Error(), "counts once") {
		t.Errorf("appended again: %v", err)
	}
	first.Signature = "another spelling"
	if _, err := k.l.AppendRecord(evidence.AttemptReproducedKind, first); err == nil {
		t.Error("appended again under another signature")
	}
	if rec := k.recommend(); rec.RecommendedTier != string(bench.Bronze) {
		t.Errorf("recommended %s: %q", rec.RecommendedTier, rec.Rationale)
	}
}

// A snapshot of whatever a machine has is not something that another person could
// build again, although its digest is signed.
func TestAHostImageNeverCounts(t *testing.T) {
	inImage := func(_ int, s *evidence.CaseScored) { s.ImageDigest = &pythonImage }
	for kind, want := range map[string]struct {
		tier bench.Tier
		why  string
	}{
		bench.BuiltImage:    {bench.Silver, ""},
		bench.OCIImage:      {bench.Silver, ""},
		bench.CompiledImage: {None, "scored in an image whose digest the pinned recipe does not give"},
		bench.HostImage:     {None, "scored in a snapshot of a machine's own Python"},
		"":                  {None, "scored in an image of which the pins do not say how it was made"},
	} {
		t.Run("image "+kind, func(t *testing.T) {
			t.Parallel()
			c := standard()
			c.python, c.kind = true, kind
			k := newBook(t, c.verified(t))
			k.reproduce(k.runs(run{score: inImage}), "oscar", nil)
			rec := k.recommend()
			if rec.RecommendedTier != string(want.tier) || want.why != "" && !strings.Contains(strings.Join(rec.Notes, "\n"), want.why) {
				t.Errorf("recommended %s, want %s: %q", rec.RecommendedTier, want.tier, rec.Rationale)
			}
		})
	}
	// Two people signed that an image is built. It is if the recipe gives its digest.
	t.Run("called built", func(t *testing.T) {
		c := standard()
		c.python, c.kind, c.image = true, bench.BuiltImage, digest.ContentOf([]byte("a snapshot"))
		k := newBook(t, c.verified(t))
		k.reproduce(k.runs(run{score: func(_ int, s *evidence.CaseScored) { s.ImageDigest = &c.image }}), "oscar", nil)
		if rec := k.recommend(); rec.RecommendedTier != string(None) || !strings.Contains(strings.Join(rec.Notes, "\n"), "the pinned recipe does not give") {
			t.Errorf("recommended %s: %q", rec.RecommendedTier, rec.Rationale)
		}
	})
	// A case's own way of grading does not bring an image of its own.
	k := newBook(t, standard().verified(t))
	k.reproduce(k.runs(run{score: func(i int, s *evidence.CaseScored) {
		if i == 0 {
			s.ImageDigest = &pythonImage
		}
	}}), "oscar", nil)
	if rec := k.recommend(); rec.RecommendedTier != string(bench.Bronze) {
		t.Errorf("recommended %s: %q", rec.RecommendedTier, rec.Rationale)
	}
}

// A newer target does not push another out of sight: each is listed, with what
// took its place.
func TestOtherTargetsAreListed(t *testing.T) {
	k := newBook(t, standard().verified(t))
	k.runs(run{target: "failing", score: failFirst})
	k.runs(run{target: "failing", version: "2", score: failFirst})
	honest(k)
	rec := k.recommend()
	var told int
	for _, note := range rec.Notes {
		if strings.HasPrefix(note, "target failing blake3:") && strings.Contains(note, "is not under review with 1 finished attempt: fix.failing.") && strings.Contains(note, "; a newer finished attempt is of target agent blake3:") {
			told++
		}
	}
	if told != 2 {
		t.Errorf("notes %q", rec.Notes)
	}
}

// Two people signed for what the class leaves out of a question.
func TestNormalisersOfTheClassCount(t *testing.T) {
	k := newBook(t, standard().verified(t))
	k.reproduce(k.runs(run{
		register: func(r *evidence.AttemptRegistered) {
			r.Plan.Normalisers = []evidence.PlannedNormaliser{{From: evidence.FromClass, Name: "dates"}}
		},
		score: func(_ int, s *evidence.CaseScored) { s.Normalised = &evidence.NormalisedCount{Class: 3} },
	}), "oscar", nil)
	if rec := k.recommend(); rec.RecommendedTier != string(bench.Silver) {
		t.Errorf("recommended %s: %q", rec.RecommendedTier, rec.Rationale)
	}
}

// What a program did that no commit holds cannot be said.
func TestAProgramOfUnknownSourceDoesNotCount(t *testing.T) {
	for version, counts := range map[string]bool{"v1.2.3": true, "devel+0123456789abcdef": true, "devel": false, "": false, "devel+0123456789abcdef+modified": false} {
		k := newBook(t, standard().verified(t))
		k.reproduce(k.runs(run{score: func(_ int, s *evidence.CaseScored) { s.HarnessVersion = version }}), "oscar", nil)
		rec := k.recommend()
		told := strings.Contains(strings.Join(rec.Notes, "\n"), "made by a program that no version or commit names")
		if (rec.RecommendedTier == string(bench.Silver)) != counts || told == counts {
			t.Errorf("%q: recommended %s: %q", version, rec.RecommendedTier, rec.Rationale)
		}
	}
}

// What two people signed for one target says nothing about another.
func TestARecordIsOfTheCassetteThatWasSignedForItsTarget(t *testing.T) {
	shared, own, others := digest.ContentOf([]byte("shared")), digest.ContentOf([]byte("own")), digest.ContentOf([]byte("other's"))
	said := &bench.Case{CassetteDigest: &shared, CassetteProvenance: bench.Recorded, Cassettes: map[string]bench.TargetCassette{
		"robot": {Digest: own, Provenance: bench.Recorded}, "other": {Digest: others, Provenance: bench.Authored}}}
	for _, tt := range []struct {
		target string
		played *digest.Content
		want   string
	}{
		{"robot", &own, ""},
		{"robot", &shared, "of another cassette"},
		{"robot", &others, "of another cassette"},
		{"robot", nil, "of another cassette"},
		{"third", &shared, ""},
		{"third", &own, "of another cassette"},
		{"other", &others, "cassette_provenance is authored"},
	} {
		c := &history.Case{Cassette: tt.played, Context: &history.Context{Provenance: "recorded"}}
		if got := cassetteProblem(c, said, tt.target); got != tt.want {
			t.Errorf("target %s with %v: %q, want %q", tt.target, tt.played, got, tt.want)
		}
	}
}
