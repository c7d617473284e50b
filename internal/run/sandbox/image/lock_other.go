//go:build !unix

package image

import "os"

// lockFile does nothing where no sandbox runs.
func lockFile(*os.File) error { return nil }
