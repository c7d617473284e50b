package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/spf13/cobra"

	"tallystick/internal/archive"
	"tallystick/internal/bench"
	"tallystick/internal/plain"
	"tallystick/internal/refusal"
	"tallystick/internal/store"
)

type benchFenceOptions struct {
	ci        string
	jobRan    string
	checkRan  string
	commit    string
	trustRoot string
}

func newBenchFence(env *Env) *cobra.Command {
	var o benchFenceOptions
	cmd := &cobra.Command{
		Use:   "fence --ci FILE",
		Short: "Check that CI still runs \"bench verify --all\", and that it ran",
		Long: `Print the digest of the CI file that calls "tally bench verify --all" and compare it
with the one that two people pinned in bench/digests.yaml; check that the file calls
the fence and does not ignore its answer, and that every pinned class has its folder,
rubric and cases.

Three jobs keep each other honest:

  1  tally bench verify --all                                 the fence
  2  tally bench fence --ci FILE --job-ran MARKER             the fence is unchanged; leaves MARKER
  3  tally bench fence --ci FILE --check-ran MARKER           job 2 ran, for this commit and this file

Job 3 belongs into another CI file, or into the repository host's required checks,
with a --trust-root of its own.
FILE is relative to the workspace. The commit is --commit, or GITHUB_SHA, or
CI_COMMIT_SHA.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runBenchFence(cmd.Context(), env, o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.ci, "ci", "", "the CI `FILE` that calls the fence")
	f.StringVar(&o.jobRan, "job-ran", "", "write this `MARKER` when everything holds")
	f.StringVar(&o.checkRan, "check-ran", "", "require that this `MARKER` was written for this commit")
	f.StringVar(&o.commit, "commit", "", "the `COMMIT` that the marker is for")
	addTrustRootFlag(cmd, &o.trustRoot)
	cmd.MarkFlagRequired("ci")
	return cmd
}

func runBenchFence(_ context.Context, env *Env, o benchFenceOptions) error {
	for _, name := range []string{"GITHUB_SHA", "CI_COMMIT_SHA"} {
		if o.commit == "" {
			o.commit = env.Getenv(name)
		}
	}
	switch {
	case o.jobRan != "" && o.checkRan != "":
		return refusal.Newf(refusal.Usage, "tally bench fence: --job-ran and --check-ran are for two different jobs")
	case o.commit == "" && (o.jobRan != "" || o.checkRan != ""):
		return refusal.Newf(refusal.Usage, "tally bench fence: a marker is for one commit and none is given").
			WithHint("give --commit, or set GITHUB_SHA or CI_COMMIT_SHA")
	}
	p, err := env.openCorpusFor(o.trustRoot)
	if err != nil {
		return err
	}
	defer p.Root.Close()
	if o.ci, err = p.Inside(o.ci); err != nil {
		return err
	}
	fence, err := bench.CheckFence(p.Root, o.ci, p.Options)
	if err != nil {
		return err
	}
	answer := map[string]any{"ci_file": fence.File, "ci_digest": fence.Digest, "pins": fence.Pins, "classes": fence.Classes, "ran": false}
	if o.jobRan != "" || o.checkRan != "" {
		if err := fenceMarker(p, fence, o); err != nil {
			return err
		}
		answer["ran"] = true
	}
	return env.Answer(answer, func(out io.Writer) {
		fmt.Fprintf(out, "%s  %s\n", fence.Digest, plain.Line(fence.File))
		fmt.Fprintf(out, "the pinned fence is in place; %d classes are guarded\n", len(fence.Classes))
		switch {
		case o.jobRan != "":
			fmt.Fprintf(out, "wrote %s for commit %s\n", plain.Line(o.jobRan), plain.Line(o.commit))
		case o.checkRan != "":
			fmt.Fprintf(out, "%s: the fence ran for commit %s\n", plain.Line(o.checkRan), plain.Line(o.commit))
		}
	})
}

// fenceMarker writes or checks the marker. Both verify the classes: a marker
// says that they verified.
func fenceMarker(p *archive.Corpus, fence *bench.Fence, o benchFenceOptions) error {
	_, digests, err := verifyClasses(p, fence.Classes)
	if err != nil {
		return err
	}
	marker := bench.NewMarker(fence, o.commit, digests)
	if o.jobRan != "" {
		data, err := marker.Marshal()
		if err != nil {
			return err
		}
		return store.WriteFile(store.OS{}, o.jobRan, data, 0o644)
	}
	data, err := store.ReadFile(store.OS{}, o.checkRan, 1<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return refusal.Newf(refusal.FenceDidNotRun, "%s: there is no marker, so the job that checks the fence did not run", o.checkRan).
			WithHint("look at why it was skipped; run it again for this commit")
	}
	if err != nil {
		return err
	}
	return marker.Check(o.checkRan, data)
}
