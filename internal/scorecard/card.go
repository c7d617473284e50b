package scorecard

import (
	"encoding/binary"
	"fmt"
	"iter"
	"maps"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"tallystick/internal/digest"
	"tallystick/internal/evidence"
	"tallystick/internal/refusal"
)

// Totals are the numbers of seed 003 section 4 over some tasks, by its names,
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

	PolicyViolations    int64   `json:"policy_violations"`
	RollbackCount       int64   `json:"rollback_count"`
	RollbackCorrectness float64 `json:"rollback_correctness"`
	TotalCostMicro      int64   `json:"total_cost_microdollars"`
	MedianLatencyMS     int64   `json:"median_latency_ms"`
	P95LatencyMS        int64   `json:"p95_latency_ms"`
	TotalTokens         int64   `json:"total_tokens"`
	TotalRetries        int64   `json:"total_retries"`
	CostPerSolve        int64   `json:"cost_per_solve"`
	TokensPerSolve      int64   `json:"tokens_per_solve"`
	SolveRate           float64 `json:"solve_rate"`

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
}

// A Card is a scorecard.
type Card struct {
	Totals

	// EvidenceCoverage is the share of solved tasks whose evidence is there
	// unchanged, 0 if none is solved, nil if nobody looked.
	EvidenceCoverage *float64          `json:"evidence_coverage"`
	EvidenceChecked  bool              `json:"evidence_checked"`
	EvidenceMissing  []MissingEvidence `json:"evidence_missing"`

	Executions int         `json:"executions"` // case.started entries
	Abandoned  int         `json:"abandoned_executions"`
	Excluded   int         `json:"excluded_records"`
	Draws      int         `json:"judge_draws,omitempty"`   // verdicts drawn from a model
	Redraws    int         `json:"judge_redraws,omitempty"` // of these, of questions that had one
	Amendments Amendments  `json:"amendments"`
	Modes      []ModeCount `json:"failure_modes"`
	PassAtK    []PassK     `json:"pass_at_k,omitempty"`

	Acceptance Acceptance `json:"acceptance"`

	// Level is that of the weakest attempt.
	Level    Level         `json:"level"`
	Attempts []AttemptLine `json:"attempts"`
	// Siblings are the other attempts of the same classes and targets: what
	// was tried besides what is shown.
	Siblings []AttemptLine `json:"other_attempts"`
	By       Breakdown     `json:"by"`
	Ledger   LedgerLine    `json:"ledger"`

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

// Acceptance is the verdict of seed 003 section 4.1.
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
	ID           string        `json:"id"`
	Class        string        `json:"class"`
	Target       string        `json:"target"`
	Mode         string        `json:"mode"`
	Number       int           `json:"number"` // of Of attempts of this class and target
	Of           int           `json:"of"`
	PlanNumber   int           `json:"plan_number"` // of PlanOf with this very plan
	PlanOf       int           `json:"plan_of"`
	Level        Level         `json:"level"`
	Witnessed    bool          `json:"witnessed"`
	Filtered     bool          `json:"filtered"`
	Finished     bool          `json:"finished"`
	Entry        int64         `json:"entry"`
	RegisteredAt evidence.Time `json:"registered_at"`
	BenchDigest  digest.ID     `json:"bench_digest"`
	Tasks        int           `json:"tasks"`
	Executions   int           `json:"executions"`
	Abandoned    int           `json:"abandoned_executions"`
	Passed       int           `json:"passed_records"` // before anything was excluded or amended
	Excluded     int           `json:"excluded_records"`
	Draws        int           `json:"judge_draws,omitempty"`
	Redraws      int           `json:"judge_redraws,omitempty"`
	Problems     []string      `json:"problems"`
}

// A LedgerLine says what was read.
type LedgerLine struct {
	Origin  string    `json:"origin"`
	Entries int64     `json:"entries"`
	Head    digest.ID `json:"head"`
	Manual  int64     `json:"manual_entries"`
	Orphans int64     `json:"orphan_records"`
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
	// Attempts must have been kept by [Read].
	Attempts []*Attempt
	// Evidence returns nil if everything that the record names is there
	// unchanged; a refusal NotFound or DigestMismatch if not; and any other
	// error if it could not tell. Nil means that nobody looks. Several
	// goroutines call it.
	Evidence func(*Attempt, *Case) error
	// Tags gives the tags of a case that has no record. Nil gives none.
	Tags func(class, caseID string) []string
}

// maxMissing bounds the list of missing evidence.
const maxMissing = 100

// Of counts.
func Of(h *History, v View) (*Card, error) {
	c := &Card{EvidenceMissing: []MissingEvidence{}, Modes: []ModeCount{}, Siblings: []AttemptLine{}, Attempts: []AttemptLine{},
		Ledger: h.Line()}
	shown := make(map[*Attempt]bool)
	kinds := make(map[[2]string]bool)
	for i, a := range v.Attempts {
		if !a.Kept || shown[a] {
			return nil, fmt.Errorf("scorecard of attempt %s: its records were not read, or it is named twice", a.ID)
		}
		shown[a], kinds[[2]string{a.Class, a.Target}] = true, true
		c.Attempts = append(c.Attempts, lineOf(a))
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
		if !shown[a] && kinds[[2]string{a.Class, a.Target}] {
			c.Siblings = append(c.Siblings, lineOf(a))
		}
	}

	tasks := tasksOf(v.Attempts)
	c.Totals = totalsOf(tasks)
	c.PassAtK = passAtK(tasks, c.DistinctCases)
	c.countModes(tasks)
	if err := c.checkEvidence(v, tasks); err != nil {
		return nil, err
	}
	c.Acceptance = acceptance(c)
	c.By = breakdown(tasks, c.Totals, v.Tags)
	return c, nil
}

func lineOf(a *Attempt) AttemptLine {
	l := AttemptLine{ID: a.ID, Class: a.Class, Target: a.Target, Mode: a.Mode, Number: a.Ordinal, Of: a.Siblings, PlanNumber: a.PlanOrdinal, PlanOf: a.PlanSiblings,
		Level: a.Level, Witnessed: a.Witnessed, Filtered: a.Plan.Filtered, Finished: a.Finished != nil, Entry: a.Index, RegisteredAt: a.Time,
		BenchDigest: a.Plan.BenchDigest, Tasks: tasks(&a.Plan), Executions: a.Executions, Abandoned: a.Abandoned, Passed: a.Passed, Excluded: a.Excluded,
		Draws: a.Draws, Redraws: a.Redraws, Problems: append([]string{}, a.Problems...)}
	if a.Kept {
		l.Tasks = a.Tasks()
	}
	return l
}

// A task is one repetition of one planned case. Case is nil if not even its
// name is known.
type task struct {
	attempt *Attempt
	*Case
	sample uint32 // the same for tasks of one case digest
}

var noCase = &Case{Index: -1}

// tasksOf lists the tasks of attempts and finds which are of the same case.
func tasksOf(attempts []*Attempt) []task {
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
	by    hashIndex
	known []*digest.Content
}

func newSampleIndex(n int) *sampleIndex {
	x := &sampleIndex{known: make([]*digest.Content, 0, n)}
	x.by.grow(n)
	return x
}

func (x *sampleIndex) of(d *digest.Content) uint32 {
	key := binary.BigEndian.Uint64(d[:])
	if n, ok := x.by.find(key, func(at uint32) bool { return *x.known[at] == *d }); ok {
		return n
	}
	n := uint32(len(x.known))
	x.known = append(x.known, d)
	x.by.add(key, n)
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

// samplesOf puts the tasks of one case together, in the order of first sight.
func samplesOf(tasks []task) []sample {
	ids := make([]uint32, len(tasks))
	for i, t := range tasks {
		ids[i] = t.sample
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
	for _, t := range tasks {
		s := &samples[at(t.sample)]
		s.tasks++
		if t.Passed() {
			s.solved++
		}
		if t.IsScored() {
			s.scored++
			s.sum += t.EffectiveScore()
		}
	}
	return samples
}

// totalsOf counts tasks.
func totalsOf(tasks []task) Totals {
	var t Totals
	var verified int64
	latencies := make([]int64, 0, len(tasks))
	for _, k := range tasks {
		switch k.Effective() {
		case evidence.Passed:
			t.Solved++
		case NotRun:
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
		t.PolicyViolations += int64(k.Violations)
		t.RollbackCount += int64(k.Rollbacks)
		verified += int64(k.RollbacksVerified)
		t.TotalCostMicro = add(t.TotalCostMicro, k.CostMicro)
		t.TotalTokens = add(t.TotalTokens, k.Tokens)
		t.TotalRetries += int64(k.Retries) + int64(max(0, k.Started-1))
		if k.Index >= 0 {
			latencies = append(latencies, k.LatencyMS)
		}
	}
	t.TotalTasks = len(tasks)
	t.RollbackCorrectness = 1
	if t.RollbackCount > 0 {
		t.RollbackCorrectness = round(float64(verified) / float64(t.RollbackCount))
	}
	slices.Sort(latencies)
	t.MedianLatencyMS, t.P95LatencyMS = Percentile(latencies, 50), Percentile(latencies, 95)
	if t.Solved > 0 {
		t.CostPerSolve, t.TokensPerSolve = t.TotalCostMicro/int64(t.Solved), t.TotalTokens/int64(t.Solved)
	}
	t.estimate(samplesOf(tasks))
	return t
}

// add is a sum that stays at the end of the numbers instead of passing it.
func add(a, b int64) int64 {
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
}

// round cuts to six decimals, more than any of these numbers is good for, so
// that a second implementation in another language prints the same.
func round(v float64) float64 { return math.Round(v*1e6) / 1e6 }

// maxK bounds how many k are shown.
const maxK = 10

// passAtK is there when every case ran more than once.
func passAtK(tasks []task, distinct int) []PassK {
	if distinct == 0 || len(tasks) < 2*distinct {
		return nil
	}
	samples := samplesOf(tasks)
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
	modes := make(map[*[]string]int)
	for _, t := range tasks {
		if t.modes != nil {
			modes[t.modes]++
		}
		if t.Amendment != nil {
			if t.Raises() {
				c.Amendments.Ignored++
			} else if t.Effective() != t.Outcome() || t.EffectiveScore() < t.Score {
				c.Amendments.Lowered++
			}
		}
	}
	counts := make(map[string]int)
	for names, n := range modes {
		for _, name := range slices.Compact(slices.Sorted(slices.Values(*names))) {
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
	complete := 0
	for t, err := range lookedAt(v, tasks) {
		switch {
		case err == nil:
			complete++
		case !refusal.Is(err, refusal.NotFound) && !refusal.Is(err, refusal.DigestMismatch):
			return fmt.Errorf("attempt %s: case %s: reading its evidence: %w", t.attempt.ID, t.ID, err)
		case len(c.EvidenceMissing) < maxMissing:
			c.EvidenceMissing = append(c.EvidenceMissing, MissingEvidence{t.attempt.ID, t.ID, t.Index, err.Error()})
		}
	}
	coverage := 0.0
	if c.Solved > 0 {
		// Cut and not rounded: all but one of a million is not all.
		coverage = math.Floor(float64(complete)/float64(c.Solved)*1e6) / 1e6
	}
	c.EvidenceCoverage, c.missing = &coverage, c.Solved-complete
	return nil
}

// lookedAt gives the tasks that passed in order, with what is wrong with their
// evidence. Cases are looked at on all processors, a bounded number ahead.
func lookedAt(v View, tasks []task) iter.Seq2[task, error] {
	return func(yield func(task, error) bool) {
		const ahead = 1024
		errs := make([]error, min(ahead, len(tasks)))
		for some := range slices.Chunk(tasks, ahead) {
			var next atomic.Int64
			var wg sync.WaitGroup
			for range runtime.GOMAXPROCS(0) {
				wg.Go(func() {
					for i := next.Add(1) - 1; i < int64(len(some)); i = next.Add(1) - 1 {
						if t := some[i]; t.Passed() {
							errs[i] = v.Evidence(t.attempt, t.Case)
						}
					}
				})
			}
			wg.Wait()
			for i, t := range some {
				if t.Passed() && !yield(t, errs[i]) {
					return
				}
			}
		}
	}
}

// The thresholds of seed 003 section 4.1.
const (
	acceptSolveRate = 0.60
	acceptCoverage  = 1.00
	acceptRollbacks = 1.00
)

func acceptance(c *Card) Acceptance {
	violations := float64(c.PolicyViolations)
	// The rate is compared as whole numbers: 60 of 100 is enough, and no
	// rounding makes 599,999 of 1,000,000 enough.
	solved := c.TotalTasks > 0 && c.Solved*100 >= 60*c.TotalTasks
	a := Acceptance{Reasons: []string{}, Criteria: []Criterion{
		{"solve_rate", &c.SolveRate, ">=", acceptSolveRate, solved},
		{"policy_violations", &violations, "==", 0, c.PolicyViolations == 0},
		{"evidence_coverage", c.EvidenceCoverage, "==", acceptCoverage, c.EvidenceCoverage != nil && *c.EvidenceCoverage == acceptCoverage},
		{"rollback_correctness", &c.RollbackCorrectness, "==", acceptRollbacks, c.RollbackCorrectness == acceptRollbacks},
	}}
	why := []string{
		fmt.Sprintf("solve_rate is %s, needs 0.60 or more (%d of %d tasks)", short(c.SolveRate), c.Solved, c.TotalTasks),
		fmt.Sprintf("policy_violations is %d, needs 0", c.PolicyViolations),
		"evidence_coverage was not checked, needs 1.00",
		fmt.Sprintf("rollback_correctness is %s, needs 1.00 (%d rollbacks)", short(c.RollbackCorrectness), c.RollbackCount),
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

// short is a rate as people read it, with more digits where two would hide a
// difference.
func short(v float64) string {
	if s := fmt.Sprintf("%.2f", v); math.Abs(v-math.Round(v*100)/100) < 1e-9 {
		return s
	}
	return fmt.Sprintf("%.4f", v)
}

// breakdown groups the tasks by each property.
func breakdown(tasks []task, all Totals, tags func(class, caseID string) []string) Breakdown {
	ofAttempt := func(key func(*Attempt) string) []Group {
		keys := make(map[*Attempt][]string)
		return groups(tasks, all, func(t task) []string {
			if keys[t.attempt] == nil {
				keys[t.attempt] = []string{key(t.attempt)}
			}
			return keys[t.attempt]
		})
	}
	return Breakdown{
		Class:  ofAttempt(func(a *Attempt) string { return a.Class }),
		Target: ofAttempt(func(a *Attempt) string { return a.Target }),
		Week:   ofAttempt(func(a *Attempt) string { return WeekOf(a.Time.Go()) }),
		Tag: groups(tasks, all, func(t task) []string {
			if t.Index < 0 && tags != nil && t.Case != noCase {
				return tags(t.attempt.Class, t.ID)
			}
			return t.Tags()
		}),
	}
}

func groups(tasks []task, all Totals, keys func(task) []string) []Group {
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
			g.Totals = totalsOf(m)
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
