package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"tallystick/internal/archive"
	"tallystick/internal/digest"
	"tallystick/internal/ledger"
	"tallystick/internal/plain"
	"tallystick/internal/refusal"
	"tallystick/internal/seal"
)

type operatorsOptions struct {
	add bool
	key string
}

func newSignersOperators(env *Env) *cobra.Command {
	var o operatorsOptions
	cmd := &cobra.Command{
		Use:   "operators",
		Short: "Tell who is behind the operator hashes of the ledger",
		Long: `Records carry only a salted hash of who ran them. audit/operators.yaml, signed by two
people, says who that is. List every operator of the ledger with the person; exit 3 if
the file does not verify.

  tally signers operators --add       write down the operator of this workspace
  tally signers operators --sign KEY  each of two people signs the file

A signature made by hand counts too:

  ssh-keygen -Y sign -n tallystick-operators -f KEY audit/operators.yaml`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runSignersOperators(cmd.Context(), env, o) },
	}
	cmd.Flags().BoolVar(&o.add, "add", false, "add the operator of this workspace to the file")
	cmd.Flags().StringVar(&o.key, "sign", "", "sign the file with this SSH key `FILE`")
	cmd.MarkFlagsMutuallyExclusive("add", "sign")
	return cmd
}

// An operatorLine is one operator of the ledger.
type operatorLine struct {
	Hash     digest.ID `json:"hash"`
	Entry    int64     `json:"entry"` // where the hash first stands
	Identity string    `json:"identity,omitempty"`
}

func runSignersOperators(_ context.Context, env *Env, o operatorsOptions) error {
	seen := archive.SeenOperators{}
	w, v, err := env.verifiedLedger(func(r ledger.Record) error {
		seen.Visit(r)
		return nil
	})
	if err != nil {
		return err
	}
	switch {
	case o.add:
		return env.addThisOperator(w, v.Signers)
	case o.key != "":
		return env.signOperators(w, v.Signers, o.key)
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
				who = `nobody that the file names; "tally signers operators --add" on their machine`
			}
			fmt.Fprintf(out, "%s  from entry %d  %s\n", l.Hash, l.Entry, who)
		}
		fmt.Fprintf(out, "%s in the ledger; signed by %s\n", plural(len(lines), "operator"), plain.Line(strings.Join(signers, ", ")))
	})
}

// addThisOperator writes down who the operator of this workspace is.
func (e *Env) addThisOperator(w *archive.Place, signers *seal.Signers) error {
	key, err := w.OperatorKey()
	if err != nil {
		return err
	}
	name, err := w.OperatorName(signers, key)
	if err != nil {
		return err
	}
	added, err := addOperator(w, key, name)
	if err != nil {
		return err
	}
	return e.Answer(map[string]any{"file": w.OperatorsFile(), "identity": name, "added": added}, func(out io.Writer) {
		if !added {
			fmt.Fprintf(out, "%s is in %s already\n", plain.Line(name), plain.Line(w.OperatorsFile()))
			return
		}
		fmt.Fprintf(out, "added %s to %s\n", plain.Line(name), plain.Line(w.OperatorsFile()))
		fmt.Fprintln(out, `Next: two people sign it, tally signers operators --sign KEY`)
	})
}

// signOperators signs the file for one person.
func (e *Env) signOperators(w *archive.Place, signers *seal.Signers, keyFile string) error {
	_, data, err := w.LoadOperators()
	if err != nil {
		return err
	}
	if data == nil {
		return refusal.Newf(refusal.NotFound, "there is no %s to sign", w.OperatorsFile()).WithHint(`"tally signers operators --add" begins it`)
	}
	signer, err := seal.LoadSigner(keyFile)
	if err != nil {
		return err
	}
	err = addSignature(w.OperatorsFile(), signer, seal.NamespaceOperators, func(signature, message []byte) error {
		_, err := signers.Verify(signature, message, seal.NamespaceOperators, e.Now())
		return err
	})
	if err != nil {
		return fmt.Errorf("nothing was signed: %w", err)
	}
	_, _, missing := w.VerifyOperators(signers)
	return e.Answer(map[string]any{"file": w.OperatorsFile() + ".sig", "complete": missing == nil}, func(out io.Writer) {
		fmt.Fprintf(out, "signed %s\n", plain.Line(w.OperatorsFile()))
		if missing != nil {
			fmt.Fprintf(out, "Still missing: %s\n", plain.Line(missing.Error()))
		}
	})
}
