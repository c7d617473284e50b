//go:build !linux

package bus

// Quiet does nothing: agents are sandboxed on Linux only.
func Quiet() {}
