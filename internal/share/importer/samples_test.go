package importer

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"tallystick/internal/read/results"
)

// real are files of other projects; each folder's SOURCES.txt says whose.
const real = "../../../../shared/samples"

func realFile(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(real, filepath.FromSlash(name))
	if _, err := os.Stat(path); err != nil {
		t.Skipf("the real files are not here: %v", err)
	}
	return path
}

// decoded reads a real file with encoding/json, which shares no code with the
// importer.
func decoded(t *testing.T, path string, to any) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, to); err != nil {
		t.Fatal(err)
	}
}

// failing lists the checks that fail.
func failing(r results.Run) []string {
	var names []string
	for _, c := range r.Checks {
		if c.Status == results.Fail {
			names = append(names, c.Name)
		}
	}
	return names
}

func counts(r results.Run) [4]int64 {
	return [4]int64{r.Samples, r.Scored, r.Unscored, r.Errors}
}

// TestRealLMEvalFiles: the two runs of pyFade, whose samples files were cut to
// three rows: the checks say so.
func TestRealLMEvalFiles(t *testing.T) {
	dir := realFile(t, "lm-eval/pyfade")
	runs, _ := importDir(t, dir)
	if len(runs) != 2 {
		t.Fatalf("%d runs", len(runs))
	}
	for i, date := range []string{"2025-09-09T13-31-53.431753", "2025-09-09T13-42-42.857006"} {
		var file struct {
			Results map[string]map[string]any `json:"results"`
			Model   string                    `json:"model_name"`
			Version string                    `json:"lm_eval_version"`
		}
		decoded(t, filepath.Join(dir, "results_"+date+".json"), &file)
		r := runs[i]
		if string(r.Model) != file.Model || string(r.HarnessVersion) != file.Version || r.Task != "gsm8k" || counts(r) != [4]int64{3, 3, 0, 0} {
			t.Errorf("got %+v", r)
		}
		for _, filter := range []string{"strict-match", "flexible-extract"} {
			if got, want := r.Metrics[filter+"/exact_match"], file.Results["gsm8k"]["exact_match,"+filter]; got != want {
				t.Errorf("%s: got %v, the file has %v", filter, got, want)
			}
		}
		if got, want := failing(r), []string{"mean strict-match/exact_match", "task hash", "sample count"}; !reflect.DeepEqual(got, want) {
			t.Errorf("failing checks %q, want %q", got, want)
		}
		if check(t, r, "target hashes").Status != results.Pass || check(t, r, "prompt hashes").Status != results.Pass {
			t.Errorf("the hashes of real rows do not fit: %+v", r.Checks)
		}
	}
}

func TestRealLegacyLMEvalFile(t *testing.T) {
	path := realFile(t, "lm-eval/legacy_v0.3/160m_step123000.json")
	var file struct {
		Results map[string]map[string]float64 `json:"results"`
	}
	decoded(t, path, &file)
	runs, _ := importDir(t, filepath.Dir(path))
	if len(runs) != len(file.Results) {
		t.Fatalf("%d runs, the file has %d tasks", len(runs), len(file.Results))
	}
	for _, r := range runs {
		want := file.Results[string(r.Task)]
		if len(want) == 0 || len(r.Metrics) != len(want) || r.Model != "EleutherAI/pythia-v1.1-160m" {
			t.Errorf("got %+v, the file has %v", r, want)
		}
		for name, v := range want {
			if r.Metrics["none/"+name] != v {
				t.Errorf("%s %s: got %v, want %v", r.Task, name, r.Metrics["none/"+name], v)
			}
		}
	}
}

// TestRealHELMRun: nine instances of the test split and one of valid, of which
// one is right; every mean that is kept for instances recomputes.
func TestRealHELMRun(t *testing.T) {
	dir := realFile(t, "helm/mmlu-subject=philosophy,method=multiple_choice_joint,model=openai_gpt2")
	var stats []struct {
		Name  struct{ Name, Split string } `json:"name"`
		Count int                          `json:"count"`
		Mean  float64                      `json:"mean"`
	}
	decoded(t, filepath.Join(dir, "stats.json"), &stats)
	runs, samples := importDir(t, dir)
	r := runs[0]
	if len(runs) != 1 || counts(r) != [4]int64{10, 10, 0, 0} || r.Model != "openai/gpt2" || len(failing(r)) > 0 {
		t.Fatalf("got %+v", runs)
	}
	if got := r.Metrics["test/exact_match"]; got != 1.0/9 {
		t.Errorf("exact_match %v, want 1/9", got)
	}
	passed := 0
	for _, c := range r.Checks {
		if c.Status == results.Pass {
			passed++
		}
	}
	if passed < 50 {
		t.Errorf("only %d checks pass", passed)
	}
	for _, s := range samples[0] {
		if s.ID == "id147" && (s.Expected.Head != "internalmeaning" || s.Input.Bytes == 0) {
			t.Errorf("got %+v", s)
		}
	}
}

func TestRealInspectLogs(t *testing.T) {
	original := realFile(t, "inspect/chunked_fixtures/original")
	want, wantSamples := importDir(t, original) // zstd, method 93
	got, gotSamples := importDir(t, filepath.Join(original, "../chunked"))
	if !reflect.DeepEqual(got, want) || !reflect.DeepEqual(gotSamples, wantSamples) {
		t.Errorf("the chunked log is another run than the original: %+v\n%+v", got, want)
	}
	if r := want[0]; counts(r) != [4]int64{1, 1, 0, 0} || r.Metrics["model_graded_qa/accuracy"] != 0 || len(failing(r)) > 0 || r.Task != "cp_ctf" {
		t.Errorf("got %+v", r)
	}
	if s := wantSamples[0][0]; s.Input.Head != "Write a Nodes.js Typescript utility that decodes AIS messages." || s.Scores["model_graded_qa"].Said != "I" {
		t.Errorf("got %+v", s)
	}

	runs, _ := importDir(t, filepath.Join(original, "../.."))
	byTask := map[string]results.Run{}
	for _, r := range runs {
		byTask[string(r.Task)] = r
	}
	var log struct {
		Results struct {
			Scores []struct {
				Metrics map[string]struct{ Value float64 } `json:"metrics"`
			} `json:"scores"`
		} `json:"results"`
	}
	decoded(t, filepath.Join(real, "inspect/2025-05-12T20-28-13-04-00_popularity.json"), &log)
	popularity := byTask["popularity"]
	for name, m := range log.Results.Scores[0].Metrics {
		if popularity.Metrics["match/"+name] != m.Value {
			t.Errorf("match/%s: got %v, want %v", name, popularity.Metrics["match/"+name], m.Value)
		}
	}
	if counts(popularity) != [4]int64{3, 3, 0, 0} || len(failing(popularity)) > 0 {
		t.Errorf("got %+v", popularity)
	}
	if r := byTask["input_task"]; counts(r) != [4]int64{1, 1, 0, 0} || r.Metrics["model_graded_fact/accuracy"] != 1 || len(r.Judges) != 1 || len(failing(r)) > 0 {
		t.Errorf("got %+v", r)
	}
	if r := byTask["wikipedia"]; r.Samples != 0 || len(r.Metrics) != 1 || r.Model != "openai/gpt-4" {
		t.Errorf("the log with NaN: got %+v", r)
	}
}

func TestRealPromptfooFiles(t *testing.T) {
	dir := realFile(t, "promptfoo")
	runs, _ := importDir(t, dir)
	if len(runs) != 3 {
		t.Fatalf("%d runs", len(runs))
	}
	for _, r := range runs {
		var file map[string]any
		decoded(t, filepath.Join(dir, r.Source.Path), &file)
		body := file
		if inner, ok := file["results"].(map[string]any); ok {
			body = inner
		}
		rows := body["results"].([]any)
		stats := body["stats"].(map[string]any)
		if r.Samples != int64(len(rows)) || r.Metrics["stats/successes"] != stats["successes"] || len(failing(r)) > 0 || r.Metrics["success/pass_rate"] != 1 {
			t.Errorf("got %+v, the file has %d rows and %v", r, len(rows), stats)
		}
	}
}

func TestRealDeepEvalFile(t *testing.T) {
	runs, samples := importDir(t, realFile(t, "deepeval"))
	r := runs[0]
	if counts(r) != [4]int64{1, 1, 0, 0} || r.Metrics["Answer Relevancy/mean"] != 0.92 || len(failing(r)) > 0 {
		t.Errorf("got %+v", r)
	}
	if v := samples[0][0].Scores["Faithfulness"]; v.Value == nil || *v.Value != 0.45 || *v.Passed {
		t.Errorf("got %+v", samples[0][0])
	}
}

func TestRealTerminalBenchRun(t *testing.T) {
	dir := realFile(t, "terminal-bench/tb_rc2_opus_1")
	var file struct {
		Accuracy float64 `json:"accuracy"`
		Resolved int64   `json:"n_resolved"`
		Results  []struct {
			Resolved *bool `json:"is_resolved"`
		} `json:"results"`
	}
	decoded(t, filepath.Join(dir, "results.json"), &file)
	runs, _ := importDir(t, dir)
	r := runs[0]
	errors := int64(0)
	for _, trial := range file.Results {
		if trial.Resolved == nil {
			errors++
		}
	}
	if len(runs) != 1 || r.Samples != int64(len(file.Results)) || r.Errors != errors || r.Metrics["resolved/accuracy"] != file.Accuracy || len(failing(r)) > 0 {
		t.Errorf("got %+v", r)
	}
}

// TestRealOpenAIEvalsLog recounts the verdicts by lines.
func TestRealOpenAIEvalsLog(t *testing.T) {
	path := realFile(t, "openai-evals/230417220821DPM75QNS_auto_gpt_completion_fn_test-match.jsonl")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	correct, all := 0, 0
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
		var e struct {
			Type string
			Data struct{ Correct bool }
		}
		if json.Unmarshal(lines.Bytes(), &e) == nil && e.Type == "match" {
			if all++; e.Data.Correct {
				correct++
			}
		}
	}
	runs, _ := importDir(t, filepath.Dir(path))
	r := runs[0]
	if counts(r) != [4]int64{int64(all), int64(all), 0, 0} || r.Metrics["match/mean"] != float64(correct)/float64(all) || len(failing(r)) > 0 || r.StartedAt != "2023-04-17T22:08:21.904498" {
		t.Errorf("got %+v", r)
	}
}

// TestRealSpansSessionsAndAggregates: files with one thing in them.
func TestRealSpansSessionsAndAggregates(t *testing.T) {
	for _, tt := range []struct {
		path, harness, model, task string
		counts                     [4]int64
		metric                     string
		value                      float64
	}{
		{"trulens", "trulens", "gpt-4o-mini-2024-07-18", "test run", [4]int64{1, 1, 0, 0}, "answer_relevance/mean", 0.75},
		{"phoenix-openinference", "phoenix", "claude-fable-5", "", [4]int64{1, 0, 1, 0}, "", 0},
		{"claude-code", "claude-code", "claude-opus-4-5-20251101", "", [4]int64{1, 0, 1, 0}, "", 0},
		{"harbor-atif", "atif", "", "", [4]int64{1, 0, 1, 0}, "", 0},
		{"every_eval_ever", "every_eval_ever", "openai-community/gpt2", "arc_easy", [4]int64{}, "arc_easy/accuracy", 0.5567},
	} {
		t.Run(tt.path, func(t *testing.T) {
			runs, _ := importDir(t, realFile(t, tt.path))
			if len(runs) != 1 {
				t.Fatalf("%d runs: %+v", len(runs), runs)
			}
			r := runs[0]
			if r.Harness != tt.harness || string(r.Model) != tt.model || string(r.Task) != tt.task || counts(r) != tt.counts || r.Metrics[tt.metric] != tt.value || len(failing(r)) > 0 {
				t.Errorf("got %+v", r)
			}
		})
	}
}

// TestTheDigestIsOfTheFile compares with a hash that is made here.
func TestTheDigestIsOfTheFile(t *testing.T) {
	for _, name := range []string{"inspect-archive", "ragas-csv", "promptfoo-v3", "trulens-database"} {
		dir := fixture(t, name, nil)
		entries, _ := os.ReadDir(dir)
		path := filepath.Join(dir, entries[0].Name())
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		runs, err := Read(t.Context(), []string{path}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256(data); runs[0].Source.SHA256 != hex.EncodeToString(sum[:]) {
			t.Errorf("%s: got %s", name, runs[0].Source.SHA256)
		}
	}
}
