package backup

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/format"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
)

const (
	manifestName = "backup.json"
	maxManifest  = 256 << 20
)

// parts are the folders and files of a registry that a backup may have.
func allowed(path string, keys bool) bool {
	if !filepath.IsLocal(path) || strings.Contains(path, "\\") || path != filepath.ToSlash(filepath.Clean(path)) {
		return false
	}
	for _, prefix := range []string{"signers/", "ledger/segments/", "ledger/anchors/", "blobs/"} {
		if strings.HasPrefix(path, prefix) {
			return true
		}
	}
	// The settings and the calibration set lie at the top.
	return keys && strings.HasPrefix(path, "keys/") || !strings.HasPrefix(path, "keys/") && !strings.HasPrefix(path, "registry.db") && path != manifestName
}

// pack writes the folder into one file, which has its name only when it is whole.
func pack(work, out string, m *Manifest) error {
	tmp := out + ".tmp"
	f, err := (store.OS{}).OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return refusal.Newf(refusal.WriteFailed, "writing %s: %w", out, refusal.WithoutPath(err))
	}
	err = packInto(f, work, m)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(refusal.Newf(refusal.WriteFailed, "writing %s: %w", out, err), (store.OS{}).Remove(tmp))
	}
	if err := (store.OS{}).Rename(tmp, out); err != nil {
		return refusal.Newf(refusal.WriteFailed, "writing %s: %w", out, err)
	}
	return (store.OS{}).SyncDir(filepath.Dir(out))
}

func packInto(f io.Writer, work string, m *Manifest) error {
	zipped := gzip.NewWriter(f)
	t := tar.NewWriter(zipped)
	paths, err := filesOf(work)
	if err != nil {
		return err
	}
	for _, path := range paths {
		if !allowed(path, m.Keys) {
			continue
		}
		data, err := store.ReadFile(store.OS{}, filepath.Join(work, path), maxFile)
		if err != nil {
			return err
		}
		m.Files = append(m.Files, File{Path: path, Bytes: int64(len(data)), Digest: digest.ContentOf(data)})
		if err := add(t, path, data, m.Made.Go()); err != nil {
			return err
		}
	}
	text, err := canon.Marshal(m)
	if err != nil {
		return err
	}
	if err := add(t, manifestName, append(text, '\n'), m.Made.Go()); err != nil {
		return err
	}
	return errors.Join(t.Close(), zipped.Close())
}

func add(t *tar.Writer, path string, data []byte, at time.Time) error {
	if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: path, Size: int64(len(data)), Mode: 0o600, ModTime: at}); err != nil {
		return err
	}
	_, err := t.Write(data)
	return err
}

// filesOf lists the regular files below a folder, with slashes, in order.
func filesOf(dir string) ([]string, error) {
	var paths []string
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			paths = append(paths, path)
		}
		return err
	})
	slices.Sort(paths)
	return paths, err
}

// unpack reads a backup into a folder and checks every file against the manifest.
// Whatever else is in the archive is refused: a restored registry has what the
// manifest says and nothing more.
func unpack(in io.Reader, dir string) (*Manifest, error) {
	bad := func(format string, args ...any) error {
		return refusal.Newf(refusal.DigestMismatch, "the backup: "+format, args...).WithHint("it is damaged, cut off or was changed; use another")
	}
	zipped, err := gzip.NewReader(in)
	if err != nil {
		return nil, bad("%v", err)
	}
	found := map[string]File{}
	t := tar.NewReader(zipped)
	for {
		h, err := t.Next()
		if err != nil {
			return nil, bad("it ends before its list of files: %v", err)
		}
		data, err := readMember(t, h)
		if err != nil {
			return nil, bad("%s: %v", h.Name, err)
		}
		if h.Name == manifestName {
			m, err := checkManifest(data, found)
			if refusal.Is(err, refusal.NewerFormat) {
				return nil, err
			}
			if err != nil {
				return nil, bad("%v", err)
			}
			if _, err := t.Next(); err != io.EOF {
				return nil, bad("something follows its list of files")
			}
			return m, nil
		}
		if _, twice := found[h.Name]; twice || !allowed(h.Name, true) {
			return nil, bad("it has the file %q, twice or out of place", h.Name)
		}
		found[h.Name] = File{Path: h.Name, Bytes: int64(len(data)), Digest: digest.ContentOf(data)}
		to := filepath.Join(dir, filepath.FromSlash(h.Name))
		if err := store.MakeDir(store.OS{}, filepath.Dir(to), 0o700); err != nil {
			return nil, err
		}
		if err := store.CreateFile(store.OS{}, to, data, 0o600); err != nil {
			return nil, err
		}
	}
}

func readMember(t *tar.Reader, h *tar.Header) ([]byte, error) {
	if h.Typeflag != tar.TypeReg {
		return nil, fmt.Errorf("it is not a regular file")
	}
	if h.Size > maxFile {
		return nil, fmt.Errorf("it has %d bytes, at most %d are read", h.Size, maxFile)
	}
	var b bytes.Buffer
	_, err := io.Copy(&b, io.LimitReader(t, maxFile+1))
	return b.Bytes(), err
}

func checkManifest(data []byte, found map[string]File) (*Manifest, error) {
	var m Manifest
	if len(data) > maxManifest {
		return nil, fmt.Errorf("its list of files has %d bytes", len(data))
	}
	if err := canon.Unmarshal(bytes.TrimSuffix(data, []byte("\n")), &m); err != nil {
		return nil, cmp.Or(format.Newer("the backup", data, "schema", schema), fmt.Errorf("its list of files: %w", err))
	}
	if err := format.Check("the backup", m.Schema, schema); err != nil {
		return nil, err
	}
	for _, f := range m.Files {
		if found[f.Path] != f {
			return nil, fmt.Errorf("%s is %s with %d bytes; its list says %s with %d", f.Path, found[f.Path].Digest, found[f.Path].Bytes, f.Digest, f.Bytes)
		}
	}
	if len(m.Files) != len(found) {
		return nil, fmt.Errorf("it has %d files, its list %d", len(found), len(m.Files))
	}
	return &m, nil
}
