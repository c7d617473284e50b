package export

import (
	"archive/zip"
	"bytes"
	"fmt"
	"strings"
	"time"
)

// The names of the two scorers of an Inspect log: the score, and whether the case
// passed.
const (
	inspectScore  = "score"
	inspectPassed = "passed"
)

var inspectFormat = Format{Name: "inspect", Is: "a log that Inspect View opens", Files: "an Inspect log (`.eval`)", ImportsAgain: true, NeedsOut: true,
	Write: func(a *Facts, _ Hub) ([]File, error) { return Inspect(a) }}

// Inspect writes a log that Inspect View opens: what was asked, what was answered
// and how it was scored. It does not hold every event; the trajectory stays with
// the evidence. A case without a score has none here either.
func Inspect(a *Facts) ([]File, error) {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	put := func(name string, v any) error {
		data, err := encode(v)
		if err != nil {
			return err
		}
		// No time of the zip's own: the same attempt gives the same bytes.
		f, err := w.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate})
		if err != nil {
			return err
		}
		_, err = f.Write(data)
		return err
	}
	spec, plan := a.inspectSpec(), map[string]any{"name": "plan", "steps": []any{}, "config": map[string]any{}}
	if err := put("_journal/start.json", map[string]any{"version": 2, "eval": spec, "plan": plan}); err != nil {
		return nil, err
	}
	summaries := []any{}
	names := map[string]bool{}
	for i := range a.Samples {
		s := &a.Samples[i]
		name := fmt.Sprintf("samples/%s_epoch_%d.json", safeName(s.ID), s.Repeat)
		for names[name] { // two ids that differ only in what a name cannot have
			name = strings.TrimSuffix(name, fmt.Sprintf("_epoch_%d.json", s.Repeat)) + fmt.Sprintf("_%d_epoch_%d.json", i, s.Repeat)
		}
		names[name] = true
		if err := put(name, a.inspectSample(s)); err != nil {
			return nil, err
		}
		summaries = append(summaries, a.inspectSummary(s))
	}
	if err := put("summaries.json", summaries); err != nil {
		return nil, err
	}
	if err := put("header.json", a.inspectHeader(spec, plan)); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return []File{{safeName(a.ID) + ".eval", out.Bytes()}}, nil
}

func iso(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000+00:00")
}

func (a *Facts) inspectSpec() map[string]any {
	var ids []string
	seen := map[string]bool{}
	for _, s := range a.Samples {
		if !seen[s.ID] {
			seen[s.ID] = true
			ids = append(ids, s.ID)
		}
	}
	config := map[string]any{"epochs": a.Repeat}
	if a.Repeat > 1 {
		config["epochs_reducer"] = []string{"mean"}
	}
	return map[string]any{
		"eval_id": a.ID, "run_id": a.ID, "created": iso(a.Started), "task": a.Class, "task_id": a.ID, "task_version": 0, "task_attribs": map[string]any{}, "task_args": map[string]any{},
		"dataset": map[string]any{"name": a.Class, "samples": len(ids), "sample_ids": ids, "shuffled": false},
		"model":   a.model(), "model_generate_config": map[string]any{}, "model_args": map[string]any{}, "config": config,
		"packages": map[string]any{"tallystick": orUnknown(a.Version)}, "metadata": a.proof(),
		"scorers": []any{map[string]any{"name": inspectScore, "options": map[string]any{}}, map[string]any{"name": inspectPassed, "options": map[string]any{}}},
	}
}

func (a *Facts) inspectHeader(spec, plan map[string]any) map[string]any {
	status := "success"
	if !a.Finished {
		status = "started"
	}
	cases, _ := spec["dataset"].(map[string]any)["samples"].(int)
	var scores []any
	for _, name := range []string{inspectScore, inspectPassed} {
		metric := map[string]string{inspectScore: "mean", inspectPassed: "accuracy"}[name]
		values := a.perCase(name)
		if len(values) == 0 {
			continue
		}
		entry := map[string]any{"name": name, "scorer": name, "params": map[string]any{}, "scored_samples": len(values), "unscored_samples": cases - len(values),
			"metrics": map[string]any{metric: map[string]any{"name": metric, "value": meanOf(values), "params": map[string]any{}}}}
		if a.Repeat > 1 {
			entry["reducer"] = "mean"
		}
		scores = append(scores, entry)
	}
	return map[string]any{
		"version": 2, "status": status, "eval": spec, "plan": plan,
		"results": map[string]any{"total_samples": len(a.Samples), "completed_samples": len(a.Samples), "scores": scores},
		"stats":   map[string]any{"started_at": iso(a.Started), "completed_at": iso(a.Ended), "model_usage": map[string]any{}},
	}
}

// perCase is the mean of each case over its repetitions, which is how Inspect
// reduces epochs, in the order of the cases.
func (a *Facts) perCase(scorer string) []float64 {
	sums, counts := map[string]float64{}, map[string]int{}
	var order []string
	for i := range a.Samples {
		s := &a.Samples[i]
		if s.Score == nil {
			continue
		}
		if counts[s.ID] == 0 {
			order = append(order, s.ID)
		}
		v := *s.Score
		if scorer == inspectPassed {
			if v = 0; s.Passed() {
				v = 1
			}
		}
		sums[s.ID] += v
		counts[s.ID]++
	}
	var out []float64
	for _, id := range order {
		out = append(out, sums[id]/float64(counts[id]))
	}
	return out
}

func meanOf(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

func (a *Facts) inspectSample(s *Sample) map[string]any {
	message := map[string]any{"role": "assistant", "content": s.Answer, "source": "generate", "model": a.model()}
	out := map[string]any{
		"id": s.ID, "epoch": s.Repeat, "input": s.Input, "target": s.Expected,
		"messages": []any{map[string]any{"role": "user", "content": s.Input, "source": "input"}, message},
		"output": map[string]any{"model": a.model(), "completion": s.Answer,
			"choices": []any{map[string]any{"message": message, "stop_reason": "stop"}}},
		"scores": inspectScores(s), "metadata": map[string]any{"outcome": s.Outcome, "case_digest": s.Digest, "evidence": s.Evidence, "failure_modes": s.Modes},
		"store": map[string]any{}, "events": []any{}, "attachments": map[string]any{}, "model_usage": map[string]any{}, "total_time": s.Took.Seconds(),
	}
	if s.Score == nil {
		out["error"] = inspectError(s)
	}
	if s.Corrections != nil {
		out["metadata"].(map[string]any)["corrections"] = s.Corrections
	}
	return out
}

// inspectScores are the score and the verdict, none if there is no score.
func inspectScores(s *Sample) map[string]any {
	if s.Score == nil {
		return map[string]any{}
	}
	letter := "I"
	if s.Passed() {
		letter = "C"
	}
	why := s.Reason
	if why == "" {
		why = strings.Join(s.Modes, ", ")
	}
	if text := s.correctionsText(); text != "" {
		why = strings.TrimPrefix(why+"; ", "; ") + "as recorded; beside it: " + text
	}
	return map[string]any{
		inspectScore:  map[string]any{"value": *s.Score, "answer": s.Answer, "explanation": why},
		inspectPassed: map[string]any{"value": letter, "answer": s.Answer, "explanation": why},
	}
}

func inspectError(s *Sample) map[string]any {
	message := s.Outcome
	if s.Reason != "" {
		message += ": " + s.Reason
	}
	return map[string]any{"message": message, "traceback": "", "traceback_ansi": ""}
}

func (a *Facts) inspectSummary(s *Sample) map[string]any {
	out := map[string]any{"id": s.ID, "epoch": s.Repeat, "input": s.Input, "target": s.Expected, "scores": inspectScores(s), "completed": true, "model_usage": map[string]any{}}
	if s.Score == nil {
		out["error"] = inspectError(s)["message"]
	}
	return out
}
