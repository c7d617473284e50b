package harness

import (
	"math"
	"runtime/debug"
)

// softMemory is from where on the collector of garbage works harder. A body of
// 8 MiB leaves a hundred times as much garbage, of which the collector would
// let as much lie as is in use. An ordinary attempt never comes near.
const softMemory = 320 << 20

// limitMemory sets the limit, unless the operator set another by GOMEMLIMIT,
// and returns what takes it back.
func limitMemory() (undo func()) {
	before := debug.SetMemoryLimit(-1)
	if before != math.MaxInt64 {
		return func() {}
	}
	debug.SetMemoryLimit(softMemory)
	return func() { debug.SetMemoryLimit(before) }
}
