package scorecard

import (
	"fmt"
	"strings"
	"testing"

	"tallystick/internal/read/history"
	"tallystick/internal/record/evidence"
	"tallystick/internal/testing/historytest"
)

// reducedAttempt has one case of three repetitions for each list of results: a
// score, or "E" for one that errored, "U" for unscored, "-" for one that never ran.
// A score of 1 passed.
func reducedAttempt(t *testing.T, by evidence.Reducer, cases ...string) *history.History {
	t.Helper()
	b := historytest.New(t)
	r := historytest.Registration("repo-fix.agent.1", "agent", 1, len(cases), 3)
	r.Plan.Reduce = by
	b.Register(r)
	for i, results := range cases {
		for repeat, result := range strings.Fields(results) {
			score := 0.0
			switch result {
			case "E":
				b.Case(r, historytest.UnscoredCase(r, i, repeat+1, evidence.Errored))
			case "U":
				b.Case(r, historytest.UnscoredCase(r, i, repeat+1, evidence.Unscored))
			case "-":
			default:
				fmt.Sscan(result, &score)
				b.Case(r, historytest.Score(r, i, repeat+1, score))
			}
		}
	}
	b.Finish(r)
	return read(b, history.Options{})
}

func TestReducersMakeOneOutcomeOfRepetitions(t *testing.T) {
	for _, tt := range []struct {
		by      evidence.Reducer
		results string
		outcome evidence.Outcome
		score   string
	}{
		{"", "1 1 1", evidence.Passed, "1"},
		{"", "1 0 1", Mixed, "0.6666666666666666"},
		{"", "0 E 0", Mixed, "0"},
		{"", "E E E", evidence.Errored, "none"},
		{"mode", "1 0 1", evidence.Passed, "1"},
		{"mode", "1 0 0", evidence.Failed, "0"},
		{"mode", "0.2 0.4 0.2", evidence.Failed, "0.2"},
		{"mode", "0.2 0.4 0.6", evidence.Failed, "0.2"}, // of several the lowest
		{"mode", "1 E 0", evidence.Errored, "none"},     // the broken one would have decided
		{"mode", "1 1 E", evidence.Passed, "1"},
		{"max", "0 0.5 1", evidence.Passed, "1"},
		{"max", "0 0.5 0", evidence.Failed, "0.5"},
		{"max", "0 U 0", evidence.Unscored, "none"},
		{"max", "1 - -", evidence.Passed, "1"},
		{"max", "0 - -", history.NotRun, "none"},
		{"all", "1 1 1", evidence.Passed, "1"},
		{"all", "1 1 0.5", evidence.Failed, "0.5"},
		{"all", "1 0 E", evidence.Failed, "0"}, // lost whatever the broken one was
		{"all", "1 1 E", evidence.Errored, "none"},
		{"at_least:2", "1 0 1", evidence.Passed, "1"},
		{"at_least:2", "1 0.5 0", evidence.Failed, "0.5"},
		{"at_least:2", "0 E U", evidence.Errored, "none"},
		{"at_least:4", "1 1 1", evidence.Failed, "1"}, // impossible; the program refuses to run it
	} {
		h := reducedAttempt(t, tt.by, tt.results)
		got := ReducedCases(h.Attempts[0], history.AsRecorded)[0]
		score := "none"
		if got.Score != nil {
			score = fmt.Sprint(*got.Score)
		}
		if got.Outcome != tt.outcome || score != tt.score {
			t.Errorf("%s of %s: %s %s, want %s %s", tt.by, tt.results, got.Outcome, score, tt.outcome, tt.score)
		}
	}
}

// TestReducedCardCountsCases: tasks are cases, and what they took is of all
// repetitions; the interval is over distinct cases either way.
func TestReducedCardCountsCases(t *testing.T) {
	results := []string{"1 0 1", "0 0 1", "1 E 1", "0 0 0"}
	by := func(r evidence.Reducer) *Card {
		h := reducedAttempt(t, r, results...)
		return cardOf(t, h, View{Evidence: found(h, allThere)})
	}
	each, mode, best := by(""), by("mode"), by("max")
	for _, tt := range []struct {
		name                  string
		card                  *Card
		tasks, solved, errors int
		rate                  float64
	}{{"each", each, 12, 5, 1, 0.416667}, {"mode", mode, 4, 2, 0, 0.5}, {"max", best, 4, 3, 0, 0.75}} {
		c := tt.card
		if c.TotalTasks != tt.tasks || c.Solved != tt.solved || c.Errors != tt.errors || c.SolveRate != tt.rate || c.DistinctCases != 4 {
			t.Errorf("%s: %d tasks, %d solved, %d errors, rate %v over %d", tt.name, c.TotalTasks, c.Solved, c.Errors, c.SolveRate, c.DistinctCases)
		}
		if c.TotalCost != each.TotalCost || c.TotalTokens != each.TotalTokens || len(c.PassAtK) != 3 || c.PassAtK[2] != each.PassAtK[2] || *c.EvidenceCoverage != 1 {
			t.Errorf("%s: cost %v, pass@k %v, coverage %v", tt.name, c.TotalCost, c.PassAtK, *c.EvidenceCoverage)
		}
	}
	if best.Attempts[0].Reduce != "max" || best.Qualifications[0].Name != history.QualReduced || best.Acceptance.Met {
		t.Errorf("a reduced card does not say so: %+v", best.Qualifications)
	}
	if !strings.Contains(strings.Join(best.Acceptance.Reasons, "; "), "1 attempts are reduced") {
		t.Errorf("acceptance: %v", best.Acceptance.Reasons)
	}
	if each.Attempts[0].Reduce != "" || len(each.Acceptance.Criteria) != len(best.Acceptance.Criteria)-1 {
		t.Error("an attempt without a reducer is told of as if it had one")
	}
}
