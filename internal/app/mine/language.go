package mine

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"tallystick/internal/record/refusal"
	"tallystick/internal/run/scenario"
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

func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// runner is what runs tests of the language.
func (l Language) runner() *scenario.Runner { return scenario.RunnerOf(string(l)) }

// Where tests find what a machine has. Signed cases have these paths, so that they
// run on another machine too.
const (
	goInside        = "/toolchain/go"
	goModulesInside = "/cache/go-mod"
	goBuildInside   = "/cache/go-build"
	venvInside      = "/venv"
	packagesInside  = "/packages"
	modulesInside   = "/node_modules"
)

// command runs the tests of a task. No argument may be the name of a folder with
// code in it: the harness takes what a command names for the test's own.
func (t *task) command(m *machine) ([]string, error) {
	tests := t.testFiles()
	switch t.language {
	case Go:
		packages, err := t.goPackages(tests)
		return append([]string{"sh", "/tests/" + t.language.runner().File.Path}, packages...), err
	case Python:
		python, kind := "python3", t.pythonKind(tests)
		if m.venv {
			python = scenario.VenvPython
		}
		if kind == "pytest" && !m.pytest {
			return nil, fmt.Errorf("its tests need pytest, which is not in the folder of --cache")
		}
		return append([]string{python, "-I", "/tests/" + t.language.runner().File.Path, kind}, tests...), nil
	default:
		return append([]string{"node", "--test", "--test-reporter=/tests/" + t.language.runner().File.Path}, tests...), nil
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

// pythonKind is unittest if every test file is written for it, else pytest, which
// finds functions and plain classes too.
func (t *task) pythonKind(tests []string) string {
	for _, name := range tests {
		text := string(t.file(name))
		if !strings.Contains(text, "TestCase") {
			return "pytest"
		}
		for line := range strings.Lines(text) {
			if word := strings.Fields(line); strings.HasPrefix(line, "def test") || len(word) > 1 && (word[0] == "import" || word[0] == "from") && word[1] == "pytest" {
				return "pytest"
			}
		}
	}
	return "unittest"
}
