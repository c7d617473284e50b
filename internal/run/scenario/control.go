package scenario

import (
	_ "embed" // the names of Python's modules
	"path"
	"slices"
	"strings"
	"sync"

	"tallystick/internal/record/digest"
)

// A Control says which changes of an agent the test of its case gets. A path
// that is held back has, for the test, what it has in the signed case, and is
// not there if the case has nothing there: whatever the agent did to it.
//
// Held back are the case's own tests, what steers how tests are found, built
// and run, and modules that would take the place of the test's own. With
// editable, everything else that it does not name is held back too.
type Control struct {
	shipped  map[string]bool // the case's files, and the folders above them
	editable []string
	tests    []string        // patterns
	own      map[string]bool // the test's own files, without anything after the first dot of the name
	beside   map[string]bool // folders in which a test looks for modules
}

// TestControl is that of the case, which has a test.
func (c *Task) TestControl() *Control {
	t := c.Scenario.Test
	k := &Control{shipped: map[string]bool{}, editable: t.Editable, tests: t.Files, own: map[string]bool{},
		beside: map[string]bool{".": true, "src": true, "lib": true}}
	for _, f := range c.Files {
		for name := f.Path; name != "."; name = path.Dir(name) {
			k.shipped[name] = true
		}
	}
	for _, arg := range t.Command {
		k.addNamed(arg, c.Files)
	}
	for _, f := range c.Files {
		if matchesAny(k.tests, f.Path) || isControl(f.Path) {
			k.beside[path.Dir(f.Path)] = true
		}
	}
	return k
}

// addNamed finds the files that an argument of the test's command names: a file,
// a folder, or a module of Python.
func (k *Control) addNamed(arg string, files []digest.File) {
	name := strings.TrimPrefix(path.Clean(strings.TrimPrefix(arg, "/work/")), "./")
	module := strings.ReplaceAll(arg, ".", "/")
	for _, f := range files {
		if f.Path != name && !strings.HasPrefix(f.Path, name+"/") && f.Path != module+".py" && !strings.HasPrefix(f.Path, module+"/") {
			continue
		}
		k.tests = append(k.tests, f.Path)
		k.own[stemPath(f.Path)] = true
		k.beside[path.Dir(f.Path)] = true
	}
}

// HoldsBack reports whether the test does not get the agent's change of a path,
// which may be a link.
func (k *Control) HoldsBack(name string, link bool) bool {
	if matchesAny(k.tests, name) || k.own[stemPath(name)] || k.inOwn(name) {
		return true
	}
	if slices.ContainsFunc(k.editable, func(p string) bool { return names(p, name) }) {
		return false
	}
	if len(k.editable) > 0 && !matchesAny(k.editable, name) {
		return true
	}
	return isControl(name) || k.shadows(name, link)
}

// inOwn reports whether a path lies in a folder that would be taken for one of
// the test's own files.
func (k *Control) inOwn(name string) bool {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if k.own[stemPath(dir)] && !k.shipped[dir] {
			return true
		}
	}
	return false
}

// shadows reports whether a path that the case does not have would be imported
// in place of a module of Python or of a test framework.
func (k *Control) shadows(name string, link bool) bool {
	switch path.Ext(name) {
	case ".py", ".so", ".pyd":
	default:
		if !link {
			return false
		}
	}
	for at := name; at != "."; at = path.Dir(at) {
		module, _, _ := strings.Cut(path.Base(at), ".")
		if !k.shipped[at] && k.beside[path.Dir(at)] && pythonModules()[module] {
			return true
		}
	}
	return false
}

// stemPath is a path without what comes after the first dot of its name: a test
// is found under any ending.
func stemPath(name string) string {
	stem, _, _ := strings.Cut(path.Base(name), ".")
	return path.Join(path.Dir(name), stem)
}

//go:embed python_modules.txt
var moduleList string

var pythonModules = sync.OnceValue(func() map[string]bool { return setOf(moduleList) })

// lazySet makes a set when it is asked for: every start of the program would pay.
func lazySet(words string) func() map[string]bool {
	return sync.OnceValue(func() map[string]bool { return setOf(words) })
}

func setOf(words string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(words) {
		set[w] = true
	}
	return set
}

// What steers tests, by name. Compared without regard to case.
var (
	// A folder, with all that is in it.
	controlFolders = lazySet(`.git .hg .svn .bzr .github .husky .githooks .config .local .cargo .mvn .gradle .yarn .pnp .venv .tox .nox .pytest_cache
		__pycache__ __pypackages__ site-packages dist-packages node_modules bower_components vendor
		t test tests testing __tests__ __mocks__ __snapshots__ spec specs testdata`)
	// A file, by its whole name.
	controlNames = lazySet(`makefile gnumakefile justfile .justfile taskfile.yml taskfile.yaml rakefile gemfile gemfile.lock .rspec .rspec-local .proverc .busted cmakelists.txt sconstruct sconscript module.bazel build.bazel .bazelrc build.zig build.zig.zon meson.build build.ninja
		setup.py setup.cfg pyproject.toml pytest.ini .pytest.ini .pytest.toml nose.cfg nose2.cfg .noserc trial.cfg behave.ini .behaverc tox.ini .coveragerc noxfile.py tasks.py pyvenv.cfg uv.toml poetry.lock pdm.toml hatch.toml
		package.json package-lock.json npm-shrinkwrap.json yarn.lock pnpm-lock.yaml pnpm-workspace.yaml .npmrc .yarnrc .yarnrc.yml .pnp.cjs .pnp.loader.mjs bunfig.toml deno.json deno.jsonc .swcrc .nycrc node.config.json
		go.mod go.sum go.work go.work.sum go.env cargo.toml cargo.lock build.rs rust-toolchain rust-toolchain.toml
		pom.xml build.gradle build.gradle.kts settings.gradle settings.gradle.kts gradle.properties gradlew mvnw build.xml build.sbt
		phpunit.xml phpunit.xml.dist composer.json composer.lock mix.exs dune dune-project package.swift stack.yaml
		.gitattributes .gitmodules .gitconfig .bashrc .bash_profile .bash_env .profile .zshenv .zshrc .envrc .python-version .node-version .nvmrc .ruby-version .tool-versions mise.toml .mise.toml`)
	// A file or module, by what its name has before the first dot.
	controlStems = lazySet(`conftest sitecustomize usercustomize test tests unittest pytest`)
	// The beginning of a file's name.
	controlBeginnings = []string{".env", ".mocharc", ".babelrc", "babel.config.", "jest.config.", "jest.setup.", "vitest.config.", "vitest.workspace.", "vite.config.", "karma.conf.", "playwright.config.",
		"cypress.config.", "ava.config.", "tsconfig.", "ctest", "pytest_"}
	// Its end.
	controlEnds = []string{".pth", ".egg-link", ".pyc", ".pyo", ".mk", ".cmake", ".dist-info", ".egg-info", ".csproj", ".sln", ".t", ".bats"}
)

// isControl reports whether a path steers tests, or is a test, by its name.
func isControl(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if controlFolders()[strings.ToLower(part)] || isControlName(strings.ToLower(part)) || isTestName(part) {
			return true
		}
	}
	return false
}

func isControlName(name string) bool {
	stem, _, _ := strings.Cut(name, ".")
	return controlNames()[name] || controlStems()[stem] ||
		slices.ContainsFunc(controlBeginnings, func(s string) bool { return strings.HasPrefix(name, s) }) ||
		slices.ContainsFunc(controlEnds, func(s string) bool { return strings.HasSuffix(name, s) })
}

// isTestName knows how test frameworks name tests: test_x.py, x_test.go,
// x.test.js, x.spec.ts, XTest.java, TestX.java.
func isTestName(name string) bool {
	stem, endings, _ := strings.Cut(name, ".")
	lower := strings.ToLower(stem)
	for _, s := range []string{"_test", "_tests", "_spec", "-test", "-spec"} {
		if strings.HasSuffix(lower, s) {
			return true
		}
	}
	for ending := range strings.SplitSeq(strings.ToLower(endings), ".") {
		if ending == "test" || ending == "spec" || ending == "tests" {
			return true
		}
	}
	camel := len(stem) > 4 && strings.HasPrefix(stem, "Test") && stem[4] >= 'A' && stem[4] <= 'Z'
	return strings.HasPrefix(lower, "test_") || strings.HasPrefix(lower, "test-") || camel ||
		strings.HasSuffix(stem, "Test") || strings.HasSuffix(stem, "Tests") || strings.HasSuffix(stem, "Spec")
}

// matchesAny reports whether a path, or a folder above it, matches a pattern.
func matchesAny(patterns []string, name string) bool {
	for _, p := range patterns {
		for at := name; at != "."; at = path.Dir(at) {
			if matches(strings.Split(p, "/"), strings.Split(at, "/")) {
				return true
			}
		}
	}
	return false
}

// names reports whether a pattern ends with the very name of a file, so that it
// can be meant to open one that steers tests.
func names(pattern, name string) bool {
	last := path.Base(pattern)
	return !strings.ContainsAny(last, `*?[\`) && last == path.Base(name) && matches(strings.Split(pattern, "/"), strings.Split(name, "/"))
}

// matches compares part by part; ** is any number of parts.
func matches(pattern, parts []string) bool {
	if len(pattern) == 0 {
		return len(parts) == 0
	}
	if pattern[0] == "**" {
		for i := range len(parts) + 1 {
			if matches(pattern[1:], parts[i:]) {
				return true
			}
		}
		return false
	}
	if len(parts) == 0 {
		return false
	}
	ok, err := path.Match(pattern[0], parts[0])
	return err == nil && ok && matches(pattern[1:], parts[1:])
}

// SteersTests reports whether a path is a test by its name, or steers how tests are
// found, built and run: an agent's change of it never reaches the test, unless the
// case says so.
func SteersTests(name string) bool { return isControl(name) }
