package harness

import (
	"context"
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"tallystick/internal/agent"
	"tallystick/internal/refusal"
	"tallystick/internal/sandbox"
	"tallystick/internal/scenario"
	"tallystick/internal/session"
	"tallystick/internal/store"
	"tallystick/internal/trajectory"
)

// testsInside is where a test finds the case's hidden tests.
const testsInside = "/tests"

// testEnvironment is all that a test has of an environment. Its home is empty,
// and nothing that an agent could leave in a home is looked for elsewhere.
var testEnvironment = []string{
	"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/tmp", "TMPDIR=/tmp", "LANG=C.UTF-8",
	"PYTHONDONTWRITEBYTECODE=1", "PYTHONNOUSERSITE=1", "PIP_CONFIG_FILE=/dev/null",
	"GOENV=off", "GOTOOLCHAIN=local", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "npm_config_userconfig=/dev/null",
}

// A testResult is what the test command of a coding case said.
type testResult struct {
	passed bool
	exit   int
	log    []byte
	class  sandbox.Class
}

// runTest runs the case's test on a copy of what the agent left, in a sandbox
// without any way out. The copy has the case's own tests and none of the agent's
// files that steer tests; it and the hidden tests exist only while the test runs.
func (r *run) runTest(ctx context.Context) (*testResult, error) {
	t := r.c.Scenario.Test
	now, err := r.folder.Now()
	if err != nil {
		return nil, nil // the case has failed without it
	}
	bed, ignored := testbed(r.c, now)
	dir, remove, err := store.TempDir("tally-test-")
	if err != nil {
		return nil, err
	}
	defer remove()
	o := sandbox.AgentOptions{Accept: r.w.rubrics.accept(), Command: t.Command, WorkFolder: filepath.Join(dir, "work"), System: true, Hidden: r.w.cfg.Hidden,
		Env: testEnvironment, Limits: sandbox.AgentLimits{Timeout: time.Duration(t.TimeoutSeconds) * time.Second}}
	if err := session.Plant(bed, o.WorkFolder, r.folder.Dir); err != nil {
		return nil, err
	}
	if len(r.c.Tests) > 0 {
		hidden := filepath.Join(dir, "tests")
		if err := store.PlantTree(hidden, r.c.Tests); err != nil {
			return nil, err
		}
		o.ReadOnly = append(o.ReadOnly, sandbox.Mount{Host: hidden, Inside: testsInside})
	}
	result, err := sandbox.RunAgent(ctx, o)
	// What runs here is what the agent left.
	if rerr := agent.RecordAttempts(r.s, result.Attempted); rerr != nil {
		return nil, rerr
	}
	if err != nil {
		return nil, err
	}
	out, err := tested(t, result)
	if err != nil {
		return nil, err
	}
	if len(ignored) > 0 {
		out.log = append(out.log, fmt.Sprintf("\n[not given to the test, because it steers tests: %s]\n", strings.Join(ignored, ", "))...)
	}
	out.log = []byte(r.s.Safe(string(out.log)))
	return out, r.s.Event(&trajectory.TestRun{Command: t.Command, Exit: out.exit, Ignored: ignored, Passed: out.passed, Output: r.s.Note(string(out.log), trajectory.ResultHead)})
}

// tested reads what a test command said.
func tested(t *scenario.Test, result sandbox.AgentResult) (*testResult, error) {
	out := &testResult{exit: result.ExitCode, class: result.Class, log: append(append([]byte{}, result.Stdout...), result.StderrHead...)}
	if result.Verdict != sandbox.OK {
		out.log = append(out.log, fmt.Sprintf("\n[the test ended with %s, exit status %d %s]\n", result.Verdict, result.ExitCode, result.NotStarted)...)
	}
	out.passed = result.Verdict == sandbox.OK && result.ExitCode == 0
	if result.Verdict != sandbox.OK && result.Verdict != sandbox.Failed {
		out.exit = -1
	}
	if out.passed && t.Output != "" {
		pattern, err := regexp.Compile(t.Output)
		if err != nil {
			return nil, refusal.Newf(refusal.Malformed, "the test's output: %w", err)
		}
		if !pattern.Match(out.log) {
			out.passed, out.exit = false, -1
			out.log = append(out.log, "\n[the test ended with exit status 0, and its output is not that of a test that passes]\n"...)
		}
	}
	return out, nil
}

// maxIgnored bounds the list of what a test did not get.
const maxIgnored = 100

// testbed is the folder that a test runs in: what the agent left, but for what
// the case holds back, which is as in the case. Ignored names the agent's
// changes that are not in it, escaped.
func testbed(c *scenario.Case, now *store.Picture) (bed *store.Picture, ignored []string) {
	control, start := c.TestControl(), store.PictureOf(c.Files)
	holds := func(e *store.Entry) bool { return control.HoldsBack(e.Path, e.Kind == store.LinkEntry) }
	bed = &store.Picture{}
	restored := map[string]bool{} // what must be a folder, so that the case's own files can be there
	for i := range start.Entries {
		if e := &start.Entries[i]; e.Kind == store.FileEntry && holds(e) {
			bed.Entries = append(bed.Entries, *e)
			for dir := path.Dir(e.Path); dir != "."; dir = path.Dir(dir) {
				restored[dir] = true
			}
		}
	}
	for i := range now.Entries {
		e := now.Entries[i]
		if holds(&e) || restored[e.Path] {
			continue
		}
		e.Same = "" // its first name may be held back
		bed.Entries = append(bed.Entries, e)
	}
	for _, d := range store.Compare(start, now) {
		held := d.After != nil && (holds(d.After) || restored[d.After.Path]) || d.Before != nil && holds(d.Before)
		if held && !(d.After != nil && d.After.Kind == store.FolderEntry) {
			ignored = append(ignored, store.EscapePath(d.Path()))
		}
	}
	if n := len(ignored); n > maxIgnored {
		ignored = append(ignored[:maxIgnored], fmt.Sprintf("and %d more", n-maxIgnored))
	}
	return bed.Reachable().WithFolders(), ignored
}
