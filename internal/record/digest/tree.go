package digest

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// A File is one regular file of a [Tree].
type File struct {
	Path string // relative, with slashes
	Data []byte
	// Executable is for who makes the file; no digest of a tree covers it.
	Executable bool
}

// A Tree is the files of a directory with their bytes: once read, what is on
// disk no longer matters. Directories exist only as parts of paths, so an
// empty one is not part of a tree. Neither are permissions, owners and times.
type Tree struct {
	Files []File
}

// Digest returns the BLAKE3 hash of the stream that [Tree.WriteTo] writes.
func (t *Tree) Digest() (Content, error) {
	h := NewContent()
	if _, err := t.WriteTo(h); err != nil {
		return Content{}, err
	}
	return h.Sum(), nil
}

// WriteTo writes the tree as its canonical USTAR stream: the files in the
// order of the bytes of their paths, whatever their order in t, and two zero
// blocks. Nothing is written if a path is one that [ReadTree] would refuse or
// two paths collide.
func (t *Tree) WriteTo(w io.Writer) (int64, error) {
	files, err := t.sorted()
	if err != nil {
		return 0, err
	}
	var written int64
	write := func(b []byte) error {
		n, err := w.Write(b)
		written += int64(n)
		return err
	}
	for _, f := range files {
		header, err := ustarHeader(f.Path, int64(len(f.Data)))
		if err != nil {
			return written, err
		}
		if err := write(header[:]); err != nil {
			return written, fmt.Errorf("writing tree: %w", err)
		}
		if err := write(f.Data); err != nil {
			return written, fmt.Errorf("writing tree: %w", err)
		}
		if err := write(zeroBlocks[:padding(len(f.Data))]); err != nil {
			return written, fmt.Errorf("writing tree: %w", err)
		}
	}
	if err := write(zeroBlocks[:]); err != nil {
		return written, fmt.Errorf("writing tree: %w", err)
	}
	return written, nil
}

// sorted returns the files in stream order, having checked every path.
func (t *Tree) sorted() ([]File, error) {
	names := newNames()
	for _, f := range t.Files {
		if err := checkPath(f.Path); err != nil {
			return nil, err
		}
		if _, err := ustarHeader(f.Path, int64(len(f.Data))); err != nil {
			return nil, err
		}
		if err := names.addFile(f.Path); err != nil {
			return nil, err
		}
	}
	files := slices.Clone(t.Files)
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return files, nil
}
