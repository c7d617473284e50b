package harness

import (
	"context"
	"regexp"
	"sync"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/format"
	"tallystick/internal/record/store"
	"tallystick/internal/run/sandbox"
	"tallystick/internal/run/sandbox/calls"
	"tallystick/internal/run/scenario"
	"tallystick/internal/run/trajectory"
)

// untouched runs the case's test on the folder as the agent got it, once.
func (r *run) untouched(ctx context.Context) (*TestResult, error) {
	if r.before != nil {
		return r.before, nil
	}
	var err error
	r.before, err = r.testOn(ctx, store.PictureOf(r.c.Files))
	return r.before, err
}

func (r *run) testOn(ctx context.Context, now *store.Picture) (*TestResult, error) {
	out, err := r.heldTest(ctx, now, "")
	if err == nil {
		out.Log = []byte(r.s.Safe(string(out.Log)))
	}
	return out, err
}

// heldTest runs the test, and refuses what it said if something that it was shown
// changed meanwhile.
func (r *run) heldTest(ctx context.Context, now *store.Picture, from string) (out *TestResult, err error) {
	shown, err := r.w.testsOf(r.c)
	if err != nil {
		return nil, err
	}
	err = shown.While(func() (err error) {
		out, err = RunTest(ctx, r.c, now, from, TestMeans{Accept: r.w.rubrics.accept(), Hidden: r.w.cfg.Hidden, Mounts: r.w.cfg.TestMounts, Shown: shown})
		return err
	})
	return out, err
}

// blame parts what was tried while the test ran into what the agent left and what
// the test does by itself: on the folder as the agent got it, or with the recorded
// change. An agent cannot keep a test from doing what it does; that a test reaches for
// one address is no leave to reach for another. The test is run again only if something
// forbidden was tried.
func (r *run) blame(ctx context.Context, attempts []sandbox.Attempt) (agents, tests []sandbox.Attempt, err error) {
	own := map[string]bool{}
	again := []func() (*TestResult, error){func() (*TestResult, error) { return r.untouched(ctx) }}
	if after := r.c.After(); after != nil {
		again = append(again, func() (*TestResult, error) { return r.testOn(ctx, store.PictureOf(after)) })
	}
	for _, run := range again {
		if !hasOther(attempts, own) {
			break
		}
		result, err := run()
		if err != nil {
			return nil, nil, err
		}
		for _, a := range result.Attempted {
			own[actOf(a)] = true
		}
	}
	for _, a := range attempts {
		if a.Act != "" && own[actOf(a)] {
			tests = append(tests, a)
		} else {
			agents = append(agents, a)
		}
	}
	return agents, tests, nil
}

// byChance is what differs between two runs of one test by itself: ports, and the numbers
// of processes.
var byChance = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`:[0-9]+$|/proc/[0-9]+`) })

// actOf is an act with its subject, the same in every run of one program.
func actOf(a sandbox.Attempt) string {
	if a.Act == calls.Flood { // its subject is how many there were
		return string(a.Act)
	}
	return string(a.Act) + " " + a.What + " " + byChance().ReplaceAllString(a.Detail, "")
}

// hasOther reports whether there is an act that is not among those of the test.
func hasOther(attempts []sandbox.Attempt, own map[string]bool) bool {
	for _, a := range attempts {
		if a.Act != "" && !own[actOf(a)] {
			return true
		}
	}
	return false
}

// noteTestActs records what the test itself tried. It is not held against the agent.
func (r *run) noteTestActs(acts []sandbox.Attempt) error {
	for _, a := range acts {
		if err := r.s.Attempted(trajectory.SecurityEvent{Name: "test." + a.What, Detail: a.Detail, Severity: evidence.Info}, ""); err != nil {
			return err
		}
		r.testActs = append(r.testActs, string(a.Act))
	}
	return nil
}

// keepIssue puts into the evidence what shows that the case is an issue of a
// repository, and what the agent made of it.
func (r *run) keepIssue(ctx context.Context, g *Graded) error {
	issue, err := r.c.Issue()
	if issue == nil || err != nil || r.folder == nil {
		return err
	}
	before, err := r.untouched(ctx)
	if err != nil {
		return err
	}
	facts := &evidence.RepositoryIssue{Version: format.Version, Name: issue.Name, Commit: issue.Commit, Parent: issue.Parent, Runner: issue.Runner.Language,
		Change: issue.Change, Tests: issue.Tests, Before: *r.issueTest(g, before), TestActs: r.testActs, Changed: r.changedCode(issue.Runner)}
	if r.test != nil {
		facts.After = r.issueTest(g, r.test)
		for _, name := range r.c.Scenario.Test.MustPass {
			if r.test.Reports[name] == TestPassed && before.Reports[name] != TestPassed {
				facts.Fixed++
			}
		}
	}
	if err := facts.Validate(); err != nil {
		return err
	}
	data, err := canon.Marshal(facts)
	if err == nil {
		g.Files.Issue = &evidence.IssueFiles{Before: facts.Before.Log, Facts: *g.put(data)}
	}
	return err
}

func (r *run) issueTest(g *Graded, t *TestResult) *evidence.IssueTest {
	out := &evidence.IssueTest{Exit: t.Exit, Failed: t.brokenPackages, Isolation: string(t.Class), Log: *g.put(t.Log), Passed: t.Passed, Reported: len(t.Reports)}
	for _, action := range t.Reports {
		switch action {
		case TestFailed:
			out.Failed++
		case TestSkipped:
			out.Skipped++
		}
	}
	return out
}

// maxChangedCode bounds the list of code that an agent changed.
const maxChangedCode = 1000

// changedCode lists the code that the agent changed and that the test was given.
// Comments, blanks, tests and files that are not code do not count.
func (r *run) changedCode(runner *scenario.Runner) []string {
	changes, err := r.folder.Changes()
	if err != nil {
		return nil
	}
	control := r.c.TestControl()
	var out []string
	for _, d := range changes {
		name := d.Path()
		if len(out) == maxChangedCode || !runner.IsCode(name) || scenario.SteersTests(name) || control.HoldsBack(name, false) {
			continue
		}
		before, ok := codeOf(d.Before)
		after, known := codeOf(d.After)
		if ok && known && !runner.SameCode(before, after) {
			out = append(out, store.EscapePath(name))
		}
	}
	return out
}

// codeOf is the text of a file that may be missing. Of a link, a folder or a file
// that was not kept it is not known.
func codeOf(e *store.Entry) ([]byte, bool) {
	if e == nil {
		return nil, true
	}
	return e.Data, e.Kind == store.FileEntry && e.Kept()
}
