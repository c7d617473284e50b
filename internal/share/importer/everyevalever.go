package importer

import (
	"crypto/md5"
	"encoding/hex"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"tallystick/internal/read/results"
	"tallystick/internal/record/jsonstream"
)

// The kinds of files.
const (
	eeeAggregate kind = "every-eval-ever:aggregate"
	eeeSamples   kind = "every-eval-ever:samples"
)

var eeeHarness = harness{
	name:       "Every Eval Ever",
	recognised: "`evaluation_id`, `evaluation_results`, `model_info`; rows with `sample_id` and `evaluation.score`",
	runs:       "an evaluation of a file",
	scores:     "`score`",
	parts: []part{
		{kind: eeeAggregate, together: (*file).dir, fits: func(s *Shape) bool { return s.Has("evaluation_id", "evaluation_results", "model_info") }},
		{kind: eeeSamples, together: (*file).dir, fits: func(s *Shape) bool { return s.Has("evaluation_id", "sample_id", "evaluation.score") }},
	},
	read: (*session).everyEvalEver,
	companions: func(f *file) func(string) bool {
		if f.kind != eeeAggregate {
			return nil
		}
		stem := strings.TrimSuffix(f.base(), ".json")
		return func(base string) bool { return base == stem+"_samples.jsonl" || base == stem+".jsonl" }
	},
}

// An eeeFile is an aggregate of Every Eval Ever.
type eeeFile struct {
	file                            *file
	id, schema, library, libVersion string
	model, stamp                    string
	results                         any
	checksum, hashMethod            string
	totalRows                       *int64
}

// everyEvalEver reads aggregates, and the samples that go with them by
// evaluation id. Each evaluation of an aggregate is a run.
func (s *session) everyEvalEver(g []*file) error {
	var aggregates []*eeeFile
	ids := map[string]bool{}
	for _, f := range g {
		if f.kind != eeeAggregate {
			continue
		}
		e := &eeeFile{file: f}
		if err := s.json(f, func(r *jsonstream.Reader) error { return e.read(r) }); err != nil {
			return err
		}
		aggregates = append(aggregates, e)
		ids[e.id] = true
	}
	rows := map[string][]*file{} // samples by the evaluation id of their first row
	for _, f := range g {
		if f.kind == eeeSamples {
			id := f.shape.Said["evaluation_id"]
			rows[id] = append(rows[id], f)
		}
	}
	for _, e := range aggregates {
		if err := s.eeeRuns(e, rows[e.id]); err != nil {
			return err
		}
	}
	for _, id := range slices.Sorted(maps.Keys(rows)) {
		if ids[id] {
			continue
		}
		for _, f := range rows[id] {
			if err := s.eeeRuns(&eeeFile{id: id}, []*file{f}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *eeeFile) read(r *jsonstream.Reader) error {
	err := object(r, fields{
		"evaluation_id": scalar(r, &e.id), "schema_version": scalar(r, &e.schema), "evaluation_timestamp": scalar(r, &e.stamp),
		"eval_library":       inside(r, fields{"name": scalar(r, &e.library), "version": scalar(r, &e.libVersion)}),
		"model_info":         inside(r, fields{"id": scalar(r, &e.model)}),
		"evaluation_results": anything(r, &e.results),
		"detailed_evaluation_results": inside(r, fields{"checksum": scalar(r, &e.checksum),
			"hash_algorithm": scalar(r, &e.hashMethod), "total_rows": stated(r, &e.totalRows)}),
	})
	if err != nil {
		return err
	}
	return r.End()
}

// eeeRuns makes the runs of one aggregate, or of samples without one.
func (s *session) eeeRuns(e *eeeFile, samples []*file) error {
	runs := map[string]*run{}
	var names []string
	begin := func(name string) *run {
		if runs[name] == nil {
			b := s.begin("every_eval_ever")
			b.Run.HarnessVersion, b.Run.Task, b.Run.Model = results.Known(e.schema), results.Known(name), results.Known(e.model)
			if b.Run.StartedAt = results.Moment(e.stamp); b.Run.StartedAt == "" {
				b.Run.StartedAt = results.Epoch(e.stamp)
			}
			if e.library != "" {
				b.Note("evaluated with " + results.Cut(e.library+" "+e.libVersion))
			}
			runs[name] = b
			names = append(names, name)
		}
		return runs[name]
	}
	for _, result := range listOf(e.results) {
		b := begin(textOf(member(result, "evaluation_name")))
		if err := b.eeeState(result); err != nil {
			return refuseIn(e.file, "evaluation_results", err)
		}
	}
	total := int64(0)
	for _, f := range samples {
		n, err := s.eeeRows(f, e, begin)
		if err != nil {
			return err
		}
		total += n
	}
	for _, name := range names {
		b := runs[name]
		if err := b.eeeCheck(e, samples, total); err != nil {
			return refuseIn(e.file, "evaluation_results", err)
		}
		used := samples
		if e.file != nil {
			used = append([]*file{e.file}, samples...)
		}
		b.finish(used...)
	}
	return nil
}

// eeeMetric is the scorer and the metric of one result.
func eeeMetric(result any) string {
	for _, key := range []string{"metric_id", "metric_name", "metric_kind"} {
		if name := textOf(member(result, "metric_config", key)); name != "" {
			return name
		}
	}
	return "score"
}

func (b *run) eeeState(result any) error {
	metric := eeeMetric(result)
	name := string(b.Run.Task)
	v, err := floatOf(member(result, "score_details", "score"))
	if err != nil {
		return err
	}
	if v == nil {
		b.Note("a result without a number: " + metric)
	} else if err := b.State(name, metric, *v); err != nil {
		return err
	}
	if v, err := floatOf(member(result, "score_details", "uncertainty", "standard_error", "value")); err != nil {
		return err
	} else if v != nil {
		if err := b.State(name, metric+"_stderr", *v); err != nil {
			return err
		}
	}
	prompt := textOf(member(result, "metric_config", "llm_scoring", "input_prompt"))
	for _, judge := range listOf(member(result, "metric_config", "llm_scoring", "judges")) {
		model := textOf(member(judge, "model_info", "id"))
		if model == "" {
			model = textOf(member(judge, "model_info", "name"))
		}
		b.Judge(metric, model, prompt)
	}
	return nil
}

func (s *session) eeeRows(f *file, e *eeeFile, begin func(string) *run) (int64, error) {
	n := int64(0)
	sum := md5.New()
	err := s.bytes(f, func(src io.Reader) error {
		r, err := jsonstream.NewReader(io.TeeReader(src, sum))
		if err != nil {
			return err
		}
		var sample results.Sample
		var name, id, model, resultID string
		var score results.Score
		var correct *bool
		read := fields{
			"evaluation_id": scalar(r, &id), "evaluation_name": scalar(r, &name), "model_id": scalar(r, &model), "sample_id": scalar(r, &sample.ID),
			"evaluation_result_id": scalar(r, &resultID), "error": excerpt(r, &sample.Error),
			"input":  inside(r, fields{"raw": text(r, &sample.Input), "reference": text(r, &sample.Expected)}),
			"output": inside(r, fields{"raw": text(r, &sample.Answer)}),
			"answer_attribution": func() error {
				return list(r, func(int) error { return object(r, fields{"extracted_value": text(r, &sample.Answer)}) })
			},
			"evaluation": inside(r, fields{"score": func() (err error) { score, err = readScore(r); return err }, "is_correct": truth(r, &correct)}),
		}
		return f.rows(r, "", func() error {
			sample, name, id, model, resultID, score, correct = results.Sample{}, "", "", "", "", results.Score{}, nil
			if err := object(r, read); err != nil {
				return err
			}
			if id != e.id {
				return r.Refuse("the row is of the evaluation %.60q, expected %.60q", id, e.id)
			}
			b := begin(name)
			if b.Run.Model == "" {
				b.Run.Model = results.Known(model)
			}
			n++
			score.Passed = correct
			sample.Scores = map[string]results.Score{"score": score}
			return b.Add(sample, resultID)
		})
	})
	f.md5 = hex.EncodeToString(sum.Sum(nil))
	return n, err
}

func (b *run) eeeCheck(e *eeeFile, samples []*file, total int64) error {
	rows := b.Totals("score")
	var metrics []string
	for _, result := range listOf(e.results) {
		if textOf(member(result, "evaluation_name")) == string(b.Run.Task) {
			metrics = append(metrics, eeeMetric(result))
		}
	}
	switch {
	case e.file == nil:
		b.Check("means", results.Skip, "the aggregate was not given; the metrics are means of the rows")
	case len(samples) == 0:
		b.Check("means", results.Skip, "the file with the samples was not given")
	case rows.N == 0:
		b.Check("means", results.Skip, "no row of %s has a score", b.Run.Task)
	case len(metrics) > 1:
		b.Check("means", results.Skip, "the rows do not say which of %d metrics their score is", len(metrics))
	default:
		b.CheckNumber("mean "+metrics[0], b.Run.Metrics[results.MetricKey(string(b.Run.Task), metrics[0])], rows.Mean())
	}
	if err := b.eeeCounts(e); err != nil {
		return err
	}
	if len(samples) > 0 {
		if e.totalRows != nil {
			b.CheckCount("total rows", *e.totalRows, total)
		}
		b.eeeChecksum(e, samples)
		b.CheckAttempts()
	}
	if e.file == nil {
		return b.DeriveMeans()
	}
	return nil
}

// eeeCounts compares num_samples with the rows, if there are any.
func (b *run) eeeCounts(e *eeeFile) error {
	for _, result := range listOf(e.results) {
		n, ok := intOf(member(result, "score_details", "uncertainty", "num_samples"))
		if !ok || textOf(member(result, "evaluation_name")) != string(b.Run.Task) {
			continue
		}
		if b.Run.Samples == 0 {
			b.Check("sample count of "+eeeMetric(result), results.Skip, "stated %s, and the file with the samples was not given", strconv.FormatInt(n, 10))
		} else {
			b.CheckCount("sample count of "+eeeMetric(result), n, b.IDs())
		}
	}
	return nil
}

func (b *run) eeeChecksum(e *eeeFile, samples []*file) {
	found := samples[0].sum
	if e.hashMethod == "md5" {
		found = samples[0].md5
	}
	switch {
	case e.checksum == "":
		b.Check("samples checksum", results.Skip, "the aggregate states none")
	case len(samples) > 1:
		b.Check("samples checksum", results.Skip, "several files have samples of this evaluation")
	case strings.EqualFold(e.checksum, found):
		b.Check("samples checksum", results.Pass, "%s", found)
	default:
		b.Check("samples checksum", results.Fail, "stated %.80s, found %s", e.checksum, found)
	}
}
