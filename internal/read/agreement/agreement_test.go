package agreement

import (
	"bufio"
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"
)

func table(t *testing.T, labels []string, counts [][]int) *Table {
	t.Helper()
	var pairs []Pair
	for i, row := range counts {
		for j, n := range row {
			pairs = append(pairs, slices.Repeat([]Pair{{labels[i], labels[j]}}, n)...)
		}
	}
	got, err := NewTable(labels, pairs)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// The expected values are those of scikit-learn 1.9 and statsmodels 0.15, rounded.
func TestKappa(t *testing.T) {
	for _, tt := range []struct {
		name   string
		counts [][]int
		w      Weights
		want   Kappa
	}{
		{"the example of Cohen 1960", [][]int{{88, 14, 18}, {10, 40, 10}, {2, 6, 12}}, Unweighted, Kappa{0.4915254237, 0.3916, 0.5915}},
		{"linear", [][]int{{88, 14, 18}, {10, 40, 10}, {2, 6, 12}}, Linear, Kappa{0.4736842105, 0.3670, 0.5804}},
		{"quadratic", [][]int{{88, 14, 18}, {10, 40, 10}, {2, 6, 12}}, Quadratic, Kappa{0.4545454545, 0.3243, 0.5848}},
		{"two labels", [][]int{{20, 5}, {10, 15}}, Unweighted, Kappa{0.4, 0.1511, 0.6489}},
		{"always the opposite", [][]int{{0, 10}, {10, 0}}, Unweighted, Kappa{-1, -1, -1}},
		{"always the same", [][]int{{7, 0}, {0, 3}}, Unweighted, Kappa{1, 1, 1}},
	} {
		got, ok := table(t, []string{"a", "b", "c"}[:len(tt.counts)], tt.counts).Kappa(tt.w)
		if !ok || math.Abs(got.Value-tt.want.Value) > 1e-9 || math.Abs(got.Low-tt.want.Low) > 5e-5 || math.Abs(got.High-tt.want.High) > 5e-5 {
			t.Errorf("%s: %+v %v, want %+v", tt.name, got, ok, tt.want)
		}
	}
}

func TestKappaIsNotDefined(t *testing.T) {
	for name, counts := range map[string][][]int{"of nothing": {{0, 0}, {0, 0}}, "of one label only": {{9, 0}, {0, 0}}} {
		if got, ok := table(t, []string{"pass", "fail"}, counts).Kappa(Unweighted); ok {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestRateAndTable(t *testing.T) {
	got := table(t, []string{"pass", "fail"}, [][]int{{3, 1}, {0, 4}})
	if got.N != 8 || got.Agreed() != 7 || got.Rate() != 0.875 || got.Counts[0][1] != 1 {
		t.Errorf("%+v, rate %v", got, got.Rate())
	}
	if _, err := NewTable([]string{"pass", "fail"}, []Pair{{"pass", "maybe"}}); err == nil {
		t.Error("a label that is not one of the scale was counted")
	}
	if _, err := NewTable([]string{"pass", "pass"}, nil); err == nil {
		t.Error("a scale with a label twice")
	}
}

// TestReferenceTables compares with what scikit-learn and statsmodels said of the
// same tables. .ci/conformance.d/agreement writes the file.
func TestReferenceTables(t *testing.T) {
	name := os.Getenv("TALLY_REFERENCE_TABLES")
	if name == "" {
		t.Skip("TALLY_REFERENCE_TABLES names no file; .ci/conformance agreement makes one")
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	n := 0
	for ; lines.Scan(); n++ {
		var want struct {
			Counts           [][]int
			Weights          Weights
			Value, Low, High float64
			Interval         bool
		}
		if err := json.Unmarshal(lines.Bytes(), &want); err != nil {
			t.Fatal(err)
		}
		labels := []string{"a", "b", "c", "d", "e", "f"}[:len(want.Counts)]
		got, ok := table(t, labels, want.Counts).Kappa(want.Weights)
		if !ok || math.Abs(got.Value-want.Value) > 1e-9 {
			t.Errorf("line %d: %+v, want %+v", n+1, got, want)
		}
		if want.Interval && (math.Abs(got.Low-max(-1, want.Low)) > 1e-9 || math.Abs(got.High-min(1, want.High)) > 1e-9) {
			t.Errorf("line %d: interval %+v, want %+v", n+1, got, want)
		}
	}
	if n < 100 || lines.Err() != nil {
		t.Errorf("%d tables (%v)", n, lines.Err())
	}
}
