package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"tallystick/internal/app/ceremony"
	"tallystick/internal/read/dossier"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/seal"
)

type operatorsOptions struct {
	add bool
	pen ceremony.Pen
}

func newSignersOperators(env *Env) *cobra.Command {
	var o operatorsOptions
	cmd := &cobra.Command{
		Use:     "operators",
		Short:   "Tell who is behind the operator hashes of the ledger",
		Example: "tally signers operators --add",
		Long: `Records carry only a salted hash of who ran them. audit/operators.yaml, signed by two
people, says who that is. List every operator of the ledger with the person; exit 3 if
the file does not verify.

  tally signers operators --add       write down the operator of this workspace
  tally signers operators --sign KEY  each of two people signs the file, with SSH
  tally signers operators --gpg KEY   or with OpenPGP

A signature made by hand counts too:

  ssh-keygen -Y sign -n tallystick-operators -f KEY audit/operators.yaml`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runSignersOperators(cmd.Context(), env, o) },
	}
	cmd.Flags().BoolVar(&o.add, "add", false, "add the operator of this workspace to the file")
	cmd.Flags().StringVar(&o.pen.Key, "sign", "", "sign the file with this SSH key `FILE`")
	cmd.Flags().StringVar(&o.pen.GPG, "gpg", "", gpgFlag)
	cmd.MarkFlagsMutuallyExclusive("add", "sign", "gpg")
	return cmd
}

// An operatorLine is one operator of the ledger.
type operatorLine struct {
	Hash     digest.ID `json:"hash"`
	Entry    int64     `json:"entry"` // where the hash first stands
	Identity string    `json:"identity,omitempty"`
}

func runSignersOperators(_ context.Context, env *Env, o operatorsOptions) error {
	seen := dossier.SeenOperators{}
	w, v, err := verifiedLedger(env, func(r ledger.Record) error {
		seen.Visit(r)
		return nil
	})
	if err != nil {
		return err
	}
	switch {
	case o.add:
		return runAddOperator(env, w, v.Signers)
	case o.pen != ceremony.Pen{}:
		return runSignOperators(env, w, v.Signers, o.pen)
	}
	f, by, err := w.VerifyOperators(v.Signers)
	if err != nil {
		return err
	}
	lines := []operatorLine{}
	for _, hash := range seen.InOrder() {
		line := operatorLine{Hash: hash, Entry: seen[hash]}
		if who := f.Find(hash); who != nil {
			line.Identity = who.Identity
		}
		lines = append(lines, line)
	}
	signers := principals(by)
	return env.Answer(map[string]any{"operators": lines, "signed_by": signers}, func(out io.Writer) {
		for _, l := range lines {
			who := plain.Line(l.Identity)
			if who == "" {
				who = `a person whom the file does not name; "tally signers operators --add" on their machine`
			}
			fmt.Fprintf(out, "%s  from entry %d  %s\n", l.Hash, l.Entry, who)
		}
		fmt.Fprintf(out, "%s in the ledger; signed by %s\n", plain.Plural(len(lines), "operator"), plain.Line(strings.Join(signers, ", ")))
	})
}

func runAddOperator(env *Env, p *dossier.Place, signers *seal.Signers) error {
	name, added, err := ceremony.AddOperator(p, signers)
	if err != nil {
		return err
	}
	return env.Answer(map[string]any{"file": p.OperatorsFile(), "identity": name, "added": added}, func(out io.Writer) {
		if !added {
			fmt.Fprintf(out, "%s is in %s already\n", plain.Line(name), plain.Line(p.OperatorsFile()))
			return
		}
		fmt.Fprintf(out, "added %s to %s\n", plain.Line(name), plain.Line(p.OperatorsFile()))
		fmt.Fprintln(out, `Next: two people sign it, tally signers operators --sign KEY`)
	})
}

func runSignOperators(env *Env, p *dossier.Place, signers *seal.Signers, pen ceremony.Pen) error {
	missing, err := ceremony.SignOperators(p, signers, pen)
	if err != nil {
		return err
	}
	return env.Answer(map[string]any{"file": p.OperatorsFile() + ".sig", "complete": missing == nil}, func(out io.Writer) {
		fmt.Fprintf(out, "signed %s\n", plain.Line(p.OperatorsFile()))
		if missing != nil {
			fmt.Fprintf(out, "Still missing: %s\n", plain.Line(missing.Error()))
		}
	})
}
