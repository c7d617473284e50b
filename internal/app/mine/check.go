package mine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/store"
	"tallystick/internal/run/harness"
	"tallystick/internal/run/sandbox"
	"tallystick/internal/run/scenario"
)

// checkVersion changes when a check means something else, so that what an earlier
// program found out is not taken for it.
const checkVersion = 3

// A checked is what running the tests of a task both ways has shown. It is kept, so
// that a command which was stopped resumes where it was.
type checked struct {
	Version int    `json:"version"`
	Dropped string `json:"dropped,omitempty"` // why it is not a task; "" if it is one
	// FailToPass are the tests that the change makes pass, PassToPass those that
	// pass before and after.
	FailToPass   []string `json:"fail_to_pass,omitempty"`
	PassToPass   []string `json:"pass_to_pass,omitempty"`
	Milliseconds int64    `json:"milliseconds"`

	hurried bool // it was dropped because time was up, which is not remembered
}

// A checker runs tests and remembers what came of it.
type checker struct {
	machine *machine
	memory  string // folder
	seconds int    // that one run may take on an idle machine
}

// asCase is the task as the harness would grade it.
func (t *task) asCase(m *machine, seconds int) (*scenario.Task, error) {
	command, err := t.command(m)
	if err != nil {
		return nil, err
	}
	test := &scenario.Test{Command: command, TimeoutSeconds: seconds, Overlay: true}
	return &scenario.Task{ID: t.caseID(), Files: t.before, Tests: t.tests, Scenario: scenario.Scenario{Version: 1, Test: test}}, nil
}

// key names everything that decides what a check finds.
func (k *checker) key(t *task, c *scenario.Task) (digest.Content, error) {
	var parts []digest.Content
	for _, files := range [][]digest.File{t.before, t.after, t.tests} {
		d, err := (&digest.Tree{Files: files}).Digest()
		if err != nil {
			return digest.Content{}, err
		}
		parts = append(parts, d)
	}
	data, err := canon.Marshal(struct {
		Version int              `json:"version"`
		Trees   []digest.Content `json:"trees"`
		Command []string         `json:"command"`
		Seconds int              `json:"seconds"`
		Sandbox string           `json:"sandbox"`
		With    string           `json:"with"`
	}{checkVersion, parts, c.Scenario.Test.Command, k.seconds, string(k.machine.class), k.machine.version})
	return digest.ContentOf(data), err
}

// check runs the tests of a task, or remembers what they said. Fresh says that they
// ran.
func (k *checker) check(ctx context.Context, t *task) (result *checked, fresh bool, err error) {
	c, err := t.asCase(k.machine, k.seconds)
	if err != nil {
		return &checked{Version: checkVersion, Dropped: err.Error()}, false, nil
	}
	key, err := k.key(t, c)
	if err != nil {
		return nil, false, err
	}
	file := filepath.Join(k.memory, strings.ReplaceAll(key.String(), ":", "-")+".json")
	if data, err := store.ReadFile(store.OS{}, file, 16<<20); err == nil {
		var known checked
		if canon.UnmarshalCanonical(data, &known) == nil && known.Version == checkVersion {
			return &known, false, nil
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, false, err
	}
	began := time.Now()
	if err := k.machine.warm(ctx, t); err != nil {
		return nil, false, err
	}
	if result, err = k.bothWays(ctx, t, c); err != nil {
		return nil, false, err
	}
	result.Version, result.Milliseconds = checkVersion, time.Since(began).Milliseconds()
	if result.hurried {
		return result, true, nil // it may be the machine that was slow
	}
	data, err := canon.Marshal(result)
	if err != nil {
		return nil, false, err
	}
	return result, true, store.WriteFile(store.OS{}, file, data, 0o600)
}

// bothWays runs the tests on the parent's tree and on the commit's, each twice. The
// order gives up early on commits that are not tasks, as most are.
func (k *checker) bothWays(ctx context.Context, t *task, c *scenario.Task) (*checked, error) {
	before, after := store.PictureOf(t.before), store.PictureOf(t.after)
	var first, second [2]*harness.TestResult // of each way
	for round, runs := range []*[2]*harness.TestResult{&first, &second} {
		for way, picture := range []*store.Picture{before, after} {
			r, err := k.run(ctx, c, picture)
			if err != nil {
				return nil, err
			}
			runs[way] = r
			if why := judge(r, way == 1); why != "" {
				if round == 1 {
					why = "flaky: the first time it was right, the second time " + why
				}
				return &checked{Dropped: why, hurried: r.Verdict == sandbox.Timeout}, nil
			}
			if round == 1 && !maps.Equal(first[way].Reports, r.Reports) {
				return &checked{Dropped: "flaky: " + difference(first[way].Reports, r.Reports)}, nil
			}
		}
	}
	return named(t.language, first[0].Reports, first[1].Reports), nil
}

func (k *checker) run(ctx context.Context, c *scenario.Task, now *store.Picture) (*harness.TestResult, error) {
	k.machine.lock.RLock()
	defer k.machine.lock.RUnlock()
	load, _ := os.ReadFile("/proc/loadavg") // without it, the machine counts as idle
	timed, test := *c, *c.Scenario.Test
	test.TimeoutSeconds = onBusyMachine(k.seconds, load, runtime.NumCPU())
	timed.Scenario.Test = &test
	c = &timed
	return harness.RunTest(ctx, c, now, "", k.machine.means())
}

// mostPatience bounds how much longer a run may take because others compute too. It
// is below slack: what was found out in that time can be graded at the same load.
const mostPatience = 3

// onBusyMachine is how many seconds on the clock stand for so many on an idle
// machine: sandboxes are limited by the clock, and a test that has half a processor
// takes twice as long. Load is what /proc/loadavg says.
func onBusyMachine(seconds int, load []byte, processors int) int {
	first, _, _ := strings.Cut(string(load), " ")
	running, err := strconv.ParseFloat(first, 64)
	if err != nil || !(running > float64(processors)) {
		return seconds
	}
	return int(float64(seconds) * min(running/float64(processors), mostPatience))
}

// judge says why a run is not as it must be; "" if it is.
func judge(r *harness.TestResult, withChange bool) string {
	way := "on the parent"
	if withChange {
		way = "with the change"
	}
	switch {
	case r.Verdict != sandbox.OK && r.Verdict != sandbox.Failed:
		return fmt.Sprintf("%s the tests ended with %s", way, r.Verdict)
	case withChange && !r.Passed:
		return "its tests fail with the change: " + firstFailure(r)
	case !withChange && r.Passed:
		return "its tests pass without the change"
	}
	return ""
}

// firstFailure is a word on why tests failed, for people.
func firstFailure(r *harness.TestResult) string {
	for _, name := range slices.Sorted(maps.Keys(r.Reports)) {
		if r.Reports[name] == harness.TestFailed {
			return name
		}
	}
	text := strings.TrimSpace(string(r.Log))
	if i := strings.LastIndex(text, "\n["); i > 0 {
		text = strings.TrimSpace(text[:i])
	}
	lines := strings.Split(text, "\n")
	return strings.ToValidUTF8(lines[len(lines)-1][:min(200, len(lines[len(lines)-1]))], "")
}

func difference(a, b map[string]harness.TestAction) string {
	for _, name := range slices.Sorted(maps.Keys(a)) {
		if a[name] != b[name] {
			return fmt.Sprintf("%s was %s, then %s", name, a[name], orNothing(b[name]))
		}
	}
	return "another test was reported the second time"
}

func orNothing(a harness.TestAction) string {
	if a == "" {
		return "not reported"
	}
	return string(a)
}

// named sorts the tests that pass with the change by whether they did before.
func named(l Language, before, after map[string]harness.TestAction) *checked {
	out := &checked{}
	for _, name := range slices.Sorted(maps.Keys(after)) {
		_, test, _ := strings.Cut(name, " ")
		switch {
		case after[name] != harness.TestPassed || len(name) > 1000:
		case l == Go && strings.Contains(test, "/"): // its parent passes only if it does
		case before[name] == harness.TestPassed:
			out.PassToPass = append(out.PassToPass, name)
		default:
			out.FailToPass = append(out.FailToPass, name)
		}
	}
	switch {
	case len(out.FailToPass) == 0:
		out.Dropped = "no single test fails on the parent and passes with the change"
	case !slices.Contains(slices.Collect(maps.Values(before)), harness.TestFailed):
		// The tests did not even begin: that is not a test which was seen to fail.
		out.Dropped = "no test is reported to fail on the parent"
	}
	return out
}
