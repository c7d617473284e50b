// Command tally-fleet is tally with what it takes to work on more than one machine:
// it has every command of tally, runs attempts over a fleet of workers, and is such a
// worker. It is a program of its own because its libraries would make every start of a
// sandbox slower.
package main

import (
	"os"
	"runtime/debug"

	"tallystick/internal/app/fleet/bus"
	"tallystick/internal/app/fleet/coordinator"
	"tallystick/internal/app/fleet/worker"
	"tallystick/internal/cli"
	"tallystick/internal/record/bucket/s3"
	"tallystick/internal/run/bounded"
	"tallystick/internal/run/sandbox"
)

func main() {
	bus.Quiet() // before anything that may be the inside of a sandbox
	// First of all: a sandbox is this program started again under another
	// name, with flags of its own.
	sandbox.Reexec()
	bounded.Reexec()
	sandbox.MakeOf(cli.TallyBeside)
	collectLess()
	os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv, &cli.Beyond{
		Fleet: coordinator.Open, Worker: worker.Work, Status: coordinator.Ask, Remote: s3.Open,
	}))
}

// collectLess lets memory grow to five times of what is in use before garbage is
// collected, unless GOGC says something else: a fleet makes many small messages and keeps
// few of them.
func collectLess() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
}
