package results

import (
	"fmt"
	"hash/maphash"
	"maps"
	"math"
	"slices"

	"tallystick/internal/record/refusal"
)

// Bounds of one run, so that a hostile file cannot exhaust memory.
const (
	maxSamples = 16 << 20
	maxCells   = 2 << 20 // samples of one scorer whose attempts are kept
	maxScorers = 1024
	maxMetrics = 1 << 16
	maxChecks  = 1 << 16
	maxJudges  = 1 << 10
	maxNotes   = 100
)

// A Builder makes a [Run] of samples that come one after another.
type Builder struct {
	Run Run
	// KeepAttempts is set before the first sample by readers that reduce the
	// attempts of a sample to one value. It costs memory for each sample.
	KeepAttempts bool

	each    func(Sample) error
	seed    maphash.Seed
	rows    map[uint64]row
	again   int64 // rows that repeat one
	scorers map[string]*Totals
	judges  map[Judge]bool
	notes   map[string]int
}

// row is what is remembered of the rows with one id.
type row struct {
	n    uint32
	seen uint64 // attempts 1 to 63, as bits
}

// NewBuilder begins a run. each gets every sample, if it is not nil.
func NewBuilder(harness string, source Source, each func(Sample) error) *Builder {
	return &Builder{
		Run:  Run{Harness: harness, Source: source, Metrics: map[string]float64{}, Checks: []Check{}, Judges: []Judge{}, Files: []Source{}, Notes: []string{}},
		each: each, seed: maphash.MakeSeed(),
		rows: map[uint64]row{}, scorers: map[string]*Totals{}, judges: map[Judge]bool{}, notes: map[string]int{},
	}
}

// Add counts a sample. scope tells rows of one id apart that are not attempts
// of each other, such as an extraction filter; it is "" for most harnesses.
func (b *Builder) Add(s Sample, scope string) error {
	if b.Run.Samples++; b.Run.Samples > maxSamples {
		return refusal.Newf(refusal.TooLarge, "a run has more than %d samples", maxSamples)
	}
	switch s.State() {
	case Scored:
		b.Run.Scored++
	case Errored:
		b.Run.Errors++
	default:
		b.Run.Unscored++
	}
	key := maphash.Comparable(b.seed, [2]string{s.ID, scope})
	b.count(key, s.Attempt)
	for name, score := range s.Scores {
		t, err := b.totals(name)
		if err != nil {
			return err
		}
		t.add(key, score, b.KeepAttempts)
	}
	if b.each != nil {
		return b.each(s)
	}
	return nil
}

// count remembers a row, and notices one that is there twice.
func (b *Builder) count(key uint64, attempt int64) {
	r := b.rows[key]
	r.n++
	bit := uint64(0)
	if attempt > 0 && attempt < 64 {
		bit = 1 << attempt
	}
	if r.seen&bit != 0 {
		b.again++
	}
	r.seen |= bit
	b.rows[key] = r
	b.Run.Attempts = max(b.Run.Attempts, int64(r.n))
}

func (b *Builder) totals(name string) (*Totals, error) {
	t := b.scorers[name]
	if t == nil {
		if len(b.scorers) == maxScorers {
			return nil, refusal.Newf(refusal.TooLarge, "a run has more than %d scorers", maxScorers)
		}
		t = &Totals{}
		b.scorers[name] = t
	}
	return t, nil
}

// IDs is how many different samples there were, attempts not counted.
func (b *Builder) IDs() int64 { return int64(len(b.rows)) }

// Scorers lists who scored, in order of name.
func (b *Builder) Scorers() []string { return slices.Sorted(maps.Keys(b.scorers)) }

// Totals returns what the rows say for one scorer; it is empty for a scorer
// that no row has.
func (b *Builder) Totals(scorer string) *Totals {
	if t := b.scorers[scorer]; t != nil {
		return t
	}
	return &Totals{}
}

// State records a number that the file states.
func (b *Builder) State(scorer, metric string, value float64) error {
	if len(b.Run.Metrics) == maxMetrics {
		return refusal.Newf(refusal.TooLarge, "a run has more than %d metrics", maxMetrics)
	}
	b.Run.Metrics[MetricKey(scorer, metric)] = value
	return nil
}

// Derive records a number that follows from the rows, unless the file states it.
func (b *Builder) Derive(scorer, metric string, value float64) error {
	if _, stated := b.Run.Metrics[MetricKey(scorer, metric)]; stated {
		return nil
	}
	return b.State(scorer, metric, value)
}

// DeriveMeans records the mean of each scorer, for files that state none.
func (b *Builder) DeriveMeans() error {
	for _, name := range b.Scorers() {
		if t := b.Totals(name); t.N > 0 {
			if err := b.Derive(name, "mean", t.Mean()); err != nil {
				return err
			}
		}
	}
	return nil
}

// Judge records a judge, once.
func (b *Builder) Judge(scorer, model, prompt string) {
	j := Judge{Scorer: scorer, Model: Known(model)}
	if prompt != "" {
		t := TextOf(prompt)
		j.Prompt, j.PromptSHA256 = Known(t.Head), Known(t.SHA256)
	}
	switch {
	case b.judges[j]:
	case len(b.judges) == maxJudges:
		b.Note("judges beyond the first ones")
	default:
		b.judges[j] = true
	}
}

// Note records something of the file that has no place in a run.
func (b *Builder) Note(what string) {
	if b.notes[what] > 0 || len(b.notes) < maxNotes {
		b.notes[what]++
	}
}

// Check records a check.
func (b *Builder) Check(name string, status Status, format string, args ...any) {
	if len(b.Run.Checks) < maxChecks {
		b.Run.Checks = append(b.Run.Checks, Check{name, status, fmt.Sprintf(format, args...)})
	}
}

// CheckNumber compares a number that the file states with the one that follows
// from its rows.
func (b *Builder) CheckNumber(name string, stated, computed float64) {
	if Close(stated, computed) {
		b.Check(name, Pass, "stated %v, recomputed %v", stated, computed)
	} else {
		b.Check(name, Fail, "stated %v, recomputed %v", stated, computed)
	}
}

// CheckCount compares a count that the file states with the rows.
func (b *Builder) CheckCount(name string, stated, found int64) {
	status := Pass
	if stated != found {
		status = Fail
	}
	b.Check(name, status, "stated %d, found %d", stated, found)
}

// CheckAttempts looks for rows that are there twice, which would count twice.
func (b *Builder) CheckAttempts() {
	switch {
	case b.Run.Samples == 0:
		b.Check("attempts", Skip, "there are no rows")
	case b.again > 0:
		b.Check("attempts", Fail, "%d of %d rows repeat the id and attempt of another row", b.again, b.Run.Samples)
	default:
		b.Check("attempts", Pass, "%d rows, %d different ones, at most %d of the same", b.Run.Samples, b.IDs(), b.Run.Attempts)
	}
}

// Close reports whether two numbers are the same but for the order of additions.
func Close(a, b float64) bool {
	return math.Abs(a-b) <= 1e-9*max(1, math.Abs(a), math.Abs(b))
}

// Finish returns the run.
func (b *Builder) Finish() Run {
	b.Run.Judges = append(b.Run.Judges, slices.SortedFunc(maps.Keys(b.judges), compareJudges)...)
	for _, what := range slices.Sorted(maps.Keys(b.notes)) {
		b.Run.Notes = append(b.Run.Notes, fmt.Sprintf("%s (%d)", what, b.notes[what]))
	}
	return b.Run
}

func compareJudges(a, b Judge) int {
	return slices.Compare([]string{a.Scorer, string(a.Model), string(a.PromptSHA256)}, []string{b.Scorer, string(b.Model), string(b.PromptSHA256)})
}
