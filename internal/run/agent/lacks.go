package agent

import (
	"cmp"
	"debug/elf"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"tallystick/internal/record/store"
	"tallystick/internal/run/sandbox"
)

// A view is what a sandbox showed of this machine, and the program in it.
type view struct {
	mounts  []sandbox.Mount
	program string
}

// lacks says why a program failed whose sandbox does not have what it needs, and
// the line of the target that gives it; "" if that is not why. It looks at this
// machine's files, where the sandbox would have looked at its own.
func (r *commandRun) lacks(result sandbox.AgentResult) string {
	if r.c.Image != "" {
		return "" // this machine's files say nothing of an image's
	}
	if result.NotStarted != "" {
		return r.shown.missing(r.shown.program, 0)
	}
	text := result.StderrHead
	if m := missingLibrary().FindStringSubmatch(text); m != nil {
		return r.shown.library(m[1])
	}
	if m := missingInterpreter().FindStringSubmatch(text); m != nil {
		return r.shown.missing(m[1], 0)
	}
	if m := missingFile().FindStringSubmatch(text); m != nil {
		return r.shown.absent(m[1])
	}
	if m := missingModule().FindStringSubmatch(text); m != nil {
		return r.module(m[1])
	}
	if m := missingData().FindStringSubmatch(text); m != nil {
		return r.beside(strings.TrimPrefix(m[1], filesInside+"/"))
	}
	if m := missingPackage().FindStringSubmatch(text); m != nil {
		return r.nodePackage(m[1])
	}
	return ""
}

var (
	missingLibrary = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`error while loading shared libraries: ([^\s:]+): cannot open`)
	})
	missingInterpreter = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`env: .?([\w.+-]+).?: No such file`)
	})
	missingFile = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`can't open file '(/agent/[^']+)'`)
	})
	missingModule = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`ModuleNotFoundError: No module named '([\w.]+)'`)
	})
	// A file that the program itself opens: the words of Python, Node, Ruby and Go.
	missingData = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)(?:no such file or directory[^/\n]*|open )['"]?(/agent/[^'"\n:]+)`)
	})
	missingPackage = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`Cannot find (?:module|package) '([^']+)'`)
	})
)

// giveLine is what a person adds to a target so that its sandbox has a program. An
// environment is more than one folder, and may lie in the workspace, of which
// nothing is mounted.
func giveLine(program string) string {
	prefix := prefixOf(program)
	if isEnvironment(prefix) {
		return fmt.Sprintf("it is of a virtual environment: name that in the target, as in \"venv: %s\", and start the file with python in front of it", prefix)
	}
	return fmt.Sprintf("add to the target, below command: \"mounts: [{host: %s}]\"", prefix)
}

// host is where a path inside lies on this machine, "" where the sandbox has
// nothing of this machine.
func (v view) host(inside string) string {
	for _, m := range v.mounts {
		at := m.Inside
		if at == "" {
			at = m.Host
		}
		if within(at, inside) {
			return m.Host + inside[len(at):]
		}
	}
	for _, dir := range []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/dev", "/proc"} {
		if within(dir, inside) {
			return inside
		}
	}
	return ""
}

// missing says what is wrong with a program inside: that it is not there, or that
// something is not there that it leads to.
func (v view) missing(inside string, hops int) string {
	if !strings.Contains(inside, "/") {
		return v.unfound(inside)
	}
	host := v.host(inside)
	if host == "" {
		if exists(inside) {
			return fmt.Sprintf("the sandbox does not have %s; %s", inside, giveLine(inside))
		}
		return fmt.Sprintf("there is no %s, neither in the sandbox nor on this machine", inside)
	}
	info, err := os.Lstat(host)
	switch {
	case err != nil:
		return v.absent(inside)
	case info.Mode()&fs.ModeSymlink != 0 && hops < maxHops:
		return v.link(inside, host, hops)
	case !info.Mode().IsRegular():
		return ""
	case info.Mode()&0o111 == 0:
		return fmt.Sprintf("%s may not be executed: chmod +x it, or name its interpreter in front of it", inside)
	}
	return v.interpreter(inside, host, hops)
}

// unfound is about a program that was named without a path.
func (v view) unfound(name string) string {
	found, err := exec.LookPath(name)
	if err != nil {
		return fmt.Sprintf("this machine has no program %s either: install it, or name it by its path", name)
	}
	if found, err = filepath.Abs(found); err != nil || v.host(found) != "" {
		return ""
	}
	return fmt.Sprintf("this machine has it as %s, which the sandbox does not show: name it by that path, and %s", found, giveLine(found))
}

// absent is about a path in a folder that is shown.
func (v view) absent(inside string) string {
	if !within(filesInside, inside) {
		return fmt.Sprintf("there is no %s", inside)
	}
	var have []string
	entries, _ := os.ReadDir(v.host(filesInside))
	for _, e := range entries[:min(len(entries), 10)] {
		have = append(have, e.Name())
	}
	return fmt.Sprintf("source or files does not have it: %s has %s", filesInside, strings.Join(have, ", "))
}

func (v view) link(inside, host string, hops int) string {
	to, err := os.Readlink(host)
	if err != nil {
		return ""
	}
	if !path.IsAbs(to) {
		to = path.Join(path.Dir(inside), to)
	}
	if v.host(to) != "" || !exists(host) {
		return v.missing(to, hops+1)
	}
	why := fmt.Sprintf("%s is a link to %s, which the sandbox does not have", inside, to)
	if env := filepath.Dir(filepath.Dir(host)); isEnvironment(env) {
		return fmt.Sprintf("%s; it is a virtual environment: name it in the target as \"venv: %s\" in place of a mount, and its links are followed", why, env)
	}
	return why + "; " + giveLine(to)
}

// interpreter is about a file that asks for another one to run it: a script by
// its first line, a program by its loader.
func (v view) interpreter(inside, host string, hops int) string {
	f, err := store.Open(host)
	if err != nil || hops >= maxHops {
		return ""
	}
	defer f.Close()
	head := make([]byte, 256)
	n, _ := io.ReadFull(f, head)
	if line, ok := strings.CutPrefix(string(head[:n]), "#!"); ok {
		words := strings.Fields(strings.SplitN(line, "\n", 2)[0])
		if len(words) == 0 {
			return ""
		}
		if why := v.missing(words[0], hops+1); why != "" {
			return fmt.Sprintf("the first line of %s asks for %s: %s", inside, words[0], why)
		}
		return ""
	}
	if loader := loaderOf(f); loader != "" && v.host(loader) == "" {
		return fmt.Sprintf("%s is loaded by %s: %s", inside, loader, v.missing(loader, hops+1))
	}
	return ""
}

// loaderOf is what an ELF program names as its interpreter.
func loaderOf(f *os.File) string {
	program, err := elf.NewFile(f)
	if err != nil {
		return ""
	}
	for _, p := range program.Progs {
		if p.Type == elf.PT_INTERP && p.Filesz < 4096 {
			name := make([]byte, p.Filesz)
			if _, err := p.ReadAt(name, 0); err != nil {
				return ""
			}
			return strings.TrimRight(string(name), "\x00")
		}
	}
	return ""
}

// library looks for a library that the loader did not find.
func (v view) library(name string) string {
	host := v.host(v.program)
	if host == "" {
		host = v.program
	}
	if real, err := filepath.EvalSymlinks(host); err == nil {
		host = real
	}
	places := []string{filepath.Dir(host), filepath.Join(prefixOf(host), "lib"), filepath.Join(prefixOf(host), "lib64")}
	places = append(places, filepath.SplitList(os.Getenv("LD_LIBRARY_PATH"))...)
	for _, dir := range append(places, "/usr/local/lib", "/opt/lib") {
		if filepath.IsAbs(dir) && exists(filepath.Join(dir, name)) {
			if v.host(dir) != "" {
				return fmt.Sprintf("%s is in %s, where the loader does not look: add to the target, below command: \"env: {LD_LIBRARY_PATH: %s}\"", name, dir, dir)
			}
			return fmt.Sprintf("the sandbox does not have %s; add to the target, below command: \"mounts: [{host: %s}]\" and \"env: {LD_LIBRARY_PATH: %s}\"", filepath.Join(dir, name), dir, dir)
		}
	}
	return fmt.Sprintf("the sandbox does not have the library %s; add the folder that has it to the target, below command: \"mounts: [{host: FOLDER}]\" and \"env: {LD_LIBRARY_PATH: FOLDER}\"", name)
}

// module is about a module that Python did not find.
func (r *commandRun) module(name string) string {
	top, _, _ := strings.Cut(name, ".")
	if r.c.Source != "" && strings.HasSuffix(r.c.Source, ".py") {
		if why := cmp.Or(r.beside(top+".py"), r.beside(top)); why != "" {
			return why
		}
	}
	if r.venv == nil {
		return fmt.Sprintf("the program runs on the system's Python, which does not have %s: add the line \"venv: .venv\" to the target, and install it there: .venv/bin/pip install %s", top, top)
	}
	return fmt.Sprintf("%s is not installed in the environment %s: %s install %s", top, r.c.Venv, filepath.Join(r.c.Venv, "bin", "pip"), top)
}

// beside is about a file that the program did not find; "" unless it lies beside a
// program that the target names alone.
func (r *commandRun) beside(name string) string {
	if r.c.Source == "" || !fs.ValidPath(name) {
		return ""
	}
	file, err := findAbove(r.root, r.c.Source)
	if err != nil || isFolder(file) || !exists(filepath.Join(filepath.Dir(file), filepath.FromSlash(name))) {
		return ""
	}
	return fmt.Sprintf("%s lies beside %s, and source names that file alone: name its folder, as in \"source: %s\"", name, r.c.Source, path.Dir(r.c.Source))
}

func isFolder(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// nodePackage is about a package that node did not find.
func (r *commandRun) nodePackage(name string) string {
	switch {
	case strings.HasPrefix(name, "/") || strings.HasPrefix(name, "."):
		if within(filesInside, name) {
			return r.shown.absent(name)
		}
		return ""
	case r.modules == nil:
		return fmt.Sprintf("the sandbox has no packages of node: add the line \"node_modules: node_modules\" to the target, and install %s: npm install %s", name, name)
	}
	return fmt.Sprintf("%s is not installed in %s: npm install %s", name, r.c.NodeModules, name)
}

// prefixOf is the folder to show for a program: the one that has its bin and lib.
func prefixOf(program string) string {
	dir := filepath.Dir(program)
	if base := filepath.Base(dir); base == "bin" || base == "sbin" || base == "lib" || base == "lib64" {
		return filepath.Dir(dir)
	}
	return dir
}
