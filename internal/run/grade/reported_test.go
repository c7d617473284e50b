package grade

import (
	"strings"
	"testing"

	"tallystick/internal/run/extract"
	"tallystick/internal/run/trajectory"
	"tallystick/internal/run/vantage"
)

// TestReportedScores: a number counts as it was reported, one that is missing is
// unscored and never zero or passed, and one that is not about the case is left out.
func TestReportedScores(t *testing.T) {
	score := func(name string, n float64) trajectory.ReportedScore {
		return trajectory.ReportedScore{Name: name, Score: &n, Reason: "r"}
	}
	broke := trajectory.ReportedScore{Name: "b", Reason: "ValueError: no"}
	skipped := trajectory.ReportedScore{Name: "s", Skipped: true}
	one := func(scorer string) string { return `{"grade":{"kind":"reported","scorer":"` + scorer + `"}}` }
	two := func(a, b string) string {
		return `{"checks":[{"name":"x","grade":{"kind":"reported","scorer":"` + a + `"}},{"name":"y","grade":{"kind":"reported","scorer":"` + b + `","threshold":0.8}}]}`
	}
	for _, tt := range []struct {
		name, spec string
		said       []trajectory.ReportedScore
		want       string
		score      float64
		why        string
	}{
		{"enough", one("a"), []trajectory.ReportedScore{score("a", 0.5)}, "passed", 0.5, "reported 0.5, needed 0.5"},
		{"too little", one("a"), []trajectory.ReportedScore{score("a", 0.49)}, "failed", 0.49, "needed 0.5"},
		{"none at all", one("a"), nil, "unscored", 0, `reported no score "a"`},
		{"of another name", one("a"), []trajectory.ReportedScore{score("A", 1)}, "unscored", 0, `reported no score "a"`},
		{"a function that broke", one("b"), []trajectory.ReportedScore{broke}, "unscored", 0, "ValueError: no"},
		{"not about the case", one("s"), []trajectory.ReportedScore{skipped}, "unscored", 0, "says nothing of this case"},
		{"one of two is not about the case", two("a", "s"), []trajectory.ReportedScore{score("a", 0.6), skipped}, "passed", 0.6, "1 of 1 checks pass"},
		{"neither is about the case", two("s", "s"), []trajectory.ReportedScore{skipped}, "unscored", 0, "no check is about this case"},
		{"one of two broke", two("a", "b"), []trajectory.ReportedScore{score("a", 1), broke}, "unscored", 0, "ValueError: no"},
		{"one of two fails, by its own threshold", two("a", "c"), []trajectory.ReportedScore{score("a", 1), score("c", 0.7)}, "failed", 0.85, "needed 0.8"},
	} {
		answer := text("done")
		v := runAt(t, vantage.Reported, step{1, &trajectory.TurnStarted{}}, step{1, &trajectory.TurnCompleted{Answer: &answer, Scores: []trajectory.ReportedScore{score("a", 1)}}},
			step{2, &trajectory.TurnStarted{}}, step{2, &trajectory.TurnCompleted{Answer: &answer, Scores: tt.said}},
			step{2, &trajectory.RunCompleted{Status: "completed", Answer: &answer}})
		r := check(t, compiled(t, tt.spec, Materials{}), Input{Source: &extract.Source{Trajectory: v}})
		got, why := "failed", r.Unscored
		switch {
		case r.Unscored != "":
			got = "unscored"
		case r.Passed:
			got = "passed"
		}
		for _, d := range r.Details {
			why += "\n" + d.Why
		}
		if got != tt.want || r.Score != tt.score || !strings.Contains(why, tt.why) {
			t.Errorf("%s: %s with %v (%s), want %s with %v (%s)", tt.name, got, r.Score, why, tt.want, tt.score, tt.why)
		}
	}
}
