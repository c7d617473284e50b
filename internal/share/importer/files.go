package importer

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"tallystick/internal/read/results"
	"tallystick/internal/record/jsonstream"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
)

// A file is one that was given or found.
type file struct {
	path  string // as it is shown
	kind  kind
	shape *Shape // of JSON

	// A file that was found lies in a folder that was given; links do not lead
	// out of it.
	root *os.Root
	name string // in root, with slashes
	// What came from standard input is read once: its beginning, then the rest.
	stdin io.Reader

	sum string // SHA-256, known after it was read
	md5 string // of the samples of Every Eval Ever, which may name that
}

func (f *file) source() results.Source { return results.Source{Path: f.path, SHA256: f.sum} }

// dir and base are of the path, with slashes.
func (f *file) dir() string  { return path.Dir(filepath.ToSlash(f.path)) }
func (f *file) base() string { return path.Base(filepath.ToSlash(f.path)) }

// gather finds the result files at p.
func (s *session) gather(p string) error {
	if p == "-" {
		return s.gatherStdin()
	}
	info, err := os.Stat(p)
	if err != nil {
		return unreadable(p, err)
	}
	if info.IsDir() {
		root, err := os.OpenRoot(p)
		if err != nil {
			return unreadable(p, err)
		}
		s.closers = append(s.closers, root)
		return s.folder(root, p, ".")
	}
	f := &file{path: p}
	if err := f.recognise(s.ctx, s.opt); err != nil {
		return err
	}
	if f.kind == "" {
		return unrecognised("%s: not a result file of a harness that is known here: %s", p, s.opt.describe(f))
	}
	s.files = append(s.files, f)
	return nil
}

func unreadable(p string, err error) error {
	var named *fs.PathError
	if errors.As(err, &named) {
		err = named.Err // the path is in front already
	}
	return refusal.Newf(refusal.Unreadable, "%s: %w", p, err)
}

// folder adds the result files below the folder called name in root.
func (s *session) folder(root *os.Root, given, name string) error {
	shown := filepath.Join(given, filepath.FromSlash(name))
	entries, err := fs.ReadDir(root.FS(), name)
	if err != nil {
		return unreadable(shown, err)
	}
	for _, e := range entries {
		if s.seen++; s.seen > s.opt.MaxFiles {
			return refusal.Newf(refusal.TooLarge, "%s: more than %d files and folders", given, s.opt.MaxFiles).WithHint("import a smaller folder")
		}
		if err := s.entry(root, given, path.Join(name, e.Name()), e.Type()); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) entry(root *os.Root, given, name string, mode fs.FileMode) error {
	shown := filepath.Join(given, filepath.FromSlash(name))
	switch {
	case mode.IsDir():
		if skippedFolders[path.Base(name)] {
			return nil
		}
		return s.folder(root, given, name)
	case mode&fs.ModeSymlink != 0:
		// What it leads to is read where it lies; one that leads out of the
		// folder would bring in a file that the user did not give.
		if _, err := root.Stat(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return refusal.Newf(refusal.Malformed, "%s: a symbolic link that leads out of %s, or in a circle", shown, given).
				WithHint("remove the link, or put a copy of the file in its place")
		}
		return nil
	case !mode.IsRegular():
		return nil // a socket or pipe that a harness left behind is not a result
	}
	f := &file{path: shown, root: root, name: name}
	if err := f.recognise(s.ctx, s.opt); err != nil {
		return err
	}
	if f.kind != "" {
		s.files = append(s.files, f)
	}
	return nil
}

// skippedFolders hold no results and can be large.
var skippedFolders = map[string]bool{".git": true, "node_modules": true, "__pycache__": true, ".venv": true}

// open opens the file. Opening a named pipe must not wait for ever, and only a
// regular file is one.
func (f *file) open() (io.ReadCloser, error) {
	if f.stdin != nil {
		src := f.stdin
		f.stdin = eof{}
		return io.NopCloser(src), nil
	}
	return f.openFile()
}

type eof struct{}

func (eof) Read([]byte) (int, error) { return 0, io.EOF }

func (f *file) openFile() (*os.File, error) {
	var opened *os.File
	var err error
	if f.root != nil {
		opened, err = store.OpenIn(f.root, f.name)
	} else {
		opened, err = store.Open(f.path)
	}
	if err != nil {
		return nil, unreadable(f.path, err)
	}
	return opened, nil
}

// json opens the file for f to read as JSON, and notes its digest.
func (s *session) json(f *file, read func(*jsonstream.Reader) error) error {
	return s.bytes(f, func(src io.Reader) error {
		r, err := jsonstream.NewReader(src)
		if err != nil {
			return err
		}
		if err := read(r); err != nil {
			return err
		}
		// What was left is passed over, so that no part of a file is read without the
		// rules of the reader.
		for {
			if k, err := r.Peek(); err != nil || k == jsonstream.None {
				return err
			}
			if err := r.Skip(); err != nil {
				return err
			}
		}
	})
}

// checkColumns refuses a name that two columns of a table have: one would overwrite the
// other.
func checkColumns(columns []string) error {
	for i, name := range columns {
		if first := slices.Index(columns, name); first < i {
			return refusal.Newf(refusal.Malformed, "the columns %d and %d are both called %.60q, expected a name for each", first+1, i+1, name).
				WithHint("ask the maker of the table which of them holds")
		}
	}
	return nil
}

// bytes opens the file for f to read, and notes its digest. What f leaves is
// read for the digest alone.
func (s *session) bytes(f *file, read func(io.Reader) error) error {
	src, err := f.open()
	if err != nil {
		return err
	}
	defer src.Close()
	hashed := jsonstream.NewCopy(patient{s.ctx, src})
	if err := read(hashed); err != nil {
		return fmt.Errorf("%s: %w", f.path, err)
	}
	sum, _, err := hashed.Sum()
	if err != nil {
		return unreadable(f.path, err)
	}
	f.sum = hex.EncodeToString(sum[:])
	return nil
}

// patient stops reading when its context ends.
type patient struct {
	ctx context.Context
	src io.Reader
}

func (p patient) Read(b []byte) (int, error) {
	if err := p.ctx.Err(); err != nil {
		return 0, refusal.Newf(refusal.Interrupted, "stopped: %w", err)
	}
	return p.src.Read(b)
}

// gatherStdin recognises standard input by its beginning, since it is read only
// once.
func (s *session) gatherStdin() error {
	const name = "-"
	if s.opt.Stdin == nil {
		return refusal.Newf(refusal.Usage, "there is no standard input to import")
	}
	head, err := io.ReadAll(io.LimitReader(s.opt.Stdin, sniffBytes))
	if err != nil {
		return unreadable(name, err)
	}
	f := &file{path: name, stdin: io.MultiReader(bytes.NewReader(head), s.opt.Stdin)}
	if err := f.recogniseHead(head, int64(len(head)) < sniffBytes, s.opt); err != nil {
		return err
	}
	if f.kind == "" {
		return unrecognised("standard input: not a result file of a harness that is known here, as far as its first %d bytes show: %s", len(head), s.opt.describe(f))
	}
	if _, p := s.opt.partOf(f.kind); p.seeks {
		return refusal.Newf(refusal.Unreadable, "standard input: %s is read from a file only", p.called).WithHint("save it to a file and import that")
	}
	s.files = append(s.files, f)
	return nil
}
