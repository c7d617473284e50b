package grade

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"tallystick/internal/record/canon"
	"tallystick/internal/run/extract"
	"tallystick/internal/run/trajectory"
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
			if v.View == ByOpinion {
				if v.Same || !v.Unknown || v.Why != NoJudge {
					t.Errorf("%q: %+v", tt.answer, v)
				}
				continue
			}
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

// A judge's opinion stands beside the score and never in it, whatever it says.
func TestSecondViewByAJudgeChangesNoScore(t *testing.T) {
	says := func(o JudgeOutcome, err error) func(JudgeSpec, extract.Value) (JudgeOutcome, error) {
		return func(JudgeSpec, extract.Value) (JudgeOutcome, error) { return o, err }
	}
	for _, tt := range []struct {
		name, answer string
		judge        func(JudgeSpec, extract.Value) (JudgeOutcome, error)
		want         *SecondView
		passed       bool
	}{
		{"says yes", "St. Petersburg", says(JudgeOutcome{Score: 1, Reason: "An abbreviation."}, nil), &SecondView{View: ByOpinion, Same: true, Why: `the judge says "An abbreviation."`}, false},
		{"says no", "Moscow", says(JudgeOutcome{Score: 0.2, Reason: "Another city."}, nil), &SecondView{View: ByOpinion, Why: `the judge says "Another city."`}, false},
		{"says nothing", "Moscow", says(JudgeOutcome{Unscored: "no recorded verdict"}, nil), &SecondView{View: ByOpinion, Unknown: true, Why: "the judge: no recorded verdict"}, false},
		{"breaks", "Moscow", says(JudgeOutcome{}, errors.New("down")), &SecondView{View: ByOpinion, Unknown: true, Why: "the judge failed: down"}, false},
		{"is not there", "Moscow", nil, nil, false},
		{"is not asked about what passed", "saint petersburg.", says(JudgeOutcome{}, errors.New("asked")), nil, true},
	} {
		want := canon.RawMessage(`"Saint Petersburg"`)
		g, err := Compile(Spec{Grade: &Rule{Kind: GAIA, Expected: &want}}, Materials{})
		if err != nil {
			t.Fatal(err)
		}
		if !g.ViewsWithJudge() || g.UsesJudge() {
			t.Error("a second view counts as a judge's grade")
		}
		r := g.Grade(Input{Source: said(t, tt.answer), SecondView: tt.judge, Judge: says(JudgeOutcome{Score: 1}, nil)})
		if r.Passed != tt.passed || r.JudgedByModel || r.Unscored != "" || !reflect.DeepEqual(r.Details[0].Second, tt.want) {
			t.Errorf("%s: %+v, view %+v, expected %+v", tt.name, r, r.Details[0].Second, tt.want)
		}
	}
}
