package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tallystick/internal/read/dossier"
	"tallystick/internal/record/digest"
	"tallystick/internal/share/attest"
	"tallystick/internal/share/attest/claim"
	"tallystick/internal/share/outgoing"
	"tallystick/internal/share/verify"
	"tallystick/internal/share/verify/attested"
)

// contentFlags are the flags that give the bytes behind the digests of a body.
func contentFlags(f *pflag.FlagSet, c *claim.Content) {
	f.StringVar(&c.Harness, "harness-file", "", "the harness: `FILE`, folder or SHA-256 (harnessVersionSha)")
	f.StringVar(&c.EvalCode, "eval-code", "", "tasks, prompts, rubrics: `FILE`, folder or SHA-256 (evalCodeSha)")
	f.StringVar(&c.Dataset, "dataset", "", "the dataset: `FILE`, folder or SHA-256 (datasetSha)")
	f.StringVar(&c.Model, "model-file", "", "the model's weights: `FILE`, folder or SHA-256 (modelVersionSha)")
}

// credentialFlags are those that say what a credential is judged by.
type credentialFlags struct {
	dids, jwks, lists, receipts, issuers []string
}

func (c *credentialFlags) add(f *pflag.FlagSet) {
	f.StringArrayVar(&c.issuers, "issuer", nil, "trusted issuer `DID` of credentials; may be given again")
	f.StringArrayVar(&c.dids, "did", nil, "DID document `FILE` of the signer of a credential; may be given again")
	f.StringArrayVar(&c.jwks, "jwks", nil, "key set of the signer of a credential, as `DID=FILE`; may be given again")
	f.StringArrayVar(&c.lists, "status-list", nil, "status list `FILE` that a credential refers to; may be given again")
	f.StringArrayVar(&c.receipts, "receipt", nil, "receipt `FILE` of an entry about a credential or its key; may be given again")
}

func (c *credentialFlags) read(t *verify.Trust) error {
	t.Credentials.Issuers = c.issuers
	return t.Credentials.Read(c.dids, c.jwks, c.lists, c.receipts)
}

type attestVerifyOptions struct {
	file    string
	keys    []string
	content claim.Content
	credentialFlags
}

func newAttestVerify(env *Env) *cobra.Command {
	var o attestVerifyOptions
	cmd := &cobra.Command{
		Use:     "verify FILE",
		Short:   "Verify a credential offline: proofs, body, status, and the bytes you give",
		Example: "tally attest verify credential.json --issuer did:web:example.com",
		Long: `Verify a credential, or a body that its runner signed. Nothing is fetched: a did:key is its
own key; the document of a did:web, its key set, a status list and receipts are given as
files. Under a retired key a credential verifies only with a receipt of the ledger entry
credential.issued, and one of the key.published entry that retired the key; the ledger is
trusted by --key. Dates inside the credential prove nothing.

--harness-file, --eval-code, --dataset and --model-file are hashed again and compared with
the body; the answer lists those that were not given. In a workspace the ledger is asked
whether the credential was revoked.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.file = args[0]
			return runAttestVerify(cmd.Context(), env, o)
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&o.keys, "key", nil, "trusted ledger key `NAME+ID+KEY`, for receipts; may be given again")
	o.add(f)
	contentFlags(f, &o.content)
	return cmd
}

func runAttestVerify(_ context.Context, env *Env, o attestVerifyOptions) error {
	data, err := readDocument(env, o.file)
	if err != nil {
		return err
	}
	trust, err := verifyOptions{keys: o.keys}.trust()
	if err != nil {
		return err
	}
	if err := o.read(&trust); err != nil {
		return err
	}
	place, err := workspaceTrust(env, &trust)
	if err != nil {
		return err
	}
	if err := trustOperators(env, place, &trust); err != nil {
		return err
	}
	askRevoked(place, &trust)
	a, err := attested.Verify(data, trust, o.content)
	if answered := env.Answer(a, a.Print); answered != nil {
		return errors.Join(answered, err)
	}
	return err
}

// askRevoked asks the ledger of the workspace, if there is one, which credentials
// were revoked.
func askRevoked(place *dossier.Place, t *verify.Trust) {
	if place == nil {
		return
	}
	// A checkout has no ledger; one that was here and is gone is found by a command that
	// verifies the workspace.
	if !dossier.AreFiles(place.LedgerDir()) {
		t.Credentials.Notes = append(t.Credentials.Notes, "the workspace has no ledger that could say whether it was revoked")
		return
	}
	t.Credentials.Revoked = func(credential digest.ID) error {
		known, err := outgoing.CredentialsOf(place)
		if err != nil {
			return err
		}
		return known.Revoked(credential)
	}
}

func newAttestRevoke(env *Env) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:     "revoke FILE|DIGEST --reason TEXT",
		Short:   "Record in the ledger that a credential is revoked",
		Example: `tally attest revoke credential.json --reason "the key was lost"`,
		Long: `Append an entry credential.revoked about a credential that this ledger recorded as issued.
A reader who verifies the credential with this ledger, or with a receipt of the entry, refuses
it from then on. Others learn of it from the status list, if the credential has one.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runAttestRevoke(cmd.Context(), env, args[0], reason)
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, as `TEXT`")
	cmd.MarkFlagRequired("reason")
	return cmd
}

func runAttestRevoke(ctx context.Context, env *Env, what, reason string) error {
	p, err := openPlace(env)
	if err != nil {
		return err
	}
	id, err := digest.ParseID(what)
	if err != nil {
		data, err := dossier.ReadInput(what, attest.MaxDocument)
		if err != nil {
			return err
		}
		if id, err = claim.DigestOf(data); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
	at, err := outgoing.Revoke(ctx, p, id, reason)
	if err != nil {
		return err
	}
	return env.Answer(map[string]any{"credential": id, "entry": at}, func(out io.Writer) {
		fmt.Fprintf(out, "%s is revoked by entry %d\n", id, at.Index)
	})
}
