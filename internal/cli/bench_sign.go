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

// gpgFlag is the help of --gpg, wherever people sign.
const gpgFlag = "have gpg sign with the OpenPGP `KEY`: a fingerprint that the signers file lists"

func newBenchSign(env *Env) *cobra.Command {
	var o ceremony.SignOptions
	cmd := &cobra.Command{
		Use:     "sign CLASS [CASE] (--key FILE | --gpg KEY)",
		Short:   "Sign what waits for you: cases, the manifest, the pins",
		Example: "tally bench sign support --key ~/.ssh/id_ed25519",
		Long: `Sign with an SSH key: a private key file, or the .pub file of a key or a certificate
whose private half lies beside it or is held by the SSH agent. Without CASE, every
case that names you, the manifest and the pins are signed; with it, that case or draft
only. The answer says what is still missing and who may sign. --gpg has gpg sign with an
OpenPGP key that the signers file lists.

A case can be signed by hand:

  tally bench sign CLASS CASE --message msg
  ssh-keygen -Y sign -n tallystick-case -f KEY msg
  tally bench sign CLASS CASE --signature msg.sig`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Class = args[0]
			if len(args) == 2 {
				o.CaseID = args[1]
			}
			return runBenchSign(cmd.Context(), env, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Key, "key", "", "SSH key `FILE` to sign with")
	f.StringVar(&o.GPG, "gpg", "", gpgFlag)
	f.StringVar(&o.Signature, "signature", "", "put this `FILE`, made with ssh-keygen or gpg, into the case")
	f.StringVar(&o.Message, "message", "", "write what the case's signatures cover to this `FILE`, and sign nothing")
	addPeopleFlags(cmd, &o.AddedBy, &o.ReviewedBy)
	return cmd
}

// benchSignAnswer says what was signed and what is left.
type benchSignAnswer struct {
	Class    string      `json:"class"`
	Signed   []string    `json:"signed"`
	Missing  missingList `json:"missing"`
	Complete bool        `json:"complete"`
	Warnings []string    `json:"warnings,omitempty"`

	RecordedFrom *ceremony.RecordedFrom `json:"recorded_from"`
}

func runBenchSign(_ context.Context, env *Env, o ceremony.SignOptions) error {
	if err := checkSignFlags(o); err != nil {
		return err
	}
	c, err := openCorpus(env)
	if err != nil {
		return err
	}
	defer c.Close()
	s, err := ceremony.Sign(c, o)
	if err != nil {
		return err
	}
	for _, w := range s.Warnings {
		env.Note("WARNING: %s", w)
	}
	a := benchSignAnswer{o.Class, s.Signed, s.Missing, len(s.Missing) == 0, s.Warnings, s.From}
	return env.Answer(a, func(out io.Writer) {
		for _, name := range a.Signed {
			fmt.Fprintf(out, "signed  %s\n", plain.Line(name))
		}
		a.Missing.print(out)
		switch {
		case !a.Complete:
		case s.Pending:
			fmt.Fprintf(out, "Next: tally bench accept %s %s\n", plain.Line(o.Class), plain.Line(o.CaseID))
		default:
			fmt.Fprintf(out, "Next: tally bench verify %s\n", plain.Line(o.Class))
		}
	})
}

func checkSignFlags(o ceremony.SignOptions) error {
	given := 0
	for _, flag := range []string{o.Key, o.GPG, o.Signature, o.Message} {
		if flag != "" {
			given++
		}
	}
	switch {
	case given != 1:
		return refusal.Newf(refusal.Usage, "tally bench sign: give one of --key, --gpg, --signature and --message")
	case o.CaseID == "" && (o.AddedBy != "" || o.ReviewedBy != ""):
		return refusal.Newf(refusal.Usage, "tally bench sign: --added-by and --reviewed-by need a CASE")
	case o.CaseID == "" && o.Key == "" && o.GPG == "":
		return refusal.Newf(refusal.Usage, "tally bench sign: --signature and --message need a CASE").
			WithHint(`for the manifest use "tally bench digest CLASS --message FILE"`)
	}
	return nil
}
