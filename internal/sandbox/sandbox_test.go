package sandbox

import (
	"testing"
)

const echoPython = `
import json, sys
given = json.load(sys.stdin)
same = given["harness_output"] == given["expected"]
json.dump({"passed": same, "score": 1.0 if same else 0.0, "breakdown": {}, "failure_modes": [], "cost_usd": 0, "duration_seconds": 0}, sys.stdout)
`

const echoStar = `
def score(harness_output, expected, case_metadata):
    same = harness_output == expected
    return {"passed": same, "score": 1.0 if same else 0.0, "breakdown": {}, "failure_modes": [], "cost_usd": 0, "duration_seconds": 0}
`

func TestRunGivesTheRubricItsInputAndReturnsItsAnswer(t *testing.T) {
	eachClass(t, func(t *testing.T, class Class) {
		for name, rubric := range map[string]Rubric{"python": python(echoPython), "starlark": star(echoStar)} {
			t.Run(name, func(t *testing.T) {
				r := run(t, class, rubric, `{"harness_output":[1,2],"expected":[1,2],"case_metadata":{}}`, Limits{})
				t.Logf("%+v", r)
				if r.Verdict != OK || r.ExitCode != 0 {
					t.Fatalf("verdict %s, status %d, stderr %s", r.Verdict, r.ExitCode, r.StderrHead)
				}
				if len(r.Attempted) != 0 {
					t.Errorf("a harmless rubric is said to have attempted %v", r.Attempted)
				}
			})
		}
	})
}
