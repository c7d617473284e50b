package harness

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/run/agent"
	"tallystick/internal/run/extract"
	"tallystick/internal/run/sandbox"
	"tallystick/internal/run/scenario"
	"tallystick/internal/run/session"
	"tallystick/internal/run/trajectory"
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

// TestMeans are what a test runs with besides its case.
type TestMeans struct {
	Accept []sandbox.Class
	Hidden []string // folders that no mount may show
	// Mounts are folders of the machine that tests need: a compiler, packages
	// that are installed.
	Mounts []sandbox.Mount
	// Shown, if not nil, is what they have been digested to, and the image that the
	// tests run from.
	Shown *agent.Shown
}

// A TestResult is what the test command of a coding case said.
type TestResult struct {
	Passed    bool
	Exit      int // -1 if the command did not end by itself
	Log       []byte
	Class     sandbox.Class
	Verdict   sandbox.Verdict
	Ignored   []string // changes of the agent that the test was not given
	Attempted []sandbox.Attempt
	// Reports are what the output says of each test, by the name that
	// must_pass would have.
	Reports map[string]TestAction

	brokenPackages int // reported to fail as a whole, as what does not compile
}

// A TestAction is how a single test ended, as "go test -json" says it.
type TestAction string

// The ends of a test. An unfinished test has none.
const (
	TestPassed  TestAction = "pass"
	TestFailed  TestAction = "fail"
	TestSkipped TestAction = "skip"
)

// runTest runs the case's test on what the agent left, and notes it.
func (r *run) runTest(ctx context.Context) (*TestResult, error) {
	t := r.c.Scenario.Test
	now, err := r.folder.Now()
	if err != nil {
		return nil, nil // the case has failed without it
	}
	out, err := r.heldTest(ctx, now, r.folder.Dir)
	if out != nil {
		if rerr := r.recordTried(ctx, out.Attempted, err); rerr != nil {
			return nil, rerr
		}
	}
	if err != nil {
		return nil, err
	}
	if len(out.Ignored) > 0 {
		out.Log = append(out.Log, fmt.Sprintf("\n[not given to the test, because it steers tests: %s]\n", strings.Join(out.Ignored, ", "))...)
	}
	out.Log = []byte(r.s.Safe(string(out.Log)))
	return out, r.s.Event(&trajectory.TestRun{Command: t.Command, Exit: out.Exit, Ignored: out.Ignored, Passed: out.Passed, Output: r.s.Note(string(out.Log), trajectory.ResultHead)})
}

// recordTried records what was tried while the test ran. What the test does by
// itself is not the agent's; of a test that broke the sandbox everything is.
func (r *run) recordTried(ctx context.Context, tried []sandbox.Attempt, broken error) error {
	agents := tried
	if broken == nil {
		var tests []sandbox.Attempt
		var err error
		if agents, tests, err = r.blame(ctx, tried); err != nil {
			return err
		}
		if err := r.noteTestActs(tests); err != nil {
			return err
		}
	}
	return agent.RecordAttempts(r.s, agents)
}

// RunTest runs the case's test on a copy of a working folder, in a sandbox
// without any way out. The copy has the case's own tests and none of the agent's
// files that steer tests; it and the hidden tests exist only while the test runs.
// Files of the folder that its picture did not keep come from the folder from.
func RunTest(ctx context.Context, c *scenario.Task, now *store.Picture, from string, m TestMeans) (*TestResult, error) {
	t := c.Scenario.Test
	bed, ignored := testbed(c, now)
	dir, remove, err := store.TempDir("tally-test-")
	if err != nil {
		return nil, err
	}
	defer remove()
	o := sandbox.AgentOptions{Accept: m.Accept, Command: t.Command, WorkFolder: filepath.Join(dir, "work"), System: m.Shown.Image() == nil, Image: m.Shown.Image(), Expect: m.Shown.Expect(), Hidden: m.Hidden,
		Env: testEnvironment, Limits: sandbox.AgentLimits{Timeout: time.Duration(t.TimeoutSeconds) * time.Second}, ReadOnly: slices.Clone(m.Mounts)}
	if err := session.Plant(bed, o.WorkFolder, from); err != nil {
		return nil, err
	}
	if len(c.Tests) > 0 {
		hidden := filepath.Join(dir, "tests")
		if err := store.PlantTree(hidden, c.Tests); err != nil {
			return nil, err
		}
		o.ReadOnly = append(o.ReadOnly, sandbox.Mount{Host: hidden, Inside: testsInside})
	}
	result, err := sandbox.RunAgent(ctx, o)
	if err != nil {
		return &TestResult{Attempted: result.Attempted}, err
	}
	out, err := tested(ctx, t, result)
	if err == nil {
		out.Ignored, out.Attempted = ignored, result.Attempted
	}
	return out, err
}

// tested reads what a test command said.
func tested(ctx context.Context, t *scenario.Test, result sandbox.AgentResult) (*TestResult, error) {
	out := &TestResult{Exit: result.ExitCode, Class: result.Class, Verdict: result.Verdict, Log: append(append([]byte{}, result.Stdout...), result.StderrHead...)}
	out.Reports, out.brokenPackages = reportsIn(result.Stdout)
	if result.Verdict != sandbox.OK {
		out.note("the test ended with %s, exit status %d %s", result.Verdict, result.ExitCode, result.NotStarted)
	}
	out.Passed = result.Verdict == sandbox.OK && result.ExitCode == 0
	if result.Verdict != sandbox.OK && result.Verdict != sandbox.Failed {
		out.Exit = -1
	}
	if out.Passed && t.Output != "" {
		p, err := t.OutputPattern()
		if err != nil {
			return nil, refusal.Newf(refusal.Malformed, "the test's output: %w", err)
		}
		found, err := extract.Search(ctx, p, string(out.Log))
		var dear *extract.DearError
		switch {
		case errors.As(err, &dear):
			out.note("the output of the test cannot be searched: %v", err)
		case err != nil:
			return nil, err
		}
		if found == nil {
			out.Passed, out.Exit = false, -1
			out.note("the test ended with exit status 0, and its output is not that of a test that passes")
		}
	}
	if len(t.MustPass) > 0 {
		out.checkNamed(t.MustPass)
	}
	return out, nil
}

// note adds a line of ours to the log.
func (r *TestResult) note(format string, args ...any) {
	r.Log = fmt.Appendf(r.Log, "\n["+format+"]\n", args...)
}

// checkNamed requires of each named test that it is reported as passed. An exit
// status of 0 alone shows nothing: a program can end the tests early.
func (r *TestResult) checkNamed(names []string) {
	var missing []string
	for _, name := range names {
		if r.Reports[name] != TestPassed {
			missing = append(missing, name+" ("+cmp.Or(string(r.Reports[name]), "not reported")+")")
		}
	}
	if len(missing) == 0 {
		r.note("all of the %d named tests are reported as passed", len(names))
		return
	}
	if r.Passed {
		r.Passed, r.Exit = false, -1
	}
	shown := missing[:min(len(missing), maxIgnored)]
	r.note("%d of the %d named tests are not reported as passed: %s", len(missing), len(names), strings.Join(shown, ", "))
}

// reportsIn reads the lines that tell how tests ended. A failure stands, whatever
// is said of the same test before or after it.
func reportsIn(output []byte) (reports map[string]TestAction, brokenPackages int) {
	reports = map[string]TestAction{}
	for line := range bytes.Lines(output) {
		var e struct{ Action, Package, Test string }
		if len(line) == 0 || line[0] != '{' || json.Unmarshal(line, &e) != nil {
			continue
		}
		if e.Test == "" {
			if TestAction(e.Action) == TestFailed && e.Package != "" {
				brokenPackages++
			}
			continue
		}
		name := e.Package + " " + e.Test
		switch action := TestAction(e.Action); action {
		case TestPassed, TestFailed, TestSkipped:
			if reports[name] != TestFailed {
				reports[name] = action
			}
		}
	}
	return reports, brokenPackages
}

// maxIgnored bounds the list of what a test did not get.
const maxIgnored = 100

// testbed is the folder that a test runs in: what the agent left, but for what
// the case holds back, which is as in the case. Ignored names the agent's
// changes that are not in it, escaped. With overlay, the hidden tests are there
// in place of whatever has their paths, or would be in their way.
func testbed(c *scenario.Task, now *store.Picture) (bed *store.Picture, ignored []string) {
	control, start := c.TestControl(), store.PictureOf(c.Files)
	holds := func(e *store.Entry) bool { return control.HoldsBack(e.Path, e.Kind == store.LinkEntry) }
	bed = &store.Picture{}
	over := map[string]bool{}
	restored := map[string]bool{} // what must be a folder, so that the case's own files can be there
	put := func(e store.Entry) {
		bed.Entries = append(bed.Entries, e)
		for dir := path.Dir(e.Path); dir != "."; dir = path.Dir(dir) {
			restored[dir] = true
		}
	}
	if c.Scenario.Test.Overlay {
		for _, e := range store.PictureOf(c.Tests).Entries {
			if e.Kind == store.FileEntry {
				over[e.Path] = true
				put(e)
			}
		}
	}
	for i := range start.Entries {
		if e := &start.Entries[i]; e.Kind == store.FileEntry && holds(e) && !over[e.Path] {
			put(*e)
		}
	}
	for i := range now.Entries {
		e := now.Entries[i]
		if holds(&e) || restored[e.Path] || over[e.Path] {
			continue
		}
		e.Same = "" // its first name may be held back
		bed.Entries = append(bed.Entries, e)
	}
	for _, d := range store.Compare(start, now) {
		held := d.After != nil && (holds(d.After) || restored[d.After.Path] || over[d.After.Path]) || d.Before != nil && holds(d.Before)
		if held && !(d.After != nil && d.After.Kind == store.FolderEntry) {
			ignored = append(ignored, store.EscapePath(d.Path()))
		}
	}
	if n := len(ignored); n > maxIgnored {
		ignored = append(ignored[:maxIgnored], fmt.Sprintf("and %d more", n-maxIgnored))
	}
	return bed.Reachable().WithFolders(), ignored
}
