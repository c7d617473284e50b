package scorecard

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"tallystick/internal/read/history"
	"tallystick/internal/record/cost"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/vantage"
)

// Rules is the version of how scorecards, comparisons, gates and the answers of
// runs are counted and of which members they have: docs/formats/scorecard.md.
// Each change of these is a new one, and an answer names its own in the member
// "rules": an answer is counted again only by the rules that it was made by.
const Rules = 3

// Totals are the numbers of a capability report over some tasks, by its names,
// and the intervals beside them. docs/formats/scorecard.md has every formula.
//
// TotalTasks is always Solved + Failed + Skipped + Errors: what was not run is
// among the failed, what is unscored or truncated among the errors, as in
// witness bundles, and each is also counted by itself.
type Totals struct {
	TotalTasks int `json:"total_tasks"`
	Solved     int `json:"solved"`
	Failed     int `json:"failed"`
	Skipped    int `json:"skipped"`
	Errors     int `json:"errors"`
	Unscored   int `json:"unscored"`
	Truncated  int `json:"truncated"`
	NotRun     int `json:"not_run"`

	PolicyViolations    Count    `json:"policy_violations"`
	Unwatched           int      `json:"unwatched_tasks,omitempty"` // whose agent was not watched outside the gateway
	RollbackCount       Count    `json:"rollback_count"`
	RollbackCorrectness *float64 `json:"rollback_correctness"` // nil if it cannot be seen
	// TotalCost is what is known of the cost, null if a task does not tell its own.
	// Unpriced is how many calls are not in it: the cost is then at least that.
	TotalCost cost.Cost `json:"total_cost_microdollars"`
	Unpriced  int64     `json:"unpriced_calls,omitempty"`
	// UserCost is what the simulated users of the tasks cost, which is not in TotalCost;
	// nil if none had one.
	UserCost        *UserCost `json:"user_cost,omitempty"`
	MedianLatencyMS int64     `json:"median_latency_ms"`
	P95LatencyMS    int64     `json:"p95_latency_ms"`
	TotalTokens     Count     `json:"total_tokens"`
	TotalRetries    Count     `json:"total_retries"`

	// ToolCalls are those of the records that tell; nil if none does.
	ToolCalls *ToolCalls `json:"tool_calls,omitempty"`

	CostPerSolve   cost.Cost `json:"cost_per_solve"`
	TokensPerSolve Count     `json:"tokens_per_solve"`
	SolveRate      float64   `json:"solve_rate"`

	// If some tasks do not tell their cost, there is no total: how many they are,
	// and what is known.
	CostUnknown    int64  `json:"cost_unknown_tasks,omitempty"`
	KnownCostMicro *int64 `json:"known_cost_microdollars,omitempty"`

	// NotSeen are the totals that the vantage of some tasks does not show. What is
	// null above is so for one of these reasons.
	NotSeen []NotSeen `json:"not_seen,omitempty"`

	// DistinctCases is the sample size of every interval: distinct case
	// digests, however often each was run.
	DistinctCases int        `json:"distinct_cases"`
	SolveRateCI95 [2]float64 `json:"solve_rate_ci95"`
	// SolveRateSE is the standard error clustered by case, if cases repeat.
	SolveRateSE *float64 `json:"solve_rate_se,omitempty"`

	// MeanScore is that of the ScoredTasks, nil without any: a case without a
	// score is not a case of score zero.
	ScoredTasks   int         `json:"scored_tasks"`
	MeanScore     *float64    `json:"mean_score"`
	MeanScoreCI95 *[2]float64 `json:"mean_score_ci95"`

	// Bounds are the worst and the best that rate and mean could be, were the
	// tasks without a score, skipped ones left out, all scored 0 or all solved
	// with 1. They are nil if every task has a score.
	SolveRateBounds *[2]float64 `json:"solve_rate_bounds,omitempty"`
	MeanScoreBounds *[2]float64 `json:"mean_score_bounds,omitempty"`
}

// ToolCalls counts tool calls by how they are known: executed by the harness,
// reported by the agent, or only proposed by a model. Unknown is how many tasks
// with a record do not tell.
type ToolCalls struct {
	Executed int64 `json:"executed"`
	Reported int64 `json:"reported"`
	Proposed int64 `json:"proposed"`
	Unknown  int   `json:"unknown_tasks,omitempty"`
}

// addCalls counts the calls of a task.
func (t *Totals) addCalls(k *history.Case, unknown *int) {
	n := k.ToolCalls
	if !n.Known {
		if k.Index >= 0 {
			*unknown++
		}
		return
	}
	if t.ToolCalls == nil {
		t.ToolCalls = &ToolCalls{}
	}
	t.ToolCalls.Executed += int64(n.Executed)
	t.ToolCalls.Reported += int64(n.Reported)
	t.ToolCalls.Proposed += int64(n.Proposed)
}

// A Card is a scorecard.
type Card struct {
	// Rules is [Rules] of the program that made it.
	Rules int `json:"rules"`
	Totals

	// Qualifications are what must be known beside these numbers.
	Qualifications []history.Qualification `json:"qualifications,omitempty"`

	// EvidenceCoverage is the share of solved tasks whose evidence is there
	// unchanged, 0 if none is solved, nil if it was not looked for.
	EvidenceCoverage *float64          `json:"evidence_coverage"`
	EvidenceChecked  bool              `json:"evidence_checked"`
	EvidenceMissing  []MissingEvidence `json:"evidence_missing"`

	Executions int           `json:"executions"` // case.started entries
	Abandoned  int           `json:"abandoned_executions"`
	Excluded   int           `json:"excluded_records"`
	Paid       *history.Paid `json:"paid,omitempty"`          // by live attempts that have ended, scored or not
	Draws      int           `json:"judge_draws,omitempty"`   // verdicts drawn from a model
	Redraws    int           `json:"judge_redraws,omitempty"` // of these, of questions that had one
	Amendments Amendments    `json:"amendments"`
	// Corrected are the tasks beside whose recorded score another stands: that people
	// signed, or that grading again gave. AsCorrected are the totals with those that
	// count; nil if none changes a number.
	Corrected   []CorrectedRow `json:"corrected,omitempty"`
	AsCorrected *Totals        `json:"as_corrected,omitempty"`
	// Reviewed are the tasks that people labelled; no number here rests on it.
	Reviewed []ReviewedRow `json:"reviewed,omitempty"`
	Modes    []ModeCount   `json:"failure_modes"`
	PassAtK  []PassK       `json:"pass_at_k,omitempty"`

	Acceptance Acceptance `json:"acceptance"`

	// Level is that of the weakest attempt, and Properties are what every
	// attempt has.
	Level      history.Level      `json:"level"`
	Properties []history.Property `json:"properties,omitzero"`
	Attempts   []AttemptLine      `json:"attempts"`
	// Siblings are the other attempts of the same classes, by every target: what
	// was tried besides what is shown.
	Siblings []AttemptLine `json:"other_attempts"`
	By       Breakdown     `json:"by"`
	Ledger   history.Line  `json:"ledger"`

	missing int // solved tasks without their evidence
}

// A MissingEvidence is a solved task whose evidence is not what its record
// names.
type MissingEvidence struct {
	Attempt string `json:"attempt"`
	CaseID  string `json:"case_id"`
	Entry   int64  `json:"entry"`
	Reason  string `json:"reason"`
}

// Amendments counts the records that were amended.
type Amendments struct {
	Lowered int `json:"lowered"`
	Ignored int `json:"ignored_raises"`
}

// A ModeCount says on how many tasks a failure mode was found.
type ModeCount struct {
	Code  string `json:"code"`
	Tasks int    `json:"tasks"`
}

// A PassK is the mean over cases of [PassAtK] and [PassHatK].
type PassK struct {
	K    int     `json:"k"`
	At   float64 `json:"pass_at_k"`
	All  float64 `json:"pass_hat_k"`
	Over int     `json:"cases"`
}

// Acceptance is the verdict on a hundred repository issues under one fixed policy.
type Acceptance struct {
	Met      bool        `json:"met"`
	Reasons  []string    `json:"reasons"`
	Criteria []Criterion `json:"criteria"`
}

// A Criterion is one row of it. Value is nil if it is not known.
type Criterion struct {
	Metric    string   `json:"metric"`
	Value     *float64 `json:"value"`
	Operator  string   `json:"operator"`
	Threshold float64  `json:"threshold"`
	Met       bool     `json:"met"`
}

// An AttemptLine says which attempt a card is about, and which of how many.
type AttemptLine struct {
	ID           string             `json:"id"`
	Class        string             `json:"class"`
	Target       string             `json:"target"`
	Mode         string             `json:"mode"`
	Number       int                `json:"number"` // of Of attempts of this class
	Of           int                `json:"of"`
	PlanNumber   int                `json:"plan_number"` // of PlanOf with this very plan
	PlanOf       int                `json:"plan_of"`
	Level        history.Level      `json:"level"`
	Properties   []history.Property `json:"properties,omitzero"`
	Witnessed    bool               `json:"witnessed"`
	Filtered     bool               `json:"filtered"`
	Selection    string             `json:"selection,omitempty"` // how, in words
	Reduce       evidence.Reducer   `json:"reduce,omitempty"`
	Stopped      *StopLine          `json:"stopped_early,omitempty"`
	Finished     bool               `json:"finished"`
	Entry        int64              `json:"entry"`
	RegisteredAt evidence.Time      `json:"registered_at"`
	BenchDigest  digest.ID          `json:"bench_digest"`
	Tasks        int                `json:"tasks"`
	Executions   int                `json:"executions"`
	Abandoned    int                `json:"abandoned_executions"`
	Passed       int                `json:"passed_records"` // before anything was excluded or amended
	Excluded     int                `json:"excluded_records"`
	Draws        int                `json:"judge_draws,omitempty"`
	Redraws      int                `json:"judge_redraws,omitempty"`
	Problems     []string           `json:"problems"`

	Qualifications []history.Qualification `json:"qualifications,omitempty"`
}

// A StopLine is the answer to the question that an attempt was registered with: its
// result. The solve rate beside it is biased.
type StopLine struct {
	evidence.StopEarly
	evidence.Stopped
	NotNeeded int `json:"not_needed"` // cases that were not run
}

func stopLine(a *history.Attempt) *StopLine {
	if a.Stop == nil {
		return nil
	}
	return &StopLine{a.Stop.StopEarly, a.Stop.Stopped, a.Stop.NotNeeded}
}

// A Breakdown is the same totals for each value of a property.
type Breakdown struct {
	Class  []Group `json:"class"`
	Tag    []Group `json:"tag"`
	Target []Group `json:"target"`
	Week   []Group `json:"week"` // ISO week of the registration, UTC
}

// A Group is one row of a breakdown.
type Group struct {
	Key string `json:"key"`
	Totals
}

// A View says what a scorecard is about.
type View struct {
	// Attempts must have been kept by [history.Read].
	Attempts []*history.Attempt
	// Basis says which scores are counted. Only what decides a gate counts them as
	// corrected; what shows them has them as recorded.
	Basis history.Basis
	// Evidence is what was found of the evidence of each attempt. Nil means that
	// it was not looked for.
	Evidence map[*history.Attempt]Evidence
	// Tags gives the tags of a case that has no record. Nil gives none.
	Tags func(class, caseID string) []string
	// Unread reports of another attempt that its records were not read when the
	// card was first made, so that it is told of as it was then. Nil means of
	// none.
	Unread func(*history.Attempt) bool
}

// An Evidence tells what is missing of the evidence of a record: a
// [tallystick/internal/read/dossier.Whole], whose evidence was all read, or what a
// page shows, which may be known from a cache.
type Evidence interface {
	// Missing returns nil if everything that the record names is there unchanged;
	// a refusal NotFound or DigestMismatch if not.
	Missing(*history.Case) error
	// Issue returns what the evidence of the record says of the case as an issue of
	// a repository; nil if nothing. Its errors are as those of Missing.
	Issue(*history.Case) (*evidence.RepositoryIssue, error)
}

// maxMissing bounds the list of missing evidence.
const maxMissing = 100

// Of counts.
func Of(h *history.History, v View) (*Card, error) {
	c := &Card{Rules: Rules, EvidenceMissing: []MissingEvidence{}, Modes: []ModeCount{}, Siblings: []AttemptLine{}, Attempts: []AttemptLine{},
		Ledger: h.Line(), Qualifications: history.Qualify(v.Attempts...)}
	shown := make(map[*history.Attempt]bool)
	classes := make(map[string]bool)
	for i, a := range v.Attempts {
		if !a.Kept || shown[a] {
			return nil, fmt.Errorf("scorecard of attempt %s: its records were not read, or it is named twice", a.ID)
		}
		shown[a], classes[a.Class] = true, true
		c.Attempts = append(c.Attempts, LineOf(a))
		c.Executions += a.Executions
		c.Abandoned += a.Abandoned
		c.Excluded += a.Excluded
		c.Draws += a.Draws
		c.Redraws += a.Redraws
		if i == 0 || a.Level < c.Level {
			c.Level = a.Level
		}
	}
	for _, a := range h.Attempts {
		// All of the class, so that a renamed target hides nothing.
		if !shown[a] && classes[a.Class] {
			if v.Unread != nil && v.Unread(a) {
				a = a.WithoutRecords()
			}
			line := LineOf(a)
			// Whether the records of another attempt were read must not show.
			line.Qualifications = history.Qualify(a.WithoutRecords())
			c.Siblings = append(c.Siblings, line)
		}
	}

	c.Properties, c.Paid = history.Common(v.Attempts), history.PaidBy(v.Attempts...)
	tasks := tasksOf(v.Attempts)
	c.Totals = totalsOf(tasks, v.Basis)
	c.PassAtK = passAtK(tasks, c.DistinctCases, v.Basis)
	c.countModes(tasks)
	c.Corrected, c.AsCorrected = CorrectedCases(v.Attempts...), asCorrected(tasks)
	c.Reviewed = withoutNotes(ReviewedCases(h, v.Attempts...))
	if err := c.checkEvidence(v, tasks); err != nil {
		return nil, err
	}
	c.Acceptance = acceptance(c)
	if err := c.Acceptance.askOfRun(v, tasks); err != nil {
		return nil, err
	}
	c.By = breakdown(tasks, c.Totals, v)
	return c, nil
}

// RequireAnswered refuses an attempt of which cases asked for replies that are not
// recorded: what was answered is a part of it, of which no rate or difference is one of
// the bench.
func RequireAnswered(a *history.Attempt) error {
	n := a.Unanswered()
	if n == 0 {
		return nil
	}
	return refusal.Newf(refusal.NotAnswered, "attempt %s has no score: %d of %d cases ask something new, which is not recorded", a.ID, n, a.Tasks()).
		WithHint(`"tally run %s --target %s --live" asks the model; "tally show %s" lists the cases`, a.Class, plain.ShellWord(a.Target), a.ID)
}

// LineOf says which attempt it is.
func LineOf(a *history.Attempt) AttemptLine {
	return AttemptLine{ID: a.ID, Class: a.Class, Target: a.Target, Mode: a.Mode, Number: a.Ordinal, Of: a.Siblings, PlanNumber: a.PlanOrdinal, PlanOf: a.PlanSiblings,
		Level: a.Level, Properties: a.Properties(), Witnessed: a.Witnessed, Filtered: a.Plan.Filtered, Selection: a.Plan.Selection.Text(a.Plan.CaseCount), Reduce: a.Plan.Reduce, Stopped: stopLine(a), Finished: a.Finished != nil, Entry: a.Index, RegisteredAt: a.Time,
		BenchDigest: a.Plan.BenchDigest, Tasks: a.Tasks(), Executions: a.Executions, Abandoned: a.Abandoned, Passed: a.Passed, Excluded: a.Excluded,
		Draws: a.Draws, Redraws: a.Redraws, Problems: append([]string{}, a.Problems...), Qualifications: history.Qualify(a)}
}

// A task is one repetition of one planned case. Case is nil if not even its
// name is known.
type task struct {
	attempt *history.Attempt
	*history.Case
	sample uint32 // the same for tasks of one case digest
}

var noCase = &history.Case{Index: -1}

// tasksOf lists the tasks of attempts and finds which are of the same case.
func tasksOf(attempts []*history.Attempt) []task {
	n := 0
	for _, a := range attempts {
		n += a.Tasks()
	}
	list := make([]task, 0, n)
	index := newSampleIndex(n)
	for _, a := range attempts {
		for c := range a.Cases() {
			d := &c.Digest
			if d.IsZero() { // started, never scored, and the plan is not at hand
				named := digest.ContentOf(fmt.Appendf(nil, "%q %q", a.Class, c.ID))
				d = &named
			}
			list = append(list, task{a, c, index.of(d)})
		}
		for range a.Unlisted() {
			list = append(list, task{a, noCase, index.fresh()})
		}
	}
	return list
}

// A sampleIndex numbers case digests, by their first bytes; the whole digests
// are compared in the list.
type sampleIndex struct {
	by    history.Index
	known []*digest.Content
}

func newSampleIndex(n int) *sampleIndex {
	x := &sampleIndex{known: make([]*digest.Content, 0, n)}
	x.by.Grow(n)
	return x
}

func (x *sampleIndex) of(d *digest.Content) uint32 {
	key := binary.BigEndian.Uint64(d[:])
	if n, ok := x.by.Find(key, func(at uint32) bool { return *x.known[at] == *d }); ok {
		return n
	}
	n := uint32(len(x.known))
	x.known = append(x.known, d)
	x.by.Add(key, n)
	return n
}

// fresh is the number of a case of which nothing is known.
func (x *sampleIndex) fresh() uint32 {
	x.known = append(x.known, nil)
	return uint32(len(x.known) - 1)
}

// A sample is what is known of one case: how often it was to run, how often it
// was solved, and its scores.
type sample struct {
	tasks, solved, scored int32
	sum                   float64
}

// samplesOf puts the units of one case together, in the order of first sight.
func samplesOf(units []unit) []sample {
	ids := make([]uint32, len(units))
	for i, u := range units {
		ids[i] = u.sample
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	at := func(id uint32) int {
		// Nearly always the ids are 0 to n-1.
		if int(id) < len(ids) && ids[id] == id {
			return int(id)
		}
		i, _ := slices.BinarySearch(ids, id)
		return i
	}
	samples := make([]sample, len(ids))
	for _, u := range units {
		s := &samples[at(u.sample)]
		s.tasks++
		if u.Outcome == evidence.Passed {
			s.solved++
		}
		if u.Scored {
			s.scored++
			s.sum += u.Score
		}
	}
	return samples
}

// totalsOf counts tasks: what became of them by units, what they took by itself.
func totalsOf(tasks []task, on history.Basis) Totals {
	var t Totals
	unknown := 0 // tasks that do not tell their tool calls
	var verified int64
	vantages := map[vantage.Vantage]int{} // tasks with a record, by where they were seen from
	latencies := make([]int64, 0, len(tasks))
	units := unitsOf(tasks, on)
	for _, u := range units {
		switch u.Outcome {
		case evidence.Passed:
			t.Solved++
		case history.NotRun:
			t.NotRun++
			t.Failed++
		case evidence.Failed:
			t.Failed++
		case evidence.Skipped:
			t.Skipped++
		case evidence.Unscored:
			t.Unscored++
			t.Errors++
		case evidence.Truncated:
			t.Truncated++
			t.Errors++
		default:
			t.Errors++
		}
	}
	for _, k := range tasks {
		if k.Index >= 0 {
			vantages[vantage.Vantage(k.Context.Vantage)]++
		}
		t.PolicyViolations.N += int64(k.Violations)
		if k.Index >= 0 && isUnwatched(k.Context.AgentIsolation) {
			t.Unwatched++
		}
		t.addCalls(k.Case, &unknown)
		t.RollbackCount.N += int64(k.Rollbacks)
		verified += int64(k.RollbacksVerified)
		t.TotalCost = t.TotalCost.Plus(k.Cost)
		t.TotalTokens.N = Sum(t.TotalTokens.N, k.Tokens)
		t.UserCost = t.UserCost.plus(k.User)
		t.TotalRetries.N += int64(k.Retries) + int64(max(0, k.Started-1))
		if k.Index >= 0 {
			latencies = append(latencies, k.LatencyMS)
		}
	}
	t.TotalTasks = len(units)
	if t.ToolCalls != nil {
		t.ToolCalls.Unknown = unknown
	}
	correct := 1.0
	if t.RollbackCount.N > 0 {
		correct = round(float64(verified) / float64(t.RollbackCount.N))
	}
	t.RollbackCorrectness = &correct
	slices.Sort(latencies)
	t.MedianLatencyMS, t.P95LatencyMS = Percentile(latencies, 50), Percentile(latencies, 95)
	t.CostPerSolve = t.TotalCost.Per(int64(t.Solved))
	if t.Solved > 0 {
		t.TokensPerSolve.N = t.TotalTokens.N / int64(t.Solved)
	}
	t.Unpriced, t.CostUnknown = t.TotalCost.Unpriced, t.TotalCost.Untold
	if t.CostUnknown > 0 {
		known := t.TotalCost.MicroUSD
		t.KnownCostMicro = &known
	}
	t.hide(vantages)
	t.estimate(samplesOf(units))
	return t
}

// bound says what rate and mean could be if the tasks without a score had one;
// sum is that of the scores.
func (t *Totals) bound(sum float64) {
	asked := t.TotalTasks - t.Skipped
	open := asked - t.ScoredTasks
	if open <= 0 {
		return
	}
	all, n := float64(t.TotalTasks), float64(asked)
	t.SolveRateBounds = &[2]float64{round(float64(t.Solved) / all), round(float64(t.Solved+open) / all)}
	t.MeanScoreBounds = &[2]float64{round(sum / n), round((sum + float64(open)) / n)}
}

// Sum is a sum that stays at the end of the numbers instead of passing it.
func Sum(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// estimate adds rates, means and their intervals.
func (t *Totals) estimate(samples []sample) {
	t.DistinctCases = len(samples)
	rate := 0.0
	if t.TotalTasks > 0 {
		rate = float64(t.Solved) / float64(t.TotalTasks)
	}
	lo, hi := WilsonRate(rate, t.DistinctCases, Z95)
	t.SolveRate, t.SolveRateCI95 = round(rate), [2]float64{round(lo), round(hi)}

	means := make([]float64, 0, len(samples))
	repeated, squares, scored, sum := false, 0.0, 0, 0.0
	for _, s := range samples {
		repeated = repeated || s.tasks > 1
		d := float64(s.solved) - float64(s.tasks)*rate
		squares += float64(d * d)
		if s.scored > 0 {
			means = append(means, s.sum/float64(s.scored))
			scored += int(s.scored)
			sum += s.sum
		}
	}
	if k := float64(len(samples)); repeated && k > 1 {
		// ClusteredSE of zeros and ones, without making a list of them.
		se := round(math.Sqrt(k/(k-1)*squares) / float64(t.TotalTasks))
		t.SolveRateSE = &se
	}
	if t.ScoredTasks = scored; scored > 0 {
		mean := round(sum / float64(scored))
		lo, hi := BCa(means, Seed)
		t.MeanScore, t.MeanScoreCI95 = &mean, &[2]float64{round(lo), round(hi)}
	}
	t.bound(sum)
}

// round cuts to six decimals, more than any of these numbers is good for, so
// that a second implementation in another language prints the same.
// What is below 1 stays below it.
func round(v float64) float64 {
	r := math.Round(v*1e6) / 1e6
	if r >= 1 && v < 1 {
		return 0.999999
	}
	return r
}

// maxK bounds how many k are shown.
const maxK = 10

// passAtK is there when every case ran more than once.
func passAtK(tasks []task, distinct int, on history.Basis) []PassK {
	if distinct == 0 || len(tasks) < 2*distinct {
		return nil
	}
	samples := samplesOf(repetitions(tasks, on))
	least := math.MaxInt
	for _, s := range samples {
		least = min(least, int(s.tasks))
	}
	if least < 2 {
		return nil
	}
	var out []PassK
	for k := 1; k <= min(least, maxK); k++ {
		p := PassK{K: k, Over: len(samples)}
		for _, s := range samples {
			p.At += PassAtK(int(s.tasks), int(s.solved), k)
			p.All += PassHatK(int(s.tasks), int(s.solved), k)
		}
		p.At, p.All = round(p.At/float64(len(samples))), round(p.All/float64(len(samples)))
		out = append(out, p)
	}
	return out
}

func (c *Card) countModes(tasks []task) {
	// The lists are shared, so there are few of them.
	modes := make(map[*string]int)
	lists := make(map[*string][]string)
	for _, t := range tasks {
		if list := t.FailureModes(); len(list) > 0 {
			modes[&list[0]]++
			lists[&list[0]] = list
		}
		if t.Amendment != nil {
			if t.Raises() {
				c.Amendments.Ignored++
			} else if t.Uncorrected() != t.Outcome() || t.UncorrectedScore() < t.Score {
				c.Amendments.Lowered++
			}
		}
	}
	counts := make(map[string]int)
	for first, n := range modes {
		for _, name := range slices.Compact(slices.Sorted(slices.Values(lists[first]))) {
			counts[name] += n
		}
	}
	for _, code := range slices.Sorted(maps.Keys(counts)) {
		c.Modes = append(c.Modes, ModeCount{code, counts[code]})
	}
}

func (c *Card) checkEvidence(v View, tasks []task) error {
	if v.Evidence == nil {
		return nil
	}
	c.EvidenceChecked = true
	complete, solved := 0, 0
	for _, t := range tasks {
		if !t.On(v.Basis).Passed() {
			continue
		}
		found := v.Evidence[t.attempt]
		if found == nil {
			return fmt.Errorf("scorecard of attempt %s: its evidence was not looked at", t.attempt.ID)
		}
		solved++
		switch err := found.Missing(t.Case); {
		case err == nil:
			complete++
		case !refusal.Is(err, refusal.NotFound) && !refusal.Is(err, refusal.DigestMismatch):
			return fmt.Errorf("attempt %s: case %s: reading its evidence: %w", t.attempt.ID, t.ID, err)
		case len(c.EvidenceMissing) < maxMissing:
			c.EvidenceMissing = append(c.EvidenceMissing, MissingEvidence{t.attempt.ID, t.ID, t.Index, err.Error()})
		}
	}
	coverage := 0.0
	if solved > 0 {
		// Cut and not rounded: all but one of a million is not all.
		coverage = math.Floor(float64(complete)/float64(solved)*1e6) / 1e6
	}
	c.EvidenceCoverage, c.missing = &coverage, solved-complete
	return nil
}

// The thresholds of acceptance.
const (
	acceptSolveRate = 0.60
	acceptCoverage  = 1.00
	acceptRollbacks = 1.00
)

func acceptance(c *Card) Acceptance {
	violations := c.PolicyViolations.value()
	// The rate is compared as whole numbers: 60 of 100 is enough, and no
	// rounding makes 599,999 of 1,000,000 enough. Of what is recorded and what is
	// corrected the lower counts.
	total := &c.Totals
	if c.AsCorrected != nil && c.AsCorrected.Solved < total.Solved {
		total = c.AsCorrected
	}
	solved := total.TotalTasks > 0 && total.Solved*100 >= 60*total.TotalTasks
	a := Acceptance{Reasons: []string{}, Criteria: []Criterion{
		{"solve_rate", &total.SolveRate, ">=", acceptSolveRate, solved},
		{"policy_violations", violations, "==", 0, c.PolicyViolations == Count{} && c.Unwatched == 0},
		{"evidence_coverage", c.EvidenceCoverage, "==", acceptCoverage, c.EvidenceCoverage != nil && *c.EvidenceCoverage == acceptCoverage},
		{"rollback_correctness", c.RollbackCorrectness, "==", acceptRollbacks, c.RollbackCorrectness != nil && *c.RollbackCorrectness == acceptRollbacks},
	}}
	why := []string{
		fmt.Sprintf("solve_rate is %s, needs 0.60 or more (%d of %d tasks)", short(total.SolveRate), total.Solved, total.TotalTasks),
		fmt.Sprintf("policy_violations is %s, needs 0", c.PolicyViolations),
		"evidence_coverage was not checked, needs 1.00",
		fmt.Sprintf("rollback_correctness is %s, needs 1.00 (%s rollbacks)", c.rollbackText(), c.RollbackCount),
	}
	if c.Unwatched > 0 {
		why[1] = fmt.Sprintf("policy_violations is %d of what was seen, needs 0 of everything (the agent of %d tasks ran where nothing watches what it tries)", c.PolicyViolations.N, c.Unwatched)
	}
	if c.RollbackCorrectness == nil {
		why[3] = "rollback_correctness cannot be seen, needs 1.00"
	}
	switch {
	case c.EvidenceCoverage == nil:
	case c.Solved == 0:
		why[2] = "evidence_coverage is 0, needs 1.00 (no task is solved)"
	default:
		why[2] = fmt.Sprintf("evidence_coverage is %s, needs 1.00 (evidence of %d solved tasks is missing or changed)", short(*c.EvidenceCoverage), c.missing)
	}
	a.Met = true
	for i, x := range a.Criteria {
		if !x.Met {
			a.Met = false
			a.Reasons = append(a.Reasons, why[i])
		}
	}
	if a.Met {
		a.Reasons = append(a.Reasons, "all criteria met")
	}
	return a
}

// isUnwatched reports whether an agent ran where the harness does not see what it tries past
// the gateway: without a sandbox, or elsewhere.
func isUnwatched(isolation string) bool { return isolation == "none" || isolation == "remote" }

// short is a rate as people read it, with more digits where two would hide a
// difference.
func short(v float64) string {
	if s := fmt.Sprintf("%.2f", v); math.Abs(v-math.Round(v*100)/100) < 1e-9 {
		return s
	}
	return fmt.Sprintf("%.4f", v)
}

// breakdown groups the tasks by each property.
func breakdown(tasks []task, all Totals, v View) Breakdown {
	ofAttempt := func(key func(*history.Attempt) string) []Group {
		keys := make(map[*history.Attempt][]string)
		return groups(tasks, all, v.Basis, func(t task) []string {
			if keys[t.attempt] == nil {
				keys[t.attempt] = []string{key(t.attempt)}
			}
			return keys[t.attempt]
		})
	}
	return Breakdown{
		Class:  ofAttempt(func(a *history.Attempt) string { return a.Class }),
		Target: ofAttempt(func(a *history.Attempt) string { return a.Target }),
		Week:   ofAttempt(func(a *history.Attempt) string { return WeekOf(a.Time.Go()) }),
		Tag: groups(tasks, all, v.Basis, func(t task) []string {
			if t.Index < 0 && v.Tags != nil && t.Case != noCase {
				return v.Tags(t.attempt.Class, t.ID)
			}
			return t.Tags()
		}),
	}
}

func groups(tasks []task, all Totals, on history.Basis, keys func(task) []string) []Group {
	sizes := make(map[string]int)
	each := func(t task, see func(key string)) {
		ks := keys(t)
		for i, key := range ks {
			if !slices.Contains(ks[:i], key) { // a tag given twice is one tag
				see(key)
			}
		}
	}
	for _, t := range tasks {
		each(t, func(key string) { sizes[key]++ })
	}
	members := make(map[string][]task)
	for key, n := range sizes {
		if n < len(tasks) { // else it has the totals of all
			members[key] = make([]task, 0, n)
		}
	}
	if len(members) > 0 {
		for _, t := range tasks {
			each(t, func(key string) {
				if m, ok := members[key]; ok {
					members[key] = append(m, t)
				}
			})
		}
	}
	out := []Group{}
	for _, key := range slices.Sorted(maps.Keys(sizes)) {
		g := Group{Key: key, Totals: all}
		if m, ok := members[key]; ok {
			g.Totals = totalsOf(m, on)
			delete(members, key)
		}
		out = append(out, g)
	}
	return out
}

// WeekOf is the ISO 8601 week of a time in UTC, as in 2026-W20.
func WeekOf(t time.Time) string {
	year, week := t.UTC().ISOWeek()
	return fmt.Sprintf("%04d-W%02d", year, week)
}
