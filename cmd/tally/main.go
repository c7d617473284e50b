// Command tally evaluates agents and leaves a score that every reader can check.
package main

import (
	"os"

	"tallystick/internal/cli"
	"tallystick/internal/run/bounded"
	"tallystick/internal/run/sandbox"
)

func main() {
	// First of all: a sandbox is this program started again under another
	// name, with flags of its own.
	sandbox.Reexec()
	bounded.Reexec()
	os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv, nil))
}
