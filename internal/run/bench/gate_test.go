package bench

import (
	"slices"
	"testing"
)

// Every metric states its limit as it is meant: what costs has a most, what is good a
// least.
func TestAGateStatesItsLimitAsItIsMeant(t *testing.T) {
	most := []Metric{CostPerSolve, MedianLatencyMS, P95LatencyMS, PolicyViolations}
	for _, m := range []Metric{SolveRate, MeanScore, LowerBound95, CostPerSolve, MedianLatencyMS, P95LatencyMS, PolicyViolations, EvidenceCoverage, RollbackCorrectness} {
		want := string(m) + " of all cases at least 0"
		if slices.Contains(most, m) {
			want = string(m) + " of all cases at most 0"
		}
		if got := (Gate{Tag: "*", Metric: m}).Text(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got, want := (Gate{Tag: "hard", Metric: SolveRate, Threshold: 0.85}).Text(), "solve_rate of tag hard at least 0.85"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
