package scenario

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
)

func file(path, text string) digest.File { return digest.File{Path: path, Data: []byte(text)} }

// provenIssue is a case that is an issue of a repository, with one way to spoil it.
func provenIssue(t *testing.T, spoil func(c *Task)) *Task {
	t.Helper()
	tests := file("tests/test_a.py", "import a\n\n\ndef test_a():\n    assert a.f() == 2\n")
	c := &Task{ID: "a", Files: []digest.File{file("a.py", "def f():\n    return 1\n"), file("src/b.py", "B = 1\n")},
		after: []digest.File{file("a.py", "def f():\n    return g() + 1\n\n\ndef g():\n    return 1\n"), file("src/b.py", "B = 1\n"), tests},
		Tests: []digest.File{tests, RunnerOf("python").File}}
	c.Scenario.Test = &Test{Command: []string{"python3", "-I", "/tests/.tally/run.py", "pytest", "tests/test_a.py"}, Overlay: true, MustPass: []string{"python tests/test_a.py::test_a"}}
	c.Scenario.Repository = &Repository{Name: "r"}
	sign(t, c)
	spoil(c)
	return c
}

// sign makes the git objects of a case's trees.
func sign(t *testing.T, c *Task) {
	t.Helper()
	tree := func(files []digest.File) string {
		id, err := gitTree(files, c.Scenario.Repository.LeftOut, 40)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	about := "author A <a@example.com> 1 +0000\ncommitter A <a@example.com> 1 +0000\n\n"
	r := c.Scenario.Repository
	r.Parent = "tree " + tree(c.Files) + "\n" + about + "begin\n"
	r.Commit = "tree " + tree(c.after) + "\nparent " + gitID("commit", []byte(r.Parent), 40) + "\n" + about + "a: f is two\n"
}

// A case is an issue of a repository only if git's own hashes say so, if its tests are
// those of the commit and are run by a program of ours, and if the commit changes code.
func TestARepositoryIsProved(t *testing.T) {
	honest := provenIssue(t, func(*Task) {})
	if issue, err := honest.Issue(); err != nil || issue.Runner.Language != "python" || len(issue.Commit) != 40 {
		t.Fatalf("%+v, %v", issue, err)
	}
	again := func(spoil func(c *Task)) func(c *Task) { return func(c *Task) { spoil(c); sign(t, c) } }
	for name, spoil := range map[string]func(c *Task){
		"a file of the folder is another": func(c *Task) { c.Files[0] = file("a.py", "def f():\n    return 0\n") },
		"a file more":                     func(c *Task) { c.Files = append(c.Files, file("flag", "0")) },
		"a file less":                     func(c *Task) { c.Files = c.Files[:1] },
		"an executable bit":               func(c *Task) { c.Files[0].Executable = true },
		"the tree after it is another":    func(c *Task) { c.after[0] = file("a.py", "def f():\n    return 2\n") },
		"the repository of another case": func(c *Task) {
			c.Scenario.Repository.Parent = strings.Replace(c.Scenario.Repository.Parent, "begin", "start", 1)
		},
		"the message is another": func(c *Task) { c.Scenario.Repository.Parent += "x" },
		"no object":              func(c *Task) { c.Scenario.Repository.Commit = "0123456789012345678901234567890123456789" },
		"nothing at all":         func(c *Task) { *c.Scenario.Repository = Repository{} },
		"a merge": func(c *Task) {
			c.Scenario.Repository.Commit = strings.Replace(c.Scenario.Repository.Commit, "\nauthor", "\nparent "+strings.Repeat("0", 40)+"\nauthor", 1)
		},
		"provenance that names another": func(c *Task) { c.named = strings.Repeat("1", 40) },
		"a file hidden as a link": func(c *Task) {
			c.Scenario.Repository.LeftOut = []LeftOut{{ID: strings.Repeat("0", 40), Mode: "100644", Path: "c.py"}}
		},
		"the command is true":                func(c *Task) { c.Scenario.Test.Command = []string{"true"} },
		"the command reads a flag":           func(c *Task) { c.Scenario.Test.Command = []string{"sh", "-c", "exit $(cat flag)"} },
		"the command does not exist":         func(c *Task) { c.Scenario.Test.Command[0] = "python9" },
		"another runner":                     func(c *Task) { c.Tests[1].Data = []byte("print('{\"Action\":\"pass\"}')") },
		"a runner with a line more":          func(c *Task) { c.Tests[1].Data = append(bytes.Clone(c.Tests[1].Data), '\n') },
		"no test that must pass":             func(c *Task) { c.Scenario.Test.MustPass = nil },
		"tests that the agent may edit":      func(c *Task) { c.Scenario.Test.Editable = []string{"tests/test_a.py"} },
		"tests that do not lie over":         func(c *Task) { c.Scenario.Test.Overlay = false },
		"no test":                            func(c *Task) { c.Scenario.Test = nil },
		"a test that the commit has not":     func(c *Task) { c.Tests[0].Data = []byte("def test_a():\n    pass\n") },
		"a further test":                     func(c *Task) { c.Tests = append(c.Tests, file("tests/test_b.py", "")) },
		"code among the tests":               func(c *Task) { c.Tests = append(c.Tests, c.after[1]) },
		"a commit that changes tests alone":  again(func(c *Task) { c.after[0] = c.Files[0] }),
		"a commit that adds a comment":       again(func(c *Task) { c.after[0] = file("a.py", "# two\ndef f():\n    return 1  # or so\n") }),
		"a commit that adds documentation":   again(func(c *Task) { c.after[0] = file("a.py", "def f():\n    \"\"\"One.\n    Two.\"\"\"\n    return 1\n") }),
		"a commit that moves blanks":         again(func(c *Task) { c.after[0] = file("a.py", "\n\ndef f( ):\n\treturn  1\n") }),
		"a commit that writes a flag":        again(func(c *Task) { c.after[0] = c.Files[0]; c.after = append(c.after, file("flag", "0")) }),
		"a commit without a change of tests": again(func(c *Task) { c.Files = append(c.Files, c.after[2]) }),
	} {
		if issue, err := provenIssue(t, spoil).Issue(); !refusal.Is(err, refusal.BenchRepositoryUnproved) {
			t.Errorf("%s: %+v, %v", name, issue, err)
		}
	}
	if issue, err := (&Task{}).Issue(); issue != nil || err != nil {
		t.Errorf("a case that says nothing of a repository: %v, %v", issue, err)
	}
}

// A task that was copied has the shape of the original, whatever was renamed.
func TestCopiesOfATaskHaveOneShape(t *testing.T) {
	shape := func(language, path, before, after string) digest.Content {
		s, some := RunnerOf(language).shape([]digest.File{file(path, before)}, []digest.File{file(path, after)}, func(string) bool { return true })
		if !some {
			t.Errorf("%q: nothing changed", after)
		}
		return s
	}
	original := shape("python", "a.py", "X = 1\n", "X = 1\n\n\ndef f(a, b):\n    return a + b * 2\n")
	for name, copied := range map[string]digest.Content{
		"renamed":             shape("python", "zeta.py", "X = 1\n", "X = 1\n\n\ndef total(left, right):\n    return left + right * 2\n"),
		"another number":      shape("python", "a.py", "X = 1\n", "X = 1\n\n\ndef f(a, b):\n    return a + b * 0x7F\n"),
		"a comment":           shape("python", "a.py", "X = 1\n", "X = 1\n\n\n# task 17\ndef f(a, b):  # 17\n    return a + b * 2\n"),
		"documentation":       shape("python", "a.py", "X = 1\n", "X = 1\n\n\ndef f(a, b):\n    '''Task\n    17.'''\n    return a + b * 2\n"),
		"blanks":              shape("python", "a.py", "X = 1\n", "X = 1\ndef f(a,b):\n\n  return a+b*2\n"),
		"in a file with more": shape("python", "a.py", "Y = 'x'\nX = 1\n", "Y = 'x'\nX = 1\n\n\ndef f(a, b):\n    return a + b * 2\n"),
	} {
		if copied != original {
			t.Errorf("%s: another shape", name)
		}
	}
	for name, other := range map[string]digest.Content{
		"another operation": shape("python", "a.py", "X = 1\n", "X = 1\n\n\ndef f(a, b):\n    return a - b * 2\n"),
		"another keyword":   shape("python", "a.py", "X = 1\n", "X = 1\n\n\ndef f(a, b):\n    yield a + b * 2\n"),
		"another use":       shape("python", "a.py", "X = 1\n", "X = 1\n\n\ndef f(a, b):\n    return b + a * 2\n"),
		"one line more":     shape("python", "a.py", "X = 1\n", "X = 1\n\n\ndef f(a, b):\n    b += 1\n    return a + b * 2\n"),
	} {
		if other == original {
			t.Errorf("%s: the same shape", name)
		}
	}
	if shape("go", "a.go", "", "package a // x\n\n/* y\nz */\nfunc F() { s := `//` }\n") != shape("go", "b.go", "", "package b\n\nfunc G() { t := \"#\" }\n") {
		t.Error("Go: comments count, or a mark in a string is taken for one")
	}
}

// Our ids of trees are git's: with folders and files whose names begin alike.
func TestTreesHaveGitsIDs(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git")
	}
	dir := t.TempDir()
	git := func(args ...string) string {
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	files := []digest.File{file("a.b", "1"), file("a/b", "2"), file("a-b", "3"), file("a/c/d", "4"), {Path: "run.sh", Data: []byte("5"), Executable: true}, file("é", "6")}
	for _, format := range []struct {
		name   string
		digits int
	}{{"sha1", 40}, {"sha256", 64}} {
		git("init", "-q", "--object-format="+format.name)
		for _, f := range files {
			mode := os.FileMode(0o644)
			if f.Executable {
				mode = 0o755
			}
			name := filepath.Join(dir, f.Path)
			if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, f.Data, mode); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Symlink("a.b", filepath.Join(dir, "link")); err != nil {
			t.Fatal(err)
		}
		git("add", "-A")
		link := []LeftOut{{ID: gitID("blob", []byte("a.b"), format.digits), Mode: gitLink, Path: "link"}}
		if got, err := gitTree(files, link, format.digits); err != nil || got != git("write-tree") {
			t.Errorf("%s: %s, %v, git says %s", format.name, got, err, git("write-tree"))
		}
		if err := os.RemoveAll(filepath.Join(dir, ".git")); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(filepath.Join(dir, "link")); err != nil {
			t.Fatal(err)
		}
	}
}
