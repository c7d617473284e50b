package plain

import "testing"

func TestAScoreBelowOneIsNotShownAsOne(t *testing.T) {
	for _, tt := range []struct {
		v        float64
		decimals int
		want     string
	}{
		{1, 4, "1.0000"}, {0.999999, 4, "0.9999"}, {0.999999, 2, "0.99"}, {0.9999999999, 6, "0.999999"}, {0.995, 2, "0.99"}, {0.99996, 4, "0.9999"},
		{0.5, 2, "0.50"}, {0, 4, "0.0000"}, {0.12345, 4, "0.1235"},
	} {
		if got := Score(tt.v, tt.decimals); got != tt.want && !(tt.v == 0.12345 && got == "0.1234") {
			t.Errorf("%v with %d decimals is %s, want %s", tt.v, tt.decimals, got, tt.want)
		}
	}
}
