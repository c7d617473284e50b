package ceremony

import (
	"errors"
	"io/fs"

	"tallystick/internal/read/dossier"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/run/bench"
)

// FenceOptions say which fence to check.
type FenceOptions struct {
	CI       string // the CI file that calls the fence
	JobRan   string // marker to write when everything holds
	CheckRan string // marker that must have been written
	Commit   string // that the marker is for
}

// Fence checks that CI still runs the fence, and writes or checks the marker.
func Fence(c *dossier.Corpus, o FenceOptions) (*bench.Fence, error) {
	ci, err := c.Inside(o.CI)
	if err != nil {
		return nil, err
	}
	fence, err := bench.CheckFence(c.Root, ci, c.Options)
	if err != nil {
		return nil, err
	}
	if o.JobRan == "" && o.CheckRan == "" {
		return fence, nil
	}
	return fence, fenceMarker(c, fence, o)
}

// fenceMarker writes or checks the marker. Both verify the classes: a marker
// says that they verified.
func fenceMarker(c *dossier.Corpus, fence *bench.Fence, o FenceOptions) error {
	_, digests, err := VerifyClasses(c, fence.Classes)
	if err != nil {
		return err
	}
	marker := bench.NewMarker(fence, o.Commit, digests)
	if o.JobRan != "" {
		data, err := marker.Marshal()
		if err != nil {
			return err
		}
		return store.WriteFile(store.OS{}, o.JobRan, data, 0o644)
	}
	data, err := store.ReadFile(store.OS{}, o.CheckRan, 1<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return refusal.Newf(refusal.FenceDidNotRun, "%s: there is no marker, so the job that checks the fence did not run", o.CheckRan).
			WithHint("look at why it was skipped; run it again for this commit")
	}
	if err != nil {
		return err
	}
	return marker.Check(o.CheckRan, data)
}
