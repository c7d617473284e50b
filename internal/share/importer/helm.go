package importer

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"tallystick/internal/read/results"
	"tallystick/internal/record/jsonstream"
	"tallystick/internal/record/refusal"
)

// The kinds of files.
const (
	helmState     kind = "helm:scenario_state"
	helmSpec      kind = "helm:run_spec"
	helmInstances kind = "helm:per_instance_stats"
	helmStats     kind = "helm:stats"
	helmScenario  kind = "helm:scenario"
)

var helmHarness = harness{
	name:       "HELM",
	recognised: "`run_spec.json`, `scenario_state.json`, `per_instance_stats.json`, `stats.json` by their members",
	runs:       "a run folder",
	scores:     "`<split>/<statistic>`, without those that only count tokens, time and the like",
	parts: []part{
		{kind: helmState, together: (*file).dir, fits: func(s *Shape) bool { return s.Has("adapter_spec", "request_states") }},
		{kind: helmSpec, together: (*file).dir, fits: func(s *Shape) bool { return s.Has("adapter_spec", "scenario_spec", "metric_specs") }},
		{kind: helmInstances, together: (*file).dir, fits: func(s *Shape) bool { return s.List && s.Has("instance_id", "stats") }},
		{kind: helmStats, together: (*file).dir, fits: func(s *Shape) bool { return s.List && s.Has("name.name", "count", "sum") }},
		{kind: helmScenario, together: (*file).dir, fits: func(s *Shape) bool { return s.Has("definition_path", "name", "tags") }},
	},
	read: (*session).helm,
	companions: func(*file) func(string) bool {
		names := []string{"run_spec.json", "scenario.json", "scenario_state.json", "stats.json", "per_instance_stats.json"}
		return func(base string) bool { return slices.Contains(names, base) }
	},
}

// maxHeld is how many samples of a run are held in memory where two files must
// be joined.
const maxHeld = 1 << 20

// helmRun is a HELM run folder while it is read.
type helmRun struct {
	run   *run
	texts map[string]*results.Sample // by instance, trial and perturbation
	means map[helmStat]map[int64]*helmMean
	split map[string]int64 // instances without a perturbation
}

// A helmStat is the name of a statistic.
type helmStat struct{ name, split, sub, perturbation, computed string }

func (n helmStat) scorer() string {
	parts := []string{n.split}
	if n.sub != "" {
		parts = append(parts, n.sub)
	}
	if n.perturbation != "" {
		parts = append(parts, n.perturbation)
	}
	if n.computed != "" {
		parts = append(parts, n.computed) // on the worst case, the original, ...
	}
	return strings.Join(parts, ":")
}

// helmMean adds up one statistic over the instances of a trial.
type helmMean struct {
	sum   float64
	count int64
}

// helm reads one run folder. Its metrics are the means of stats.json.
func (s *session) helm(g []*file) error {
	by := map[kind]*file{}
	for _, f := range g {
		by[f.kind] = f
	}
	if by[helmSpec] == nil && by[helmStats] == nil && by[helmInstances] == nil && by[helmState] == nil {
		return nil // scenario.json alone describes no run
	}
	h := &helmRun{run: s.begin("helm"), texts: map[string]*results.Sample{}, means: map[helmStat]map[int64]*helmMean{}, split: map[string]int64{}}
	var read []*file
	for _, step := range []struct {
		kind kind
		read func(*file) error
	}{
		{helmSpec, h.spec}, {helmState, h.state}, {helmInstances, h.instances}, {helmStats, h.stats},
	} {
		f := by[step.kind]
		if f == nil {
			h.run.Check(strings.TrimPrefix(string(step.kind), "helm:"), results.Skip, "the run folder has no such file, or it was not given")
			continue
		}
		if err := step.read(f); err != nil {
			return err
		}
		read = append(read, f)
	}
	h.run.CheckAttempts()
	if s.opt.Setup {
		if err := h.setup(by); err != nil {
			return err
		}
	}
	h.run.finish(read...)
	return nil
}

func (h *helmRun) spec(f *file) error {
	return h.run.session.json(f, func(r *jsonstream.Reader) error {
		var annotators any
		err := object(r, fields{
			"name":         known(r, &h.run.Run.Task),
			"adapter_spec": inside(r, fields{"model": known(r, &h.run.Run.Model)}),
			"annotators":   anything(r, &annotators),
		})
		for _, a := range listOf(annotators) {
			h.run.Judge(textOf(member(a, "class_name")), textOf(member(a, "args", "model")), textOf(member(a, "args", "prompt_template")))
		}
		return err
	})
}

func helmKey(id string, trial int64, perturbation string) string {
	return fmt.Sprintf("%s\x00%d\x00%s", id, trial, perturbation)
}

// state reads the requests and what came back. Several requests may be about
// one instance: then the first has its text.
func (h *helmRun) state(f *file) error {
	return h.run.session.json(f, func(r *jsonstream.Reader) error {
		return object(r, fields{"request_states": func() error {
			return list(r, func(int) error { return h.request(r) })
		}})
	})
}

func (h *helmRun) request(r *jsonstream.Reader) error {
	var s results.Sample
	var trial int64
	var perturbation, correct, completion, failed string
	var reference, mapping any
	var success *bool
	err := object(r, fields{
		"instance": inside(r, fields{
			"id":           scalar(r, &s.ID),
			"input":        inside(r, fields{"text": text(r, &s.Input), "messages": text(r, &s.Input)}),
			"references":   func() error { return helmReferences(r, &correct) },
			"perturbation": inside(r, fields{"name": scalar(r, &perturbation)}),
		}),
		"train_trial_index": count(r, &trial),
		"reference_index":   anything(r, &reference),
		"output_mapping":    anything(r, &mapping),
		"result": inside(r, fields{
			"success": truth(r, &success), "error": excerpt(r, &failed),
			"completions": func() error {
				return list(r, func(i int) error {
					if i > 0 {
						return nil
					}
					return object(r, fields{"text": func() (err error) { completion, err = r.String(); return err }})
				})
			},
		}),
	})
	if err != nil {
		return err
	}
	key := helmKey(s.ID, trial, perturbation)
	if h.texts[key] != nil {
		return nil
	}
	if len(h.texts) == maxHeld {
		return refusal.Newf(refusal.TooLarge, "more than %d instances", maxHeld)
	}
	s.Attempt = trial + 1
	if correct != "" {
		s.Expected = results.TextOf(correct)
	}
	if said := textOf(member(mapping, strings.TrimSpace(completion))); said != "" {
		completion = said // the letter of a choice stands for its text
	}
	if reference == nil {
		s.Answer = results.TextOf(completion)
	}
	if success != nil && !*success {
		if s.Error = failed; s.Error == "" {
			s.Error = "the request failed"
		}
	}
	h.texts[key] = &s
	return nil
}

func helmReferences(r *jsonstream.Reader, correct *string) error {
	return list(r, func(int) error {
		var said string
		right := false
		err := object(r, fields{
			"output": inside(r, fields{"text": scalar(r, &said)}),
			"tags": func() error {
				return list(r, func(int) error {
					tag, err := r.Scalar()
					right = right || tag == "correct"
					return err
				})
			},
		})
		if right && *correct == "" {
			*correct = said
		}
		return err
	})
}

// helmValue is one statistic.
type helmValue struct {
	name  helmStat
	count int64
	sum   *float64
	mean  *float64
}

func helmFields(r *jsonstream.Reader, v *helmValue) fields {
	return fields{
		"name": inside(r, fields{
			"name": scalar(r, &v.name.name), "split": scalar(r, &v.name.split), "sub_split": scalar(r, &v.name.sub),
			"perturbation": inside(r, fields{"name": scalar(r, &v.name.perturbation), "computed_on": scalar(r, &v.name.computed)}),
		}),
		"count": count(r, &v.count), "sum": number(r, &v.sum), "mean": number(r, &v.mean),
	}
}

// bookkeeping are statistics that say nothing about right or wrong.
var bookkeeping = []string{"num_", "training_", "inference_", "batch_size", "finish_reason_", "prompt_truncated", "logprob", "max_prob", "predicted_index", "estimated_"}

func (n helmStat) isScore() bool {
	return !slices.ContainsFunc(bookkeeping, func(prefix string) bool { return strings.HasPrefix(n.name, prefix) })
}

func (h *helmRun) instances(f *file) error {
	seen := map[string]bool{}
	err := h.run.session.json(f, func(r *jsonstream.Reader) error {
		return list(r, func(int) error {
			s, key, err := h.instance(r)
			if err != nil {
				return err
			}
			seen[key] = true
			return h.run.Add(*s, "")
		})
	})
	if err != nil {
		return err
	}
	if len(h.texts) > 0 {
		h.run.CheckCount("instances with a request", int64(len(seen)), int64(len(h.texts)))
	}
	return nil
}

func (h *helmRun) instance(r *jsonstream.Reader) (*results.Sample, string, error) {
	var id, perturbation string
	var trial int64
	scores := map[string]results.Score{}
	var values []helmValue
	err := object(r, fields{
		"instance_id": scalar(r, &id), "train_trial_index": count(r, &trial), "perturbation": inside(r, fields{"name": scalar(r, &perturbation)}),
		"stats": func() error {
			var v helmValue
			f := helmFields(r, &v)
			return list(r, func(int) error {
				v = helmValue{}
				err := object(r, f)
				values = append(values, v)
				return err
			})
		},
	})
	for _, v := range values { // the trial may stand behind the statistics
		h.addMean(v, trial)
		if v.name.isScore() {
			scores[results.MetricKey(v.name.scorer(), v.name.name)] = results.Score{Value: v.mean}
		}
	}
	if perturbation == "" && trial == 0 && len(values) > 0 {
		h.split[values[0].name.split]++
	}
	key := helmKey(id, trial, perturbation)
	s := h.texts[key]
	if s == nil {
		s = &results.Sample{}
	}
	s.ID, s.Attempt, s.Scores = id, trial+1, scores
	if perturbation != "" {
		s.ID += "[" + perturbation + "]"
	}
	if s.Error != "" {
		s.Scores = nil // a request that failed was not answered wrongly
	}
	return s, key, err
}

func (h *helmRun) addMean(v helmValue, trial int64) {
	if v.sum == nil || v.count == 0 {
		return
	}
	if h.means[v.name] == nil {
		h.means[v.name] = map[int64]*helmMean{}
	}
	m := h.means[v.name][trial]
	if m == nil {
		m = &helmMean{}
		h.means[v.name][trial] = m
	}
	m.sum += *v.sum
	m.count += v.count
}

// mean is how HELM makes stats.json of its instances: the mean over the
// instances of each trial, then over trials.
func (h *helmRun) mean(n helmStat) (float64, bool) {
	trials := h.means[n]
	if len(trials) == 0 {
		return 0, false
	}
	sum := 0.0
	for _, trial := range slices.Sorted(maps.Keys(trials)) {
		sum += trials[trial].sum / float64(trials[trial].count)
	}
	return sum / float64(len(trials)), true
}

func (h *helmRun) stats(f *file) error {
	aggregates := 0
	err := h.run.session.json(f, func(r *jsonstream.Reader) error {
		var v helmValue
		read := helmFields(r, &v)
		return list(r, func(int) error {
			v = helmValue{}
			if err := object(r, read); err != nil {
				return err
			}
			if v.count == 0 || v.mean == nil {
				return nil // nothing was measured
			}
			if err := h.run.State(v.name.scorer(), v.name.name, *v.mean); err != nil {
				return err
			}
			if v.name == (helmStat{name: "num_instances", split: v.name.split}) && len(h.split) > 0 {
				h.run.CheckNumber("instances of "+v.name.split, *v.mean, float64(h.split[v.name.split]))
				return nil
			}
			if computed, ok := h.mean(v.name); ok {
				h.run.CheckNumber("mean "+results.MetricKey(v.name.scorer(), v.name.name), *v.mean, computed)
			} else {
				aggregates++
			}
			return nil
		})
	})
	if aggregates > 0 {
		h.run.Check("means of other statistics", results.Skip, "%d statistics are not kept for each instance", aggregates)
	}
	return err
}
