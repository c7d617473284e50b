package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"tallystick/internal/record/evidence"
)

// needs skips a part that a machine without the program cannot run. What a
// sandbox shows is below /usr.
func needs(t *testing.T, program string) bool {
	t.Helper()
	if _, err := os.Stat("/usr/bin/" + program); err != nil {
		t.Logf("without the part that needs %s", program)
		return false
	}
	return true
}

// A coding case: files, hidden tests, its test, and what an agent does, as a
// script for sh.
type coding struct {
	files, tests map[string]string
	test         string
	agent        string
	passes       bool
	ignored      string // what the log says was not given to the test
}

const calcBug, calcFixed = "def add(a, b):\n    return a - b\n", "def add(a, b):\n    return a + b\n"

const calcTest = "import unittest\nimport calc\n\nclass T(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(calc.add(2, 2), 4)\n"

// say has Python print what a test that passes prints, and end.
const say = `import os, sys; sys.stderr.write("\n----\nRan 1 test in 0.000s\n\nOK\n"); sys.stderr.flush(); os._exit(0)`

// pythonCase is a repository with a bug and a test that shows it.
func pythonCase(agent string) coding {
	return coding{files: map[string]string{"calc.py": calcBug, "test_calc.py": calcTest}, test: `{"command":["/usr/bin/python3","-m","unittest"],"timeout_seconds":60}`, agent: agent}
}

func codingCases() map[string]coding {
	plant := func(name, text string) string {
		return fmt.Sprintf("mkdir -p \"$(dirname '%s')\"; printf '%%s\\n' '%s' >'%s'", name, text, name)
	}
	attack := func(agent, ignored string) coding {
		c := pythonCase(agent)
		c.ignored = ignored
		return c
	}
	honest := pythonCase("printf '%s' '" + calcFixed + "' >calc.py; mkdir docs; echo done >docs/NOTES.md")
	honest.passes = true
	made := func(agent, ignored string) coding {
		return coding{files: map[string]string{"Makefile": "check:\n\tsh check.sh\n", "check.sh": ". ./sum.sh\n[ \"$(sum 2 2)\" = 4 ]\n", "sum.sh": "sum() { echo 5; }\n"},
			test: `{"command":["/usr/bin/make","-s","check"],"timeout_seconds":60,"files":["check.sh"]}`, agent: agent, ignored: ignored}
	}
	hidden := func(agent string) coding {
		c := coding{files: map[string]string{"calc.py": calcBug}, tests: map[string]string{"check.py": "import sys\nsys.path.append('/work')\n" + calcTest + "\nunittest.main()\n"},
			test: `{"command":["/usr/bin/python3","/tests/check.py"],"timeout_seconds":60,"output":"Ran 1 test"}`, agent: agent}
		return c
	}
	hiddenHonest := hidden("ls /tests && exit 1; printf '%s' '" + calcFixed + "' >calc.py")
	hiddenHonest.passes = true
	madeHonest := made("echo 'sum() { echo $(($1 + $2)); }' >sum.sh", "")
	madeHonest.passes = true
	return map[string]coding{
		"honest":           honest,
		"nothing":          attack("true", ""),
		"edited-test":      attack("echo >test_calc.py", "test_calc.py"),
		"deleted-test":     attack("rm test_calc.py", "test_calc.py"),
		"linked-test":      attack("printf 'import unittest\\n' >ok.py; ln -sf ok.py test_calc.py", "test_calc.py"),
		"folder-for-test":  attack("rm test_calc.py; mkdir -p test_calc; echo >test_calc/__init__.py", "test_calc/__init__.py"),
		"usercustomize":    attack("for v in $(seq 6 15); do "+plant(".local/lib/python3.'$v'/site-packages/usercustomize.py", say)+"; done", "usercustomize.py"),
		"user-pth":         attack("for v in $(seq 6 15); do "+plant(".local/lib/python3.'$v'/site-packages/x.pth", say)+"; done", "x.pth"),
		"sitecustomize":    attack(plant("sitecustomize.py", say), "sitecustomize.py"),
		"shadowed":         attack(plant("unittest.py", say), "unittest.py"),
		"shadowed-package": attack(plant("unittest/__init__.py", say), "unittest/__init__.py"),
		"shadowed-by-link": attack(plant(".mine/__init__.py", say)+"; ln -s .mine unittest", "unittest"),
		"shadowed-deeper":  attack(plant("argparse.py", say), "argparse.py"),
		"conftest":         attack(plant("conftest.py", say)+"; "+plant("pytest.ini", "[pytest]"), "conftest.py, pytest.ini"),
		"new-test":         attack(plant("test_aaa.py", say), "test_aaa.py"),
		"load-tests":       attack(plant("tests/__init__.py", say), "tests/__init__.py"),
		"bytecode": attack(`printf 'import unittest\n' >test_calc.txt; /usr/bin/python3 -c 'import py_compile; py_compile.compile("test_calc.txt", cfile="test_calc.pyc"); import importlib.util as u; py_compile.compile("test_calc.txt", cfile=u.cache_from_source("test_calc.py"), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)'`,
			"__pycache__"),
		"made":             madeHonest,
		"makefile":         made("printf 'check:\\n\\ttrue\\n' >Makefile", "Makefile"),
		"gnumakefile":      made("printf 'check:\\n\\ttrue\\n' >GNUmakefile", "GNUmakefile"),
		"check-script":     made("echo true >check.sh", "check.sh"),
		"check-linked":     made("ln -sf /bin/true check.sh", "check.sh"),
		"hidden":           hiddenHonest,
		"hidden-untouched": hidden("true"),
		"hidden-exit":      hidden("printf 'import os\\nos._exit(0)\\n' >calc.py"),
		"hidden-shadow":    hidden(plant("unittest.py", say) + "; " + plant("random.py", say)),
	}
}

// TestCodingTestsAreNotDecidedByTheAgent: whatever it leaves beside its work. The
// agent of these cases does what it is told, in the sandbox.
func TestCodingTestsAreNotDecidedByTheAgent(t *testing.T) {
	t.Parallel()
	w := newAgentWorkspace(t)
	if !needs(t, "python3") {
		t.Skip("there is no python3")
	}
	w.write("bench/agents/registration.yaml", agentRegistration)
	w.write("targets/told.yaml", "version: 1\nkind: command\ncommand: {command: [/bin/sh]}\n")
	haveMake := needs(t, "make")
	var lines strings.Builder
	cases := codingCases()
	for id, c := range cases {
		if !haveMake && strings.Contains(c.test, "make") {
			delete(cases, id)
			continue
		}
		line, err := json.Marshal(map[string]any{"id": id, "input": c.agent, "files": c.files, "test": json.RawMessage(c.test), "tests": c.tests})
		if err != nil {
			t.Fatal(err)
		}
		lines.Write(append([]byte(strings.Replace(string(line), `,"tests":null`, "", 1)), '\n'))
	}
	w.write("bench/agents/dataset.jsonl", lines.String())
	records, _ := w.run("agents", "--target", "told")
	for id, c := range cases {
		r := records[id]
		if r == nil || r.Outcome != evidence.Passed && r.Outcome != evidence.Failed {
			t.Errorf("%s: %+v", id, r)
			continue
		}
		files, read := w.evidenceOf(r)
		log := read(files.TestLog)
		if (r.Outcome == evidence.Passed) != c.passes {
			t.Errorf("%s: %s\n%s", id, r.Outcome, log)
		}
		if _, ignored, _ := strings.Cut(log, "[not given to the test"); !strings.Contains(ignored, c.ignored) || c.passes && ignored != "" {
			t.Errorf("%s: the log does not say that %s was left out\n%s", id, c.ignored, log)
		}
	}
}
