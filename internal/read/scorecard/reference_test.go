package scorecard

import (
	"bufio"
	"encoding/json"
	"math"
	"os"
	"testing"
)

// TestReferenceStatistics holds Holm's correction, the Wilson interval, sample sizes and
// detectable differences to what statsmodels gives, for the lines of a file: .ci/conformance.d/statistics makes it.
func TestReferenceStatistics(t *testing.T) {
	name := os.Getenv("TALLY_REFERENCE_STATISTICS")
	if name == "" {
		t.Skip("TALLY_REFERENCE_STATISTICS names no file; .ci/conformance.d/statistics makes one")
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	near := func(a, b float64) bool { return math.Abs(a-b) < 1e-9 }
	lines := 0
	for s := bufio.NewScanner(f); s.Scan(); lines++ {
		var want struct {
			P, Holm   []float64
			K, N      int
			Low, High float64

			Difference, Discordant, Pairs, Detectable float64
			Of                                        int
		}
		if err := json.Unmarshal(s.Bytes(), &want); err != nil {
			t.Fatal(err)
		}
		if want.P != nil {
			for i, got := range Holm(want.P) {
				if !near(got, want.Holm[i]) {
					t.Errorf("Holm of %v has %v at %d, statsmodels %v", want.P, got, i, want.Holm[i])
				}
			}
			continue
		}
		if want.Pairs > 0 {
			// Whole cases: a size within 1e-6 of a whole number may round either way.
			got := float64(CasesNeeded(want.Difference, want.Discordant))
			if got < want.Pairs-1e-6 || got >= want.Pairs+1+1e-6 {
				t.Errorf("a difference of %v at %v discordant needs %v cases, statsmodels %v", want.Difference, want.Discordant, got, want.Pairs)
			}
			continue
		}
		if want.Of > 0 {
			if got := Detectable(want.Of, want.Discordant); math.Abs(got-want.Detectable) > 1e-6 {
				t.Errorf("%d pairs at %v discordant show %v, statsmodels %v", want.Of, want.Discordant, got, want.Detectable)
			}
			continue
		}
		if low, high := Wilson(want.K, want.N, 1.959963984540054); !near(low, want.Low) || !near(high, want.High) {
			t.Errorf("Wilson of %d of %d is %v to %v, statsmodels %v to %v", want.K, want.N, low, high, want.Low, want.High)
		}
	}
	if lines < 1600 {
		t.Errorf("%d lines were compared, expected 1600", lines)
	}
}
