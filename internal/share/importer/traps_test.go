package importer

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"tallystick/internal/read/results"
	"tallystick/internal/record/refusal"
	"tallystick/internal/share/zipfile"
)

// fixture unpacks a fixture after edit changed its files.
func fixture(t testing.TB, name string, edit func(files []txtar.File) []txtar.File) string {
	t.Helper()
	a, err := txtar.ParseFile(filepath.Join("testdata/formats", name+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	files := slices.DeleteFunc(a.Files, func(f txtar.File) bool { return f.Name == "want" })
	if edit != nil {
		files = edit(files)
	}
	dir := t.TempDir()
	unpack(t, dir, files, zipfile.Zstd)
	return dir
}

// replace is an edit: old becomes new, once, in the file called name.
func replace(t testing.TB, name, old, new string) func([]txtar.File) []txtar.File {
	return func(files []txtar.File) []txtar.File {
		for i, f := range files {
			if f.Name == name {
				if strings.Count(string(f.Data), old) == 0 {
					t.Fatalf("%s does not have %q", name, old)
				}
				files[i].Data = []byte(strings.Replace(string(f.Data), old, new, 1))
			}
		}
		return files
	}
}

func check(t testing.TB, r results.Run, name string) results.Check {
	t.Helper()
	for _, c := range r.Checks {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("no check %q in %+v", name, r.Checks)
	return results.Check{}
}

// TestTheThreeFormsOfAnInspectLogAreOneRun is trap 3: the JSON form, the archive
// and the archive in chunks say the same.
func TestTheThreeFormsOfAnInspectLogAreOneRun(t *testing.T) {
	want, wantSamples := importDir(t, fixture(t, "inspect-json", nil))
	for _, name := range []string{"inspect-archive", "inspect-chunked"} {
		got, samples := importDir(t, fixture(t, name, nil))
		got[0].Source = want[0].Source
		got[0].Checks = slices.DeleteFunc(got[0].Checks, func(c results.Check) bool { return c.Name == "summaries" })
		if !reflect.DeepEqual(got, want) || !reflect.DeepEqual(samples, wantSamples) {
			t.Errorf("%s: got %+v %+v\nwant %+v %+v", name, got, samples, want, wantSamples)
		}
	}
}

// TestChangedFilesFailTheirChecks is the forger's view: each row changes one
// thing in a good file, and exactly the named check must notice. None of them is
// an error: the file is read, and what is wrong with it is said.
func TestChangedFilesFailTheirChecks(t *testing.T) {
	for _, tt := range []struct{ name, fixture, file, old, new, fails string }{
		{"Inspect: a better accuracy", "inspect-json", "log.json", `"value": 0.4166666666666667`, `"value": 0.9`, "metric match/accuracy"},
		{"Inspect: a score flipped", "inspect-archive", "log.eval/samples/1_epoch_2.json", `"value": "I"`, `"value": "C"`, "metric match/accuracy"},
		{"Inspect: a sample left out of the header", "inspect-json", "log.json", `"total_samples": 6`, `"total_samples": 7`, "sample count"},
		{"Inspect: a smaller error", "inspect-json", "log.json", `"value": 0.22047927592204924`, `"value": 0.1`, "metric match/stderr"},
		{"Inspect: fewer epochs", "inspect-json", "log.json", `"epochs": 2`, `"epochs": 3`, "epochs"},
		{"lm-eval: a better score", "lm-eval", "results_2025-09-09T13-25-33.5.json", `"exact_match,strict-match": 0.3333333333333333`, `"exact_match,strict-match": 0.9`, "mean strict-match/exact_match"},
		{"lm-eval: another question", "lm-eval", "samples_sums_2025-09-09T13-25-33.5.jsonl", `"arg_0": "Q: 3+3?"`, `"arg_0": "Q: 3+4?"`, "prompt hashes"},
		{"lm-eval: another target", "lm-eval", "samples_sums_2025-09-09T13-25-33.5.jsonl", `"target": "6"`, `"target": "7"`, "target hashes"},
		{"lm-eval: another hash", "lm-eval", "results_2025-09-09T13-25-33.5.json", `"sums": "8908d22a`, `"sums": "0908d22a`, "task hash"},
		{"lm-eval: more samples than rows", "lm-eval", "results_2025-09-09T13-25-33.5.json", `"effective": 3`, `"effective": 100`, "sample count"},
		{"HELM: a better mean", "helm", "stats.json", `"mean": 0.3333333333333333`, `"mean": 0.5`, "mean test/exact_match"},
		{"promptfoo: more successes", "promptfoo-v3", "output.json", `"successes": 1`, `"successes": 2`, "successes"},
		{"promptfoo: an error hidden", "promptfoo-v3", "output.json", `"errors": 1`, `"errors": 0`, "errors"},
		{"promptfoo: a better column", "promptfoo-v3", "output.json", `"testPassCount": 1`, `"testPassCount": 4`, "prompt 0 passes"},
		{"DeepEval: a better score", "deepeval", "test_run.json", "0.9,\n    0.1", "0.9,\n    0.7", "mean of Faithfulness over cases"},
		{"DeepEval: more passed", "deepeval", "test_run.json", `"testPassed": 2`, `"testPassed": 4`, "passed cases"},
		{"OpenAI evals: a better report", "openai-evals", "log.jsonl", `"accuracy": 0.5`, `"accuracy": 1.0`, "accuracy"},
		{"Weave: a better summary", "weave", "calls.jsonl", `"true_fraction": 0.5`, `"true_fraction": 1`, "metric exact%2Fcorrect/true_fraction"},
		{"terminal-bench: a better pass@2", "terminal-bench", "run/results.json", `"2": 0.5`, `"2": 1.0`, "pass@2"},
		{"terminal-bench: another verdict in a trial's file", "terminal-bench", "run/a/a.1-of-2.run/results.json", `"is_resolved": true`, `"is_resolved": false`, "trial files"},
		{"terminal-bench: trials left out", "terminal-bench", "run/run_metadata.json", `"dataset_size": 2`, `"dataset_size": 3`, "sample count"},
		{"Harbor: a better mean", "harbor", "job/result.json", `"mean": 0.3333333333333333`, `"mean": 0.75`, "mean reward"},
		{"Harbor: an error hidden", "harbor", "job/result.json", "\"n_errors\": 1,\n    \"metrics\"", "\"n_errors\": 0,\n    \"metrics\"", "errors"},
		{"SWE-bench: more resolved", "swe-bench", "acme__tiny.run1.json", `"resolved_instances": 1`, `"resolved_instances": 2`, "resolved_instances"},
		{"SWE-bench: resolved and unresolved", "swe-bench", "acme__tiny.run1.json", "\"unresolved_ids\": [\n  \"b\"", "\"unresolved_ids\": [\n  \"a\"", "one outcome each"},
		{"SWE-bench: an instance says otherwise", "swe-bench", "logs/run_evaluation/run1/acme__tiny/a/report.json", `"resolved": true`, `"resolved": false`, "instance reports"},
		{"MTEB: a better mean", "mteb", "Banking.json", `"accuracy": 0.6`, `"accuracy": 0.9`, "mean of experiments test/accuracy"},
		{"Every Eval Ever: a better score", "every-eval-ever", "x.json", `"score": 0.5`, `"score": 0.9`, "mean accuracy"},
		{"Every Eval Ever: other samples", "every-eval-ever", "x_samples.jsonl", `"raw": "q0"`, `"raw": "q9"`, "samples checksum"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			runs, _ := importDir(t, fixture(t, tt.fixture, replace(t, tt.file, tt.old, tt.new)))
			var failed []string
			for _, r := range runs {
				for _, c := range r.Checks {
					if c.Status == results.Fail {
						failed = append(failed, c.Name)
					}
				}
			}
			if !slices.Contains(failed, tt.fails) {
				t.Errorf("failed %q, want %q", failed, tt.fails)
			}
		})
	}
}

// TestTheTaskHashNoticesRowsThatMoved: the hash is over the rows in order.
func TestTheTaskHashNoticesRowsThatMoved(t *testing.T) {
	runs, _ := importDir(t, fixture(t, "lm-eval", func(files []txtar.File) []txtar.File {
		lines := strings.SplitAfter(string(files[1].Data), "\n")
		lines[0], lines[2] = lines[2], lines[0]
		files[1].Data = []byte(strings.Join(lines, ""))
		return files
	}))
	if c := check(t, runs[0], "task hash"); c.Status != results.Fail {
		t.Errorf("got %+v", c)
	}
}

// TestRenamedSamplesAreFoundByTheirHash: what belongs together is told by
// content where the names do not say.
func TestRenamedSamplesAreFoundByTheirHash(t *testing.T) {
	runs, _ := importDir(t, fixture(t, "lm-eval", func(files []txtar.File) []txtar.File {
		files[0].Name, files[1].Name = "a.json", "b.txt"
		return files
	}))
	if len(runs) != 1 || runs[0].Samples != 6 || check(t, runs[0], "task hash").Status != results.Pass {
		t.Errorf("got %+v", runs)
	}
}

// TestANamedFileBringsItsCompanions: a results file that is named is read with
// the samples that the harness wrote beside it, and with nothing else.
func TestANamedFileBringsItsCompanions(t *testing.T) {
	dir := fixture(t, "lm-eval", nil)
	write(t, filepath.Join(dir, "samples_other_2024-01-01T00-00-00.jsonl"), []byte(`{"doc_id":1,"resps":[],"doc":{}}`+"\n"))
	runs, err := Read(context.Background(), []string{filepath.Join(dir, "results_2025-09-09T13-25-33.5.json")}, Options{})
	if err != nil || len(runs) != 1 || runs[0].Samples != 6 || len(runs[0].Files) != 1 {
		t.Errorf("got %+v, %v", runs, err)
	}
}

// TestLoglikelihoodRows: responses are strings of numbers in lists, which are
// not scores.
func TestLoglikelihoodRows(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "rows.jsonl"), []byte(`{"doc_id":0,"doc":{"q":"x"},"target":"0","arguments":{"gen_args_0":{"arg_0":"Q","arg_1":" a"}},"resps":[[["-25.6","False"]],[["-1.5","True"]]],"filtered_resps":[["-25.6","False"],["-1.5","True"]],"doc_hash":"d","prompt_hash":"p","target_hash":"t","acc":1.0,"acc_norm":0.0}
`))
	runs, samples := importDir(t, dir)
	if want := map[string]float64{"none/acc": 1, "none/acc_norm": 0}; !reflect.DeepEqual(runs[0].Metrics, want) {
		t.Errorf("metrics %v, want %v", runs[0].Metrics, want)
	}
	if len(samples[0][0].Scores) != 2 {
		t.Errorf("scores %v", samples[0][0].Scores)
	}
}

// TestSeveralRequestsOfOneInstanceAreOneSample is HELM's way to ask about each
// reference.
func TestSeveralRequestsOfOneInstanceAreOneSample(t *testing.T) {
	dir := fixture(t, "helm", func(files []txtar.File) []txtar.File {
		for i, f := range files {
			if f.Name == "scenario_state.json" {
				var state map[string]any
				if err := json.Unmarshal(f.Data, &state); err != nil {
					t.Fatal(err)
				}
				requests := state["request_states"].([]any)
				state["request_states"] = append(requests, requests[0], requests[1])
				files[i].Data, _ = json.Marshal(state)
			}
		}
		return files
	})
	runs, _ := importDir(t, dir)
	if runs[0].Samples != 3 || check(t, runs[0], "instances with a request").Status != results.Pass {
		t.Errorf("got %+v", runs[0])
	}
}

// TestNumbersThatWouldBeRoundedAreRefusedByName puts 2^53 and worse where each
// format has a score.
func TestNumbersThatWouldBeRoundedAreRefusedByName(t *testing.T) {
	for _, tt := range []struct{ fixture, file, old string }{
		{"inspect-json", "log.json", `"value": 0.4166666666666667`},
		{"inspect-json", "log.json", `"value": "C"`},
		{"lm-eval", "results_2025-09-09T13-25-33.5.json", `"exact_match,strict-match": 0.3333333333333333`},
		{"lm-eval", "samples_sums_2025-09-09T13-25-33.5.jsonl", `"exact_match": 1.0`},
		{"helm", "stats.json", `"mean": 0.3333333333333333`},
		{"helm", "per_instance_stats.json", `"mean": 1.0`},
		{"promptfoo-v3", "output.json", `"score": 1,`},
		{"deepeval", "test_run.json", `"score": 0.9`},
		{"ragas-csv", "scores.csv", `,1.0,0.5`},
		{"ragas-json", "scores.json", `"context_recall": 0.5`},
		{"mlflow-table", "eval_results_table.json", `0.01`},
		{"weave", "calls.jsonl", `"length": 5`},
		{"openai-evals", "log.jsonl", `"accuracy": 0.5`},
		{"terminal-bench", "run/results.json", `"accuracy": 0.25`},
		{"harbor", "job/a__x1/result.json", `"reward": 1.0`},
		{"swe-bench", "acme__tiny.run1.json", `"resolved_instances": 1`},
		{"mteb", "Banking.json", `"main_score": 0.6`},
		{"every-eval-ever", "x.json", `"score": 0.5`},
		{"trulens-spans", "eval.jsonl", `score": 0.75`},
		{"phoenix", "spans.json", `"score": 0.75`},
	} {
		for _, number := range []string{"9007199254740992", "1e20", "1e999", "-1e-999"} {
			t.Run(tt.fixture+" "+number, func(t *testing.T) {
				cut := strings.LastIndexAny(tt.old, ` `) + 1
				if tt.fixture == "ragas-csv" {
					cut = 1
				}
				changed := tt.old[:cut] + number
				if strings.HasSuffix(tt.old, ",") {
					changed += ","
				}
				if tt.fixture == "ragas-csv" {
					changed += ",0.5"
				}
				dir := fixture(t, tt.fixture, replace(t, tt.file, tt.old, changed))
				_, err := Read(context.Background(), []string{dir}, Options{})
				if !refusal.Is(err, refusal.Malformed) || !strings.Contains(err.Error(), number) || !strings.Contains(err.Error(), filepath.Base(tt.file)) {
					t.Errorf("got %v", err)
				}
			})
		}
	}
}

// TestNumbersThatAreNotFiniteAreUnscored: NaN and Infinity in a row, bare or in a
// string, are neither zero nor an error.
func TestNumbersThatAreNotFiniteAreUnscored(t *testing.T) {
	for _, tt := range []struct{ fixture, file, old, before string }{
		{"lm-eval", "samples_sums_2025-09-09T13-25-33.5.jsonl", `"exact_match": 1.0`, `"exact_match": `},
		{"ragas-json", "scores.json", `"context_recall": 0.5`, `"context_recall": `},
		{"deepeval", "test_run.json", `"score": 0.9`, `"score": `},
		{"mlflow-table", "eval_results_table.json", `0.01`, ``},
		{"harbor", "job/a__x1/result.json", `"reward": 1.0`, `"reward": `},
	} {
		for _, number := range []string{"NaN", "Infinity", "-Infinity", `"N/A"`, `""`, `"nan"`, "null"} {
			t.Run(tt.fixture+" "+number, func(t *testing.T) {
				_, before := importDir(t, fixture(t, tt.fixture, nil))
				_, after := importDir(t, fixture(t, tt.fixture, replace(t, tt.file, tt.old, tt.before+number)))
				if had, has := values(before), values(after); has != had-1 {
					t.Errorf("%d scores have a value, before it were %d", has, had)
				}
			})
		}
	}
}

func values(samples [][]results.Sample) int {
	n := 0
	for _, run := range samples {
		for _, s := range run {
			for _, score := range s.Scores {
				if score.Value != nil {
					n++
				}
			}
		}
	}
	return n
}

// TestTimesKeepTheirZoneOrHaveNone: what has no zone is not given one, and
// seconds are not taken for milliseconds.
func TestTimesKeepTheirZoneOrHaveNone(t *testing.T) {
	for in, want := range map[string]results.Known{
		"2025-05-12T20:28:13-04:00":        "2025-05-12T20:28:13-04:00",
		"2023-04-17 22:08:21.9":            "2023-04-17T22:08:21.9",
		"2023-04-17 22:10:13.127375+00:00": "2023-04-17T22:10:13.127375Z",
		"2024-05-05T07:59:35":              "2024-05-05T07:59:35",
		"yesterday":                        "",
		"":                                 "",
	} {
		if got := results.Moment(in); got != want {
			t.Errorf("results.Moment(%q) = %q, want %q", in, got, want)
		}
	}
	for in, want := range map[string]results.Known{"1757424333.1103032": "2025-09-09T13:25:33.110303Z", "1757424333110": "", "0": "", "x": ""} {
		if got := results.Epoch(in); got != want {
			t.Errorf("epoch(%q) = %q, want %q", in, got, want)
		}
	}
}

// TestARowThatIsThereTwiceIsNoticed: it would count twice.
func TestARowThatIsThereTwiceIsNoticed(t *testing.T) {
	runs, _ := importDir(t, fixture(t, "inspect-json", func(files []txtar.File) []txtar.File {
		return replace(t, "log.json", `"id": "two",
   "epoch": 2`, `"id": "two",
   "epoch": 1`)(files)
	}))
	if c := check(t, runs[0], "attempts"); c.Status != results.Fail || !strings.Contains(c.Detail, "1 of 6") {
		t.Errorf("got %+v", c)
	}
}

// TestStandardInputIsRecognised: every format whose run is one file can come
// from a pipe.
func TestStandardInputIsRecognised(t *testing.T) {
	for _, name := range []string{"inspect-json", "inspect-archive", "promptfoo-v3", "promptfoo-jsonl", "deepeval", "ragas-csv", "ragas-json", "mlflow-table", "weave", "openai-evals", "claude-code", "phoenix", "otlp", "atif", "lm-eval-legacy"} {
		t.Run(name, func(t *testing.T) {
			dir := fixture(t, name, nil)
			entries, err := os.ReadDir(dir)
			if err != nil || len(entries) != 1 {
				t.Fatal(err, entries)
			}
			want, _ := importDir(t, dir)
			f, err := os.Open(filepath.Join(dir, entries[0].Name()))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			got, err := Read(context.Background(), []string{"-"}, Options{Stdin: f})
			if err != nil {
				t.Fatal(err)
			}
			for i := range got {
				if got[i].Source.Path != "-" || len(got[i].Source.SHA256) != 64 {
					t.Errorf("source %+v", got[i].Source)
				}
				got[i].Source = want[i].Source
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v\nwant %+v", got, want)
			}
		})
	}
}

// TestABadSinkStopsTheImport: an error of the receiver of the samples ends it.
func TestABadSinkStopsTheImport(t *testing.T) {
	_, err := Read(context.Background(), []string{fixture(t, "ragas-csv", nil)}, Options{Each: func(int, results.Sample) error { return fmt.Errorf("full") }})
	if err == nil || !strings.Contains(err.Error(), "full") {
		t.Errorf("got %v", err)
	}
}
