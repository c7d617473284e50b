package cli

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"tallystick/internal/app/fleet"
	"tallystick/internal/app/lab"
	"tallystick/internal/record/bucket"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/harness"
)

// A Beyond is what only tally-fleet can do: work on more than one machine. It
// is nil in tally, which hands over to tally-fleet, because the libraries behind
// it would make every start of a sandbox slower.
type Beyond struct {
	// Fleet opens the coordinator's side of a fleet for one attempt of the setup. End
	// closes it.
	Fleet func(ctx context.Context, s *lab.Setup, o fleet.Options) (d harness.Drivers, end func(), err error)
	// Worker works for a fleet until ctx ends.
	Worker func(ctx context.Context, o fleet.WorkerOptions) error
	// Status asks the coordinator of a fleet how it stands.
	Status func(ctx context.Context, o fleet.StatusOptions) (*fleet.Status, error)
	// Remote opens the object store of a ledger that tally.yaml says is kept in one.
	Remote bucket.Opener
	// Lease is how long a silent writer to such a store is believed to be alive; 0
	// means as long as usual.
	Lease time.Duration
}

// fleetProgram is the program that has everything of tally and a fleet besides.
const fleetProgram = "tally-fleet"

// handOver runs tally-fleet in the place of this program, with the same arguments.
// It returns only if that is not possible.
func handOver(ctx context.Context, env *Env, what string) error {
	path, looked, err := findFleet(env)
	if err != nil {
		return err
	}
	if path == "" {
		return refusal.Newf(refusal.NotFound, "%s needs the program %s, which is not in %s", what, fleetProgram, strings.Join(looked, " nor in ")).
			WithHint(`it is in the release archives beside tally; or build it with "go build ./cmd/%s" and put it beside tally`, fleetProgram)
	}
	if err := sameVersion(ctx, path); err != nil {
		return err
	}
	args := append([]string{fleetProgram}, env.args...)
	return refusal.Newf(refusal.Failed, "starting %s: %w", path, syscall.Exec(path, args, os.Environ()))
}

// findFleet looks for tally-fleet beside the running program, then in PATH. It
// gives the places where it looked.
func findFleet(env *Env) (path string, looked []string, err error) {
	self, err := os.Executable()
	if err != nil {
		return "", nil, refusal.Newf(refusal.Unreadable, "finding this program: %w", err)
	}
	if beside := filepath.Join(filepath.Dir(self), fleetProgram); isProgram(beside) {
		return beside, nil, nil
	}
	looked = []string{filepath.Dir(self), "PATH"}
	path, err = exec.LookPath(fleetProgram)
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return "", looked, nil
	}
	if err != nil {
		return "", looked, refusal.Newf(refusal.Unreadable, "looking for %s in PATH: %w", fleetProgram, err)
	}
	return path, looked, nil
}

func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}

// TallyBeside is the tally of the same build that lies beside tally-fleet, or "".
// Sandboxes that are made of the smaller program start sooner.
func TallyBeside() string {
	self, err := os.Executable()
	if err != nil {
		return ""
	}
	return tallyIn(filepath.Dir(self))
}

func tallyIn(dir string) string {
	if path := filepath.Join(dir, "tally"); isProgram(path) && sameVersion(context.Background(), path) == nil {
		return path
	}
	return ""
}

// sameVersion refuses a program of another build: records name the version of
// the program that ran, and there must be one answer to which that is.
func sameVersion(ctx context.Context, path string) error {
	out, err := exec.CommandContext(ctx, path, "version").Output()
	if err != nil {
		return refusal.Newf(refusal.Failed, "asking %s for its version: %w", path, err)
	}
	if ours, theirs := versionLine(thisBuild()), string(out); ours != theirs {
		return refusal.Newf(refusal.Failed, "%s is %s, this program is %s", path, strings.TrimSpace(theirs), strings.TrimSpace(ours)).
			WithHint("install both from one release, or build both from one checkout: go build -o bin/ ./cmd/...")
	}
	return nil
}
