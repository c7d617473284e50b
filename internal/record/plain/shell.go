package plain

import "strings"

// ShellWord spells a text so that a POSIX shell reads it as one word: as it is,
// if nothing in it means something to a shell, else in single quotes. What is
// not printable is escaped as in [Line] and is not what was meant any more; an
// operator should read such a line before running it.
func ShellWord(s string) string {
	s = Line(s)
	safe := func(c rune) bool {
		return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.ContainsRune("_-./:@%+,=", c)
	}
	if s != "" && strings.IndexFunc(s, func(c rune) bool { return !safe(c) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
