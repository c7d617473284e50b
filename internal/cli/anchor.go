package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"tallystick/internal/app/lab"
	"tallystick/internal/record/plain"
)

func newAnchor(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "anchor",
		Short:   "Publish the ledger's head where it cannot be taken back, and check it",
		Example: "tally ledger anchor publish",
	}
	cmd.AddCommand(newAnchorPublish(env), newAnchorVerify(env), newAnchorWatch(env))
	return cmd
}

func newAnchorPublish(env *Env) *cobra.Command {
	var gpg []string
	cmd := &cobra.Command{
		Use:     "publish",
		Short:   "Write today's anchor and tiles, and have the cosigners sign",
		Example: "tally ledger anchor publish",
		Long: `Write today's anchor to audit/anchors, meant for git, write the tiles, and ask the
cosigners (witnesses) of tally.yaml to sign. If one cannot be reached the local anchor
stands, the command fails, and the next one catches it up.

--gpg has people sign the anchor besides the operator: gpg signs with an OpenPGP key that
the signers file lists. "tally ledger anchor verify" says who did.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runAnchorPublish(cmd.Context(), env, gpg) },
	}
	cmd.Flags().StringArrayVar(&gpg, "gpg", nil, gpgFlag+"; may be given again")
	return cmd
}

type anchorAnswer struct {
	Path      string   `json:"path"`
	Date      string   `json:"date"`
	Size      int64    `json:"size"`
	Head      string   `json:"head"`
	Root      string   `json:"root"`
	Witnesses []string `json:"witnesses"`
}

func runAnchorPublish(ctx context.Context, env *Env, gpg []string) error {
	w, err := openPlace(env)
	if err != nil {
		return err
	}
	pub, err := lab.PublishNow(ctx, w, gpg)
	if pub == nil {
		return err
	}
	a := anchorAnswer{pub.Path, pub.Anchor.Date, pub.Anchor.Size, pub.Anchor.Head.String(), pub.Anchor.Root, append([]string{}, pub.Witnesses...)}
	aerr := env.Answer(a, func(out io.Writer) {
		fmt.Fprintf(out, "anchored %d entries in %s\nhead  %s\n", a.Size, plain.Line(a.Path), a.Head)
		for _, name := range a.Witnesses {
			fmt.Fprintf(out, "cosigned by %s\n", plain.Line(name))
		}
		fmt.Fprintln(out, "Next: commit audit/anchors to git")
	})
	return cmp.Or(aerr, err)
}

type anchorVerifyOptions struct{ against string }

func newAnchorVerify(env *Env) *cobra.Command {
	var o anchorVerifyOptions
	cmd := &cobra.Command{
		Use:     "verify",
		Short:   "Check the anchors against the ledger, and their cosignatures",
		Example: "tally ledger anchor verify --copy ../mirror/audit/anchors",
		Long: `Check every anchor in audit/anchors: its signatures, that the ledger contains what
it covers, and that enough cosigners signed it (quorum in tally.yaml).

--copy DIR checks a second copy of the anchors too, as fetched from git or kept by
another person: that is what notices a workspace that was rolled back as a whole.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runAnchorVerify(cmd.Context(), env, o) },
	}
	cmd.Flags().StringVar(&o.against, "copy", "", "folder `DIR` with another copy of the anchors")
	return cmd
}

func runAnchorVerify(_ context.Context, env *Env, o anchorVerifyOptions) error {
	w, err := openPlace(env)
	if err != nil {
		return err
	}
	reports, entries, err := w.VerifyAnchors(o.against)
	if err != nil {
		return err
	}
	return env.Answer(map[string]any{"anchors": reports, "entries": entries}, func(out io.Writer) {
		since := entries
		for _, r := range reports {
			fmt.Fprintf(out, "verified  %s  %d entries  %s  cosigned by %d\n", plain.Line(r.Date), r.Size, r.Head, len(r.Cosigners))
			if len(r.People) > 0 {
				fmt.Fprintf(out, "          signed by %s\n", plain.Line(strings.Join(r.People, ", ")))
			}
			since = min(since, r.Unanchored)
		}
		fmt.Fprintf(out, "%d entries since the last anchor\n", since)
	})
}
