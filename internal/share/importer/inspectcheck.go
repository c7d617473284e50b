package importer

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"tallystick/internal/read/results"
)

// finish states what the header says and compares it with the rows.
func (l *inspectLog) finish() error {
	b := l.run
	b.Run.Task, b.Run.Model, b.Run.HarnessVersion = results.Known(l.task), results.Known(l.model), results.Known(l.version)
	if b.Run.StartedAt = results.Moment(l.started); b.Run.StartedAt == "" {
		b.Run.StartedAt = results.Moment(l.created)
	}
	if l.status != "" && l.status != "success" {
		b.Note("the log's status is " + l.status)
	}
	if l.failed != "" {
		b.Note("the run ended in an error: " + l.failed)
	}
	if l.edited > 0 {
		b.Note("scores that were edited after the run")
	}
	l.judges()
	if b.session.opt.Setup {
		if err := l.how.Fill(&b.Run, l.epochs, l.planned); err != nil {
			return err
		}
	}

	entries := inspectEntries(l.results)
	for _, e := range entries {
		if err := l.state(e); err != nil {
			return err
		}
	}
	if len(entries) == 0 {
		why := "the header has no results"
		if !l.header {
			why = "the log has no results: the run did not finish"
		}
		b.Check("means", results.Skip, "%s; the metrics are means of the rows", why)
		if err := b.DeriveMeans(); err != nil {
			return err
		}
	}
	for _, e := range entries {
		l.check(e)
	}
	l.counts()
	b.CheckAttempts()
	return nil
}

// An inspectEntry is what the header says for one scorer and reducer.
type inspectEntry struct {
	name, scorer, reducer string
	several               bool // reducers for one name
	metrics               map[string]any
	scored, unscored      *int64
	params                any
}

// inspectEntries reads both generations: results.scores, and before it
// results.scorer with results.metrics.
func inspectEntries(header any) []inspectEntry {
	var entries []inspectEntry
	if metrics, ok := member(header, "metrics").(map[string]any); ok {
		name := textOf(member(header, "scorer", "name"))
		if name == "" {
			name = "score"
		}
		entries = append(entries, inspectEntry{name: name, scorer: name, metrics: metrics, params: member(header, "scorer", "params")})
	}
	for _, score := range listOf(member(header, "scores")) {
		e := inspectEntry{name: textOf(member(score, "name")), scorer: textOf(member(score, "scorer")), reducer: textOf(member(score, "reducer")), params: member(score, "params")}
		e.metrics, _ = member(score, "metrics").(map[string]any)
		if n, ok := intOf(member(score, "scored_samples")); ok {
			e.scored = &n
		}
		if n, ok := intOf(member(score, "unscored_samples")); ok {
			e.unscored = &n
		}
		entries = append(entries, e)
	}
	for i := range entries {
		for j := range entries {
			if i != j && entries[i].name == entries[j].name && entries[i].scorer == entries[j].scorer {
				entries[i].several = true
			}
		}
	}
	return entries
}

// shown is the scorer in the names of metrics. With several reducers the name
// alone would say two things.
func (e inspectEntry) shown() string {
	if e.several && e.reducer != "" {
		return e.name + "@" + e.reducer
	}
	return e.name
}

func (l *inspectLog) state(e inspectEntry) error {
	for _, key := range slices.Sorted(maps.Keys(e.metrics)) {
		v, err := floatOf(metricValue(e.metrics[key]))
		if err != nil {
			return fmt.Errorf("%s/%s: %w", e.name, key, err)
		}
		if v == nil {
			l.run.Note("a metric without a number: " + results.MetricKey(e.shown(), key))
			continue
		}
		if err := l.run.State(e.shown(), key, *v); err != nil {
			return err
		}
	}
	return nil
}

// metricValue is metric.value; very old logs have the number itself.
func metricValue(m any) any {
	if v, ok := m.(map[string]any); ok {
		return v["value"]
	}
	return m
}

// rows are the samples' values of an entry, reduced over epochs.
func (l *inspectLog) rows(e inspectEntry) (t *results.Totals, whyNot string) {
	t = l.run.Totals(e.name)
	if t.N == 0 && e.scorer != e.name {
		t = l.run.Totals(e.scorer + "/" + e.name) // one part of a score with several
	}
	if t.N == 0 {
		return nil, "no row has a score of " + e.name
	}
	reducer := e.reducer
	if reducer == "" && len(l.reducers) > 0 {
		reducer = l.reducers[0]
	}
	if l.run.Run.Attempts <= 1 && (reducer == "" || reducer == "mean" || reducer == "median" || reducer == "mode" || reducer == "max") {
		return t, ""
	}
	if !t.Kept() {
		return nil, "the epochs of so many samples are not kept"
	}
	kind, k := reducer, 0
	if i := strings.LastIndexByte(reducer, '_'); i >= 0 {
		if n, err := strconv.Atoi(reducer[i+1:]); err == nil {
			kind, k = reducer[:i], n
		}
	}
	switch {
	case kind == "" || kind == "mean":
		return results.Of(t.Means()), ""
	case kind == "max":
		return results.Of(t.Mosts()), ""
	case kind == "pass_at" && k > 0:
		if t.FewestAttempts() < int64(k) {
			return nil, fmt.Sprintf("a sample has fewer than %d epochs", k)
		}
		return results.Of(t.PassAtK(k)), ""
	case kind == "at_least" && k > 0:
		return results.Of(t.AtLeast(k)), ""
	}
	return nil, "the reducer " + reducer + " is not recomputed"
}

// check recomputes the metrics of an entry.
func (l *inspectLog) check(e inspectEntry) {
	b := l.run
	rows, whyNot := l.rows(e)
	for _, key := range slices.Sorted(maps.Keys(e.metrics)) {
		name := "metric " + results.MetricKey(e.shown(), key)
		stated, err := floatOf(metricValue(e.metrics[key]))
		if err != nil || stated == nil {
			b.Check(name, results.Skip, "the header has no number")
			continue
		}
		if rows == nil {
			b.Check(name, results.Skip, "%s", whyNot)
			continue
		}
		switch key {
		case "accuracy", "mean":
			b.CheckNumber(name, *stated, rows.Mean())
		case "stderr":
			b.CheckNumber(name, *stated, rows.StandardError())
		case "std":
			b.CheckNumber(name, *stated, rows.StandardDeviation())
		case "var":
			b.CheckNumber(name, *stated, math.Pow(rows.StandardDeviation(), 2))
		default:
			b.Check(name, results.Skip, "the metric %s is not recomputed", key)
		}
	}
	if rows == nil {
		return
	}
	if e.scored != nil {
		b.CheckCount("scored samples of "+e.shown(), *e.scored, rows.N)
	}
}

// counts compares how many rows there should be.
func (l *inspectLog) counts() {
	b := l.run
	total, ok := intOf(member(l.results, "total_samples"))
	if !ok && l.planned > 0 { // a run that did not finish says what was planned
		total, ok = l.planned*max(1, l.epochs), true
	}
	switch {
	case !ok:
		b.Check("sample count", results.Skip, "the header does not say how many samples there were")
	case l.withheld && b.Run.Samples == 0:
		b.Check("sample count", results.Skip, "the log was written without its samples: log_samples was off")
	default:
		b.CheckCount("sample count", total, b.Run.Samples)
	}
	if l.epochs > 1 && b.Run.Samples > 0 {
		b.CheckCount("epochs", l.epochs, b.Run.Attempts)
	}
}

// judges collects scorers that ask a model, by the parameters that such have.
func (l *inspectLog) judges() {
	grader := textOf(member(l.roles, "grader", "model"))
	if grader == "" {
		grader = textOf(member(l.roles, "grader"))
	}
	add := func(name string, params any) {
		model, template := textOf(member(params, "model")), textOf(member(params, "template"))
		if template == "" {
			template = textOf(member(params, "instructions"))
		}
		if model == "" {
			model = grader
		}
		if strings.Contains(name, "model_graded") || template != "" || textOf(member(params, "model")) != "" {
			l.run.Judge(name, model, template)
		}
	}
	for _, e := range inspectEntries(l.results) {
		add(e.scorer, e.params)
	}
	if l.results == nil {
		for _, s := range listOf(l.scorers) {
			add(textOf(member(s, "name")), member(s, "options"))
		}
	}
}
