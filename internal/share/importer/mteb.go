package importer

import (
	"maps"
	"slices"

	"tallystick/internal/read/results"
	"tallystick/internal/record/jsonstream"
)

// The kinds of files.
const (
	mtebTask  kind = "mteb:task"
	mtebModel kind = "mteb:model"
)

var mtebHarness = harness{
	name:       "MTEB",
	recognised: "`mteb_version` with `task_name` and `scores`, or the older `mteb_dataset_name`",
	runs:       "a task",
	scores:     "none: there are no rows",
	parts: []part{
		{kind: mtebTask, together: (*file).dir, fits: func(s *Shape) bool {
			return s.Has("mteb_version") && (s.Has("task_name", "scores") || s.Has("mteb_dataset_name"))
		}},
		{kind: mtebModel, together: (*file).dir, fits: func(s *Shape) bool {
			return s.Has("name", "revision") && s.HasAny("n_parameters", "embed_dim", "similarity_fn_name")
		}},
	},
	read: (*session).mteb,
}

// mteb reads the tasks of a folder, each a run, and from model_meta.json beside
// them which model it was. MTEB keeps no rows.
func (s *session) mteb(g []*file) error {
	var model results.Known
	var meta *file
	for _, f := range g {
		if f.kind != mtebModel {
			continue
		}
		err := s.json(f, func(r *jsonstream.Reader) error { return object(r, fields{"name": known(r, &model)}) })
		if err != nil {
			return err
		}
		meta = f
	}
	for _, f := range g {
		if f.kind != mtebTask {
			continue
		}
		if err := s.mtebTask(f, model, meta); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) mtebTask(f *file, model results.Known, meta *file) error {
	b := s.begin("mteb")
	b.Run.Model = model
	var scores, date any
	splits := map[string]any{} // of files before version 1.11, at the top
	err := s.json(f, func(r *jsonstream.Reader) error {
		read := fields{"mteb_version": known(r, &b.Run.HarnessVersion), "task_name": known(r, &b.Run.Task), "mteb_dataset_name": known(r, &b.Run.Task),
			"scores": anything(r, &scores), "date": anything(r, &date)}
		err := r.Object(func(name string) error {
			if f := read[name]; f != nil {
				return f()
			}
			if k, err := r.Peek(); err != nil || k != jsonstream.Object {
				return err
			}
			v, err := r.Any(maxSmall)
			splits[name] = v
			return err
		})
		if err != nil {
			return err
		}
		return r.End()
	})
	if err != nil {
		return err
	}
	b.Run.StartedAt = results.Epoch(textOf(date))
	if err := b.mtebScores(scores, splits); err != nil {
		return refuseIn(f, "scores", err)
	}
	b.Check("means from rows", results.Skip, "MTEB keeps no rows")
	if meta != nil {
		b.finish(f, meta)
	} else {
		b.finish(f)
	}
	return nil
}

func (b *run) mtebScores(scores any, splits map[string]any) error {
	bySplit, _ := scores.(map[string]any)
	for _, split := range slices.Sorted(maps.Keys(bySplit)) {
		entries := listOf(bySplit[split])
		for _, e := range entries {
			scorer := split
			if subset := textOf(member(e, "hf_subset")); len(entries) > 1 || subset != "" && subset != "default" {
				scorer += ":" + subset
			}
			if err := b.mtebEntry(scorer, e); err != nil {
				return err
			}
		}
	}
	for _, split := range slices.Sorted(maps.Keys(splits)) {
		flat := map[string]results.Score{}
		if err := flatten(split, splits[split], flat, 0); err != nil {
			return err
		}
		for _, name := range slices.Sorted(maps.Keys(flat)) {
			if v := flat[name].Value; v != nil && len(name) > len(split) && name != split+"/evaluation_time" {
				if err := b.State(split, name[len(split)+1:], *v); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// mtebEntry states the numbers of one split and subset, and checks those that
// are means over experiments.
func (b *run) mtebEntry(scorer string, e any) error {
	m, _ := e.(map[string]any)
	experiments := listOf(m["scores_per_experiment"])
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if _, isNumber := m[name].(jsonstream.Number); !isNumber {
			continue
		}
		v, err := floatOf(m[name])
		if err != nil {
			return err
		}
		if v == nil {
			continue
		}
		if err := b.State(scorer, name, *v); err != nil {
			return err
		}
		var values []float64
		for _, x := range experiments {
			if part, err := floatOf(member(x, name)); err != nil {
				return err
			} else if part != nil {
				values = append(values, *part)
			}
		}
		if t := results.Of(values); t.N > 0 && int(t.N) == len(experiments) {
			b.CheckNumber("mean of experiments "+results.MetricKey(scorer, name), *v, t.Mean())
		}
	}
	return nil
}
