package cli

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"tallystick/internal/read/bundle"
	"tallystick/internal/read/bundle/describe"
	"tallystick/internal/read/dossier"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/share/outgoing"
)

type witnessPackOptions struct {
	source      string
	caseID      string
	out         string
	hmacKeyFile string
	key         string
	receipt     string

	showHeldOut bool
}

func newWitnessPack(env *Env) *cobra.Command {
	var o witnessPackOptions
	cmd := &cobra.Command{
		Use:   "pack ATTEMPT|SOURCE -o FILE|FOLDER",
		Short: "Pack the cases of an attempt, a folder or a JSON description into bundles",
		Long: `Pack a bundle for each case of an attempt, or for --case alone, into a folder; or one
bundle from a folder or a JSON file that describes it.

Bundles of an attempt are made from the verified ledger and from evidence that has the
digests which the ledger names, and from nothing else. They carry the receipt of their
entry and are signed with the operator's key, or with --key. A record whose evidence is
missing or changed is refused by name; the others are packed. What each section is made
of is in docs/formats/bundle.md. A bundle of a case that failed tells what was expected.

A folder holds meta.json and any of spec.txt, plan.txt, trace.jsonl, diff.patch,
test.log and postmortem.txt. A JSON file is meta.json with the texts inside: spec, plan,
trace (a list), diff, test_log, postmortem. Members of meta.json:

  task_id          a UUID
  outcome          solved, failed, skipped or errored
  governance_mode  restricted, approved or autonomous
  policy           allowed_tools, denied_tools, max_cost_microdollars, max_tool_calls;
                   or policy_hash; else the mode's standard policy
  created_ns       nanoseconds since 1970; else now
  retry_count      else 0

A tool call has action, policy_check (allowed, denied or confirmed), args_hash or args,
result_hash or result, latency_ms, cost_microdollars and tokens. A hash is sha256: and
64 digits, or the 16 digits that the format keeps; args and result are texts to hash.

A task that was not solved needs a postmortem. Without --key the bundle has only what
every reader of the format knows; with it, the whole hashes and the signature too.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.source = args[0]
			return runWitnessPack(cmd.Context(), env, o)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.out, "out", "o", "", "`FILE` to write the bundle to; a folder for the cases of an attempt")
	f.StringVar(&o.caseID, "case", "", "only the case `ID` of the attempt")
	f.StringVar(&o.hmacKeyFile, "hmac-key-file", "", "sign with the shared key in `FILE`, readable only by you")
	f.StringVar(&o.key, "key", "", "sign with the Ed25519 private key in `FILE`, such as .tally/keys/operator")
	f.StringVar(&o.receipt, "receipt", "", "`FILE` with the ledger receipt of the task's case.scored entry")
	addHeldOutFlag(cmd, &o.showHeldOut)
	if err := cmd.MarkFlagRequired("out"); err != nil {
		panic(err) // the flag is declared above
	}
	return cmd
}

func runWitnessPack(_ context.Context, env *Env, o witnessPackOptions) error {
	if namesAttempt(env, o.source) {
		return packAttempt(env, o)
	}
	if o.caseID != "" {
		return refusal.Newf(refusal.Usage, "--case chooses among the cases of an attempt, and %s describes one bundle", o.source)
	}
	d, err := describe.Load(o.source)
	if err != nil {
		return err
	}
	b, err := d.Bundle(env.Now())
	if err != nil {
		return inFile(o.source, err)
	}
	seals, err := o.seals()
	if err != nil {
		return err
	}
	if seals.Key == nil {
		b.Full = nil
	} else if b.Full == nil {
		env.Note("only 8 bytes of some hash are known, so the whole hashes are left out")
	}
	data, err := b.Pack(seals)
	if err != nil {
		return inFile(o.source, err)
	}
	if err := dossier.WriteOutput(o.out, data); err != nil {
		return err
	}
	a := outgoing.PackedBundle{Path: o.out, Bytes: len(data), TaskID: b.TaskID.String(), Outcome: b.Outcome.String(),
		Signed: seals.HMACKey != nil, EvidenceComplete: b.EvidenceComplete()}
	if seals.Key != nil {
		a.Ed25519Key = hex.EncodeToString(seals.Key[32:])
	}
	return env.Answer(a, func(out io.Writer) {
		fmt.Fprintf(out, "packed %s: task %s, %s, %d bytes\n", plain.Line(a.Path), a.TaskID, a.Outcome, a.Bytes)
		if !a.Signed && a.Ed25519Key == "" {
			fmt.Fprintln(out, "It is not signed: nobody can verify it. Sign with --hmac-key-file or --key.")
		}
		if a.Ed25519Key != "" {
			fmt.Fprintf(out, "Check it with: tally witness verify --signer %s %s\n", a.Ed25519Key, plain.Line(a.Path))
		}
		if !a.EvidenceComplete {
			fmt.Fprintf(out, "evidence is %s\n", evidenceText(false))
		}
	})
}

// seals loads the keys that the flags name.
func (o witnessPackOptions) seals() (bundle.Seals, error) {
	var s bundle.Seals
	var err error
	if o.hmacKeyFile != "" {
		if s.HMACKey, err = seal.LoadSecret(o.hmacKeyFile); err != nil {
			return s, err
		}
	}
	if o.key != "" {
		key, err := seal.LoadKey(o.key)
		if err != nil {
			return s, err
		}
		s.Key = key.Ed25519()
	}
	if o.receipt != "" {
		s.Receipt, err = dossier.ReadInput(o.receipt, dossier.MaxSignedFile)
	}
	return s, err
}
