package bench

import (
	"fmt"

	"tallystick/internal/plain"
)

// maxIDBytes bounds the name of a case or a class; it is part of paths, of
// entries and of lines on a terminal.
const maxIDBytes = 100

// CheckID refuses a name of a case or a class that is not 1 to 100 ASCII
// letters, digits, dots, dashes and underscores, or that begins with a dot or
// a dash. Being ASCII, no letter of another alphabet can pose as one of them.
func CheckID(id string) error {
	if id == "" || len(id) > maxIDBytes {
		return fmt.Errorf("the name %.120q has %d characters, expected 1 to %d", id, len(id), maxIDBytes)
	}
	for _, c := range []byte(id) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return fmt.Errorf("the name %q has the character %q, expected only A-Z a-z 0-9 . _ -", id, c)
		}
	}
	switch {
	case id[0] == '.' || id[0] == '-':
		return fmt.Errorf("the name %q begins with %q, expected a letter, a digit or an underscore", id, id[0])
	case id[len(id)-1] == '.':
		return fmt.Errorf("the name %q ends in a dot, which Windows drops", id)
	}
	return nil
}

// TargetFolder is how a target is spelled in the names of files, of folders and of
// attempts. It is the name, which is all that most targets have.
func TargetFolder(target string) string { return target }

// A nameSet finds names that look alike.
type nameSet map[string]string

// find returns the name that was added and looks like id, or "".
func (s nameSet) find(id string) string { return s[plain.Fold(id)] }

// add returns the name that was added before and looks like id, or "".
func (s nameSet) add(id string) string {
	if other := s.find(id); other != "" {
		return other
	}
	s[plain.Fold(id)] = id
	return ""
}
