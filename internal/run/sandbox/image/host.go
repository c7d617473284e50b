package image

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"github.com/zeebo/blake3"

	"tallystick/internal/record/refusal"
)

// hostFacts asks the host's Python where its parts are.
const hostFacts = `
import sys, sysconfig, json, os
print(json.dumps({
  "executable": os.path.realpath(sys.executable),
  "version": sys.version,
  "stdlib": os.path.realpath(sysconfig.get_path("stdlib")),
  "prefix": sys.base_prefix}))`

// skippedStdlib are parts of the standard library that no rubric needs.
var skippedStdlib = map[string]bool{
	"test": true, "tests": true, "idlelib": true, "tkinter": true, "turtledemo": true, "ensurepip": true,
	"lib2to3": true, "site-packages": true, "dist-packages": true, "__pycache__": true, "distutils": true, "pydoc_data": true,
}

// A hostPython is what the host's Python says about itself, and when its
// program was last changed.
type hostPython struct {
	Executable, Version, Stdlib, Prefix string
	Changed                             string
}

func askHostPython(python string) (hostPython, error) {
	var facts hostPython
	cmd := exec.Command(python, "-I", "-c", hostFacts)
	cmd.Env = []string{}
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &facts)
	}
	if err != nil {
		return facts, refusal.Newf(refusal.Failed, "asking %s about itself: %w", python, err).WithHint("name a working Python 3")
	}
	for _, p := range []string{facts.Executable, facts.Stdlib} {
		info, err := os.Stat(p)
		if err != nil {
			return facts, refusal.Newf(refusal.Unreadable, "looking at the host's Python: %w", err)
		}
		facts.Changed += info.ModTime().UTC().Format(time.RFC3339Nano) + " "
	}
	return facts, nil
}

// SnapshotHost copies the host's Python, its standard library and the shared
// libraries it links, into an image. It is whatever this machine has, so it
// is labelled unpinned, and records made with it never promote. A snapshot
// that was made before is used again as long as the host's Python is the same.
// Without a name it is the system's python3, else the first on the path.
func SnapshotHost(cache, python string) (*Image, error) {
	if python == "" {
		python = "/usr/bin/python3"
		if _, err := os.Stat(python); err != nil {
			python = "python3"
		}
	}
	facts, err := askHostPython(python)
	if err != nil {
		return nil, err
	}
	// The note only saves time: the image it names is verified like any other.
	note := filepath.Join(cache, fmt.Sprintf("host-%x", blake3.Sum256(fmt.Append(nil, facts))))
	if digest, err := os.ReadFile(note); err == nil {
		if i, err := Find(cache, string(digest)); err == nil {
			return i, nil
		}
	}
	d, err := newDraft(cache)
	if err != nil {
		return nil, err
	}
	defer d.discard()
	if err := snapshot(d.root(), facts.Executable, facts.Stdlib); err != nil {
		return nil, refusal.Newf(refusal.Failed, "copying %s: %w", facts.Executable, err)
	}
	if err := precompile(d.root(), facts.Executable, facts.Stdlib); err != nil {
		return nil, refusal.Newf(refusal.Failed, "precompiling the library of %s: %w", facts.Executable, err)
	}
	i, err := d.finish(About{
		Kind:    Host,
		Source:  "this machine's Python " + strings.Join(strings.Fields(facts.Version), " "),
		Pinned:  false,
		Command: []string{facts.Executable, "-s", "-S", "-B"},
		// -I would be stricter but makes Python ignore the hash seed, and set
		// order would change from run to run.
		Env: []string{"PYTHONHASHSEED=0", "PYTHONHOME=" + facts.Prefix},
	})
	if err == nil {
		os.WriteFile(note, []byte(i.Digest), 0o644)
	}
	return i, err
}

func snapshot(root, python, stdlib string) error {
	files := []string{python}
	err := filepath.WalkDir(stdlib, func(p string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && p != stdlib && (skippedStdlib[e.Name()] || strings.HasPrefix(e.Name(), "config-")):
			return filepath.SkipDir
		case e.IsDir():
			return nil
		case strings.HasSuffix(p, ".py") || strings.HasSuffix(p, ".so"):
			files = append(files, p)
		}
		return nil
	})
	if err != nil {
		return err
	}
	libraries, err := sharedLibraries(files)
	if err != nil {
		return err
	}
	for _, f := range append(files, libraries...) {
		if err := copyFile(f, filepath.Join(root, f)); err != nil {
			return err
		}
	}
	return nil
}

// precompile writes .pyc files whose validity depends on the source's hash
// and not on a time stamp, so that they stay valid in the image.
func precompile(root, python, stdlib string) error {
	cmd := exec.Command(python, "-I", "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash",
		"-s", root, filepath.Join(root, stdlib))
	cmd.Env = []string{"SOURCE_DATE_EPOCH=0"}
	var msg bytes.Buffer
	cmd.Stdout, cmd.Stderr = &msg, &msg
	// Some files of the library hold deliberate syntax errors: a failure of
	// one file costs speed only.
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		return fmt.Errorf("%w: %s", err, strings.ToValidUTF8(msg.String(), "?"))
	}
	return nil
}

// sharedLibraries finds what the given files need, and the dynamic linker, by
// walking their ELF headers. A library that is found nowhere is left out: the
// module that wants it will then fail to import, inside the sandbox.
func sharedLibraries(files []string) ([]string, error) {
	found := map[string]bool{}
	queue := append([]string(nil), files...)
	for len(queue) > 0 {
		f, err := elf.Open(queue[0])
		here := queue[0]
		queue = queue[1:]
		if err != nil {
			continue // a Python source
		}
		for _, p := range f.Progs {
			if p.Type == elf.PT_INTERP {
				b, err := io.ReadAll(p.Open())
				if err != nil {
					return nil, err
				}
				found[string(bytes.TrimRight(b, "\x00"))] = true
			}
		}
		needed, err := f.ImportedLibraries()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", here, err)
		}
		dirs := append(runPath(f, here), libraryDirs...)
		f.Close()
		for _, name := range needed {
			if p := findLibrary(name, dirs); p != "" && !found[p] {
				found[p] = true
				queue = append(queue, p)
			}
		}
	}
	var list []string
	for p := range found {
		list = append(list, p)
	}
	sort.Strings(list)
	return list, nil
}

// libraryDirs is where the dynamic linker looks when no cache file tells it.
var libraryDirs = []string{
	"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
	"/lib64", "/usr/lib64", "/lib", "/usr/lib",
}

func runPath(f *elf.File, file string) []string {
	var dirs []string
	for _, tag := range []elf.DynTag{elf.DT_RPATH, elf.DT_RUNPATH} {
		entries, _ := f.DynString(tag)
		for _, e := range entries {
			for _, dir := range strings.Split(e, ":") {
				dirs = append(dirs, strings.NewReplacer("$ORIGIN", filepath.Dir(file), "${ORIGIN}", filepath.Dir(file)).Replace(dir))
			}
		}
	}
	return dirs
}

func findLibrary(name string, dirs []string) string {
	for _, dir := range dirs {
		p := filepath.Join(dir, name)
		if info, err := os.Stat(p); err == nil && info.Mode().IsRegular() {
			return p
		}
	}
	return ""
}

// copyFile copies content and the executable bit; links are followed.
func copyFile(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	mode := os.FileMode(0o644)
	if info.Mode()&0o111 != 0 {
		mode = 0o755
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
