package scorecard

import (
	"fmt"
	"slices"

	"tallystick/internal/read/history"
	"tallystick/internal/record/digest"
)

// RepositoryIssue is the tag of a task that is a real issue of a repository. Seed
// 003 section 4.1 asks for a hundred of them; people sign the tags of a case with
// the case.
const RepositoryIssue = "repo-issue"

// acceptTasks is how many distinct repository issues acceptance needs.
const acceptTasks = 100

// A run is what acceptance asks about how the tasks were run.
type run struct {
	issues   int // distinct repository issues with a record
	others   int // tasks with a record that are not
	policies int
	scratch  int
	examples int // attempts on a bench that example signers may have signed
	authored int
	partial  int // attempts that are filtered or did not come to their end
	reduced  int // attempts whose repetitions make one outcome
}

func runOf(attempts []*history.Attempt, tasks []task) run {
	var r run
	registrations := make(map[digest.Content]bool)
	for _, a := range attempts {
		registrations[a.Plan.RegistrationDigest] = true
		switch a.Level {
		case history.Scratch:
			r.scratch++
		case history.Example:
			r.examples++
		}
		if a.Plan.Filtered || a.Plan.StopEarly != nil || a.Finished == nil {
			r.partial++
		}
		if a.Plan.Reduce != "" {
			r.reduced++
		}
	}
	r.policies = len(registrations)
	issues := make(map[uint32]bool)
	for _, t := range tasks {
		switch {
		case t.Index < 0:
			continue
		case slices.Contains(t.Tags(), RepositoryIssue):
			issues[t.sample] = true
		default:
			r.others++
		}
		if t.Provenance() == "authored" {
			r.authored++
		}
	}
	r.issues = len(issues)
	return r
}

// askOfRun adds what acceptance asks of the run itself: a hundred real issues of
// repositories, under one fixed policy, by a model and not by a script, on record.
// The policy stands in the registration, so tasks under different registrations do
// not add up.
func (a *Acceptance) askOfRun(attempts []*history.Attempt, tasks []task) {
	r := runOf(attempts, tasks)
	type question struct {
		metric, operator string
		value, threshold int
		met              bool
		why              string
	}
	asked := []question{
		{"repository_issues", ">=", r.issues, acceptTasks, r.issues >= acceptTasks,
			fmt.Sprintf("%d distinct tasks are repository issues (tag %s), needs %d", r.issues, RepositoryIssue, acceptTasks)},
		{"other_tasks", "==", r.others, 0, r.others == 0, fmt.Sprintf("%d tasks are not repository issues (tag %s)", r.others, RepositoryIssue)},
		{"policies", "==", r.policies, 1, r.policies == 1, fmt.Sprintf("the tasks ran under %d registrations, needs one fixed policy", r.policies)},
		{"scratch_attempts", "==", r.scratch, 0, r.scratch == 0, fmt.Sprintf("%d attempts are scratch", r.scratch)},
		{"example_attempts", "==", r.examples, 0, r.examples == 0, fmt.Sprintf("%d attempts are of a bench that example signers may have signed", r.examples)},
		{"authored_tasks", "==", r.authored, 0, r.authored == 0, fmt.Sprintf("%d tasks were answered by authored replies, not by a model", r.authored)},
		{"partial_attempts", "==", r.partial, 0, r.partial == 0, fmt.Sprintf("%d attempts are filtered or unfinished", r.partial)},
	}
	if r.reduced > 0 {
		asked = append(asked, question{"reduced_attempts", "==", r.reduced, 0, false, fmt.Sprintf("%d attempts are reduced: a case counts as solved though some of its repetitions were not", r.reduced)})
	}
	for _, x := range asked {
		value := float64(x.value)
		a.Criteria = append(a.Criteria, Criterion{x.metric, &value, x.operator, float64(x.threshold), x.met})
		if x.met {
			continue
		}
		if a.Met {
			a.Met, a.Reasons = false, nil
		}
		a.Reasons = append(a.Reasons, x.why)
	}
}
