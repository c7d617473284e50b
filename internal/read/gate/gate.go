package gate

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"tallystick/internal/read/dossier"
	"tallystick/internal/read/history"
	"tallystick/internal/read/scorecard"
	"tallystick/internal/record/cost"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/grade"
	"tallystick/internal/run/vantage"
)

// An Input is what gates are evaluated on.
type Input struct {
	Bench   *bench.Verified
	History *history.History
	Attempt *history.Attempt
	// Evidence is the attempt with its evidence, all of it read. It is needed if a
	// gate is about evidence_coverage: see [NewInput].
	Evidence *dossier.Whole
	// AcrossBenches takes an attempt at other cases or under another rubric, as
	// after a rescore.
	AcrossBenches bool
	// PlanIsBench takes the cases that the attempt planned for the bench, whose
	// own cases may have changed since. It is for holding an attempt against its
	// gates again: with the same registration, and a record of every case, its
	// records tell all that the bench of then would.
	PlanIsBench bool

	// alone takes the cases that a filter selected for the bench: see selection.
	alone bool
	// shown is what [Preview] has in place of Evidence.
	shown *dossier.Shown
}

// NewInput is what the gates of a class are evaluated on. All evidence of the attempt
// is read if a gate is about it.
func NewInput(v *bench.Verified, d *dossier.Dossier) (in Input, err error) {
	in = Input{Bench: v, History: d.Reading().History, Attempt: d.Attempt}
	if AskForEvidence(v) {
		in.Evidence, err = d.ReadAll()
	}
	return in, err
}

// AskForEvidence reports whether a gate of a class is about the evidence.
func AskForEvidence(v *bench.Verified) bool {
	return slices.ContainsFunc(v.Registration().Gates, func(g bench.Gate) bool { return g.Metric == bench.EvidenceCoverage })
}

// Preview is [Of] for display: what it says of evidence may come from a cache. Of an
// attempt with more than most tasks the evidence is not looked at.
func Preview(d *dossier.Display, a *history.Attempt, most int) (*Decision, error) {
	one := d.Reading().Dossier(a)
	long := fmt.Errorf("it has %d tasks, whose evidence is too much to look at here: tally gate %s", a.Tasks(), a.ID)
	made, err := of(one, func(v *bench.Verified) (Input, error) {
		in := Input{Bench: v, History: one.Reading().History, Attempt: a}
		switch {
		case !AskForEvidence(v):
			return in, nil
		case a.Tasks() > most:
			return in, long
		}
		shown, err := d.Dossier(a)
		in.shown = shown
		return in, err
	})
	if err == long {
		return undecided(long.Error()), nil
	}
	return made, err
}

// Gated refuses a class without gates: a gate that cannot close is not a gate.
func Gated(v *bench.Verified) error {
	if len(v.Registration().Gates) > 0 {
		return nil
	}
	return refusal.Newf(refusal.NotFound, "class %s has no gates in its registration", v.Class()).
		WithHint(`add "gates" to the registration and have it signed; docs/formats/case.md has the form`)
}

// sameRegistration refuses an attempt that ran under another registration, whose
// people agreed to other thresholds.
func (in *Input) sameRegistration() error {
	a := in.Attempt
	if a.Class != in.Bench.Class() {
		return fmt.Errorf("gate of class %s: attempt %s is of class %s", in.Bench.Class(), a.ID, a.Class)
	}
	if found, want := a.Plan.RegistrationDigest, in.Bench.RegistrationDigest(); found != want {
		return refusal.Newf(refusal.BenchChanged, "attempt %s ran under the registration %s, that of class %s is now %s", a.ID, found, a.Class, want).
			WithHint(`run the bench again ("tally run %s"), or check out the version of the bench that the attempt ran against`, a.Class)
	}
	return nil
}

// gates compares an attempt with every gate of its class. The numbers are
// those of the attempt's scorecard, as corrected. A gate fails if more of its cases broke or
// have no score than it allows, so that a run in which nearly all cases broke
// cannot pass by the score of the rest.
//
// It refuses an attempt that ran against other cases, unless told not to.
func (in *Input) gates() ([]Result, error) {
	a, reg := in.Attempt, in.Bench.Registration()
	if found, want := a.Plan.BenchDigest, in.Bench.Digest(); found != want && !in.AcrossBenches && !(in.PlanIsBench && in.tellsItsBench()) {
		return nil, refusal.Newf(refusal.BenchChanged, "attempt %s ran against the bench %s, class %s is now %s", a.ID, found, a.Class, want).
			WithHint(`its cases or its rubric changed: run the bench again ("tally run %s"), or check out the version that the attempt ran against; after a rescore, give --across-benches`, a.Class)
	}
	tags, err := in.tags()
	if err != nil {
		return nil, err
	}
	card, err := scorecard.Of(in.History, scorecard.View{Attempts: []*history.Attempt{a}, Basis: history.AsCorrected, Tags: func(_, id string) []string { return tags[id] }})
	if err != nil {
		return nil, err
	}
	var results []Result
	away := correctedAway(a, reg)
	for _, g := range reg.Gates {
		r, err := in.evaluate(g, card, tags)
		if away != "" && err == nil {
			r.Value, r.Met, r.Undecided, r.Reason = nil, false, false, away
		}
		if err != nil {
			return nil, err
		}
		if in.alone && r.N == 0 {
			continue // the filter selected none of its cases
		}
		results = append(results, r)
	}
	return append(results, in.uncovered(results, tags)...), nil
}

// uncovered is one more result, if cases that no gate is about broke or have no
// score: no gate allowed that. If the attempt left such cases out, it is not decided.
func (in *Input) uncovered(results []Result, tags map[string][]string) []Result {
	covered := func(tags []string) bool {
		return slices.ContainsFunc(results, func(r Result) bool { return r.Tag == "*" || slices.Contains(tags, r.Tag) })
	}
	left := []*history.Case{}
	for c := range in.Attempt.Cases() {
		if !covered(c.Tags()) && !covered(tags[c.ID]) {
			left = append(left, c)
		}
	}
	absent := in.absent(tags, func(tags []string) bool { return !covered(tags) })
	r := Result{Tag: "*", Metric: NoErrors}
	r.Errors, r.Unscored = in.without(left)
	if !slices.ContainsFunc(results, func(r Result) bool { return r.Tag == "*" }) {
		r.Errors += in.Attempt.Unlisted()
	}
	switch r.N = len(left); {
	case r.Errors+r.Unscored > 0:
		r.Reason = r.tooMany()
	case absent > 0:
		r.Undecided, r.Reason = true, leftOut(absent)
	default:
		return nil
	}
	return []Result{r}
}

// The metrics of results that no gate of a registration asked for.
const (
	// NoErrors: cases that no gate is about must neither break nor stay without a score.
	NoErrors bench.Metric = "errors_and_unscored"
	// EveryCase: without gates, every case must pass.
	EveryCase bench.Metric = "every_case"
	// Selection: where the gates are for more than what ran, what ran must pass, or keep
	// their limits by itself.
	Selection bench.Metric = "selected_cases"
	// Question is that of an attempt that stops early.
	Question bench.Metric = "stop_early"
	// Decidable: the attempt has come to its end, and the bench is the one that it ran.
	Decidable bench.Metric = "decidable"
)

// implied are these metrics, as people read them.
var implied = map[bench.Metric]string{
	NoErrors: "cases that no gate is about", EveryCase: "every case must pass", Selection: "the selected cases",
	Question: "the registered question", Decidable: "the gates of the class",
}

// without counts the cases that errored, were truncated or not run, and those
// without a score.
func (in *Input) without(cases []*history.Case) (errors, unscored int) {
	for _, u := range scorecard.Units(in.Attempt, cases, history.AsCorrected) {
		switch u.Outcome {
		case evidence.Passed, evidence.Failed, evidence.Skipped:
		case evidence.Unscored:
			unscored++
		default:
			errors++
		}
	}
	return errors, unscored
}

// tooMany says that more cases broke or have no score than the gate allows, or "".
func (g *Result) tooMany() string {
	var said []string
	if g.Errors > g.MaxErrors {
		said = append(said, fmt.Sprintf("%d errored, were truncated or not run (the gate allows %d)", g.Errors, g.MaxErrors))
	}
	if g.Unscored > g.MaxUnscored {
		said = append(said, fmt.Sprintf("%d have no score (the gate allows %d)", g.Unscored, g.MaxUnscored))
	}
	if said == nil {
		return ""
	}
	return "of its tasks " + strings.Join(said, " and ")
}

// correctedAway names a record with a block-severity failure that a correction
// raised all the same. "tally review correct" refuses to; who wrote the entry by other
// means meets no gate with it.
func correctedAway(a *history.Attempt, reg bench.Registration) string {
	for c := range a.Cases() {
		if c.Correction == nil || !c.Correction.Raises() {
			continue
		}
		for _, mode := range c.FailureModes() {
			if grade.SeverityOf(mode, reg) == evidence.Block {
				return fmt.Sprintf("case %s has the block-severity failure %s, and a correction (entry %d) raised it", c.ID, mode, c.Correction.Index)
			}
		}
	}
	return ""
}

// tellsItsBench reports whether the records of the attempt tell which cases its
// bench had, and their tags.
func (in *Input) tellsItsBench() bool {
	a := in.Attempt
	for c := range a.Cases() {
		if c.Index < 0 {
			return false
		}
	}
	return !a.Plan.Filtered && a.Plan.StopEarly == nil && a.Unlisted() == 0
}

// tags gives the tags of every case that the gates are about.
func (in *Input) tags() (map[string][]string, error) {
	if !in.PlanIsBench || !in.tellsItsBench() {
		return tagsOf(in.Bench)
	}
	tags := make(map[string][]string)
	for c := range in.Attempt.Cases() {
		tags[c.ID] = c.Tags()
	}
	return tags, nil
}

// tagsOf gives the tags of every case of the bench.
func tagsOf(b *bench.Verified) (map[string][]string, error) {
	tags := make(map[string][]string)
	for _, c := range b.Cases() {
		said := c.Case()
		tags[said.CaseID] = said.Tags
	}
	if set := b.Dataset(); set != nil {
		for _, line := range set.Lines {
			var said struct {
				Tags []string `json:"tags"`
			}
			if err := json.Unmarshal(line.JSON, &said); err != nil {
				return nil, refusal.Newf(refusal.Malformed, "class %s: %s: case %s: tags: %w", b.Class(), bench.DatasetFile, line.ID, err)
			}
			tags[line.ID] = said.Tags
		}
	}
	return tags, nil
}

func (in *Input) evaluate(g bench.Gate, card *scorecard.Card, tags map[string][]string) (Result, error) {
	r := Result{Tag: g.Tag, Metric: g.Metric, Threshold: g.Threshold}
	left := in.absent(tags, func(tags []string) bool { return g.Tag == "*" || slices.Contains(tags, g.Tag) })
	totals := card.Totals
	if g.Tag != "*" {
		i := slices.IndexFunc(card.By.Tag, func(x scorecard.Group) bool { return x.Key == g.Tag })
		if i < 0 {
			if r.Reason = "no case of the attempt has this tag"; left > 0 {
				r.Undecided, r.Reason = true, leftOut(left)
			}
			return r, nil
		}
		totals = card.By.Tag[i].Totals
	}
	r.N = totals.DistinctCases
	cases := in.tagged(g.Tag, tags)
	r.MaxErrors, r.MaxUnscored = g.MaxErrors, g.MaxUnscored
	r.Errors, r.Unscored = in.without(cases)
	if g.Tag == "*" {
		r.Errors += in.Attempt.Unlisted()
	}
	if left > 0 {
		r.partly(totals, left)
		return r, nil
	}
	if totals.ScoredTasks == 0 {
		r.Reason = "no case has a score"
		return r, nil
	}
	if n := unseen(g.Metric, cases); n != nil {
		r.Reason = fmt.Sprintf("it cannot be seen of %s: %s", plain.Plural(n.Tasks, "task"), n.Reason)
		return r, nil
	}
	value, reason, err := in.value(g.Metric, totals, cases)
	if err != nil || reason != "" {
		r.Reason = reason
		return r, err
	}
	r.Value = &value
	switch g.Metric {
	case bench.MeanScore:
		r.Bounds = totals.MeanScoreBounds
	case bench.SolveRate:
		r.Bounds = totals.SolveRateBounds
	}
	if r.Met = value >= g.Threshold; g.Metric.AtMost() {
		r.Met = value <= g.Threshold
	}
	if r.Reason = r.tooMany(); r.Reason != "" {
		r.Met = false
	}
	return r, nil
}

// partly is the result of a gate some of whose cases the attempt left out: it is for
// all of them, so it is not decided, unless what ran is enough to break it. Errors,
// missing scores and violations only grow.
func (g *Result) partly(t scorecard.Totals, left int) {
	if g.Reason = g.tooMany(); g.Reason != "" {
		return
	}
	g.Reason = leftOut(left)
	if violations := float64(t.PolicyViolations.N); g.Metric == bench.PolicyViolations && violations > g.Threshold {
		g.Value = &violations
		return
	}
	g.Undecided = true
}

func leftOut(n int) string { return fmt.Sprintf("%d cases of the bench were not in the attempt", n) }

// tagged lists the repetitions of cases with the tag, with or without a record.
func (in *Input) tagged(tag string, tags map[string][]string) []*history.Case {
	var cases []*history.Case
	for c := range in.Attempt.Cases() {
		has := c.Tags()
		if c.Index < 0 {
			has = tags[c.ID]
		}
		if tag == "*" || slices.Contains(has, tag) {
			cases = append(cases, c)
		}
	}
	return cases
}

// absent counts the cases of the bench whose tags are meant and that the attempt did
// not plan, as when a filter was given.
func (in *Input) absent(tags map[string][]string, meant func(tags []string) bool) int {
	if in.alone {
		return 0
	}
	planned := make(map[string]bool)
	for c := range in.Attempt.Cases() {
		planned[c.ID] = true
	}
	n := 0
	for id, has := range tags {
		if !planned[id] && meant(has) {
			n++
		}
	}
	return n
}

// unseen says of how many tasks a metric cannot all be seen, and why. What shows in
// part meets no gate: the rest could be anything.
func unseen(m bench.Metric, cases []*history.Case) *scorecard.NotSeen {
	tasks := map[vantage.Vantage]int{}
	for _, c := range cases {
		if c.Index >= 0 {
			tasks[vantage.Vantage(c.Context.Vantage)]++
		}
	}
	return scorecard.Unseen(vantage.Metric, string(m), tasks, vantage.Partly)
}

// advise says what makes an unknown cost known, as far as a person can.
func advise(c cost.Cost) string {
	if c.Unpriced == 0 {
		return ""
	}
	return "; give the model's price in providers.yaml (prices:, with input and output), let replies tell their usage (of a stream: stream_options.include_usage), and record again"
}

// value computes one metric, or says why it cannot be.
func (in *Input) value(m bench.Metric, t scorecard.Totals, cases []*history.Case) (value float64, reason string, err error) {
	switch m {
	case bench.SolveRate:
		return float64(t.Solved) / float64(t.TotalTasks), "", nil
	case bench.MeanScore:
		return scorecard.Mean(in.scores(in.units(cases))), "", nil
	case bench.LowerBound95:
		lower, _ := scorecard.BCa(in.perCase(cases), scorecard.Seed)
		return lower, "", nil
	case bench.CostPerSolve:
		switch {
		case t.Solved == 0:
			return 0, "no case was solved", nil
		case !t.TotalCost.Known():
			return 0, "the cost is not known: " + t.TotalCost.String() + advise(t.TotalCost), nil
		}
		return float64(t.TotalCost.MicroUSD) / float64(t.Solved), "", nil
	case bench.MedianLatencyMS:
		return float64(t.MedianLatencyMS), "", nil
	case bench.P95LatencyMS:
		return float64(t.P95LatencyMS), "", nil
	case bench.PolicyViolations:
		return float64(t.PolicyViolations.N), "", nil
	case bench.EvidenceCoverage:
		return in.coverage(cases)
	case bench.RollbackCorrectness:
		if t.RollbackCorrectness == nil {
			return 0, "it cannot be seen", nil
		}
		return *t.RollbackCorrectness, "", nil
	}
	return 0, fmt.Sprintf("this program does not know the metric %s", m), nil
}

// units are what the outcomes of cases are counted by: repetitions, or cases if
// the plan reduces them.
func (in *Input) units(cases []*history.Case) []scorecard.Unit {
	return scorecard.Units(in.Attempt, cases, history.AsCorrected)
}

// scores are those of the units that have one, as a scorecard counts them.
func (in *Input) scores(units []scorecard.Unit) []float64 {
	var all []float64
	for _, u := range units {
		if u.Scored {
			all = append(all, u.Score)
		}
	}
	return all
}

// perCase gives one score for each distinct case: repetitions are not samples
// of their own.
func (in *Input) perCase(cases []*history.Case) []float64 {
	groups := make(map[digest.Content][]scorecard.Unit)
	var order []digest.Content
	for _, c := range in.units(cases) {
		key := c.Digest
		if key == (digest.Content{}) {
			key = digest.ContentOf([]byte(c.ID))
		}
		if groups[key] == nil {
			order = append(order, key)
		}
		groups[key] = append(groups[key], c)
	}
	var all []float64
	for _, key := range order {
		if scored := in.scores(groups[key]); len(scored) > 0 {
			all = append(all, scorecard.Mean(scored))
		}
	}
	return all
}

// coverage is the share of solved cases whose evidence is there unchanged.
func (in *Input) coverage(cases []*history.Case) (value float64, reason string, err error) {
	var missing func(*history.Case) error
	switch {
	case in.Evidence != nil:
		missing = in.Evidence.Missing
	case in.shown != nil:
		missing = in.shown.Missing
	default:
		return 0, "", errors.New("gate on evidence_coverage: the evidence was not looked for")
	}
	solved, complete := 0, 0
	for _, c := range cases {
		if !c.Passed() {
			continue
		}
		solved++
		if missing(c) == nil {
			complete++
		}
	}
	if solved == 0 {
		return 0, "no case was solved", nil
	}
	return float64(complete) / float64(solved), "", nil
}

// A Result is what became of one gate.
type Result struct {
	Tag       string       `json:"tag"` // "*" for all cases
	Metric    bench.Metric `json:"metric"`
	Value     *float64     `json:"value"` // nil when it cannot be computed
	Threshold float64      `json:"threshold"`
	Met       bool         `json:"met"`
	// Undecided says that the gate is neither met nor missed: it is for cases that the
	// attempt did not have.
	Undecided bool   `json:"undecided,omitempty"`
	N         int    `json:"n"` // distinct cases behind the value
	Reason    string `json:"reason,omitempty"`

	// Errors and Unscored count the tasks that broke or have no score, beside
	// how many of them the gate allows. Bounds are what a rate or a mean could
	// be if these had a score.
	Errors      int         `json:"errors,omitempty"`
	Unscored    int         `json:"unscored,omitempty"`
	MaxErrors   int         `json:"max_errors,omitempty"`
	MaxUnscored int         `json:"max_unscored,omitempty"`
	Bounds      *[2]float64 `json:"bounds,omitempty"`
}

// Text says in one line what was found and what is needed.
func (g Result) Text() string {
	if implied[g.Metric] != "" {
		return fmt.Sprintf("%s: %s", g.Name(), g.Reason)
	}
	needs := "needs " + g.Metric.Limit(g.Threshold)
	if g.Metric.AtMost() {
		needs = "allows " + g.Metric.Limit(g.Threshold)
	}
	if g.Reason != "" && g.Value == nil {
		return fmt.Sprintf("%s: %s; the gate %s", g.Name(), g.Reason, needs)
	}
	cases := "cases"
	if g.N == 1 {
		cases = "case"
	}
	text := fmt.Sprintf("%s is %s, the gate %s (%d %s)", g.Name(), valueText(g.Value), needs, g.N, cases)
	if g.Bounds != nil {
		text += fmt.Sprintf("; with every task scored it would be %s to %s", plain.Number(g.Bounds[0]), plain.Number(g.Bounds[1]))
	}
	if g.Reason != "" {
		text += "; " + g.Reason
	} else if g.Errors+g.Unscored > 0 {
		text += fmt.Sprintf("; %d errors of at most %d and %d unscored of at most %d", g.Errors, g.MaxErrors, g.Unscored, g.MaxUnscored)
	}
	return text
}

// Name says which gate it is.
func (g Result) Name() string {
	if name := implied[g.Metric]; name != "" {
		return name
	}
	return fmt.Sprintf("%s of %s", g.Metric, bench.TagText(g.Tag))
}

func valueText(v *float64) string {
	if v == nil {
		return "not known"
	}
	return plain.Number(*v)
}
