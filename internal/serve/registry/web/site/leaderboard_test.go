package site

import (
	"math"
	"strings"
	"testing"
)

func standingOf(lo, hi float64) *standing { return &standing{Lo: lo, Hi: hi} }

// A worked example: A is surely better than D and E; B and C meet A and each other;
// C meets D; E is surely worse than all.
func TestRanksAreRanges(t *testing.T) {
	rows := []*standing{standingOf(0.80, 0.90), standingOf(0.75, 0.85), standingOf(0.70, 0.81), standingOf(0.65, 0.72), standingOf(0.10, 0.20)}
	rank(rows, false, nil)
	for i, want := range []string{"1 to 3", "1 to 3", "1 to 4", "3 to 4", "5"} {
		if got := rows[i].Rank(); got != want {
			t.Errorf("row %d has rank %s, want %s", i, got, want)
		}
	}
	rank(rows, true, nil)
	for i, want := range []string{"3 to 5", "3 to 5", "2 to 5", "2 to 3", "1"} {
		if got := rows[i].Rank(); got != want {
			t.Errorf("smaller is better: row %d has rank %s, want %s", i, got, want)
		}
	}
	// Intervals that touch are not surely different.
	touching := []*standing{standingOf(0.5, 0.6), standingOf(0.4, 0.5)}
	rank(touching, false, nil)
	if touching[0].Rank() != "1 to 2" || touching[1].Rank() != "1 to 2" {
		t.Errorf("%s, %s", touching[0].Rank(), touching[1].Rank())
	}
}

func TestIntervals(t *testing.T) {
	for _, tt := range []struct {
		name, metrics, metric string
		samples               int64
		how                   string
		lo, hi                float64
	}{
		{"a standard error beside the one measure", `{"accuracy":0.5,"stderr":0.1}`, "accuracy", 0, "stated standard error", 0.304, 0.696},
		{"it goes before the samples", `{"accuracy":0.5,"stderr":0.1}`, "accuracy", 100, "stated standard error", 0.304, 0.696},
		{"of which of two measures", `{"accuracy":0.5,"f1":0.6,"stderr":0.1}`, "accuracy", 0, "", 0, 0},
		{"named for the measure", `{"f1":0.6,"f1_stderr":0.1,"x":1}`, "f1", 0, "stated standard error", 0.404, 0.796},
		{"as lm-eval spells it", `{"t":{"acc,none":0.5,"acc_stderr,none":0.1,"x":1}}`, "t/acc,none", 0, "stated standard error", 0.304, 0.696},
		{"as Inspect spells it", `{"match/accuracy":0.5,"match/stderr":0.1,"other/accuracy":1,"other/stderr":0}`, "match~1accuracy", 0, "stated standard error", 0.304, 0.696},
		{"a rate by a name with a slash", `{"m":{"match/accuracy":0.5,"match/stderr":0}}`, "m/match~1accuracy", 100, "Wilson, 100 samples", 0.404, 0.596},
		{"zero would be surely better than all", `{"accuracy":0.5,"stderr":0}`, "accuracy", 0, "", 0, 0},
		{"negative", `{"accuracy":0.5,"accuracy_stderr":-1}`, "accuracy", 0, "", 0, 0},
		{"of another folder", `{"a":{"accuracy":0.5},"b":{"stderr":0.1}}`, "a/accuracy", 0, "", 0, 0},
		{"a rate of samples", `{"accuracy":0.5}`, "accuracy", 100, "Wilson, 100 samples", 0.404, 0.596},
		{"not a rate", `{"perplexity":0.5}`, "perplexity", 100, "", 0, 0},
		{"a rate in percent is not one of ours", `{"accuracy":50}`, "accuracy", 100, "", 0, 0},
		{"stays within 0 and 1", `{"accuracy":0.99,"stderr":0.1}`, "accuracy", 0, "stated standard error", 0.794, 1},
	} {
		st := &standing{row: &row{Values: valuesOf(1, []byte(tt.metrics))}}
		if tt.samples > 0 {
			st.Cred = &credential{Samples: tt.samples}
		}
		var there bool
		if st.Value, there = st.find(tt.metric); !there {
			t.Fatalf("%s: no %s", tt.name, tt.metric)
		}
		if st.interval(); st.How != tt.how || math.Abs(st.Lo-tt.lo) > 0.0006 || math.Abs(st.Hi-tt.hi) > 0.0006 {
			t.Errorf("%s: %q %.4f to %.4f, want %q %.3f to %.3f", tt.name, st.How, st.Lo, st.Hi, tt.how, tt.lo, tt.hi)
		}
	}
}

// pairedRow is a row whose credential tells the outcome of each case.
func pairedRow(cases, outcomes string) *standing {
	passed := float64(strings.Count(outcomes, "1")) / float64(len(outcomes))
	st := &standing{row: &row{}, Value: value{Name: "k/solve_rate", Number: passed}, Cred: &credential{Cases: cases, Outcomes: outcomes, Samples: int64(len(outcomes))}}
	st.interval()
	st.paired = outcomesOf(st)
	return st
}

// Two runs on 200 cases, 12 of which the better one alone passed: their intervals
// meet, and the paired test tells them apart. On other cases it may not.
func TestSameCasesArePaired(t *testing.T) {
	worse := strings.Repeat("1", 150) + strings.Repeat("0", 50)
	better := strings.Repeat("1", 162) + strings.Repeat("0", 38)
	ranks := func(lower bool, rows ...*standing) string {
		rank(rows, lower, pair(rows))
		var all []string
		for _, r := range rows {
			all = append(all, r.Rank())
		}
		return strings.Join(all, "; ")
	}
	for _, tt := range []struct {
		name, want string
		lower      bool
		rows       []*standing
	}{
		{"the same cases", "1; 2", false, []*standing{pairedRow("a", better), pairedRow("a", worse)}},
		{"smaller is better", "2; 1", true, []*standing{pairedRow("a", better), pairedRow("a", worse)}},
		{"other cases", "1 to 2; 1 to 2", false, []*standing{pairedRow("a", better), pairedRow("b", worse)}},
		{"one of them less", "1 to 2; 1 to 2", false, []*standing{pairedRow("a", better), pairedRow("a", worse[1:])}},
		{"what is not an outcome", "1 to 2; 1 to 2", false, []*standing{pairedRow("a", better), pairedRow("a", worse[:199]+"2")}},
		{"26 and 14 alone", "1 to 2; 1 to 2", false, []*standing{pairedRow("a", better), pairedRow("a", strings.Repeat("0", 26)+strings.Repeat("1", 150)+strings.Repeat("0", 24))}},
	} {
		if got := ranks(tt.lower, tt.rows...); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
	// Outcomes of another rate than the one that is shown say nothing about it.
	other := pairedRow("a", better)
	other.Value.Number = 0.9
	if outcomesOf(other) != nil {
		t.Error("outcomes count for a metric that is not their rate")
	}
	revoked := pairedRow("a", worse)
	revoked.Cred.Revoked = new(int64)
	if got := ranks(false, pairedRow("a", better), revoked); got != "1 to 2; 1 to 2" {
		t.Errorf("a revoked credential was paired: %s", got)
	}
	d := &boardData{Rows: []*standing{pairedRow("a", better), pairedRow("a", worse)}}
	pair(d.Rows)
	d.behind()
	if got, want := d.Rows[1].Behind, "-6.0 points from the first row (-9.7 to -2.6); it alone passed 0 cases, the first row alone 12"; got != want || !d.Paired {
		t.Errorf("%q, want %q", got, want)
	}
}
