package scorecard

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"tallystick/internal/read/history"
	"tallystick/internal/read/results"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
)

// An ImportedComparison puts two runs of other harnesses side by side, sample by
// sample. Neither was observed: it says what two files say.
type ImportedComparison struct {
	Imported bool         `json:"imported"` // always: one side at least is imported, not observed
	A        ImportedLine `json:"a"`
	B        ImportedLine `json:"b"`
	Scorer   string       `json:"scorer"`

	Paired int `json:"paired"`
	OnlyA  int `json:"only_a"`
	OnlyB  int `json:"only_b"`
	// InputsDiffer counts the paired samples whose inputs are not the same text.
	InputsDiffer int   `json:"inputs_differ"`
	Flips        Flips `json:"flips"`

	McNemarP       float64    `json:"mcnemar_p"`
	Difference     float64    `json:"difference"` // of the mean solved share
	DifferenceCI95 [2]float64 `json:"difference_ci95"`

	SolveRate ChangeOf[float64]  `json:"solve_rate"`
	MeanScore *ChangeOf[float64] `json:"mean_score"` // null if no pair has a score in both
	Cases     []ImportedRow      `json:"cases"`      // those that flipped, lost ones first
}

// An ImportedLine names one side.
type ImportedLine struct {
	Harness string         `json:"harness"`
	Model   results.Known  `json:"model"`
	Task    results.Known  `json:"task"`
	Source  results.Source `json:"source"`
	// Attempt is that of this ledger, and its level, if the side is no file.
	Attempt string `json:"attempt,omitempty"`
	Level   string `json:"level,omitempty"`
}

// An ImportedRow is a sample that changed sides.
type ImportedRow struct {
	ID     string   `json:"id"`
	Change string   `json:"change"`
	A      *float64 `json:"a"` // mean score, null without one
	B      *float64 `json:"b"`
}

// An ImportedRun is a run with what a comparison needs of its samples. Give its
// Add every sample.
type ImportedRun struct {
	Run     results.Run
	Scorer  string // whose scores count; "" takes the only one
	order   []string
	samples map[string]*importedSample
	scorers map[string]bool
	attempt *history.Attempt // that stands for a run; nil of a file
}

// RunOfAttempt lets an attempt be compared with a file: its cases are the samples, by their
// ids, and its scores are of whatever scorer the file has. Corrections do not count.
func RunOfAttempt(a *history.Attempt) *ImportedRun {
	r := &ImportedRun{attempt: a, samples: map[string]*importedSample{}, scorers: map[string]bool{}}
	for c := range a.Cases() {
		x := r.samples[c.ID]
		if x == nil {
			x = &importedSample{}
			r.samples[c.ID] = x
			r.order = append(r.order, c.ID)
		}
		x.tasks++
		m := c.On(history.AsRecorded)
		if m.Passed() {
			x.solved++
		}
		if m.Scored {
			x.scored++
			x.sum += m.Score
		}
	}
	return r
}

// importedSample is one sample over its attempts.
type importedSample struct {
	tasks, solved, scored int
	sum                   float64
	input                 string
}

// maxImported bounds the samples of one side.
const maxImported = 2 << 20

// Add counts a sample of the run.
func (r *ImportedRun) Add(s results.Sample) error {
	if r.samples == nil {
		r.samples, r.scorers = map[string]*importedSample{}, map[string]bool{}
	}
	x := r.samples[s.ID]
	if x == nil {
		if len(r.samples) == maxImported {
			return refusal.Newf(refusal.TooLarge, "more than %d samples to compare", maxImported)
		}
		x = &importedSample{input: s.Input.SHA256}
		r.samples[s.ID] = x
		r.order = append(r.order, s.ID)
	}
	x.tasks++
	for name := range s.Scores {
		r.scorers[name] = true
	}
	score, ok := s.Scores[r.Scorer]
	if r.Scorer == "" && len(s.Scores) == 1 {
		for _, score = range s.Scores {
			ok = true
		}
	}
	if !ok || score.Value == nil {
		return nil
	}
	x.scored++
	x.sum += *score.Value
	// The file's own verdict, else a full score.
	if solved := *score.Value >= 1; score.Passed != nil && *score.Passed || score.Passed == nil && solved {
		x.solved++
	}
	return nil
}

// scorer refuses a choice that was not made, or is not there.
func (r *ImportedRun) scorer(other *ImportedRun) (string, error) {
	switch { // an attempt has one score
	case r.attempt != nil && other.attempt == nil:
		return other.scorer(other)
	case other.attempt != nil:
		return r.scorer(r)
	}
	var common []string
	for name := range r.scorers {
		if other.scorers[name] {
			common = append(common, name)
		}
	}
	slices.Sort(common)
	switch {
	case r.Scorer != "" && slices.Contains(common, r.Scorer):
		return r.Scorer, nil
	case r.Scorer == "" && len(r.scorers) == 1 && len(other.scorers) == 1 && len(common) == 1:
		return common[0], nil
	case len(common) == 0:
		return "", refusal.Newf(refusal.NotComparable, "no scorer has a score in both")
	}
	return "", refusal.Newf(refusal.Usage, "which scorer? --scorer takes one that both have").WithHint("they have %q", common)
}

func lineOfImport(r *ImportedRun) ImportedLine {
	if a := r.attempt; a != nil {
		return ImportedLine{Harness: "tallystick", Task: results.Known(a.Class), Attempt: a.ID, Level: a.Level.String()}
	}
	return ImportedLine{Harness: r.Run.Harness, Model: r.Run.Model, Task: r.Run.Task, Source: r.Run.Source}
}

// CompareImported pairs two runs by sample id.
func CompareImported(a, b *ImportedRun) (*ImportedComparison, error) {
	for _, x := range []*ImportedRun{a, b} {
		if x.attempt == nil {
			continue
		}
		if err := RequireAnswered(x.attempt); err != nil {
			return nil, err
		}
	}
	scorer, err := a.scorer(b)
	if err != nil {
		return nil, err
	}
	c := &ImportedComparison{Imported: true, A: lineOfImport(a), B: lineOfImport(b), Scorer: scorer, Cases: []ImportedRow{}}
	var differences []float64
	var scores ChangeOf[float64]
	scored := 0
	for _, id := range a.order {
		x, y := a.samples[id], b.samples[id]
		if y == nil {
			c.OnlyA++
			continue
		}
		c.Paired++
		if x.input != "" && y.input != "" && x.input != y.input {
			c.InputsDiffer++
		}
		p, q := float64(x.solved)/float64(x.tasks), float64(y.solved)/float64(y.tasks)
		c.SolveRate.A, c.SolveRate.B = c.SolveRate.A+p, c.SolveRate.B+q
		differences = append(differences, q-p)
		if x.scored > 0 && y.scored > 0 {
			scored++
			scores.A, scores.B = scores.A+*x.mean(), scores.B+*y.mean()
		}
		c.flip(id, x, y, p, q)
	}
	c.OnlyB = len(b.order) - c.Paired
	if c.Paired == 0 {
		return nil, refusal.Newf(refusal.NotComparable, "no sample of one has an id of the other").WithHint("they are of other tasks, or number their samples in another way")
	}
	c.finish(differences, scores, scored)
	return c, nil
}

func (x *importedSample) mean() *float64 {
	if x.scored == 0 {
		return nil
	}
	m := x.sum / float64(x.scored)
	return &m
}

func (c *ImportedComparison) flip(id string, x, y *importedSample, p, q float64) {
	change := ""
	switch won, had := 2*q > 1, 2*p > 1; {
	case won && !had:
		change = Gained
		c.Flips.Gained++
	case had && !won:
		change = Lost
		c.Flips.Lost++
	default:
		return
	}
	c.Cases = append(c.Cases, ImportedRow{id, change, x.mean(), y.mean()})
}

func (c *ImportedComparison) finish(differences []float64, scores ChangeOf[float64], scored int) {
	n := float64(c.Paired)
	c.SolveRate.A, c.SolveRate.B = c.SolveRate.A/n, c.SolveRate.B/n
	c.SolveRate.Change = c.SolveRate.B - c.SolveRate.A
	c.Difference = Mean(differences)
	c.DifferenceCI95[0], c.DifferenceCI95[1] = PairedBootstrap(differences, 1)
	c.McNemarP = McNemar(c.Flips.Gained, c.Flips.Lost)
	if scored > 0 {
		scores.A, scores.B = scores.A/float64(scored), scores.B/float64(scored)
		scores.Change = scores.B - scores.A
		c.MeanScore = &scores
	}
	slices.SortStableFunc(c.Cases, func(x, y ImportedRow) int { return cmp.Compare(rank(x.Change), rank(y.Change)) })
}

// Print tells the comparison to a person.
func (c *ImportedComparison) Print(out io.Writer) {
	if c.A.Attempt+c.B.Attempt == "" {
		fmt.Fprintln(out, "IMPORTED, not observed: these are the numbers of two files")
	} else {
		fmt.Fprintln(out, "IMPORTED, not observed: one side is what a file says; cases are paired by id, and that they ask the same is not known")
	}
	for _, side := range []struct {
		name string
		line ImportedLine
	}{{"A", c.A}, {"B", c.B}} {
		l := side.line
		if l.Attempt != "" {
			fmt.Fprintf(out, "%s  attempt %s: %s, %s\n", side.name, plain.Line(l.Attempt), plain.Line(string(l.Task)), l.Level)
			continue
		}
		fmt.Fprintf(out, "%s  %s: %s on %s  %s\n", side.name, plain.Line(l.Harness), plain.Line(string(l.Model)), plain.Line(string(l.Task)), plain.Line(l.Source.Path))
	}
	fmt.Fprintf(out, "paired      %d samples by %s; %d only in A, %d only in B\n", c.Paired, plain.Line(c.Scorer), c.OnlyA, c.OnlyB)
	if c.InputsDiffer > 0 {
		fmt.Fprintf(out, "CAREFUL     %d of them were not asked the same\n", c.InputsDiffer)
	}
	fmt.Fprintf(out, "flips       %d gained, %d lost; McNemar p = %.4g\n", c.Flips.Gained, c.Flips.Lost, c.McNemarP)
	fmt.Fprintf(out, "solve rate  %s to %s: %+.4f  [%+.4f, %+.4f] at 95 %%\n", plain.Score(c.SolveRate.A, 4), plain.Score(c.SolveRate.B, 4), c.Difference, c.DifferenceCI95[0], c.DifferenceCI95[1])
	if m := c.MeanScore; m != nil {
		fmt.Fprintf(out, "mean score  %s to %s: %+.4f\n", plain.Score(m.A, 4), plain.Score(m.B, 4), m.Change)
	}
	for _, x := range c.Cases {
		fmt.Fprintf(out, "%-8s    %s\n", x.Change, plain.Line(x.ID))
	}
}
