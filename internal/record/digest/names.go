package digest

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
)

// CheckPath refuses a path that no file of a tree may have.
func CheckPath(path string) error {
	if err := checkPath(path); err != nil {
		return err
	}
	_, _, err := splitPath(path)
	return err
}

// checkPath refuses a path that some system could not store, could store as
// another path, or could show as another path. The stream itself would carry
// it; the people who sign and compare trees would be misled.
func checkPath(path string) error {
	if path == "" {
		return refuseName(path, "is empty")
	}
	if !utf8.ValidString(path) {
		return refuseName(path, "is not valid UTF-8")
	}
	for name := range strings.SplitSeq(path, "/") {
		if problem := oddName(name); problem != "" {
			return refuseName(path, problem)
		}
	}
	return nil
}

// oddName says what is wrong with one part of a path, "" if nothing is.
func oddName(name string) string {
	switch {
	case name == "":
		return "has an empty part"
	case name == "." || name == "..":
		return "has the part " + name
	case name[0] == '-':
		return "has a part that begins with '-', which programs read as an option"
	case strings.HasSuffix(name, ".") || strings.HasSuffix(name, " "):
		return "has a part that ends in a dot or a space, which Windows drops"
	}
	for _, r := range name {
		switch {
		case r == '\\':
			return "has a backslash, which Windows reads as '/'"
		case r < 0x20 || 0x7f <= r && r < 0xa0:
			return "has a control character"
		case plain.Invisible(r):
			return "has a character that is invisible or changes the direction of text"
		}
	}
	return ""
}

func refuseName(path, problem string) error {
	return refusal.Newf(refusal.Malformed, "tree: path %q %s", path, problem).
		WithHint("rename the file; trees that are signed have names that every system stores and shows alike")
}

// names finds paths that are one path on a system that ignores case, and a
// file where another path needs a folder.
type names struct {
	seen map[string]entry // by folded path
}

type entry struct {
	path   string
	folder bool
}

func newNames() *names { return &names{seen: make(map[string]entry)} }

// addFile adds a file and the folders above it.
func (n *names) addFile(path string) error {
	for i, c := range path {
		if c == '/' {
			if err := n.add(entry{path[:i], true}); err != nil {
				return err
			}
		}
	}
	return n.add(entry{path, false})
}

func (n *names) add(e entry) error {
	key := fold(e.path)
	old, ok := n.seen[key]
	if !ok {
		n.seen[key] = e
		return nil
	}
	if old.path == e.path && old.folder && e.folder {
		return nil
	}
	if old.path == e.path {
		return refuseName(e.path, "occurs twice")
	}
	return refuseName(e.path, "differs only in case from "+strconv.Quote(old.path))
}

// fold maps paths that differ only in case to one text, by Unicode's simple
// case folding.
func fold(path string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
			least = min(least, next)
		}
		return least
	}, path)
}
