package store

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// EscapePath writes a path so that it can stand in a record and be shown: bytes
// that are not printable text become \xNN, and a backslash becomes two. Most
// paths stay as they are, and no two become the same.
func EscapePath(name string) string {
	if isPlainPath(name) {
		return name
	}
	var b strings.Builder
	for i := 0; i < len(name); {
		r, size := utf8.DecodeRuneInString(name[i:])
		switch {
		case r == '\\':
			b.WriteString(`\\`)
		case r == utf8.RuneError && size == 1 || !strconv.IsPrint(r):
			for _, c := range []byte(name[i : i+size]) {
				fmt.Fprintf(&b, `\x%02x`, c)
			}
		default:
			b.WriteString(name[i : i+size])
		}
		i += size
	}
	return b.String()
}

func isPlainPath(name string) bool {
	for i, r := range name {
		if r == '\\' || !strconv.IsPrint(r) || r == utf8.RuneError && name[i] != "\uFFFD"[0] {
			return false
		}
	}
	return true
}

// UnescapePath is the path that [EscapePath] wrote so, or false if it wrote no
// such thing.
func UnescapePath(text string) (string, bool) {
	if !strings.Contains(text, `\`) {
		return text, EscapePath(text) == text
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] != '\\':
			b.WriteByte(text[i])
		case strings.HasPrefix(text[i:], `\\`):
			b.WriteByte('\\')
			i++
		case strings.HasPrefix(text[i:], `\x`) && len(text) >= i+4:
			c, err := strconv.ParseUint(text[i+2:i+4], 16, 8)
			if err != nil {
				return "", false
			}
			b.WriteByte(byte(c))
			i += 3
		default:
			return "", false
		}
	}
	name := b.String()
	return name, EscapePath(name) == text
}
