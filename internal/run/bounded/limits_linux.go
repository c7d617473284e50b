package bounded

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// limit has the kernel bound this process. Memory that is only reserved does not count
// as data, so a Go program fits.
func limit() error {
	for _, l := range []struct {
		name     string
		resource int
		most     uint64
	}{
		{"memory", unix.RLIMIT_DATA, maxData}, {"processor time", unix.RLIMIT_CPU, maxCPU}, {"files", unix.RLIMIT_NOFILE, maxFiles},
		{"size of files", unix.RLIMIT_FSIZE, 0}, {"core", unix.RLIMIT_CORE, 0},
	} {
		if err := unix.Setrlimit(l.resource, &unix.Rlimit{Cur: l.most, Max: l.most}); err != nil {
			return fmt.Errorf("bounding %s: %w", l.name, err)
		}
	}
	return nil
}
