package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"tallystick/internal/record/plain"
	"tallystick/internal/run/sandbox/image"
	"tallystick/internal/run/sandbox/image/pull"
)

type imagePullOptions struct {
	ref, python, platform string
	credentials           pull.Credentials
}

func newSandboxImagePull(env *Env) *cobra.Command {
	var o imagePullOptions
	cmd := &cobra.Command{
		Use:     "pull REF",
		Short:   "Fetch an image from a registry, without a daemon",
		Example: "tally sandbox image pull python:3.13-slim",
		Long: `Fetch the Linux image that REF names (NAME, NAME:TAG or NAME@sha256:DIGEST) from its
registry, and unpack it into the image cache. Every blob is compared with its digest; what
was fetched is kept, so a pull that was cut off continues. The answer is the image's digest
here, which targets, tests and recipes name, and REF with the digest of its manifest, which
names the same image for ever. docs/images.md says what becomes of an image's files.

Registries are asked by https, but for one on this machine's loopback. Credentials are
those of docker login (auths of config.json). Programs that the file names as helpers are
run with --credential-helpers only.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.ref = args[0]
			return runSandboxImagePull(cmd.Context(), env, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.platform, "platform", "", "`PLATFORM` to take, such as linux/arm64 (default: this machine's)")
	f.StringVar(&o.python, "python", "", "the interpreter's `PATH` in the image, for rubrics")
	f.StringVar(&o.credentials.Config, "credentials", "", "docker's config.json `FILE` (default: that of $DOCKER_CONFIG, else of ~/.docker)")
	f.BoolVar(&o.credentials.Helpers, "credential-helpers", false, "run the credential helpers that the file names")
	return cmd
}

type imagePullAnswer struct {
	imageAnswer
	Name    string `json:"name"`
	Fetched int64  `json:"fetched_bytes"`
}

func runSandboxImagePull(ctx context.Context, env *Env, o imagePullOptions) error {
	cache, err := image.Cache()
	if err != nil {
		return err
	}
	platform, err := image.ParsePlatform(o.platform)
	if err != nil {
		return err
	}
	got, err := pull.Pull(ctx, pull.Options{Cache: cache, Ref: o.ref, Platform: platform, Python: o.python, Credentials: o.credentials})
	if err != nil {
		return err
	}
	a := imagePullAnswer{describeImage(got.Image, true), got.Name, got.Fetched}
	return env.Answer(a, func(w io.Writer) { fmt.Fprintf(w, "%s\n%s\n", a.Digest, plain.Line(a.Name)) })
}
