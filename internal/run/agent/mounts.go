package agent

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/store"
	"tallystick/internal/run/sandbox/identity"
)

// What is digested of a mount is bounded: an environment of Python fits, the
// whole machine does not.
const (
	maxMountEntries = 100_000
	maxMountBytes   = 2 << 30
)

// mountHost is where a mount is on this machine.
func (t *Target) mountHost(i int) string {
	host := t.Command.Mounts[i].Host
	switch {
	case t.hosts != nil:
		return t.hosts[i]
	case !path.IsAbs(host):
		return filepath.Join(t.root, TargetsDir, filepath.FromSlash(host))
	}
	return host
}

// DigestMount hashes a folder, or a file: for each path in the order of the walk a
// line with its kind, its length and its name, then what is in it. Links are
// hashed as links: where they lead is another mount's, or the system's.
func DigestMount(host string) (digest.Content, error) {
	return walkMount(host, func(string, string, fs.DirEntry) error { return nil })
}

// walkMount is DigestMount that shows what it digests, by its path below the real one.
func walkMount(host string, visit func(real, rel string, d fs.DirEntry) error) (digest.Content, error) {
	real, err := filepath.EvalSymlinks(host)
	if err != nil {
		return digest.Content{}, err
	}
	h := digest.NewContent()
	entries, left := 0, int64(maxMountBytes)
	err = filepath.WalkDir(real, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entries++; entries > maxMountEntries {
			return fmt.Errorf("it has more than %d files", maxMountEntries)
		}
		rel, err := filepath.Rel(real, name)
		if err != nil {
			return err
		}
		if err := visit(real, rel, d); err != nil {
			return err
		}
		return digestEntry(h, name, rel, d, &left)
	})
	if err != nil {
		return digest.Content{}, err
	}
	return h.Sum(), nil
}

func digestEntry(h *digest.ContentHasher, name, rel string, d fs.DirEntry, left *int64) error {
	switch kind := d.Type(); {
	case kind.IsDir():
		fmt.Fprintf(h, "folder %q\n", rel)
		return nil
	case kind&fs.ModeSymlink != 0:
		to, err := os.Readlink(name)
		fmt.Fprintf(h, "link %q %q\n", rel, to)
		return err
	case !kind.IsRegular():
		return fmt.Errorf("%s is neither a file nor a folder nor a link", rel)
	}
	f, err := store.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if *left -= info.Size(); *left < 0 {
		return fmt.Errorf("it has more than %d bytes", int64(maxMountBytes))
	}
	if identity.OpenForWriting(f) {
		return fmt.Errorf("a program has %s open for writing", rel)
	}
	fmt.Fprintf(h, "file %q %v %d\n", rel, info.Mode()&0o111 != 0, info.Size())
	n, err := io.Copy(h, io.LimitReader(f, info.Size()+1))
	if err == nil && n != info.Size() {
		err = errors.New(rel + " changed while it was read")
	}
	return err
}
