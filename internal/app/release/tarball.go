package release

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"path"
	"time"
)

// A file is an entry of an archive.
type file struct {
	name string
	mode int64
	data []byte
}

// tarball is a compressed tar of files below the folder top, with the folders that
// they are in. An empty top begins at ".", as Debian wants it.
func tarball(when time.Time, top string, files []file) ([]byte, error) {
	plain, err := tarOf(when, top, files)
	if err != nil {
		return nil, err
	}
	return compress(plain)
}

func tarOf(when time.Time, top string, files []file) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	// Seconds alone, and neither owner nor name: nothing of the builder.
	header := func(name string, kind byte, mode, size int64) error {
		return w.WriteHeader(&tar.Header{Typeflag: kind, Name: name, Mode: mode, Size: size, ModTime: when.Truncate(time.Second), Format: tar.FormatUSTAR})
	}
	made := map[string]bool{}
	var folder func(dir string) error
	folder = func(dir string) error {
		if dir == "." && top != "" || dir == "/" || made[dir] {
			return nil
		}
		made[dir] = true
		if dir != "." {
			if err := folder(path.Dir(dir)); err != nil {
				return err
			}
		}
		return header(within(top, dir)+"/", tar.TypeDir, 0o755, 0)
	}
	for _, f := range files {
		name := path.Join(top, f.name)
		if err := folder(path.Dir(name)); err != nil {
			return nil, err
		}
		if err := header(within(top, name), tar.TypeReg, f.mode, int64(len(f.data))); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// within spells a path as the tar has it.
func within(top, name string) string {
	if top != "" || name == "." {
		return name
	}
	return "./" + name
}

func compress(data []byte) ([]byte, error) {
	var b bytes.Buffer
	w := gzip.NewWriter(&b) // its header has no time and no name
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
