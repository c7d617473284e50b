package cost

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestTextSaysWhatIsNotKnown(t *testing.T) {
	for _, tt := range []struct {
		cost        Cost
		want, short string
	}{
		{Cost{}, "$0.000000", "$0.00"},
		{Of(1200, 0), "$0.001200", "$0.0012"},
		{Of(-1200, 0), "-$0.001200", "-$0.0012"},
		{Of(0, 1), "at least $0.000000, 1 call unpriced", "at least $0.00, 1 call unpriced"},
		{Of(1200, 2), "at least $0.001200, 2 calls unpriced", "at least $0.0012, 2 calls unpriced"},
		{Cost{Untold: 1}, "unknown", "unknown"},
		{Cost{MicroUSD: 5, Untold: 2}, "at least $0.000005, cost of 2 tasks not all told", "at least $0.000005, cost of 2 tasks not all told"},
		{Cost{Unpriced: 3, Untold: 1}, "at least $0.000000, 3 calls unpriced, cost of 1 task not all told", "at least $0.00, 3 calls unpriced, cost of 1 task not all told"},
	} {
		if tt.cost.String() != tt.want || tt.cost.Short() != tt.short {
			t.Errorf("%+v: %q and %q, want %q and %q", tt.cost, tt.cost, tt.cost.Short(), tt.want, tt.short)
		}
	}
}

// TestUnknownStaysUnknown: whatever is done with costs, a result that one of unknown
// amount went into is not known, and says so in every form.
func TestUnknownStaysUnknown(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	any := func() Cost {
		c := Cost{MicroUSD: r.Int64N(1000)}
		if r.IntN(2) == 0 {
			c.Unpriced = r.Int64N(3)
		}
		if r.IntN(3) == 0 {
			c.Untold = r.Int64N(3)
		}
		return c
	}
	for range 20_000 {
		a, b, n := any(), any(), r.Int64N(4)
		known := a.Known() && b.Known()
		for name, got := range map[string]Cost{"sum": a.Plus(b), "difference": a.Minus(b), "mean": a.Plus(b).Per(n)} {
			if got.Known() != known {
				t.Fatalf("%s of %+v and %+v is %+v", name, a, b, got)
			}
			if shown := got.String(); (shown == USD(got.MicroUSD)) != known {
				t.Fatalf("%s of %+v and %+v is shown as %s", name, a, b, shown)
			}
			if got.Untold > 0 && (got.Dollars() != nil || got.Cell() != "") {
				t.Fatalf("%s of %+v and %+v has a number", name, a, b)
			}
		}
		if a.Plus(b) != b.Plus(a) || a.Compare(b) != -b.Compare(a) {
			t.Fatalf("%+v and %+v depend on their order", a, b)
		}
	}
}

func TestUnknownIsNeverTheCheaper(t *testing.T) {
	list := []Cost{Of(0, 1), Of(7, 0), {Untold: 1}, Of(3, 0), Of(9, 2)}
	slices.SortFunc(list, Cost.Compare)
	if list[0] != Of(3, 0) || list[1] != Of(7, 0) {
		t.Errorf("%v", list)
	}
}

// A difference is at least what is known of it only if all of the subtrahend is.
func TestDifferenceOfUnknownCosts(t *testing.T) {
	for _, tt := range []struct {
		a, b Cost
		want string
	}{
		{Of(5, 0), Of(9, 0), "-$0.000004"},
		{Of(9, 1), Of(5, 0), "at least $0.000004, 1 call unpriced"},
		{Of(9, 0), Of(5, 1), "unknown"},
		{Of(9, 1), Of(9, 1), "unknown"},
	} {
		if got := tt.a.Minus(tt.b).String(); got != tt.want {
			t.Errorf("%v - %v is %s, want %s", tt.a, tt.b, got, tt.want)
		}
	}
}

func TestSumStaysAtTheEndOfTheNumbers(t *testing.T) {
	if got := Of(math.MaxInt64, 0).Plus(Of(1, 0)); got.MicroUSD != math.MaxInt64 {
		t.Errorf("%d", got.MicroUSD)
	}
	if got := Of(-5, 0).Plus(Of(3, 0)); got.MicroUSD != -2 {
		t.Errorf("%d", got.MicroUSD)
	}
}

func TestJSONIsANumberOrNull(t *testing.T) {
	for _, tt := range []struct {
		cost Cost
		want string
	}{{Of(7, 0), "7"}, {Of(7, 2), "7"}, {Cost{MicroUSD: 7, Untold: 1}, "null"}} {
		got, err := json.Marshal(tt.cost)
		if err != nil || string(got) != tt.want {
			t.Errorf("%+v: %s, %v", tt.cost, got, err)
		}
		var back Cost
		if err := json.Unmarshal(got, &back); err != nil || (back.Untold > 0) != (tt.want == "null") {
			t.Errorf("%s is read as %+v, %v", got, back, err)
		}
	}
	var c Cost
	if json.Unmarshal([]byte(`"7"`), &c) == nil || json.Unmarshal([]byte(`1.5`), &c) == nil {
		t.Error("something else than micro-dollars was read")
	}
}
