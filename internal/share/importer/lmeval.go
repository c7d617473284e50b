package importer

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"tallystick/internal/read/results"
	"tallystick/internal/record/jsonstream"
	"tallystick/internal/share/setup"
)

// The kinds of files.
const (
	lmEvalSamples kind = "lm-eval:samples"
	lmEvalResults kind = "lm-eval:results"
)

var lmEvalHarness = harness{
	name:       "lm-evaluation-harness",
	recognised: "`results` with `task_hashes`, `lm_eval_version` or `n-shot`, or with `versions` and `config`; rows with `doc_id` and `resps`",
	runs:       "a task of a results file",
	scores:     "`<filter>/<metric>`; without filters the filter is `none`",
	parts: []part{
		{kind: lmEvalSamples, together: (*file).dir, fits: func(s *Shape) bool {
			return s.Has("doc_id") && s.HasAny("filtered_resps", "resps") && s.HasAny("doc", "target", "doc_hash")
		}},
		{kind: lmEvalResults, together: (*file).dir, fits: func(s *Shape) bool {
			return s.Kinds["results"] == jsonstream.Object && (s.HasAny("task_hashes", "lm_eval_version", "n-shot") || s.Has("versions", "config"))
		}},
	},
	read: (*session).lmEval,
	companions: func(f *file) func(string) bool {
		if f.kind != lmEvalResults {
			return nil
		}
		date := f.date()
		return func(base string) bool {
			return strings.HasPrefix(base, "samples_") && date != "" && strings.HasSuffix(base, "_"+date+".jsonl")
		}
	},
}

// lmEval reads the results files of a folder, and with each the samples that
// were written with it. A run is one task of one results file.
func (s *session) lmEval(g []*file) error {
	samples := map[*file]bool{}
	for _, f := range g {
		if f.kind == lmEvalSamples {
			samples[f] = true
		}
	}
	for _, f := range g {
		if f.kind != lmEvalResults {
			continue
		}
		if err := s.lmEvalResults(f, samples); err != nil {
			return err
		}
	}
	for _, f := range g {
		if samples[f] { // without results: the rows are all there is
			if err := s.lmEvalAlone(f); err != nil {
				return err
			}
		}
	}
	return nil
}

// date is the moment in the name of a file, which results and samples share.
func (f *file) date() string {
	if m := regexp.MustCompile(`_(\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(?:\.\d+)?)\.jsonl?$`).FindStringSubmatch(f.base()); m != nil {
		return m[1]
	}
	return ""
}

// lmHeader is the part of a results file that is about all of its tasks.
type lmHeader struct {
	setup.LMEval
	version, model, source string
	date                   any
	higher, groupNames     any
	started                string
}

func (s *session) lmEvalResults(f *file, samples map[*file]bool) error {
	var h lmHeader
	err := s.json(f, func(r *jsonstream.Reader) error {
		err := object(r, fields{
			"results": anything(r, &h.Results), "config": anything(r, &h.Config), "configs": anything(r, &h.Configs),
			"task_hashes": anything(r, &h.Hashes), "n-samples": anything(r, &h.Counts), "versions": anything(r, &h.Versions),
			"higher_is_better": anything(r, &h.higher), "group_subtasks": anything(r, &h.groupNames),
			"lm_eval_version": scalar(r, &h.version), "model_name": scalar(r, &h.model), "model_source": scalar(r, &h.source), "date": anything(r, &h.date),
			"n-shot": anything(r, &h.Shots), "samples_sha256": anything(r, &h.Dataset), "git_hash": anything(r, &h.Commit),
			"start_time": scalar(r, &h.started), "end_time": scalar(r, &h.Ended),
		})
		if err != nil {
			return err
		}
		return r.End()
	})
	if err != nil {
		return err
	}
	tasks, _ := h.Results.(map[string]any)
	if len(tasks) == 0 {
		return unrecognised("%s: results has no task", f.path)
	}
	for _, task := range slices.Sorted(maps.Keys(tasks)) {
		own, err := s.lmEvalPair(f, task, textOf(member(h.Hashes, task)), samples)
		if err != nil {
			return err
		}
		delete(samples, own)
		if err := s.lmEvalTask(f, &h, task, own); err != nil {
			return err
		}
	}
	return nil
}

// lmEvalPair finds the samples of a task: by the name that the harness gives
// them, else, for files that were renamed, by the hash that the results state.
func (s *session) lmEvalPair(f *file, task, hash string, samples map[*file]bool) (*file, error) {
	candidates := slices.SortedFunc(maps.Keys(samples), func(a, b *file) int { return strings.Compare(a.path, b.path) })
	for _, c := range candidates {
		if f.date() != "" && c.base() == "samples_"+task+"_"+f.date()+".jsonl" {
			return c, nil
		}
	}
	for _, c := range candidates {
		if hash == "" || c.date() != "" {
			continue
		}
		// A builder of no run reads the rows without counting them.
		scratch := &run{Builder: results.NewBuilder("", results.Source{}, nil), session: s}
		rows, err := scratch.lmRows(c)
		if err != nil {
			return nil, err
		}
		if rows.hashed && hex.EncodeToString(rows.hash.Sum(nil)) == hash {
			return c, nil
		}
	}
	return nil, nil
}

func (s *session) lmEvalTask(f *file, h *lmHeader, task string, samples *file) error {
	b := s.begin("lm-evaluation-harness")
	b.Run.Task = results.Known(task)
	b.Run.HarnessVersion = results.Known(h.version)
	b.Run.Model = results.Known(lmModel(h))
	b.Run.StartedAt = cmp.Or(results.Epoch(textOf(h.date)), setup.Moment(h.started))
	if s.opt.Setup {
		h.Model = lmModel(h)
		how, err := h.Of(task)
		if err != nil {
			return refuseIn(f, task, err)
		}
		b.Run.Setup = how
	}
	stated, err := b.lmStated(member(h.Results, task))
	if err != nil {
		return refuseIn(f, task, err)
	}
	if samples == nil {
		why := "the samples file was not given"
		if len(listOf(member(h.groupNames, task))) > 0 {
			why = "a group: its numbers are means over its tasks"
		}
		b.Check("means", results.Skip, "%s", why)
		b.Check("task hash", results.Skip, "%s", why)
		b.Check("sample count", results.Skip, "%s", why)
		b.finish(f)
		return nil
	}
	rows, err := b.lmRows(samples)
	if err != nil {
		return err
	}
	b.lmCheck(h, task, stated, rows)
	b.finish(f, samples)
	return nil
}

func lmModel(h *lmHeader) string {
	if h.model != "" {
		return h.model
	}
	args := textOf(member(h.Config, "model_args"))
	for part := range strings.SplitSeq(args, ",") {
		if name, ok := strings.CutPrefix(strings.TrimSpace(part), "pretrained="); ok {
			return name
		}
	}
	if name := textOf(member(h.Config, "model_args", "pretrained")); name != "" {
		return name
	}
	return textOf(member(h.Config, "model"))
}

// A metric is one number of an lm-eval task.
type lmMetric struct{ filter, name string }

// lmStated records the numbers of a task. Keys are "metric,filter"; before 0.4
// there were no filters, and today's name for none is "none".
func (b *run) lmStated(task any) (map[lmMetric]float64, error) {
	stated := map[lmMetric]float64{}
	members, _ := task.(map[string]any)
	for _, key := range slices.Sorted(maps.Keys(members)) {
		if key == "alias" || key == "name" || key == "sample_len" || key == "samples" {
			continue
		}
		v, err := floatOf(members[key])
		if err != nil {
			return nil, err
		}
		// The filter's name has no comma; a metric's may.
		m := lmMetric{"none", key}
		if i := strings.LastIndex(key, ","); i >= 0 {
			m = lmMetric{key[i+1:], key[:i]}
		}
		if v == nil {
			b.Note("a metric without a number: " + key)
			continue
		}
		stated[m] = *v
		if err := b.State(m.filter, m.name, *v); err != nil {
			return nil, err
		}
	}
	return stated, nil
}

// lmRowTotals is what the rows of a samples file give.
type lmRowTotals struct {
	hash           hash.Hash // over the rows' hashes, as the harness makes task_hashes
	hashed         bool      // every row had its three hashes
	docs           map[string]struct{}
	badTarget      int64 // rows whose target is not what its hash says
	checkedTargets int64
	badPrompt      int64
	checkedPrompts int64
}

// lmRow is one row.
type lmRow struct {
	id, filter                string
	docHash, promptHash, goal string
	target, prompt            jsonstream.Digest
	hasTarget, hasPrompt      bool
	sample                    results.Sample
}

func (b *run) lmRows(f *file) (*lmRowTotals, error) {
	t := &lmRowTotals{hash: sha256.New(), hashed: true, docs: map[string]struct{}{}}
	var metrics []string
	err := b.session.json(f, func(r *jsonstream.Reader) error {
		var row lmRow
		values := map[string]results.Score{}
		read := row.fields(r, &metrics)
		return f.rows(r, "", func() error {
			row, metrics = lmRow{}, metrics[:0]
			clear(values)
			err := r.Object(func(name string) error {
				if known := read[name]; known != nil {
					return known()
				}
				k, err := r.Peek()
				if err != nil || k != jsonstream.Digits && k != jsonstream.Bool && k != jsonstream.Null {
					return err
				}
				values[name], err = readScore(r)
				return err
			})
			if err != nil {
				return err
			}
			t.add(&row)
			return b.lmAdd(&row, metrics, values)
		})
	})
	return t, err
}

func (row *lmRow) fields(r *jsonstream.Reader, metrics *[]string) fields {
	first := func(to *jsonstream.Digest, has *bool) func() error {
		return func() error {
			k, err := r.Peek()
			if err != nil || k != jsonstream.Text || *has {
				return err
			}
			*has = true
			*to, err = r.Digest(results.HeadBytes)
			return err
		}
	}
	prompt := first(&row.prompt, &row.hasPrompt)
	return fields{
		"doc_id": scalar(r, &row.id), "filter": scalar(r, &row.filter),
		"doc_hash": scalar(r, &row.docHash), "prompt_hash": scalar(r, &row.promptHash), "target_hash": scalar(r, &row.goal),
		"target": first(&row.target, &row.hasTarget),
		"arguments": func() error {
			k, err := r.Peek()
			if err != nil || k != jsonstream.Object {
				return err
			}
			return object(r, fields{"gen_args_0": inside(r, fields{"arg_0": func() error {
				k, err := r.Peek()
				if err != nil || k != jsonstream.Array {
					return prompt()
				}
				return r.Array(func(int) error { return prompt() })
			}})})
		},
		"filtered_resps": text(r, &row.sample.Answer),
		"metrics": func() error {
			return list(r, func(int) error {
				name, err := r.Scalar()
				*metrics = append(*metrics, name)
				return err
			})
		},
	}
}

func (t *lmRowTotals) add(row *lmRow) {
	t.docs[row.id] = struct{}{}
	if row.docHash == "" || row.promptHash == "" || row.goal == "" {
		t.hashed = false
		return
	}
	t.hash.Write([]byte(row.docHash + row.promptHash + row.goal))
	if row.hasTarget {
		t.checkedTargets++
		if hex.EncodeToString(row.target.SHA256[:]) != row.goal {
			t.badTarget++
		}
	}
	if row.hasPrompt {
		t.checkedPrompts++
		if hex.EncodeToString(row.prompt.SHA256[:]) != row.promptHash {
			t.badPrompt++
		}
	}
}

// lmAdd adds a row. Its scores are the metrics that it lists, or, in files
// before that list, its numbers.
func (b *run) lmAdd(row *lmRow, metrics []string, values map[string]results.Score) error {
	if len(metrics) == 0 {
		metrics = slices.Sorted(maps.Keys(values))
	}
	if row.filter == "" {
		row.filter = "none"
	}
	s := row.sample
	s.ID, s.Attempt = row.id, 1
	s.Input, s.Expected = results.TextFrom(row.prompt), results.TextFrom(row.target)
	if !row.hasPrompt {
		s.Input = results.Text{}
	}
	if !row.hasTarget {
		s.Expected = results.Text{}
	}
	s.Scores = make(map[string]results.Score, len(metrics))
	for _, m := range metrics {
		s.Scores[results.MetricKey(row.filter, m)] = values[m]
	}
	return b.Add(s, row.filter)
}

func (b *run) lmCheck(h *lmHeader, task string, stated map[lmMetric]float64, rows *lmRowTotals) {
	b.lmMeans(h, task, stated)
	switch want := textOf(member(h.Hashes, task)); {
	case want == "":
		b.Check("task hash", results.Skip, "the results file has no task hash for %s", task)
	case !rows.hashed:
		b.Check("task hash", results.Skip, "some rows have no doc_hash, prompt_hash or target_hash")
	default:
		got := hex.EncodeToString(rows.hash.Sum(nil))
		status := results.Pass
		if got != want {
			status = results.Fail
		}
		b.Check("task hash", status, "stated %s, recomputed %s from %d rows", want, got, b.Run.Samples)
	}
	if effective, ok := intOf(member(h.Counts, task, "effective")); ok {
		b.CheckCount("sample count", effective, int64(len(rows.docs)))
	} else {
		b.Check("sample count", results.Skip, "the results file does not say how many samples %s had", task)
	}
	b.lmRowChecks(rows)
}

func (b *run) lmRowChecks(rows *lmRowTotals) {
	for _, c := range []struct {
		name         string
		checked, bad int64
	}{{"target hashes", rows.checkedTargets, rows.badTarget}, {"prompt hashes", rows.checkedPrompts, rows.badPrompt}} {
		switch {
		case c.checked == 0:
			b.Check(c.name, results.Skip, "no row has both the text and its hash")
		case c.bad > 0:
			b.Check(c.name, results.Fail, "%d of %d rows do not have the hash that they state", c.bad, c.checked)
		default:
			b.Check(c.name, results.Pass, "%d rows", c.checked)
		}
	}
	b.CheckAttempts()
}

// lmMeans compares each number with the mean of its rows. Only metrics that are
// means can be: the settings of the task say which are.
func (b *run) lmMeans(h *lmHeader, task string, stated map[lmMetric]float64) {
	keys := slices.SortedFunc(maps.Keys(stated), func(a, b lmMetric) int {
		return strings.Compare(a.filter+"/"+a.name, b.filter+"/"+b.name)
	})
	for _, m := range keys {
		if strings.HasSuffix(m.name, "_stderr") {
			continue
		}
		name := "mean " + results.MetricKey(m.filter, m.name)
		totals := b.Totals(results.MetricKey(m.filter, m.name))
		aggregation := lmAggregation(h, task, m.name)
		switch {
		case totals.N == 0:
			b.Check(name, results.Skip, "no row of the filter %s has %s", m.filter, m.name)
		case aggregation != "" && aggregation != "mean":
			b.Check(name, results.Skip, "%s is a %s and not a mean", m.name, aggregation)
		default:
			b.CheckNumber(name, stated[m], totals.Mean())
		}
	}
}

func lmAggregation(h *lmHeader, task, metric string) string {
	for _, m := range listOf(member(h.Configs, task, "metric_list")) {
		if textOf(member(m, "metric")) == metric {
			return textOf(member(m, "aggregation"))
		}
	}
	return ""
}

// lmEvalAlone reads samples without their results. The rows do not say which
// task they are of; the name that the harness gives the file does.
func (s *session) lmEvalAlone(f *file) error {
	b := s.begin("lm-evaluation-harness")
	if name, ok := strings.CutPrefix(path.Base(f.base()), "samples_"); ok && f.date() != "" {
		b.Run.Task = results.Known(strings.TrimSuffix(name, "_"+f.date()+".jsonl"))
	}
	rows, err := b.lmRows(f)
	if err != nil {
		return err
	}
	for _, name := range b.Scorers() {
		if t := b.Totals(name); t.N > 0 {
			filter, metric, _ := strings.Cut(name, "/")
			if err := b.Derive(filter, metric, t.Mean()); err != nil {
				return err
			}
		}
	}
	b.Check("means", results.Skip, "the results file was not given; the metrics are means of the rows")
	b.Check("task hash", results.Skip, "the results file was not given")
	b.lmRowChecks(rows)
	b.finish(f)
	return nil
}
