package harness

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/diff"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/run/session"
)

// maxKeptFolder bounds what is kept of one working folder. Of a case that
// changes more, files cannot be graded again.
const maxKeptFolder = 16 << 20

// keepFolder puts what the agent changed into the evidence, so that its files
// can be graded again when the folder is gone. It is nil if that is too much.
func (r *run) keepFolder(g *Graded, changes []store.Difference, limit int64) (*evidence.FolderFiles, error) {
	start, err := (&digest.Tree{Files: r.c.Files}).Digest()
	if err != nil {
		return nil, err
	}
	total := int64(0)
	for _, c := range changes {
		if c.After == nil {
			continue
		}
		if total += c.After.Size; total > limit || !c.After.Kept() {
			return nil, nil
		}
	}
	kept := &evidence.FolderFiles{Start: start}
	for _, c := range changes {
		kept.Changed = append(kept.Changed, changedFile(g, c))
	}
	return kept, nil
}

func changedFile(g *Graded, c store.Difference) evidence.ChangedFile {
	f := evidence.ChangedFile{Path: store.EscapePath(c.Path())}
	e := c.After
	if e == nil {
		return f
	}
	usual := store.FileMode
	switch e.Kind {
	case store.LinkEntry:
		f.Link = store.EscapePath(e.Link)
		return f
	case store.FolderEntry:
		f.Folder, usual = true, store.FolderMode
	default:
		f.Digest = g.put(e.Data)
	}
	if e.Mode != usual {
		f.Mode = fmt.Sprintf("%04o", e.Mode)
	}
	return f
}

// entryOf is what a file of the evidence was in the folder.
func entryOf(f evidence.ChangedFile, read func(digest.Content) ([]byte, error)) (store.Entry, error) {
	bad := fmt.Errorf("the evidence has the file %.100q, which no working folder can have", f.Path)
	name, ok := store.UnescapePath(f.Path)
	link, linkOK := store.UnescapePath(f.Link)
	if !ok || !linkOK {
		return store.Entry{}, bad
	}
	mode := store.FileMode
	if f.Folder {
		mode = store.FolderMode
	}
	if f.Mode != "" {
		n, err := strconv.ParseUint(f.Mode, 8, 32)
		if err != nil {
			return store.Entry{}, bad
		}
		mode = fs.FileMode(n)
	}
	var data []byte
	if f.Digest != nil {
		var err error
		if data, err = read(*f.Digest); err != nil {
			return store.Entry{}, err
		}
	}
	e, ok := store.NewEntry(name, link, f.Folder, mode, data)
	if !ok {
		return store.Entry{}, bad
	}
	return e, nil
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
	var changes []store.Difference
	for _, f := range kept.Changed {
		// A path of the evidence is no better than the evidence.
		e, err := entryOf(f, s.Read)
		if err != nil {
			return remove, false, err
		}
		c := store.Difference{Before: &e, After: &e}
		if f.Digest == nil && f.Link == "" && !f.Folder {
			c.After = nil
		}
		changes = append(changes, c)
	}
	dir, clear, err := store.TempDir("tally-work-")
	if err != nil {
		return remove, false, err
	}
	remove = func() { _ = clear() }
	r.folder, err = session.NewFolderAs(filepath.Join(dir, "work"), r.c.Files, store.PictureOf(r.c.Files).With(changes).WithFolders())
	return remove, err == nil, err
}

// file reads a file of the final working folder.
func (r *run) file(name string) ([]byte, bool, error) {
	if r.folder == nil {
		return nil, false, nil
	}
	return r.folder.File(name)
}

// fileNames lists the files that the case began with or the agent changed.
func (r *run) fileNames() ([]string, error) {
	if r.folder == nil {
		return nil, refusal.Newf(refusal.NotFound, "the agent had no working folder: no tool of the case reads or writes it")
	}
	var names []string
	for _, f := range r.c.Files {
		names = append(names, f.Path)
	}
	changes, err := r.folder.Changes()
	for _, c := range changes {
		if c.After != nil && c.After.Kind == store.FileEntry {
			names = append(names, c.Path())
		}
	}
	return names, err
}

// rubricFiles are the files that the agent changed, as a rubric is given them:
// by path, with their text, where they point if they are links, and null if they
// are gone. Bytes that are not text are replaced. Changes has the same with
// everything that is known, and folders too.
func rubricFiles(differences []store.Difference) (files map[string]any, changes []any) {
	files, changes = map[string]any{}, []any{}
	for _, d := range differences {
		name := store.EscapePath(d.Path())
		told := map[string]any{"path": name, "change": "changed"}
		switch {
		case d.After == nil:
			told["change"] = "deleted"
			told["kind"] = string(d.Before.Kind)
			if d.Before.Kind != store.FolderEntry {
				files[name] = nil
			}
			changes = append(changes, told)
			continue
		case d.Before == nil:
			told["change"] = "created"
		}
		e := d.After
		told["kind"] = string(e.Kind)
		switch e.Kind {
		case store.LinkEntry:
			told["link"] = store.EscapePath(e.Link)
			files[name] = told["link"]
		case store.FileEntry:
			told["mode"], told["bytes"], told["digest"], told["text"] = fmt.Sprintf("%04o", e.Mode), e.Size, e.Digest.String(), e.Kept() && utf8.Valid(e.Data)
			files[name] = strings.ToValidUTF8(string(e.Data), "\ufffd")
		default:
			told["mode"] = fmt.Sprintf("%04o", e.Mode)
			if d.Before != nil && d.Before.Kind != store.FolderEntry {
				files[name] = nil
			}
		}
		changes = append(changes, told)
	}
	return files, changes
}

// unifiedDiff shows what an agent changed. A binary or very large file is named,
// not shown; links, modes and folders have a line each.
func unifiedDiff(changes []store.Difference) []byte {
	var b strings.Builder
	for _, c := range changes {
		name := store.EscapePath(c.Path())
		diffLines(&b, name, c)
		diffContents(&b, name, fileOf(c.Before), fileOf(c.After))
	}
	return []byte(b.String())
}

// fileOf is an entry if it is a regular file, else nil.
func fileOf(e *store.Entry) *store.Entry {
	if e == nil || e.Kind != store.FileEntry {
		return nil
	}
	return e
}

// diffLines tells what has no contents to compare.
func diffLines(b *strings.Builder, name string, c store.Difference) {
	before, after := c.Before, c.After
	if before != nil && before.Kind != store.FileEntry && (after == nil || after.Kind != before.Kind || after.Link != before.Link) {
		fmt.Fprintf(b, "deleted %s %s\n", before.Kind, name)
	}
	switch {
	case after == nil:
	case after.Kind == store.LinkEntry:
		fmt.Fprintf(b, "new link %s -> %s\n", name, store.EscapePath(after.Link))
	case before != nil && before.Kind == after.Kind && before.Mode != after.Mode:
		fmt.Fprintf(b, "mode of %s %s: %04o, was %04o\n", after.Kind, name, after.Mode, before.Mode)
	case before == nil && after.Kind == store.FolderEntry:
		fmt.Fprintf(b, "new folder %s, mode %04o\n", name, after.Mode)
	case (before == nil || before.Kind != after.Kind) && after.Kind == store.FileEntry && after.Mode != store.FileMode:
		fmt.Fprintf(b, "new file %s, mode %04o\n", name, after.Mode)
	}
}

// diffContents compares two files, either of which may be missing.
func diffContents(b *strings.Builder, name string, before, after *store.Entry) {
	if before == nil && after == nil || before != nil && after != nil && before.Digest == after.Digest {
		return
	}
	from, to := "a/"+name, "b/"+name
	var old, now []byte
	shown := true
	if before == nil {
		from = "/dev/null"
	} else {
		old, shown = before.Data, before.Kept()
	}
	if after == nil {
		to = "/dev/null"
	} else {
		now, shown = after.Data, shown && after.Kept()
	}
	if !shown || strings.Contains(string(old), "\x00") || strings.Contains(string(now), "\x00") {
		fmt.Fprintf(b, "Binary files %s and %s differ\n", from, to)
		return
	}
	if len(old)+len(now) == 0 {
		fmt.Fprintf(b, "Empty files %s and %s\n", from, to)
		return
	}
	b.Write(diff.Diff(from, old, to, now))
}
