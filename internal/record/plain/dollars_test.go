package plain

import (
	"math"
	"strings"
	"testing"
)

func TestDollars(t *testing.T) {
	for micro, want := range map[int64]string{0: "$0.00", 5: "$0.000005", 1_500_000: "$1.50", 1_230_000: "$1.23", -20_000: "-$0.02", 1_234_567: "$1.234567"} {
		if got := Dollars(micro); got != want {
			t.Errorf("Dollars(%d) = %s, want %s", micro, got, want)
		}
	}
	if strings.Contains(Dollars(math.MinInt64+1), "--") {
		t.Error("a double sign")
	}
}
