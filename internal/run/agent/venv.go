package agent

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/run/sandbox"
)

// venvInside is where a program finds its virtual environment. It is not the
// path of the host: that lies in the workspace, which does not exist inside.
const venvInside = "/venv"

// A venv is a Python environment of the host: made by venv, virtualenv, uv,
// poetry or conda.
type venv struct {
	dir  string // on the host, absolute
	made string // where it was when it was made, of one that was carried

	// prefixes are where the interpreters are to which its python leads, by the
	// path that the link has, which the sandbox must have too.
	prefixes []sandbox.Mount

	digest digest.Content // of what is installed
	asked  []string       // folders elsewhere that Python looks for when it starts
}

// findAbove finds a file or folder that a target names relative to the
// workspace: in it, or in a folder above it that is still in its repository.
func findAbove(root, name string) (string, error) {
	if filepath.IsAbs(name) {
		if _, err := os.Stat(name); err != nil {
			return "", refusal.Newf(refusal.NotFound, "%s: %w", name, refusal.WithoutPath(err))
		}
		return filepath.Clean(name), nil
	}
	dir, err := filepath.Abs(root)
	if err != nil {
		return "", err
	}
	for first := dir; ; dir = filepath.Dir(dir) {
		if found := filepath.Join(dir, filepath.FromSlash(name)); exists(found) {
			return found, nil
		}
		if exists(filepath.Join(dir, ".git")) || dir == filepath.Dir(dir) {
			return "", refusal.Newf(refusal.NotFound, "there is no %s in %s, nor above it in its repository", name, first)
		}
	}
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// openVenv looks at the environment that a target names.
func openVenv(root, name string) (*venv, error) {
	if variable, ok := strings.CutPrefix(name, "$"); ok {
		if name = os.Getenv(variable); name == "" {
			return nil, refusal.Newf(refusal.NotFound, "venv: $%s is not set", variable).WithHint("activate the environment of the agent, and run this again")
		}
	}
	dir, err := findAbove(root, name)
	if err != nil {
		return nil, refusal.Newf(refusal.NotFound, "venv: %w", err).
			WithHint("python3 -m venv %s   # or as your project makes it: uv sync, poetry install", name)
	}
	v := &venv{dir: dir}
	if !exists(v.host("bin")) {
		return nil, refusal.Newf(refusal.Malformed, "venv: %s has no folder bin, so it is not an environment of Python on Linux", dir)
	}
	if err := v.follow(); err != nil {
		return nil, fmt.Errorf("venv: %w", err)
	}
	if v.digest, err = v.installed(); err != nil {
		return nil, fmt.Errorf("venv: %w", err)
	}
	return v, nil
}

func (v *venv) host(names ...string) string {
	return filepath.Join(append([]string{v.dir}, names...)...)
}

// maxHops bounds how many links lead from an environment to its interpreter.
const maxHops = 16

// follow finds the interpreters behind bin/python. A link that is relative leads
// somewhere else inside, where the environment has another place, so both are
// followed, and what the host has at the one is shown at the other.
func (v *venv) follow() error {
	at, inside := v.host("bin", "python"), path.Join(venvInside, "bin", "python")
	for range maxHops {
		info, err := os.Lstat(at)
		if err != nil {
			return refusal.Newf(refusal.NotFound, "%s: %w", at, refusal.WithoutPath(err)).
				WithHint("python3 -m venv --clear %s   # the interpreter that made it is gone; or as your project makes it", v.dir)
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			return nil
		}
		to, err := os.Readlink(at)
		if err != nil {
			return err
		}
		if filepath.IsAbs(to) {
			at, inside = filepath.Clean(to), path.Clean(to)
		} else {
			at, inside = filepath.Join(filepath.Dir(at), to), path.Join(path.Dir(inside), filepath.ToSlash(to))
		}
		prefix := filepath.Dir(filepath.Dir(at))
		v.show(prefix, path.Dir(path.Dir(inside)))
		if !within(v.dir, prefix) {
			v.show(prefix, prefix) // where pyvenv.cfg says that its libraries are
		}
	}
	return refusal.Newf(refusal.Malformed, "%s leads through more than %d links", v.host("bin", "python"), maxHops)
}

// show adds the folder of an interpreter at a path, unless it is there anyway.
func (v *venv) show(host, inside string) {
	m := sandbox.Mount{Host: host, Inside: inside}
	switch {
	case within(venvInside, inside), host == inside && within("/usr", host), host == "/", inside == "/":
		return
	case within(v.dir, host) && host == inside: // a link to itself by its path here
		m = sandbox.Mount{Host: v.dir, Inside: v.dir, Within: v.dir}
	}
	if !slices.ContainsFunc(v.prefixes, func(p sandbox.Mount) bool { return within(p.Inside, inside) }) {
		v.prefixes = append(v.prefixes, m)
	}
}

func within(dir, name string) bool { return name == dir || strings.HasPrefix(name, dir+"/") }

// Bounds of what is installed.
const (
	maxInstalledFiles = 200_000
	maxInstalledBytes = 8 << 30
)

// maxPathFile bounds a file of paths, maxAsked how many paths there are in all.
const (
	maxPathFile = 1 << 20
	maxAsked    = 1000
)

// pathsIn lists the absolute paths in the .pth files of some folders. That is how
// uv, poetry and pip install a project in place, and Python asks for each of them
// when it starts, whether it is there or not.
func pathsIn(folders []string) (paths []string, err error) {
	for _, folder := range folders {
		files, err := filepath.Glob(filepath.Join(folder, "*.pth"))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() || info.Size() > maxPathFile {
				continue
			}
			data, err := store.ReadFile(store.OS{}, file, maxPathFile)
			if err != nil {
				return nil, refusal.Newf(refusal.Unreadable, "%s: %w", file, refusal.WithoutPath(err))
			}
			for line := range strings.Lines(string(data)) {
				if line = strings.TrimSpace(line); path.IsAbs(line) && len(paths) < maxAsked {
					paths = append(paths, path.Clean(line))
				}
			}
		}
	}
	return paths, nil
}

// installed names what is installed, without the caches that Python writes by
// itself, and finds what that asks for elsewhere.
func (v *venv) installed() (digest.Content, error) {
	libs, err := filepath.Glob(v.host("lib*", "python*", "site-packages"))
	if err != nil {
		return digest.Content{}, err
	}
	if v.asked, err = pathsIn(libs); err != nil {
		return digest.Content{}, err
	}
	return digestInstalled(v.dir, libs)
}

// digestInstalled names the files of some folders: a line for each, with its
// digest and its path in dir. Links and caches are left out.
func digestInstalled(dir string, folders []string) (digest.Content, error) {
	var b bytes.Buffer
	files, size := 0, int64(0)
	visit := func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return refusal.Newf(refusal.Unreadable, "%s: %w", name, refusal.WithoutPath(err))
		case d.IsDir() && (d.Name() == "__pycache__" || d.Name() == ".cache"):
			return fs.SkipDir
		case !d.Type().IsRegular():
			return nil
		}
		data, err := store.ReadFile(store.OS{}, name, maxInstalledBytes)
		if err != nil {
			return refusal.Newf(refusal.Unreadable, "%s: %w", name, refusal.WithoutPath(err))
		}
		if files++; files > maxInstalledFiles || size+int64(len(data)) > maxInstalledBytes {
			return refusal.Newf(refusal.TooLarge, "%s has more than %d files or %d bytes", dir, maxInstalledFiles, int64(maxInstalledBytes))
		}
		size += int64(len(data))
		short, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s %q\n", digest.ContentOf(data), filepath.ToSlash(short))
		return nil
	}
	for _, folder := range folders {
		if err := filepath.WalkDir(folder, visit); err != nil {
			return digest.Content{}, err
		}
	}
	return digest.ContentOf(b.Bytes()), nil
}

// madeIn is the folder that scripts and links of the environment name as its own.
func (v *venv) madeIn() string { return cmp.Or(v.made, v.dir) }

// mounts are what a sandbox needs of the environment.
func (v *venv) mounts() []sandbox.Mount {
	return append([]sandbox.Mount{{Host: v.dir, Inside: venvInside, Within: v.dir}}, v.prefixes...)
}

// command finds a program of the environment, as activating it would. A script
// names the interpreter by its path on the host, so it is given to the
// interpreter inside.
func (v *venv) command(args []string) []string {
	name := args[0]
	if strings.Contains(name, "/") {
		return args
	}
	line, ok := v.firstLine(name)
	if !ok {
		return args
	}
	inside := path.Join(venvInside, "bin", name)
	if python, ok := strings.CutPrefix(strings.TrimSpace(line), "#!"); ok && strings.HasPrefix(strings.TrimSpace(python), v.madeIn()+"/") {
		return append([]string{path.Join(venvInside, "bin", "python"), inside}, args[1:]...)
	}
	return append([]string{inside}, args[1:]...)
}

// firstLine reads how a program of the environment begins. Where a link leads is the
// business of the sandbox if the environment was made on another machine.
func (v *venv) firstLine(name string) (line string, ok bool) {
	file := v.host("bin", name)
	if info, err := os.Lstat(file); v.made != "" && err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return "", true
	}
	data, err := store.Open(file)
	if err != nil {
		return "", false
	}
	defer data.Close()
	line, _ = bufio.NewReader(data).ReadString('\n')
	return line, true
}

// env makes the environment the first place where programs are looked for.
func (v *venv) env(env []string) []string {
	for i, e := range env {
		if rest, ok := strings.CutPrefix(e, "PATH="); ok {
			env[i] = "PATH=" + venvInside + "/bin:" + rest
		}
	}
	return append(env, "VIRTUAL_ENV="+venvInside, "PYTHONDONTWRITEBYTECODE=1")
}

// checkVenv refuses a name that no environment can have.
func checkVenv(name string) error {
	if name == "" {
		return nil
	}
	if strings.HasPrefix(name, "$") && name != "$VIRTUAL_ENV" && name != "$CONDA_PREFIX" || !filepath.IsAbs(name) && !fs.ValidPath(name) {
		return errors.New("venv: expected a folder relative to the workspace, an absolute path, $VIRTUAL_ENV or $CONDA_PREFIX")
	}
	return nil
}
