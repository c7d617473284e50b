package importer

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"tallystick/internal/read/results"
	"tallystick/internal/record/jsonstream"
)

// The kinds of files.
const (
	sweReport   kind = "swe-bench:report"
	sweInstance kind = "swe-bench:instance"
)

var sweHarness = harness{
	name:       "SWE-bench",
	recognised: "`resolved_ids` with other lists; instances with `patch_successfully_applied` and `resolved`",
	runs:       "a report",
	scores:     "`resolved`",
	parts: []part{
		{kind: sweReport, together: sweTogether, fits: func(s *Shape) bool {
			return s.Has("resolved_ids") && s.HasAny("submitted_ids", "completed_ids", "total_instances")
		}},
		{kind: sweInstance, together: sweTogether, fits: func(s *Shape) bool { return s.Below("", "patch_successfully_applied", "resolved") }},
	},
	read: (*session).sweBench,
}

// sweTogether is the same for all: report and instances lie far apart, and the
// reader pairs them.
func sweTogether(*file) string { return "" }

// An sweVerdict is what an instance's own report says.
type sweVerdict struct {
	file     *file
	id       string
	resolved *bool
	infra    *bool
	applied  *bool
}

// sweBench reads reports, each a run, and the reports of single instances, which
// are compared with the report of their run or, without one, are a run.
func (s *session) sweBench(g []*file) error {
	instances := map[string][]*sweVerdict{} // by "<model>.<run>"
	var folders []string
	for _, f := range g {
		if f.kind != sweInstance {
			continue
		}
		found, err := s.sweInstances(f)
		if err != nil {
			return err
		}
		model := path.Dir(f.dir())
		key := path.Base(model) + "." + path.Base(path.Dir(model))
		if instances[key] == nil {
			folders = append(folders, key)
		}
		instances[key] = append(instances[key], found...)
	}
	for _, f := range g {
		if f.kind != sweReport {
			continue
		}
		key := strings.TrimSuffix(f.base(), ".json")
		if err := s.sweReport(f, instances[key]); err != nil {
			return err
		}
		delete(instances, key)
	}
	for _, key := range folders {
		if found := instances[key]; found != nil {
			if err := s.sweAlone(key, found); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *session) sweInstances(f *file) ([]*sweVerdict, error) {
	var found []*sweVerdict
	err := s.json(f, func(r *jsonstream.Reader) error {
		return r.Object(func(id string) error {
			v := &sweVerdict{file: f, id: id}
			found = append(found, v)
			return inside(r, fields{"resolved": truth(r, &v.resolved), "infra_failure": truth(r, &v.infra), "patch_successfully_applied": truth(r, &v.applied)})()
		})
	})
	return found, err
}

// sweModel is in the name of a report only: <model>.<run>.json.
func (b *run) sweModel(name string) {
	if i := strings.LastIndex(name, "."); i > 0 {
		b.Run.Model = results.Known(strings.ReplaceAll(name[:i], "__", "/"))
		b.Note("the run id is " + results.Cut(name[i+1:]))
	}
}

func (s *session) sweReport(f *file, instances []*sweVerdict) error {
	b := s.begin("swe-bench")
	b.sweModel(strings.TrimSuffix(f.base(), ".json"))
	report := map[string]any{}
	err := s.json(f, func(r *jsonstream.Reader) error {
		err := r.Object(func(name string) (err error) {
			report[name], err = r.Any(maxSmall)
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
	states, twice := sweStates(report)
	for _, id := range slices.Sorted(maps.Keys(states)) {
		if err := b.Add(sweSample(id, states[id]), ""); err != nil {
			return err
		}
	}
	if err := b.sweStated(report); err != nil {
		return refuseIn(f, "counts", err)
	}
	if len(twice) > 0 {
		b.Check("one outcome each", results.Fail, "%d instances are in two lists, such as %s", len(twice), results.Cut(twice[0]))
	} else {
		b.Check("one outcome each", results.Pass, "%d instances", len(states))
	}
	used := []*file{f}
	if len(instances) > 0 {
		differ := 0
		for _, v := range instances {
			if (states[v.id] == "resolved") != (v.resolved != nil && *v.resolved) {
				differ++
			}
			used = append(used, v.file)
		}
		status := results.Pass
		if differ > 0 {
			status = results.Fail
		}
		b.Check("instance reports", status, "%d of %d instances have another outcome in their own report", differ, len(instances))
	} else {
		b.Check("instance reports", results.Skip, "logs/run_evaluation was not given")
	}
	if t := b.Totals("resolved"); t.N > 0 {
		if err := b.Derive("resolved", "mean", t.Mean()); err != nil {
			return err
		}
	}
	b.finish(used...)
	return nil
}

// sweStates gives each instance its outcome. Two lists that overlap contradict
// each other; the first in this order counts.
func sweStates(report map[string]any) (states map[string]string, twice []string) {
	states = map[string]string{}
	for _, state := range []string{"resolved", "unresolved", "error", "empty_patch", "infra_failure", "ambiguous_failure"} {
		for _, v := range listOf(report[state+"_ids"]) {
			id := textOf(v)
			switch before := states[id]; {
			case before == "":
				states[id] = state
			case state != "infra_failure" && state != "ambiguous_failure":
				twice = append(twice, id)
			case before == "unresolved" || before == "error":
				states[id] = state // why it was not resolved
			}
		}
	}
	for _, v := range listOf(report["submitted_ids"]) {
		if id := textOf(v); states[id] == "" {
			states[id] = "submitted"
		}
	}
	return states, twice
}

// sweSample is an instance as a row. A patch that is empty is an answer, and a
// wrong one; a machine that failed is not.
func sweSample(id, state string) results.Sample {
	s := results.Sample{ID: id, Attempt: 1}
	switch state {
	case "resolved":
		s.Scores = map[string]results.Score{"resolved": results.BoolScore(true)}
	case "unresolved", "empty_patch":
		score := results.BoolScore(false)
		score.Said = state
		s.Scores = map[string]results.Score{"resolved": score}
	case "submitted":
	default:
		s.Error = state
	}
	return s
}

func (b *run) sweStated(report map[string]any) error {
	for _, name := range slices.Sorted(maps.Keys(report)) {
		list, ok := strings.CutSuffix(name, "_instances")
		if !ok {
			continue
		}
		v, err := floatOf(report[name])
		if err != nil {
			return err
		}
		if v == nil {
			continue
		}
		if err := b.State("report", name, *v); err != nil {
			return err
		}
		ids, has := report[list+"_ids"].([]any)
		if n, ok := intOf(report[name]); ok && (has || report[list+"_ids"] != nil) {
			b.CheckCount(name, n, int64(len(ids)))
		}
	}
	total, err := floatOf(report["total_instances"])
	if err != nil {
		return err
	}
	if total != nil && *total > 0 {
		return b.Derive("resolved", "of_total", float64(len(listOf(report["resolved_ids"])))/(*total))
	}
	return nil
}

func (s *session) sweAlone(key string, found []*sweVerdict) error {
	b := s.begin("swe-bench")
	b.sweModel(key)
	var used []*file
	for _, v := range found {
		state := "unresolved"
		switch {
		case v.infra != nil && *v.infra:
			state = "infra_failure"
		case v.resolved == nil:
			state = "no outcome"
		case *v.resolved:
			state = "resolved"
		}
		if err := b.Add(sweSample(v.id, state), ""); err != nil {
			return err
		}
		if !slices.Contains(used, v.file) {
			used = append(used, v.file)
		}
	}
	b.Check("counts", results.Skip, "the report of the run was not given")
	if err := b.DeriveMeans(); err != nil {
		return fmt.Errorf("%s: %w", used[0].path, err)
	}
	b.CheckAttempts()
	b.finish(used...)
	return nil
}
