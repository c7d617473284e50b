package structure

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
)

// testedMark stands before a fenced block of README.md whose every line is a
// command that this test runs.
const testedMark = "<!-- tested -->"

// testedCommands returns the commands of README.md that are marked as tested.
// The first fenced block must be, and there must be two commands at least: they
// are what a newcomer copies.
func testedCommands(tree fs.FS) ([]string, error) {
	text, err := fs.ReadFile(tree, "README.md")
	if err != nil {
		return nil, err
	}
	var commands []string
	marked, fenced, blocks := false, false, 0
	for i, line := range strings.Split(string(text), "\n") {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "```") && fenced:
			fenced, marked = false, false
		case strings.HasPrefix(line, "```"):
			fenced = true
			if blocks++; blocks == 1 && !marked {
				return nil, fmt.Errorf("README.md:%d: the first fenced block does not follow %q", i+1, testedMark)
			}
		case fenced && marked && line != "" && !strings.HasPrefix(line, "#"):
			commands = append(commands, strings.TrimPrefix(line, "$ "))
		case !fenced && line == testedMark:
			marked = true
		case !fenced && line != "":
			marked = false
		}
	}
	if len(commands) < 2 {
		return nil, fmt.Errorf("README.md: %d tested commands, want the newcomer's two at least", len(commands))
	}
	return commands, nil
}

func TestReadmeMarksTheCommandsThatAreRun(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"two commands", "x\n" + testedMark + "\n\n```sh\n$ one # note\n# comment\n\ntwo\n```\nand\n```\nthree\n```\n", "one # note|two"},
		{"first block not marked", "```\none\ntwo\n```\n", "error"},
		{"text between mark and block", testedMark + "\ntext\n```\none\ntwo\n```\n", "error"},
		{"one command", testedMark + "\n```\none\n```\n", "error"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			commands, err := testedCommands(fstest.MapFS{"README.md": {Data: []byte(tt.text)}})
			got := strings.Join(commands, "|")
			if err != nil {
				got = "error"
			}
			if got != tt.want {
				t.Errorf("got %q (%v), want %q", got, err, tt.want)
			}
		})
	}
}

// TestReadmeCommandsWork runs them, in order, in a copy of the tree with a home
// folder of its own, as a newcomer would who has just cloned the repository.
func TestReadmeCommandsWork(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the whole program")
	}
	tree := os.DirFS(root)
	commands, err := testedCommands(tree)
	if err != nil {
		t.Fatal(err)
	}
	clone, env := "", []string(nil)
	for _, command := range commands {
		if target, ok := strings.CutPrefix(command, "make "); ok {
			requireTarget(t, tree, target)
			if target == "test" {
				continue // it runs this test
			}
		}
		if clone == "" {
			clone, env = cloneTree(t, tree), newcomer(t)
		}
		cmd := exec.Command("sh", "-c", command)
		cmd.Dir, cmd.Env = clone, env
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("README.md says %q: %v\n%s", command, err, out)
		}
	}
}

func requireTarget(t *testing.T, tree fs.FS, target string) {
	t.Helper()
	if !regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(target) + `:`).Match(readFile(t, tree, "Makefile")) {
		t.Errorf("README.md says \"make %s\" and the Makefile has no such target", target)
	}
}

func cloneTree(t *testing.T, tree fs.FS) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range treeFiles(t, tree) {
		st, err := fs.Stat(tree, name)
		if err != nil {
			t.Fatal(err)
		}
		data, err := fs.ReadFile(tree, name)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, st.Mode().Perm()|0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// newcomer is the environment of a user with an empty home folder. The Go
// caches stay where they are: a newcomer would download, a test must not.
func newcomer(t *testing.T) []string {
	t.Helper()
	home := t.TempDir()
	env := append(os.Environ(), "HOME="+home, "XDG_STATE_HOME="+filepath.Join(home, "state"),
		"XDG_CONFIG_HOME="+filepath.Join(home, "config"), "XDG_CACHE_HOME="+filepath.Join(home, "cache"))
	for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOPROXY", "GOSUMDB", "GOTOOLCHAIN"} {
		out, err := exec.Command("go", "env", name).Output()
		if err != nil {
			t.Fatalf("go env %s: %v", name, err)
		}
		env = append(env, name+"="+string(bytes.TrimSpace(out)))
	}
	// Without -trimpath the copy's path is part of every cache key, and all is
	// compiled anew each time.
	return append(env, "GOFLAGS=-trimpath -buildvcs=false")
}
