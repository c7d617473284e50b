package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"tallystick/internal/read/answer"
	"tallystick/internal/read/dossier"
	"tallystick/internal/read/history"
	"tallystick/internal/record/plain"
	"tallystick/internal/share/outgoing"
)

type proveOptions struct{ name, out string }

func newProve(env *Env) *cobra.Command {
	var o proveOptions
	cmd := &cobra.Command{
		Use:   "prove ATTEMPT[:CASE]",
		Short: "Write a receipt that tells a stranger how an attempt or a case ended",
		Long: `Write a proof of how an attempt, or one case of it, ended. "tally-verify" checks it
offline, with nothing but the ledger's key, and prints class, case, outcome, score, level,
and which attempt of how many it was. The proof goes to standard output, or to FILE.

It holds three receipts: of the record, of the registration, and of the newest
registration of the class at that time. "tally ledger prove N" proves any single entry.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.name = args[0]
			return runProve(cmd.Context(), env, o)
		},
	}
	cmd.Flags().StringVarP(&o.out, "out", "o", "", "`FILE` to write the proof to")
	return cmd
}

func runProve(_ context.Context, env *Env, o proveOptions) error {
	p, err := read(env, dossier.Ask{Prove: true})
	if err != nil {
		return err
	}
	id, caseID := answer.SplitCase(p, o.name)
	attempt, err := p.Attempt(id)
	if err != nil {
		return err
	}
	var c *history.Case
	if caseID != "" {
		found, err := p.FindCase(dossier.CaseQuery{Case: caseID, Attempt: id})
		if err != nil {
			return err
		}
		c = found.Case
	}
	data, w, err := outgoing.ProveAttempt(attempt.Public(), c)
	if err != nil {
		return err
	}
	if o.out == "" {
		env.Note("check it with: tally-verify --key %s FILE", w.Key)
		return env.write(data)
	}
	if err := dossier.WriteOutput(o.out, data); err != nil {
		return err
	}
	w.File = o.out
	return env.Answer(w, func(out io.Writer) {
		fmt.Fprintf(out, "%s proves how %s ended (%d bytes)\nCheck it with: tally-verify --key %s %s\n", plain.Line(o.out), plain.Line(o.name), w.Bytes, w.Key, plain.Line(o.out))
	})
}
