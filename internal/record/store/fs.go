// Package store keeps files safe: it is the only package that writes to disk.
//
// Everything here is built from one rule: a caller that was told "done" finds
// the bytes after a crash. [WriteFile] replaces a file whole or not at all, a
// [Log] acknowledges a batch only after it is on disk, [Blobs] names files by
// what is in them, and a [Lock] keeps a second process out.
//
// Every system call that changes the disk goes through [FS], so that the tests
// can fail, shorten, tear or forget each one of them in turn.
package store

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"tallystick/internal/record/refusal"
)

// FS is the part of a file system that store uses. There are two: [OS], and
// the one in package faultfs that the tests break.
type FS interface {
	OpenFile(name string, flag int, perm fs.FileMode) (File, error)
	Rename(oldName, newName string) error
	Remove(name string) error
	Mkdir(name string, perm fs.FileMode) error
	ReadDir(name string) ([]fs.DirEntry, error)
	Stat(name string) (fs.FileInfo, error)
	// Lstat is Stat that does not follow a link.
	Lstat(name string) (fs.FileInfo, error)
	// SyncDir makes the names in a folder durable.
	SyncDir(name string) error
}

// File is an open file of an [FS].
type File interface {
	io.Reader
	io.ReaderAt
	io.Writer
	io.WriterAt
	io.Closer
	Truncate(size int64) error
	// Sync returns when the file's bytes are on disk.
	Sync() error
	Stat() (fs.FileInfo, error)
	// TryLock locks the file against other openings of it, here and in other
	// processes, until it is closed; it reports false when one has the lock.
	TryLock() (bool, error)
}

// OS is the real file system.
type OS struct{}

// OpenFile opens a file as [os.OpenFile] does.
func (OS) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	f, err := os.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

// Rename renames a file, replacing what has the new name.
func (OS) Rename(oldName, newName string) error { return os.Rename(oldName, newName) }

// Remove removes a file or an empty folder.
func (OS) Remove(name string) error { return os.Remove(name) }

// Mkdir makes a folder.
func (OS) Mkdir(name string, perm fs.FileMode) error { return os.Mkdir(name, perm) }

// ReadDir lists a folder by name.
func (OS) ReadDir(name string) ([]fs.DirEntry, error) { return os.ReadDir(name) }

// Stat describes a file, following links.
func (OS) Stat(name string) (fs.FileInfo, error) { return os.Stat(name) }

// Lstat looks at a file or link as [os.Lstat] does.
func (OS) Lstat(name string) (fs.FileInfo, error) { return os.Lstat(name) }

// SyncDir makes the names in a folder durable. Windows has no such call; there
// the journal of NTFS keeps names in order.
func (OS) SyncDir(name string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

type osFile struct{ *os.File }

// Sync uses fdatasync where there is one: the file's length is data enough to
// read it back, and the modification time is not worth a second journal write.
func (f osFile) Sync() error { return datasync(f.File) }

// writeError names a failed write. A full disk is told apart because the
// person can do something about it.
func writeError(doing, name string, err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return refusal.Newf(refusal.DiskFull, "%s %s: %w", doing, name, err).
			WithHint("free some space and run the command again; what was acknowledged before is on disk")
	}
	return refusal.Newf(refusal.WriteFailed, "%s %s: %w", doing, name, err).
		WithHint("what was acknowledged before is on disk; check the permissions and the disk of %s", filepath.Dir(name))
}

// readError names a failed read: the bytes could not be had, which says
// nothing about what they are.
func readError(name string, err error) error {
	r := refusal.Newf(refusal.Unreadable, "reading %s: %w", name, err)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return r.WithHint("check the path; nothing was changed")
	case errors.Is(err, fs.ErrPermission):
		return r.WithHint("this user may not read it; nothing was changed")
	case errors.Is(err, syscall.EISDIR):
		return r.WithHint("that is a folder; give a file")
	}
	return r.WithHint("nothing was changed; try again when the file can be read")
}
