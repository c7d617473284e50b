package scenario

import (
	"strings"
	"testing"

	"tallystick/internal/record/digest"
)

// control is that of a case with these files and this test.
func control(test *Test, files ...string) *Control {
	c := &Task{Scenario: Scenario{Test: test}}
	for _, name := range files {
		c.Files = append(c.Files, digest.File{Path: name})
	}
	return c.TestControl()
}

// TestControlHoldsBackWhatSteersTests: by name, wherever it lies.
func TestControlHoldsBackWhatSteersTests(t *testing.T) {
	k := control(&Test{Command: []string{"python3", "-m", "unittest"}}, "calc.py", "test_calc.py", "pkg/shop.py")
	for _, name := range strings.Fields(`test_calc.py test_calc/__init__.py test_calc.so test_calc.cpython-311-x86_64-linux-gnu.so test_new.py pkg/test_shop.py tests/x.py pkg/tests/deep/x.py TESTS/x.py
		conftest.py pkg/conftest.py conftest/__init__.py sitecustomize.py usercustomize.py .local/lib/python3.11/site-packages/usercustomize.py evil.pth pkg/a.pth evil-1.0.dist-info/entry_points.txt x.egg-info/PKG-INFO
		pytest.ini .pytest.ini .pytest.toml pytest.toml t/basic.t run.bats .proverc build.zig tox.ini setup.cfg setup.py pyproject.toml .coveragerc Makefile makefile GNUmakefile sub/Makefile rules.mk package.json .npmrc .mocharc.js jest.config.js jest.config.mjs node_modules/mocha/index.js
		.git/hooks/pre-commit .git/config .gitattributes .env .env.local go.mod go.sum go.work vendor/x/y.go calc_test.go Cargo.toml build.rs .cargo/config.toml pom.xml build.gradle
		src/test/java/A.java CalcTest.java TestCalc.java calc.test.js calc.spec.ts __tests__/a.js __pycache__/calc.cpython-311.pyc calc.pyc
		unittest.py unittest/__init__.py pytest.py pytest/__init__.py random.py os.py collections/__init__.py src/random.py re.so _pytest/x.py argparse.cpython-311-x86_64-linux-gnu.so`) {
		if !k.HoldsBack(name, false) {
			t.Errorf("%s is given to the test", name)
		}
	}
	for _, name := range strings.Fields(`calc.py pkg/shop.py pkg/new.py new.py README.md notes.txt src/contest.py latest.py pkg/types.py pkg/random.py random.js http/server.go attestation.py bin/run protest.py data/package.txt testimony.py`) {
		if k.HoldsBack(name, false) {
			t.Errorf("%s is not given to the test", name)
		}
	}
	for _, name := range []string{"unittest", "random", "src/re"} {
		if !k.HoldsBack(name, true) {
			t.Errorf("the link %s is given to the test", name)
		}
	}
	if k.HoldsBack("data", true) || k.HoldsBack("random", false) {
		t.Error("a link or file that nothing imports is held back")
	}
}

// work is where a test finds the working folder.
const work = "/work"

// TestControlKnowsTheTestOfTheCommand: a file, a folder or a module that the
// command names, under any ending.
func TestControlKnowsTheTestOfTheCommand(t *testing.T) {
	for _, tt := range []struct{ command, files, held, given string }{
		{"sh check.sh", "check.sh a.sh", "check.sh check check.py check/x", "a.sh b.sh sub/check.sh"},
		{"sh ./check.sh", "check.sh a.sh", "check.sh", "a.sh"},
		{"sh " + work + "/check.sh", "check.sh a.sh", "check.sh", "a.sh"},
		{"python3 verify/run.py", "verify/run.py verify/help.py a.py", "verify/run.py verify/random.py verify/run.so", "a.py verify/new.txt"},
		{"run verify", "verify/run.py verify/help.py a.py", "verify/run.py verify/help.py", "a.py"},
		{"python3 -m verify.run", "verify/run.py a.py", "verify/run.py verify/run/__init__.py", "a.py"},
		{"python3 -m verify", "verify/__main__.py verify/b.py a.py", "verify/__main__.py verify/b.py", "a.py"},
		{"make check", "Makefile a.c", "Makefile sub/Makefile", "a.c"},
	} {
		k := control(&Test{Command: strings.Fields(tt.command)}, strings.Fields(tt.files)...)
		for _, name := range strings.Fields(tt.held) {
			if !k.HoldsBack(name, false) {
				t.Errorf("%s: %s is given to the test", tt.command, name)
			}
		}
		for _, name := range strings.Fields(tt.given) {
			if k.HoldsBack(name, false) {
				t.Errorf("%s: %s is not given to the test", tt.command, name)
			}
		}
	}
}

// TestEditableIsAllThatIsGiven: with a list nothing else is, and only a name
// opens what steers tests.
func TestEditableIsAllThatIsGiven(t *testing.T) {
	k := control(&Test{Command: []string{"true"}, Editable: []string{"src/**", "*.md", "app/Makefile"}, Files: []string{"src/golden/*.txt"}}, "src/a.c", "src/golden/x.txt")
	for name, held := range map[string]bool{"src/a.c": false, "src/new/b.c": false, "README.md": false, "app/Makefile": false,
		"other.c": true, "docs/x.md": true, "src/Makefile": true, "src/conftest.py": true, "src/golden/x.txt": true, "Makefile": true, "app/x/Makefile": true, "src/tests/x.c": true} {
		if k.HoldsBack(name, false) != held {
			t.Errorf("%s: held back is not %v", name, held)
		}
	}
}

func TestPatternsOfTestsAreChecked(t *testing.T) {
	for _, p := range []string{"/abs", "../up", "a//b", "[", "", ".", "a/**/b/**/c/**"} {
		s := Scenario{Version: 1, Turns: []Turn{{Text: "x"}}, Test: &Test{Command: []string{"true"}, TimeoutSeconds: 1, Editable: []string{p}}}
		if s.Validate() == nil {
			t.Errorf("the pattern %q is accepted", p)
		}
	}
	s := Scenario{Version: 1, Turns: []Turn{{Text: "x"}}, Test: &Test{Command: []string{"true"}, TimeoutSeconds: 1, Output: "("}}
	if s.Validate() == nil {
		t.Error("an output that is not a pattern is accepted")
	}
}
