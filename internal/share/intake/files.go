// Package intake opens what is audited: the files that a person names, and the
// logs of other harnesses, which it recognises by what is in them and turns into
// results and trajectories as package audit reads them.
//
// It decides nothing about a run and vouches for nothing. What a log does not
// carry is left out, so that the check that needs it is skipped.
package intake

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"tallystick/internal/read/audit"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
)

// Files are the files of a run, as a person names them. Empty ones were not
// given.
type Files struct {
	Results, Trajectories, Metadata string
	Source                          string // a folder or a file
	Bodies                          string // a folder
}

// maxSources bounds how many files a folder of sources may hold.
const maxSources = 100_000

// Input opens nothing yet, apart from listing the sources.
func (f Files) Input() (audit.Input, error) {
	in := audit.Input{Results: file(f.Results), Trajectories: file(f.Trajectories), Metadata: file(f.Metadata)}
	if f.Source != "" {
		list, err := sources(f.Source)
		if err != nil {
			return in, err
		}
		in.Sources, in.HasSources = list, true
	}
	if f.Bodies != "" {
		bodies, err := folder(f.Bodies)
		if err != nil {
			return in, err
		}
		in.Bodies = bodies
	}
	return in, nil
}

func file(name string) audit.Source {
	if name == "" {
		return audit.Source{}
	}
	return audit.Source{Name: name, Open: func() (io.ReadCloser, error) { return open(name) }}
}

// open refuses what is not a file: a pipe could never end, and a folder is a
// mistake worth a message of its own.
func open(name string) (io.ReadCloser, error) {
	f, err := store.Open(name)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// openBelow opens a file that a walk of dir, or dir itself, found.
func openBelow(dir, name string) (io.ReadCloser, error) {
	rel, err := filepath.Rel(dir, name)
	if err != nil || rel == "." {
		return open(name)
	}
	f, err := store.OpenBelow(dir, filepath.ToSlash(rel))
	if err != nil {
		return nil, err
	}
	return f, nil
}

// folder gives bodies by their digest: the file's name, with or without an
// extension.
func folder(dir string) (func(string) (io.ReadCloser, error), error) {
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = errors.New("is not a folder")
	}
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "%s: %w", dir, refusal.WithoutPath(err))
	}
	return func(sum string) (io.ReadCloser, error) {
		for _, name := range []string{sum, sum + ".txt", sum + ".bin"} {
			f, err := store.OpenBelow(dir, name)
			if err == nil {
				return f, nil
			}
			if !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
		}
		return nil, fs.ErrNotExist
	}, nil
}

// skipped are folders that hold no sources of the harness's author.
var skipped = []string{".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", "venv"}

// sources lists the files of a folder, whatever they are: package audit reads
// programs for what they do, and every file for answers that it carries. Links are
// not followed.
func sources(given string) ([]audit.SourceFile, error) {
	// A pipe, or a link that is not followed, would be sources without a file: an audit
	// that looked at nothing and found nothing.
	info, err := os.Stat(given)
	if err == nil && !info.IsDir() && !info.Mode().IsRegular() {
		err = errors.New("it is neither a file nor a folder")
	}
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "%s: %w", given, refusal.WithoutPath(err))
	}
	dir, err := filepath.EvalSymlinks(given)
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "%s: %w", given, refusal.WithoutPath(err))
	}
	var list []audit.SourceFile
	err = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name != dir && slices.Contains(skipped, d.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() {
			return nil
		}
		if len(list) == maxSources {
			return refusal.Newf(refusal.TooLarge, "%s: more than %d files", dir, maxSources)
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil || rel == "." {
			rel = filepath.Base(name)
		}
		list = append(list, audit.SourceFile{Path: filepath.ToSlash(rel), Agent: true, Open: func() (io.ReadCloser, error) { return openBelow(dir, name) }})
		return nil
	})
	if err != nil {
		var named *refusal.Error
		if errors.As(err, &named) {
			return nil, err
		}
		return nil, refusal.Newf(refusal.Unreadable, "%s: %w", dir, refusal.WithoutPath(err))
	}
	if len(list) == 0 {
		return nil, refusal.Newf(refusal.NotFound, "%s: there is no file in it", given).WithHint("name the folder with the programs that decide a score; links in it are not followed")
	}
	return list, nil
}
