package identity

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A Host is what identifies the programs and libraries of a machine, cheaply: the
// folders that hold them to a depth of two, and what is mounted over them. It
// shows that something was installed, removed or put over a folder. It does not
// show an edit of a file in its place: that would take a look at every file.
type Host struct {
	tops    []string
	entries []entry
	mounts  []string
}

// TakeHost looks at the system's folders. A link among them is looked at as a link.
func TakeHost(tops []string) (*Host, error) {
	h := &Host{tops: tops}
	for _, top := range tops {
		if err := h.add(top, 2); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(h.entries, func(a, b entry) int { return strings.Compare(a.dir, b.dir) })
	var err error
	h.mounts, err = h.mounted()
	return h, err
}

func (h *Host) add(name string, depth int) error {
	id, err := Of(name)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	h.entries = append(h.entries, entry{filepath.Dir(name), filepath.Base(name), id})
	if depth == 0 || fs.FileMode(id.Mode)&typeMask != typeFolder {
		return nil
	}
	inside, err := os.ReadDir(name)
	if err != nil {
		return nil // its own identity is in
	}
	for _, e := range inside {
		if !e.IsDir() {
			continue
		}
		if err := h.add(filepath.Join(name, e.Name()), depth-1); err != nil {
			return err
		}
	}
	return nil
}

// The part of an [ID]'s mode that says that it is a folder.
const typeMask, typeFolder = 0o170000, 0o040000

// mounted lists what is mounted at, above or below the folders, as the mount table
// has it.
func (h *Host) mounted() ([]string, error) {
	table, err := mountLines()
	var out []string
	for _, m := range table {
		if slices.ContainsFunc(h.tops, func(top string) bool { return below(top, m.at) || below(m.at, top) }) {
			out = append(out, m.line)
		}
	}
	return out, err
}

// below reports whether name is dir or in it.
func below(dir, name string) bool {
	return dir == name || strings.HasPrefix(name, strings.TrimSuffix(dir, "/")+"/")
}

// Root is the identity of one of the folders.
func (h *Host) Root(top string) (ID, bool) {
	for _, e := range h.entries {
		if filepath.Join(e.dir, e.name) == top {
			return e.id, true
		}
	}
	return ID{}, false
}

// Changed says what is not as it was; "" if everything is.
func (h *Host) Changed() string {
	now, err := h.mounted()
	if err != nil {
		return "the mount table cannot be read: " + err.Error()
	}
	if !slices.Equal(now, h.mounts) {
		return "something was mounted over the system's folders, or is not any more"
	}
	return firstChanged(h.entries)
}

// Lines are what a digest of it is of. Numbers of devices and inodes are not in
// them: those change when a machine is started again.
func (h *Host) Lines() []string {
	var out []string
	for _, e := range h.entries {
		out = append(out, fmt.Sprintf("%q %o %d %d", filepath.Join(e.dir, e.name), e.id.Mode, e.id.Modified, e.id.Changed))
	}
	return append(out, h.mounts...)
}
