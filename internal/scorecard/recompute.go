package scorecard

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"tallystick/internal/canon"
	"tallystick/internal/digest"
	"tallystick/internal/evidence"
	"tallystick/internal/refusal"
	"tallystick/internal/session"
	"tallystick/internal/trajectory"
)

// A Recomputed says what came of counting again.
type Recomputed struct {
	// Checked counts the numbers that were compared.
	Checked     int          `json:"checked"`
	Differences []Difference `json:"differences"`
	// Unchecked says what could not be compared, and why.
	Unchecked []string `json:"unchecked"`
}

// A Difference is a number that was written down and is another when it is
// counted again.
type Difference struct {
	Where    string `json:"where"` // an entry or a file
	Field    string `json:"field"`
	Written  string `json:"written"`
	Computed string `json:"computed"`
}

// String is the difference on one line, of which long values are not the whole.
func (d Difference) String() string {
	return fmt.Sprintf("%s: %s is %s, the records give %s", d.Where, d.Field, shortened(d.Written), shortened(d.Computed))
}

// maxValue is how much of a value is shown to a person.
const maxValue = 300

func shortened(value string) string {
	if len(value) <= maxValue {
		return value
	}
	return fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(value[:maxValue], ""), len(value))
}

// Err is the refusal of the first difference, or nil.
func (r *Recomputed) Err() error {
	if len(r.Differences) == 0 {
		return nil
	}
	err := refusal.Newf(refusal.RecomputeMismatch, "%s", r.Differences[0])
	if n := len(r.Differences); n > 1 {
		err = refusal.Newf(refusal.RecomputeMismatch, "%d numbers differ, the first: %s", n, r.Differences[0])
	}
	return err.WithHint("trust the records, which are sealed, and not the total; find out who wrote it")
}

// maxDifferences bounds the list; one is enough to refuse.
const maxDifferences = 1000

func (r *Recomputed) compare(where, field string, written, computed any, equal bool) {
	r.Checked++
	if !equal && len(r.Differences) < maxDifferences {
		r.Differences = append(r.Differences, Difference{where, field, show(written), show(computed)})
	}
}

func show(v any) string {
	if data, err := canon.Marshal(v); err == nil {
		return string(data)
	}
	return fmt.Sprint(v)
}

// RecomputeOptions say what to count again besides the end of the attempt.
type RecomputeOptions struct {
	// Read returns a piece of evidence, having checked its digest. With it
	// every record is compared with the trajectory that it names.
	Read func(digest.Content) ([]byte, error)
	// Evidence is that of [View], for kept scorecards.
	Evidence func(*Attempt, *Case) error
	// Divergence is that of [CompareOptions], for kept comparisons.
	Divergence func(a, b *Case) (string, error)
	// Other counts what a kept answer says that this package knows nothing of.
	// Known is false for what cannot be counted; why is the reason, or "".
	Other func(field string, written canon.RawMessage) (computed any, known bool, why string, err error)
}

// Recompute counts an attempt again from its records, and compares: the totals
// in attempt.finished, and every record with its trajectory and its grading
// document. An attempt that has not finished has no totals.
func Recompute(a *Attempt, o RecomputeOptions) (*Recomputed, error) {
	r := &Recomputed{Differences: []Difference{}, Unchecked: []string{}}
	sum, err := sumOf(a)
	if err != nil {
		return nil, err
	}
	if a.Finished == nil {
		r.Unchecked = append(r.Unchecked, fmt.Sprintf("attempt %s has no attempt.finished", a.ID))
	} else if err := r.finish(a, sum); err != nil {
		return nil, err
	}
	if o.Read == nil {
		r.Unchecked = append(r.Unchecked, fmt.Sprintf("attempt %s: its trajectories were not read", a.ID))
	} else {
		for c := range a.Cases() {
			if err := r.record(a, c, o.Read); err != nil {
				return nil, err
			}
		}
	}
	return r, nil
}

// An attemptSum is what attempt.finished and "tally run" say about an attempt: over
// its records as they are, before amendments.
type attemptSum struct {
	outcomes  map[evidence.Outcome]int
	mean      *float64
	modes     []string
	cost      int64
	isolation string
	rubrics   []digest.Content
	images    []digest.Content
	cases     digest.Content
	cassettes digest.Content
}

func sumOf(a *Attempt) (*attemptSum, error) {
	s := &attemptSum{outcomes: make(map[evidence.Outcome]int), modes: []string{}}
	modes := make(map[string]bool)
	var rubrics, images, cases []digest.Content
	total, scored := 0.0, 0
	var last *Context
	for c := range a.Cases() {
		cases = append(cases, c.Digest)
		if c.Index < 0 {
			continue
		}
		s.outcomes[c.Outcome()]++
		s.cost = add(s.cost, c.CostMicro)
		if c.IsScored() {
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
	if scored > 0 {
		mean := total / float64(scored)
		s.mean = &mean
	}
	s.modes = slices.AppendSeq(s.modes, maps.Keys(modes))
	slices.Sort(s.modes)
	s.rubrics, s.images = sorted(rubrics), sorted(images)

	var err error
	if s.cases, err = digestOfList(cases); err != nil {
		return nil, err
	}
	s.cassettes = a.cassettes
	return s, nil
}

// sorted is the set of the digests, in the order of their bytes; never nil.
func sorted(list []digest.Content) []digest.Content {
	slices.SortFunc(list, func(a, b digest.Content) int { return bytes.Compare(a[:], b[:]) })
	return append([]digest.Content{}, slices.Compact(list)...)
}

func digestOfList(list []digest.Content) (digest.Content, error) {
	data, err := canon.Marshal(sorted(list))
	return digest.ContentOf(data), err
}

// nearly is equality of means: adding in another order may change the last digit.
func nearly(a, b float64) bool { return math.Abs(a-b) <= 1e-9 }

func nearMean(a, b *float64) bool {
	return (a == nil) == (b == nil) && (a == nil || nearly(*a, *b))
}

// finish compares the end of the attempt.
func (r *Recomputed) finish(a *Attempt, s *attemptSum) error {
	f := a.Finished
	where := fmt.Sprintf("entry %d (attempt.finished of %s)", f.Index, a.ID)
	written := maps.Clone(f.Outcomes)
	maps.DeleteFunc(written, func(_ evidence.Outcome, n int) bool { return n == 0 })
	r.compare(where, "outcomes", f.Outcomes, s.outcomes, maps.Equal(written, s.outcomes))
	r.compare(where, "mean_score", f.MeanScore, s.mean, nearMean(f.MeanScore, s.mean))
	r.compare(where, "failure_modes", f.FailureModes, s.modes, slices.Equal(f.FailureModes, s.modes))
	r.compare(where, "cost_microdollars", f.CostMicroUSD, s.cost, f.CostMicroUSD == s.cost)
	r.compare(where, "rubric_digests", f.RubricDigests, s.rubrics, slices.Equal(f.RubricDigests, s.rubrics))
	r.compare(where, "image_digests", f.ImageDigests, s.images, slices.Equal(f.ImageDigests, s.images))
	if a.Listed {
		r.compare(where, "case_digests", f.CaseDigests, s.cases, f.CaseDigests == s.cases)
		r.compare(where, "cassette_digests", f.CassetteDigests, s.cassettes, f.CassetteDigests == s.cassettes)
	} else {
		r.compare(where, "case_digests", f.CaseDigests, "the case list is missing or not the planned one", false)
	}
	return nil
}

// record compares a record with the trajectory that it names. What is missing
// or changed is a difference too: the number cannot be derived any more.
func (r *Recomputed) record(a *Attempt, c *Case, read func(digest.Content) ([]byte, error)) error {
	if c.Index < 0 {
		return nil
	}
	where := fmt.Sprintf("entry %d (case %s of %s)", c.Index, c.ID, a.ID)
	n, err := recount(c, read)
	switch name := refusal.Of(err).Name; {
	case err == nil:
	case name == refusal.NotFound || refusal.ExitCode(err) == refusal.ExitUnverified || name == refusal.Malformed:
		r.compare(where, "evidence", "named", err.Error(), false)
		return nil
	default:
		return fmt.Errorf("%s: reading its evidence: %w", where, err)
	}
	run := n.started
	what := [2]string{fmt.Sprintf("%s %s %s repeat %d execution %d", a.ID, a.Class, c.ID, c.Repeat, c.Execution),
		fmt.Sprintf("%s %s %s repeat %d execution %d", run.Attempt, run.Class, run.Case, run.Repeat, run.Execution)}
	r.compare(where, "trajectory", what[0], what[1], what[0] == what[1])
	for _, x := range []struct {
		field             string
		written, computed int64
	}{
		{"turns", int64(c.Turns), n.turns}, {"tokens", c.Tokens, n.tokens}, {"cost_microdollars", c.CostMicro, n.cost},
		{"policy.violations", int64(c.Violations), n.violations}, {"policy.rollbacks", int64(c.Rollbacks), n.rollbacks},
		{"policy.rollbacks_verified", int64(c.RollbacksVerified), n.identical},
	} {
		r.compare(where, x.field, x.written, x.computed, x.written == x.computed)
	}
	// A live provider may have been asked again without the agent's knowing,
	// which no event tells.
	r.compare(where, "retries", c.Retries, n.retries, int64(c.Retries) == n.retries || a.Mode == "live" && int64(c.Retries) > n.retries)
	r.grade(where, c, n.grade)
	return nil
}

// grade compares a record with what its graders said. A score that no grading
// document gives cannot be derived, which is a difference.
func (r *Recomputed) grade(where string, c *Case, g *gradeOf) {
	switch {
	case g == nil && c.IsScored():
		r.compare(where, "score", c.Score, "no grading document", false)
	case g == nil:
	case !c.IsScored() || g.Passed == nil || g.Score == nil:
		r.compare(where, "outcome", c.Outcome(), g, !c.IsScored() && g.Passed == nil)
	default:
		r.compare(where, "judged_by_model", c.Context.JudgedByModel, g.Judged, c.Context.JudgedByModel == g.Judged)
		r.compare(where, "outcome", c.Outcome(), g, (c.Outcome() == evidence.Passed) == *g.Passed)
		r.compare(where, "score", c.Score, *g.Score, c.Score == *g.Score)
		modes, written := slices.Clone(g.Modes), slices.Clone(c.FailureModes())
		slices.Sort(modes)
		slices.Sort(written)
		r.compare(where, "failure_modes", written, modes, slices.Equal(written, modes))
	}
}

// A gradeOf is what a grading document comes to.
type gradeOf struct {
	Passed *bool    `json:"passed"`
	Score  *float64 `json:"score"`
	Modes  []string `json:"failure_modes"`
	Judged bool     `json:"judged_by_model"`
}

// counts are what a trajectory says about its case.
type counts struct {
	started                                                        trajectory.RunStarted
	turns, tokens, cost, violations, rollbacks, identical, retries int64

	grade *gradeOf // nil without a grading document
}

// recount reads the trajectory of a record and counts.
func recount(c *Case, read func(digest.Content) ([]byte, error)) (*counts, error) {
	files, err := FilesOf(c, read)
	if err != nil {
		return nil, err
	}
	v, err := TrajectoryIn(files, read)
	if err != nil {
		return nil, err
	}
	n := &counts{}
	for e := range v.Events() {
		if p, ok := e.Payload.(trajectory.Spender); ok {
			tokens, microUSD := p.Spent()
			n.tokens, n.cost = n.tokens+tokens, n.cost+microUSD
		}
		switch p := e.Payload.(type) {
		case *trajectory.RunStarted:
			n.started = *p
		case *trajectory.TurnStarted:
			n.turns++
		case *trajectory.Failure:
			if p.Name == session.RetryName {
				n.retries++
			}
		case *trajectory.PolicyViolation:
			n.violations++
		case *trajectory.Rollback:
			n.rollbacks++
			if p.Identical {
				n.identical++
			}
		}
	}
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

// FilesOf reads the index of a record's evidence.
func FilesOf(c *Case, read func(digest.Content) ([]byte, error)) (*evidence.CaseFiles, error) {
	if len(c.Evidence) == 0 {
		return nil, refusal.Newf(refusal.NotFound, "the record names no evidence")
	}
	data, err := read(c.Evidence[0])
	if err != nil {
		return nil, err
	}
	files := &evidence.CaseFiles{}
	if err := canon.UnmarshalCanonical(data, files); err != nil {
		return nil, fmt.Errorf("index %s: %w", c.Evidence[0], err)
	}
	if err := files.Validate(); err != nil {
		return nil, refusal.Newf(refusal.Malformed, "index %s: %w", c.Evidence[0], err)
	}
	return files, nil
}

// TrajectoryOf reads and verifies the trajectory that a record names.
func TrajectoryOf(c *Case, read func(digest.Content) ([]byte, error)) (*trajectory.Verified, error) {
	files, err := FilesOf(c, read)
	if err != nil {
		return nil, err
	}
	return TrajectoryIn(files, read)
}

// TrajectoryIn reads and verifies the trajectory that an index names.
func TrajectoryIn(files *evidence.CaseFiles, read func(digest.Content) ([]byte, error)) (*trajectory.Verified, error) {
	data, err := read(files.Trajectory.Digest)
	if err != nil {
		return nil, fmt.Errorf("trajectory: %w", err)
	}
	v, err := trajectory.Verify(data, trajectory.HeadIs(files.Trajectory.Head))
	if err != nil {
		return nil, fmt.Errorf("trajectory: %w", err)
	}
	return v, nil
}
