package session

import (
	"fmt"
	"slices"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/run/trajectory"
)

// folderLimits bound a working folder that is looked at. Its files are read and
// hashed; what stays in memory is less.
var folderLimits = store.PictureLimits{MaxEntries: 50_000, MaxBytes: 3 << 30, KeepBytes: 32 << 20}

// checkpointLimits bound a folder that is looked at before every call, so as to
// be restored.
var checkpointLimits = store.PictureLimits{MaxEntries: 50_000, MaxBytes: 256 << 20, KeepBytes: 64 << 20}

// maxFolderEvents bounds how many changes one look may tell.
const maxFolderEvents = 20_000

// A Folder is the working folder of one case on the host.
type Folder struct {
	Dir   string
	start *store.Picture
	known *store.Picture // what the events have told of it
	now   *store.Picture // at the agent's end
	err   error          // why it is unknown what it became
}

// NewFolder fills a folder with the files of a case.
func NewFolder(dir string, files []digest.File) (*Folder, error) {
	start := store.PictureOf(files)
	if err := start.Restore(dir, folderLimits); err != nil {
		return nil, err
	}
	return &Folder{Dir: dir, start: start, known: start}, nil
}

// NewFolderAs is NewFolder for a folder in which an agent has worked already:
// it holds what now shows.
func NewFolderAs(dir string, files []digest.File, now *store.Picture) (*Folder, error) {
	f, err := NewFolder(dir, files)
	if err == nil {
		err = now.Restore(dir, folderLimits)
	}
	return f, err
}

// Plant makes a folder hold what a picture shows. Files that are too large to
// have been kept come from another folder.
func Plant(p *store.Picture, dir, from string) error {
	limits := folderLimits
	limits.From = from
	return p.Restore(dir, limits)
}

// look takes a picture of the folder.
func (f *Folder) look(limits store.PictureLimits) (*store.Picture, error) {
	if f.err != nil {
		return nil, f.err
	}
	limits.Base = f.start
	return store.TakePicture(f.Dir, limits)
}

// Spoil says that the folder is not what the agent left: something in it had to
// be taken away.
func (f *Folder) Spoil(format string, args ...any) {
	if f.err == nil {
		f.err = refusal.Newf(refusal.FolderUnreadable, "the working folder cannot be compared: "+format, args...)
	}
}

// SpoilFolder says that the working folder is not what the agent left.
func (s *Session) SpoilFolder(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cfg.Folder != nil {
		s.cfg.Folder.Spoil(format, args...)
	}
}

// Now is what the folder holds. Once the agent has ended it is what it held
// then.
func (f *Folder) Now() (*store.Picture, error) {
	if f.err != nil || f.now != nil {
		return f.now, f.err
	}
	return f.look(folderLimits)
}

// Changes lists everything that differs from the start, by path.
func (f *Folder) Changes() ([]store.Difference, error) {
	now, err := f.Now()
	if err != nil {
		return nil, err
	}
	return store.Compare(f.start, now), nil
}

// File reads one file of the folder as it is now. A link is not a file.
func (f *Folder) File(name string) (data []byte, there bool, err error) {
	now, err := f.Now()
	if err != nil {
		return nil, false, err
	}
	e := now.Find(name)
	switch {
	case e == nil:
		return nil, false, nil
	case e.Kind != store.FileEntry:
		return nil, true, fmt.Errorf("it is a %s", e.Kind)
	}
	data, err = f.read(e)
	return data, true, err
}

func (f *Folder) read(e *store.Entry) ([]byte, error) {
	if e.Kept() {
		return e.Data, nil
	}
	return e.Read(f.Dir, maxRead)
}

// maxRead bounds a file that is read to be graded.
const maxRead = 256 << 20

// LookAtFolder writes down what became of the working folder since the last
// look. It is called when the agent has ended, before anything else touches
// the folder, and once at least.
func (s *Session) LookAtFolder() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lookAtEnd()
}

func (s *Session) lookAtEnd() error {
	f := s.cfg.Folder
	if f == nil || f.now != nil || s.ended {
		return nil
	}
	if err := s.noteFolderAs(s.scrub); err != nil || f.err != nil {
		return err
	}
	f.now = f.known
	return nil
}

// noteFolder writes an event for each file that was made, changed or taken away
// since the last look, by path. That it cannot be told is an event too, and
// then the case has failed.
func (s *Session) noteFolder() error { return s.noteFolderAs(nil) }

// noteFolderAs is noteFolder with something that is done to the folder first.
func (s *Session) noteFolderAs(change func(*store.Picture) (*store.Picture, error)) error {
	f := s.cfg.Folder
	if f == nil || s.folderLost {
		return nil
	}
	now, err := f.look(folderLimits)
	if err == nil && change != nil {
		now, err = change(now)
	}
	if err == nil {
		changes := store.Compare(f.known, now)
		if len(changes) > maxFolderEvents {
			f.Spoil("%d files were changed, expected at most %d", len(changes), maxFolderEvents)
			err = f.err
		} else {
			f.known = now
			return s.tellChanges(changes)
		}
	}
	f.err, s.folderLost = err, true
	return s.event(&trajectory.Failure{Name: string(refusal.FolderUnreadable), Detail: cutText(s.safe(err.Error()), maxDetail)})
}

// scrub takes the secrets of this case out of the files that the agent leaves,
// before anything is graded, tested or kept of them: its own token is of no use
// afterwards, and what is graded is what is kept. A secret in a name cannot be
// taken out without making another folder of it, so it is unknown what such a
// folder holds.
func (s *Session) scrub(now *store.Picture) (*store.Picture, error) {
	f := s.cfg.Folder
	if !s.hides {
		return now, nil
	}
	var cleaned []store.Difference
	for _, d := range store.Compare(f.start, now) {
		e := d.After
		if e == nil {
			continue
		}
		if s.redactor.TakeOut(e.Path) != e.Path || s.redactor.TakeOut(e.Link) != e.Link {
			f.Spoil("the name of a file, or where a link points, holds a key of this case")
			return nil, f.err
		}
		if e.Kind != store.FileEntry {
			continue
		}
		data, err := f.read(e)
		if err != nil { // too large to be kept or graded
			continue
		}
		clean := s.redactor.TakeOut(string(data))
		if clean == string(data) {
			continue
		}
		if entry, ok := store.NewEntry(e.Path, "", false, e.Mode, []byte(clean)); ok {
			cleaned = append(cleaned, store.Difference{Before: e, After: &entry})
		}
	}
	if len(cleaned) == 0 {
		return now, nil
	}
	now = now.With(cleaned)
	return now, now.Restore(f.Dir, folderLimits)
}

// noteWritten is noteFolder for what one tool wrote: the agent's own program may
// be at work in the folder, and what it has done so far depends on the moment.
func (s *Session) noteWritten(paths []string) error {
	f := s.cfg.Folder
	if f == nil || len(paths) == 0 || s.folderLost {
		return nil
	}
	now, err := f.look(folderLimits)
	if err != nil {
		return nil // the look at the end will tell
	}
	changes := slices.DeleteFunc(store.Compare(f.known, now), func(d store.Difference) bool { return !slices.Contains(paths, d.Path()) })
	f.known = f.known.With(changes)
	return s.tellChanges(changes)
}

func (s *Session) tellChanges(changes []store.Difference) error {
	for _, d := range changes {
		var p trajectory.Payload
		switch {
		case d.After != nil && d.After.Kind != store.FolderEntry:
			e := d.After
			written := &trajectory.FileWritten{Path: e.Name(), Bytes: e.Size, Digest: e.Digest, Link: store.EscapePath(e.Link)}
			if e.Kind == store.FileEntry && e.Mode != store.FileMode {
				written.Mode = fmt.Sprintf("%04o", e.Mode)
			}
			p = written
		case d.Before != nil && d.Before.Kind != store.FolderEntry:
			p = &trajectory.FileDeleted{Path: d.Before.Name()}
		default:
			continue // a folder; the diff has it
		}
		if err := s.event(p); err != nil {
			return err
		}
	}
	return nil
}
