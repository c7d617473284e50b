package importer

import (
	"maps"
	"path"
	"slices"
	"strconv"

	"tallystick/internal/read/results"
	"tallystick/internal/record/jsonstream"
)

// The kinds of files.
const (
	benchTrial    kind = "terminal-bench:trial"
	benchRun      kind = "terminal-bench:run"
	benchMetadata kind = "terminal-bench:metadata"
)

var benchHarness = harness{
	name:       "terminal-bench",
	recognised: "`results[].is_resolved`, and trials' own files",
	runs:       "a run folder",
	scores:     "`resolved`",
	parts: []part{
		{kind: benchTrial, together: func(f *file) string { return path.Dir(path.Dir(f.dir())) }, fits: func(s *Shape) bool { return s.Has("trial_name", "task_id", "is_resolved") }}, // <run>/<task>/<trial>/results.json
		{kind: benchRun, together: (*file).dir, fits: func(s *Shape) bool {
			return s.Has("results") && (s.Has("results[].is_resolved") || s.Has("resolved_ids", "n_resolved"))
		}},
		{kind: benchMetadata, together: (*file).dir, fits: func(s *Shape) bool { return s.Has("run_id", "agent_name", "n_attempts", "task_ids") }},
	},
	read: (*session).terminalBench,
	companions: func(f *file) func(string) bool {
		if f.kind != benchRun {
			return nil
		}
		return func(base string) bool { return base == "run_metadata.json" }
	},
}

// A benchTrialRow is one trial.
type benchTrialRow struct {
	task, name, failure, began string
	instruction                results.Text
	resolved                   *bool
}

func (t *benchTrialRow) fields(r *jsonstream.Reader) fields {
	return fields{
		"task_id": scalar(r, &t.task), "trial_name": scalar(r, &t.name), "failure_mode": scalar(r, &t.failure), "trial_started_at": scalar(r, &t.began),
		"instruction": text(r, &t.instruction), "is_resolved": truth(r, &t.resolved),
	}
}

// sample is the trial as a row. The benchmark counts a timeout as not resolved,
// and so do we: it says so in is_resolved. A trial without a verdict is an error.
func (t *benchTrialRow) sample() results.Sample {
	s := results.Sample{ID: t.task, Input: t.instruction, Trajectory: t.name}
	if t.failure != "" && t.failure != "unset" && t.failure != "none" {
		s.Error = t.failure
	}
	if t.resolved != nil {
		s.Scores = map[string]results.Score{"resolved": results.BoolScore(*t.resolved)}
	} else if s.Error == "" {
		s.Error = "the trial has no verdict"
	}
	return s
}

// benchFolder is a run folder while it is read.
type benchFolder struct {
	run              *run
	used             []*file
	header, metadata any
	verdicts         map[string]string // of the run's rows, by trial
	trials, differ   int               // trials' own files, and those that say otherwise
}

// terminalBench reads a run folder: results.json, run_metadata.json, and the
// results of each trial, which are compared with the first. Without it they are
// the rows.
func (s *session) terminalBench(g []*file) error {
	d := &benchFolder{run: s.begin("terminal-bench"), verdicts: map[string]string{}}
	d.run.KeepAttempts = true
	slices.SortStableFunc(g, func(a, b *file) int {
		return order(a.kind, benchRun, benchMetadata) - order(b.kind, benchRun, benchMetadata)
	})
	for _, f := range g {
		if err := d.read(f); err != nil {
			return err
		}
		d.used = append(d.used, f)
	}
	if err := d.run.benchFinish(d.header, d.metadata); err != nil {
		return refuseIn(d.used[0], "totals", err)
	}
	if d.header != nil && d.trials > 0 {
		status := results.Pass
		if d.differ > 0 {
			status = results.Fail
		}
		d.run.Check("trial files", status, "%d of %d trials have another verdict in their own file", d.differ, d.trials)
	}
	d.run.finish(d.used...)
	return nil
}

func (d *benchFolder) read(f *file) (err error) {
	s := d.run.session
	switch f.kind {
	case benchRun:
		if d.header != nil {
			return unrecognised("%s: a second results.json for the run of %s", f.path, d.used[0].path)
		}
		d.header, err = d.run.benchRows(f, d.verdicts)
		return err
	case benchMetadata:
		return s.json(f, func(r *jsonstream.Reader) error { return anything(r, &d.metadata)() })
	}
	var t benchTrialRow
	if err := s.json(f, func(r *jsonstream.Reader) error { return object(r, t.fields(r)) }); err != nil {
		return err
	}
	d.trials++
	if d.header == nil {
		d.run.startedAt(t.began)
		return d.run.Add(t.sample(), "")
	}
	if d.verdicts[t.name] != verdict(t.resolved) {
		d.differ++
	}
	return nil
}

// order is the place of k in kinds; what is not there comes last.
func order(k kind, kinds ...kind) int {
	if i := slices.Index(kinds, k); i >= 0 {
		return i
	}
	return len(kinds)
}

func verdict(resolved *bool) string {
	if resolved == nil {
		return "none"
	}
	return strconv.FormatBool(*resolved)
}

// startedAt keeps the earliest start.
func (b *run) startedAt(s string) {
	if at := results.Moment(s); at != "" && (b.Run.StartedAt == "" || at < b.Run.StartedAt) {
		b.Run.StartedAt = at
	}
}

func (b *run) benchRows(f *file, verdicts map[string]string) (header any, err error) {
	top := map[string]any{}
	err = b.session.json(f, func(r *jsonstream.Reader) error {
		err := r.Object(func(name string) error {
			if name != "results" {
				if name == "resolved_ids" || name == "unresolved_ids" {
					return nil // the rows have them
				}
				v, err := r.Any(maxSmall)
				top[name] = v
				return err
			}
			var t benchTrialRow
			f := t.fields(r)
			return list(r, func(int) error {
				t = benchTrialRow{}
				if err := object(r, f); err != nil {
					return err
				}
				if len(verdicts) < maxHeld {
					verdicts[t.name] = verdict(t.resolved)
				}
				b.startedAt(t.began)
				return b.Add(t.sample(), "")
			})
		})
		if err != nil {
			return err
		}
		return r.End()
	})
	return top, err
}

func (b *run) benchFinish(header, metadata any) error {
	if name := textOf(member(metadata, "dataset_name")); name != "" {
		b.Run.Task = results.Known(name)
		if version := textOf(member(metadata, "dataset_version")); version != "" {
			b.Run.Task += results.Known("@" + version)
		}
	}
	b.Run.Model = results.Known(textOf(member(metadata, "model_name")))
	if agent := textOf(member(metadata, "agent_name")); agent != "" {
		b.Note("the agent is " + results.Cut(agent))
	}
	if at := results.Moment(textOf(member(metadata, "start_time"))); at != "" {
		b.Run.StartedAt = at
	}
	t := b.Totals("resolved")
	if header == nil {
		b.Check("accuracy", results.Skip, "the run's results.json was not given; the metrics are of its trials")
	}
	if err := b.benchAccuracy(header, metadata, t); err != nil {
		return err
	}
	for _, c := range []struct {
		name  string
		found int64
	}{{"n_resolved", t.Passed}, {"n_unresolved", b.Run.Samples - t.Passed}} {
		if n, ok := intOf(member(header, c.name)); ok {
			b.CheckCount(c.name, n, c.found)
		}
	}
	size, ok := intOf(member(metadata, "dataset_size"))
	attempts, ok2 := intOf(member(metadata, "n_attempts"))
	if ok && ok2 {
		b.CheckCount("sample count", size*attempts, b.Run.Samples)
		b.CheckCount("attempts of a task", attempts, b.Run.Attempts)
	} else {
		b.Check("sample count", results.Skip, "run_metadata.json was not given")
	}
	if b.Run.Samples > 0 {
		return b.Derive("resolved", "accuracy", float64(t.Passed)/float64(b.Run.Samples))
	}
	return nil
}

// benchAccuracy checks accuracy, over all trials, and pass@k.
func (b *run) benchAccuracy(header, metadata any, t *results.Totals) error {
	for _, from := range []struct {
		name string
		in   any
	}{{"accuracy", header}, {"accuracy of run_metadata.json", metadata}} {
		stated, err := floatOf(member(from.in, "accuracy"))
		if err != nil || stated == nil {
			if err != nil {
				return err
			}
			continue
		}
		if err := b.State("resolved", "accuracy", *stated); err != nil {
			return err
		}
		if b.Run.Samples > 0 {
			b.CheckNumber(from.name, *stated, float64(t.Passed)/float64(b.Run.Samples))
		}
	}
	return b.passAtK("resolved", member(header, "pass_at_k"))
}

// passAtK checks stated values of pass@k against the trials.
func (b *run) passAtK(scorer string, stated any) error {
	values, _ := stated.(map[string]any)
	t := b.Totals(scorer)
	for _, key := range slices.Sorted(maps.Keys(values)) {
		v, err := floatOf(values[key])
		if err != nil {
			return err
		}
		if v == nil {
			continue
		}
		if err := b.State(scorer, "pass@"+key, *v); err != nil {
			return err
		}
		k, err := strconv.Atoi(key)
		name := "pass@" + key
		switch {
		case err != nil || k < 1:
			b.Check(name, results.Skip, "%q is not a number of attempts", key)
		case !t.Kept():
			b.Check(name, results.Skip, "there are no trials, or too many to keep")
		case t.FewestAttempts() < int64(k):
			b.Check(name, results.Skip, "a task has fewer than %d trials with a verdict", k)
		default:
			b.CheckNumber(name, *v, results.Of(t.PassAtK(k)).Mean())
		}
	}
	return nil
}
