package importer

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"strings"

	"tallystick/internal/record/jsonstream"
	"tallystick/internal/record/refusal"
	"tallystick/internal/share/shape"
)

// A kind is what a file was recognised as: a family, and after a colon its part
// in it. Files of one family in one folder may belong together.
type kind string

func (k kind) family() string {
	family, _, _ := strings.Cut(string(k), ":")
	return family
}

// The kinds.
const (
	inspectJSON    kind = "inspect:json"
	inspectArchive kind = "inspect:archive"

	lmEvalResults kind = "lm-eval:results"
	lmEvalSamples kind = "lm-eval:samples"

	helmSpec      kind = "helm:run_spec"
	helmScenario  kind = "helm:scenario"
	helmState     kind = "helm:scenario_state"
	helmStats     kind = "helm:stats"
	helmInstances kind = "helm:per_instance_stats"

	promptfooFile kind = "promptfoo"
	promptfooRows kind = "promptfoo:rows"
	deepEval      kind = "deepeval"
	ragasCSV      kind = "ragas:csv"
	ragasJSON     kind = "ragas:json"
	openAIEvals   kind = "openai-evals"
	mtebTask      kind = "mteb:task"
	mtebModel     kind = "mteb:model"

	trulensDatabase kind = "trulens:database"
	trulensSpans    kind = "trulens-spans"
	mlflowTable     kind = "mlflow:table"
	mlflowTraces    kind = "mlflow:traces"
	weaveCalls      kind = "weave"
	phoenixSpans    kind = "spans:phoenix"
	otlpSpans       kind = "spans:otlp"
	claudeSession   kind = "claude-code"

	benchRun      kind = "terminal-bench:run"
	benchMetadata kind = "terminal-bench:metadata"
	benchTrial    kind = "terminal-bench:trial"

	harborJob   kind = "harbor:job"
	harborTrial kind = "harbor:trial"
	harborATIF  kind = "harbor:trajectory"

	sweReport   kind = "swe-bench:report"
	sweInstance kind = "swe-bench:instance"

	eeeAggregate kind = "every-eval-ever:aggregate"
	eeeSamples   kind = "every-eval-ever:samples"
)

// sniffBytes is how much of a file is looked at first.
const sniffBytes = 1 << 20

// recognise looks at the beginning of the file, and at all of it if the
// beginning does not tell.
func (f *file) recognise(ctx context.Context) error {
	src, err := f.openFile()
	if err != nil {
		return err
	}
	defer src.Close()
	head, err := io.ReadAll(io.LimitReader(src, sniffBytes))
	if err != nil {
		return unreadable(f.path, err)
	}
	whole := len(head) < sniffBytes
	if err := f.recogniseHead(head, whole); err != nil || f.kind != "" || whole || f.shape == nil {
		return err
	}
	if _, err := src.Seek(0, io.SeekStart); err != nil {
		return unreadable(f.path, err)
	}
	return f.recogniseShape(patient{ctx, src}, true)
}

// recogniseHead looks at the beginning of a file. A file that does not look like
// anything is left without a kind.
func (f *file) recogniseHead(head []byte, whole bool) error {
	switch {
	case bytes.HasPrefix(head, []byte("PK\x03\x04")), bytes.HasPrefix(head, []byte("PK\x05\x06")):
		f.kind = inspectArchive // the only archive that is known; its entries tell
		return nil
	case bytes.HasPrefix(head, []byte("SQLite format 3\x00")):
		f.kind = trulensDatabase
		return nil
	case looksLikeJSON(head):
		return f.recogniseShape(bytes.NewReader(head), whole)
	case ragasHeader(head):
		f.kind = ragasCSV
		return nil
	case bytes.HasPrefix(head, []byte("\xff\xfe")), bytes.HasPrefix(head, []byte("\xfe\xff")):
		if f.root == nil {
			_, err := jsonstream.NewReader(bytes.NewReader(head))
			return fmt.Errorf("%s: %w", f.path, err)
		}
	}
	return nil
}

func looksLikeJSON(head []byte) bool {
	head = bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")), " \t\r\n")
	return len(head) > 0 && (head[0] == '{' || head[0] == '[')
}

func (f *file) recogniseShape(src io.Reader, whole bool) error {
	s, err := shape.Read(src, whole)
	if err != nil {
		// In a folder a file that is not whole JSON may be anybody's; one that
		// begins like a result and breaks off is refused all the same.
		if f.root != nil && refusal.Is(err, refusal.Malformed) {
			return f.brokenInFolder(err)
		}
		return fmt.Errorf("%s: %w", f.path, err)
	}
	f.shape = s
	f.kind = kindOf(s)
	return nil
}

func (f *file) brokenInFolder(broken error) error {
	src, err := f.openFile()
	if err != nil {
		return err
	}
	defer src.Close()
	s, err := shape.Read(io.LimitReader(src, sniffBytes), false)
	if err == nil && kindOf(s) != "" {
		return fmt.Errorf("%s: %w", f.path, broken)
	}
	return nil
}

// kindOf reads the table: whose file it is that has these members. The first line
// that fits decides, so what is told by more members stands before what is told
// by fewer.
func kindOf(s *shape.Shape) kind {
	for _, row := range table {
		if row.fits(s) {
			return row.kind
		}
	}
	return ""
}

var table = []struct {
	kind kind
	fits func(*shape.Shape) bool
}{
	{harborATIF, func(s *shape.Shape) bool {
		return strings.HasPrefix(s.Said["schema_version"], "ATIF") && s.Has("steps")
	}},
	{inspectJSON, func(s *shape.Shape) bool { return s.Has("eval.task", "eval.model") && s.HasAny("status", "version") }},
	{promptfooFile, func(s *shape.Shape) bool {
		return s.Has("results.results", "results.version") ||
			s.Said["version"] == "1" && s.Has("results[].prompt", "results[].vars") ||
			s.Has("results[].providerResponse") || s.Has("createdAt", "results[].promptIdx")
	}},
	{promptfooRows, func(s *shape.Shape) bool {
		return s.Has("promptIdx", "testIdx") && s.HasAny("testCase", "vars", "gradingResult")
	}},
	{deepEval, func(s *shape.Shape) bool {
		return s.HasAny("testCases", "conversationalTestCases") && s.HasAny("testCases[].metricsData", "conversationalTestCases[].metricsData", "metricsScores", "testPassed", "hyperparameters") ||
			s.HasAny("testRunData.testCases", "testRunData.conversationalTestCases")
	}},
	{harborTrial, func(s *shape.Shape) bool { return s.Has("trial_name", "task_name", "agent_info") }},
	{harborJob, func(s *shape.Shape) bool {
		return s.Has("stats.evals") && s.HasAny("n_total_trials", "started_at", "id")
	}},
	{benchTrial, func(s *shape.Shape) bool { return s.Has("trial_name", "task_id", "is_resolved") }},
	{benchRun, func(s *shape.Shape) bool {
		return s.Has("results") && (s.Has("results[].is_resolved") || s.Has("resolved_ids", "n_resolved"))
	}},
	{benchMetadata, func(s *shape.Shape) bool { return s.Has("run_id", "agent_name", "n_attempts", "task_ids") }},
	{sweReport, func(s *shape.Shape) bool {
		return s.Has("resolved_ids") && s.HasAny("submitted_ids", "completed_ids", "total_instances")
	}},
	{sweInstance, func(s *shape.Shape) bool { return s.Below("", "patch_successfully_applied", "resolved") }},
	{mtebTask, func(s *shape.Shape) bool {
		return s.Has("mteb_version") && (s.Has("task_name", "scores") || s.Has("mteb_dataset_name"))
	}},
	{mtebModel, func(s *shape.Shape) bool {
		return s.Has("name", "revision") && s.HasAny("n_parameters", "embed_dim", "similarity_fn_name")
	}},
	{eeeAggregate, func(s *shape.Shape) bool { return s.Has("evaluation_id", "evaluation_results", "model_info") }},
	{eeeSamples, func(s *shape.Shape) bool { return s.Has("evaluation_id", "sample_id", "evaluation.score") }},
	{helmState, func(s *shape.Shape) bool { return s.Has("adapter_spec", "request_states") }},
	{helmSpec, func(s *shape.Shape) bool { return s.Has("adapter_spec", "scenario_spec", "metric_specs") }},
	{helmInstances, func(s *shape.Shape) bool { return s.List && s.Has("instance_id", "stats") }},
	{helmStats, func(s *shape.Shape) bool { return s.List && s.Has("name.name", "count", "sum") }},
	{helmScenario, func(s *shape.Shape) bool { return s.Has("definition_path", "name", "tags") }},
	{lmEvalSamples, func(s *shape.Shape) bool {
		return s.Has("doc_id") && s.HasAny("filtered_resps", "resps") && s.HasAny("doc", "target", "doc_hash")
	}},
	{lmEvalResults, func(s *shape.Shape) bool {
		return s.Kinds["results"] == jsonstream.Object && (s.HasAny("task_hashes", "lm_eval_version", "n-shot") || s.Has("versions", "config"))
	}},
	{trulensSpans, func(s *shape.Shape) bool { return s.Has("record_attributes", "record_type") }},
	{mlflowTraces, func(s *shape.Shape) bool {
		return s.Has("info.trace_id") || s.Has("info.request_id", "info.status") || s.Has("traces[].info.trace_id")
	}},
	{weaveCalls, func(s *shape.Shape) bool {
		return s.Has("op_name", "trace_id", "inputs") || s.Has("calls[].op_name", "calls[].trace_id")
	}},
	{openAIEvals, func(s *shape.Shape) bool {
		return s.Has("spec.eval_name", "spec.completion_fns") || s.Has("run_id", "event_id", "type", "data")
	}},
	{otlpSpans, func(s *shape.Shape) bool { return s.Has("resourceSpans") }},
	{phoenixSpans, func(s *shape.Shape) bool {
		return s.Has("context.trace_id", "context.span_id") && s.HasAny("span_kind", "attributes")
	}},
	{claudeSession, func(s *shape.Shape) bool { return s.Has("sessionId", "type") && s.HasAny("uuid", "message") }},
	{mlflowTable, func(s *shape.Shape) bool {
		return s.Kinds["columns"] == jsonstream.Array && s.Kinds["data"] == jsonstream.Array
	}},
	{ragasJSON, func(s *shape.Shape) bool {
		return s.Has("user_input") && s.HasAny("response", "reference", "retrieved_contexts") ||
			s.Has("question", "answer") && s.HasAny("contexts", "ground_truth", "ground_truths") || s.Below("", "[].metric_input")
	}},
}

// ragasHeader reports whether the first record of a table has RAGAS' columns.
func ragasHeader(head []byte) bool {
	r := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf"))))
	columns, err := r.Read()
	if err != nil {
		return false
	}
	return isRAGAS(columns)
}
