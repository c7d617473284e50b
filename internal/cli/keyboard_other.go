//go:build !linux && !darwin

package cli

import (
	"context"
	"io"
)

// takeKeys takes none: Ctrl-C ends a watch here too.
func takeKeys(context.Context, io.Reader) *keyboard { return nil }
