package harness

import (
	"path/filepath"

	"tallystick/internal/digest"
	"tallystick/internal/evidence"
	"tallystick/internal/session"
	"tallystick/internal/store"
)

// maxKeptFolder bounds what is kept of one working folder. Of a case that
// changes more, files cannot be graded again.
const maxKeptFolder = 16 << 20

// keepFolder puts what the agent changed into the evidence, so that its files
// can be graded again when the folder is gone. It is nil if that is too much.
func (r *run) keepFolder(g *Graded, changes []session.Change) (*evidence.FolderFiles, error) {
	start, err := (&digest.Tree{Files: r.c.Files}).Digest()
	if err != nil {
		return nil, err
	}
	total := 0
	for _, c := range changes {
		total += len(c.After)
	}
	if total > maxKeptFolder {
		return nil, nil
	}
	kept := &evidence.FolderFiles{Start: start}
	for _, c := range changes {
		f := evidence.ChangedFile{Path: c.Path}
		if c.After != nil {
			f.Digest = g.put(c.After)
		}
		kept.Changed = append(kept.Changed, f)
	}
	return kept, nil
}

// restoreFolder makes the working folder again as the agent left it. It reports
// false if there was one and it cannot be made: the evidence is without it, or
// the case begins with other files by now.
func (r *run) restoreFolder(s Stored) (remove func(), ok bool, err error) {
	remove = func() {}
	kept := s.Files.Folder
	if kept == nil {
		return remove, s.Files.Diff == nil, nil
	}
	start, err := (&digest.Tree{Files: r.c.Files}).Digest()
	if err != nil || start != kept.Start {
		return remove, false, err
	}
	left := map[string][]byte{}
	for _, f := range r.c.Files {
		left[f.Path] = f.Data
	}
	for _, f := range kept.Changed {
		delete(left, f.Path)
		if f.Digest == nil {
			continue
		}
		if left[f.Path], err = s.Read(*f.Digest); err != nil {
			return remove, false, err
		}
	}
	files := make([]digest.File, 0, len(left))
	for name, data := range left {
		files = append(files, digest.File{Path: name, Data: data})
	}
	// A path of the evidence is no better than the evidence: the digest refuses
	// one that leads out of the folder, before anything is written.
	if _, err := (&digest.Tree{Files: files}).Digest(); err != nil {
		return remove, false, err
	}
	dir, clear, err := store.TempDir("tally-work-")
	if err != nil {
		return remove, false, err
	}
	remove = func() { _ = clear() }
	work := filepath.Join(dir, "work")
	if r.folder, err = session.NewFolder(work, r.c.Files); err == nil {
		err = store.PlantTree(work, files)
	}
	return remove, err == nil, err
}
