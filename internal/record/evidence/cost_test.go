package evidence

import (
	"testing"

	"tallystick/internal/record/cost"
)

// TestOldRecordsProveTheirCostOrDoNotTellIt: only a record that counts unpriced calls,
// or whose other members leave no place for one, tells what the case cost.
func TestOldRecordsProveTheirCostOrDoNotTellIt(t *testing.T) {
	n := func(n int64) *int64 { return &n }
	paid := func(unknown int) *Paid { return &Paid{Calls: 1, Unknown: unknown} }
	told, untold := cost.Of(5, 0), cost.Cost{MicroUSD: 5, Untold: 1}
	for _, tt := range []struct {
		name   string
		record CaseScored
		want   cost.Cost
	}{
		{"counted, none", CaseScored{Unpriced: n(0), Provenance: "recorded", Vantage: "gateway"}, told},
		{"counted, two", CaseScored{Unpriced: n(2), Provenance: "recorded", Vantage: "inside"}, cost.Of(5, 2)},
		{"counted where not all is seen", CaseScored{Unpriced: n(1), Vantage: "world"}, cost.Cost{MicroUSD: 5, Unpriced: 1, Untold: 1}},
		{"old, authored", CaseScored{Provenance: "authored", Vantage: "gateway"}, told},
		{"old, nothing that could answer", CaseScored{Vantage: "inside"}, told},
		{"old, replayed", CaseScored{Provenance: "recorded", Vantage: "gateway"}, untold},
		{"old, edited", CaseScored{Provenance: "edited", Vantage: "gateway"}, untold},
		{"old, live", CaseScored{Provenance: "recorded", Vantage: "gateway", Paid: paid(0)}, told},
		{"old, live, a call of unknown cost", CaseScored{Vantage: "gateway", Paid: paid(1)}, untold},
		{"old, live, from a recording", CaseScored{Provenance: "recorded", Vantage: "gateway", Paid: paid(0), Cached: &Cached{Replies: 1}}, untold},
		{"old, behind a URL", CaseScored{Provenance: "authored", Vantage: "answers"}, untold},
		{"old, a vantage of a later version", CaseScored{Vantage: "above"}, untold},
	} {
		tt.record.CostMicroUSD = 5
		if got := tt.record.Cost(); got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
	if got := (&AttemptFinished{CostMicroUSD: 5}).Cost(); got != untold {
		t.Errorf("an old end tells %+v", got)
	}
	if got := (&AttemptFinished{CostMicroUSD: 5, Unpriced: n(2), CostUntold: 1}).Cost(); got != (cost.Cost{MicroUSD: 5, Unpriced: 2, Untold: 1}) {
		t.Errorf("an end tells %+v", got)
	}
}
