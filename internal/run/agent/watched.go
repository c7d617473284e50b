package agent

import (
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// maxWatched bounds how many files of one folder are looked at for changes: an
// agent's own are fewer, and a mount may be the whole machine.
const maxWatched = maxSourceFiles

// Watched lists the files on this machine that decide how the target behaves
// besides its own settings: those of its parameters, of its program, of its mounts, and the folders
// that its environment installs into. Of a folder with more files than are looked at, the
// folder itself is named in unseen: what changes there may not be noticed.
func (t *Target) Watched() (files, unseen []string) {
	for _, p := range t.Parameters {
		if p.file {
			files = append(files, filepath.Join(t.root, filepath.FromSlash(p.Text)))
		}
	}
	c := t.Command
	if c == nil {
		return files, nil
	}
	add := func(top string, part func(string, fs.DirEntry) bool) {
		some, all := filesBelow(top, part)
		if files = append(files, some...); !all {
			unseen = append(unseen, top)
		}
	}
	if c.Files != "" {
		add(filepath.Join(t.root, TargetsDir, filepath.FromSlash(c.Files)), everyFile)
	}
	if c.Source != "" {
		if found, err := findAbove(t.root, c.Source); err == nil {
			add(found, (&source{top: found}).isPart)
		}
	}
	for _, m := range c.Mounts {
		host := m.Host
		if !path.IsAbs(host) {
			host = filepath.Join(t.root, TargetsDir, filepath.FromSlash(host))
		}
		if resolved, err := filepath.EvalSymlinks(host); err == nil {
			host = resolved // a walk does not follow the link that it begins at
		}
		add(host, mounted)
	}
	if t.venv != nil {
		// Installing a package adds a folder there, which changes its time.
		libs, _ := filepath.Glob(t.venv.host("lib*", "python*", "site-packages"))
		files = append(files, libs...)
	}
	return files, unseen
}

// filesBelow lists the files of a folder that are part of the agent, or the file itself,
// and whether these are all. What cannot be read is not listed.
func filesBelow(top string, part func(string, fs.DirEntry) bool) (files []string, all bool) {
	all = true
	filepath.WalkDir(top, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil
		case name != top && !part(name, d):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir():
			return nil
		case len(files) == maxWatched:
			all = false
			return fs.SkipAll
		}
		files = append(files, name)
		return nil
	})
	return files, all
}

// isPart reports whether a file or a folder of a source is part of the agent.
func (s *source) isPart(name string, d fs.DirEntry) bool {
	if d.IsDir() {
		return !s.leavesOut(name)
	}
	return !strings.HasPrefix(d.Name(), ".") && !strings.HasSuffix(d.Name(), ".pyc")
}

// everyFile takes all of a folder: all of it is hashed.
func everyFile(string, fs.DirEntry) bool { return true }

// installed are folders whose files people do not edit and of which there are many.
var installed = map[string]bool{".git": true, ".hg": true, ".svn": true, "node_modules": true, "__pycache__": true, ".tally": true}

// mounted takes of a mount what a person may edit: an agent sees files whose names begin
// with a dot there too, and may well read its prompt from one.
func mounted(name string, d fs.DirEntry) bool {
	if !d.IsDir() {
		return !strings.HasSuffix(d.Name(), ".pyc")
	}
	if installed[d.Name()] || exists(filepath.Join(name, "pyvenv.cfg")) || exists(filepath.Join(name, "conda-meta")) {
		return false
	}
	return !slices.Contains(ours, d.Name()) || !exists(filepath.Join(filepath.Dir(name), "tally.yaml"))
}
