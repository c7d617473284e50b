package promote

import (
	"slices"
	"strings"
	"testing"

	"tallystick/internal/record/evidence"
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
		{"no observer", []evidence.Outside{}, bench.Silver, "no one outside this machine has seen this history"},
		{"a witness", []evidence.Outside{witness(far)}, bench.Gold, "witness w.example has seen 1000 entries of the history"},
		{"a remote", []evidence.Outside{git(far)}, bench.Gold, "1000 entries of the history are in git at https://git.example.com/evals.git: look there before you approve"},
		{"both, of which one has seen enough", []evidence.Outside{git(1), witness(far)}, bench.Gold, "witness w.example"},
		{"a witness of the beginning alone", []evidence.Outside{witness(2)}, bench.Silver, "no one outside this machine has seen entry"},
		{"a remote with the beginning alone", []evidence.Outside{git(2), git(1)}, bench.Silver, "no one outside this machine has seen entry"},
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
