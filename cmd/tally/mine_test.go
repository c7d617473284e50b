package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tallystick/internal/app/mine"
	"tallystick/internal/record/evidence"
	"tallystick/internal/run/bench"
)

// A minedRepo is a git repository that a test writes commit by commit.
type minedRepo struct {
	t   *testing.T
	dir string
}

func newMinedRepo(t *testing.T) *minedRepo {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git")
	}
	r := &minedRepo{t, filepath.Join(t.TempDir(), "repo")}
	if err := os.Mkdir(r.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	r.git("init", "-q", "-b", "main")
	return r
}

func (r *minedRepo) git(args ...string) string {
	r.t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=Ann", "-c", "user.email=ann@example.com", "-c", "commit.gpgsign=false", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false"}, args...)...)
	cmd.Dir = r.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// commit writes files, removes those without text, and commits.
func (r *minedRepo) commit(message string, files map[string]string) string {
	r.t.Helper()
	for name, text := range files {
		path := filepath.Join(r.dir, name)
		if text == "" {
			r.git("rm", "-q", name)
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			r.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			r.t.Fatal(err)
		}
	}
	r.git("add", "-A")
	r.git("commit", "-q", "-m", message)
	return r.git("rev-parse", "HEAD")
}

// mine mines the repository and returns what became of each commit.
func (w *agentWorkspace) mine(r *minedRepo, args ...string) map[string]mine.Commit {
	w.t.Helper()
	cmd := w.command(append([]string{"--workspace", w.dir, "bench", "mine", r.dir, "--class", "mined", "--json"}, args...)...)
	cmd.Env = append(cmd.Env, "XDG_CACHE_HOME="+filepath.Join(w.state, "cache"))
	out, err := cmd.Output()
	if err != nil {
		var errs []byte
		if exit, ok := err.(*exec.ExitError); ok {
			errs = exit.Stderr
		}
		w.t.Fatalf("bench mine: %v\n%s", err, errs)
	}
	var report mine.Report
	if err := json.Unmarshal(out, &report); err != nil {
		w.t.Fatal(err)
	}
	byID := map[string]mine.Commit{}
	for _, c := range report.Commits {
		byID[c.Commit] = c
	}
	return byID
}

// outcomes runs the class, or some cases of it, with a target.
func (w *agentWorkspace) outcomes(target string, cases ...string) map[string]evidence.Outcome {
	w.t.Helper()
	args := []string{"mined", "--target", target}
	for _, id := range cases {
		args = append(args, "--case", id)
	}
	records, _ := w.run(args...)
	out := map[string]evidence.Outcome{}
	for id, r := range records {
		out[id] = r.Outcome
	}
	return out
}

// agentThat is a target that runs a script for sh in its working folder.
func (w *agentWorkspace) agentThat(name, script string) {
	w.write("targets/"+name+"/do.sh", script)
	w.write("targets/"+name+".yaml", fmt.Sprintf("version: 1\nkind: command\ncommand: {command: [sh, /agent/do.sh], files: %s}\n", name))
}

// allAre checks that every case ended alike.
func allAre(t *testing.T, what string, got map[string]evidence.Outcome, want evidence.Outcome, n int) {
	t.Helper()
	if len(got) != n {
		t.Errorf("%s: %d cases, expected %d: %v", what, len(got), n, got)
	}
	for id, o := range got {
		if o != want {
			t.Errorf("%s: %s is %s, expected %s", what, id, o, want)
		}
	}
}

const minedCalcTest = `import unittest
import calc


class Calc(unittest.TestCase):
    def test_add(self):
        self.assertEqual(calc.add(2, 2), 4)

    def test_name(self):
        self.assertEqual(calc.NAME, "calc")
`

// pythonHistory has three commits that are tasks, calc's first, and one of each kind
// that is not, copies of a task among them.
func pythonHistory(r *minedRepo) (tasks []string, dropped map[string]string) {
	dropped = map[string]string{}
	drop := func(why, message string, files map[string]string) { dropped[r.commit(message, files)] = why }
	r.commit("calc: begin with a function and a name", map[string]string{"calc.py": "NAME = \"calc\"\n\n\ndef add(a, b):\n    return a - b\n", "README.md": "calc\n"})
	tasks = append(tasks, r.commit("calc: add gives the sum of its numbers\n\nIt gave the difference.\n\nSigned-off-by: Ann <ann@example.com>\nCo-authored-by: Bo <bo@example.com>",
		map[string]string{"calc.py": "NAME = \"calc\"\n\n\ndef add(a, b):\n    return a + b\n", "tests/test_calc.py": minedCalcTest, "tests/__init__.py": "# tests\n"}))
	drop("it changes no tests", "docs: say what the program is for, at length", map[string]string{"README.md": "calc calculates\n"})
	drop("it changes no code", "tests: look at negative numbers as well", map[string]string{"tests/test_more.py": "import unittest\nimport calc\n\n\nclass More(unittest.TestCase):\n    def test_negative(self):\n        self.assertEqual(calc.add(-1, 1), 0)\n"})
	drop("it changes no code, or only comments and blanks of it", "calc: a comment, and a test of one", map[string]string{"calc.py": "# Sums.\nNAME = \"calc\"\n\n\ndef add(a, b):\n    return a + b\n",
		"tests/test_one.py": "import unittest\nimport calc\n\n\nclass One(unittest.TestCase):\n    def test_one(self):\n        self.assertEqual(calc.add(1, 0), 1)\n"})
	drop("its tests pass without the change", "calc: a constant, and a test of what was there", map[string]string{"calc.py": "# Sums.\nNAME = \"calc\"\nZERO = 0 - 0\n\n\ndef add(a, b):\n    return a + b\n",
		"tests/test_zero.py": "import unittest\nimport calc\n\n\nclass Zero(unittest.TestCase):\n    def test_zero(self):\n        self.assertEqual(calc.add(0, 0), 0)\n"})
	flaky := "import os\nimport unittest\nimport flip\n\n\nclass Flip(unittest.TestCase):\n    def test_flip(self):\n        self.assertEqual(flip.FLIP, [1])\n"
	for i := range 40 {
		flaky += fmt.Sprintf("\n    def test_coin_%d(self):\n        if os.urandom(1)[0] < 128:\n            self.skipTest(\"tails\")\n", i)
	}
	drop("flaky: ", "flip: a value that the test wants to see", map[string]string{"flip.py": "FLIP = [1]\n", "tests/test_flip.py": flaky})
	drop("the message has fewer than 20 characters", "fix", map[string]string{"calc.py": "NAME = \"calc\"\n\n\ndef add(a, b):\n    return a + b\n", "tests/test_zero.py": "# nothing\n"})
	drop("it changes no tests", "calc: the tests of zero are gone for good", map[string]string{"calc.py": "NAME = \"calc\"\n\n\ndef add(a, b):\n    return b + a\n", "tests/test_zero.py": ""})
	drop("its tests fail with the change: ", "net: something that needs the whole internet", map[string]string{"net.py": "import socket\n\n\ndef ask():\n    return socket.create_connection((\"192.0.2.1\", 80), timeout=1)\n",
		"tests/test_net.py": "import unittest\nimport net\n\n\nclass Net(unittest.TestCase):\n    def test_ask(self):\n        net.ask()\n"})
	drop("it changes a binary file", "logo: a picture, and code and tests for it", map[string]string{"logo.py": "LOGO = open(\"logo.bin\", \"rb\").read()\n", "logo.bin": "\x00\x01", "tests/test_logo.py": "import unittest\n"})
	tasks = append(tasks, r.commit("calc: double gives twice its number", map[string]string{"calc.py": "NAME = \"calc\"\n\n\ndef add(a, b):\n    return b + a\n\n\ndef double(n):\n    return add(n, n)\n",
		"tests/test_calc.py": minedCalcTest + "\n    def test_double(self):\n        self.assertEqual(calc.double(4), 8)\n"}))
	// One task in seven copies, that differ in names, numbers and words: the newest counts.
	for i := 2; i < 9; i++ {
		id := r.commit(fmt.Sprintf("unit%d: the value that it is there for", i), map[string]string{fmt.Sprintf("unit%d.py", i): fmt.Sprintf("VALUE = %d\n", i),
			fmt.Sprintf("tests/test_unit%d.py", i): fmt.Sprintf("import unittest\n\n\nclass Unit(unittest.TestCase):\n    def test_value(self):\n        import unit%d\n        self.assertEqual(unit%d.VALUE, %d)\n", i, i, i)})
		if i == 8 {
			tasks = append(tasks, id)
		} else {
			dropped[id] = "it makes the same change, but for names, literals and comments, as: "
		}
	}
	return tasks, dropped
}

// plantEverything leaves what steers Python's tests, in all the places where it
// could be looked for.
const plantEverything = `
for f in conftest.py sitecustomize.py usercustomize.py unittest.py json.py tests/__init__.py tests/conftest.py tests/test_aaa.py; do
	mkdir -p "$(dirname $f)"
	printf 'import os\nos._exit(0)\n' >$f
done
printf '[pytest]\naddopts = --collect-only\n' >pytest.ini
mkdir -p .tally && printf 'import os\nos._exit(0)\n' >.tally/run.py
printf 'import unittest\n' >tests/test_calc.py
`

// patchUnittest has every test succeed, by files that are read before the tests and
// are none: only that they are as in the case stops this.
const patchUnittest = `
for f in tests/__init__.py tests/conftest.py conftest.py sitecustomize.py; do
	mkdir -p tests
	printf 'import unittest\n\n\ndef run(self, result=None):\n    result.startTest(self)\n    result.addSuccess(self)\n    result.stopTest(self)\n\n\nunittest.TestCase.run = run\n' >$f
done
`

// forgeReport has the code under test report every test as passed, and end.
const forgeReport = `
printf 'import json, os, sys\nfor t in ("test_add", "test_name", "test_double"):\n    print(json.dumps({"Action": "pass", "Package": "python", "Test": "tests.test_calc.Calc." + t}))\nsys.stdout.flush()\nos._exit(0)\n' >calc.py
`

// TestMineMakesCasesOfAHistory: the commits that are tasks and no others become
// cases; the agent that makes the recorded change solves them all, the one that
// does nothing none, and so do those that try to get around the tests.
func TestMineMakesCasesOfAHistory(t *testing.T) {
	t.Parallel()
	w := newAgentWorkspace(t)
	if !needs(t, "python3") {
		t.Skip("there is no python3")
	}
	r := newMinedRepo(t)
	tasks, dropped := pythonHistory(r)
	marker := hostileSettings(r)
	// Namespaces start faster than gVisor, and this starts a hundred sandboxes.
	got := w.mine(r, "--sandbox", "namespace")
	if _, err := os.Stat(marker); err == nil {
		t.Errorf("something that the repository names has run here")
	}
	for id, why := range dropped {
		if c := got[id]; !strings.HasPrefix(c.Dropped, why) || c.Case != "" {
			t.Errorf("%q: %+v, expected %q", c.Subject, c, why)
		}
	}
	for _, id := range tasks {
		if c := got[id]; c.Case == "" || c.FailToPass != 1 {
			t.Errorf("%q: %+v, expected a case with one test that the change makes pass", c.Subject, c)
		}
	}
	if n := len(tasks) + len(dropped); len(got) != n {
		t.Errorf("%d commits in the report, expected %d", len(got), n)
	}

	scenario, err := os.ReadFile(filepath.Join(w.dir, "bench/mined/cases", got[tasks[0]].Case, "scenario.yaml"))
	issue, _, _ := bytes.Cut(scenario, []byte("\ntree:")) // what proves the commit names its author
	if err != nil || strings.Contains(string(issue), "example.com") || !strings.Contains(string(issue), "It gave the difference.") {
		t.Errorf("the issue names people, or lacks what it was: %v\n%s", err, issue)
	}
	w.signMined()
	allAre(t, "reference", w.outcomes("reference"), evidence.Passed, len(tasks))
	w.checkCriteria("mined.reference.1", map[string]float64{"repository_issues": 3, "other_tasks": 0, "repeated_tasks": 0, "unproved_solves": 0, "policy_violations": 0})
	allAre(t, "nothing", w.outcomes("nothing"), evidence.Failed, len(tasks))
	w.checkCriteria("mined.nothing.2", map[string]float64{"repository_issues": 3, "other_tasks": 0, "repeated_tasks": 0, "unproved_solves": 0})
	for name, script := range map[string]string{
		"plants":     plantEverything,
		"patches":    patchUnittest,
		"forges":     forgeReport,
		"ends":       "printf 'import os\\nos._exit(0)\\n' >calc.py",
		"untests":    "rm -rf tests; ln -s /tmp tests",
		"overwrites": "mkdir -p tests; printf 'import unittest\\n' >tests/test_calc.py; chmod -R a-w tests",
	} {
		w.agentThat(name, script)
		allAre(t, name, w.outcomes(name, got[tasks[0]].Case, got[tasks[1]].Case), evidence.Failed, 2)
	}
	w.poisonTrees()
}

// checkCriteria compares what acceptance found of an attempt.
func (w *agentWorkspace) checkCriteria(attempt string, want map[string]float64) {
	w.t.Helper()
	out, err := w.command("--workspace", w.dir, "scorecard", attempt, "--json").Output()
	var card struct {
		Acceptance struct {
			Met      bool
			Criteria []struct {
				Metric string
				Value  *float64
			}
		}
	}
	if err != nil || json.Unmarshal(out, &card) != nil {
		w.t.Fatalf("scorecard %s: %v\n%s", attempt, err, out)
	}
	for _, c := range card.Acceptance.Criteria {
		if v, ok := want[c.Metric]; ok && (c.Value == nil || *c.Value != v) {
			w.t.Errorf("%s: %s is not %v:\n%s", attempt, c.Metric, v, out)
		}
		delete(want, c.Metric)
	}
	if len(want) > 0 || card.Acceptance.Met {
		w.t.Errorf("%s: accepted %v, and nothing is said of %v", attempt, card.Acceptance.Met, want)
	}
}

// signMined has the example people sign the class, so that the attempts are of a
// verified bench.
func (w *agentWorkspace) signMined() {
	w.t.Helper()
	for _, who := range []string{"example-alice", "example-bob"} {
		cmd := w.command("--workspace", w.dir, "bench", "sign", "mined", "--key", filepath.Join(w.dir, ".tally/keys", who))
		if out, err := cmd.CombinedOutput(); err != nil {
			w.t.Fatalf("bench sign by %s: %v\n%s", who, err, out)
		}
	}
	if out, err := w.command("--workspace", w.dir, "bench", "verify", "mined").CombinedOutput(); err != nil {
		w.t.Fatalf("bench verify: %v\n%s", err, out)
	}
}

// poisonTrees exchanges the files of the cases for others: what was signed is the
// digest of the tree.
func (w *agentWorkspace) poisonTrees() {
	w.t.Helper()
	file := filepath.Join(w.dir, "bench/mined", bench.TreesFile)
	honest, err := os.ReadFile(file)
	if err != nil {
		w.t.Fatal(err)
	}
	swapped, err := bench.PackTrees([][]byte{[]byte("another's file")})
	if err != nil {
		w.t.Fatal(err)
	}
	for what, data := range map[string][]byte{"another's": swapped, "a cut": honest[:len(honest)/2], "no": nil} {
		if data == nil {
			err = os.Remove(file)
		} else {
			err = os.WriteFile(file, data, 0o644)
		}
		if err != nil {
			w.t.Fatal(err)
		}
		out, err := w.command("--workspace", w.dir, "run", "mined", "--target", "nothing").CombinedOutput()
		if err == nil || !strings.Contains(string(out), bench.TreesFile) {
			w.t.Errorf("a class with %s trees file runs: %v\n%s", what, err, out)
		}
	}
}

// hostileSettings has the repository name programs wherever git would run one, and
// returns the file that each of them would leave.
func hostileSettings(r *minedRepo) (marker string) {
	r.t.Helper()
	marker = filepath.Join(r.t.TempDir(), "ran")
	evil := filepath.Join(r.t.TempDir(), "evil")
	if err := os.WriteFile(evil, []byte("#!/bin/sh\necho \"$0 $*\" >>'"+marker+"'\ncat\n"), 0o755); err != nil {
		r.t.Fatal(err)
	}
	settings := "\n[core]\n\tfsmonitor = " + evil + "\n\tpager = " + evil + "\n\thooksPath = " + filepath.Dir(evil) + "\n\tsshCommand = " + evil + "\n\talternateRefsCommand = " + evil +
		"\n[diff]\n\texternal = " + evil + "\n[diff \"evil\"]\n\tcommand = " + evil + "\n\ttextconv = " + evil + "\n[filter \"evil\"]\n\tsmudge = " + evil + "\n\tclean = " + evil + "\n\tprocess = " + evil +
		"\n[log]\n\tshowSignature = true\n[gpg]\n\tprogram = " + evil + "\n[alias]\n\tlog = !" + evil + "\n\tcat-file = !" + evil + "\n\tdiff-tree = !" + evil + "\n[interactive]\n\tdiffFilter = " + evil + "\n[extensions]\n\tpartialClone = origin\n[remote \"origin\"]\n\turl = ext::" + evil + "\n\tpromisor = true\n"
	config := filepath.Join(r.dir, ".git/config")
	data, err := os.ReadFile(config)
	if err != nil {
		r.t.Fatal(err)
	}
	for name, text := range map[string]string{config: string(data) + settings, filepath.Join(r.dir, ".gitattributes"): "* filter=evil diff=evil\n", filepath.Join(r.dir, ".git/info/attributes"): "* filter=evil diff=evil\n"} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			r.t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			r.t.Fatal(err)
		}
	}
	return marker
}

// TestMineOfGo: the same of Go, whose tests and code are one program.
func TestMineOfGo(t *testing.T) {
	t.Parallel()
	w := newAgentWorkspace(t)
	r := newMinedRepo(t)
	r.commit("sum: begin with a function that is wrong", map[string]string{"go.mod": "module example.com/sum\n\ngo 1.22\n", "sum/sum.go": "package sum\n\nfunc Sum(a, b int) int { return a - b }\n"})
	task := r.commit("sum: Sum gives the sum of two numbers", map[string]string{"sum/sum.go": "package sum\n\nfunc Sum(a, b int) int { return a + b }\n",
		"sum/sum_test.go": "package sum\n\nimport \"testing\"\n\nfunc TestSum(t *testing.T) {\n\tif Sum(1, 2) != 3 {\n\t\tt.Fatal(Sum(1, 2))\n\t}\n}\n\nfunc TestZero(t *testing.T) {\n\tif Sum(0, 0) != 0 {\n\t\tt.Fatal()\n\t}\n}\n"})
	// No modules, so that none are digested; namespaces, because it compiles much.
	got := w.mine(r, "--scratch", "--cache", t.TempDir(), "--sandbox", "namespace")
	if c := got[task]; c.Case == "" || c.FailToPass != 1 || c.PassToPass != 1 {
		t.Fatalf("%+v, expected a case", c)
	}
	allAre(t, "reference", w.outcomes("reference"), evidence.Passed, 1)
	attacks := map[string]string{
		"testmain": "printf 'package sum\\n\\nimport (\\n\"os\"\\n\"testing\"\\n)\\n\\nfunc TestMain(*testing.M) { os.Exit(0) }\\n' >sum/main_test.go",
		"replaced": "printf 'module example.com/sum\\n\\ngo 1.22\\n\\nreplace example.com/sum/sum => ./other\\n' >go.mod; mkdir -p vendor other; cp sum/sum.go other; printf 'go 1.22\\nuse ./other\\n' >go.work",
		"exits":    "printf 'package sum\\n\\nimport \"os\"\\n\\nfunc init() { os.Exit(0) }\\n\\nfunc Sum(a, b int) int { return 0 }\\n' >sum/sum.go",
	}
	for _, name := range slices.Sorted(maps.Keys(attacks)) {
		w.agentThat(name, attacks[name])
		allAre(t, name, w.outcomes(name), evidence.Failed, 1)
	}
}

// TestMineOfNode: the same of node --test.
func TestMineOfNode(t *testing.T) {
	t.Parallel()
	w := newAgentWorkspace(t)
	if !needs(t, "node") {
		t.Skip("there is no node")
	}
	r := newMinedRepo(t)
	r.commit("sum: begin with a function that is wrong", map[string]string{"package.json": "{\"name\": \"sum\", \"type\": \"module\"}\n", "sum.js": "export const sum = (a, b) => a - b;\n"})
	task := r.commit("sum: sum gives the sum of two numbers", map[string]string{"sum.js": "export const sum = (a, b) => a + b;\n",
		"sum.test.js": "import test from 'node:test';\nimport assert from 'node:assert';\nimport { sum } from './sum.js';\n\ntest('sums', () => assert.strictEqual(sum(1, 2), 3));\ntest('zero', () => assert.strictEqual(sum(0, 0), 0));\n"})
	got := w.mine(r, "--scratch")
	if c := got[task]; c.Case == "" || c.FailToPass == 0 {
		t.Fatalf("%+v, expected a case", c)
	}
	allAre(t, "reference", w.outcomes("reference"), evidence.Passed, 1)
	w.agentThat("exits", "printf 'process.exit(0);\\nexport const sum = 0;\\n' >sum.js; printf '{\"type\": \"module\", \"scripts\": {\"test\": \"true\"}}' >package.json; mkdir -p node_modules")
	allAre(t, "exits", w.outcomes("exits"), evidence.Failed, 1)
}

// The acts of a test are not the agent's: an agent that makes the recorded change is
// blamed for nothing, and one whose own code tries the same where the test does not is.
func TestActsOfTheTestAreNotTheAgents(t *testing.T) {
	t.Parallel()
	w := newAgentWorkspace(t)
	if !needs(t, "python3") {
		t.Skip("there is no python3")
	}
	r := newMinedRepo(t)
	// 0x10000000 is a user namespace: an act, wherever it is tried.
	unshare := "import ctypes\n\n\ndef unshare():\n    return ctypes.CDLL(None).unshare(0x10000000)\n"
	r.commit("box: begin with what tells nothing", map[string]string{"box.py": "NAME = \"box\"\n", "calc.py": "def add(a, b):\n    return a - b\n", "tests/__init__.py": "# tests\n"})
	box := r.commit("box: a function that makes a namespace", map[string]string{"box.py": unshare,
		"tests/test_box.py": "import unittest\nimport box\n\n\nclass Box(unittest.TestCase):\n    def test_unshare(self):\n        self.assertIn(box.unshare(), (0, -1))\n"})
	calc := r.commit("calc: add gives the sum of its numbers", map[string]string{"calc.py": "def add(a, b):\n    return a + b\n",
		"tests/test_calc.py": "import unittest\nimport calc\n\n\nclass Calc(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(calc.add(2, 2), 4)\n"})
	got := w.mine(r, "--scratch", "--sandbox", "namespace")
	if got[box].Case == "" || got[calc].Case == "" {
		t.Fatalf("not mined: %+v, %+v", got[box], got[calc])
	}
	records, _ := w.run("mined", "--target", "reference")
	for id, rec := range records {
		if rec.Outcome != evidence.Passed || rec.Policy.Violations != 0 {
			t.Errorf("%s: %s with %d violations, expected passed with none", id, rec.Outcome, rec.Policy.Violations)
		}
	}
	w.agentThat("sly", "printf 'import ctypes\\nctypes.CDLL(None).unshare(0x10000000)\\n\\n\\ndef add(a, b):\\n    return a + b\\n' >calc.py")
	records, _ = w.run("mined", "--target", "sly", "--case", got[calc].Case)
	if rec := records[got[calc].Case]; rec == nil || rec.Policy.Violations == 0 {
		t.Errorf("an agent whose code makes a namespace in the test is blamed for nothing: %+v", rec)
	}
	w.forgeRepositories(got[box].Case, got[calc].Case)
}

// forgeRepositories has a case say that it is an issue of a repository in ways that
// are not so. The class is scratch, so that no signature stands in the way.
func (w *agentWorkspace) forgeRepositories(other, id string) {
	w.t.Helper()
	dir := filepath.Join(w.dir, "bench/mined/cases")
	read := func(name string) string {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			w.t.Fatal(err)
		}
		return string(data)
	}
	proofOf := func(scenario string) string { return scenario[strings.Index(scenario, "\nrepository:"):] }
	scenario := read(id + "/scenario.yaml")
	command := scenario[strings.Index(scenario, "  command: ["):]
	command = command[:strings.Index(command, "\n")]
	commit := strings.Split(read(id+"/case.yaml"), "value: ")[1][:41]
	for what, forged := range map[string][2]string{
		"the proof of another case": {"scenario.yaml", strings.Replace(scenario, proofOf(scenario), proofOf(read(other+"/scenario.yaml")), 1)},
		"a test that is true":       {"scenario.yaml", strings.Replace(scenario, command, "  command: [\"true\"]", 1)},
		"a test that reads a flag":  {"scenario.yaml", strings.Replace(scenario, command, "  command: [sh, \"-c\", \"exit $(cat flag)\"]", 1)},
		"provenance by hand":        {"case.yaml", strings.Replace(read(id+"/case.yaml"), commit, "\""+strings.Repeat("12345", 8), 1)},
		"another runner":            {"tests/.tally/run.py", "print('{\"Action\":\"pass\",\"Package\":\"python\",\"Test\":\"tests.test_calc.Calc.test_add\"}')\n"},
		"a further file":            {"input/flag", "0\n"},
	} {
		honest, err := os.ReadFile(filepath.Join(dir, id, forged[0]))
		if string(honest) == forged[1] {
			w.t.Fatalf("%s: nothing was forged", what)
		}
		w.write(filepath.Join("bench/mined/cases", id, forged[0]), forged[1])
		for _, args := range [][]string{{"run", "mined", "--target", "nothing"}, {"bench", "verify", "mined"}} {
			out, failed := w.command(append([]string{"--workspace", w.dir, "--json"}, args...)...).CombinedOutput()
			if failed == nil || !strings.Contains(string(out), "BenchRepositoryUnproved") {
				w.t.Errorf("%s: %v is not refused: %v\n%s", what, args, failed, out)
			}
		}
		if err != nil {
			err = os.RemoveAll(filepath.Join(dir, id, "input"))
		} else {
			err = os.WriteFile(filepath.Join(dir, id, forged[0]), honest, 0o644)
		}
		if err != nil {
			w.t.Fatal(err)
		}
	}
}
