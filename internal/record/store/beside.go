package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"unicode"

	"tallystick/internal/record/refusal"
)

// ReadBeside reads a file that another file names: a prompt that a configuration
// names, an attachment that a row names. The name is a path with slashes in the folder
// of the file that has it, or below; "file://" may stand before it. Whoever wrote that
// file decides the name, so nothing leads out of the folder: neither ".." nor a path
// from the top, neither a link (also one that is put there in between) nor an address,
// in the spelling of any system.
func ReadBeside(file, name string, limit int64) ([]byte, error) {
	local := strings.TrimPrefix(name, "file://")
	if why := notBelow(local); why != "" {
		return nil, outside(filepath.Dir(file), name, why)
	}
	return ReadBelow(filepath.Dir(file), local, limit)
}

// ReadBelow reads a file of a folder, such as one that a stranger sent, by its path in it
// with slashes, as it is on this machine. Nothing leads out of the folder here either.
func ReadBelow(dir, name string, limit int64) ([]byte, error) {
	f, err := OpenBelow(dir, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, readError(f.Name(), err)
	}
	return readUpTo(f, f.Name(), info.Size(), limit)
}

// OpenBelow opens what [ReadBelow] reads.
func OpenBelow(dir, name string) (*os.File, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, readError(dir, err)
	}
	defer root.Close()
	f, err := OpenIn(root, filepath.FromSlash(name))
	var path *fs.PathError
	switch {
	case err == nil:
		return f, nil
	case errors.As(err, &path) && path.Err.Error() == escapes:
		return nil, outside(dir, name, "it, or a link there, leads out of the folder")
	}
	return nil, readError(filepath.Join(dir, filepath.FromSlash(name)), err)
}

// escapes is what [os.Root] says of a path that leads out of it. The package has no
// name for that error.
const escapes = "path escapes from parent"

var driveLetter = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z]:`) })

// notBelow says why a name is not that of a file in a folder or below it, on this or
// another system; "" if it is. Nothing is decoded, so a percent sign is only that.
func notBelow(name string) string {
	switch {
	case name == "":
		return "it is empty"
	case strings.ContainsFunc(name, unicode.IsControl):
		return "it has a control character"
	case strings.Contains(name, "://"):
		return "it is an address"
	case name[0] == '/':
		return "it is a path from the top of the machine"
	case strings.Contains(name, `\`) || driveLetter().MatchString(name):
		return "it is a path of Windows; a path here has slashes, and no drive"
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return `it leads out of the folder by ".."`
		}
	}
	if !filepath.IsLocal(filepath.FromSlash(name)) {
		return "it does not name a file below the folder"
	}
	return ""
}

func outside(dir, name, why string) error {
	return refusal.Newf(refusal.Malformed, "the name %.200q of a file in %s: %s", name, dir, why).
		WithHint("put the file itself into that folder, and name it by its path from there; nothing was read")
}
