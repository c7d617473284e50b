package scorecard

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"tallystick/internal/read/history"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
)

// RepositoryIssue is the tag of a task that is to be an issue of a repository.
// People sign the tags of a case with the case; whether it is one, the evidence
// says.
const RepositoryIssue = "repo-issue"

// acceptTasks is how many distinct repository issues acceptance needs.
const acceptTasks = 100

// A run is what acceptance asks about how the tasks were run.
type run struct {
	tagged   bool           // a task says that it is a repository issue
	issues   int            // distinct repository issues with a record
	repeated int            // cases that are copies of another but for names, literals and comments
	others   map[string]int // tasks with a record that are not such issues, by why
	unproved map[string]int // solved ones whose solution is not on record, by why
	policies int
	scratch  int
	examples int // attempts on a bench that example signers may have signed
	authored int
	partial  int // attempts that are filtered or did not come to their end
	reduced  int // attempts whose repetitions make one outcome
}

func runOf(v View, tasks []task) (run, error) {
	r := run{others: map[string]int{}, unproved: map[string]int{}}
	registrations := make(map[digest.Content]bool)
	for _, a := range v.Attempts {
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
	distinct := newIssueSet()
	for _, t := range tasks {
		if t.Index < 0 {
			continue
		}
		if t.Provenance() == "authored" {
			r.authored++
		}
		issue, why, err := issueOf(v, t)
		if err != nil {
			return run{}, err
		}
		r.tagged = r.tagged || why != noTag
		if why != "" {
			r.others[why]++
			continue
		}
		distinct.add(t.sample, issue)
		if t.On(v.Basis).Passed() {
			if why := unsolved(issue); why != "" {
				r.unproved[why]++
			}
		}
	}
	r.issues, r.repeated = len(distinct.cases)-distinct.repeated, distinct.repeated
	return r, nil
}

// noTag is why a task is not an issue of a repository that does not say that it is.
const noTag = "without the tag " + RepositoryIssue

// notIssues says how many tasks are not issues of repositories, and why, if there is
// more to say than that they do not have the tag.
func notIssues(n int, why map[string]int) string {
	text := fmt.Sprintf("%d tasks are not repository issues (tag %s)", n, RepositoryIssue)
	if why[noTag] == n {
		return text
	}
	_, reasons := counted(why)
	return text + ": " + reasons
}

// issueOf is what the evidence of a task says of it as an issue of a repository, or
// why it is not one.
func issueOf(v View, t task) (issue *evidence.RepositoryIssue, why string, err error) {
	if !slices.Contains(t.Tags(), RepositoryIssue) {
		return nil, noTag, nil
	}
	found := v.Evidence[t.attempt]
	if found == nil {
		return nil, "whose evidence was not read", nil
	}
	switch issue, err = found.Issue(t.Case); {
	case refusal.Is(err, refusal.NotFound), refusal.Is(err, refusal.DigestMismatch):
		return nil, "whose evidence is missing or changed", nil
	case err != nil:
		return nil, "", fmt.Errorf("attempt %s: case %s: reading its evidence: %w", t.attempt.ID, t.ID, err)
	case issue == nil:
		return nil, "without a repository at a commit on record", nil
	case issue.Before.Passed:
		return nil, "whose test passes without a change", nil
	case issue.Before.Failed == 0:
		return nil, "whose test did not fail before the change: no test was reported to", nil
	}
	return issue, "", nil
}

// unsolved says why a task that passed is not solved as acceptance means it; "" if
// it is.
func unsolved(i *evidence.RepositoryIssue) string {
	switch {
	case len(i.Changed) == 0:
		return "without a change of code by the agent"
	case i.After == nil || !i.After.Passed || i.Fixed == 0:
		return "without a test that failed before and passes after"
	}
	return ""
}

// An issueSet tells issues apart by what they are: the commit, what it does to the
// code and what it does to the tests.
type issueSet struct {
	cases    map[uint32]bool
	seen     map[any]bool
	repeated int
}

func newIssueSet() *issueSet { return &issueSet{cases: map[uint32]bool{}, seen: map[any]bool{}} }

func (s *issueSet) add(sample uint32, i *evidence.RepositoryIssue) {
	if s.cases[sample] {
		return // another repetition of the same case
	}
	s.cases[sample] = true
	type (
		commit string
		change digest.Content
		tests  digest.Content
	)
	names := []any{commit(i.Commit), change(i.Change), tests(i.Tests)}
	if slices.ContainsFunc(names, func(n any) bool { return s.seen[n] }) {
		s.repeated++
		return
	}
	for _, n := range names {
		s.seen[n] = true
	}
}

// counted is the sum of what was counted by reason, and the reasons, the most
// frequent first.
func counted(by map[string]int) (total int, text string) {
	var parts []string
	for _, why := range slices.SortedFunc(maps.Keys(by), func(a, b string) int { return cmp.Or(by[b]-by[a], strings.Compare(a, b)) }) {
		total += by[why]
		parts = append(parts, fmt.Sprintf("%d %s", by[why], why))
	}
	return total, strings.Join(parts, ", ")
}

// askOfRun adds what acceptance asks of the run itself: a hundred distinct issues of
// repositories, whose tests fail without the agent's change and pass with it, under
// one fixed policy, by a model and not by a script, on record. The policy stands in
// the registration, so tasks under different registrations do not add up.
func (a *Acceptance) askOfRun(v View, tasks []task) error {
	r, err := runOf(v, tasks)
	if err != nil {
		return err
	}
	others, _ := counted(r.others)
	unproved, whyUnproved := counted(r.unproved)
	type question struct {
		metric, operator string
		value, threshold int
		met              bool
		why              string
	}
	asked := []question{
		{"repository_issues", ">=", r.issues, acceptTasks, r.issues >= acceptTasks,
			fmt.Sprintf("%d distinct tasks are repository issues (tag %s), needs %d", r.issues, RepositoryIssue, acceptTasks)},
		{"other_tasks", "==", others, 0, others == 0, notIssues(others, r.others)},
		{"policies", "==", r.policies, 1, r.policies == 1, fmt.Sprintf("the tasks ran under %d registrations, needs one fixed policy", r.policies)},
		{"scratch_attempts", "==", r.scratch, 0, r.scratch == 0, fmt.Sprintf("%d attempts are scratch", r.scratch)},
		{"example_attempts", "==", r.examples, 0, r.examples == 0, fmt.Sprintf("%d attempts are of a bench that example signers may have signed", r.examples)},
		{"authored_tasks", "==", r.authored, 0, r.authored == 0, fmt.Sprintf("%d tasks were answered by authored replies, not by a model", r.authored)},
		{"partial_attempts", "==", r.partial, 0, r.partial == 0, fmt.Sprintf("%d attempts are filtered or unfinished", r.partial)},
	}
	if r.tagged {
		asked = append(asked,
			question{"repeated_tasks", "==", r.repeated, 0, r.repeated == 0, fmt.Sprintf("%d cases repeat another: they have its commit, its change or its tests, but for names, literals and comments", r.repeated)},
			question{"unproved_solves", "==", unproved, 0, unproved == 0, fmt.Sprintf("%d tasks passed: %s", unproved, whyUnproved)})
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
	return nil
}
