package derive

import (
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/trajectory"
)

// A folderStory is what the events tell about the working folder.
type folderStory struct {
	written  map[string][]*trajectory.FileWritten // by path
	deleted  map[string]bool
	standing []string // what rollbacks left
	lost     bool     // what became of it is not known
}

func (f *folderStory) add(p trajectory.Payload) {
	switch p := p.(type) {
	case *trajectory.FileWritten:
		if f.written == nil {
			f.written = map[string][]*trajectory.FileWritten{}
		}
		f.written[p.Path] = append(f.written[p.Path], p)
	case *trajectory.FileDeleted:
		if f.deleted == nil {
			f.deleted = map[string]bool{}
		}
		f.deleted[p.Path] = true
	case *trajectory.Rollback:
		f.standing = append(f.standing, p.Standing...)
	case *trajectory.Failure:
		f.lost = f.lost || p.Name == string(refusal.FolderUnreadable)
	}
}

// checkFolder refuses evidence whose files are not those of the events.
func (d *deriving) checkFolder() error {
	if d.folder.lost && (d.Record.Outcome == evidence.Passed || d.Files.Diff != nil || d.Files.Folder != nil) {
		return d.contradicted("its working folder could not be compared, and its outcome is %s, with files or a diff in the evidence", d.Record.Outcome)
	}
	if d.Files.Folder == nil {
		return nil
	}
	for _, c := range d.Files.Folder.Changed {
		if !c.Folder && !d.folder.tells(c) {
			return d.contradicted("its evidence has a change of %.200s that no event tells", c.Path)
		}
	}
	return nil
}

// tells reports whether an event says the same of a file.
func (f *folderStory) tells(c evidence.ChangedFile) bool {
	if c.Digest == nil && c.Link == "" {
		return f.deleted[c.Path]
	}
	for _, w := range f.written[c.Path] {
		if w.Link == c.Link && (c.Link != "" || w.Digest == *c.Digest) && w.Mode == c.Mode {
			return true
		}
	}
	return false
}
