package ledger

import (
	"fmt"
	"strings"
)

// A FileID tells a file from every other, and from itself before it was written to or
// renamed. The zero value tells nothing; two of these are alike.
type FileID struct {
	Device, Inode uint64
	// Modified and Changed are times in nanoseconds since 1970. A program may set the
	// first to what it likes. The kernel sets the second whenever bytes, name or times
	// of the file are touched; it is 0 where the system has none.
	Modified, Changed int64
}

// sameFile reports whether both are of one file.
func (f FileID) sameFile(other FileID) bool {
	return f.Device == other.Device && f.Inode == other.Inode
}

// touchedSince reports whether the file was written to, or something else about it was
// changed, since it was looked at.
func (f FileID) touchedSince(then FileID) bool {
	return f.Modified != then.Modified || f.Changed != then.Changed
}

// Lasting reports whether the identity is good enough for another process to rely on:
// a forger cannot set all of it.
func (f FileID) Lasting() bool { return f.Inode != 0 && f.Changed != 0 }

// fileIDFormat writes numbers that JSON has none for.
const fileIDFormat = "%x:%x:%d:%d"

// MarshalText spells it.
func (f FileID) MarshalText() ([]byte, error) {
	return fmt.Appendf(nil, fileIDFormat, f.Device, f.Inode, f.Modified, f.Changed), nil
}

// UnmarshalText reads what MarshalText spells and nothing else.
func (f *FileID) UnmarshalText(text []byte) error {
	var read FileID
	if _, err := fmt.Sscanf(strings.ReplaceAll(string(text), ":", " "), "%x %x %d %d", &read.Device, &read.Inode, &read.Modified, &read.Changed); err != nil {
		return fmt.Errorf("%q is not the identity of a file", text)
	}
	if again, _ := read.MarshalText(); string(again) != string(text) {
		return fmt.Errorf("%q is not the identity of a file", text)
	}
	*f = read
	return nil
}
