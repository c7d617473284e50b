package sequencer

import (
	"context"
	"testing"

	"tallystick/internal/record/ledger"
	"tallystick/internal/testing/faultfs"
)

// TestAPowerCutLeavesAMemory kills a process in the middle of each write of its
// memory, and pulls the plug then: the file's length and its contents may be
// of different moments.
func TestAPowerCutLeavesAMemory(t *testing.T) {
	const origin, perProcess = "example.com/evals", 5
	head := func(n int64) ledger.TreeHead {
		return ledger.TreeHead{Origin: origin, Size: n, Root: [32]byte{byte(n)}}
	}
	// life writes heads on a new disk, by processes that are all killed, the
	// last in its operation killAt, and returns the last head that was promised.
	life := func(heads int64, killAt int) (*faultfs.Disk, int64) {
		d := faultfs.New("/")
		var m *memory
		for n := range heads {
			if n%perProcess == 0 {
				d = d.Crash()
				var err error
				if m, err = openMemory(context.Background(), d, "/state", origin); err != nil {
					t.Fatal(err)
				}
			}
			if n == heads-1 {
				d.Inject(faultfs.Fault{At: killAt, Kind: faultfs.KillAfter})
			}
			if m.remember(head(n+1)) != nil {
				return d, n
			}
		}
		return d, heads
	}
	for heads := int64(2); heads <= 3*perProcess; heads++ {
		for killAt := range 3 {
			d, promised := life(heads, killAt)
			synced := (promised-1)/perProcess*perProcess + 1
			for seed := range uint64(200) {
				got, err := Remembered(d.PowerCut(seed), "/state", origin)
				if err != nil || got == nil || got.Size < synced || got.Size > heads {
					t.Fatalf("head %d, killed in operation %d, power cut %d: %+v (%v), expected one of %d to %d", heads, killAt, seed, got, err, synced, heads)
				}
			}
		}
	}
}
