package trajectory

import (
	"testing"

	"tallystick/internal/record/cost"
)

func TestSpendingCountsWhatIsNotKnown(t *testing.T) {
	asked := func(call string) Payload { return &ModelCallStarted{Call: call} }
	for _, tt := range []struct {
		name      string
		events    []Payload
		want      cost.Cost
		uncounted int64
	}{
		{"a priced call", []Payload{asked("a"), &ModelCallCompleted{Call: "a", CostMicroUSD: 30, TokensIn: 10, TokensOut: 5}}, cost.Of(30, 0), 0},
		{"a model that costs nothing", []Payload{asked("a"), &ModelCallCompleted{Call: "a", TokensIn: 10, TokensOut: 5}}, cost.Of(0, 0), 0},
		{"no price", []Payload{asked("a"), &ModelCallCompleted{Call: "a", TokensIn: 10, TokensOut: 5, Unpriced: true}}, cost.Of(0, 1), 0},
		{"no usage", []Payload{asked("a"), &ModelCallCompleted{Call: "a", Unpriced: true}}, cost.Of(0, 1), 1},
		{"half of the usage", []Payload{asked("a"), &ModelCallCompleted{Call: "a", TokensIn: 10, Unpriced: true}}, cost.Of(0, 1), 1},
		{"sent and not answered", []Payload{asked("a"), &Failure{Call: "a", Unpriced: true}}, cost.Of(0, 1), 1},
		{"never sent", []Payload{asked("a"), &Failure{Call: "a"}}, cost.Of(0, 0), 0},
		{"cut off", []Payload{asked("a"), asked("b"), &ModelCallCompleted{Call: "b", CostMicroUSD: 7}}, cost.Of(7, 1), 1},
		{"a tool", []Payload{&ToolExecuted{CostMicroUSD: 4}}, cost.Of(4, 0), 0},
	} {
		var s Spending
		for _, p := range tt.events {
			s.Add(p)
		}
		if _, uncounted := s.Tokens(); s.Cost() != tt.want || uncounted != tt.uncounted {
			t.Errorf("%s: %s and %d uncounted, want %s and %d", tt.name, s.Cost(), uncounted, tt.want, tt.uncounted)
		}
	}
}
