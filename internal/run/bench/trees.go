package bench

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
)

// TreesFile holds the files of the trees that cases of a class begin with, each
// once: a hundred states of one repository are mostly the same files. It is a tar
// of files that are named by the hex digits of their BLAKE3, in one zstd frame.
//
// Nothing has to pin it. A case names its tree by digest in scenario.yaml, which
// the case's signatures cover, and what comes out of here has the digest that was
// asked for.
const TreesFile = "trees.tar.zst"

// Bounds on what a trees file expands to: it is kept in memory.
const (
	maxTreesBytes  = 1 << 30
	maxTreesWindow = 128 << 20
)

// A Tree is a list of files by digest, itself a file of the [TreesFile]. Folders
// exist only as parts of paths.
type Tree struct {
	Version int        `json:"version"`
	Files   []TreeFile `json:"files"`
}

// A TreeFile is one file of a tree.
type TreeFile struct {
	Path       string         `json:"path"`
	Digest     digest.Content `json:"digest"`
	Executable bool           `json:"executable,omitempty"`
}

// A blobStore gives the files of a class's trees by their digests.
type blobStore func() (map[digest.Content][]byte, error)

// storeOf expands a trees file when it is first asked for something.
func storeOf(file []byte) blobStore {
	return sync.OnceValues(func() (map[digest.Content][]byte, error) {
		if file == nil {
			return nil, nil
		}
		blobs, err := expandTrees(file)
		if err != nil {
			return nil, refusal.Newf(refusal.BenchTreeInvalid, "%s: %w", TreesFile, err).
				WithHint("restore the file; it is a tar of files named by their BLAKE3, in one zstd frame")
		}
		return blobs, nil
	})
}

func expandTrees(file []byte) (map[digest.Content][]byte, error) {
	z, err := zstd.NewReader(bytes.NewReader(file), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxTreesWindow))
	if err != nil {
		return nil, err
	}
	defer z.Close()
	blobs := map[digest.Content][]byte{}
	limited := &io.LimitedReader{R: z, N: maxTreesBytes}
	for r := tar.NewReader(limited); ; {
		h, err := r.Next()
		if err == io.EOF {
			return blobs, nil
		}
		if limited.N <= 0 {
			return nil, fmt.Errorf("it expands to more than %d bytes", int64(maxTreesBytes))
		}
		if err != nil {
			return nil, err
		}
		data, err := io.ReadAll(r)
		if err != nil {
			return nil, err
		}
		d := digest.ContentOf(data)
		if h.Typeflag != tar.TypeReg || h.Name != hexOf(d) {
			return nil, fmt.Errorf("found the entry %.100q, which is not a file named by its digest %s", h.Name, hexOf(d))
		}
		blobs[d] = data
	}
}

func hexOf(d digest.Content) string {
	_, hex, _ := strings.Cut(d.String(), ":")
	return hex
}

// PackTrees writes a trees file. Files that resemble each other compress best
// when they stand side by side, so the order is the caller's; a file that is
// given twice is written once.
func PackTrees(files [][]byte) ([]byte, error) {
	var out bytes.Buffer
	z, err := zstd.NewWriter(&out, zstd.WithEncoderLevel(zstd.SpeedBetterCompression), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(32<<20))
	if err != nil {
		return nil, err
	}
	w := tar.NewWriter(z)
	seen := map[digest.Content]bool{}
	for _, data := range files {
		d := digest.ContentOf(data)
		if seen[d] {
			continue
		}
		seen[d] = true
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: hexOf(d), Size: int64(len(data)), Mode: 0o644, Format: tar.FormatUSTAR}); err != nil {
			return nil, err
		}
		if _, err := w.Write(data); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// Marshal gives the bytes that a tree's digest is of.
func (t *Tree) Marshal() ([]byte, error) {
	slices.SortFunc(t.Files, func(a, b TreeFile) int { return strings.Compare(a.Path, b.Path) })
	return canon.Marshal(t)
}

// Tree returns the files of a tree that the case names. What is missing from the
// class's trees file refuses the case.
func (c VerifiedCase) Tree(name digest.Content) ([]digest.File, error) {
	return c.draft.blobs.tree(name)
}

// CheckTrees refuses a trees file with something in it that no tree has, of
// those that cases name: people do not review what is not used. Drafts may name
// trees too, and until they are cases it is not known which.
func (v *Verified) CheckTrees(named []digest.Content) error {
	for p := range v.draft.files {
		if strings.HasPrefix(p, PendingDir+"/") {
			return nil
		}
	}
	return v.draft.blobs.unused(named)
}

func (s blobStore) unused(named []digest.Content) error {
	blobs, err := s()
	if err != nil {
		return err
	}
	used := map[digest.Content]bool{}
	for _, name := range named {
		var t Tree
		if err := canon.UnmarshalCanonical(blobs[name], &t); err != nil {
			return refusal.Newf(refusal.Malformed, "the tree %s: %w", name, err)
		}
		used[name] = true
		for _, f := range t.Files {
			used[f.Digest] = true
		}
	}
	var idle []string
	for d := range blobs {
		if !used[d] {
			idle = append(idle, hexOf(d))
		}
	}
	if len(idle) == 0 {
		return nil
	}
	slices.Sort(idle)
	return refusal.Newf(refusal.BenchTreeInvalid, "%s: no case uses %d of the %d files in it; the first is %s", TreesFile, len(idle), len(blobs), idle[0]).
		WithHint("take them out: unpack the file with \"tar --zstd -xf\", remove them, pack the others with \"tar --zstd -cf\"")
}

func (s blobStore) tree(name digest.Content) ([]digest.File, error) {
	blobs, err := s()
	if err != nil {
		return nil, err
	}
	listed, ok := blobs[name]
	if !ok {
		return nil, incomplete("the case begins with the tree %s, which %s does not have", name, TreesFile)
	}
	var t Tree
	if err := canon.UnmarshalCanonical(listed, &t); err != nil {
		return nil, refusal.Newf(refusal.Malformed, "the tree %s: %w", name, err)
	}
	if t.Version != 1 {
		return nil, refusal.Newf(refusal.Malformed, "the tree %s: version is %d, this program knows 1", name, t.Version)
	}
	files := make([]digest.File, len(t.Files))
	for i, f := range t.Files {
		data, ok := blobs[f.Digest]
		if !ok {
			return nil, incomplete("the tree %s has the file %.200q with the digest %s, which %s does not have", name, f.Path, f.Digest, TreesFile)
		}
		files[i] = digest.File{Path: f.Path, Data: data, Executable: f.Executable}
	}
	// A path that leads elsewhere, or two that are one on some disk.
	if _, err := (&digest.Tree{Files: files}).Digest(); err != nil {
		return nil, refusal.Newf(refusal.Malformed, "the tree %s: %w", name, err)
	}
	return files, nil
}
