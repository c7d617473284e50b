package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/sandbox/image"
)

func newSandboxImage(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "image",
		Short:   "Root file systems of rubrics, agents, tests and worlds, named by their digests",
		Example: "tally sandbox image show",
	}
	cmd.AddCommand(newSandboxImagePull(env), newSandboxImageBuild(env), newSandboxImagePackages(env), newSandboxImageImport(env), newSandboxImageShow(env))
	return cmd
}

type imageAnswer struct {
	Digest   string   `json:"digest"`
	Kind     string   `json:"kind"`
	Pinned   bool     `json:"pinned"`
	Source   string   `json:"source"`
	Command  []string `json:"command"`
	Verified bool     `json:"verified"`
}

func describeImage(i *image.Image, verified bool) imageAnswer {
	return imageAnswer{i.Digest, string(i.About.Kind), i.About.Pinned, i.About.Source, i.About.Command, verified}
}

func answerImage(env *Env, i *image.Image) error {
	a := describeImage(i, true)
	return env.Answer(a, func(w io.Writer) { fmt.Fprintf(w, "%s\n%s\n", a.Digest, plain.Line(a.Source)) })
}

type imageImportOptions struct {
	from, digest, python, platform string
	host                           bool
}

func newSandboxImageImport(env *Env) *cobra.Command {
	var o imageImportOptions
	cmd := &cobra.Command{
		Use:     "import [IMAGE]",
		Short:   "Take an image from an OCI layout or a docker save archive by digest, or this machine's Python",
		Example: "tally sandbox image import --from-host",
		Long: `Take a Linux image from IMAGE: an OCI layout, as a folder or in a tar archive ("skopeo
copy docker://... oci:DIR", "docker save"), or an older archive of docker save or podman,
gzip or not. The image is named by the digest of its manifest, or, in an older archive, by
its ID; without --digest the command says which there are. Every blob is checked. Rubrics
run in it, and agents and tests that name it (docs/images.md). With --from-host, copy this
machine's Python instead; that image is labelled unpinned and never counts for promotion.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				o.from = args[0]
			}
			return runSandboxImageImport(cmd.Context(), env, o)
		},
	}
	cmd.Flags().StringVar(&o.digest, "digest", "", "the image's `DIGEST`, sha256:...")
	cmd.Flags().StringVar(&o.python, "python", "", "the interpreter's `PATH` in the image, or on this machine with --from-host")
	cmd.Flags().StringVar(&o.platform, "platform", "", "`PLATFORM` of an index to take, such as linux/arm64 (default: this machine's)")
	cmd.Flags().BoolVar(&o.host, "from-host", false, "copy this machine's Python")
	return cmd
}

func runSandboxImageImport(_ context.Context, env *Env, o imageImportOptions) error {
	cache, err := image.Cache()
	if err != nil {
		return err
	}
	if o.host == (o.from != "") {
		return refusal.Newf(refusal.Usage, "name either an image or --from-host")
	}
	if o.host {
		i, err := image.SnapshotHost(cache, o.python)
		if err != nil {
			return err
		}
		return answerImage(env, i)
	}
	platform, err := image.ParsePlatform(o.platform)
	if err != nil {
		return err
	}
	i, err := image.Import(cache, o.from, image.OCIRequest{Digest: o.digest, Python: o.python, Platform: platform})
	if err != nil {
		return err
	}
	return answerImage(env, i)
}

func newSandboxImageShow(env *Env) *cobra.Command {
	return &cobra.Command{
		Use:     "show [DIGEST]",
		Short:   "List the images, or verify one",
		Example: "tally sandbox image show",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runSandboxImageShow(cmd.Context(), env, args)
		},
	}
}

type imagesAnswer struct {
	Images []imageAnswer `json:"images"`
}

func runSandboxImageShow(_ context.Context, env *Env, args []string) error {
	cache, err := image.Cache()
	if err != nil {
		return err
	}
	if len(args) == 1 {
		i, err := image.Find(cache, args[0])
		if err != nil {
			return err
		}
		return answerImage(env, i)
	}
	images, err := image.List(cache)
	if err != nil {
		return err
	}
	a := imagesAnswer{Images: []imageAnswer{}}
	for _, i := range images {
		if err := i.Verify(); err != nil {
			return err
		}
		a.Images = append(a.Images, describeImage(i, true))
	}
	return env.Answer(a, func(w io.Writer) {
		for _, i := range a.Images {
			pinned := "pinned"
			if !i.Pinned {
				pinned = "unpinned"
			}
			fmt.Fprintf(w, "%s %s %s %s\n", i.Digest, i.Kind, pinned, plain.Line(i.Source))
		}
	})
}
