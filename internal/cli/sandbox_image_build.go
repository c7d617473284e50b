package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/sandbox"
	"tallystick/internal/run/sandbox/image"
	"tallystick/internal/run/sandbox/recipe"
)

type imageBuildOptions struct {
	archive, recipe, packages, class string
	once, noCache                    bool
	memory                           int64
}

// recipeOnly are the flags of a build that are about a recipe.
var recipeOnly = []string{"packages", "class", "once", "no-cache", "memory"}

func newSandboxImageBuild(env *Env) *cobra.Command {
	var o imageBuildOptions
	cmd := &cobra.Command{
		Use:     "build [RECIPE]",
		Short:   "Make an image of a recipe, or compile the pinned CPython",
		Example: "tally sandbox image build recipe.yaml",
		Long: `Make an image of RECIPE: another image or nothing, Debian packages that it names with
version and SHA-256, files, and commands that run in the sandbox, without root and without
a network (docs/images.md). The same inputs give the same digest: commands are run twice,
and what they change is compared, unless it is known from an earlier build. Packages come
from the archives that this machine's apt is set up for, or from --packages.

Without RECIPE, compile CPython from its pinned source into a static image without sockets,
ctypes or a way to start a process. Needs musl-gcc, make and xz, but no root, and takes a
few minutes. The same source and compiler give the same digest.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				for _, name := range recipeOnly {
					if cmd.Flags().Changed(name) {
						return refusal.Newf(refusal.Usage, "--%s is for a recipe, and none is given", name)
					}
				}
				return runSandboxImageBuild(cmd.Context(), env, o.archive)
			}
			if o.archive != "" {
				return refusal.Newf(refusal.Usage, "--archive is for the pinned CPython, and a recipe is given")
			}
			o.recipe = args[0]
			return runSandboxImageRecipe(cmd.Context(), env, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.archive, "archive", "", "of CPython, a local copy of the pinned source `FILE` (default: fetch it)")
	f.StringVar(&o.packages, "packages", "", "of a recipe, the `FOLDER` with its Debian packages (default: fetch them)")
	f.StringVar(&o.class, "class", string(sandbox.GVisor), "of a recipe, the isolation `CLASS` that its commands run in")
	f.BoolVar(&o.once, "once", false, "of a recipe, run its commands once and compare nothing; the image is not pinned")
	f.BoolVar(&o.noCache, "no-cache", false, "of a recipe, run every command, whatever was run before")
	f.Int64Var(&o.memory, "memory", 0, "of a recipe, `BYTES` that a command may take (default: 2 GiB)")
	return cmd
}

func buildLog(env *Env) io.Writer {
	if env.Quiet || env.JSON {
		return io.Discard
	}
	return env.Stderr
}

func runSandboxImageBuild(ctx context.Context, env *Env, source string) error {
	cache, err := image.Cache()
	if err != nil {
		return err
	}
	i, err := image.BuildCPython(ctx, image.Recipe{Cache: cache, Source: source, Log: buildLog(env)})
	if err != nil {
		return err
	}
	return answerImage(env, i)
}

type imageBuildAnswer struct {
	imageAnswer
	Recipe string `json:"recipe"`
	Ran    int    `json:"commands_run"`
}

func runSandboxImageRecipe(ctx context.Context, env *Env, o imageBuildOptions) error {
	cache, err := image.Cache()
	if err != nil {
		return err
	}
	r, err := recipe.Read(o.recipe)
	if err != nil {
		return err
	}
	got, err := recipe.Build(ctx, r, recipe.Options{Cache: cache, Accept: []sandbox.Class{sandbox.Class(o.class)}, Packages: o.packages,
		Once: o.once, NoCache: o.noCache, Memory: o.memory, Log: buildLog(env)})
	if err != nil {
		return err
	}
	a := imageBuildAnswer{describeImage(got.Image, true), got.Recipe, got.Ran}
	return env.Answer(a, func(w io.Writer) {
		fmt.Fprintf(w, "%s\n%s\n", a.Digest, plain.Line(a.Source))
		if !a.Pinned {
			fmt.Fprintln(w, "not pinned: its commands were run once, or what it is made from is not pinned")
		}
	})
}

func newSandboxImagePackages(env *Env) *cobra.Command {
	return &cobra.Command{
		Use:     "packages NAME...",
		Short:   "List Debian packages and what they need, as a recipe names them",
		Example: "tally sandbox image packages redis-server dash",
		Long: `List the Debian packages and all that they depend on, each with the version and the
SHA-256 that this machine's apt would fetch now, as lines for the packages of a recipe. A
recipe needs no package whose only use is in scripts of other packages: those are not run.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runSandboxImagePackages(cmd.Context(), env, args)
		},
	}
}

func runSandboxImagePackages(ctx context.Context, env *Env, names []string) error {
	packages, err := recipe.Resolve(ctx, names)
	if err != nil {
		return err
	}
	return env.Answer(map[string]any{"packages": packages}, func(w io.Writer) {
		for _, p := range packages {
			fmt.Fprintf(w, "      - {name: %s, version: %q, sha256: %q}\n", plain.Line(p.Name), p.Version, p.SHA256)
		}
	})
}
