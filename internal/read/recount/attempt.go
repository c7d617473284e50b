package recount

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"tallystick/internal/read/history"
	"tallystick/internal/record/cost"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/session"
	"tallystick/internal/run/trajectory"
	"tallystick/internal/run/user"
	"tallystick/internal/run/vantage"
)

// Attempt counts an attempt again from its records, and compares: the totals in
// attempt.finished, and every record with its trajectory and its grading
// document. An attempt that has not finished has no totals. Read returns a piece
// of evidence, having checked its digest; nil leaves the trajectories unread.
func Attempt(a *history.Attempt, read func(digest.Content) ([]byte, error)) (*Recounted, error) {
	r := newRecounted()
	sum, err := sumOf(a)
	if err != nil {
		return nil, err
	}
	r.planned(a)
	if a.Finished == nil {
		r.Unchecked = append(r.Unchecked, fmt.Sprintf("attempt %s has no attempt.finished", a.ID))
	} else if err := r.finish(a, sum); err != nil {
		return nil, err
	}
	if read == nil {
		r.Unchecked = append(r.Unchecked, fmt.Sprintf("attempt %s: its trajectories were not read", a.ID))
	} else {
		for c := range a.Cases() {
			if err := r.record(a, c, read); err != nil {
				return nil, err
			}
		}
	}
	return r, nil
}

// planned compares records with the plan: what names another case or another
// cassette than was promised does not count, and is said here, because the
// totals of the attempt are of what was planned.
func (r *Recounted) planned(a *history.Attempt) {
	departed := a.Faults()[history.NotAsPlanned]
	where := fmt.Sprintf("entry %d (attempt.registered of %s)", a.Index, a.ID)
	said := "every record is of the planned case and cassette"
	for _, p := range a.Problems {
		if strings.HasPrefix(p, history.NotAsPlanned+":") {
			said = p
		}
	}
	r.Compare(where, "plan", "every record is of the planned case and cassette", said, departed == 0)
}

// An attemptSum is what attempt.finished and "tally run" say about an attempt: over
// its records as they are, before amendments.
type attemptSum struct {
	outcomes  map[evidence.Outcome]int
	mean      *float64 // nil if some are unanswered
	missing   int      // unanswered
	modes     []string
	cost      cost.Cost
	isolation string

	rubrics   []digest.Content
	images    []digest.Content
	cases     digest.Content
	cassettes digest.Content
}

// records is how many tasks have a record.
func (s *attemptSum) records() int {
	n := 0
	for _, of := range s.outcomes {
		n += of
	}
	return n
}

func sumOf(a *history.Attempt) (*attemptSum, error) {
	s := &attemptSum{outcomes: make(map[evidence.Outcome]int), modes: []string{}}
	modes := make(map[string]bool)
	var rubrics, images, cases, cassettes []digest.Content
	total, scored := 0.0, 0
	var last *history.Context
	for c := range a.Cases() {
		cases = append(cases, c.Digest)
		if tape := c.Replayed(); tape != nil {
			cassettes = append(cassettes, *tape)
		}
		if c.Index < 0 {
			continue
		}
		s.outcomes[c.Outcome()]++
		s.cost = s.cost.Plus(c.Cost)
		if c.Unanswered() {
			s.missing++
		}
		if c.WasScored() {
			total += c.Score
			scored++
		}
		for _, m := range c.FailureModes() {
			modes[m] = true
		}
		if c.Context == last {
			continue
		}
		last = c.Context
		if !last.Rubric.IsZero() {
			rubrics = append(rubrics, last.Rubric)
		}
		if !last.Image.IsZero() {
			images = append(images, last.Image)
		}
		if s.isolation == "" {
			s.isolation = c.Context.Isolation
		} else if s.isolation != c.Context.Isolation {
			s.isolation = "mixed"
		}
	}
	if scored > 0 && s.missing == 0 {
		mean := total / float64(scored)
		s.mean = &mean
	}
	s.modes = slices.AppendSeq(s.modes, maps.Keys(modes))
	slices.Sort(s.modes)
	s.rubrics, s.images = history.SetOf(rubrics), history.SetOf(images)

	var err error
	if s.cases, err = history.DigestOfSet(cases); err != nil {
		return nil, err
	}
	s.cassettes, err = history.DigestOfSet(cassettes)
	return s, err
}

// nearly is equality of means: adding in another order may change the last digit.
func nearly(a, b float64) bool { return math.Abs(a-b) <= 1e-9 }

func nearMean(a, b *float64) bool {
	return (a == nil) == (b == nil) && (a == nil || nearly(*a, *b))
}

// finish compares the end of the attempt.
func (r *Recounted) finish(a *history.Attempt, s *attemptSum) error {
	f := a.Finished
	where := fmt.Sprintf("entry %d (attempt.finished of %s)", f.Index, a.ID)
	written := maps.Clone(f.Outcomes)
	maps.DeleteFunc(written, func(_ evidence.Outcome, n int) bool { return n == 0 })
	r.Compare(where, "outcomes", f.Outcomes, s.outcomes, maps.Equal(written, s.outcomes))
	r.Compare(where, "mean_score", f.MeanScore, s.mean, nearMean(f.MeanScore, s.mean))
	r.Compare(where, "unanswered", f.Unanswered, s.missing, f.Unanswered == s.missing)
	r.Compare(where, "failure_modes", f.FailureModes, s.modes, slices.Equal(f.FailureModes, s.modes))
	r.Compare(where, "cost_microdollars", f.CostMicroUSD, s.cost.MicroUSD, f.CostMicroUSD == s.cost.MicroUSD)
	// An end that leaves out what its records tell says less than is known.
	if f.Unpriced != nil || s.cost.Unpriced > 0 {
		told := f.Cost()
		r.Compare(where, "unpriced_calls", told.Unpriced, s.cost.Unpriced, f.Unpriced != nil && told.Unpriced == s.cost.Unpriced)
		r.Compare(where, "cost_unknown_tasks", told.Untold, s.cost.Untold, told.Untold == s.cost.Untold)
	}
	r.Compare(where, "rubric_digests", f.RubricDigests, s.rubrics, slices.Equal(f.RubricDigests, s.rubrics))
	r.Compare(where, "image_digests", f.ImageDigests, s.images, slices.Equal(f.ImageDigests, s.images))
	if a.Listed {
		r.Compare(where, "case_digests", f.CaseDigests, s.cases, f.CaseDigests == s.cases)
		r.Compare(where, "cassette_digests", f.CassetteDigests, s.cassettes, f.CassetteDigests == s.cassettes)
	} else {
		r.Compare(where, "case_digests", f.CaseDigests, "the case list is missing or not the planned one", false)
	}
	return nil
}

// record compares a record with the trajectory that it names. What is missing
// or changed is a difference too: the number cannot be derived any more.
func (r *Recounted) record(a *history.Attempt, c *history.Case, read func(digest.Content) ([]byte, error)) error {
	if c.Index < 0 {
		return nil
	}
	where := fmt.Sprintf("entry %d (case %s of %s)", c.Index, c.ID, a.ID)
	n, err := countsOf(c, read)
	switch name := refusal.Of(err).Name; {
	case err == nil:
	case name == refusal.NotFound || refusal.ExitCode(err) == refusal.ExitUnverified || name == refusal.Malformed:
		r.Compare(where, "evidence", "named", err.Error(), false)
		return nil
	default:
		return fmt.Errorf("%s: reading its evidence: %w", where, err)
	}
	run := n.started
	what := [2]string{fmt.Sprintf("%s %s %s repeat %d execution %d", a.ID, a.Class, c.ID, c.Repeat, c.Execution),
		fmt.Sprintf("%s %s %s repeat %d execution %d", run.Attempt, run.Class, run.Case, run.Repeat, run.Execution)}
	r.Compare(where, "trajectory", what[0], what[1], what[0] == what[1])
	for _, x := range []struct {
		field             string
		written, computed int64
	}{
		{"turns", int64(c.Turns), n.turns}, {"tokens", c.Tokens, n.tokens}, {"cost_microdollars", c.Cost.MicroUSD, n.cost.MicroUSD},
		{"policy.violations", int64(c.Violations), n.violations}, {"policy.rollbacks", int64(c.Rollbacks), n.rollbacks},
		{"policy.rollbacks_verified", int64(c.RollbacksVerified), n.identical},
		{"user.cost_microdollars", c.User.Cost(), n.user.CostMicroUSD}, {"user.tokens", c.User.Spent(), n.user.TokensIn + n.user.TokensOut},
	} {
		r.Compare(where, x.field, x.written, x.computed, x.written == x.computed)
	}
	// A live provider may have been asked more often than the agent knows, and of a
	// record that does not tell nothing is compared but that it hides nothing.
	r.Compare(where, "unpriced_calls", c.Cost.Unpriced, n.cost.Unpriced,
		c.Cost.Unpriced == n.cost.Unpriced || a.Mode == "live" && c.Cost.Unpriced > n.cost.Unpriced || c.Cost.Untold > 0 && c.Cost.Unpriced == 0)
	r.calls(where, c, n)
	// A live provider may have been asked again without the agent's knowing,
	// which no event tells.
	r.Compare(where, "retries", c.Retries, n.retries, int64(c.Retries) == n.retries || a.Mode == "live" && int64(c.Retries) > n.retries)
	r.grade(where, c, n.grade)
	return r.vectors(where, n, read)
}

// calls compares the tool calls of a record with those of its trajectory. A
// record that leaves them out says less than was seen.
func (r *Recounted) calls(where string, c *history.Case, n *counts) {
	says := n.started.Vantage != "" && n.started.Vantage.Sees(vantage.ToolCalls).Sight != vantage.Not
	if !c.ToolCalls.Known && !says {
		return
	}
	written := fmt.Sprintf("%d executed, %d reported, %d proposed", c.ToolCalls.Executed, c.ToolCalls.Reported, c.ToolCalls.Proposed)
	if !c.ToolCalls.Known {
		written = "left out"
	}
	computed := fmt.Sprintf("%d executed, %d reported, %d proposed", n.calls.Executed, n.calls.Reported, n.calls.Proposed)
	r.Compare(where, "tool_calls", written, computed, written == computed)
}

// grade compares a record with what its graders said. A score that no grading
// document gives cannot be derived, which is a difference.
func (r *Recounted) grade(where string, c *history.Case, g *gradeOf) {
	switch {
	case g == nil && c.WasScored():
		r.Compare(where, "score", c.Score, "no grading document", false)
	case g == nil:
	case !c.WasScored() || g.Passed == nil || g.Score == nil:
		r.Compare(where, "outcome", c.Outcome(), g, !c.WasScored() && g.Passed == nil)
	default:
		r.Compare(where, "judged_by_model", c.Context.JudgedByModel, g.Judged, c.Context.JudgedByModel == g.Judged)
		r.Compare(where, "outcome", c.Outcome(), g, (c.Outcome() == evidence.Passed) == *g.Passed)
		r.Compare(where, "score", c.Score, *g.Score, c.Score == *g.Score)
		modes, written := slices.Clone(g.Modes), slices.Clone(c.FailureModes())
		slices.Sort(modes)
		slices.Sort(written)
		r.Compare(where, "failure_modes", written, modes, slices.Equal(written, modes))
	}
}

// A gradeOf is what a grading document comes to.
type gradeOf struct {
	Passed *bool      `json:"passed"`
	Score  *float64   `json:"score"`
	Modes  []string   `json:"failure_modes"`
	Judged bool       `json:"judged_by_model"`
	Checks []embedded `json:"checks"`
}

// counts are what a trajectory says about its case.
type counts struct {
	started                                                  trajectory.RunStarted
	turns, tokens, violations, rollbacks, identical, retries int64

	cost cost.Cost
	user user.Spent // of the simulated user; zero without one

	calls trajectory.CallCount
	grade *gradeOf // nil without a grading document

	embeddings []evidence.EmbeddingFiles
}

// countsOf reads the trajectory of a record and counts.
func countsOf(c *history.Case, read func(digest.Content) ([]byte, error)) (*counts, error) {
	files, err := history.FilesOf(c, read)
	if err != nil {
		return nil, err
	}
	v, err := history.TrajectoryIn(files, read)
	if err != nil {
		return nil, err
	}
	n := &counts{calls: trajectory.CallsOf(v).Count()}
	for e := range v.Events() {
		if p, ok := e.Payload.(*trajectory.RunStarted); ok {
			n.started = *p
		}
	}
	if spent := user.SpentIn(v); spent != nil {
		n.user = *spent
	}
	of := session.CountsOf(v)
	n.turns, n.tokens, n.cost, n.retries = int64(of.Turns), of.Tokens, of.Cost, int64(of.Retries)
	n.violations, n.rollbacks, n.identical = int64(of.Violations), int64(of.Rollbacks), int64(of.RollbacksIdentical)
	n.embeddings = files.Embeddings
	n.grade, err = gradingIn(files, read)
	return n, err
}

// gradingIn reads the grading document that an index names, nil if it names
// none.
func gradingIn(files *evidence.CaseFiles, read func(digest.Content) ([]byte, error)) (*gradeOf, error) {
	if files.Grading == nil {
		return nil, nil
	}
	data, err := read(*files.Grading)
	if err != nil {
		return nil, fmt.Errorf("grading document: %w", err)
	}
	g := &gradeOf{}
	if err := json.Unmarshal(data, g); err != nil {
		return nil, refusal.Newf(refusal.Malformed, "grading document: %w", err)
	}
	return g, nil
}
