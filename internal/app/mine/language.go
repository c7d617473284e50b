package mine

import (
	_ "embed" // what runs tests in the sandbox
	"fmt"
	"path"
	"slices"
	"strings"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
)

// A Language says which files are tests and how they are run.
type Language string

// The languages.
const (
	Go     Language = "go"
	Python Language = "python"
	Node   Language = "node"
)

// Languages are those that can be mined.
func Languages() []string { return []string{string(Go), string(Python), string(Node)} }

// languageOf guesses from the files at the top of a tree.
func languageOf(entries []treeEntry) (Language, error) {
	has := func(match func(string) bool) bool {
		return slices.ContainsFunc(entries, func(e treeEntry) bool { return match(e.path) })
	}
	switch {
	case has(func(p string) bool { return p == "go.mod" }):
		return Go, nil
	case has(func(p string) bool { return p == "package.json" }):
		return Node, nil
	case has(func(p string) bool { return strings.HasSuffix(p, ".py") }):
		return Python, nil
	}
	return "", refusal.Newf(refusal.Usage, "the newest commit has no go.mod, no package.json and no Python file").
		WithHint("name the language with --language: %s", strings.Join(Languages(), ", "))
}

// isTest reports whether a path is a test that can be run.
func (l Language) isTest(name string) bool {
	base := path.Base(name)
	switch l {
	case Go:
		return strings.HasSuffix(base, "_test.go")
	case Python:
		return strings.HasSuffix(base, ".py") && (strings.HasPrefix(base, "test_") || strings.HasSuffix(base, "_test.py"))
	default:
		stem, ending, ok := cutLast(base, ".")
		return ok && slices.Contains([]string{"js", "mjs", "cjs"}, ending) &&
			(strings.HasSuffix(stem, ".test") || strings.HasSuffix(stem, "-test") || strings.HasSuffix(stem, "_test") || slices.Contains(strings.Split(path.Dir(name), "/"), "__tests__"))
	}
}

// isCode reports whether a path is code that a test can be of.
func (l Language) isCode(name string) bool {
	switch l {
	case Go:
		return strings.HasSuffix(name, ".go")
	case Python:
		return strings.HasSuffix(name, ".py")
	default:
		return slices.Contains([]string{".js", ".mjs", ".cjs", ".ts", ".json"}, path.Ext(name))
	}
}

func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

//go:embed runners/go.sh
var goRunner []byte

//go:embed runners/run.py
var pythonRunner []byte

//go:embed runners/reporter.mjs
var nodeReporter []byte

// runnerDir is where a case's hidden tests have the program that runs them.
const runnerDir = ".tally/"

// runner is the file that runs tests of the language.
func (l Language) runner() digest.File {
	switch l {
	case Go:
		return digest.File{Path: runnerDir + "go.sh", Data: goRunner}
	case Python:
		return digest.File{Path: runnerDir + "run.py", Data: pythonRunner}
	default:
		return digest.File{Path: runnerDir + "reporter.mjs", Data: nodeReporter}
	}
}

// Where tests find what a machine has. Signed cases have these paths, so that they
// run on another machine too.
const (
	goInside        = "/toolchain/go"
	goModulesInside = "/cache/go-mod"
	goBuildInside   = "/cache/go-build"
	venvInside      = "/venv"
	modulesInside   = "/node_modules"
)

// command runs the tests of a task. No argument may be the name of a folder with
// code in it: the harness takes what a command names for the test's own.
func (t *task) command(venv bool) ([]string, error) {
	tests := t.testFiles()
	switch t.language {
	case Go:
		packages, err := t.goPackages(tests)
		return append([]string{"sh", "/tests/" + runnerDir + "go.sh"}, packages...), err
	case Python:
		python := "python3"
		if venv {
			python = venvInside + "/bin/python"
		}
		return append([]string{python, "-I", "/tests/" + runnerDir + "run.py", t.pythonKind(tests)}, tests...), nil
	default:
		return append([]string{"node", "--test", "--test-reporter=/tests/" + runnerDir + "reporter.mjs"}, tests...), nil
	}
}

// goPackages are the packages of test files, by import path.
func (t *task) goPackages(tests []string) ([]string, error) {
	module := moduleOf(t.file("go.mod"))
	if module == "" {
		return nil, fmt.Errorf("there is no go.mod at the top, or it names no module")
	}
	var packages []string
	for _, f := range tests {
		for dir := path.Dir(f); dir != "."; dir = path.Dir(dir) {
			if t.file(dir+"/go.mod") != nil {
				return nil, fmt.Errorf("%s is in a module of its own", f)
			}
		}
		packages = append(packages, path.Join(module, path.Dir(f)))
	}
	slices.Sort(packages)
	return slices.Compact(packages), nil
}

func moduleOf(gomod []byte) string {
	for line := range strings.Lines(string(gomod)) {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == "module" {
			return strings.Trim(f[1], `"`+"`")
		}
	}
	return ""
}

// pythonKind is unittest, unless a test needs pytest to be found.
func (t *task) pythonKind(tests []string) string {
	for _, name := range tests {
		for line := range strings.Lines(string(t.file(name))) {
			if strings.HasPrefix(line, "def test") || strings.HasPrefix(line, "import pytest") || strings.HasPrefix(line, "from pytest") {
				return "pytest"
			}
		}
	}
	return "unittest"
}
