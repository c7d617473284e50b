//go:build !linux

package runfolder

// A Base is nothing: sandboxes exist on Linux only.
type Base struct{}

// Open makes nothing.
func Open(string) (*Base, error) { return &Base{}, nil }

// Sweep removes nothing.
func (*Base) Sweep() {}
