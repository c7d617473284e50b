// Command tallybox is the smallest program that sandboxes can be made of. The
// tests build it statically, because a test binary need not be static.
package main

import "tallystick/internal/run/sandbox"

func main() { sandbox.Reexec() }
