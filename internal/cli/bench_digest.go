package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"tallystick/internal/app/ceremony"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
)

func newBenchDigest(env *Env) *cobra.Command {
	var o ceremony.DigestOptions
	cmd := &cobra.Command{
		Use:     "digest CLASS",
		Short:   "Compute and write the digests of a class: cases, manifest, pins",
		Example: "tally bench digest support",
		Long: `Compute the digests of what is in bench/CLASS and write them into each case.yaml,
cases/digests.yaml and manifest.yaml, and add the class to bench/digests.yaml.
Signatures over what changed are removed: they cover something else now. If the
signers have changed since the ledger began, their versions are written to
signers/history for checkouts that have no ledger.

The manifest's digest is the bench digest. To sign by hand, write what is signed
to a file and put the signature beside the manifest:

  tally bench digest CLASS --message msg
  ssh-keygen -Y sign -n tallystick-bench -f KEY msg
  cp msg.sig bench/CLASS/manifest.yaml.YOURNAME.sig`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Class = args[0]
			return runBenchDigest(cmd.Context(), env, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Message, "message", "", "write what is signed to this `FILE`")
	f.BoolVar(&o.Pins, "pins", false, "with --message: the message of bench/digests.yaml instead of the manifest's")
	f.StringVar(&o.CI, "ci", "", "pin this CI `FILE`, which runs the fence, in bench/digests.yaml")
	f.BoolVar(&o.Ledger, "pin-ledger", false, "pin this workspace's ledger by its name and first entry, so that only its attempts count (new pins do)")
	f.BoolVar(&o.Witnesses, "pin-witnesses", false, "pin the cosigners (witnesses) and the quorum of tally.yaml, so that no other cosignatures count")
	f.StringVar(&o.Every, "anchors-every", "", "pin how often an anchor is due, in hours or days: `24h`, 7d, or none")
	f.StringArrayVar(&o.Remotes, "anchor-remote", nil, "pin the `URL` to which the repository with the anchors is pushed; may be given again")
	f.StringVar(&o.Image, "image", "", "pin this `DIGEST` of the image that Python rubrics run in")
	return cmd
}

type benchDigestAnswer struct {
	Class       string      `json:"class"`
	BenchDigest string      `json:"bench_digest"`
	Cases       int         `json:"cases"`
	Changed     []string    `json:"changed"`
	Missing     missingList `json:"missing"`

	RecordedFrom *ceremony.RecordedFrom `json:"recorded_from"`
}

func runBenchDigest(_ context.Context, env *Env, o ceremony.DigestOptions) error {
	if o.Pins && o.Message == "" {
		return refusal.Newf(refusal.Usage, "tally bench digest: --pins needs --message, the file to write to")
	}
	c, err := openCorpus(env)
	if err != nil {
		return err
	}
	defer c.Close()
	d, err := ceremony.Digest(c, o)
	if err != nil {
		return err
	}
	a := benchDigestAnswer{o.Class, d.Bench.String(), d.Cases, d.Changed, d.Missing, d.From}
	return env.Answer(a, func(out io.Writer) {
		fmt.Fprintf(out, "bench digest  %s\n%s\n", a.BenchDigest, caseCount(d.Cases, d.Lines))
		for _, name := range a.Changed {
			fmt.Fprintf(out, "wrote  %s\n", plain.Line(name))
		}
		for _, line := range d.From.Lines() {
			fmt.Fprintf(out, "recorded from, as the operator's machine saw it: %s\n", plain.Line(line))
		}
		a.Missing.print(out)
	})
}
