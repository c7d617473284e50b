package history

import (
	"testing"

	"tallystick/internal/record/cost"
	"tallystick/internal/record/evidence"
)

func TestWhatWasPaidIsSaidWhereItDiffers(t *testing.T) {
	elsewhere := cost.Cost{Untold: 1}
	for _, tt := range []struct {
		name   string
		paid   *evidence.Paid
		scored cost.Cost
		want   string
	}{
		{"a replay", nil, cost.Of(1, 0), ""},
		{"everything was scored", &evidence.Paid{Calls: 2, CostMicroUSD: 60}, cost.Of(60, 0), ""},
		{"a judge, or an execution that was cut short", &evidence.Paid{Calls: 3, CostMicroUSD: 90}, cost.Of(60, 0), "$0.000090 for 3 calls by every execution and the judge"},
		{"a call of unknown outcome", &evidence.Paid{Calls: 2, CostMicroUSD: 60, Unknown: 1, UnknownMicroUSD: 500}, cost.Of(60, 0), "$0.000060 for 2 calls by every execution and the judge; 1 more of unknown cost, at most $0.000500 for those with a price"},
		{"a call without a price, of which the cost says so already", &evidence.Paid{Calls: 2, CostMicroUSD: 60, Unknown: 1}, cost.Of(60, 1), ""},
		{"more calls without a price than were scored", &evidence.Paid{Calls: 2, CostMicroUSD: 60, Unknown: 3}, cost.Of(60, 1), "$0.000060 for 2 calls by every execution and the judge; 3 more of unknown cost"},
		{"an agent elsewhere", &evidence.Paid{}, elsewhere, ""},
		{"an agent elsewhere, and a judge", &evidence.Paid{Calls: 1, CostMicroUSD: 30}, elsewhere, "$0.000030 for 1 calls by every execution and the judge; what the agent paid elsewhere is not known"},
	} {
		if got := PaidOf(tt.paid).Beside(tt.scored); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	if got := PaidOf(nil, &evidence.Paid{Calls: 1}, &evidence.Paid{Calls: 2, Unknown: 1}); got.Calls != 3 || got.UnknownCalls != 1 {
		t.Errorf("%+v", got)
	}
}
