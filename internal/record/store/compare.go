package store

import (
	"path"
	"slices"
	"strings"
)

// A Difference is a path at which two pictures differ. Nil stands for not
// there.
type Difference struct {
	Before, After *Entry
}

// Path is where they differ.
func (d Difference) Path() string {
	if d.After != nil {
		return d.After.Path
	}
	return d.Before.Path
}

// Compare tells everything that was made, changed or taken away between two
// pictures, sorted by path. A folder that was made or taken away together with
// what is in it is not told for itself.
func Compare(before, after *Picture) []Difference {
	var all []Difference
	i, j := 0, 0
	for i < len(before.Entries) || j < len(after.Entries) {
		switch order(before, after, i, j) {
		case -1:
			if e := &before.Entries[i]; e.Kind != FolderEntry || before.isEmpty(i) {
				all = append(all, Difference{Before: e})
			}
			i++
		case +1:
			if e := &after.Entries[j]; e.Kind != FolderEntry || after.isEmpty(j) || e.Mode != FolderMode {
				all = append(all, Difference{After: e})
			}
			j++
		default:
			if b, a := &before.Entries[i], &after.Entries[j]; b.Mode != a.Mode || b.Kind != a.Kind || b.Link != a.Link || b.Digest != a.Digest {
				all = append(all, Difference{b, a})
			}
			i, j = i+1, j+1
		}
	}
	return all
}

func order(before, after *Picture, i, j int) int {
	switch {
	case i == len(before.Entries):
		return +1
	case j == len(after.Entries):
		return -1
	}
	return strings.Compare(before.Entries[i].Path, after.Entries[j].Path)
}

// isEmpty reports whether nothing is in the folder that is entry i.
func (p *Picture) isEmpty(i int) bool {
	prefix := p.Entries[i].Path + "/"
	n, _ := slices.BinarySearchFunc(p.Entries, prefix, func(e Entry, path string) int { return strings.Compare(e.Path, path) })
	return n == len(p.Entries) || !strings.HasPrefix(p.Entries[n].Path, prefix)
}

// Reachable is the picture without what lies below a file or a link.
func (p *Picture) Reachable() *Picture {
	closed := map[string]bool{}
	for _, e := range p.Entries {
		closed[e.Path] = e.Kind != FolderEntry
	}
	after := &Picture{}
	for _, e := range p.Entries {
		dir := path.Dir(e.Path)
		for dir != "." && !closed[dir] {
			dir = path.Dir(dir)
		}
		if dir == "." {
			after.Entries = append(after.Entries, e)
		}
	}
	return after
}

// WithFolders is the picture with the folders that its paths need.
func (p *Picture) WithFolders() *Picture {
	after := &Picture{}
	have := map[string]bool{}
	for _, e := range p.Entries {
		have[e.Path] = true
	}
	for _, e := range p.Entries {
		for dir := path.Dir(e.Path); dir != "." && !have[dir]; dir = path.Dir(dir) {
			have[dir] = true
			after.Entries = append(after.Entries, Entry{Path: dir, Kind: FolderEntry, Mode: FolderMode})
		}
	}
	after.Entries = append(after.Entries, p.Entries...)
	after.sort()
	return after
}

// With is the picture after these differences.
func (p *Picture) With(changes []Difference) *Picture {
	changed := map[string]*Entry{}
	for _, d := range changes {
		changed[d.Path()] = d.After
	}
	after := &Picture{}
	for _, e := range p.Entries {
		if _, ok := changed[e.Path]; !ok {
			after.Entries = append(after.Entries, e)
		}
	}
	for _, e := range changed {
		if e != nil {
			after.Entries = append(after.Entries, *e)
		}
	}
	after.sort()
	return after
}
