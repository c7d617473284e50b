package similarity

import (
	"math"
	"testing"
)

func TestCosine(t *testing.T) {
	for _, tt := range []struct {
		a, b []float64
		want float64
	}{
		{[]float64{1, 0}, []float64{1, 0}, 1},
		{[]float64{1, 0}, []float64{0, 1}, 0},
		{[]float64{1, 0}, []float64{-1, 0}, 0}, // cut
		{[]float64{1, 0}, []float64{3, 4}, 0.6},
		{[]float64{1, 2, 3}, []float64{2, 4, 6}, 1},
		{[]float64{1, 2, 3}, []float64{4, 5, 6}, 0.974631846},
		{[]float64{1e308, 1e308}, []float64{1e-320, 0}, 0.707106781},
	} {
		if got := Cosine(tt.a, tt.b); math.IsNaN(got) || math.Abs(got-tt.want) > 1e-9 {
			t.Errorf("%v and %v: %v, want %v", tt.a, tt.b, got, tt.want)
		}
	}
}
