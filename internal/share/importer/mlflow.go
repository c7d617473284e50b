package importer

import (
	"strconv"
	"strings"

	"tallystick/internal/read/results"
	"tallystick/internal/record/jsonstream"
)

// The kinds of files.
const (
	mlflowTraces kind = "mlflow:traces"
	mlflowTable  kind = "mlflow:table"
)

var mlflowHarness = harness{
	name:       "MLflow",
	recognised: "`columns` and `data` with columns `…/score` or `…/value`; traces with `info.trace_id`",
	runs:       "a file",
	scores:     "each scorer",
	parts: []part{
		{kind: mlflowTraces, fits: func(s *Shape) bool {
			return s.Has("info.trace_id") || s.Has("info.request_id", "info.status") || s.Has("traces[].info.trace_id")
		}},
		{kind: mlflowTable, fits: func(s *Shape) bool {
			return s.Kinds["columns"] == jsonstream.Array && s.Kinds["data"] == jsonstream.Array
		}},
	},
	read: alone(map[kind]func(*session, *file) error{mlflowTraces: (*session).mlflowTraces, mlflowTable: (*session).mlflowTable}),
}

// mlflowTable reads eval_results_table.json: a pandas table with its columns
// first and then its rows.
func (s *session) mlflowTable(f *file) error {
	b := s.begin("mlflow")
	err := s.json(f, func(r *jsonstream.Reader) error {
		var columns []string
		n := 0
		err := object(r, fields{
			"columns": func() error {
				err := list(r, func(int) error {
					name, err := r.Scalar()
					columns = append(columns, name)
					return err
				})
				if twice := checkColumns(columns); err == nil && twice != nil {
					err = r.Refuse("%v", twice)
				}
				return err
			},
			"data": func() error {
				if columns == nil {
					return r.Refuse("found the rows before the columns, expected them after")
				}
				return list(r, func(int) error {
					n++
					return b.mlflowRow(r, columns, n)
				})
			},
		})
		if err != nil {
			return err
		}
		return r.End()
	})
	if err != nil {
		return err
	}
	if len(b.Scorers()) == 0 {
		return unrecognised("%s: a table without a column of scores, expected names like metric/v1/score or scorer/value", f.path)
	}
	return b.mlflowFinish(f)
}

func (b *run) mlflowFinish(f *file) error {
	b.Check("means", results.Skip, "the file states no means; the metrics are means of the rows that have a score")
	if err := b.DeriveMeans(); err != nil {
		return err
	}
	b.CheckAttempts()
	b.finish(f)
	return nil
}

// mlflowColumn says what a column is: the scorer and which part of it.
func mlflowColumn(name string) (scorer, part string) {
	for suffix, part := range map[string]string{"/score": "score", "/value": "score", "/justification": "why", "/rationale": "why", "/error_message": "error"} {
		if scorer, ok := strings.CutSuffix(name, suffix); ok {
			return strings.TrimSuffix(scorer, "/v1"), part
		}
	}
	switch name {
	case "inputs", "request", "question":
		return "", "input"
	case "outputs", "response", "predictions", "prediction":
		return "", "answer"
	case "targets", "ground_truth", "expected_response", "expectations":
		return "", "expected"
	case "request_id", "trace_id", "client_request_id":
		return "", "id"
	}
	return "", ""
}

func (b *run) mlflowRow(r *jsonstream.Reader, columns []string, n int) error {
	s := results.Sample{ID: strconv.Itoa(n), Attempt: 1, Scores: map[string]results.Score{}}
	why := map[string]string{}
	err := list(r, func(i int) error {
		if i >= len(columns) {
			return r.Refuse("found a cell beyond the %d columns", len(columns))
		}
		scorer, part := mlflowColumn(columns[i])
		switch part {
		case "score":
			score, err := readScore(r)
			s.Scores[scorer] = score
			return err
		case "why":
			var text string
			err := excerpt(r, &text)()
			why[scorer] = text
			return err
		case "error":
			var text string
			err := excerpt(r, &text)()
			if text != "" {
				s.Error = scorer + ": " + text
			}
			return err
		case "input":
			return text(r, &s.Input)()
		case "answer":
			return text(r, &s.Answer)()
		case "expected":
			return text(r, &s.Expected)()
		case "id":
			return scalar(r, &s.ID)()
		}
		return nil
	})
	for scorer, text := range why {
		if score, ok := s.Scores[scorer]; ok {
			score.Why = text
			s.Scores[scorer] = score
		}
	}
	if err != nil {
		return err
	}
	return b.Add(s, "")
}

// mlflowTraces reads traces with assessments.
func (s *session) mlflowTraces(f *file) error {
	b := s.begin("mlflow")
	err := s.json(f, func(r *jsonstream.Reader) error {
		return f.rows(r, "traces", func() error { return b.mlflowTrace(r) })
	})
	if err != nil {
		return err
	}
	return b.mlflowFinish(f)
}

func (b *run) mlflowTrace(r *jsonstream.Reader) error {
	s := results.Sample{Attempt: 1, Scores: map[string]results.Score{}}
	var state, began string
	err := object(r, fields{"info": inside(r, fields{
		"trace_id": scalar(r, &s.ID), "request_id": scalar(r, &s.ID), "state": scalar(r, &state), "status": scalar(r, &state),
		"request_preview": text(r, &s.Input), "response_preview": text(r, &s.Answer), "request_time": scalar(r, &began),
		"assessments": func() error { return list(r, func(int) error { return b.mlflowAssessment(r, &s) }) },
	})})
	if err != nil {
		return err
	}
	s.Trajectory = s.ID
	if state == "ERROR" {
		s.Error = "the trace ended in an error"
	}
	if at := results.Moment(began); at != "" && (b.Run.StartedAt == "" || at < b.Run.StartedAt) {
		b.Run.StartedAt = at
	}
	return b.Add(s, "")
}

func (b *run) mlflowAssessment(r *jsonstream.Reader, s *results.Sample) error {
	var name, sourceType, sourceID, why string
	var value, failed, expectation any
	var valid *bool
	err := object(r, fields{
		"assessment_name": scalar(r, &name), "name": scalar(r, &name), "rationale": excerpt(r, &why), "valid": truth(r, &valid),
		"source":      inside(r, fields{"source_type": scalar(r, &sourceType), "source_id": scalar(r, &sourceID)}),
		"feedback":    inside(r, fields{"value": anything(r, &value), "error": anything(r, &failed)}),
		"expectation": anything(r, &expectation),
	})
	if err != nil || valid != nil && !*valid {
		return err // a later assessment stands in its place
	}
	if expectation != nil {
		s.Expected = results.TextOf(textOf(member(expectation, "value")))
		return nil
	}
	score, err := results.AnyScore(value)
	if err != nil {
		return r.Refuse("the assessment %s: %v", name, err)
	}
	if said, ok := value.(string); ok && score.Value == nil {
		switch strings.ToLower(said) {
		case "yes", "pass":
			score = results.BoolScore(true)
		case "no", "fail":
			score = results.BoolScore(false)
		}
		score.Said = said
	}
	if failed != nil {
		score = results.Score{Said: "the scorer failed"}
	}
	score.Why = why
	s.Scores[name] = score
	if sourceType == "LLM_JUDGE" {
		b.Judge(name, sourceID, "")
	}
	return nil
}
