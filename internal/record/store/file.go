package store

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"tallystick/internal/record/refusal"
)

// ReadFile reads a whole regular file of at most limit bytes. A larger one is
// refused before it fills memory.
func ReadFile(fsys FS, name string, limit int64) ([]byte, error) {
	f, info, err := openRegular(fsys, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readUpTo(f, name, info.Size(), limit)
}

// readUpTo reads an open file of at most limit bytes.
func readUpTo(f io.Reader, name string, size, limit int64) ([]byte, error) {
	tooLarge := refusal.Newf(refusal.TooLarge, "%s is larger than the %d bytes that such a file may have", name, limit)
	if size > limit {
		return nil, tooLarge
	}
	// The size is a hint, so that a large file is not copied while it is read;
	// it may have grown since.
	data := bytes.NewBuffer(make([]byte, 0, size+bytes.MinRead))
	if _, err := data.ReadFrom(io.LimitReader(f, limit+1)); err != nil {
		return nil, readError(name, err)
	}
	if int64(data.Len()) > limit {
		return nil, tooLarge
	}
	return data.Bytes(), nil
}

// Open opens a regular file of a person for reading. It is [os.Open] for names that
// come from outside: of a pipe, a device, a socket or a folder it says what it is,
// and waits for nothing.
func Open(name string) (*os.File, error) {
	return regular(os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0))
}

// OpenIn is [Open] below a folder.
func OpenIn(root *os.Root, name string) (*os.File, error) {
	return regular(root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0))
}

func regular(f *os.File, err error) (*os.File, error) {
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: f.Name(), Err: fmt.Errorf("it is a %s, not a regular file", kindOf(info))}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// openRegular opens a regular file for reading.
func openRegular(fsys FS, name string) (File, fs.FileInfo, error) {
	// Opening a pipe would wait for its other end.
	f, err := fsys.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, readError(name, err)
	}
	info, err := f.Stat()
	switch {
	case err != nil:
		err = readError(name, err)
	case !info.Mode().IsRegular():
		err = refusal.Newf(refusal.Unreadable, "reading %s: it is a %s, not a regular file", name, kindOf(info)).
			WithHint("give a file; nothing was changed")
	default:
		return f, info, nil
	}
	f.Close()
	return nil, nil, err
}

func kindOf(info fs.FileInfo) string {
	switch mode := info.Mode(); {
	case mode.IsDir():
		return "folder"
	case mode&fs.ModeSymlink != 0:
		return "link"
	case mode&fs.ModeNamedPipe != 0:
		return "pipe"
	case mode&fs.ModeSocket != 0:
		return "socket"
	case mode&fs.ModeDevice != 0:
		return "device"
	default:
		return "special file"
	}
}

// WriteFile replaces name with data, whole or not at all, and returns when the
// new file and its name are on disk. A crash leaves the old file or the new
// one, and at worst a leftover whose name ends in ".tmp".
func WriteFile(fsys FS, name string, data []byte, perm fs.FileMode) error {
	if err := replaceFile(fsys, name, data, perm); err != nil {
		return err
	}
	// Until the folder is synced a power cut may bring the old name back.
	if err := fsys.SyncDir(filepath.Dir(name)); err != nil {
		return writeError("writing", name, err)
	}
	return nil
}

// A Named is a file to write.
type Named struct {
	Name string
	Data []byte
}

// WriteFiles is [WriteFile] for many files, whose folders are synced once and
// made if need be. After an error some may be there and others not.
func WriteFiles(fsys FS, files []Named, perm fs.FileMode) error {
	folders := map[string]bool{}
	for _, f := range files {
		dir := filepath.Dir(f.Name)
		if !folders[dir] {
			if err := MakeDir(fsys, dir, 0o700); err != nil {
				return err
			}
			folders[dir] = true
		}
		if err := replaceFile(fsys, f.Name, f.Data, perm); err != nil {
			return err
		}
	}
	for dir := range folders {
		if err := fsys.SyncDir(dir); err != nil {
			return writeError("writing to", dir, err)
		}
	}
	return nil
}

// RemoveFile removes a file, and returns when its name is gone from the disk. One
// that is not there is no error.
func RemoveFile(fsys FS, name string) error {
	err := fsys.Remove(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = fsys.SyncDir(filepath.Dir(name))
	}
	if err != nil {
		return writeError("removing", name, err)
	}
	return nil
}

// CreateFile writes a file that must not exist yet, and otherwise promises
// what [WriteFile] does.
func CreateFile(fsys FS, name string, data []byte, perm fs.FileMode) error {
	switch _, err := fsys.Lstat(name); {
	case err == nil:
		return refusal.Newf(refusal.AlreadyExists, "%s exists already and is not overwritten", name)
	case !errors.Is(err, fs.ErrNotExist):
		return readError(name, err)
	}
	return WriteFile(fsys, name, data, perm)
}

// replaceFile puts a synced file in the place of another, in a folder that is
// not synced yet.
func replaceFile(fsys FS, name string, data []byte, perm fs.FileMode) error {
	// Renaming over a device, or over a link such as /dev/stdout, would take it
	// away from everybody; writing through a link could change any file.
	if info, err := fsys.Lstat(name); err == nil && !info.Mode().IsRegular() {
		return refusal.Newf(refusal.WriteFailed, "writing %s: it is a %s, not a regular file", name, kindOf(info)).
			WithHint("name a file; nothing was changed")
	}
	tmp, err := writeTemp(fsys, name, data, perm)
	if err != nil {
		return err
	}
	if err := fsys.Rename(tmp, name); err != nil {
		fsys.Remove(tmp)
		return writeError("writing", name, err)
	}
	return nil
}

// writeTemp writes and syncs a file beside name. Its name is new each time: two
// writers of the same file must not write into each other's, and no process can
// lay a link in its way.
func writeTemp(fsys FS, name string, data []byte, perm fs.FileMode) (tmp string, err error) {
	tmp = fmt.Sprintf("%s.%s.tmp", name, rand.Text())
	f, err := fsys.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return "", writeError("writing", name, err)
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		fsys.Remove(tmp)
		return "", writeError("writing", name, err)
	}
	return tmp, nil
}

// MakeDir makes a folder and its parents, and returns when their names are on
// disk.
func MakeDir(fsys FS, name string, perm fs.FileMode) error {
	parent := filepath.Dir(name)
	info, err := fsys.Stat(name)
	switch {
	case err == nil && !info.IsDir():
		return refusal.Newf(refusal.AlreadyExists, "%s is a %s, not a folder", name, kindOf(info))
	case err == nil:
		// Its maker may have died before the name was on disk. We did not make
		// it in a parent that we may not even read.
		if err := fsys.SyncDir(parent); err != nil && !errors.Is(err, fs.ErrPermission) {
			return writeError("making folder", name, err)
		}
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return writeError("making folder", name, err)
	}
	if err := MakeDir(fsys, parent, perm); err != nil {
		return err
	}
	if err := fsys.Mkdir(name, perm); err != nil && !errors.Is(err, fs.ErrExist) {
		return writeError("making folder", name, err)
	}
	if err := fsys.SyncDir(parent); err != nil {
		return writeError("making folder", name, err)
	}
	return nil
}
