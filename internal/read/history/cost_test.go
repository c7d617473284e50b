package history

import (
	"testing"

	"tallystick/internal/record/evidence"
	"tallystick/internal/run/vantage"
)

// TestCostIsToldWhereTheVantageShowsIt holds the two tables together: package evidence
// cannot import package vantage.
func TestCostIsToldWhereTheVantageShowsIt(t *testing.T) {
	for _, v := range append(vantage.All(), "another") {
		seen := vantage.Of(string(v)).Sees(vantage.Cost).Sight == vantage.Seen
		record := evidence.CaseScored{Vantage: string(v), Unpriced: new(int64)}
		if got := record.Cost().Known(); got != seen {
			t.Errorf("%s: the cost is known: %v; the vantage shows it: %v", v, got, seen)
		}
	}
}
