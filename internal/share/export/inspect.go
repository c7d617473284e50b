package export

import (
	"archive/zip"
	"bytes"
	"fmt"
	"strings"
	"time"

	"tallystick/internal/run/trajectory"
)

// The names of the two scorers of an Inspect log: the score, and whether the case
// passed.
const (
	inspectScore  = "score"
	inspectPassed = "passed"
)

var inspectFormat = Format{Name: "inspect", Is: "a log that Inspect View opens, with the transcripts", Files: "an Inspect log (`.eval`, or `.json`)", ImportsAgain: true, NeedsOut: true,
	Endings: []string{".eval", ".json"}, Write: func(a *Facts, _ Hub) ([]File, error) { return Inspect(a) }}

// Inspect writes a log that Inspect View opens: what was asked, every message and event,
// what was answered and how it was scored. A case without a score has none here either;
// one whose texts are withheld has its scores and no transcript. [Facts].Ending decides
// between the zip file and one JSON document.
func Inspect(a *Facts) ([]File, error) {
	if a.Ending == ".json" {
		return a.inspectJSON()
	}
	return a.inspectZip()
}

func inspectPlan() object {
	return object{"name": "plan", "steps": []any{}, "config": object{}}
}

// inspectJSON is the log as one document.
func (a *Facts) inspectJSON() ([]File, error) {
	log := &inspectLog{usage: map[string]*inspectUsage{}}
	samples := []any{}
	for i := range a.Samples {
		one, err := a.inspectSample(&a.Samples[i], log)
		if err != nil {
			return nil, err
		}
		samples = append(samples, one)
	}
	header := a.inspectHeader(a.inspectSpec(), inspectPlan(), log)
	header["samples"] = samples
	data, err := encode(header)
	return []File{{safeName(a.ID) + ".json", append(data, '\n')}}, err
}

// inspectZip is the log as Inspect writes it.
func (a *Facts) inspectZip() ([]File, error) {
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
	spec, plan := a.inspectSpec(), inspectPlan()
	if err := put("_journal/start.json", object{"version": 2, "eval": spec, "plan": plan}); err != nil {
		return nil, err
	}
	summaries := []any{}
	names := map[string]bool{}
	log := &inspectLog{usage: map[string]*inspectUsage{}}
	for i := range a.Samples {
		s := &a.Samples[i]
		name := fmt.Sprintf("samples/%s_epoch_%d.json", safeName(s.ID), s.Repeat)
		for names[name] { // two ids that differ only in what a name cannot have
			name = strings.TrimSuffix(name, fmt.Sprintf("_epoch_%d.json", s.Repeat)) + fmt.Sprintf("_%d_epoch_%d.json", i, s.Repeat)
		}
		names[name] = true
		one, err := a.inspectSample(s, log)
		if err != nil {
			return nil, err
		}
		if err := put(name, one); err != nil {
			return nil, err
		}
		summaries = append(summaries, a.inspectSummary(s, one))
	}
	if err := put("summaries.json", summaries); err != nil {
		return nil, err
	}
	if err := put("header.json", a.inspectHeader(spec, plan, log)); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return []File{{safeName(a.ID) + ".eval", out.Bytes()}}, nil
}

// An inspectLog is what is known of a log when its samples are written.
type inspectLog struct{ usage map[string]*inspectUsage }

func iso(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000+00:00")
}

func (a *Facts) inspectSpec() object {
	var ids []string
	seen := map[string]bool{}
	for _, s := range a.Samples {
		if !seen[s.ID] {
			seen[s.ID] = true
			ids = append(ids, s.ID)
		}
	}
	config := object{"epochs": a.Repeat}
	if a.Repeat > 1 {
		config["epochs_reducer"] = []string{"mean"}
	}
	return object{
		"eval_id": a.ID, "run_id": a.ID, "created": iso(a.Started), "task": a.Class, "task_id": a.ID, "task_version": 0, "task_attribs": object{}, "task_args": object{},
		"dataset": object{"name": a.Class, "samples": len(ids), "sample_ids": ids, "shuffled": false},
		"model":   a.model(), "model_generate_config": object{}, "model_args": object{}, "config": config,
		"packages": object{"tallystick": orUnknown(a.Version)}, "metadata": a.proof(),
		"scorers": []any{object{"name": inspectScore, "options": object{}}, object{"name": inspectPassed, "options": object{}}},
	}
}

func (a *Facts) inspectHeader(spec, plan object, log *inspectLog) object {
	status := "success"
	if !a.Finished {
		status = "started"
	}
	cases, _ := spec["dataset"].(object)["samples"].(int)
	var scores []any
	for _, name := range []string{inspectScore, inspectPassed} {
		metric := map[string]string{inspectScore: "mean", inspectPassed: "accuracy"}[name]
		values := a.perCase(name)
		if len(values) == 0 {
			continue
		}
		entry := object{"name": name, "scorer": name, "params": object{}, "scored_samples": len(values), "unscored_samples": cases - len(values),
			"metrics": object{metric: object{"name": metric, "value": meanOf(values), "params": object{}}}}
		if a.Repeat > 1 {
			entry["reducer"] = "mean"
		}
		scores = append(scores, entry)
	}
	return object{
		"version": 2, "status": status, "eval": spec, "plan": plan,
		"results": object{"total_samples": len(a.Samples), "completed_samples": len(a.Samples), "scores": scores},
		"stats":   object{"started_at": iso(a.Started), "completed_at": iso(a.Ended), "model_usage": usageJSON(log.usage)},
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

func (a *Facts) inspectSample(s *Sample, log *inspectLog) (object, error) {
	told, err := s.told()
	if err != nil {
		return nil, fmt.Errorf("case %s: %w", s.ID, err)
	}
	scores := inspectScores(s, told)
	t := &inspectTeller{started: s.Started, model: a.model(), attachments: object{}, usage: map[string]*inspectUsage{}}
	t.span("init", "init", 0, func() {
		t.event("sample_init", 0, nil, object{"sample": object{"input": t.text(s.Input), "target": s.Expected, "id": s.ID}, "state": object{}})
	})
	out := object{
		"id": s.ID, "epoch": s.Repeat, "uuid": fmt.Sprintf("%s:%s:%d", a.ID, s.ID, s.Repeat), "input": s.Input, "target": s.Expected, "scores": scores,
		"metadata": object{"outcome": s.Outcome, "case_digest": s.Digest, "evidence": s.Evidence, "failure_modes": s.Modes},
		"store":    object{}, "total_time": s.Took.Seconds(), "working_time": s.Took.Seconds(),
	}
	if told == nil {
		t.message("user", s.Input, object{"source": "input"})
		t.message("assistant", s.Answer, object{"source": "generate", "model": a.model()})
	} else {
		t.span("solvers", "solvers", 0, func() { t.tell(told.Conversation, told.Events) })
		for _, e := range told.Events {
			if p, ok := e.Payload.(*trajectory.LimitReached); ok {
				kind, limit := limitOf(p)
				out["limit"] = object{"type": kind, "limit": limit, "reason": p.Summary()}
			}
		}
	}
	answer := object{"role": "assistant", "content": s.Answer, "source": "generate", "model": a.model()}
	out["output"] = object{"model": a.model(), "completion": s.Answer, "choices": []any{object{"message": answer, "stop_reason": "stop"}}}
	if s.Score == nil {
		out["error"] = inspectError(s)
		t.event("error", s.Took, nil, object{"error": inspectError(s)})
	} else {
		t.span("scorers", "scorers", s.Took, func() {
			for _, name := range []string{inspectScore, inspectPassed} {
				t.span("scorer", name, s.Took, func() {
					t.event("score", s.Took, nil, object{"score": scores[name], "target": s.Expected, "scorer": name})
				})
			}
		})
	}
	if !s.Started.IsZero() {
		out["started_at"], out["completed_at"] = iso(s.Started), iso(s.Started.Add(s.Took))
	}
	for model, u := range t.usage {
		if log.usage[model] == nil {
			log.usage[model] = &inspectUsage{}
		}
		log.usage[model].add(u.in, u.out, u.cost)
	}
	if s.Corrections != nil {
		out["metadata"].(object)["corrections"] = s.Corrections
	}
	out["messages"], out["events"], out["attachments"], out["model_usage"] = t.messages, t.events, t.attachments, usageJSON(t.usage)
	out["events_data"] = object{"messages": t.messages, "calls": []any{}}
	return out, nil
}

// inspectScores are the score and the verdict, none if there is no score.
func inspectScores(s *Sample, told *Told) object {
	if s.Score == nil {
		return object{}
	}
	letter := "I"
	if s.Passed() {
		letter = "C"
	}
	why := s.Reason
	if why == "" {
		why = strings.Join(s.Modes, ", ")
	}
	if told != nil && len(told.Checks) > 0 {
		why = strings.TrimPrefix(why+"\n\n"+told.checksText(), "\n\n")
	}
	if text := s.correctionsText(); text != "" {
		why = strings.TrimPrefix(why+"; ", "; ") + "as recorded; beside it: " + text
	}
	return object{
		inspectScore:  object{"value": *s.Score, "answer": s.Answer, "explanation": why},
		inspectPassed: object{"value": letter, "answer": s.Answer, "explanation": why},
	}
}

func inspectError(s *Sample) object {
	message := s.Outcome
	if s.Reason != "" {
		message += ": " + s.Reason
	}
	return object{"message": message, "traceback": "", "traceback_ansi": ""}
}

// inspectSummary is a sample as the list of them shows it.
func (a *Facts) inspectSummary(s *Sample, sample object) object {
	out := object{"completed": true, "message_count": len(sample["messages"].([]any))}
	for _, name := range []string{"id", "epoch", "uuid", "input", "target", "scores", "model_usage", "total_time", "working_time", "started_at", "completed_at"} {
		if v, ok := sample[name]; ok {
			out[name] = v
		}
	}
	if limit, ok := sample["limit"].(object); ok {
		out["limit"] = limit["type"]
	}
	if s.Score == nil {
		out["error"] = inspectError(s)["message"]
	}
	return out
}
