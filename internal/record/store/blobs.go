package store

import (
	"bytes"
	"encoding/hex"
	"path/filepath"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
)

// Blobs is a folder of files named by the BLAKE3 digest of what is in them.
type Blobs struct {
	fsys FS
	dir  string
}

// NewBlobs returns the blobs in dir, which is made when the first one is put.
func NewBlobs(fsys FS, dir string) *Blobs { return &Blobs{fsys, dir} }

func (b *Blobs) path(d digest.Content) string {
	name := hex.EncodeToString(d[:])
	return filepath.Join(b.dir, name[:2], name)
}

// Put stores data and returns its name, on disk when it returns. Data that is
// there already is read and compared and not written again.
func (b *Blobs) Put(data []byte) (digest.Content, error) {
	d := digest.ContentOf(data)
	path := b.path(d)
	if err := MakeDir(b.fsys, filepath.Dir(path), 0o700); err != nil {
		return d, err
	}
	if old, err := ReadFile(b.fsys, path, int64(len(data))); err == nil && bytes.Equal(old, data) {
		// It was synced before it got its name, the name perhaps not.
		if err := b.fsys.SyncDir(filepath.Dir(path)); err != nil {
			return d, writeError("writing", path, err)
		}
		return d, nil
	}
	return d, WriteFile(b.fsys, path, data, 0o600)
}

// Get returns the blob of that name, having checked that it still has the
// content its name says.
func (b *Blobs) Get(d digest.Content, limit int64) ([]byte, error) {
	path := b.path(d)
	data, err := ReadFile(b.fsys, path, limit)
	if err != nil {
		return nil, err
	}
	if got := digest.ContentOf(data); got != d {
		return nil, refusal.Newf(refusal.DigestMismatch, "%s holds %s, its name says %s", path, got, d).
			WithHint("restore the file from a copy; nothing that names it can be checked without it")
	}
	return data, nil
}

// Has reports whether a blob of that name is there, without reading it.
func (b *Blobs) Has(d digest.Content) bool {
	_, err := b.fsys.Stat(b.path(d))
	return err == nil
}
