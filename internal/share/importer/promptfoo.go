package importer

import (
	"maps"
	"slices"
	"strconv"

	"tallystick/internal/read/results"
	"tallystick/internal/record/jsonstream"
)

// The kinds of files.
const (
	promptfooFile kind = "promptfoo"
	promptfooRows kind = "promptfoo:rows"
)

var promptfooHarness = harness{
	name:       "promptfoo",
	recognised: "`results.version` with `results.results` (2, 3), `version` 1, `providerResponse` or `createdAt` with `promptIdx` (4); rows with `promptIdx` and `testIdx`",
	runs:       "a file",
	scores:     "`success`, `score`, `named:<name>`",
	parts: []part{
		{kind: promptfooFile, fits: func(s *Shape) bool {
			return s.Has("results.results", "results.version") ||
				s.Said["version"] == "1" && s.Has("results[].prompt", "results[].vars") ||
				s.Has("results[].providerResponse") || s.Has("createdAt", "results[].promptIdx")
		}},
		{kind: promptfooRows, fits: func(s *Shape) bool {
			return s.Has("promptIdx", "testIdx") && s.HasAny("testCase", "vars", "gradingResult")
		}},
	},
	read: alone(map[kind]func(*session, *file) error{promptfooFile: (*session).promptfoo, promptfooRows: (*session).promptfoo}),
}

// promptfooLog is a promptfoo file while it is read.
type promptfooLog struct {
	run *run

	stats, prompts any
	description    string
	version        string
	timestamp      string
	created        string
	providers      map[string]bool
	columns        map[int64]*promptfooColumn
	judge          string // the provider that grades unless an assertion names one
}

// promptfooColumn adds up the rows of one prompt with one provider.
type promptfooColumn struct {
	passed, failed, errors int64
	score                  float64
}

// promptfoo reads versions 1 to 4, and one result a line.
func (s *session) promptfoo(f *file) error {
	l := &promptfooLog{run: s.begin("promptfoo"), providers: map[string]bool{}, columns: map[int64]*promptfooColumn{}}
	err := s.json(f, func(r *jsonstream.Reader) error {
		row := l.rowReader(r)
		if f.kind == promptfooRows {
			return f.rows(r, "", row)
		}
		rows := func() error { return list(r, func(int) error { return row() }) }
		config := inside(r, fields{"description": scalar(r, &l.description), "defaultTest": inside(r, fields{"options": inside(r, fields{"provider": provider(r, &l.judge)})})})
		body := fields{
			"results": rows, "stats": anything(r, &l.stats), "prompts": anything(r, &l.prompts), "timestamp": scalar(r, &l.timestamp),
			"config": config, "createdAt": scalar(r, &l.created),
			"metadata": inside(r, fields{"promptfooVersion": scalar(r, &l.version), "evaluationCreatedAt": scalar(r, &l.created)}),
		}
		top := maps.Clone(body)
		top["results"] = func() error { // from version 2 to 3 one level deeper
			if k, err := r.Peek(); err != nil || k != jsonstream.Object {
				return rows()
			}
			return object(r, body)
		}
		if err := object(r, top); err != nil {
			return err
		}
		return r.End()
	})
	if err != nil {
		return err
	}
	if err := l.finish(); err != nil {
		return refuseIn(f, "stats", err)
	}
	l.run.finish(f)
	return nil
}

// promptfooRow is one result while it is read.
type promptfooRow struct {
	sample                   results.Sample
	test                     string
	provider                 string
	success                  *bool
	score                    *float64
	reason                   string // why it failed, as a number
	failed                   string
	graded                   bool
	graderFailed             bool
	named                    any
	vars                     results.Text
	promptIndex, repeatIndex int64
}

func (l *promptfooLog) rowReader(r *jsonstream.Reader) func() error {
	var row promptfooRow
	n := 0
	grading := l.grading(r, &row)
	response := inside(r, fields{"output": text(r, &row.sample.Answer)})
	f := fields{
		"testIdx": scalar(r, &row.test), "promptIdx": count(r, &row.promptIndex), "repeatIndex": count(r, &row.repeatIndex),
		"provider": provider(r, &row.provider), "success": truth(r, &row.success), "score": number(r, &row.score),
		"failureReason": scalar(r, &row.reason), "error": excerpt(r, &row.failed), "namedScores": anything(r, &row.named),
		"prompt":   inside(r, fields{"raw": text(r, &row.sample.Input)}),
		"vars":     text(r, &row.vars),
		"response": response, "providerResponse": response, "traceId": scalar(r, &row.sample.Trajectory),
		"gradingResult": func() error {
			k, err := r.Peek()
			if err != nil || k != jsonstream.Object {
				return err
			}
			row.graded = true
			return object(r, grading)
		},
	}
	return func() error {
		row = promptfooRow{}
		if err := object(r, f); err != nil {
			return err
		}
		n++
		return l.add(&row, n)
	}
}

// assertion is one part of a grading while it is read.
type assertion struct {
	kind, rubric, provider string
	value                  any
	graderFailed           *bool
}

// grading looks for judges, and for assertions whose judge failed: what such a
// row says is not about the model.
func (l *promptfooLog) grading(r *jsonstream.Reader, row *promptfooRow) fields {
	var a assertion
	part := fields{
		"assertion": inside(r, fields{"type": scalar(r, &a.kind), "value": anything(r, &a.value), "rubricPrompt": scalar(r, &a.rubric), "provider": provider(r, &a.provider)}),
		"metadata":  inside(r, fields{"graderError": truth(r, &a.graderFailed)}),
	}
	return fields{"componentResults": func() error {
		return list(r, func(int) error {
			a = assertion{}
			if err := object(r, part); err != nil {
				return err
			}
			row.graderFailed = row.graderFailed || a.graderFailed != nil && *a.graderFailed
			if modelGraded[a.kind] {
				if a.rubric == "" {
					a.rubric = textOf(a.value)
				}
				if a.provider == "" {
					a.provider = l.judge
				}
				l.run.Judge(a.kind, a.provider, a.rubric)
			}
			return nil
		})
	}}
}

// provider reads the name of a provider: the text, or its id.
func provider(r *jsonstream.Reader, to *string) func() error {
	id := fields{"id": scalar(r, to)}
	return func() error {
		k, err := r.Peek()
		if err != nil || k != jsonstream.Object {
			return scalar(r, to)()
		}
		return object(r, id)
	}
}

// modelGraded are the assertions that ask a model.
var modelGraded = map[string]bool{"llm-rubric": true, "model-graded-closedqa": true, "model-graded-factuality": true, "factuality": true, "g-eval": true,
	"answer-relevance": true, "context-faithfulness": true, "context-recall": true, "context-relevance": true, "select-best": true, "pi": true,
	"agent-rubric": true, "search-rubric": true, "conversation-relevance": true, "trajectory:goal-success": true}

func (l *promptfooLog) add(row *promptfooRow, n int) error {
	s := row.sample
	if s.ID = row.test; s.ID == "" {
		s.ID = strconv.Itoa(n)
	}
	s.Attempt = row.repeatIndex + 1
	if row.provider != "" {
		l.providers[row.provider] = true
	}
	column := l.columns[row.promptIndex]
	if column == nil {
		column = &promptfooColumn{}
		l.columns[row.promptIndex] = column
	}
	// The field error also holds why an assertion failed; only failureReason 2,
	// or an error where nothing was graded, is an error.
	isError := row.reason == "2" || row.reason == "" && row.failed != "" && !row.graded
	switch {
	case isError:
		column.errors++
		if s.Error = row.failed; s.Error == "" {
			s.Error = "the provider failed"
		}
	case row.success != nil && *row.success:
		column.passed++
	case row.success != nil:
		column.failed++
	}
	if row.score != nil {
		column.score += *row.score
	}
	if !isError {
		s.Scores = row.scores()
	}
	return l.run.Add(s, strconv.FormatInt(row.promptIndex, 10)+" "+row.provider)
}

func (row *promptfooRow) scores() map[string]results.Score {
	scores := map[string]results.Score{}
	if row.success != nil {
		scores["success"] = results.BoolScore(*row.success)
	}
	if row.score != nil {
		scores["score"] = results.Score{Value: row.score}
	}
	named, _ := row.named.(map[string]any)
	for name, v := range named {
		if score, err := results.AnyScore(v); err == nil {
			scores["named:"+name] = score
		}
	}
	if row.graderFailed {
		for name := range scores {
			scores[name] = results.Score{Said: "the grader failed"}
		}
	}
	return scores
}

func (l *promptfooLog) finish() error {
	b := l.run
	b.Run.Task, b.Run.HarnessVersion = results.Known(l.description), results.Known(l.version)
	if b.Run.StartedAt = results.Moment(l.timestamp); b.Run.StartedAt == "" {
		b.Run.StartedAt = results.Moment(l.created)
	}
	l.model()
	for _, name := range []string{"successes", "failures", "errors"} {
		v, err := floatOf(member(l.stats, name))
		if err != nil {
			return err
		}
		if v != nil {
			if err := b.State("stats", name, *v); err != nil {
				return err
			}
		}
	}
	for _, name := range b.Scorers() {
		t := b.Totals(name)
		metric := "mean"
		if name == "success" {
			metric = "pass_rate"
		}
		if t.N > 0 {
			if err := b.Derive(name, metric, t.Mean()); err != nil {
				return err
			}
		}
	}
	l.checkStats()
	b.CheckAttempts()
	return l.checkColumns()
}

// model is the provider, if there is one. Files of version 3 name it with each
// prompt too.
func (l *promptfooLog) model() {
	for _, p := range listOf(l.prompts) {
		if name := textOf(member(p, "provider")); name != "" {
			l.providers[name] = true
		}
	}
	names := slices.Sorted(maps.Keys(l.providers))
	switch {
	case len(names) == 1:
		l.run.Run.Model = results.Known(names[0])
	case len(names) > 1:
		l.run.Note("rows of several providers in one run")
	}
}

func (l *promptfooLog) checkStats() {
	var total promptfooColumn
	for _, c := range l.columns {
		total.passed += c.passed
		total.failed += c.failed
		total.errors += c.errors
	}
	successes, ok := intOf(member(l.stats, "successes"))
	failures, ok2 := intOf(member(l.stats, "failures"))
	if !ok || !ok2 {
		l.run.Check("counts", results.Skip, "the file states no counts")
		return
	}
	l.run.CheckCount("successes", successes, total.passed)
	if errors, ok := intOf(member(l.stats, "errors")); ok {
		l.run.CheckCount("failures", failures, total.failed)
		l.run.CheckCount("errors", errors, total.errors)
	} else { // older versions count errors as failures
		l.run.CheckCount("failures", failures, total.failed+total.errors)
	}
}

// checkColumns compares the totals that version 3 keeps for each prompt.
func (l *promptfooLog) checkColumns() error {
	for i, p := range listOf(l.prompts) {
		c := l.columns[int64(i)]
		m := member(p, "metrics")
		if m == nil {
			continue
		}
		if c == nil {
			c = &promptfooColumn{}
		}
		name := "prompt " + strconv.Itoa(i)
		if n, ok := intOf(member(m, "testPassCount")); ok {
			l.run.CheckCount(name+" passes", n, c.passed)
		}
		stated, err := floatOf(member(m, "score"))
		if err != nil {
			return err
		}
		if stated != nil {
			l.run.CheckNumber(name+" score", *stated, c.score)
		}
	}
	return nil
}
