package agent

import (
	"io/fs"
	"path"
	"path/filepath"
	"strings"
)

// maxWatched bounds how many files of one folder are looked at for changes: an
// agent's own are fewer, and a mount may be the whole machine.
const maxWatched = 5_000

// Watched lists the files on this machine that decide how the target behaves
// besides its own settings: those of its parameters, of its program, of its mounts, and the folders
// that its environment installs into. What a folder has above a bound is left out.
func (t *Target) Watched() []string {
	var out []string
	for _, p := range t.Parameters {
		if p.file {
			out = append(out, filepath.Join(t.root, filepath.FromSlash(p.Text)))
		}
	}
	c := t.Command
	if c == nil {
		return out
	}
	if c.Files != "" {
		out = append(out, filesBelow(filepath.Join(t.root, TargetsDir, filepath.FromSlash(c.Files)))...)
	}
	if c.Source != "" {
		if found, err := findAbove(t.root, c.Source); err == nil {
			out = append(out, filesBelow(found)...)
		}
	}
	for _, m := range c.Mounts {
		host := m.Host
		if !path.IsAbs(host) {
			host = filepath.Join(t.root, TargetsDir, filepath.FromSlash(host))
		}
		out = append(out, filesBelow(host)...)
	}
	if t.venv != nil {
		// Installing a package adds a folder there, which changes its time.
		libs, _ := filepath.Glob(t.venv.host("lib*", "python*", "site-packages"))
		out = append(out, libs...)
	}
	return out
}

// filesBelow lists the files of a folder as [Command].Source takes them, or the
// file itself. What cannot be read is not listed.
func filesBelow(top string) []string {
	var out []string
	s := &source{top: top}
	filepath.WalkDir(top, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil
		case d.IsDir() && name != top && s.leavesOut(name):
			return fs.SkipDir
		case d.IsDir() || name != top && strings.HasPrefix(d.Name(), ".") || strings.HasSuffix(d.Name(), ".pyc"):
			return nil
		case len(out) == maxWatched:
			return fs.SkipAll
		}
		out = append(out, name)
		return nil
	})
	return out
}
