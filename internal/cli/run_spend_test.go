package cli

import (
	"testing"

	"tallystick/internal/app/spend"
)

// What is not a limit is no, and never one that was not meant.
func TestLimitsThatPeopleType(t *testing.T) {
	for text, want := range map[string]spend.Limit{
		"yes":                {MicroUSD: 1_000_000},
		" YES ":              {MicroUSD: 1_000_000},
		"2.50":               {MicroUSD: 2_500_000},
		"$2.50":              {MicroUSD: 2_500_000},
		"20 calls":           {Calls: 20},
		"1 call":             {Calls: 1},
		"20calls":            {Calls: 20},
		"1.00 and 20 calls":  {MicroUSD: 1_000_000, Calls: 20},
		"yes and 20 calls":   {MicroUSD: 1_000_000, Calls: 20},
		"$0.5  and 3  calls": {MicroUSD: 500_000, Calls: 3},
	} {
		if got, ok := parseLimit(text); !ok || got != want {
			t.Errorf("%q: %+v, %v", text, got, ok)
		}
	}
	for _, text := range []string{"", "y", "no", "0", "-1", "NaN", "inf", "1e300", "0 calls", "-1 calls", "1.5 calls", "calls", "1 and", "1 and 2", "and 2 calls", "1 and 0 calls", "1 and NaN calls", "9999999999", "9999999 calls", "1,00", "20 calls and 1.00", "no and 20 calls"} {
		if got, ok := parseLimit(text); ok {
			t.Errorf("%q is a limit: %+v", text, got)
		}
	}
}
