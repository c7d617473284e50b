package cli

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"tallystick/internal/app/ceremony"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/bench"
)

type benchFenceOptions struct {
	ceremony.FenceOptions
	trustRoot string
	workflow  bool
}

func newBenchFence(env *Env) *cobra.Command {
	var o benchFenceOptions
	cmd := &cobra.Command{
		Use:     "fence --ci FILE",
		Short:   "Check that CI still runs \"bench verify --all\", and that it ran",
		Example: "tally bench fence --ci .github/workflows/evals.yml",
		Long: `Print the digest of the CI file that calls "tally bench verify --all" and compare it
with the one that two people pinned in bench/digests.yaml; check that the file is the
fence in its one shape, and that every pinned class has its folder, rubric and cases.

Three jobs keep each other honest:

  1  tally bench verify --all                                 the fence
  2  tally bench fence --ci FILE --job-ran MARKER             the fence is unchanged; leaves MARKER
  3  tally bench fence --ci FILE --check-ran MARKER           job 2 ran, for this commit and this file

Job 3 belongs in another CI file, or into the repository host's required checks,
with a --trust-root of its own. --workflow prints both files for GitHub, and jobs 1
and 2 for GitLab. A file with the fence is accepted in that shape and in no other: it
has no other job, step or setting. Other jobs belong in other files.
FILE is relative to the workspace. The commit is --commit, or GITHUB_SHA, or
CI_COMMIT_SHA.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runBenchFence(cmd.Context(), env, o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.CI, "ci", "", "the CI `FILE` that calls the fence")
	f.StringVar(&o.JobRan, "job-ran", "", "write this `MARKER` when everything holds")
	f.StringVar(&o.CheckRan, "check-ran", "", "require that this `MARKER` was written for this commit")
	f.StringVar(&o.Commit, "commit", "", "the `COMMIT` that the marker is for")
	addTrustRootFlag(cmd, &o.trustRoot)
	f.BoolVar(&o.workflow, "workflow", false, "print workflows with the three jobs, and check nothing")
	cmd.MarkFlagsOneRequired("ci", "workflow")
	cmd.MarkFlagsMutuallyExclusive("ci", "workflow")
	return cmd
}

func runBenchFence(_ context.Context, env *Env, o benchFenceOptions) error {
	if o.workflow {
		files := map[string]string{bench.WorkflowFile: bench.Workflow, bench.WorkflowRanFile: bench.WorkflowRan, bench.GitLabFile: bench.GitLabPipeline}
		return env.Answer(files, func(out io.Writer) {
			for _, name := range slices.Sorted(maps.Keys(files)) {
				fmt.Fprintf(out, "# --- %s\n%s\n", name, files[name])
			}
		})
	}
	for _, name := range []string{"GITHUB_SHA", "CI_COMMIT_SHA"} {
		if o.Commit == "" {
			o.Commit = env.Getenv(name)
		}
	}
	marked := o.JobRan != "" || o.CheckRan != ""
	switch {
	case o.JobRan != "" && o.CheckRan != "":
		return refusal.Newf(refusal.Usage, "tally bench fence: --job-ran and --check-ran are for two different jobs")
	case o.Commit == "" && marked:
		return refusal.Newf(refusal.Usage, "tally bench fence: a marker is for one commit and none is given").
			WithHint("give --commit, or set GITHUB_SHA or CI_COMMIT_SHA")
	}
	c, err := openCorpusFor(env, o.trustRoot)
	if err != nil {
		return err
	}
	defer c.Close()
	fence, err := ceremony.Fence(c, o.FenceOptions)
	if err != nil {
		return err
	}
	answer := map[string]any{"ci_file": fence.File, "ci_digest": fence.Digest, "pins": fence.Pins, "classes": fence.Classes, "ran": marked}
	return env.Answer(answer, func(out io.Writer) {
		fmt.Fprintf(out, "%s  %s\n", fence.Digest, plain.Line(fence.File))
		fmt.Fprintf(out, "the pinned fence is in place; %d classes are guarded\n", len(fence.Classes))
		switch {
		case o.JobRan != "":
			fmt.Fprintf(out, "wrote %s for commit %s\n", plain.Line(o.JobRan), plain.Line(o.Commit))
		case o.CheckRan != "":
			fmt.Fprintf(out, "%s: the fence ran for commit %s\n", plain.Line(o.CheckRan), plain.Line(o.Commit))
		}
	})
}
