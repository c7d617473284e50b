package export

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

const eeeVersion = "0.3.0"

var eeeFormat = Format{Name: "eee", Is: "Every Eval Ever 0.3.0, with samples",
	Files: "Every Eval Ever 0.3.0: `data/<class>/<developer>/<model>/<uuid>.json` and its `_samples.jsonl`", ImportsAgain: true, Folder: true, Write: func(a *Facts, _ Hub) ([]File, error) { return EveryEvalEver(a) }}

// EveryEvalEver writes the aggregate and the samples of Every Eval Ever. A case
// without a score has no row: the format has no place for one, and zero would be a
// lie. How many there are stands beside the score.
func EveryEvalEver(a *Facts) ([]File, error) {
	base := a.eeeName()
	id := a.Class + "/" + a.model() + "/" + a.moment()
	var rows []byte
	n := 0
	for i := range a.Samples {
		s := &a.Samples[i]
		if s.Score == nil {
			continue
		}
		line, err := encode(a.eeeRow(s, id))
		if err != nil {
			return nil, err
		}
		rows = append(append(rows, line...), '\n')
		n++
	}
	sum := sha256.Sum256(rows)
	doc := a.eeeAggregate(id)
	doc["detailed_evaluation_results"] = map[string]any{"format": "jsonl", "file_path": base + "_samples.jsonl",
		"hash_algorithm": "sha256", "checksum": hex.EncodeToString(sum[:]), "total_rows": n}
	f, err := file(base+".json", doc)
	return []File{f, {base + "_samples.jsonl", rows}}, err
}

// eeeName is where the project keeps a result: by benchmark, developer and model,
// under a UUID, which here follows from the attempt's registration.
func (a *Facts) eeeName() string {
	developer, model, ok := strings.Cut(a.model(), "/")
	if !ok {
		developer, model = "unknown", a.model()
	}
	u := sha256.Sum256([]byte("every eval ever\x00" + a.Origin + "\x00" + a.ID + "\x00" + a.Registration))
	u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80
	return fmt.Sprintf("data/%s/%s/%s/%x-%x-%x-%x-%x", filled(a.Class), filled(developer), filled(model), u[:4], u[4:6], u[6:8], u[8:10], u[10:16])
}

// filled is a part of a path, which is not empty.
func filled(s string) string {
	if s = safeName(s); s == "" {
		return "unknown"
	}
	return s
}

// model is the model's name, or that of the target if several or none were called.
func (a *Facts) model() string {
	if len(a.Models) == 1 {
		return a.Models[0]
	}
	return a.Target
}

// moment is the end of the attempt in seconds since 1970.
func (a *Facts) moment() string {
	at := a.Ended
	if at.IsZero() {
		at = a.Started
	}
	return strconv.FormatInt(at.Unix(), 10)
}

// proof is what says where the proof is; every format that has room for words has
// these.
func (a *Facts) proof() map[string]string {
	out := map[string]string{
		"attempt": a.ID, "ledger": a.Origin, "level": a.Level, "number": strconv.Itoa(a.Number) + " of " + strconv.Itoa(a.Of),
		"bench": a.Bench, "gate": a.Decision.Text(), "receipt": a.Receipt, "receipt_key": a.Key,
	}
	if a.Address != "" {
		out["receipt_address"] = a.Address
	}
	if len(a.Qualifications) > 0 {
		out["qualifications"] = strings.Join(a.Qualifications, "; ")
	}
	if text := a.correctionsText(); text != "" {
		out["corrections"] = text
	}
	if a.Withheld {
		out["withheld"] = "inputs and answers are salted digests"
	}
	return out
}

func (a *Facts) eeeAggregate(id string) map[string]any {
	t := a.Totals()
	results := []any{}
	if t.Mean != nil {
		results = append(results, a.eeeResult(a.Class, "mean_score", *t.Mean, t.Scored))
	}
	results = append(results, a.eeeResult(a.Class+".solved", "solve_rate", t.SolveRate, 0))
	return map[string]any{
		"schema_version": eeeVersion, "evaluation_id": id, "evaluation_timestamp": a.Started.UTC().Format("2006-01-02T15:04:05.000Z"),
		"retrieved_timestamp": a.moment(),
		"source_metadata": map[string]any{"source_name": "Tallystick", "source_type": "evaluation_run", "source_organization_name": a.Origin,
			"evaluator_relationship": "other", "additional_details": a.proof()},
		"eval_library": map[string]any{"name": "tallystick", "version": orUnknown(a.Version)},
		"model_info": map[string]any{"name": a.model(), "id": a.model(),
			"additional_details": map[string]any{"deployment_type": "unknown", "model_availability": "unknown", "target": a.Target}},
		"evaluation_results": results,
	}
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}

func (a *Facts) eeeResult(name, metric string, value float64, scored int) map[string]any {
	t := a.Totals()
	details := map[string]any{"score": value, "details": map[string]string{
		"total": strconv.Itoa(t.Total), "passed": strconv.Itoa(t.Passed), "failed": strconv.Itoa(t.Failed), "errors": strconv.Itoa(t.Errors),
		"unscored": strconv.Itoa(t.Unscored), "truncated": strconv.Itoa(t.Truncated), "skipped": strconv.Itoa(t.Skipped), "not_run": strconv.Itoa(t.NotRun)}}
	if scored > 0 && a.Repeat <= 1 {
		details["uncertainty"] = map[string]any{"num_samples": scored}
	}
	return map[string]any{
		"evaluation_result_id": metric, "evaluation_name": name,
		"source_data":   map[string]any{"dataset_name": a.Class, "source_type": "other", "additional_details": map[string]string{"bench": a.Bench}},
		"metric_config": map[string]any{"metric_id": metric, "metric_name": metric, "lower_is_better": false, "score_type": "continuous", "min_score": 0, "max_score": 1},
		"score_details": details,
	}
}

func (a *Facts) eeeRow(s *Sample, id string) map[string]any {
	metadata := map[string]string{"outcome": s.Outcome, "case_digest": s.Digest, "repeat": strconv.Itoa(s.Repeat)}
	if text := s.correctionsText(); text != "" {
		metadata["corrections"] = text
	}
	sum := sha256.Sum256([]byte(s.Input + s.Expected))
	return map[string]any{
		"schema_version": eeeVersion, "evaluation_id": id, "model_id": a.model(), "evaluation_name": a.Class, "evaluation_result_id": "mean_score",
		"sample_id": s.ID, "sample_hash": hex.EncodeToString(sum[:]), "interaction_type": "single_turn",
		"input":  map[string]any{"raw": s.Input, "reference": []string{s.Expected}},
		"output": map[string]any{"raw": []string{s.Answer}}, "messages": nil,
		"answer_attribution": []any{map[string]any{"turn_idx": 0, "source": "output.raw", "extracted_value": s.Answer, "extraction_method": "last answer", "is_terminal": true}},
		"evaluation":         map[string]any{"score": *s.Score, "is_correct": s.Passed()},
		"performance":        map[string]any{"latency_ms": s.Took.Milliseconds()},
		"metadata":           metadata,
	}
}
