package chaostest

import (
	"context"
	"flag"
	"os"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"tallystick/internal/app/fleet"
	"tallystick/internal/app/fleet/bus"
	"tallystick/internal/app/fleet/coordinator"
	"tallystick/internal/app/fleet/worker"
	"tallystick/internal/app/lab"
	"tallystick/internal/cli"
	"tallystick/internal/run/harness"
	"tallystick/internal/run/sandbox"
)

// silence is short, so that tests that wait for a lost worker are too, and long enough
// for a machine that is busy with other tests.
const silence = 4 * time.Second

// silenceEnv says it for the processes of one test, clockEnv how far the clock of a
// worker is off.
const (
	silenceEnv = "CHAOSTEST_SILENCE"
	clockEnv   = "CHAOSTEST_CLOCK"
)

func TestMain(m *testing.M) {
	// Tests wait most of the time. Set -parallel for another number.
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	testscript.Main(m, map[string]func(){"tally-fleet": fleetMain})
}

// patience is how long a worker may be silent in this process.
func patience() time.Duration {
	if d, err := time.ParseDuration(os.Getenv(silenceEnv)); err == nil {
		return d
	}
	return silence
}

// fleetMain is the program tally-fleet, but for its patience and a worker's clock.
func fleetMain() {
	bus.Quiet()
	sandbox.Reexec()
	os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv, &cli.Beyond{
		Fleet: func(ctx context.Context, s *lab.Setup, o fleet.Options) (harness.Drivers, func(), error) {
			o.Silence = patience()
			return coordinator.Open(ctx, s, o)
		},
		Worker: func(ctx context.Context, o fleet.WorkerOptions) error {
			o.Silence = patience()
			if off, err := time.ParseDuration(os.Getenv(clockEnv)); err == nil {
				now := o.Now
				o.Now = func() time.Time { return now().Add(off) }
			}
			return worker.Work(ctx, o)
		},
		Status: coordinator.Ask,
	}))
}
