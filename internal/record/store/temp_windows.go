package store

import "io/fs"

// ownedByUs reports whether a file is this user's. The folder for temporary files is, on
// Windows.
func ownedByUs(fs.FileInfo) bool { return true }
