package scorecard

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"

	"tallystick/internal/canon"
	"tallystick/internal/digest"
	"tallystick/internal/evidence"
	"tallystick/internal/refusal"
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

func (d Difference) String() string {
	return fmt.Sprintf("%s: %s is %s, the records give %s", d.Where, d.Field, d.Written, d.Computed)
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
	// Saved is the answer of "tally run --json" as it was kept, or nil, and
	// SavedName what a message calls it.
	Saved     []byte
	SavedName string
	// Evidence and Tags are those of [View], for the scorecard in Saved.
	Evidence func(*Attempt, *Case) error
	Tags     func(class, caseID string) []string
}

// Recompute counts an attempt again from its records, and compares: the totals
// in attempt.finished, every record with its trajectory, and the saved answer
// of the run. An attempt that has not finished has nothing to compare there.
func Recompute(h *History, a *Attempt, o RecomputeOptions) (*Recomputed, error) {
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
	if o.Saved != nil {
		if err := r.saved(h, a, sum, o); err != nil {
			return nil, err
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
		r.Unchecked = append(r.Unchecked, where+": case_digests and cassette_digests, because the case list is not at hand")
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
	return nil
}

// counts are what a trajectory says about its case.
type counts struct {
	started                                               trajectory.RunStarted
	turns, tokens, cost, violations, rollbacks, identical int64
}

// recount reads the trajectory of a record and counts.
func recount(c *Case, read func(digest.Content) ([]byte, error)) (*counts, error) {
	v, err := TrajectoryOf(c, read)
	if err != nil {
		return nil, err
	}
	n := &counts{}
	for e := range v.Events() {
		switch p := e.Payload.(type) {
		case *trajectory.RunStarted:
			n.started = *p
		case *trajectory.TurnStarted:
			n.turns++
		case *trajectory.ModelCallCompleted:
			n.tokens, n.cost = n.tokens+p.TokensIn+p.TokensOut, n.cost+p.CostMicroUSD
		case *trajectory.ToolExecuted:
			n.tokens, n.cost = n.tokens+p.Tokens, n.cost+p.CostMicroUSD
		case *trajectory.PolicyViolation:
			n.violations++
		case *trajectory.Rollback:
			n.rollbacks++
			if p.Identical {
				n.identical++
			}
		}
	}
	return n, nil
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

// saved compares the kept answer of "tally run".
func (r *Recomputed) saved(h *History, a *Attempt, s *attemptSum, o RecomputeOptions) error {
	var doc map[string]canon.RawMessage
	if err := canon.Unmarshal(o.Saved, &doc); err != nil {
		return fmt.Errorf("%s: %w", o.SavedName, err)
	}
	if string(doc["finished"]) == "false" && a.Finished != nil {
		r.Unchecked = append(r.Unchecked, o.SavedName+": written before the attempt had finished")
		return nil
	}
	if string(doc["scorecard"]) == "null" {
		delete(doc, "scorecard")
	}
	if r.amendedSince(doc["scorecard"], []*Attempt{a}) {
		r.Unchecked = append(r.Unchecked, o.SavedName+": scorecard, because scores were amended after it was written")
		delete(doc, "scorecard")
	}
	card, err := Of(h, View{Attempts: []*Attempt{a}, Evidence: o.Evidence, Tags: o.Tags})
	if err != nil {
		return err
	}
	want := map[string]any{
		"class": a.Class, "target": a.Target, "total": a.Tasks(),
		"passed": s.outcomes[evidence.Passed], "failed": s.outcomes[evidence.Failed], "skipped": s.outcomes[evidence.Skipped],
		"unscored": s.outcomes[evidence.Unscored], "truncated": s.outcomes[evidence.Truncated], "errors": s.outcomes[evidence.Errored],
		"mean_score": s.mean, "failure_modes": s.modes, "cost_usd": float64(s.cost) / 1e6, "isolation_class": s.isolation,
	}
	for _, field := range slices.Sorted(maps.Keys(doc)) {
		switch computed, known := want[field]; {
		case field == "scorecard":
			if err := r.document(o.SavedName+": scorecard", doc[field], card); err != nil {
				return err
			}
		case field == "attempt":
			if err := r.attemptLine(o.SavedName, doc[field], a); err != nil {
				return err
			}
		case known:
			if err := r.value(o.SavedName, field, doc[field], computed); err != nil {
				return err
			}
		default:
			r.Unchecked = append(r.Unchecked, o.SavedName+": "+field)
		}
	}
	return nil
}

// attemptLine compares {"id","number","level"}. A level may have risen since,
// and never is higher than what the ledger gives now.
func (r *Recomputed) attemptLine(where string, data canon.RawMessage, a *Attempt) error {
	var line struct {
		ID     string `json:"id"`
		Number int    `json:"number"`
		Level  Level  `json:"level"`
	}
	if err := json.Unmarshal(data, &line); err != nil {
		return refusal.Newf(refusal.Malformed, "%s: attempt: %w", where, err)
	}
	r.compare(where, "attempt.id", line.ID, a.ID, line.ID == a.ID)
	r.compare(where, "attempt.number", line.Number, a.Ordinal, line.Number == a.Ordinal)
	r.compare(where, "attempt.level", line.Level, a.Level, line.Level <= a.Level)
	return nil
}

// passing are the fields of a card that say when it was made, or grow with the
// ledger; everything else follows from the attempts alone.
var passing = []string{"attempts", "other_attempts", "ledger", "evidence_missing", "evidence_checked", "level"}

// document compares the fields of a kept card with the one counted now.
func (r *Recomputed) document(where string, data canon.RawMessage, card *Card) error {
	var doc, now map[string]canon.RawMessage
	if err := canon.Unmarshal(data, &doc); err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	fresh, err := json.Marshal(card)
	if err != nil {
		return err
	}
	if err := canon.Unmarshal(fresh, &now); err != nil {
		return err
	}
	for _, field := range slices.Sorted(maps.Keys(doc)) {
		computed, known := now[field]
		switch {
		case field == "level":
			var level Level
			if err := json.Unmarshal(doc[field], &level); err != nil {
				return refusal.Newf(refusal.Malformed, "%s: level: %w", where, err)
			}
			r.compare(where, field, level, card.Level, level <= card.Level)
		case slices.Contains(passing, field):
		case !known:
			r.Unchecked = append(r.Unchecked, where+": "+field)
		case (field == "evidence_coverage" || field == "acceptance") && !card.EvidenceChecked:
			r.Unchecked = append(r.Unchecked, where+": "+field+", because the evidence was not read")
		default:
			if err := r.value(where, field, doc[field], computed); err != nil {
				return err
			}
		}
	}
	return nil
}

// value compares a kept JSON value with a computed one. Numbers are compared
// as numbers, whatever their spelling.
func (r *Recomputed) value(where, field string, written canon.RawMessage, computed any) error {
	fresh, err := json.Marshal(computed)
	if err != nil {
		return err
	}
	var a, b any
	if err := json.Unmarshal(written, &a); err != nil {
		return refusal.Newf(refusal.Malformed, "%s: %s: %w", where, field, err)
	}
	if err := json.Unmarshal(fresh, &b); err != nil {
		return err
	}
	r.compare(where, field, a, b, sameValue(a, b))
	return nil
}

func sameValue(a, b any) bool {
	switch x := a.(type) {
	case float64:
		y, ok := b.(float64)
		return ok && (x == y || nearly(x, y))
	case []any:
		y, ok := b.([]any)
		return ok && slices.EqualFunc(x, y, sameValue)
	case map[string]any:
		y, ok := b.(map[string]any)
		return ok && maps.EqualFunc(x, y, sameValue)
	}
	return a == b
}

// amendedSince reports whether a record of the attempts was amended after a
// card was made. Its numbers were right then and cannot be compared now.
func (r *Recomputed) amendedSince(card canon.RawMessage, attempts []*Attempt) bool {
	var doc struct {
		Ledger struct {
			Entries int64 `json:"entries"`
		} `json:"ledger"`
	}
	if card == nil || json.Unmarshal(card, &doc) != nil || doc.Ledger.Entries == 0 {
		return false
	}
	for _, a := range attempts {
		for c := range a.Cases() {
			if c.Amendment != nil && c.Amendment.Index >= doc.Ledger.Entries {
				return true
			}
		}
	}
	return false
}

// RecomputeCard counts again what a kept scorecard, as "tally scorecard --json"
// prints it, says about its attempts.
func RecomputeCard(h *History, name string, data []byte, o RecomputeOptions) (*Recomputed, error) {
	var ids struct {
		Attempts []struct {
			ID string `json:"id"`
		} `json:"attempts"`
	}
	if err := json.Unmarshal(data, &ids); err != nil {
		return nil, refusal.Newf(refusal.Malformed, "%s: %w", name, err)
	}
	v := View{Evidence: o.Evidence, Tags: o.Tags}
	r := &Recomputed{Differences: []Difference{}, Unchecked: []string{}}
	for _, x := range ids.Attempts {
		a := h.Attempt(x.ID)
		if a == nil {
			r.compare(name, "attempts", x.ID, "no such attempt", false)
			return r, nil
		}
		v.Attempts = append(v.Attempts, a)
	}
	if r.amendedSince(data, v.Attempts) {
		r.Unchecked = append(r.Unchecked, name+": scores were amended after it was written")
		return r, nil
	}
	card, err := Of(h, v)
	if err != nil {
		return nil, err
	}
	return r, r.document(name, data, card)
}

// RecomputeComparison counts again what a kept comparison, as "tally compare
// --json" prints it, says. Divergences are not looked for again.
func RecomputeComparison(h *History, name string, data []byte) (*Recomputed, error) {
	var doc map[string]canon.RawMessage
	if err := canon.Unmarshal(data, &doc); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var sides struct{ A, B struct{ ID string } }
	if err := json.Unmarshal(data, &sides); err != nil {
		return nil, refusal.Newf(refusal.Malformed, "%s: %w", name, err)
	}
	r := &Recomputed{Differences: []Difference{}, Unchecked: []string{}}
	a, b := h.Attempt(sides.A.ID), h.Attempt(sides.B.ID)
	if a == nil || b == nil {
		r.compare(name, "attempts", []string{sides.A.ID, sides.B.ID}, "no such attempts", false)
		return r, nil
	}
	c, err := Compare(a, b, CompareOptions{AcrossBenches: true})
	if err != nil {
		return nil, err
	}
	fresh, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	var now map[string]canon.RawMessage
	if err := canon.Unmarshal(fresh, &now); err != nil {
		return nil, err
	}
	for _, field := range slices.Sorted(maps.Keys(doc)) {
		switch computed, known := now[field]; {
		case slices.Contains([]string{"a", "b", "cases"}, field):
			r.Unchecked = append(r.Unchecked, name+": "+field)
		case !known:
			r.Unchecked = append(r.Unchecked, name+": "+field)
		default:
			if err := r.value(name, field, doc[field], computed); err != nil {
				return nil, err
			}
		}
	}
	return r, nil
}
