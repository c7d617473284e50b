package importer

import (
	"fmt"
	"maps"

	"tallystick/internal/read/results"
	"tallystick/internal/record/jsonstream"
)

const deepEval kind = "deepeval"

var deepEvalHarness = harness{
	name:       "DeepEval",
	recognised: "`testCases` or `conversationalTestCases` with their metrics or totals, also under `testRunData`",
	runs:       "a file",
	scores:     "each metric",
	parts: []part{
		{kind: deepEval, fits: func(s *Shape) bool {
			return s.HasAny("testCases", "conversationalTestCases") && s.HasAny("testCases[].metricsData", "conversationalTestCases[].metricsData", "metricsScores", "testPassed", "hyperparameters") ||
				s.HasAny("testRunData.testCases", "testRunData.conversationalTestCases")
		}},
	},
	read: alone(map[kind]func(*session, *file) error{deepEval: (*session).deepEval}),
}

// deepEvalRun is a DeepEval test run while it is read.
type deepEvalRun struct {
	run                    *run
	file, dataset          string
	identifier             string
	hyperparameters        any
	scores                 any // metricsScores
	passed, failed         *int64
	passedRows, failedRows int64
	rows                   int64
	spans                  map[string]*results.Totals // metrics of parts of a trace
}

func (s *session) deepEval(f *file) error {
	d := &deepEvalRun{run: s.begin("deepeval"), spans: map[string]*results.Totals{}}
	err := s.json(f, func(r *jsonstream.Reader) error {
		cases := func() error { return list(r, func(int) error { return d.testCase(r) }) }
		body := fields{
			"testCases": cases, "conversationalTestCases": cases,
			"testFile": scalar(r, &d.file), "datasetAlias": scalar(r, &d.dataset), "identifier": scalar(r, &d.identifier),
			"hyperparameters": anything(r, &d.hyperparameters), "metricsScores": anything(r, &d.scores),
			"testPassed": stated(r, &d.passed), "testFailed": stated(r, &d.failed),
		}
		top := maps.Clone(body)
		top["testRunData"] = inside(r, body)
		if err := object(r, top); err != nil {
			return err
		}
		return r.End()
	})
	if err != nil {
		return err
	}
	if err := d.finish(); err != nil {
		return refuseIn(f, "metricsScores", err)
	}
	d.run.finish(f)
	return nil
}

// stated reads a count that may not be there.
func stated(r *jsonstream.Reader, to **int64) func() error {
	return func() error {
		n := int64(-1)
		err := count(r, &n)()
		if n >= 0 {
			*to = &n
		}
		return err
	}
}

func (d *deepEvalRun) testCase(r *jsonstream.Reader) error {
	var s results.Sample
	var order int64
	var success *bool
	s.Scores = map[string]results.Score{}
	err := object(r, fields{
		"name": scalar(r, &s.ID), "order": count(r, &order), "success": truth(r, &success),
		"input": text(r, &s.Input), "scenario": text(r, &s.Input), "turns": text(r, &s.Answer),
		"actualOutput": text(r, &s.Answer), "expectedOutput": text(r, &s.Expected), "expectedOutcome": text(r, &s.Expected),
		"trace":       d.trace(r, &s.Trajectory),
		"metricsData": func() error { return list(r, func(int) error { return d.metric(r, &s) }) },
	})
	if err != nil {
		return err
	}
	d.rows++
	if s.ID == "" {
		s.ID = fmt.Sprintf("#%d", d.rows)
	}
	switch {
	case success == nil:
	case *success:
		d.passedRows++
	default:
		d.failedRows++
	}
	// Names need not differ; the order tells rows apart.
	return d.run.Add(s, fmt.Sprint(d.rows))
}

// trace collects the metrics of spans: some versions count them in the file's
// totals.
func (d *deepEvalRun) trace(r *jsonstream.Reader, id *string) func() error {
	spans := func() error {
		return list(r, func(int) error {
			return object(r, fields{"metricsData": func() error {
				var s results.Sample
				s.Scores = map[string]results.Score{}
				err := list(r, func(int) error { return d.metric(r, &s) })
				for name, score := range s.Scores {
					if d.spans[name] == nil {
						d.spans[name] = &results.Totals{}
					}
					d.spans[name].Add(score)
				}
				return err
			}})
		})
	}
	return inside(r, fields{"uuid": scalar(r, id), "baseSpans": spans, "agentSpans": spans, "llmSpans": spans, "retrieverSpans": spans, "toolSpans": spans})
}

// metric reads one metric of a case. Without a score or a verdict it failed to
// judge.
func (d *deepEvalRun) metric(r *jsonstream.Reader, s *results.Sample) error {
	var name, model, failed, why string
	var score results.Score
	var success *bool
	err := object(r, fields{
		"name": scalar(r, &name), "evaluationModel": scalar(r, &model), "error": excerpt(r, &failed), "reason": excerpt(r, &why), "success": truth(r, &success),
		"score": func() (err error) { score, err = readScore(r); return err },
	})
	if err != nil {
		return err
	}
	score.Passed, score.Why = success, why
	if success == nil || failed != "" {
		score.Value, score.Passed = nil, nil
	}
	if score.Value == nil {
		if failed == "" {
			failed = "the metric gave no score"
		}
		s.Error = name + ": " + failed
	}
	if _, twice := s.Scores[name]; twice {
		return r.Refuse("the metric %q is there twice in one case", name)
	}
	s.Scores[name] = score
	if model != "" {
		d.run.Judge(name, model, "")
	}
	return nil
}

func (d *deepEvalRun) finish() error {
	b := d.run
	for _, name := range []string{d.dataset, d.file, d.identifier} {
		if b.Run.Task == "" {
			b.Run.Task = results.Known(name)
		}
	}
	b.Run.Model = results.Known(textOf(member(d.hyperparameters, "model")))
	for _, m := range listOf(d.scores) {
		if err := d.checkMetric(m); err != nil {
			return err
		}
	}
	if len(listOf(d.scores)) == 0 {
		b.Check("means", results.Skip, "the file states no scores by metric; the metrics are means of the rows")
	}
	for _, name := range b.Scorers() {
		if t := b.Totals(name); t.Passed+t.Failed > 0 {
			if err := b.Derive(name, "pass_rate", float64(t.Passed)/float64(t.Passed+t.Failed)); err != nil {
				return err
			}
		}
	}
	if err := b.DeriveMeans(); err != nil {
		return err
	}
	d.checkCounts()
	b.CheckAttempts()
	return nil
}

// checkMetric compares the lists that the file keeps for each metric.
func (d *deepEvalRun) checkMetric(m any) error {
	name := textOf(member(m, "metric"))
	t := d.run.Totals(name)
	sum, n := 0.0, int64(0)
	for _, v := range listOf(member(m, "scores")) {
		score, err := floatOf(v)
		if err != nil {
			return err
		}
		if score != nil {
			sum += *score
			n++
		}
	}
	if n > 0 {
		if err := d.run.State(name, "mean", sum/float64(n)); err != nil {
			return err
		}
	}
	cases, all := *t, *t
	if part := d.spans[name]; part != nil {
		all.N, all.Passed, all.Failed = all.N+part.N, all.Passed+part.Passed, all.Failed+part.Failed
	}
	of, found, total := "cases", cases, t.Sum()
	if n != cases.N && n == all.N {
		of, found, total = "cases and spans", all, t.Sum()+d.spans[name].Sum()
	}
	if n > 0 && found.N > 0 {
		d.run.CheckNumber("mean of "+name+" over "+of, sum/float64(n), total/float64(found.N))
	}
	if stated, ok := intOf(member(m, "passes")); ok {
		d.run.CheckCount("passes of "+name+" over "+of, stated, found.Passed)
	}
	if stated, ok := intOf(member(m, "fails")); ok {
		d.run.CheckCount("fails of "+name+" over "+of, stated, found.Failed)
	}
	return nil
}

func (d *deepEvalRun) checkCounts() {
	for _, c := range []struct {
		name   string
		stated *int64
		found  int64
	}{{"passed cases", d.passed, d.passedRows}, {"failed cases", d.failed, d.failedRows}} {
		if c.stated == nil {
			d.run.Check(c.name, results.Skip, "the file states no count")
		} else {
			d.run.CheckCount(c.name, *c.stated, c.found)
		}
	}
}
