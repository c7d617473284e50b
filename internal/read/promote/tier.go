package promote

import (
	"fmt"
	"slices"

	"tallystick/internal/read/scorecard"
	"tallystick/internal/run/bench"
)

// A TierCheck is one tier held against the evidence.
type TierCheck struct {
	Tier         bench.Tier `json:"tier"`
	Met          bool       `json:"met"`
	Threshold    float64    `json:"threshold"`
	MinimumCases int        `json:"minimum_cases"`
	Unmet        []string   `json:"unmet"`
}

// measure takes the figures that every tier is held against.
func (r *review) measure(rec *Recommendation, samples []sample) {
	scores := make([]float64, len(samples))
	for i, s := range samples {
		scores[i] = s.score
		if s.passed && s.said != nil {
			rec.PassedCount++
		}
	}
	rec.LowerBound95, _ = scorecard.BCa(scores, scorecard.Seed)
}

// highestTier recommends the highest tier whose every condition, and every
// condition of the tiers below it, the evidence meets, less one tier for each
// kind of regression. What tier the class is at does not matter: a class whose
// agent fails everything is worth none, whatever it was given before.
func (r *review) highestTier(rec *Recommendation, samples []sample) {
	recommended := None
	for _, tier := range bench.Tiers() {
		check := TierCheck{Tier: tier, Threshold: r.reg.Threshold(tier).LowerBound95, MinimumCases: r.reg.Minimum(tier), Unmet: r.unmet(rec, tier)}
		check.Met = len(check.Unmet) == 0
		rec.Tiers = append(rec.Tiers, check)
		switch {
		case rec.NextTier != "":
		case check.Met:
			recommended = tier
		default:
			rec.NextTier, rec.Unmet = tier, slices.Clone(check.Unmet)
		}
		if rec.NextTier == "" || rec.NextTier == tier {
			rec.Threshold, rec.MinimumCases = check.Threshold, check.MinimumCases
		}
	}
	if rec.Met = rec.NextTier == ""; rec.Met {
		rec.Notes = append(rec.Notes, fmt.Sprintf("%s is the highest tier", recommended))
	}
	for _, why := range r.regressions(samples) {
		recommended = below(recommended)
		rec.Unmet = append(rec.Unmet, why)
	}
	if rank(recommended) < rank(r.reg.CurrentTier) {
		rec.Notes = append(rec.Notes, fmt.Sprintf("the present tier, %s, is above what the evidence carries", r.reg.CurrentTier))
	}
	rec.RecommendedTier = string(recommended)
}

// regressions are the lines about cases that were solved and no longer are, and
// about incidents that the bench did not foresee. They lower what is
// recommended, never the tier itself.
func (r *review) regressions(samples []sample) []string {
	var why []string
	if ids := r.regressed(); len(ids) > 0 {
		why = append(why, fmt.Sprintf("regression: %s: %s", counted(len(ids), "case was solved before and is not now", "cases were solved before and are not now"), names(ids)))
	}
	if ids := r.missed(samples); len(ids) > 0 {
		why = append(why, fmt.Sprintf("regression: production incidents that the bench missed: %s", names(ids)))
	}
	return why
}

// asked is the tier whose threshold the notes are about.
func asked(rec *Recommendation) bench.Tier {
	if rec.NextTier != "" {
		return rec.NextTier
	}
	tiers := bench.Tiers()
	return tiers[len(tiers)-1]
}

// rank orders the tiers; None comes before all.
func rank(t bench.Tier) int { return slices.Index(bench.Tiers(), t) }

// below is the tier under t, None under the lowest.
func below(t bench.Tier) bench.Tier {
	if rank(t) <= 0 {
		return None
	}
	return bench.Tiers()[rank(t)-1]
}
