package importer

import (
	"fmt"
	"strings"

	"tallystick/internal/read/results"
	"tallystick/internal/record/jsonstream"
	"tallystick/internal/share/setup"
)

// The kinds of files.
const (
	inspectJSON    kind = "inspect:json"
	inspectArchive kind = "inspect:archive"
)

var inspectHarness = harness{
	name:       "Inspect",
	recognised: "`eval.task`, `eval.model`, and `status` or `version`; a zip archive with `header.json` or `_journal/start.json`",
	runs:       "a log",
	scores:     "each scorer; `C` is 1, `P` 0.5, `I` and `N` 0; parts of a value as `<scorer>/<part>`",
	parts: []part{
		{kind: inspectJSON, fits: func(s *Shape) bool { return s.Has("eval.task", "eval.model") && s.HasAny("status", "version") }},
		{kind: inspectArchive, begins: []string{"PK\x03\x04", "PK\x05\x06"}, called: "a zip archive"},
	},
	read: alone(map[kind]func(*session, *file) error{inspectJSON: (*session).inspectJSON, inspectArchive: (*session).inspectArchive}),
}

// inspectLog is an Inspect log while it is read: the members of an EvalLog, of
// which the archive has all but the samples in header.json.
type inspectLog struct {
	run *run

	status   string
	task     string
	version  string
	model    string
	created  string
	started  string
	epochs   int64
	reducers []string
	scorers  any // of eval
	roles    any
	results  any
	failed   string // the run's own error
	header   bool   // results were there, even if empty
	withheld bool   // log_samples was off
	planned  int64  // samples that were to be run
	edited   int64
	how      setup.Inspect
}

// fields are the members of a header. samples is given for the form that has
// all in one document.
func (l *inspectLog) fields(r *jsonstream.Reader, samples func() error) fields {
	withholds := "true"
	f := fields{
		"status": scalar(r, &l.status),
		"eval": inside(r, fields{
			"task": scalar(r, &l.task), "model": scalar(r, &l.model), "created": scalar(r, &l.created),
			"scorers": anything(r, &l.scorers), "model_roles": anything(r, &l.roles), "model_generate_config": anything(r, &l.how.Generate),
			"revision": inside(r, fields{"commit": scalar(r, &l.how.Commit)}),
			"dataset": inside(r, fields{"sample_ids": func() error {
				l.planned = 0
				return list(r, func(int) error { l.planned++; return nil })
			}}),
			"packages": inside(r, fields{"inspect_ai": scalar(r, &l.version)}),
			"config": inside(r, fields{"epochs": count(r, &l.epochs), "epochs_reducer": func() error {
				l.reducers = nil
				return list(r, func(int) error {
					name, err := r.Scalar()
					l.reducers = append(l.reducers, name)
					return err
				})
			}, "log_samples": func() error {
				err := scalar(r, &withholds)()
				l.withheld = withholds == "false"
				return err
			}}),
		}),
		"results": func() error { l.header = true; return anything(r, &l.results)() },
		"plan":    inside(r, fields{"config": anything(r, &l.how.PlanGenerate)}),
		"stats":   inside(r, fields{"started_at": scalar(r, &l.started), "completed_at": scalar(r, &l.how.Ended)}),
		"error":   inside(r, fields{"message": excerpt(r, &l.failed)}),
	}
	if samples != nil {
		f["samples"] = samples
	}
	return f
}

func (s *session) inspectJSON(f *file) error {
	l := &inspectLog{run: s.begin("inspect_ai")}
	err := s.json(f, func(r *jsonstream.Reader) error {
		sample := l.sampleReader(r)
		err := object(r, l.fields(r, func() error {
			l.run.KeepAttempts = l.epochs != 1
			return list(r, func(int) error { return sample() })
		}))
		if err != nil {
			return err
		}
		return r.End()
	})
	if err != nil {
		return err
	}
	if err := l.finish(); err != nil {
		return refuseIn(f, "results", err)
	}
	l.run.finish(f)
	return nil
}

// inspectSample is one sample while it is read.
type inspectSample struct {
	results.Sample
	epoch     int64
	completed results.Text
	said      results.Text
	retries   int64
	scores    map[string]results.Score
	old       *results.Score // of logs with one scorer
	edits     int64
	wanted    map[string]*results.Text // attachment to where its text belongs
}

// sampleReader returns a function that reads the next value as a sample.
func (l *inspectLog) sampleReader(r *jsonstream.Reader) func() error {
	var s inspectSample
	f := fields{
		"id": scalar(r, &s.ID), "epoch": count(r, &s.epoch), "uuid": scalar(r, &s.Trajectory),
		"input": text(r, &s.Input), "target": text(r, &s.Expected),
		"output": inside(r, fields{
			"completion": text(r, &s.completed),
			"choices": func() error {
				return list(r, func(i int) error {
					if i > 0 {
						return nil
					}
					return object(r, fields{"message": inside(r, fields{"content": text(r, &s.said)})})
				})
			},
			"error": excerpt(r, &s.Error),
		}),
		"error": inside(r, fields{"message": excerpt(r, &s.Error)}),
		"error_retries": func() error {
			return list(r, func(int) error { s.retries++; return nil })
		},
		"scores":      func() error { return l.scores(r, &s) },
		"score":       func() error { return l.oneScore(r, &s) },
		"attachments": func() error { return s.attachments(r) },
	}
	return func() error {
		s = inspectSample{scores: map[string]results.Score{}}
		if err := object(r, f); err != nil {
			return err
		}
		return l.add(&s)
	}
}

const attachmentPrefix = "attachment://"

// attachments resolves the texts that the sample refers to. They come after
// what refers to them; only those are hashed.
func (s *inspectSample) attachments(r *jsonstream.Reader) error {
	s.wanted = map[string]*results.Text{}
	for _, t := range []*results.Text{&s.Input, &s.Expected, &s.completed, &s.said} {
		if name, ok := strings.CutPrefix(t.Head, attachmentPrefix); ok {
			s.wanted[name] = t
		}
	}
	k, err := r.Peek()
	if err != nil || k != jsonstream.Object {
		return err
	}
	return r.Object(func(name string) error {
		if to := s.wanted[name]; to != nil {
			return text(r, to)()
		}
		return nil
	})
}

func (l *inspectLog) scores(r *jsonstream.Reader, s *inspectSample) error {
	k, err := r.Peek()
	if err != nil || k != jsonstream.Object {
		return err
	}
	return r.Object(func(name string) error {
		score, err := l.score(r, s, name)
		if err == nil && score != nil {
			s.scores[name] = *score
		}
		return err
	})
}

// oneScore is the form before there were several scorers; its scorer's name is
// in the results.
func (l *inspectLog) oneScore(r *jsonstream.Reader, s *inspectSample) error {
	score, err := l.score(r, s, "")
	s.old = score
	return err
}

// score reads {value, answer, explanation}. A value of several parts gives a
// score for each, by "<scorer>/<part>".
func (l *inspectLog) score(r *jsonstream.Reader, s *inspectSample, name string) (*results.Score, error) {
	var value any
	var why string
	k, err := r.Peek()
	if err != nil || k != jsonstream.Object {
		return nil, err
	}
	err = object(r, fields{
		"value": anything(r, &value), "answer": text(r, &s.Answer), "explanation": excerpt(r, &why),
		"history": func() error { return list(r, func(int) error { s.edits++; return nil }) },
	})
	if err != nil {
		return nil, err
	}
	part := func(name string, v any) error {
		score, err := inspectValue(v)
		score.Why = why
		s.scores[name] = score
		if err != nil {
			return r.Refuse("the score %s: %v", name, err)
		}
		return nil
	}
	switch x := value.(type) {
	case map[string]any:
		for key, v := range x {
			if err := part(name+"/"+key, v); err != nil {
				return nil, err
			}
		}
		return nil, nil
	case []any:
		for i, v := range x {
			if err := part(fmt.Sprintf("%s/%d", name, i), v); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}
	score, err := inspectValue(value)
	score.Why = why
	if err != nil {
		err = r.Refuse("the score %s: %v", name, err)
	}
	return &score, err
}

// inspectValue is Inspect's own reading of a value: letters stand for numbers.
func inspectValue(v any) (results.Score, error) {
	if said, ok := v.(string); ok {
		if n, ok := map[string]float64{"C": 1, "P": 0.5, "I": 0, "N": 0}[said]; ok {
			return results.Score{Value: &n, Said: said}, nil
		}
		switch strings.ToLower(said) {
		case "yes":
			return results.BoolScore(true), nil
		case "no":
			return results.BoolScore(false), nil
		}
	}
	return results.AnyScore(v)
}

func (l *inspectLog) add(s *inspectSample) error {
	out := s.Sample
	if out.Attempt = s.epoch; out.Attempt == 0 {
		out.Attempt = 1
	}
	if out.Answer == (results.Text{}) {
		if out.Answer = s.completed; out.Answer == (results.Text{}) {
			out.Answer = s.said
		}
	}
	if s.old != nil {
		s.scores[l.oldScorer()] = *s.old
	}
	for _, t := range []results.Text{out.Input, out.Expected, out.Answer} {
		if strings.HasPrefix(t.Head, attachmentPrefix) {
			l.run.Note("texts that are attachments elsewhere in the log, and are known by reference only")
		}
	}
	out.Scores = s.scores
	l.edited += s.edits
	if s.retries > 0 {
		l.run.Note("samples that were run again after an error")
	}
	return l.run.Add(out, "")
}

// oldScorer is the name of the only scorer of an old log.
func (l *inspectLog) oldScorer() string {
	if name := textOf(member(l.results, "scorer", "name")); name != "" {
		return name
	}
	return "score"
}
