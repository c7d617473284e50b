package harness

import (
	"context"
	"slices"
	"strings"
	"testing"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/store"
	"tallystick/internal/run/sandbox"
	"tallystick/internal/run/scenario"
)

// shown are the files of a test's folder, with their text.
func shown(p *store.Picture) map[string]string {
	out := map[string]string{}
	for _, e := range p.Entries {
		if e.Kind != store.FolderEntry {
			out[e.Path] = string(e.Data) + e.Link
		}
	}
	return out
}

func TestHiddenTestsAreOverWhatTheAgentLeft(t *testing.T) {
	c := &scenario.Task{
		Files:    []digest.File{{Path: "a/a.go", Data: []byte("bug")}, {Path: "a/a_test.go", Data: []byte("old test")}},
		Tests:    []digest.File{{Path: "a/a_test.go", Data: []byte("hidden test")}, {Path: "data/in.txt", Data: []byte("hidden data")}},
		Scenario: scenario.Scenario{Test: &scenario.Test{Command: []string{"go"}, TimeoutSeconds: 1, Overlay: true}},
	}
	link, ok := store.NewEntry("data", "/etc", false, 0, nil)
	if !ok {
		t.Fatal("no such entry")
	}
	now := store.PictureOf([]digest.File{{Path: "a/a.go", Data: []byte("fix")}, {Path: "a/a_test.go", Data: []byte("easy test")}, {Path: "a/main_test.go", Data: []byte("os.Exit(0)")}})
	now.Entries = append(now.Entries, link)
	bed, ignored := testbed(c, now)
	got := shown(bed)
	for name, want := range map[string]string{"a/a.go": "fix", "a/a_test.go": "hidden test", "data/in.txt": "hidden data"} {
		if got[name] != want {
			t.Errorf("%s is %q, expected %q", name, got[name], want)
		}
	}
	if len(got) != 3 {
		t.Errorf("the test gets %v", got)
	}
	if want := []string{"a/a_test.go", "a/main_test.go", "data"}; !slices.Equal(slices.Sorted(slices.Values(ignored)), want) {
		t.Errorf("ignored: %v, expected %v", ignored, want)
	}
}

func TestNamedTestsMustBeReportedAsPassed(t *testing.T) {
	names := []string{"p TestA", "p TestB"}
	pass := func(test string) string { return `{"Action":"pass","Package":"p","Test":"` + test + "\"}\n" }
	fail := strings.Replace(pass("TestB"), "pass", "fail", 1)
	for what, test := range map[string]struct {
		output string
		exit   int
		passed bool
	}{
		"both":                     {pass("TestA") + pass("TestB"), 0, true},
		"both, among other lines":  {"{\nok\n" + pass("TestA") + `{"Action":"output","Package":"p","Test":"TestB","Output":"--- FAIL"}` + "\n" + pass("TestB"), 0, true},
		"both, and another failed": {pass("TestA") + pass("TestB"), 1, false},
		"none":                     {"ok\n", 0, false},
		"one":                      {pass("TestA"), 0, false},
		"skipped":                  {pass("TestA") + strings.Replace(pass("TestB"), "pass", "skip", 1), 0, false},
		"failed, then passed":      {pass("TestA") + fail + pass("TestB"), 0, false},
		"passed, then failed":      {pass("TestA") + pass("TestB") + fail, 0, false},
		"of another package":       {pass("TestA") + strings.Replace(pass("TestB"), `"p"`, `"q"`, 1), 0, false},
		"in the middle of a line":  {pass("TestA") + "x" + pass("TestB"), 0, false},
		"only an output that lies": {`{"Action":"output","Package":"p","Output":"{\"Action\":\"pass\",\"Package\":\"p\",\"Test\":\"TestA\"}"}` + "\n", 0, false},
	} {
		verdict := sandbox.OK
		if test.exit != 0 {
			verdict = sandbox.Failed
		}
		r, err := tested(context.Background(), &scenario.Test{MustPass: names}, sandbox.AgentResult{Verdict: verdict, ExitCode: test.exit, Stdout: []byte(test.output)})
		if err != nil || r.Passed != test.passed {
			t.Errorf("%s: passed is %v, %v", what, r.Passed, err)
		}
	}
}
