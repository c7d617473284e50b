package grade

import (
	"strings"
	"testing"

	"tallystick/internal/trajectory"
)

// The second view says what a person would ask next about a number; what the
// official scorer says stays.
func TestSecondViewComparesQuantities(t *testing.T) {
	for _, tt := range []struct{ answer, expected, want string }{
		{"17 km", "17", "same"},
		{"17000 m", "17 km", "same"},
		{"1.609 km", "1 mile", "same"}, // rounded after a conversion
		{"1,000 kg", "1 t", "same"},
		{"$1,234.50", "1234.5", "same"},
		{"17", "17 km", "same"},
		{"1990", "1989", "other"}, // the original's tolerance of a thousandth takes these for the same
		{"17000 m", "17", "other"},
		{"17 kg", "17 km", "other"},
		{"17 miles", "17 km", "other"},
		{"seventeen", "17", ""},
		{"about 17 km", "17", ""},
		{"Paris", "Paris", ""},
		{"3 apples", "3 pears", ""},
		{strings.Repeat("9", 5000), "9", ""},
		{"", "", ""},
	} {
		d := []Detail{{Grader: GAIA, Expected: &trajectory.Content{Head: tt.expected}, Extracted: &trajectory.Content{Head: tt.answer}, Outcome: Mismatch}}
		got := ""
		for _, v := range SecondViews(d) {
			if got = "other"; v.Same {
				got = "same"
			}
			if v.View != QuasiExact || v.Why == "" {
				t.Errorf("%q: %+v", tt.answer, v)
			}
		}
		if got != tt.want || d[0].Outcome != Mismatch {
			t.Errorf("%q against %q: %q, expected %q", tt.answer, tt.expected, got, tt.want)
		}
	}
	if v := SecondViews([]Detail{{Grader: Exact, Expected: &trajectory.Content{Head: "1"}, Extracted: &trajectory.Content{Head: "1"}}, {Grader: GAIA}}); v != nil {
		t.Errorf("of other checks: %+v", v)
	}
}
