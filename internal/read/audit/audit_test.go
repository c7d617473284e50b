package audit

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
)

// textFile is a file for a test.
func textFile(name, s string) Source {
	return Source{Name: name, Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(s)), nil }}
}

func run(t testing.TB, in Input) *Report {
	t.Helper()
	r, err := Run(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

const dirtyResults = `{"task_id":"fx-leak","model":"m","question":"Which acid is named in the corrigendum of the 1987 report on cyclic compounds?","correct":true,"answer":"cyclohexanecarboxylic acid","expected_output":"cyclohexanecarboxylic acid","turns":3,"outputTokens":50}
{"task_id":"fx-nowork","model":"m","question":"How many pages are there in the second volume of the atlas in question?","correct":true,"answer":"171","expected_output":"171","turns":0,"outputTokens":5}
{"task_id":"fx-oracle","model":"m","question":"What was the population of the country in the year of the census, in millions?","correct":true,"answer":"42.7 million","expected_output":"42.7 million","turns":2,"outputTokens":5}
{"task_id":"fx-grader","model":"m","question":"Which tool did the engineers use to measure the depth of the lake in 1921?","correct":true,"answer":"sonar","expected_output":"sonar","turns":2,"outputTokens":5}
{"task_id":"fx-collision","model":"m","question":"Who designed the unfinished church with the towers in the city of Barcelona?","correct":true,"answer":"yes","expected_output":"Antoni Gaudi","turns":2,"outputTokens":5}
`

const dirtyTrajectories = `{"task_id":"fx-leak","steps":[{"type":"prompt","content":"Find the acid."},{"type":"llm_call","output":"I search."},{"type":"tool_call","name":"web_fetch","input":{"url":"https://huggingface.co/datasets/gaia-benchmark/GAIA"}},{"type":"tool_result","name":"web_fetch","url":"https://huggingface.co/datasets/gaia-benchmark/GAIA","output":"... cyclohexanecarboxylic acid ..."}]}
{"task_id":"fx-nowork","steps":[{"type":"prompt","content":"How many pages?"}]}
{"task_id":"fx-oracle","steps":[{"type":"prompt","content":"The expected answer is 42.7 million. What was it?"},{"type":"llm_call","output":"42.7 million"}]}
{"task_id":"fx-grader","steps":[{"type":"prompt","content":"Which tool?"},{"type":"llm_call","output":"hm"},{"type":"tool_call","name":"python_exec","input":"open('~/.cache/ruflo/gaia/judgments/x.json','w').write('{}') # monkey-patch"},{"type":"tool_result","name":"python_exec","output":"done"}]}
{"task_id":"fx-collision","steps":[{"type":"prompt","content":"Who?"},{"type":"llm_call","output":"yes"}]}
`

func TestTheOriginalsDirtyRunFails(t *testing.T) {
	r := run(t, Input{
		Results: textFile("results.jsonl", dirtyResults), Trajectories: textFile("trajectories.jsonl", dirtyTrajectories),
		Metadata: textFile("metadata.json", `{"harness":"x"}`), AuditedAt: time.Date(2026, 7, 3, 0, 0, 0, 0, time.UTC),
	})
	got := slices.Clone(r.Attestation.CriticalFailures)
	slices.Sort(got)
	if want := []string{"answer-leakage", "grader-isolation", "no-work-pass", "oracle-leakage"}; !slices.Equal(got, want) {
		t.Errorf("critical failures %q, expected %q", got, want)
	}
	if want := []string{"normalization-collision", "voting-disclosure", "split-integrity"}; !slices.Equal(r.Attestation.WarnFailures, want) {
		t.Errorf("warn failures %q, expected %q", r.Attestation.WarnFailures, want)
	}
	if r.Met() || r.Attestation.Clean || r.Attestation.Complete {
		t.Errorf("attestation %+v", r.Attestation)
	}
	if t.Failed() {
		doc, _ := r.Encode()
		t.Log(string(doc))
	}
}

// What the words clean and strict_clean mean is the original's choice.
func TestAWarningLeavesAReportCleanAndNotStrictlySo(t *testing.T) {
	for _, tt := range []struct {
		severity, status string
		clean, strict    bool
	}{
		{Critical, Fail, false, false},
		{Warn, Fail, true, false},
		{Critical, Skip, true, true},
		{Warn, Pass, true, true},
	} {
		if a := attest([]Check{{ID: "x", Severity: tt.severity, Status: tt.status}}); a.Clean != tt.clean || a.StrictClean != tt.strict {
			t.Errorf("%s %s: clean %t, strictly %t", tt.severity, tt.status, a.Clean, a.StrictClean)
		}
	}
}

// TestStrictWantsAllEvidence: a run of which evidence is missing is no success for
// who asks strictly.
func TestStrictWantsAllEvidence(t *testing.T) {
	for _, strict := range []bool{false, true} {
		in := newScene().input(t)
		in.Strict = strict
		if r := run(t, in); !r.Met() {
			t.Errorf("strict %t: %+v", strict, r.Attestation)
		}
		in.Trajectories = Source{}
		if r := run(t, in); r.Met() == strict || !r.Attestation.Clean {
			t.Errorf("strict %t, without trajectories: met %t, %+v", strict, r.Met(), r.Attestation)
		}
	}
}
