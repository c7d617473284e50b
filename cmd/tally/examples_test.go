package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/store"
	"tallystick/internal/testing/repofix"
)

// examples is where they lie, seen from this package.
var examples = filepath.Join("..", "..", "examples")

// evidenceOf reads a piece of a case's evidence, and the index that names it.
func (w *agentWorkspace) evidenceOf(r *evidence.CaseScored) (files evidence.CaseFiles, read func(*digest.Content) string) {
	w.t.Helper()
	vault := store.OpenVault(store.OS{}, filepath.Join(w.dir, ".tally", "evidence"))
	read = func(d *digest.Content) string {
		if d == nil {
			return ""
		}
		data, err := vault.Get(*d, 1<<20)
		if err != nil {
			w.t.Fatal(err)
		}
		return string(data)
	}
	if err := canon.UnmarshalCanonical([]byte(read(&r.EvidenceDigests[0])), &files); err != nil {
		w.t.Fatal(err)
	}
	return files, read
}

// The example is run as its README says: the tests of the repositories run in the
// sandbox, on what the agent left.
func TestRepoFixExample(t *testing.T) {
	t.Parallel()
	w := newAgentWorkspace(t)
	if err := os.CopyFS(w.dir, os.DirFS(filepath.Join(examples, "repo-fix"))); err != nil {
		t.Fatal(err)
	}
	cases := []string{"blank-in-name", "last-line", "leap-year"}

	fixed, _ := w.run("repo-fix", "--target", "coder")
	for _, id := range cases {
		r := fixed[id]
		if r == nil || r.Outcome != evidence.Passed || r.IsolationClass != "gvisor" || r.Provenance != "authored" || r.Policy.Violations != 0 {
			t.Fatalf("case %s: %+v", id, r)
		}
		files, read := w.evidenceOf(r)
		log, diff := read(files.TestLog), read(files.Diff)
		if !strings.Contains(log, "ok    ") || strings.Contains(log, "FAIL") || !strings.Contains(diff, "\n+") || strings.Contains(diff, "test.sh") || read(files.Plan) == "" {
			t.Errorf("case %s: plan %q, diff\n%s\ntest log\n%s", id, read(files.Plan), diff, log)
		}
	}

	// Without the fixes the same tests are red: they test something.
	unfixed, _ := w.run("repo-fix", "--target", "reader", "--case", "*")
	for _, id := range cases {
		r := unfixed[id]
		if r == nil || r.Outcome != evidence.Failed || strings.Join(r.Score.FailureModes, " ") != "test-fails" {
			t.Fatalf("case %s without a fix: %+v", id, r)
		}
		files, read := w.evidenceOf(r)
		if log := read(files.TestLog); !strings.Contains(log, "FAIL  ") || read(files.Diff) != "" {
			t.Errorf("case %s: diff\n%s\ntest log\n%s", id, read(files.Diff), log)
		}
	}

	// A second run does the same, step by step.
	for _, act := range []string{"update", "check"} {
		if out, err := w.command("--workspace", w.dir, "golden", act, "repo-fix", "--target", "coder").CombinedOutput(); err != nil {
			t.Errorf("golden %s: %v\n%s", act, err, out)
		}
	}

	// An agent that changes the test to make it green does not: the test that
	// runs is the case's. That it tried is seen too.
	name := filepath.Join(w.dir, "bench", "repo-fix", "cases", "leap-year", "scenario.yaml")
	scenario, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	honest := []byte(`{path: calendar.sh, old: "\t[ $(($1 % 4)) -eq 0 ]\n", new: "\t[ $(($1 % 4)) -eq 0 ] && { [ $(($1 % 100)) -ne 0 ] || [ $(($1 % 400)) -eq 0 ]; }\n"}`)
	cheat := bytes.Replace(scenario, honest, []byte(`{path: test.sh, old: "exit $failed", new: "exit 0"}`), 1)
	if bytes.Equal(cheat, scenario) {
		t.Fatal("the scenario has no such edit")
	}
	if err := os.WriteFile(name, cheat, 0o644); err != nil {
		t.Fatal(err)
	}
	cheated, _ := w.run("repo-fix", "--target", "coder", "--case", "leap-year")
	r := cheated["leap-year"]
	if r.Outcome != evidence.Failed || strings.Join(r.Score.FailureModes, " ") != "test-fails test-changed" || r.Score.Breakdown["test-passes"] != 0 {
		t.Errorf("a changed test: %s, %+v", r.Outcome, r.Score)
	}
}

// A few tasks of the acceptance bench with their tests run for real: the sandbox
// comes to the same outcomes as the comparison that the hundred are graded by.
func TestAcceptanceTasksInTheSandbox(t *testing.T) {
	t.Parallel()
	w := newAgentWorkspace(t)
	const tasks = 6
	conduct := func(n int) repofix.Conduct { return repofix.Conduct{Miss: n%3 == 0, Denied: n == 4, Run: true} }
	dataset, err := repofix.Dataset(tasks, conduct)
	if err != nil {
		t.Fatal(err)
	}
	w.write("bench/"+repofix.Class+"/registration.yaml", repofix.Registration("scratch"))
	w.write("bench/"+repofix.Class+"/dataset.jsonl", string(dataset))
	w.write("targets/repo-fix.yaml", repofix.Target)
	records, _ := w.run(repofix.Class, "--target", "repo-fix")
	for n := 1; n <= tasks; n++ {
		task := repofix.New(n)
		want, violations := evidence.Passed, 0
		if conduct(n).Miss {
			want = evidence.Failed
		}
		if conduct(n).Denied {
			violations = 1
		}
		r := records[task.ID]
		if r == nil || r.Outcome != want || r.IsolationClass != "gvisor" || r.Policy.Violations != violations || r.Policy.RollbacksVerified != violations {
			t.Fatalf("task %s: %+v, want %s", task.ID, r, want)
		}
		files, read := w.evidenceOf(r)
		if log := read(files.TestLog); strings.Contains(log, "FAIL") != (want == evidence.Failed) || !strings.Contains(log, "ok    ") {
			t.Errorf("task %s %s, test log\n%s", task.ID, r.Outcome, log)
		}
	}
}

// TestRefundAgentExample runs the agent with its own tools in the sandbox, as its
// README says. None of its checks is unscored.
func TestRefundAgentExample(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/usr/bin/python3"); err != nil {
		t.Skip("needs Python in /usr/bin")
	}
	w := newAgentWorkspace(t)
	if err := os.CopyFS(w.dir, os.DirFS(filepath.Join(examples, "refund-agent"))); err != nil {
		t.Fatal(err)
	}
	records, _ := w.run("refunds", "--target", "refund-agent")
	for id, calls := range map[string]evidence.ToolCallCount{"in-time": {Reported: 2}, "too-late": {Reported: 1}} {
		r := records[id]
		if r == nil || r.Outcome != evidence.Passed || r.Vantage != "gateway" || r.ToolCalls == nil || *r.ToolCalls != calls {
			t.Errorf("case %s: %+v, tool calls %+v", id, r, r.ToolCalls)
		}
	}
}

// TestJudgementExample runs the classes as the README says: queries are compared by
// what they give, an attempt stops when its question is answered, and a
// class has a question for people; the script review answers such a one.
func TestJudgementExample(t *testing.T) {
	t.Parallel()
	w := newAgentWorkspace(t)
	if err := os.CopyFS(w.dir, os.DirFS(filepath.Join(examples, "judgement"))); err != nil {
		t.Fatal(err)
	}
	for class, want := range map[string]int{"orders-sql": 3, "enough": 11, "replies": 2, "meaning": 1} {
		args := []string{class}
		if class == "enough" {
			args = append(args, "--stop-early")
		}
		records, _ := w.run(args...)
		passed := 0
		for _, r := range records {
			if r.Outcome == evidence.Passed {
				passed++
			}
		}
		if passed != want {
			t.Errorf("%s: %d passed of %d records, want %d", class, passed, len(records), want)
		}
	}
}

// The templates for CI do nothing themselves: each calls the script that
// ci_templates.txtar runs, and hands over what it was given by the environment,
// never inside a command, where a name could be a program. None has a secret.
func TestCITemplatesOnlyCallTheScript(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]string{
		"github-action/action.yml":   `'"$GITHUB_ACTION_PATH/tally-ci" "$TALLY_CLASS"'`,
		"github-action/workflow.yml": "uses: ./.github/actions/tally",
		"gitlab-ci.yml":              `- ci/tally-ci "$TALLY_CLASS"`,
	} {
		data, err := os.ReadFile(filepath.Join(examples, "ci", name))
		if err != nil {
			t.Fatal(err)
		}
		var document map[string]any
		if err := yaml.Unmarshal(data, &document); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if text := string(data); !strings.Contains(text, call) || strings.Contains(text, "secrets.") || strings.Contains(text, "://") {
			t.Errorf("%s does not call the script as %s, or holds a secret or an address", name, call)
		}
		for line := range strings.Lines(string(data)) {
			if strings.Contains(line, "run:") && strings.Contains(line, "${{") {
				t.Errorf("%s puts an expression into a command: %s", name, line)
			}
		}
	}
	pullRequestsReachNothing(t)
	if info, err := os.Stat(filepath.Join(examples, "ci", "tally-ci")); err != nil || info.Mode()&0o111 == 0 {
		t.Errorf("tally-ci is not a program: %v", err)
	}
}

// pullRequestsReachNothing: GitHub takes the workflow of a pull request from the pull
// request. So a job that one starts has a machine that is thrown away and a token that only
// reads; and a job that has more is started by what was merged, and runs nothing else.
func pullRequestsReachNothing(t *testing.T) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(examples, "*", "*", "*.yml"))
	if err != nil || len(files) < 3 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, why := range reachable(t, data) {
			t.Errorf("%s: %s", file, why)
		}
	}
	data, err := os.ReadFile(filepath.Join(examples, "ci", "github-action", "workflow.yml"))
	if err != nil {
		t.Fatal(err)
	}
	for name, edit := range map[string][2]string{
		"the ledger's machine": {"runs-on: ubuntu-24.04", "runs-on: [self-hosted, tally-ledger]"},
		"its group":            {"runs-on: ubuntu-24.04", "runs-on: {group: ledger}"},
		"a token that writes":  {"    timeout-minutes: 30", "    permissions: {pull-requests: write}"},
		"one for all jobs":     {"permissions:\n  contents: read", "permissions: write-all"},
		"an environment":       {"    timeout-minutes: 30", "    environment: tally-ledger"},
		"a condition less":     {"    if: github.event_name == 'push' && github.ref == 'refs/heads/main'\n", ""},
		"another condition":    {"if: github.event_name == 'push' && github.ref == 'refs/heads/main'", "if: github.event_name == 'pull_request'"},
		"another event":        {"  pull_request:\n", "  pull_request_target:\n"},
		"its own action":       {"- run: cp -r .github/actions/tally \"$RUNNER_TEMP/tally-action\"", "- uses: ./.github/actions/tally"},
	} {
		changed := strings.Replace(string(data), edit[0], edit[1], 1)
		if changed == string(data) || len(reachable(t, []byte(changed))) == 0 {
			t.Errorf("%s is not noticed", name)
		}
	}
}

// reachable says what a pull request could reach through a workflow that it changes, or
// through one of the default branch that runs what it brings.
func reachable(t *testing.T, data []byte) (found []string) {
	t.Helper()
	var w struct {
		On          map[string]any
		Permissions any
		Jobs        map[string]struct {
			If          string
			RunsOn      any `yaml:"runs-on"`
			Environment any
			Permissions any
			Steps       []struct {
				Uses, Run string
				With      map[string]any
			}
		}
	}
	if err := yaml.Unmarshal(data, &w); err != nil {
		t.Fatal(err)
	}
	_, started := w.On["pull_request"]
	if _, target := w.On["pull_request_target"]; target {
		found = append(found, "it runs for pull requests with the rights of the default branch")
	}
	for name, job := range w.Jobs {
		writes := strings.Contains(fmt.Sprint(w.Permissions, job.Permissions), "write")
		_, hosted := job.RunsOn.(string)
		trusted := writes || !hosted || job.Environment != nil
		onlyMerged := !started || job.If == "github.event_name == 'push' && github.ref == 'refs/heads/main'"
		if trusted && !onlyMerged {
			found = append(found, fmt.Sprintf("a pull request starts the job %s, which has a machine, an environment or a token of its own", name))
		}
		for _, s := range job.Steps {
			if started && !onlyMerged && strings.HasPrefix(s.Uses, "./") {
				found = append(found, fmt.Sprintf("the job %s runs the action %s of the pull request", name, s.Uses))
			}
			if _, after := w.On["workflow_run"]; after && (strings.HasPrefix(s.Uses, "actions/checkout") || strings.HasPrefix(s.Uses, "./")) {
				found = append(found, fmt.Sprintf("the job %s has the rights of the default branch and checks something out", name))
			}
		}
	}
	return found
}
