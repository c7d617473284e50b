package agent

import (
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/run/sandbox"
)

// A journey takes a target apart in one workspace and makes it again elsewhere.
type journey struct {
	t       *testing.T
	target  *Target
	carried Carried
	pieces  map[digest.Content][]byte
	folders map[digest.Content]*FolderSource
	forge   func(f CarriedFolder, dir string) // what becomes of a folder on the way
}

const carriedTarget = `version: 1
kind: command
command: {command: [tool], venv: .venv, node_modules: node_modules, mounts: [{host: shared, inside: /shared}, {host: one.txt, inside: /one.txt}]}
`

// newJourney makes a workspace whose environment leads to an interpreter below it, or to
// the one that is given.
func newJourney(t *testing.T, interpreter string) *journey {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("environments of Python on Linux")
	}
	dir := t.TempDir()
	if interpreter == "" {
		interpreter = filepath.Join(t.TempDir(), "python", "bin", "python3")
		writeAt(t, interpreter, "an interpreter")
	}
	for name, text := range map[string]string{
		"targets/t.yaml": carriedTarget, "targets/shared/a/words.txt": "hello", "targets/one.txt": "one", "node_modules/left/index.js": "left",
		".venv/lib/python3.11/site-packages/helper.py": "x = 1", ".venv/bin/tool": "#!" + dir + "/.venv/bin/python\nprint()\n", ".venv/pyvenv.cfg": "home = /usr/bin\n",
	} {
		writeAt(t, filepath.Join(dir, name), text)
	}
	for name, to := range map[string]string{".venv/bin/python": "python3", ".venv/bin/python3": interpreter, "node_modules/alias": "left"} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	targets, err := LoadAll(root, "t")
	if err != nil {
		t.Fatal(err)
	}
	j := &journey{t: t, target: targets[0]}
	if j.carried, j.pieces, j.folders, err = j.target.Carry(); err != nil {
		t.Fatal(err)
	}
	return j
}

func writeAt(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

// arrive makes the target again.
func (j *journey) arrive() (*Target, error) {
	j.t.Helper()
	data, err := canon.Marshal(&j.carried)
	if err != nil {
		j.t.Fatal(err)
	}
	var c Carried
	if err := canon.Unmarshal(data, &c); err != nil {
		j.t.Fatal(err)
	}
	return c.Unpack(j.target.Digest, func(d digest.Content) ([]byte, error) { return j.pieces[d], nil }, func(f CarriedFolder) (string, error) {
		at := filepath.Join(j.t.TempDir(), "f")
		var list []store.Listed
		if err := canon.Unmarshal(j.pieces[f.List], &list); err != nil {
			return "", err
		}
		err := store.Unpack(at, list, io.NewSectionReader(j.folders[f.List], 0, f.Bytes))
		if j.forge != nil {
			j.forge(f, at)
		}
		return at, err
	})
}

// TestATargetArrivesWithItsFolders: what it mounts, its environment with an interpreter
// outside of it, and its packages; a script finds the interpreter inside.
func TestATargetArrivesWithItsFolders(t *testing.T) {
	j := newJourney(t, "")
	if j.carried.Interpreter != nil || len(j.carried.Folders) != 5 {
		t.Fatalf("carried: %+v, %+v", j.carried.Folders, j.carried.Interpreter)
	}
	there, err := j.arrive()
	if err != nil {
		t.Fatal(err)
	}
	o := (&commandRun{c: there.Command, venv: there.venv, modules: there.modules, hosts: there.hosts}).sandbox(nil)
	if got := strings.Join(o.Command, " "); got != "/venv/bin/python /venv/bin/tool" {
		t.Errorf("the command is %s", got)
	}
	inside := map[string]string{}
	for _, m := range o.ReadOnly {
		if m.Within != m.Host {
			t.Errorf("%s may show more than itself: %q", m.Inside, m.Within)
		}
		inside[m.Inside] = m.Host
	}
	for name, want := range map[string]string{"/shared": "a/words.txt", "/one.txt": "", "/venv": "lib/python3.11/site-packages/helper.py", "/node_modules": "alias/index.js", j.target.venv.prefixes[0].Inside: "bin/python3"} {
		if _, err := os.Stat(filepath.Join(inside[name], want)); inside[name] == "" || err != nil {
			t.Errorf("%s is %q: %v", name, inside[name], err)
		}
	}
	here, away := plannedOf(t, j.target), plannedOf(t, there)
	if len(here) != len(o.ReadOnly) {
		t.Errorf("the plan has %d mounts, the sandbox %d", len(here), len(o.ReadOnly))
	}
	for i := range here {
		if here[i].Inside != away[i].Inside || here[i].Digest == nil || *here[i].Digest != *away[i].Digest {
			t.Errorf("mounted %+v, there %+v", here[i], away[i])
		}
	}
}

// TestForgedFoldersOfATargetAreRefused: what was made of a folder has the digest that it
// had, and is what the target needs.
func TestForgedFoldersOfATargetAreRefused(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		change     func(j *journey)
	}{
		{"another text", "expected blake3:", func(j *journey) { j.onTheWay(MountFolder, "a/words.txt") }},
		{"another package", "expected blake3:", func(j *journey) { j.onTheWay(VenvFolder, "lib/python3.11/site-packages/helper.py") }},
		{"another script", "expected blake3:", func(j *journey) { j.onTheWay(VenvFolder, "bin/tool") }},
		{"another interpreter", "expected blake3:", func(j *journey) { j.onTheWay(InterpreterFolder, "bin/python3") }},
		{"a package of another environment, with its digest", "the attempt is registered with", func(j *journey) {
			j.onTheWay(ModulesFolder, "left/index.js")
			forge := j.forge
			j.forge = func(f CarriedFolder, dir string) {
				if forge(f, dir); f.Kind != ModulesFolder {
					return
				}
				for i := range j.carried.Folders {
					if d, err := DigestMount(dir); err == nil && j.carried.Folders[i].Kind == f.Kind {
						j.carried.Folders[i].Digest = d
					}
				}
			}
			_, _ = j.arrive() // now it has that digest
		}},
		{"a folder is missing", "which did not come with it", func(j *journey) { j.carried.Folders = j.carried.Folders[1:] }},
		{"an interpreter is missing", "its interpreter was to come with it", func(j *journey) {
			j.carried.Folders = append(j.carried.Folders[:3:3], j.carried.Folders[4])
		}},
		{"a folder too many", "which it does not need", func(j *journey) { j.carried.Folders = append(j.carried.Folders, j.carried.Folders[4]) }},
		{"another order", "which did not come with it", func(j *journey) {
			j.carried.Folders[1], j.carried.Folders[2] = j.carried.Folders[2], j.carried.Folders[1]
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			j := newJourney(t, "")
			tt.change(j)
			if _, err := j.arrive(); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, expected %q", err, tt.want)
			}
		})
	}
}

// onTheWay changes a file of a folder of the kind.
func (j *journey) onTheWay(kind FolderKind, file string) {
	j.forge = func(f CarriedFolder, dir string) {
		if _, err := os.Stat(filepath.Join(dir, file)); f.Kind == kind && err == nil {
			writeAt(j.t, filepath.Join(dir, file), "forged")
		}
	}
}

// TestAnInterpreterOfTheMachineMustBeTheSame: an environment without its interpreter is
// another agent.
func TestAnInterpreterOfTheMachineMustBeTheSame(t *testing.T) {
	j := newJourney(t, "/usr/bin/env")
	if j.carried.Interpreter == nil || j.carried.Interpreter.Path == "" || len(j.carried.Folders) != 4 {
		t.Fatalf("carried: %+v, %+v", j.carried.Folders, j.carried.Interpreter)
	}
	if _, err := j.arrive(); err != nil {
		t.Fatal(err)
	}
	j.carried.Interpreter.Digest = digest.ContentOf([]byte("another Python"))
	if _, err := j.arrive(); !refusal.Is(err, refusal.DigestMismatch) || !strings.Contains(err.Error(), "this machine has /usr/bin/") {
		t.Errorf("another interpreter: %v", err)
	}
	j.carried.Interpreter = nil
	if _, err := j.arrive(); err == nil || !strings.Contains(err.Error(), "was to come with it") {
		t.Errorf("no interpreter: %v", err)
	}
}

// TestAnEnvironmentShowsNothingElseOfAWorker: its links are followed inside, and the
// folders of the machine that they would lead to are not looked at.
func TestAnEnvironmentShowsNothingElseOfAWorker(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "home", "bin", "python3")
	writeAt(t, secret, "a secret")
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, filepath.Join(dir, "bin", "python")); err != nil {
		t.Fatal(err)
	}
	v := &venv{dir: dir, made: "/made/elsewhere"}
	if found, err := v.interpreter(); err == nil || !strings.Contains(err.Error(), "nor in /usr") {
		t.Errorf("found %+v, %v", found, err)
	}
	if len(v.mounts()) != 1 {
		t.Errorf("it shows %+v", v.mounts())
	}
}

// TestFoldersThatCannotTravelAreRefused: before anything is registered.
func TestFoldersThatCannotTravelAreRefused(t *testing.T) {
	j := newJourney(t, "")
	large := filepath.Join(j.target.mountHost(0), "large")
	writeAt(t, large, "")
	if err := os.Truncate(large, maxCarriedBytes+1); err != nil {
		t.Skip("no room for a sparse file")
	}
	if _, _, _, err := j.target.Carry(); !refusal.Is(err, refusal.TooLarge) {
		t.Errorf("too large: %v", err)
	}
	os.Remove(large)
	if err := syscall.Mkfifo(large, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := j.target.Carry(); !refusal.Is(err, refusal.Usage) || !strings.Contains(err.Error(), "cannot travel") {
		t.Errorf("a pipe: %v", err)
	}
}

// A link of an environment leads to the same interpreter inside, wherever it leads
// and however it is spelled.
func TestVenvLinksLeadToTheSameInterpreter(t *testing.T) {
	for name, links := range map[string]map[string]string{
		"absolute":                   {"ws/.venv/bin/python": "{dir}/py/bin/python3"},
		"relative":                   {"ws/.venv/bin/python": "../../../py/bin/python3"},
		"relative, in two hops":      {"ws/.venv/bin/python": "python3", "ws/.venv/bin/python3": "../../../py/bin/python3"},
		"relative, far up":           {"ws/.venv/bin/python": "../../../../../../../../../../../..{dir}/py/bin/python3"},
		"absolute, then relative":    {"ws/.venv/bin/python": "{dir}/link/bin/python3", "link/bin/python3": "../../py/bin/python3"},
		"relative, then absolute":    {"ws/.venv/bin/python": "../../../link/bin/python3", "link/bin/python3": "{dir}/py/bin/python3"},
		"to itself, by its path":     {"ws/.venv/bin/python": "{dir}/ws/.venv/bin/python3", "ws/.venv/bin/python3": "../../../py/bin/python3"},
		"through a link to a folder": {"ws/.venv/bin/python": "../../../now/bin/python3", "now": "py"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for _, d := range []string{"ws/.venv/bin", "ws/.venv/lib/python3.11/site-packages", "py/bin", "link/bin"} {
				if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(filepath.Join(dir, "py/bin/python3"), []byte("the interpreter"), 0o755); err != nil {
				t.Fatal(err)
			}
			for at, to := range links {
				if err := os.Symlink(strings.ReplaceAll(to, "{dir}", dir), filepath.Join(dir, at)); err != nil {
					t.Fatal(err)
				}
			}
			v, err := openVenv(filepath.Join(dir, "ws"), ".venv")
			if err != nil {
				t.Fatal(err)
			}
			// A root as a sandbox has it, with links in place of mounts.
			root := t.TempDir()
			for _, m := range v.mounts() {
				to := filepath.Join(root, m.Inside)
				if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.CopyFS(to, os.DirFS(m.Host)); err != nil {
					t.Fatal(err)
				}
			}
			at, err := v.resolve()
			if err != nil {
				t.Fatal(err)
			}
			if b, err := os.ReadFile(filepath.Join(root, at)); string(b) != "the interpreter" {
				t.Errorf("%s inside is %q, %v; shown are %v", at, b, err, v.mounts())
			}
			if !slices.ContainsFunc(v.mounts(), func(m sandbox.Mount) bool {
				return m.Inside == filepath.Join(dir, "py") || m.Inside == filepath.Join(dir, "now")
			}) {
				t.Errorf("where pyvenv.cfg would have its home there is nothing: %v", v.mounts())
			}
		})
	}
}
