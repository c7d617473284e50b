package bench

import (
	"os"
	"strings"
	"testing"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
)

const ciPath = ".github/workflows/bench.yml"

func TestFenceNoticesThatItIsSwitchedOff(t *testing.T) {
	for _, tt := range []struct {
		name   string
		poison func(f *fixture)
		want   refusal.Name
		texts  []string
	}{
		{"nothing", func(f *fixture) {}, "", nil},
		{"a scratch class is not guarded", func(f *fixture) {
			for name, data := range Example("play", Scratch, nil, nil, now) {
				f.write("bench/play/"+name, data)
			}
		}, "", nil},
		{"the call commented out", func(f *fixture) { f.edit(ciPath, "- run: tally", "# run: tally") },
			refusal.PinMismatch, []string{ciPath, "pins blake3:"}},
		{"one byte of the CI file", func(f *fixture) { f.flip(ciPath) }, refusal.PinMismatch, []string{ciPath}},
		{"the CI file removed", func(f *fixture) { f.remove(ciPath) }, refusal.FenceMissing, []string{ciPath}},
		{"the CI file replaced by a link", func(f *fixture) {
			f.must(os.Rename(f.path(ciPath), f.path("real.yml")))
			f.link("../../real.yml", ciPath)
		}, refusal.BenchTreeInvalid, []string{ciPath}},
		{"the pin changed with it", func(f *fixture) {
			f.write(ciPath, []byte("jobs: {}\n"))
			pins, _, err := LoadPins(f.root)
			f.must(err)
			pins.CI.Digest = digest.ContentOf([]byte("jobs: {}\n"))
			f.write(PinsFile, pins.Format())
		}, refusal.SignatureInvalid, []string{PinsFile}},
		{"a file that never called it, pinned and signed", func(f *fixture) {
			f.write(ciPath, []byte("jobs: {}\n"))
			pins, _, err := LoadPins(f.root)
			f.must(err)
			pins.CI.Digest = digest.ContentOf([]byte("jobs: {}\n"))
			f.write(PinsFile, pins.Format())
			f.sealPins("alice", "bob")
		}, refusal.FenceMissing, []string{"nothing says when it runs"}},
		{"no CI file pinned", func(f *fixture) {
			pins, _, err := LoadPins(f.root)
			f.must(err)
			pins.CI = nil
			f.write(PinsFile, pins.Format())
			f.sealPins("alice", "bob")
		}, refusal.PinMismatch, []string{"pins no CI file"}},
		{"the pins removed", func(f *fixture) { f.remove(PinsFile) }, refusal.BenchIncomplete, []string{PinsFile}},
		{"a class removed", func(f *fixture) { f.remove("bench/greet") }, refusal.BenchIncomplete, []string{"class greet"}},
		{"its rubric removed", func(f *fixture) { f.remove("bench/greet/rubric.star") }, refusal.BenchIncomplete, []string{"class greet", "rubric"}},
		{"its cases removed", func(f *fixture) { f.remove("bench/greet/cases"); f.remove("bench/greet/dataset.jsonl") },
			refusal.BenchIncomplete, []string{"class greet", "no cases"}},
		{"its registration removed", func(f *fixture) { f.remove("bench/greet/registration.yaml") }, refusal.BenchIncomplete, []string{"class greet", "registration.yaml"}},
		{"a class that became scratch", func(f *fixture) { f.edit("bench/greet/registration.yaml", "trust: signed", "trust: scratch") },
			refusal.PinMismatch, []string{"class greet", "trust scratch"}},
		{"a signed class that nobody pinned", func(f *fixture) {
			for name, data := range Example("play", Signed, nil, nil, now) {
				f.write("bench/play/"+name, data)
			}
		}, refusal.PinMismatch, []string{"class play"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t)
			tt.poison(f)
			fence, err := CheckFence(f.root, ciPath, f.opt)
			if tt.want == "" {
				f.must(err)
				if fence.Digest != digest.ContentOf(f.read(ciPath)) || len(fence.Classes) != 1 {
					t.Errorf("fence %+v", fence)
				}
				return
			}
			requireRefusal(t, err, tt.want, tt.texts...)
		})
	}
}

// A copy of the pinned file elsewhere is not the one that CI runs.
func TestFenceIsThePinnedFileAndNotACopy(t *testing.T) {
	f := newFixture(t)
	f.write("copy.yml", f.read(ciPath))
	_, err := CheckFence(f.root, "copy.yml", f.opt)
	requireRefusal(t, err, refusal.PinMismatch, "copy.yml", "pins "+ciPath)
}

// The honest workflow, and every way out of it that anybody has thought of
// (trials T12).
func TestCheckCallsAcceptsOneShape(t *testing.T) {
	const honest = `name: bench
on:
  pull_request:
  push:
jobs:
  fence:
    runs-on: ubuntu-24.04
    steps:
      - uses: actions/checkout@v4
      - run: make install-tally
      - run: tally bench verify --all
`
	swap := func(old, new string) string {
		t.Helper()
		if !strings.Contains(honest, old) {
			t.Fatalf("%q is not in the workflow", old)
		}
		return strings.Replace(honest, old, new, 1)
	}
	const call = "run: tally bench verify --all\n"
	for _, tt := range []struct {
		name, file string
		ok         bool
	}{
		{"the honest one", honest, true},
		{"what we ship", Workflow, true},
		{"with a trust root", swap("--all", "--all --json --trust-root ${{ vars.TALLY_TRUST_ROOT }}"), true},
		{"with a trust root of the environment", swap("--all", `--all --trust-root "$TALLY_TRUST_ROOT"`), true},
		{"another path of tally", swap("tally bench verify", "./bin/tally bench verify"), true},
		{"a block of one line", swap(call, "run: |\n          tally bench verify --all\n"), true},
		{"on a list", swap("on:\n  pull_request:\n  push:\n", "on: [workflow_dispatch, push]\n"), true},
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
		{"in a function that nobody calls", swap(call, "run: |\n          f() {\n          tally bench verify --all\n          }\n"), false},
		{"in a shell that does nothing", swap(call, call+"        shell: 'true {0}'\n"), false},
		{"a default shell that does nothing", "defaults:\n  run:\n    shell: 'true {0}'\n" + honest, false},
		{"a job's default shell", swap("    steps:", "    defaults:\n      run:\n        shell: 'true {0}'\n    steps:"), false},
		{"another folder", swap(call, call+"        working-directory: empty\n"), false},
		{"an environment", swap(call, call+"        env:\n          BASH_ENV: x\n"), false},
		{"a job's environment", swap("    steps:", "    env:\n      PATH: fake\n    steps:"), false},
		{"a workflow's environment", "env:\n  PATH: fake\n" + honest, false},
		{"an expression that is false", swap(call, call+"        if: ${{ github.actor == 'nobody' }}\n"), false},
		{"a job that never runs", swap("    steps:", "    if: false\n    steps:"), false},
		{"a job that waits for one that fails", swap("    steps:", "    needs: other\n    steps:"), false},
		{"an empty matrix", swap("    steps:", "    strategy:\n      matrix:\n        x: []\n    steps:"), false},
		{"goes on after an error", swap(call, call+"        continue-on-error: true\n"), false},
		{"the job goes on after an error", swap("    steps:", "    continue-on-error: true\n    steps:"), false},
		{"an earlier step that is skipped", swap("- run: make install-tally\n", "- run: make install-tally\n        if: false\n"), false},
		{"only by hand", swap("on:\n  pull_request:\n  push:\n", "on: workflow_dispatch\n"), false},
		{"not for these paths", swap("on:\n  pull_request:\n  push:\n", "on:\n  pull_request:\n    paths-ignore: [bench/**]\n"), false},
		{"not for these branches", swap("on:\n  pull_request:\n  push:\n", "on:\n  push:\n    branches: [main]\n"), false},
		{"never", swap("on:\n  pull_request:\n  push:\n", ""), false},
		{"an alias", swap("run: tally", "run: &x tally"), false},
		{"text that is not YAML", "tally bench verify --all\n", false},
		{"GitLab", "fence:\n  image: tally\n  script:\n    - tally bench verify --all\n", true},
		{"GitLab, allowed to fail", "fence:\n  script:\n    - tally bench verify --all\n  allow_failure: true\n", false},
		{"GitLab, after an exit", "fence:\n  script:\n    - exit 0\n    - tally bench verify --all\n", false},
		{"GitLab, after an exit elsewhere", "fence:\n  before_script: [exit 0]\n  script: [tally bench verify --all]\n", false},
		{"GitLab, an exit for all jobs", "before_script: [exit 0]\nfence:\n  script: [tally bench verify --all]\n", false},
		{"GitLab, by hand", "fence:\n  script: [tally bench verify --all]\n  when: manual\n", false},
		{"GitLab, rules", "fence:\n  script: [tally bench verify --all]\n  rules: []\n", false},
		{"GitLab, replaced by an include", "include: other.yml\nfence:\n  script: [tally bench verify --all]\n", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := CheckCalls("ci.yml", []byte(tt.file))
			if (err == nil) != tt.ok || err != nil && !refusal.Is(err, refusal.FenceMissing) {
				t.Errorf("%v in:\n%s", err, tt.file)
			}
		})
	}
}

func TestMarkerIsOfOneCommitAndOneFile(t *testing.T) {
	f := newFixture(t)
	fence, err := CheckFence(f.root, ciPath, f.opt)
	f.must(err)
	benches := map[string]digest.ID{"greet": f.accepts().Digest()}
	honest := NewMarker(fence, "c0ffee", benches)
	data, err := honest.Marshal()
	f.must(err)
	f.must(honest.Check("marker", data))
	for _, tt := range []struct {
		name  string
		data  []byte
		texts []string
	}{
		{"another commit", replace(data, "c0ffee", "decade"), []string{"commit", "decade", "c0ffee"}},
		{"another file", replace(data, "bench.yml", "other.yml"), []string{"ci_file"}},
		{"another digest of the file", replace(data, fence.Digest.String()[:20], "blake3:0000000000000"), []string{"ci_digest"}},
		{"other pins", replace(data, fence.Pins.String()[:20], "sha256:0000000000000"), []string{"pins"}},
		{"another bench", replace(data, benches["greet"].String()[:20], "sha256:0000000000000"), []string{"bench greet"}},
		{"one bench less", replace(data, `"greet":"`+benches["greet"].String()+`"`, ""), []string{"bench greet"}},
		{"one bench more", replace(data, `"benches":{`, `"benches":{"a":"`+fence.Pins.String()+`",`), []string{"benches"}},
		{"nothing", nil, []string{"not a marker"}},
		{"something else", []byte("ok\n"), []string{"not a marker"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			requireRefusal(t, honest.Check("marker", tt.data), refusal.FenceDidNotRun, append(tt.texts, "marker")...)
		})
	}
}

func replace(data []byte, old, new string) []byte {
	return []byte(strings.Replace(string(data), old, new, 1))
}
