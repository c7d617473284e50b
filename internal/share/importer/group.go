package importer

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// group puts together the files that belong together, in the order in which
// they were found.
func (s *session) group() [][]*file {
	var groups [][]*file
	at := map[string]int{}
	for _, f := range s.files {
		key := s.groupKey(f)
		i, known := at[key]
		if !known {
			i = len(groups)
			at[key] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], f)
	}
	return groups
}

// groupKey is the same for files that may belong to one run.
func (s *session) groupKey(f *file) string {
	h, p := s.opt.partOf(f.kind)
	if p.together == nil {
		return "file " + f.path
	}
	return h.name + " " + p.together(f)
}

// companions adds the files that a harness writes beside a file that was named,
// as parts of the same result. Each must be what its name says.
func (s *session) companions() error {
	have := map[string]bool{}
	for _, f := range s.files {
		have[f.path] = true
	}
	for _, f := range slices.Clone(s.files) {
		if f.root != nil || f.stdin != nil {
			continue // a folder brought its files along
		}
		h, _ := s.opt.partOf(f.kind)
		if h.companions == nil {
			continue
		}
		belongs := h.companions(f)
		if belongs == nil {
			continue
		}
		dir := filepath.Dir(f.path)
		root, err := os.OpenRoot(dir)
		if err != nil {
			return unreadable(dir, err)
		}
		s.closers = append(s.closers, root)
		entries, err := fs.ReadDir(root.FS(), ".")
		if err != nil {
			return unreadable(dir, err)
		}
		for _, e := range entries {
			beside := &file{path: filepath.Join(dir, e.Name()), root: root, name: e.Name()}
			if !e.Type().IsRegular() || have[beside.path] || !belongs(e.Name()) {
				continue
			}
			if err := beside.recognise(s.ctx, s.opt); err != nil {
				return err
			}
			if other, _ := s.opt.partOf(beside.kind); other == h && beside.kind != f.kind {
				have[beside.path] = true
				s.files = append(s.files, beside)
			}
		}
	}
	return nil
}
