package importer

import (
	"maps"
	"slices"
	"strings"

	"tallystick/internal/read/results"
	"tallystick/internal/record/jsonstream"
	"tallystick/internal/record/refusal"
)

const openAIEvals kind = "openai-evals"

var openAIEvalsHarness = harness{
	name:       "OpenAI evals",
	recognised: "`spec.eval_name`, or events with `run_id`, `event_id`, `type`, `data`",
	runs:       "a log",
	scores:     "`match`, or the numbers of `metrics` events",
	parts: []part{
		{kind: openAIEvals, fits: func(s *Shape) bool {
			return s.Has("spec.eval_name", "spec.completion_fns") || s.Has("run_id", "event_id", "type", "data")
		}},
	},
	read: alone(map[kind]func(*session, *file) error{openAIEvals: (*session).openAIEvals}),
}

// openAILog is a log of OpenAI evals while it is read.
type openAILog struct {
	run     *run
	spec    any
	report  any
	waiting map[string]*results.Sample // sampled, not judged yet
	done    map[string]bool            // judged; later events add nothing
}

// openAIEvals reads the lines of a log: the spec, the final report, wherever it
// stands, and events. Each verdict is a row.
func (s *session) openAIEvals(f *file) error {
	l := &openAILog{run: s.begin("openai_evals"), waiting: map[string]*results.Sample{}, done: map[string]bool{}}
	err := s.json(f, func(r *jsonstream.Reader) error {
		return f.rows(r, "", func() error { return l.line(r) })
	})
	if err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(l.waiting)) {
		if err := l.run.Add(*l.waiting[id], ""); err != nil {
			return err
		}
	}
	if err := l.finish(); err != nil {
		return refuseIn(f, "final_report", err)
	}
	l.run.finish(f)
	return nil
}

func (l *openAILog) line(r *jsonstream.Reader) error {
	var spec, report any
	var id, kind string
	var e openAIEvent
	err := object(r, fields{
		"spec": anything(r, &spec), "final_report": anything(r, &report), "sample_id": scalar(r, &id), "type": scalar(r, &kind),
		"data": func() error {
			k, err := r.Peek()
			if err != nil || k != jsonstream.Object {
				return err
			}
			return e.read(r)
		},
	})
	if err != nil {
		return err
	}
	switch {
	case spec != nil && l.spec != nil:
		return r.Refuse("found a second spec, expected one run in a file")
	case spec != nil:
		l.spec = spec
	case report != nil:
		l.report = report
	case id != "" && kind != "":
		return l.event(id, kind, &e)
	}
	return nil
}

// openAIEvent is the data of an event.
type openAIEvent struct {
	prompt, sampled, expected results.Text
	correct                   *bool
	failed                    string
	numbers                   map[string]results.Score
}

func (e *openAIEvent) read(r *jsonstream.Reader) error {
	e.numbers = map[string]results.Score{}
	read := fields{"prompt": text(r, &e.prompt), "sampled": text(r, &e.sampled), "expected": text(r, &e.expected), "correct": truth(r, &e.correct),
		"error": excerpt(r, &e.failed), "message": excerpt(r, &e.failed)}
	return r.Object(func(name string) error {
		if f := read[name]; f != nil {
			return f()
		}
		k, err := r.Peek()
		if err != nil || k != jsonstream.Digits && k != jsonstream.Bool {
			return err
		}
		e.numbers[name], err = readScore(r)
		return err
	})
}

func (l *openAILog) event(id, kind string, e *openAIEvent) error {
	s := l.waiting[id]
	if s == nil {
		if len(l.waiting) == maxHeld || len(l.done) == 4*maxHeld {
			return refusal.Newf(refusal.TooLarge, "more than %d samples without a verdict", maxHeld)
		}
		s = &results.Sample{ID: id}
	}
	for _, part := range []struct {
		to   *results.Text
		from results.Text
	}{{&s.Input, e.prompt}, {&s.Answer, e.sampled}, {&s.Expected, e.expected}} {
		if part.from != (results.Text{}) {
			*part.to = part.from
		}
	}
	judged := false
	switch kind {
	case "match":
		judged = e.correct != nil
		if judged {
			s.Scores = map[string]results.Score{"match": results.BoolScore(*e.correct)}
		}
	case "metrics":
		judged = len(e.numbers) > 0
		s.Scores = e.numbers
	case "error":
		if s.Error = e.failed; s.Error == "" {
			s.Error = "the event has no message"
		}
	}
	if !judged {
		if !l.done[id] {
			l.waiting[id] = s
		}
		return nil
	}
	delete(l.waiting, id)
	l.done[id] = true
	return l.run.Add(*s, "")
}

func (l *openAILog) finish() error {
	b := l.run
	b.Run.Task = results.Known(textOf(member(l.spec, "eval_name")))
	var models []string
	for _, m := range listOf(member(l.spec, "completion_fns")) {
		models = append(models, textOf(m))
	}
	b.Run.Model = results.Known(strings.Join(models, ","))
	b.Run.StartedAt = results.Moment(textOf(member(l.spec, "created_at")))
	if prompt := textOf(member(l.spec, "run_config", "eval_spec", "args", "modelgraded_spec")); prompt != "" {
		b.Judge(prompt, textOf(member(l.spec, "run_config", "eval_spec", "args", "eval_completion_fn")), "")
	}
	report, _ := l.report.(map[string]any)
	if report == nil {
		b.Check("accuracy", results.Skip, "the log has no final report: the run did not finish")
	}
	for _, key := range slices.Sorted(maps.Keys(report)) {
		v, err := floatOf(report[key])
		if err != nil {
			return err
		}
		if v == nil {
			continue
		}
		if err := b.State("final_report", key, *v); err != nil {
			return err
		}
		t := b.Totals("match")
		if t.N == 0 {
			t = b.Totals(key)
		}
		switch {
		case key == "accuracy" && t.N > 0:
			b.CheckNumber("accuracy", *v, t.Mean())
		case key != "accuracy" && b.Totals(key).N > 0:
			b.CheckNumber("mean "+key, *v, b.Totals(key).Mean())
		default: // boostrap_std is the harness' own spelling
			b.Check(key, results.Skip, "not recomputed")
		}
	}
	b.CheckAttempts()
	return b.DeriveMeans()
}
