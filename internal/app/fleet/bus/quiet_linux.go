package bus

import _ "unsafe" // for go:linkname

// procStatFile is what the NATS server's package pse reads once a second, from the
// start of the program on, to know how busy the processor is. It is not needed
// here.
//
//go:linkname procStatFile github.com/nats-io/nats-server/v2/server/pse.procStatFile
var procStatFile string

// Quiet ends that reading. It must come before a process becomes part of a sandbox,
// which is this program started again: its kernel kills it for opening a file, so every
// agent that ran for longer than a second would die with its sandbox.
//
// A name with a zero byte is refused before the kernel is asked, and a reader that
// fails does not come back.
func Quiet() { procStatFile = "\x00" }
