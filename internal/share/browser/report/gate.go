package report

import (
	"encoding/json"
	"fmt"
	"html"
	"math"
	"slices"
	"strings"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/cost"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/run/vantage"
	"tallystick/internal/share/browser"
)

// What a report says of the gates of a class. It is computed from the verified records
// and from the registration whose digest the sealed plan names, here and by report_gate.js
// alike, and it is what package gate decides, or [NotTold]. That package reads a whole
// workspace and cannot stand in a stranger's verifier, so this is a second reading of
// docs/formats/gate.md; "tally export" refuses a report that says otherwise than it.

// The states of a gate and of an attempt.
const (
	Met        = "met"
	NotMet     = "not met"
	NotDecided = "not decided"
	// NotTold says that the file does not hold what decides.
	NotTold = "not told"
)

// A Verdict is whether an attempt is good enough, by the evidence in its report.
type Verdict struct {
	State  string
	Reason string
	// Recorded is the state by the recorded scores alone, "" if that is State.
	Recorded string
	Results  []GateResult
}

// A GateResult is what became of one gate.
type GateResult struct{ Gate, State, Found string }

// registration is what of registration.yaml a verdict needs.
type registration struct {
	Class string     `json:"class"`
	Gates []gateRule `json:"gates"`
}

type gateRule struct {
	Tag         string          `json:"tag"`
	Metric      string          `json:"metric"`
	Threshold   json.RawMessage `json:"threshold"` // as it is spelled
	MaxErrors   int             `json:"max_errors"`
	MaxUnscored int             `json:"max_unscored"`
}

// atMost are the metrics whose threshold is the most that is allowed.
var atMost = []string{"cost_per_solve", "median_latency_ms", "p95_latency_ms", "policy_violations"}

func (g *gateRule) text() string {
	cases, limit := "tag "+g.Tag, "at least "
	if g.Tag == "*" {
		cases = "all cases"
	}
	if slices.Contains(atMost, g.Metric) {
		limit = "at most "
	}
	return g.Metric + " of " + cases + " " + limit + string(g.Threshold)
}

// A task is a planned repetition of a case that has a record, with the mark that counts.
type task struct {
	*evidence.CaseScored
	outcome evidence.Outcome
	scored  bool
	score   float64
}

// Verdict is what the data of a report says of the gates.
func (d *Data) Verdict() (*Verdict, error) {
	p, err := d.take()
	if err != nil {
		return nil, err
	}
	return d.verdict(p)
}

func (d *Data) verdict(p *parts) (*Verdict, error) {
	reg, err := d.registered(p)
	if err != nil {
		return nil, err
	}
	if d.Elsewhere {
		return &Verdict{State: NotTold, Reason: "the evidence in this file does not decide; “tally gate” does"}, nil
	}
	v := p.decide(reg, p.tasks(true))
	if recorded := p.decide(reg, p.tasks(false)); recorded.State != v.State {
		v.Recorded = recorded.State
	}
	return v, nil
}

// registered is the registration that the plan of the attempt names, nil if the report
// does not have it.
func (d *Data) registered(p *parts) (*registration, error) {
	if d.Registration == "" {
		return nil, nil
	}
	r, reg := p.registered.body.(*evidence.AttemptRegistered), &registration{}
	if digest.ContentOf([]byte(d.Registration)) != r.Plan.RegistrationDigest {
		return nil, fmt.Errorf("the registration is not the one that the plan names")
	}
	var doc canon.RawMessage
	if err := canon.UnmarshalCanonical([]byte(d.Registration), &doc); err != nil {
		return nil, fmt.Errorf("the registration: %w", err)
	}
	if err := json.Unmarshal(doc, reg); err != nil || reg.Class != r.Class {
		return nil, fmt.Errorf("the registration is not one of class %s", r.Class)
	}
	return reg, nil
}

// tasks are the records, with what was set beside them or without it.
func (p *parts) tasks(corrected bool) []task {
	var all []task
	for _, x := range p.records {
		b := x.body.(*evidence.CaseScored)
		t := task{CaseScored: b, outcome: b.Outcome, scored: b.Score != nil && (b.Outcome == evidence.Passed || b.Outcome == evidence.Failed)}
		if t.scored {
			t.score = b.Score.Score
		}
		if corrected {
			p.correct(&t, x.index)
		}
		all = append(all, t)
	}
	return all
}

// correct sets the mark of a task to what was set beside its record: the last correction
// counts, and an amendment lowers, or gives an unscored record its first score. The report
// has the last correction of a record only, and in the order of the ledger.
func (p *parts) correct(t *task, index int64) {
	for _, x := range p.beside {
		switch b := x.body.(type) {
		case *evidence.ScoreCorrected:
			if b.Entry == index && t.scored {
				t.outcome, t.score = passedOutcome(b.Now.Passed), b.Now.Score
			}
		case *evidence.ScoreAmended:
			switch {
			case b.Entry != index:
			case t.scored:
				t.outcome, t.score = passedOutcome(t.outcome == evidence.Passed && b.Score.Passed), min(t.score, b.Score.Score)
			case t.outcome == evidence.Unscored && b.Fills:
				t.outcome, t.scored, t.score = passedOutcome(b.Score.Passed), true, b.Score.Score
			}
		}
	}
}

func passedOutcome(passed bool) evidence.Outcome {
	if passed {
		return evidence.Passed
	}
	return evidence.Failed
}

func told(state, reason string) *Verdict { return &Verdict{State: state, Reason: reason} }

// decide is the verdict over some tasks. Gates are for the whole class: an attempt that
// left cases out, or may have, meets none.
func (p *parts) decide(reg *registration, tasks []task) *Verdict {
	plan := &p.registered.body.(*evidence.AttemptRegistered).Plan
	planned := plan.CaseCount * max(plan.Repeat, 1)
	switch {
	case p.finished == nil:
		return told(NotDecided, "the attempt is not finished")
	case p.finished.body.(*evidence.AttemptFinished).Unanswered > 0:
		return told(NotDecided, fmt.Sprintf("%d of %d cases ask something new, which is not recorded", p.finished.body.(*evidence.AttemptFinished).Unanswered, planned))
	case reg == nil:
		return told(NotDecided, "the registration that the attempt ran under is not in this file, because the bench has changed since")
	case !p.whole(planned):
		return told(NotTold, "this file does not have every record of the attempt; “tally gate” decides")
	case plan.Reduce != "" || plan.StopEarly != nil:
		return told(NotTold, "the plan puts repetitions together or stops early, which this file does not compute; “tally gate” decides")
	}
	v := &Verdict{}
	for _, g := range reg.Gates {
		v.Results = append(v.Results, g.result(tasks, plan.Filtered))
	}
	if r := uncovered(reg, tasks, plan.Filtered); r != nil {
		v.Results = append(v.Results, *r)
	}
	passed := 0
	for _, t := range tasks {
		if t.outcome == evidence.Passed {
			passed++
		}
	}
	all := passed == planned && planned > 0
	switch {
	case plan.Filtered:
		v.filtered(reg, tasks, all, fmt.Sprintf("%d of %d selected tasks passed", passed, planned))
	case len(v.Results) == 0:
		v.State, v.Reason = NotMet, fmt.Sprintf("%d of %d tasks passed; the class has no gates", passed, planned)
		if all {
			v.State = Met
		}
	default:
		met := 0
		for _, r := range v.Results {
			if r.State == Met {
				met++
			}
		}
		v.State, v.Reason = together(v.Results), fmt.Sprintf("%d of %d gates are met", met, len(v.Results))
	}
	return v
}

// filtered is the verdict of an attempt with a filter: its gates are broken already, or
// what it selected is not good enough by itself, or nothing is decided.
func (v *Verdict) filtered(reg *registration, tasks []task, all bool, reason string) {
	v.State, v.Reason = together(v.Results), reason
	if v.State == NotMet {
		return
	}
	v.State = NotMet
	var alone []GateResult
	for _, g := range reg.Gates {
		if r := g.result(tasks, false); !g.absent(tasks) {
			alone = append(alone, r)
		}
	}
	if r := uncovered(&registration{Gates: slices.DeleteFunc(slices.Clone(reg.Gates), func(g gateRule) bool { return g.absent(tasks) })}, tasks, false); len(reg.Gates) > 0 && r != nil {
		alone = append(alone, *r)
	}
	switch kept := together(alone); {
	case all, len(alone) > 0 && kept == Met:
		v.State = NotDecided
		v.Reason += "; the gates are for the whole class and are not decided, because the attempt was filtered"
	case kept == NotTold:
		v.State = NotTold
	}
}

// whole reports whether the report has every record that the attempt has, and the attempt
// one of everything that it planned.
func (p *parts) whole(planned int) bool {
	type task struct {
		id     string
		repeat int
	}
	seen := map[task]bool{}
	counts := map[evidence.Outcome]int{}
	for _, x := range p.records {
		b := x.body.(*evidence.CaseScored)
		seen[task{b.CaseID, b.Repeat}] = true
		counts[b.Outcome]++
	}
	for o, n := range p.finished.body.(*evidence.AttemptFinished).Outcomes {
		if counts[o] != n {
			return false
		}
	}
	return len(p.records) == planned && len(seen) == planned
}

// together is the state of several results: one that is missed decides.
func together(results []GateResult) string {
	for _, state := range []string{NotMet, NotTold, NotDecided} {
		if slices.ContainsFunc(results, func(r GateResult) bool { return r.State == state }) {
			return state
		}
	}
	return Met
}

func (g *gateRule) has(t task) bool { return g.Tag == "*" || slices.Contains(t.Tags, g.Tag) }

func (g *gateRule) absent(tasks []task) bool { return !slices.ContainsFunc(tasks, g.has) }

// broken counts the tasks that errored or were truncated, and those without a score.
func broken(tasks []task) (errors, unscored int) {
	for _, t := range tasks {
		switch t.outcome {
		case evidence.Passed, evidence.Failed, evidence.Skipped:
		case evidence.Unscored:
			unscored++
		default:
			errors++
		}
	}
	return errors, unscored
}

// uncovered is a result if tasks that no gate is about broke or have no score.
func uncovered(reg *registration, tasks []task, filtered bool) *GateResult {
	if len(reg.Gates) == 0 && !filtered {
		return nil
	}
	left := slices.DeleteFunc(slices.Clone(tasks), func(t task) bool {
		return slices.ContainsFunc(reg.Gates, func(g gateRule) bool { return g.has(t) })
	})
	errors, unscored := broken(left)
	all := slices.ContainsFunc(reg.Gates, func(g gateRule) bool { return g.Tag == "*" })
	switch {
	case len(reg.Gates) > 0 && errors+unscored > 0:
		return &GateResult{"cases that no gate is about", NotMet, tooMany(errors, unscored)}
	case filtered && !all:
		return &GateResult{"cases that no gate is about", NotDecided, "the attempt was filtered"}
	}
	return nil
}

func tooMany(errors, unscored int) string {
	return fmt.Sprintf("%d tasks errored or were truncated, %d have no score", errors, unscored)
}

// result is what became of a gate. Of a filtered attempt it is not decided, unless what
// ran is enough to break it.
func (g gateRule) result(all []task, filtered bool) GateResult {
	r := GateResult{g.text(), NotMet, ""}
	tasks := slices.DeleteFunc(slices.Clone(all), func(t task) bool { return !g.has(t) })
	if len(tasks) == 0 {
		if r.Found = "no case of the attempt has this tag"; filtered {
			r.State = NotDecided
		}
		return r
	}
	errors, unscored := broken(tasks)
	over := errors > g.MaxErrors || unscored > g.MaxUnscored
	var threshold float64
	if json.Unmarshal(g.Threshold, &threshold) != nil {
		return r
	}
	if filtered {
		r.Found = "the attempt was filtered"
		switch n := violations(tasks); {
		case over:
			r.Found = tooMany(errors, unscored)
		case g.Metric == "policy_violations" && float64(n) > threshold:
			r.Found = fmt.Sprintf("it is %d", n)
		default:
			r.State = NotDecided
		}
		return r
	}
	if !slices.ContainsFunc(tasks, func(t task) bool { return t.scored }) {
		r.Found = "no case has a score"
		return r
	}
	if n := unseen(g.Metric, tasks); n > 0 {
		r.Found = fmt.Sprintf("it cannot be seen of %d tasks", n)
		return r
	}
	value, shown, known := measure(g.Metric, tasks)
	switch {
	case over: // whatever its value
		if r.Found = tooMany(errors, unscored); shown != "" && known {
			r.Found = shown + "; " + r.Found
		}
		return r
	case !known && shown == "":
		return GateResult{r.Gate, NotTold, "this file does not compute it"}
	case !known:
		r.Found = shown
		return r
	}
	met := value >= threshold
	if slices.Contains(atMost, g.Metric) {
		met = value <= threshold
	}
	if r.Found = shown; met {
		r.State = Met
	}
	return r
}

// unseen counts the tasks of which a metric cannot all be seen, by the table of package
// vantage, which report_gate.js has too.
func unseen(metric string, tasks []task) int {
	n := 0
	for _, t := range tasks {
		if vantage.Vantage(t.Vantage).SeesName(vantage.Metric, metric).Sight != vantage.Seen {
			n++
		}
	}
	return n
}

func violations(tasks []task) int {
	n := 0
	for _, t := range tasks {
		n += t.Policy.Violations
	}
	return n
}

// measure computes a metric and shows it. Where it is not known, shown says why; where
// the report does not compute it, shown is "".
func measure(metric string, tasks []task) (value float64, shown string, known bool) {
	solved, spent := 0, cost.Cost{}
	var scores, latencies []float64
	rollbacks, verified := 0, 0
	for _, t := range tasks {
		if t.outcome == evidence.Passed {
			solved++
		}
		if t.scored {
			scores = append(scores, t.score)
		}
		spent = spent.Plus(t.Cost())
		latencies = append(latencies, float64(t.FinishedAt.Go().Sub(t.StartedAt.Go()).Milliseconds()))
		rollbacks, verified = rollbacks+t.Policy.Rollbacks, verified+t.Policy.RollbacksVerified
	}
	slices.Sort(latencies)
	fraction := func(x float64) (float64, string, bool) { return x, "it is " + browser.Number(x), true }
	count := func(x float64) (float64, string, bool) { return x, fmt.Sprintf("it is %d", int64(x)), true }
	at := func(p int) float64 { return latencies[min(p*len(latencies)/100, len(latencies)-1)] }
	switch metric {
	case "solve_rate":
		return fraction(float64(solved) / float64(len(tasks)))
	case "mean_score":
		return fraction(mean(scores))
	case "lower_bound_95":
		lower, ok := lowerBound(perCase(tasks))
		if !ok {
			return 0, "", false
		}
		return fraction(lower)
	case "cost_per_solve":
		switch {
		case solved == 0:
			return 0, "no case was solved", false
		case !spent.Known():
			return 0, "the cost is not known", false
		}
		return fraction(float64(spent.MicroUSD) / float64(solved))
	case "median_latency_ms":
		return count(at(50))
	case "p95_latency_ms":
		return count(at(95))
	case "policy_violations":
		return count(float64(violations(tasks)))
	case "rollback_correctness":
		if rollbacks == 0 {
			return fraction(1)
		}
		return fraction(sixDecimals(float64(verified) / float64(rollbacks)))
	}
	return 0, "", false
}

// sixDecimals is how package scorecard rounds: what is below 1 stays below it.
func sixDecimals(v float64) float64 {
	if r := math.Floor(float64(v*1e6)+0.5) / 1e6; r < 1 || v >= 1 {
		return r
	}
	return 0.999999
}

// mean adds in the order of size, so that it is the same sum everywhere.
func mean(values []float64) float64 {
	sorted, sum := slices.Clone(values), 0.0
	slices.Sort(sorted)
	for _, v := range sorted {
		sum += v
	}
	return sum / float64(len(sorted))
}

// perCase is one score for each distinct case that has any.
func perCase(tasks []task) []float64 {
	groups := map[digest.Content][]float64{}
	var order []digest.Content
	for _, t := range tasks {
		if !t.scored {
			continue
		}
		if groups[t.CaseDigest] == nil {
			order = append(order, t.CaseDigest)
		}
		groups[t.CaseDigest] = append(groups[t.CaseDigest], t.score)
	}
	var all []float64
	for _, d := range order {
		all = append(all, mean(groups[d]))
	}
	return all
}

// lowerBound is the lower end of the 95 percent interval of a mean where it needs no
// resampling: of fewer than five cases, and of scores that are all equal.
func lowerBound(values []float64) (lower float64, ok bool) {
	if len(values) < 5 {
		return 0, true
	}
	if slices.Min(values) != slices.Max(values) {
		return 0, false
	}
	lower, _ = browser.Wilson(values[0], float64(len(values)))
	return lower, true
}

// marks are how states look and read.
var marks = map[string][2]string{Met: {"passed", "Met"}, NotMet: {"failed", "Not met"}, NotDecided: {"unscored", "Not decided"}, NotTold: {"unscored", "Not told here"}}

// mark writes a state. One that only holds with corrections is neither green nor red.
func (w *writer) mark(state, title string, plain bool) {
	look := marks[state]
	if !plain {
		look[0] = "unscored"
	}
	w.add(`<span class="state `, look[0], `"`)
	if title != "" {
		w.add(` title="`, html.EscapeString(browser.Text(title)), `"`)
	}
	w.add(">", look[1], "</span>")
}

// gates lists what became of each gate, and what that rests on.
func (w *writer) gates(v *Verdict) {
	w.add("<h2>Gate</h2>\n<p>")
	w.text(sentence(v.Reason))
	w.add(" ", gateBasis, "</p>\n")
	if v.Recorded != "" {
		w.add(`<p class="note">This counts the scores beside the records. By the recorded scores alone it is: `, v.Recorded, ".</p>\n")
	}
	if len(v.Results) == 0 {
		return
	}
	w.add("<ul class=\"gates\">\n")
	for _, r := range v.Results {
		w.add("<li>")
		w.mark(r.State, "", true)
		w.add(" ")
		w.text(r.Gate + ": " + r.Found)
		w.add("</li>\n")
	}
	w.add("</ul>\n")
}

const gateBasis = "Computed from the records in this file and from the registration whose digest the sealed plan names, in this browser too."

// sentence is a reason as a sentence.
func sentence(s string) string { return strings.ToUpper(s[:1]) + s[1:] + "." }
