package mine

import (
	"slices"
	"testing"

	"tallystick/internal/record/digest"
	"tallystick/internal/run/harness"
)

func TestIssueTextNamesNoPerson(t *testing.T) {
	for message, want := range map[string]string{
		"a: b\n\nWhy.\n\nSigned-off-by: A <a@b.c>\nCo-Authored-By: D <d@e.f>\n": "a: b\n\nWhy.",
		"fix a.go:12, see 0123abc\r\n\r\nText: kept\r\n":                        "fix a.go:12, see 0123abc\n\nText: kept",
	} {
		if got, ok := issueText(message); !ok || got != want {
			t.Errorf("%q: got %q", message, got)
		}
	}
	if _, ok := issueText("bytes \xff that are no text"); ok {
		t.Error("bytes that are not UTF-8 became an issue")
	}
}

func TestTestsAndCodeAreToldApart(t *testing.T) {
	for _, test := range []struct {
		l        Language
		name     string
		is, code bool
	}{
		{Go, "a/b_test.go", true, true}, {Go, "a/b.go", false, true}, {Go, "a/testdata/b.txt", false, false},
		{Python, "tests/test_a.py", true, true}, {Python, "a_test.py", true, true}, {Python, "tests/helper.py", false, true}, {Python, "a.txt", false, false},
		{Node, "a.test.js", true, true}, {Node, "__tests__/a.mjs", true, true}, {Node, "a.js", false, true}, {Node, "a.test.ts", false, true}, {Node, "a.md", false, false},
	} {
		if got := test.l.isTest(test.name); got != test.is {
			t.Errorf("%s: %s is a test: %v", test.l, test.name, got)
		}
		if got := test.l.runner().IsCode(test.name); got != test.code {
			t.Errorf("%s: %s is code: %v", test.l, test.name, got)
		}
	}
}

func TestUnsuitedCommitsSayWhy(t *testing.T) {
	add := func(path string) change {
		return change{path: path, oldMode: "000000", newMode: modeFile, kind: 'A'}
	}
	const message = "a message that is long enough"
	for want, c := range map[string]commit{
		"":                                 {message: message, changes: []change{add("a.go"), add("a_test.go")}},
		"it changes no tests":              {message: message, changes: []change{add("a.go")}},
		"it changes no code":               {message: message, changes: []change{add("a_test.go"), add("testdata/a.go"), add("vendor/x/x.go")}},
		"the message is not UTF-8":         {message: message + "\xff"},
		"it changes a link or a submodule": {message: message, changes: []change{add("a.go"), add("a_test.go"), {path: "l", oldMode: "000000", newMode: "120000", kind: 'A'}}},
	} {
		if got := c.unsuited(Go); got != want {
			t.Errorf("got %q, expected %q", got, want)
		}
	}
}

func TestImportsAreFollowedThroughATree(t *testing.T) {
	file := func(path, text string) digest.File { return digest.File{Path: path, Data: []byte(text)} }
	files := []digest.File{
		file("a/a.go", "package a\nimport (\n\"fmt\"\n\"m/b\"\n)\n"), file("a/a_test.go", "package a\nimport \"testing\"\n"),
		file("b/b.go", "package b\nimport \"example.com/x\"\n"), file("b/b_test.go", "package b\nimport \"unseen\"\n"), file("c/c.go", "package c\nimport \"m/a\"\n"),
	}
	got := importsOf("m", files, []string{"m/a"})
	if want := []string{"example.com/x", "fmt", "testing"}; !slices.Equal(got.own, []string{"m/a", "m/b"}) || !slices.Equal(got.foreign, want) {
		t.Errorf("got %+v", got)
	}
}

func TestWithoutLooksThroughImports(t *testing.T) {
	compiles := &task{own: []string{"m/a", "m/structure"}, foreign: []string{"gvisor.dev/gvisor/pkg/sentry", "os"}}
	for unwanted, want := range map[string]string{"gvisor.dev/gvisor": "gvisor.dev/gvisor/pkg/sentry", "m/structure": "m/structure", "m/struct": "", "gvisor.dev/gvisor/pkg/s": "", "o": ""} {
		if got := compiles.compilesOneOf([]string{"x", unwanted}); got != want {
			t.Errorf("without %s: %q is compiled, expected %q", unwanted, got, want)
		}
	}
}

func TestBusyMachinesGetMoreTime(t *testing.T) {
	for load, want := range map[string]int{"0.10 9 9 1/2 3": 60, "4.00 0 0 1/2 3": 120, "39.5 0 0 1/2 3": 180, "": 60, "NaN 1": 60, "-7 1": 60} {
		if got := onBusyMachine(60, []byte(load), 2); got != want {
			t.Errorf("load %q: %d seconds, expected %d", load, got, want)
		}
	}
}

func TestAClassIsMinedByOne(t *testing.T) {
	dir := t.TempDir()
	first, err := lockClass(t.Context(), dir, "c")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lockClass(t.Context(), dir, "c"); err == nil {
		t.Error("two commands mine one class")
	}
	first.Close()
	again, err := lockClass(t.Context(), dir, "c")
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
}

func TestNamedTestsAreThoseThatTheChangeKeeps(t *testing.T) {
	before := map[string]harness.TestAction{"p TestOld": "pass", "p TestNew": "fail", "p TestSkipped": "skip"}
	after := map[string]harness.TestAction{"p TestOld": "pass", "p TestNew": "pass", "p TestNew/sub": "pass", "p TestAdded": "pass", "p TestSkipped": "skip"}
	got := named(Go, before, after)
	if got.Dropped != "" || !slices.Equal(got.FailToPass, []string{"p TestAdded", "p TestNew"}) || !slices.Equal(got.PassToPass, []string{"p TestOld"}) {
		t.Errorf("got %+v", got)
	}
	if named(Go, before, before).Dropped == "" {
		t.Error("a change after which nothing more passes is a task")
	}
	if named(Go, map[string]harness.TestAction{}, after).Dropped == "" {
		t.Error("tests that did not begin on the parent were not seen to fail")
	}
}

// TestACopyOfATaskIsNone: by its message, its change or its tests, each alone. What was
// dropped takes nothing from those that follow.
func TestACopyOfATaskIsNone(t *testing.T) {
	made := func(id, issue, change, tests string) *task {
		return &task{commit: &commit{id: id}, issue: issue, shapes: [2]digest.Content{digest.ContentOf([]byte(change)), digest.ContentOf([]byte(tests))}}
	}
	known := originals{}
	for _, tt := range []struct {
		task *task
		why  string
	}{
		{made("1", "m", "c", "t"), ""},
		{made("2", "m", "c2", "t2"), "it has the same message as: 1"},
		{made("3", "m3", "c", "t3"), "it makes the same change, but for names, literals and comments, as: 1"},
		{made("4", "m4", "c4", "t"), "it has the same tests, but for names, literals and comments, as: 1"},
		{made("5", "t", "m", "c"), ""}, // the same words elsewhere
		{made("6", "m3", "c2", "t3"), ""},
		{made("7", "m4", "c4", "t4"), ""},
		{made("8", "m8", "c4", "t8"), "it makes the same change, but for names, literals and comments, as: 7"},
	} {
		if why := known.repeats(tt.task); why != tt.why {
			t.Errorf("task %s: %q, want %q", tt.task.id, why, tt.why)
		}
	}
}
