package lab

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"tallystick/internal/read/recount"
	"tallystick/internal/record/cost"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/cassette"
)

// An Estimate is what it would cost to answer some cases, and how that is known.
type Estimate struct {
	Cost     cost.Cost
	Recorded int // cases that were recorded before, by this target or another
	ByMean   int // cases that were not, counted with the mean of these
	Unknown  int // cases of which nothing is known
	Most     int64
}

// most of a cassette that is read for an estimate.
const maxEstimated = 64 << 20

// Estimate says what it would cost to answer cases.
func (s *Setup) Estimate(cases []string) Estimate {
	var e Estimate
	var known []string
	ids := slices.Compact(slices.Sorted(slices.Values(cases)))
	for _, id := range ids {
		if c, ok := s.lastCost(id); ok {
			e.Cost = e.Cost.Plus(c)
			known = append(known, id)
		}
	}
	e.Recorded, e.Unknown = len(known), len(ids)-len(known)
	if mean, ok := s.meanCost(e.Cost, e.Recorded); ok && e.Unknown > 0 {
		e.Cost, e.ByMean, e.Unknown = e.Cost.Plus(cost.Of(mean*int64(e.Unknown), 0)), e.Unknown, 0
	}
	e.Most = s.Bench.Registration().Limits.CostMicroUSD * int64(len(ids))
	return e
}

// lastCost is what a case cost when it was recorded: for this target, else for another.
func (s *Setup) lastCost(id string) (cost.Cost, bool) {
	own := s.place.Path(filepath.FromSlash(bench.CassetteFile(s.Bench.Class(), s.Target.Name, id)))
	others, _ := filepath.Glob(filepath.Join(filepath.Dir(filepath.Dir(own)), "*", filepath.Base(own)))
	for _, file := range append([]string{own}, others...) {
		if c, ok := costIn(file); ok {
			return c, true
		}
	}
	return cost.Cost{}, false
}

// meanCost is that of the cases that are known, or of what the class has recorded.
func (s *Setup) meanCost(sum cost.Cost, n int) (int64, bool) {
	if n > 0 {
		return sum.MicroUSD / int64(n), sum.Unpriced == 0
	}
	at := s.place.Path(filepath.FromSlash(bench.CassetteFile(s.Bench.Class(), s.Target.Name, "*")))
	files, _ := filepath.Glob(filepath.Join(filepath.Dir(filepath.Dir(at)), "*", filepath.Base(at)))
	const enough = 50
	for _, file := range files[:min(enough, len(files))] {
		if c, ok := costIn(file); ok {
			sum, n = sum.Plus(c), n+1
		}
	}
	if n == 0 {
		sum, n = s.costBefore()
	}
	return sum.MicroUSD / int64(max(1, n)), n > 0 && sum.Unpriced == 0
}

// costBefore is the cost of the newest attempt of the class in which models answered, and
// of how many cases: what was paid then, or what the replies that were used again had cost.
func (s *Setup) costBefore() (cost.Cost, int) {
	if s.place.Reading == nil {
		return cost.Cost{}, 0
	}
	for _, a := range slices.Backward(s.place.Reading.History.Attempts) {
		end := a.Finished
		if a.Class == s.Bench.Class() && end != nil && end.CostMicroUSD > 0 && end.Unpriced != nil {
			return cost.Of(end.CostMicroUSD, *end.Unpriced), a.Records - end.Unanswered
		}
	}
	return cost.Cost{}, 0
}

// costIn is what the calls of a cassette cost when they were made.
func costIn(file string) (cost.Cost, bool) {
	data, err := store.ReadFile(store.OS{}, file, maxEstimated)
	if err != nil {
		return cost.Cost{}, false
	}
	c, err := cassette.Parse(data, cassette.Limits{})
	if err != nil || c.Header.Provenance == cassette.Authored || c.Header.Totals.ModelCalls == 0 {
		return cost.Cost{}, false
	}
	return cost.Of(c.Header.Totals.CostMicrodollars, c.Header.Totals.UnpricedCalls), true
}

// Text is the estimate in words: "about $0.12 (12 cases by their last recording, 2 by
// the mean of these)".
func (e *Estimate) Text() string {
	var how []string
	for _, x := range []struct {
		n    int
		text string
	}{{e.Recorded, "by the last recording"}, {e.ByMean, "by the mean of the class"}, {e.Unknown, "of unknown cost"}} {
		if x.n > 0 {
			how = append(how, plain.Plural(x.n, "case")+" "+x.text)
		}
	}
	made := " (" + strings.Join(how, ", ") + ")"
	amount := plain.Dollars(e.Cost.MicroUSD)
	switch {
	case e.Recorded+e.ByMean == 0 && e.Most > 0:
		return "at most " + plain.Dollars(e.Most) + ", the class's limit for these cases" + made
	case e.Recorded+e.ByMean == 0:
		return "an amount that is not known" + made
	case e.Cost.Unpriced > 0:
		return fmt.Sprintf("at least %s, and %s of unknown price%s", amount, plain.Plural(int(e.Cost.Unpriced), "call"), made)
	case e.Unknown > 0:
		return "at least " + amount + made
	}
	return "about " + amount + made
}

// Missing says what it would take to answer the cases of an attempt that were not.
// Command is the run as it was typed; anywhere says that it must work without a terminal.
func (s *Setup) Missing(cases, failed []string, command string, anywhere bool) *recount.Missing {
	e := s.Estimate(cases)
	m := &recount.Missing{Cases: cases, Failed: append([]string{}, failed...), Command: command + " --live", UnknownCases: e.Unknown, Estimate: e.Text()}
	if anywhere {
		most := e.Most
		if most == 0 {
			most = 1_000_000
		}
		m.Command += fmt.Sprintf(" --max-cost %s", strings.TrimPrefix(plain.Dollars(most), "$"))
	}
	if e.Recorded+e.ByMean > 0 {
		m.EstimateUSD = new(float64(e.Cost.MicroUSD) / 1e6)
	}
	return m
}

// Ahead tells, between the two passes of a run, what asking will cost. Under a permission
// of which less is left, nothing is asked.
func (l *live) Ahead(cases []string, of int) error {
	e := l.s.Estimate(cases)
	p := l.s.permission
	if p != nil && e.Cost.MicroUSD > p.Today.MicroUSD && p.Today.MicroUSD >= 0 && e.Recorded > 0 {
		err := refusal.Newf(refusal.NotAnswered, "%d of %d cases ask something new, which costs %s, and %s; nothing is asked", len(cases), of, e.Text(), p.Text())
		l.s.place.Note("%v", err)
		return err
	}
	l.s.place.Note("%d of %d cases ask something new; asking them costs %s", len(cases), of, e.Text())
	return nil
}
