//go:build !linux

package sqlresult

// bound does nothing here: the database's own limits and the parent's clock remain.
func bound() error { return nil }
