package claim

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/share/attest"
	"tallystick/internal/share/export"
	"tallystick/internal/share/importer"
)

// write puts files into a folder of the test's.
func write(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func draft(t testing.TB, path string, o Options) (*Draft, error) {
	t.Helper()
	runs, err := importer.Read(context.Background(), []string{path}, importer.Options{Setup: true})
	if err != nil {
		return nil, err
	}
	return OfRuns(runs, o)
}

func mustDraft(t testing.TB, path string, o Options) map[string]any {
	t.Helper()
	d, err := draft(t, path, o)
	if err != nil {
		t.Fatal(err)
	}
	return decode(t, d.Body)
}

func decode(t testing.TB, text []byte) map[string]any {
	t.Helper()
	var v map[string]any
	if err := canon.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

const twoTasks = `{"results":{"a":{"acc,none":0.5,"acc_stderr,none":NaN,"alias":"a"},"b":{"acc,none":1.0}},
"configs":{"a":{"num_fewshot":5,"repeats":2,"generation_kwargs":{"temperature":0.7,"until":["x"],"max_gen_toks":64}},"b":{"num_fewshot":0,"generation_kwargs":{"temperature":0.7}}},
"n-samples":{"a":{"original":9,"effective":4},"b":{"original":6,"effective":6}},
"config":{"model":"vllm","model_args":"pretrained=org/name,token=hunter2","gen_kwargs":"top_p=0.9,top_k=-1,do_sample=True","random_seed":7},
"versions":{"a":1,"b":2},"date":1757424333.5,"start_time":380330.7,"end_time":380712.6,"lm_eval_version":"0.4.9","git_hash":"abc"}`

// The table of docs/formats/credential.md for lm-eval.
func TestMappingOfLMEval(t *testing.T) {
	dir := write(t, map[string]string{"results_2026-01-01T00-00-00.json": twoTasks})
	one := mustDraft(t, dir, Options{Task: "a"})
	want := map[string]any{"numFewShot": 5.0, "temperature": 0.7, "topP": 0.9, "maxTokens": 64.0, "seed": 7.0, "nSamples": 4.0, "nTrials": 2.0,
		"generationKwargs": map[string]any{"do_sample": true, "until": []any{"x"}, "top_k": -1.0}}
	compare(t, "samplingParams", one["samplingParams"], want)
	compare(t, "modelId", one["modelId"], "huggingface://org/name")
	compare(t, "submittedAt", one["submittedAt"], 1757424333500.0)
	compare(t, "results", one["results"], map[string]any{"a": map[string]any{"acc,none": 0.5, "acc_stderr,none": nil, "alias": "a"}})
	if one["completedAt"] != nil {
		t.Error("a counter of the machine was taken for a moment")
	}
	text, _ := canon.Marshal(one)
	if bytes.Contains(text, []byte("hunter2")) {
		t.Error("a secret of model_args is in the body")
	}

	both := mustDraft(t, dir, Options{})
	compare(t, "both", both["samplingParams"].(map[string]any)["nSamples"], 10.0)
	if _, there := both["samplingParams"].(map[string]any)["numFewShot"]; there {
		t.Error("the tasks do not agree on numFewShot, and one of them was taken")
	}
	by := both["extra"].(map[string]any)["samplingByTask"].(map[string]any)
	compare(t, "by task", by["b"].(map[string]any)["numFewShot"], 0.0)
	if len(both["results"].(map[string]any)) != 2 {
		t.Errorf("results %v", both["results"])
	}
}

func compare(t testing.TB, what string, got, want any) {
	t.Helper()
	a, err1 := canon.Marshal(got)
	b, err2 := canon.Marshal(want)
	if err1 != nil || err2 != nil || !bytes.Equal(a, b) {
		t.Errorf("%s: got %s, want %s", what, a, b)
	}
}

// helmFolder is a run of HELM with two requests about one instance.
func helmFolder(t testing.TB) string {
	return write(t, map[string]string{
		"run_spec.json": `{"name":"mmlu:subject=x","scenario_spec":{"class_name":"S","args":{}},"adapter_spec":{"model":"org/m","max_train_instances":5,"num_train_trials":3,"temperature":0.0,"max_tokens":1,"num_outputs":2,"top_k_per_token":1,"stop_sequences":["\n"]},"metric_specs":[]}`,
		"stats.json":    `[{"name":{"name":"exact_match","split":"test"},"count":1,"sum":738.0,"mean":738.0}]`,
		"scenario_state.json": `{"adapter_spec":{},"request_states":[
{"instance":{"id":"id1","split":"test","input":{"text":"q"},"references":[]},"train_trial_index":0,"request":{},"result":{"success":true,"completions":[{"text":"a"}]}},
{"instance":{"input":{"text":"q"},"id":"id1","references":[],"split":"test"},"train_trial_index":1,"request":{},"result":{"success":true,"completions":[{"text":"b"}]}}]}`,
	})
}

// The table for HELM, and the digests that its folder gives.
func TestMappingOfHELM(t *testing.T) {
	dir := helmFolder(t)
	body := mustDraft(t, dir, Options{})
	compare(t, "samplingParams", body["samplingParams"], map[string]any{"numFewShot": 5, "nTrials": 3, "temperature": 0, "maxTokens": 1, "topK": 1, "nSamples": 1,
		"generationKwargs": map[string]any{"numOutputs": 2, "stop": []any{"\n"}}})
	compare(t, "results", body["results"], map[string]any{"stats": []any{map[string]any{"count": 1, "mean": 738, "sum": 738, "name": map[string]any{"name": "exact_match", "split": "test"}}}})
	instances, err := hashOf([]any{map[string]any{"id": "id1", "split": "test", "input": map[string]any{"text": "q"}, "references": []any{}}})
	if err != nil {
		t.Fatal(err)
	}
	compare(t, "datasetSha", body["datasetSha"], instances)
	if body["submittedAt"] != nil || body["harnessVersionSha"] != nil {
		t.Error("something was filled in")
	}
	// The same bytes give the same digests to every holder of them.
	d, err := draft(t, dir, Options{RunnerDID: "did:web:a.example", StartedAt: "2026-05-12T09:30:00Z", Content: Content{Harness: strings.Repeat("0", 64)}})
	if err != nil {
		t.Fatal(err)
	}
	b, err := attest.ParseBody(d.Body)
	if err != nil {
		t.Fatal(err)
	}
	checked, err := CheckContent(b, Content{EvalCode: filepath.Join(dir, "run_spec.json"), Dataset: filepath.Join(dir, "scenario_state.json")})
	if err != nil || checked[1].Status != Matches || checked[2].Status != Matches || checked[0].Status != NotGiven {
		t.Errorf("%+v, %v", checked, err)
	}
}

// A flag fills in what the files do not say; it changes nothing that they do.
func TestAFlagDoesNotContradictTheFiles(t *testing.T) {
	dir := write(t, map[string]string{"results_2026-01-01T00-00-00.json": twoTasks})
	for name, o := range map[string]Options{
		"another model": {ModelID: "gpt-9"},
		"another time":  {StartedAt: "2020-01-01T00:00:00Z"},
		"not a time":    {StartedAt: "yesterday"},
	} {
		if d, err := draft(t, dir, o); !refusal.Is(err, refusal.Usage) {
			t.Errorf("%s: %v, %v", name, d, err)
		}
	}
	same := mustDraft(t, dir, Options{ModelID: "huggingface://org/name", StartedAt: "1757424333500", CompletedAt: "1757424334000"})
	compare(t, "modelId", same["modelId"], "huggingface://org/name")
	compare(t, "submittedAt", same["submittedAt"], 1757424333500.0)
	compare(t, "completedAt", same["completedAt"], 1757424334000.0)
}

// What only a person can say comes from the person, and is in the body as it was said.
func TestWhatAPersonStatesIsInTheBody(t *testing.T) {
	overlap, delta := 0.0, -1.5
	body := mustDraft(t, filepath.Join(helmFolder(t)), Options{ContaminationMethod: "ngram-13", ContaminationOverlap: &overlap, ScaffoldDelta: &delta})
	compare(t, "contaminationCheck", body["contaminationCheck"], map[string]any{"method": "ngram-13", "overlapRatio": 0.0})
	compare(t, "scaffoldDelta", body["scaffoldDelta"], -1.5)
	if _, err := draft(t, helmFolder(t), Options{ContaminationOverlap: &overlap}); !refusal.Is(err, refusal.Usage) {
		t.Errorf("a share without its method: %v", err)
	}
}

func TestNothingIsFilledIn(t *testing.T) {
	dir := write(t, map[string]string{"r.json": `{"results":{"a":{"acc":1}},"config":{"model":"x"},"versions":{}}`})
	d, err := draft(t, dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var fields []string
	for _, m := range d.Missing {
		fields = append(fields, m.Field)
	}
	if got, want := strings.Join(fields, " "), "submittedAt harnessVersionSha evalCodeSha datasetSha runnerDid"; got != want {
		t.Errorf("missing %q, want %q", got, want)
	}
	body := decode(t, d.Body)
	for _, f := range fields {
		if _, there := body[f]; there {
			t.Errorf("%s is in the body", f)
		}
	}
	if err := d.Refuse(); !refusal.Is(err, refusal.Malformed) || !strings.Contains(err.Error(), "nothing gives submittedAt") {
		t.Errorf("got %v", err)
	}
	if _, _, err := Issue(d, Signing{Runner: Party{Key: key(t), DID: "did:web:a.example"}, Now: time.Now()}); err == nil {
		t.Error("it was signed")
	}
	// Times without a zone, and digests of another kind, do not count.
	if _, ok := milliseconds("2026-05-12T09:30:00"); ok {
		t.Error("a moment without a zone")
	}
}

func key(t testing.TB) *seal.Key {
	t.Helper()
	k, err := seal.NewKey(bytes.NewReader(bytes.Repeat([]byte{7}, 32)))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// A number that would be rounded is refused by its place, in results too.
func TestANumberThatWouldBeRoundedIsRefused(t *testing.T) {
	dir := write(t, map[string]string{"r.json": `{"results":{"a":{"acc":1,"extra":{"n":[1,9007199254740993]}}},"config":{"model":"x"},"versions":{}}`})
	_, err := draft(t, dir, Options{})
	if err == nil || !strings.Contains(err.Error(), "would be rounded") || !strings.Contains(err.Error(), "extra") {
		t.Errorf("got %v", err)
	}
}

func TestContentIsHashedAgain(t *testing.T) {
	dir := write(t, map[string]string{"wheel": "w", "code/b/x.py": "1", "code/a.txt": "2", "code/a b.txt": "3"})
	tree, err := hash("evalCodeSha", filepath.Join(dir, "code"), "")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("sh", "-c", "cd "+quote(filepath.Join(dir, "code"))+` && find . -type f -printf '%P\n' | LC_ALL=C sort | xargs -d '\n' sha256sum | sha256sum`).Output(); err == nil && len(out) > 64 && string(out[:64]) != tree.SHA256 {
		t.Errorf("sha256sum gives %s, we %s", out[:64], tree.SHA256)
	}
	b := &attest.Body{HarnessVersionSHA: strings.Repeat("0", 64), EvalCodeSHA: tree.SHA256, DatasetSHA: strings.Repeat("2", 64)}
	for name, tt := range map[string]struct {
		content Content
		want    refusal.Name
	}{
		"what it says":             {Content{EvalCode: filepath.Join(dir, "code")}, ""},
		"the digest itself":        {Content{Dataset: "sha256:" + strings.Repeat("2", 64)}, ""},
		"another digest":           {Content{Dataset: strings.Repeat("3", 64)}, refusal.DigestMismatch},
		"another file":             {Content{Harness: filepath.Join(dir, "wheel")}, refusal.DigestMismatch},
		"a file for a folder":      {Content{EvalCode: filepath.Join(dir, "wheel")}, refusal.DigestMismatch},
		"a part of the folder":     {Content{EvalCode: filepath.Join(dir, "code", "b")}, refusal.DigestMismatch},
		"weights not attested":     {Content{Model: filepath.Join(dir, "wheel")}, refusal.DigestMismatch},
		"a file that is not there": {Content{Dataset: filepath.Join(dir, "none")}, refusal.Unreadable},
		"a digest in capitals":     {Content{Dataset: strings.Repeat("A", 64)}, refusal.Unreadable},
	} {
		_, err := CheckContent(b, tt.content)
		if (err == nil) != (tt.want == "") || err != nil && !refusal.Is(err, tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "code", "link")); err == nil {
		if _, err := hash("evalCodeSha", filepath.Join(dir, "code"), ""); err == nil {
			t.Error("a link was hashed")
		}
	}
}

func TestRerunQuotesEveryWord(t *testing.T) {
	d := mustDraft(t, write(t, map[string]string{"r.json": `{"results":{"a; rm -rf ~":{"acc":1}},"config":{"model":"hf","model_args":"pretrained=x/$(id)","gen_kwargs":{"stop":"'; id #"}},"versions":{},"date":1757424333}`}), Options{})
	text, err := canon.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	b := &attest.Body{}
	if err := canon.Unmarshal(text, b); err != nil {
		t.Fatal(err)
	}
	command, _ := Rerun(b)
	out, err := exec.Command("sh", "-c", "set -- "+command+`; printf '%s\n' "$@"`).Output()
	if err != nil {
		t.Skip("no shell")
	}
	want := "lm_eval\n--model\nhf\n--model_args\npretrained=x/$(id)\n--tasks\na; rm -rf ~\n--gen_kwargs\nstop=\"'; id #\"\n"
	if string(out) != want {
		t.Errorf("the shell reads %q, want %q", out, want)
	}
}

// attempt is one of ours, as archive would give it.
func attempt() *export.Facts {
	one, half := 1.0, 0.5
	began := time.Date(2026, 5, 12, 9, 0, 0, 0, time.UTC)
	return &export.Facts{ID: "c.t.2", Class: "c", Target: "t", Origin: "example.com/evals", Level: "signed", Mode: "replay", Number: 2, Of: 3, Repeat: 1, Cases: 3,
		Started: began, Ended: began.Add(time.Minute), Finished: true, Version: "1.0", Models: []string{"m"}, Bench: "sha256:" + strings.Repeat("1", 64),
		Isolation: []export.Isolation{{Class: "gvisor", Vantage: "inside", Cases: 3}}, Registration: "sha256:" + strings.Repeat("2", 64),
		Samples: []export.Sample{
			{ID: "a", Digest: "blake3:aa", Repeat: 1, Outcome: "passed", Score: &one, Input: "qa", Answer: "ya", Expected: "ya", Started: began, Took: time.Second, Evidence: []string{"blake3:e1"}},
			{ID: "b", Digest: "blake3:bb", Repeat: 1, Outcome: "failed", Score: &half, Input: "qb", Answer: "nb", Expected: "yb", Started: began, Took: time.Second, Modes: []string{"m"}},
			{ID: "c", Digest: "blake3:cc", Repeat: 1, Outcome: "errored", Reason: "broke", Started: began},
		}}
}

func TestAttemptGivesTheSameRunEveryTime(t *testing.T) {
	o := Options{RunnerDID: "did:web:a.example", Content: Content{Harness: strings.Repeat("0", 64)}}
	d, err := OfAttempt(attempt(), o)
	if err != nil {
		t.Fatal(err)
	}
	again, err := OfAttempt(attempt(), o)
	if err != nil || !bytes.Equal(d.Body, again.Body) {
		t.Errorf("%s\n%s\n%v", d.Body, again.Body, err)
	}
	text, v, err := Issue(d, Signing{Runner: Party{Key: key(t), DID: "did:web:a.example", Method: "k1"}, Now: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	if v.Imported || v.Body.RunID[14] != '7' || v.Body.SandboxRunID == v.Body.RunID || !bytes.Contains(text, []byte(`"number":2,"of":3`)) {
		t.Errorf("got %s", text)
	}
	compare(t, "results", decode(t, v.Body.Results), map[string]any{"c": map[string]any{"total": 3, "passed": 1, "failed": 1, "errors": 1, "skipped": 0, "unscored": 0, "truncated": 0, "not_run": 0, "solve_rate": 1.0 / 3, "mean_score": 0.75}})
	// The draft does not say that another model ran it.
	o.ModelID = "better"
	if _, err := OfAttempt(attempt(), o); !refusal.Is(err, refusal.Usage) {
		t.Errorf("another model: %v", err)
	}
}

// The sandbox attestation is signed by the runner, for this run.
func TestForgedSandboxAttestation(t *testing.T) {
	o := Options{RunnerDID: seal.DIDKey(pub(t, 7)), Content: Content{Harness: strings.Repeat("0", 64)}}
	issue := func(change func(*Draft)) (*attest.Verified, attest.Trust) {
		d, err := OfAttempt(attempt(), o)
		if err != nil {
			t.Fatal(err)
		}
		if change != nil {
			change(d)
		}
		_, v, err := Issue(d, Signing{Runner: Party{Key: key(t), DID: o.RunnerDID}, Now: time.Now()})
		if err != nil {
			t.Fatal(err)
		}
		return v, attest.Trust{Now: time.Now()}
	}
	v, trust := issue(nil)
	if there, err := v.Sandboxed(trust); !there || err != nil {
		t.Errorf("%v, %v", there, err)
	}
	edit := func(old, new string) func(*Draft) {
		return func(d *Draft) {
			for i, e := range d.Evidence {
				d.Evidence[i] = bytes.ReplaceAll(e, []byte(old), []byte(new))
			}
		}
	}
	for name, change := range map[string]func(*Draft){
		"another kind": edit("ip.sandbox.run", "ip.other.run"),
		"another run":  edit(`"sandboxRunId":"0`, `"sandboxRunId":"f`),
		"no document":  edit(`"attestation"`, `"attestations"`),
	} {
		v, trust := issue(change)
		if there, err := v.Sandboxed(trust); err == nil || !there {
			t.Errorf("%s: %v, %v", name, there, err)
		}
	}
	// Signed by another key, alone or beside the runner.
	other, err := seal.NewKey(bytes.NewReader(bytes.Repeat([]byte{8}, 32)))
	if err != nil {
		t.Fatal(err)
	}
	resign := func(item canon.RawMessage, keep bool) canon.RawMessage {
		members := decode(t, item)
		about, ok := members["attestation"].(map[string]any)
		if !ok {
			return item
		}
		if !keep {
			delete(about, "proof")
		}
		text, err := canon.Marshal(about)
		if err != nil {
			t.Fatal(err)
		}
		if text, err = attest.Secure(text, attest.Signer{Key: other}); err != nil {
			t.Fatal(err)
		}
		members["attestation"] = canon.RawMessage(text)
		out, err := canon.Marshal(members)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	for _, keep := range []bool{false, true} {
		v, trust := issue(nil)
		for i, e := range v.Evidence {
			v.Evidence[i] = resign(e, keep)
		}
		if _, err := v.Sandboxed(trust); err == nil || !strings.Contains(err.Error(), "runner alone") {
			t.Errorf("signed by another key (kept %v): %v", keep, err)
		}
	}
	// Changed after it was signed.
	v, trust = issue(nil)
	for i, e := range v.Evidence {
		v.Evidence[i] = bytes.ReplaceAll(e, []byte(`"class":"gvisor"`), []byte(`"class":"microvm"`))
	}
	if _, err := v.Sandboxed(trust); err == nil {
		t.Error("a changed attestation verifies")
	}
}

func pub(t testing.TB, n byte) []byte {
	t.Helper()
	k, err := seal.NewKey(bytes.NewReader(bytes.Repeat([]byte{n}, 32)))
	if err != nil {
		t.Fatal(err)
	}
	p, _ := k.Public().Ed25519()
	return p
}

func TestJudgesDigestIsOfTheListOfJudges(t *testing.T) {
	dir := write(t, map[string]string{"r.json": `{"evaluation_id":"e","schema_version":"0.3.0","model_info":{"id":"m"},"evaluation_results":[{"evaluation_name":"a","metric_config":{"metric_name":"acc","llm_scoring":{"input_prompt":"Judge it","judges":[{"model_info":{"id":"j"}}]}},"score_details":{"score":0.5}}]}`})
	d, err := draft(t, dir, Options{RunnerDID: "did:web:a.example", StartedAt: "1", Content: Content{strings.Repeat("1", 64), strings.Repeat("1", 64), strings.Repeat("1", 64), ""}})
	if err != nil {
		t.Fatal(err)
	}
	b, err := attest.ParseBody(d.Body)
	if err != nil {
		t.Fatal(err)
	}
	if len(b.JudgesDigest) != 64 || CheckJudges(b) != nil {
		t.Errorf("judgesDigest %q: %v", b.JudgesDigest, CheckJudges(b))
	}
	b.Extra = bytes.Replace(b.Extra, []byte(`"model":"j"`), []byte(`"model":"k"`), 1)
	if CheckJudges(b) == nil {
		t.Error("another judge has the same digest")
	}
}
