package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"tallystick/internal/app/ceremony"
	"tallystick/internal/read/dossier"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
)

type correctOptions struct {
	ceremony.CorrectOptions
	key, secondKey string
	gpg            []string
}

func newCorrect(env *Env) *cobra.Command {
	var o correctOptions
	cmd := &cobra.Command{
		Use:     "correct ATTEMPT:CASE --score S --reason TEXT (--key FILE | --gpg KEY)",
		Short:   "Sign another score for a case, beside the one in the record",
		Example: `tally review correct latest:refund-7 --score 1 --reason "both spellings are right" --key ~/.ssh/id_ed25519`,
		Long: `Record that people hold another score of a case to be right, up or down, with a reason.
The record stays the headline wherever the score is shown, and the correction stands
beside it. A signer is in the signers file as a curator or with the security role, and did
not run the attempt, under any name or key. Gates use the corrected score and name who
corrected it. Promotion uses the lower of the two, unless
two people signed, one of them with the security role: give --second-key, or let the
second person run the same command with their own key later. A block-severity failure
stays: such a record can only be lowered.

A score of 1 is passed and one of 0 is failed; between them the outcome stays what the
record says, unless --outcome says otherwise. A case without a score, such as an errored
one, cannot be corrected: "tally rescore" grades it.

A signature made by hand counts too:

  tally review correct A:C --score 1 --reason R --message FILE
  ssh-keygen -Y sign -n tallystick-correction -f KEY FILE
  tally review correct A:C --score 1 --reason R --signature FILE.sig`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Case = args[0]
			if !cmd.Flags().Changed("score") {
				return refusal.Newf(refusal.Usage, "--score is missing: which score is right?")
			}
			return runCorrect(cmd.Context(), env, o)
		},
	}
	f := cmd.Flags()
	f.Float64Var(&o.Score, "score", 0, "the right score `S`, from 0 to 1")
	f.StringVar(&o.Outcome, "outcome", "", "passed or failed, where the score does not tell")
	f.StringVar(&o.Reason, "reason", "", "why, in a sentence `TEXT`; it is recorded and signed")
	f.IntVar(&o.Repeat, "repeat", 1, "which repetition `N` of the case")
	f.StringVar(&o.key, "key", "", "SSH key `FILE` of the person who corrects")
	f.StringVar(&o.secondKey, "second-key", "", "SSH key `FILE` of a second person")
	f.StringArrayVar(&o.gpg, "gpg", nil, gpgFlag+"; may be given again")
	f.StringArrayVar(&o.Signatures, "signature", nil, "`FILE` with a signature made by hand")
	f.StringVar(&o.Message, "message", "", "write what is to be signed to this `FILE`, and record nothing")
	return cmd
}

func runCorrect(ctx context.Context, env *Env, o correctOptions) error {
	for _, key := range []string{o.key, o.secondKey} {
		if key != "" {
			o.Pens = append(o.Pens, ceremony.Pen{Key: key})
		}
	}
	for _, key := range o.gpg {
		o.Pens = append(o.Pens, ceremony.Pen{GPG: key})
	}
	switch {
	case o.Reason == "":
		return refusal.Newf(refusal.Usage, "a correction needs a reason").WithHint("give --reason TEXT: it is signed with the score")
	case o.Outcome != "" && o.Outcome != string(evidence.Passed) && o.Outcome != string(evidence.Failed):
		return refusal.UnknownValue("outcome", evidence.Outcome(o.Outcome), evidence.Passed, evidence.Failed)
	case o.Message == "" && len(o.Pens)+len(o.Signatures) == 0:
		return refusal.Newf(refusal.Usage, "the correction has no signer").WithHint("give --key FILE or --gpg KEY, or --signature FILE with a signature made by hand")
	case o.Message != "" && len(o.Pens)+len(o.Signatures) > 0:
		return refusal.Newf(refusal.Usage, "--message writes what is to be signed, and a key would sign it now: expected one of the two")
	}
	c, err := openRecorded(env, dossier.Ask{})
	if err != nil {
		return err
	}
	defer c.Close()
	a, err := ceremony.Correct(ctx, c, o.CorrectOptions)
	if err != nil {
		return err
	}
	return env.Answer(a, func(out io.Writer) { correctText(out, a, o.Message) })
}

func correctText(out io.Writer, a *ceremony.Corrected, message string) {
	word := map[bool]string{true: "passed", false: "failed"}
	fmt.Fprintf(out, "case    %s of %s, entry %d\n", plain.Line(a.Case), plain.Line(a.Attempt), a.Entry)
	fmt.Fprintf(out, "score   %s %s → %s %s\n", plain.Score(a.Was.Score, 2), word[a.Was.Passed], plain.Score(a.Now.Score, 2), word[a.Now.Passed])
	fmt.Fprintf(out, "reason  %s\n", plain.Line(a.Reason))
	if a.Index < 0 {
		fmt.Fprintf(out, "Nothing is recorded. To sign: ssh-keygen -Y sign -n tallystick-correction -f KEY %s\n", plain.Line(message))
		return
	}
	fmt.Fprintf(out, "signed  by %s, entry %d\n", plain.Line(strings.Join(a.By, ", ")), a.Index)
	if !a.CountsForPromotion {
		fmt.Fprintln(out, "Promotion uses the lower score until two people have signed, one of them with the security role.")
	}
}
