package bench

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tallystick/internal/record/refusal"
	"tallystick/internal/record/strictyaml"
)

// The honest workflow, and every way out of it that a reviewer has thought of
// (trials T12 and M9).
func TestCheckCallsAcceptsOneShape(t *testing.T) {
	const honest = `name: bench
on:
  pull_request:
  push:
permissions:
  contents: read
jobs:
  fence:
    runs-on: ubuntu-24.04
    steps:
      - uses: actions/checkout@11bd71901bbe5b1630ceea73d27597364c9af683
        with:
          persist-credentials: false
      - run: |
          cd "$RUNNER_TEMP"
          curl --proto '=https' --proto-redir '=https' -fsSL -o tally.tar.gz https://files.example.org/releases/v1.2/tally_v1.2_linux_amd64.tar.gz
          echo '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08  tally.tar.gz' | sha256sum --check --strict
          mkdir tally
          tar -xzf tally.tar.gz -C tally --strip-components 1
          echo "$RUNNER_TEMP/tally" >>"$GITHUB_PATH"
      - run: tally bench verify --all --trust-root ${{ vars.TALLY_TRUST_ROOT }}
`
	swap := func(old, new string) string {
		t.Helper()
		if !strings.Contains(honest, old) {
			t.Fatalf("%q is not in the workflow", old)
		}
		return strings.Replace(honest, old, new, 1)
	}
	const (
		events   = "on:\n  pull_request:\n  push:\n"
		call     = "run: tally bench verify --all --trust-root ${{ vars.TALLY_TRUST_ROOT }}\n"
		steps    = "    steps:\n"
		checkout = "      - uses: actions/checkout@11bd71901bbe5b1630ceea73d27597364c9af683\n"
		with     = "          persist-credentials: false\n"
		step     = "      - run: tally bench"
	)
	for _, tt := range []struct {
		name, file string
		ok         bool
	}{
		{"the honest one", honest, true},
		{"what we ship", Workflow, true},
		{"with a trust root", swap("${{ vars.TALLY_TRUST_ROOT }}", "sha256:"+strings.Repeat("ab", 32)), true},
		{"a block of one line", swap(call, "run: |-\n          tally bench verify --all --trust-root ${{ vars.TALLY_TRUST_ROOT }}\n"), true},
		{"on a list", swap(events, "on: [merge_group, pull_request]\n"), true},
		{"on pull requests alone", swap(events, "on: pull_request\n"), true},
		{"minutes", swap(steps, "    timeout-minutes: 60\n"+steps), true},
		{"another of GitHub's machines", swap("ubuntu-24.04", "ubuntu-24.04-arm"), true},
		{"another release of the checkout", swap("11bd71901bbe5b1630ceea73d27597364c9af683", "08c6903cd8c0fde910a37f88322edcfb5dd907a8"), true},
		{"comments", "# ours\n" + swap(steps, "    # three\n"+steps), true},

		{"commented out", swap("- run: tally", "# - run: tally"), false},
		{"echoed", swap("run: tally", "run: echo tally"), false},
		{"one class", swap("--all", "greet"), false},
		{"its help", swap("--all", "--all --help"), false},
		{"its failure ignored", swap("--all", "--all || true"), false},
		{"something after it", swap("--all", "--all; exit 0"), false},
		{"in the background", swap("--all", "--all &"), false},
		{"into a pipe", swap("--all", "--all | tee log"), false},
		{"behind false", swap("run: tally", "run: false && tally"), false},
		{"behind an exit in the same step", swap(call, "run: |\n          exit 0\n          tally bench verify --all\n"), false},
		{"in a here-document", swap(call, "run: |\n          cat <<X\n          tally bench verify --all\n          X\n"), false},
		{"in a function that is never called", swap(call, "run: |\n          f() {\n          tally bench verify --all\n          }\n"), false},
		{"in a shell that does nothing", swap(call, call+"        shell: 'true {0}'\n"), false},
		{"a default shell that does nothing", "defaults:\n  run:\n    shell: 'true {0}'\n" + honest, false},
		{"a job's default shell", swap(steps, "    defaults:\n      run:\n        shell: 'true {0}'\n"+steps), false},
		{"another folder", swap(call, call+"        working-directory: empty\n"), false},
		{"an environment", swap(call, call+"        env:\n          BASH_ENV: x\n"), false},
		{"a job's environment", swap(steps, "    env:\n      PATH: fake\n"+steps), false},
		{"a workflow's environment", "env:\n  PATH: fake\n" + honest, false},
		{"an expression that is false", swap(call, call+"        if: ${{ github.actor == 'unknown' }}\n"), false},
		{"a job that never runs", swap(steps, "    if: false\n"+steps), false},
		{"a job that waits for one that fails", swap(steps, "    needs: other\n"+steps), false},
		{"an empty matrix", swap(steps, "    strategy:\n      matrix:\n        x: []\n"+steps), false},
		{"goes on after an error", swap(call, call+"        continue-on-error: true\n"), false},
		{"the job goes on after an error", swap(steps, "    continue-on-error: true\n"+steps), false},
		{"an earlier step that is skipped", swap(checkout, checkout+"        if: false\n"), false},
		{"only by hand", swap(events, "on: workflow_dispatch\n"), false},
		{"not for pull requests", swap(events, "on: push\n"), false},
		{"not for these paths", swap(events, "on:\n  pull_request:\n    paths-ignore: [bench/**]\n"), false},
		{"not for these branches", swap(events, "on:\n  pull_request:\n    branches: [main]\n"), false},
		{"for the base in place of the change", swap(events, "on: [pull_request, pull_request_target]\n"), false},
		{"never", swap(events, ""), false},
		{"an alias", swap("run: tally", "run: &x tally"), false},
		{"text that is not YAML", "tally bench verify --all\n", false},

		{"an install script of the checkout", swap("cd \"$RUNNER_TEMP\"\n", ".ci/install-tally\n"), false},
		{"a digest that is not checked", swap(" | sha256sum --check --strict", ""), false},
		{"a digest whose answer is ignored", swap("--check --strict", "--check --strict || true"), false},
		{"a checkout of another ref", swap(with, with+"          ref: main\n"), false},
		{"a checkout of another repository", swap(with, with+"          repository: evil/bench\n"), false},
		{"a second checkout", swap(step, "      - uses: actions/checkout@11bd71901bbe5b1630ceea73d27597364c9af683\n        with:\n          ref: main\n"+step), false},
		{"another program in its place", swap(step, "      - run: ln -sf /bin/true \"$RUNNER_TEMP/tally/tally\"\n"+step), false},
		{"an action of the checkout", swap(step, "      - uses: ./evil\n"+step), false},
		{"no time", swap(steps, "    timeout-minutes: 0\n"+steps), false},
		{"a machine that does not exist", swap("runs-on: ubuntu-24.04", "runs-on: [self-hosted, unknown]"), false},
		{"no trust root", swap(" --trust-root ${{ vars.TALLY_TRUST_ROOT }}", ""), false},
		{"a trust root of the checkout", swap("${{ vars.TALLY_TRUST_ROOT }}", "$(cat root)"), false},
	} {
		t.Run(tt.name, func(t *testing.T) { requireShape(t, ciPath, tt.file, tt.ok) })
	}
}

func TestCheckCallsAcceptsOneShapeForGitLab(t *testing.T) {
	const honest = "fence:\n  image: registry.example.org:5000/ci/tally@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\n  script:\n    - tally bench verify --all --trust-root \"$TALLY_TRUST_ROOT\"\n"
	swap := func(old, new string) string { return strings.Replace(honest, old, new, 1) }
	for _, tt := range []struct {
		name, file string
		ok         bool
	}{
		{"the honest one", honest, true},
		{"what we ship", GitLabPipeline, true},
		{"with a trust root", swap(`"$TALLY_TRUST_ROOT"`, "sha256:"+strings.Repeat("ab", 32)), true},
		{"an image that its publisher can change", swap("@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", ":latest"), false},
		{"no image", "fence:\n  script:\n    - tally bench verify --all --trust-root \"$TALLY_TRUST_ROOT\"\n", false},
		{"allowed to fail", honest + "  allow_failure: true\n", false},
		{"after an exit", swap("    - tally", "    - exit 0\n    - tally"), false},
		{"after an exit elsewhere", honest + "  before_script: [exit 0]\n", false},
		{"an exit for all jobs", "before_script: [exit 0]\n" + honest, false},
		{"by hand", honest + "  when: manual\n", false},
		{"rules", honest + "  rules: []\n", false},
		{"a runner that does not exist", honest + "  tags: [unknown]\n", false},
		{"replaced by an include", "include: other.yml\n" + honest, false},
		{"variables", "variables:\n  PATH: evil\n" + honest, false},
		{"an earlier job that leaves variables", "stages: [a, test]\nearly:\n  stage: a\n  script: [echo PATH=evil > x]\n  artifacts:\n    reports:\n      dotenv: x\n" + honest, false},
		{"no time", honest + "  timeout: 0 minutes\n", false},
	} {
		t.Run(tt.name, func(t *testing.T) { requireShape(t, GitLabFile, tt.file, tt.ok) })
	}
}

// Job 3 is not compared with a shape: GitHub takes it from the default branch. It
// installs as the others do, runs nothing of the checkout, and unpacks what a pull
// request left where it cannot lie over the files that are checked.
func TestNoFenceJobRunsTheCheckout(t *testing.T) {
	pinned := regexp.MustCompile(`^actions/[a-z-]+@[0-9a-f]{40}$`)
	steps := func(file, job string) []*strictyaml.Node {
		doc, err := strictyaml.Parse(job, []byte(file), workflowRules)
		if err != nil {
			t.Fatal(err)
		}
		return doc.Top.Member("jobs").Value.Member(job).Value.Member("steps").Value.Items
	}
	install := steps(Workflow, "fence")[1].Flow()
	for job, file := range map[string]string{"fence": Workflow, "fence-unchanged": Workflow, "fence-ran": WorkflowRan} {
		found := steps(file, job)
		if found[1].Flow() != install {
			t.Errorf("%s installs in another way: %s", job, found[1].Flow())
		}
		for i, step := range found {
			uses, run := step.Member("uses"), step.Member("run")
			switch {
			case uses != nil && !pinned.MatchString(uses.Value.Text):
				t.Errorf("%s uses %s", job, uses.Value.Text)
			case run != nil && i != 1 && !strings.HasPrefix(run.Value.Text, "tally ") && !strings.HasPrefix(run.Value.Text, "gh api "):
				t.Errorf("%s runs %s", job, run.Value.Text)
			case uses != nil && strings.HasPrefix(uses.Value.Text, "actions/download-artifact"):
				if to := step.Member("with").Value.Member("path"); to == nil || !strings.HasPrefix(to.Value.Text, "${{ runner.temp }}/") {
					t.Errorf("%s unpacks into the checkout", job)
				}
			}
		}
	}
}

// The install step does what it says: a program whose digest is another never gets
// into the PATH.
func TestTheInstallStepComparesTheDigest(t *testing.T) {
	for _, program := range []string{"bash", "sha256sum", "tar"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs %s", program)
		}
	}
	doc, err := strictyaml.Parse("bench.yml", []byte(Workflow), workflowRules)
	if err != nil {
		t.Fatal(err)
	}
	script := doc.Top.Member("jobs").Value.Member("fence").Value.Member("steps").Value.Items[1].Member("run").Value.Text
	for _, honest := range []bool{true, false} {
		dir := t.TempDir()
		f := &fixture{TB: t, dir: dir}
		f.write("src/tally_v1/tally", []byte("#!/bin/sh\n"))
		if out, err := exec.Command("tar", "-C", f.path("src"), "-czf", f.path("archive"), "tally_v1").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		// A curl that needs no network: it copies the archive to where -o says.
		f.write("bin/curl", []byte("#!/bin/sh\ncp \"$ARCHIVE\" tally.tar.gz\n"))
		f.must(os.Chmod(f.path("bin/curl"), 0o755))
		f.must(os.Mkdir(f.path("temp"), 0o755))
		sum := fmt.Sprintf("%x", sha256.Sum256(f.read("archive")))
		if !honest {
			sum = strings.Repeat("1", 64)
		}
		f.write("script", []byte(strings.Replace(script, unfilledDigest, sum, 1)))
		// As GitHub runs a step that names no shell.
		cmd := exec.Command("bash", "-e", f.path("script"))
		cmd.Dir = dir
		cmd.Env = []string{"PATH=" + f.path("bin") + ":" + os.Getenv("PATH"), "ARCHIVE=" + f.path("archive"), "RUNNER_TEMP=" + f.path("temp"), "GITHUB_PATH=" + f.path("path")}
		out, err := cmd.CombinedOutput()
		_, there := os.Stat(f.path("path"))
		if (err == nil) != honest || (there == nil) != honest {
			t.Errorf("honest %v: %v, %v: %s", honest, err, there, out)
		}
		if honest {
			if _, err := os.Stat(filepath.Join(strings.TrimSpace(string(f.read("path"))), "tally")); err != nil {
				t.Error(err)
			}
		}
	}
}

// A file where no CI system looks is never run, whatever it says.
func TestCheckCallsKnowsWhereCILooks(t *testing.T) {
	for _, tt := range []struct {
		name string
		ok   bool
	}{
		{".github/workflows/bench.yml", true},
		{".github/workflows/fence.yaml", true},
		{"ci/fence.yml", false},
		{".github/workflows/sub/bench.yml", false},
		{".github/workflow/bench.yml", false},
		{".github/workflows/bench.yml.off", false},
		{".github/workflows/.yml", false},
		{".github/workflows/b\n.yml", false},
		{"evals/.github/workflows/bench.yml", false},
		{".gitlab-ci.yml", false}, // of GitHub's form
		{"bench.yml", false},
		{"", false},
	} {
		file := strings.ReplaceAll(Workflow, WorkflowFile, tt.name)
		if err := CheckCalls(tt.name, []byte(file)); (err == nil) != tt.ok || err != nil && !refusal.Is(err, refusal.FenceMissing) {
			t.Errorf("%q: %v", tt.name, err)
		}
	}
	for name, ok := range map[string]bool{GitLabFile: true, "ci/fence.gitlab-ci.yml": true, WorkflowFile: false, "gitlab-ci.yml": false} {
		if err := CheckCalls(name, []byte(strings.ReplaceAll(GitLabPipeline, GitLabFile, name))); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
	// Job 2 looks at the file that it is in, and at no other.
	requireShape(t, ".github/workflows/other.yml", Workflow, false)
}

var (
	namesALine       = regexp.MustCompile(`\.yml:[0-9]+:`)
	foundAndExpected = regexp.MustCompile(`(?s): found .*, expected `)
)

// requireShape wants a refusal that says where, what was found and expected, and
// what to do.
func requireShape(t *testing.T, name, file string, ok bool) bool {
	t.Helper()
	err := CheckCalls(name, []byte(file))
	if ok || err == nil {
		if (err == nil) != ok {
			t.Errorf("%v in:\n%s", err, file)
		}
		return (err == nil) == ok
	}
	var r *refusal.Error
	if !errors.As(err, &r) || r.Name != refusal.FenceMissing {
		t.Errorf("%v in:\n%s", err, file)
		return false
	}
	said := err.Error()
	read := !strings.Contains(said, "cannot be read") // else it is for strictyaml to say
	if !namesALine.MatchString(said) || read && !foundAndExpected.MatchString(said) || !strings.Contains(r.Hint, "bench fence --workflow") {
		t.Errorf("the refusal does not say where, what was found and expected, or what to do: %v (%s)", err, r.Hint)
		return false
	}
	return true
}

// TestCheckCallsRefusesEveryGeneratedChange changes the files that we ship in
// every place: each setting, step and word, by everything that a hostile person
// might put there. Nothing passes.
func TestCheckCallsRefusesEveryGeneratedChange(t *testing.T) {
	for _, tt := range []struct {
		name, file string
		made       *changes
	}{
		{ciPath, Workflow, githubChanges},
		{GitLabFile, GitLabPipeline, gitlabChanges},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			doc, err := strictyaml.Parse(tt.name, []byte(tt.file), workflowRules)
			if err != nil {
				t.Fatal(err)
			}
			// Written in one line the file says the same, so what is refused below is
			// refused for the change.
			requireShape(t, tt.name, doc.Top.Flow()+"\n", true)
			seen := map[string]bool{}
			try := func(what, file string) {
				if seen[file] {
					return
				}
				seen[file] = true
				if !requireShape(t, tt.name, file, false) {
					t.Fatalf("after the change: %s", what)
				}
			}
			tt.made.each("", doc.Top, func(what string) { try(what, doc.Top.Flow()+"\n") })
			asTree := len(seen)
			changedText(tt.file, try)
			if asTree < 1000 || len(seen) < asTree+50 {
				t.Errorf("only %d and %d shapes", asTree, len(seen)-asTree)
			}
			t.Logf("%d hostile values, %d hostile texts", asTree, len(seen)-asTree)
		})
	}
}

// changes are what a hostile person might put into a file of one CI system.
type changes struct {
	settings []strictyaml.Member // into any mapping
	steps    []*strictyaml.Node  // between any items
	words    []string            // in place of any text
	harmless []string            // patterns of paths that may go
}

var githubChanges = &changes{
	settings: members(`
env: {PATH: evil, BASH_ENV: x}
defaults: {run: {shell: "true {0}"}}
concurrency: {group: g, cancel-in-progress: true}
if: ${{ false }}
continue-on-error: true
needs: [other]
strategy: {matrix: {x: []}}
container: {image: evil}
services: {db: {image: evil, ports: ["80:80"]}}
shell: "true {0}"
working-directory: empty
secrets: inherit
environment: production
outputs: {result: success}
run-name: bench
id: fence
entrypoint: /bin/true
args: x
cancel-timeout-minutes: 1
timeout-minutes: 0
timeout_minutes: 10
permissions: write-all
runs-on: self-hosted
runs_on: ubuntu-24.04
ref: main
repository: evil/bench
path: elsewhere
submodules: recursive
lfs: true
token: x
ssh-key: x
clean: false
sparse-checkout: docs
fetch-depth: 1
set-safe-directory: false
overwrite: true
if-no-files-found: ignore
uses: ./evil
run: exit 0
with: {ref: main}
name: fence-ran
types: [closed]
paths: [docs/**]
paths-ignore: ["**"]
branches: [nowhere]
branches-ignore: ["**"]
tags: [v1]
workflow_call: null
workflow_dispatch: null
schedule: [{cron: "0 0 1 1 *"}]
pull_request_target: null
Jobs: {}
jоbs: {}
fence: {uses: ./.github/workflows/evil.yml}
Fence: {runs-on: ubuntu-24.04, steps: [{run: exit 0}]}
fеnce: {runs-on: ubuntu-24.04, steps: [{run: exit 0}]}
fence-ran: {runs-on: ubuntu-24.04, steps: [{run: exit 0}]}
marker: {runs-on: ubuntu-24.04, steps: [{run: echo x > fence-ran.json}, {uses: "actions/upload-artifact@ea165f8d65b6e75b540449e92b4886f43607fa02", with: {name: fence-ran, path: fence-ran.json, overwrite: true}}]}
called: {uses: "evil/workflows/.github/workflows/x.yml@main", secrets: inherit}
x-anything: 1
"": 1
`),
	steps: values(`
- {uses: ./evil}
- {uses: ./.github/actions/tally}
- {uses: "docker://evil"}
- {uses: "docker://alpine@sha256:0000000000000000000000000000000000000000000000000000000000000000"}
- {uses: "evil/checkout@11bd71901bbe5b1630ceea73d27597364c9af683"}
- {uses: "actions/checkout@11bd71901bbe5b1630ceea73d27597364c9af683", with: {ref: main}}
- {uses: "actions/checkout@v4"}
- {uses: "actions/cache@v4", with: {path: "~/tally", key: x}}
- {uses: "actions/download-artifact@95815c38cf2ff2164869cbab79da8d1f422bc89e", with: {name: tally}}
- {run: 'ln -sf /bin/true "$RUNNER_TEMP/tally/tally"'}
- {run: "sudo ln -sf /bin/true /usr/local/bin/tally"}
- {run: .ci/install-tally}
- {run: 'echo "PATH=$PWD/evil" >>"$GITHUB_ENV"'}
- {run: 'echo "$PWD/evil" >>"$GITHUB_PATH"'}
- {run: "git checkout main"}
- {run: "git reset --hard origin/main"}
- {run: "rm -r bench/hard"}
- {run: "cp -r saved/. ."}
- {run: exit 0}
- {run: ""}
- {name: harmless, run: "true"}
- {if: always(), run: exit 0}
- {shell: python, run: pass}
- {}
- null
- []
- text
- pull_request_target
- 1
- true
`),
	words: []string{"", " ", "x", "true", "./evil", ".ci/install-tally", "docker://evil", "${{ github.event.pull_request.title }}", "${{ inputs.x }}", "${{ secrets.X }}", "$(cat evil)", "`evil`",
		"self-hosted", "unknown", "ubuntu-24.04 ", "Ubuntu-24.04", "ubuntu-99.04", "${{ matrix.os }}", "write-all", "actions/checkout@v4", "actions/checkout@main", "actions/checkout",
		"actions/checkout@11bd719", "actions/checkout@0000000000000000000000000000000000000000", "Actions/Checkout@11bd71901bbe5b1630ceea73d27597364c9af683", "actions/checkout/sub@11bd71901bbe5b1630ceea73d27597364c9af683",
		"actions/checkout@11BD71901BBE5B1630CEEA73D27597364C9AF683", "evil/checkout@11bd71901bbe5b1630ceea73d27597364c9af683", "actiоns/checkout@11bd71901bbe5b1630ceea73d27597364c9af683",
		"actions/checkout@refs/pull/1/head", "https://github.com/actions/checkout@11bd71901bbe5b1630ceea73d27597364c9af683", "tally bench verify --all", "tally bench verify", "tally version", "pull_request_target", "workflow_run"},
	harmless: []string{"jobs/fence-unchanged", "jobs/*/timeout-minutes", "on/push"},
}

var gitlabChanges = &changes{
	settings: members(`
variables: {PATH: evil}
include: evil.yml
default: {before_script: [exit 0]}
before_script: [exit 0]
after_script: [exit 0]
hooks: {pre_get_sources_script: [exit 0]}
stages: [a, test]
stage: a
workflow: {rules: [{when: never}]}
rules: []
only: [tags]
except: [merge_requests]
when: manual
allow_failure: true
needs: [other]
dependencies: [other]
extends: .evil
inherit: {default: true}
parallel: 2
retry: 2
trigger: evil/project
tags: [unknown]
services: [evil]
cache: {paths: [.]}
interruptible: true
resource_group: x
environment: production
coverage: x
start_in: 1 week
identity: x
run: [{script: exit 0}]
pages: true
secrets: {X: {vault: x}}
image: evil
entrypoint: ["true"]
script: [exit 0]
timeout: 0 minutes
artifacts: {reports: {dotenv: x}}
early: {script: [exit 0]}
Fence: {script: [exit 0]}
fеnce: {script: [exit 0]}
.pre: {script: [exit 0]}
spec: {inputs: {}}
untracked: true
exclude: ["**"]
expire_in: 1 second
"": 1
`),
	steps:    values("- exit 0\n- \"true\"\n- set +e\n- ln -sf /bin/true /usr/local/bin/tally\n- git checkout main\n- [exit 0]\n- {run: exit 0}\n- null\n- \"\"\n- .\n- bench/\n"),
	words:    []string{"", " ", "x", "true", "tally", "tally:latest", "tally@sha256:", "$IMAGE", "evil@sha256:$DIGEST", "0 minutes", "61 minutes", "10", "10 Minutes", "never", "-1 minutes", "tally bench verify --all", "tally version", "$[[ inputs.x ]]", "!reference [.evil, script]", "**"},
	harmless: []string{"fence-unchanged", "*/timeout"},
}

// members and values read lists for the table above. Text needs no quotes there.
func members(text string) []strictyaml.Member {
	var out []strictyaml.Member
	for line := range strings.Lines(strings.TrimSpace(text)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		out = append(out, strictyaml.Member{Key: key, Value: valueOf(value)})
	}
	return out
}

func values(text string) []*strictyaml.Node {
	var out []*strictyaml.Node
	for line := range strings.Lines(strings.TrimSpace(text)) {
		out = append(out, valueOf(strings.TrimPrefix(strings.TrimSpace(line), "- ")))
	}
	return out
}

func valueOf(text string) *strictyaml.Node {
	doc, err := strictyaml.Parse("a change", []byte("v: "+text+"\n"), strictyaml.Rules{PlainKeys: []string{"on"}, PlainDigits: true})
	if err != nil {
		panic(fmt.Sprintf("%s: %v", text, err))
	}
	return doc.Top.Member("v").Value
}

// each makes one change after the other to the tree, tells about it, and takes it
// back.
func (c *changes) each(where string, n *strictyaml.Node, tell func(what string)) {
	before := *n
	put := func(what string, now strictyaml.Node) {
		*n = now
		tell(where + ": " + what)
		*n = before
	}
	for _, other := range []strictyaml.Node{{Kind: strictyaml.Null, Text: "null"}, {Kind: strictyaml.Bool, Text: "true"}, {Kind: strictyaml.Number, Text: "0"}, {Kind: strictyaml.Number, Text: "-1"},
		{Kind: strictyaml.Number, Text: "61"}, {Kind: strictyaml.Number, Text: "1.5"}, {Kind: strictyaml.Number, Text: "1e1"}, {Kind: strictyaml.List}, {Kind: strictyaml.Mapping}, {Kind: strictyaml.List, Items: []*strictyaml.Node{&before}},
		{Kind: strictyaml.Mapping, Members: []strictyaml.Member{{Key: "x", Value: &before}}}} {
		// A list of the triggers, and no value for one, are as good as what we ship.
		same := other.Kind == before.Kind && other.Text == before.Text && len(other.Items) == len(before.Items) && len(other.Members) == len(before.Members)
		if !same {
			put("another kind of value", other)
		}
	}
	if n.Kind == strictyaml.Bool || n.Kind == strictyaml.Number || n.Kind == strictyaml.Null {
		put("in quotes", strictyaml.Node{Kind: strictyaml.Text, Text: n.Text})
	}
	switch n.Kind {
	case strictyaml.Text:
		c.eachText(n.Text, func(what, text string) { put(what, strictyaml.Node{Kind: strictyaml.Text, Text: text}) })
	case strictyaml.Mapping:
		c.eachMember(where, before, put)
		for _, m := range n.Members {
			c.each(path.Join(where, m.Key), m.Value, tell)
		}
	case strictyaml.List:
		c.eachItem(before, put)
		for i, item := range n.Items {
			c.each(path.Join(where, strconv.Itoa(i)), item, tell)
		}
	}
}

// eachText spoils a text: another in its place, something before, after or
// between, and each word and each line left out or changed.
func (c *changes) eachText(text string, put func(what, text string)) {
	for _, word := range c.words {
		if word != text {
			put("another text", word)
		}
	}
	for _, around := range []string{"X || true", "X; exit 0", "X & ", "X | cat", "X\nexit 0", "exit 0\nX", "true || X", "# X", "echo X", "X # x", " X", "X ", "X\n", "X\\", "!X", "if false; then X; fi", "X${{ inputs.x }}", "${{ inputs.x }}X", "X$(evil)", "X`evil`", "X'", "X\"", "X\u00a0", "X\u200b"} {
		put("around a text", strings.Replace(around, "X", text, 1))
	}
	for i := range strings.Count(text, "\n") {
		lines := strings.Split(text, "\n")
		put("cut off", strings.Join(lines[:i+1], "\n"))
		put("a line less", strings.Join(slices.Delete(slices.Clone(lines), i, i+1), "\n"))
		put("a line more", strings.Join(slices.Insert(slices.Clone(lines), i, "ln -sf /bin/true /usr/local/bin/tally"), "\n"))
		put("a line twice", strings.Join(slices.Insert(slices.Clone(lines), i, lines[i]), "\n"))
		put("a line that may fail", strings.Join(slices.Replace(slices.Clone(lines), i, i+1, lines[i]+" || true"), "\n"))
	}
	for i, r := range text {
		switch {
		case r == ' ':
			put("two blanks", text[:i]+"  "+text[i+1:])
			put("a blank less", text[:i]+text[i+1:])
			put("something between", text[:i]+" --help "+text[i+1:])
		case strings.ContainsRune(`$'"|>{}@=`, r):
			put("a mark less", text[:i]+text[i+1:])
		case r == 'a' || r == 'e' || r == 'o':
			// The address may be any, in letters that a shell leaves alone.
			put("a letter that looks the same", text[:i]+map[rune]string{'a': "а", 'e': "е", 'o': "о"}[r]+text[i+1:])
		}
	}
}

func (c *changes) eachMember(where string, before strictyaml.Node, put func(string, strictyaml.Node)) {
	with := func(list []strictyaml.Member) strictyaml.Node {
		return strictyaml.Node{Kind: strictyaml.Mapping, Members: list}
	}
	for _, setting := range c.settings {
		for _, at := range []int{0, len(before.Members)} {
			put("with "+setting.Key, with(slices.Insert(slices.Clone(before.Members), at, setting)))
		}
	}
	for i, m := range before.Members {
		rest := slices.Delete(slices.Clone(before.Members), i, i+1)
		at := path.Join(where, m.Key)
		if !slices.ContainsFunc(c.harmless, func(pattern string) bool { return matches(pattern, at) }) {
			put("without "+m.Key, with(rest))
		}
		put(m.Key+" twice", with(append(slices.Clone(before.Members), m)))
		for _, key := range []string{strings.ToUpper(m.Key), m.Key + "s", "x-" + m.Key, strings.NewReplacer("e", "е", "o", "о", "i", "і").Replace(m.Key)} {
			if key != m.Key {
				put(m.Key+" renamed", with(append(slices.Clone(rest), strictyaml.Member{Key: key, Value: m.Value})))
				put(m.Key+" and one that looks like it", with(append(slices.Clone(before.Members), strictyaml.Member{Key: key, Value: m.Value})))
			}
		}
	}
}

func (c *changes) eachItem(before strictyaml.Node, put func(string, strictyaml.Node)) {
	with := func(list []*strictyaml.Node) strictyaml.Node {
		return strictyaml.Node{Kind: strictyaml.List, Items: list}
	}
	for at := range len(before.Items) + 1 {
		for _, step := range c.steps {
			put("one more item", with(slices.Insert(slices.Clone(before.Items), at, step)))
			if at < len(before.Items) {
				put("another item", with(slices.Replace(slices.Clone(before.Items), at, at+1, step)))
			}
		}
		if at == len(before.Items) {
			break
		}
		put("one item less", with(slices.Delete(slices.Clone(before.Items), at, at+1)))
		for to := range len(before.Items) + 1 {
			put("an item twice", with(slices.Insert(slices.Clone(before.Items), to, before.Items[at])))
		}
		if at > 0 {
			swapped := slices.Clone(before.Items)
			swapped[at-1], swapped[at] = swapped[at], swapped[at-1]
			put("another order", with(swapped))
		}
	}
}

// changedText changes what is written, for which the tree has no word: anchors,
// aliases, merge keys, tags, tabs, keys that occur twice, more documents, line
// ends, and comments where something was.
func changedText(file string, try func(what, file string)) {
	for _, around := range []string{"\ufeffX", "%YAML 1.1\n---\nX", "X---\nname: other\n", "---\nname: other\n---\nX", "X...\nname: other\n", "X\x00", "X\u2028", "!!map\nX", "&a\nX", "\tX", "X\t- x\n", "X? x\n", "X<<: *a\n", "x: &a {if: false}\nX", ""} {
		try("around the file", strings.Replace(around, "X", file, 1))
	}
	try("carriage returns", strings.ReplaceAll(file, "\n", "\r\n"))
	lines := strings.SplitAfter(file, "\n")
	for i, line := range lines {
		text := strings.TrimLeft(line, " ")
		indent := line[:len(line)-len(text)]
		if text == "" || text[0] == '#' {
			continue
		}
		put := func(what, now string) {
			try(fmt.Sprintf("line %d: %s", i+1, what), strings.Join(slices.Replace(slices.Clone(lines), i, i+1, now), ""))
		}
		bare := strings.TrimPrefix(text, "- ")
		key, value, isMember := strings.Cut(strings.TrimSuffix(bare, "\n"), ":")
		if indent != "" {
			put("a tab", "\t"+text)
		}
		put("a line twice", line+line)
		if !isMember || strings.ContainsAny(key, " '\"") {
			continue
		}
		lead := indent + strings.Repeat("- ", strings.Count(text[:len(text)-len(bare)], "- "))
		under := strings.Repeat(" ", len(lead))
		if value != "" {
			put("an anchor", lead+key+": &a"+value+"\n")
			put("a tag", lead+key+": !!str"+value+"\n")
			put("a tag of its own", lead+key+": !evil"+value+"\n")
			put("an alias", lead+key+": *a\n")
		}
		put("a merge key", line[:len(line)-1]+"\n"+under+"<<: {if: false}\n")
		put("a key that is a list", lead+"["+key+"]:"+value+"\n")
		put("an explicit key", lead+"? "+key+"\n"+under+":"+value+"\n")
	}
}
