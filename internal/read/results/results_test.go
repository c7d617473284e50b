package results

import (
	"math"
	"reflect"
	"testing"

	"github.com/go-json-experiment/json"
)

// TestASlashInAScorersNameIsWritten so that the first slash of a key divides.
func TestASlashInAScorersNameIsWritten(t *testing.T) {
	if got, want := MetricKey("a/b%c", "x/y"), "a%2Fb%25c/x/y"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestPassAtKIsExact compares with the definition: the share of all ways to
// draw k of n attempts that hold a correct one.
func TestPassAtKIsExact(t *testing.T) {
	for n := range 8 {
		for c := range n + 1 {
			for k := 1; k <= n; k++ {
				with, all := 0, 0
				for set := range 1 << n {
					size, correct := 0, false
					for i := range n {
						if set>>i&1 == 1 {
							size++
							correct = correct || i < c
						}
					}
					if size == k {
						if all++; correct {
							with++
						}
					}
				}
				if got, want := PassAtK(int64(n), int64(c), int64(k)), float64(with)/float64(all); !Close(got, want) {
					t.Errorf("n=%d c=%d k=%d: got %v, want %v", n, c, k, got, want)
				}
			}
		}
	}
}

// TestTextThatIsNotANumberIsUnscored, and a number in a text that would be
// rounded is refused like any other.
func TestTextThatIsNotANumberIsUnscored(t *testing.T) {
	for _, text := range []string{"", " ", "nan", "NaN", "inf", "-Infinity", "N/A", "None", "2024-01-01", "1-2", "1e", "0x10", "1_000", "+", "cats"} {
		if s, err := TextScore(text); err != nil || s.Value != nil || s.Said != text {
			t.Errorf("%q: got %+v, %v", text, s, err)
		}
	}
	for text, want := range map[string]float64{"0.5": 0.5, " 1 ": 1, "-2e-3": -0.002, "True": 1, "false": 0} {
		if s, err := TextScore(text); err != nil || s.Value == nil || *s.Value != want {
			t.Errorf("%q: got %+v, %v", text, s, err)
		}
	}
	for _, text := range []string{"9007199254740992", "1e400"} {
		if s, err := TextScore(text); err == nil {
			t.Errorf("%q: got %+v, want a refusal", text, s)
		}
	}
}

// TestWhatIsNotKnownIsNull, and survives being read back.
func TestWhatIsNotKnownIsNull(t *testing.T) {
	b := NewBuilder("h", Source{Path: "p", SHA256: "s"}, nil)
	b.Run.Task = "a <task>"
	text, err := Document{Runs: []Run{b.Finish()}}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"runs":[{"harness":"h","harness_version":null,"task":"a <task>","model":null,"started_at":null,"samples":0,"scored":0,"unscored":0,"errors":0,"attempts":0,"metrics":{},"checks":[],"judges":[],"source":{"path":"p","sha256":"s"},"files":[],"notes":[]}]}`
	if string(text) != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
	var back Document
	if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(back.Runs[0], b.Run) {
		t.Errorf("read back %+v, %v", back, err)
	}
}

// TestTotalsAgreeWithTheirDefinitions: the running sums give what the formulas
// give over all values, also where a small spread stands on a large mean.
func TestTotalsAgreeWithTheirDefinitions(t *testing.T) {
	for _, values := range [][]float64{{1}, {0, 1, 1}, {0.25, 0.5, 0.125, 1, 1}, {1e6 + 0.1, 1e6 + 0.2, 1e6 + 0.3}} {
		sum := 0.0
		for _, v := range values {
			sum += v
		}
		mean, squares := sum/float64(len(values)), 0.0
		for _, v := range values {
			squares += (v - mean) * (v - mean)
		}
		deviation := 0.0
		if len(values) > 1 {
			deviation = math.Sqrt(squares / float64(len(values)-1))
		}
		got := Of(values)
		if !Close(got.Mean(), mean) || !Close(got.StandardDeviation(), deviation) || !Close(got.StandardError(), deviation/math.Sqrt(float64(len(values)))) {
			t.Errorf("%v: mean %v deviation %v, want %v %v", values, got.Mean(), got.StandardDeviation(), mean, deviation)
		}
	}
}

// TestEachSampleIsOneOfThree: the counts add up, and attempts of one sample are
// told from samples.
func TestEachSampleIsOneOfThree(t *testing.T) {
	b := NewBuilder("h", Source{}, nil)
	b.KeepAttempts = true
	one := map[string]Score{"s": {Value: new(1.0)}}
	for _, s := range []Sample{
		{ID: "a", Attempt: 1, Scores: one}, {ID: "a", Attempt: 2, Scores: map[string]Score{"s": {Value: new(0.0)}}},
		{ID: "b", Attempt: 1, Scores: map[string]Score{"s": {}}}, {ID: "c", Attempt: 1, Error: "e"}, {ID: "d", Attempt: 1, Error: "e", Scores: one},
	} {
		if err := b.Add(s, ""); err != nil {
			t.Fatal(err)
		}
	}
	r := b.Run
	if r.Samples != 5 || r.Scored != 3 || r.Unscored != 1 || r.Errors != 1 || r.Attempts != 2 || b.IDs() != 4 || b.again != 0 {
		t.Errorf("got %+v, %d ids", r, b.IDs())
	}
	totals := b.Totals("s")
	if want := []float64{0.5, 1}; !reflect.DeepEqual(totals.Means(), want) || totals.FewestAttempts() != 1 || totals.Unscored != 1 {
		t.Errorf("means %v, want %v", totals.Means(), want)
	}
	if want := []float64{1, 1}; !reflect.DeepEqual(totals.Mosts(), want) || !reflect.DeepEqual(totals.AtLeast(1), want) {
		t.Errorf("mosts %v, want %v", totals.Mosts(), want)
	}
}
