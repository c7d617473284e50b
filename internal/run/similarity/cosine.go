package similarity

import "math"

// Cosine is the cosine of the angle between two vectors of one length, of which
// none is zero, cut to 0 to 1: texts that are opposed are not alike. Products are
// rounded one by one, so that it is the same on processors that would fuse them.
func Cosine(a, b []float64) float64 {
	a, b = scaled(a), scaled(b)
	var dot, aa, bb float64
	for i := range a {
		dot += float64(a[i] * b[i])
		aa += float64(a[i] * a[i])
		bb += float64(b[i] * b[i])
	}
	return min(max(dot/float64(math.Sqrt(aa)*math.Sqrt(bb)), 0), 1)
}

// scaled divides by the largest number, so that squares neither overflow nor
// vanish; the angle stays.
func scaled(v []float64) []float64 {
	most := 0.0
	for _, x := range v {
		most = max(most, math.Abs(x))
	}
	out := make([]float64, len(v))
	for i, x := range v {
		out[i] = x / most
	}
	return out
}
