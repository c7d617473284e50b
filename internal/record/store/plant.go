package store

import (
	"bytes"
	"os"
	"path/filepath"

	"tallystick/internal/record/digest"
)

// PlantTree makes a scratch folder hold exactly these files, which have plain
// relative names. Nothing is synced: what lies in such a folder does not
// outlive the case that works in it.
func PlantTree(dir string, files []digest.File) error {
	if err := os.RemoveAll(dir); err != nil {
		return writeError("clearing", dir, err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return writeError("making", dir, err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return writeError("opening", dir, err)
	}
	defer root.Close()
	for _, f := range files {
		name := filepath.FromSlash(f.Path)
		if parent := filepath.Dir(name); parent != "." {
			if err := root.MkdirAll(parent, 0o755); err != nil {
				return writeError("making", filepath.Join(dir, parent), err)
			}
		}
		if err := root.WriteFile(name, f.Data, 0o644); err != nil {
			return writeError("writing", filepath.Join(dir, name), err)
		}
	}
	return nil
}

// PlantProgram is PlantTree for files that are run and not only read: scripts
// with a first line that names their interpreter, and ELF programs, may be
// started. A tree does not say which could be where it was read.
func PlantProgram(dir string, files []digest.File) error {
	if err := PlantTree(dir, files); err != nil {
		return err
	}
	for _, f := range files {
		if name := filepath.Join(dir, filepath.FromSlash(f.Path)); bytes.HasPrefix(f.Data, []byte("#!")) || bytes.HasPrefix(f.Data, []byte("\x7fELF")) {
			if err := os.Chmod(name, 0o755); err != nil {
				return writeError("changing the mode of", name, err)
			}
		}
	}
	return nil
}

// PlantLink makes a link in a scratch folder.
func PlantLink(to, name string) error {
	if err := os.Symlink(to, name); err != nil {
		return writeError("linking", name, err)
	}
	return nil
}
