package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"tallystick/internal/read/dossier"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/share/attest"
	"tallystick/internal/share/attest/claim"
	"tallystick/internal/share/outgoing"
)

// loadIssuer reads the key of an issuer who is not the runner.
func (o *attestOptions) loadIssuer() error {
	if o.issuerKey != "" {
		return o.issuer.LoadKey(o.issuerKey)
	}
	if o.issuer.DID != "" || o.issuer.Method != "" {
		return refusal.Newf(refusal.Usage, "--issuer-did and --issuer-key-id are about an issuer whose key was not given").WithHint("give --issuer-key FILE")
	}
	return nil
}

// statusPlace is the credential's place in a status list, nil if it is in none.
// The ledger says which places are taken, so that without one a place must be
// named.
func (o *attestOptions) statusPlace(env *Env) (*evidence.StatusPlace, error) {
	if o.statusList == "" {
		return nil, nil
	}
	at := &evidence.StatusPlace{List: o.statusList, Index: o.statusIndex}
	p, err := openPlace(env)
	if refusal.Is(err, refusal.NotFound) || !o.record {
		if at.Index < 0 {
			return nil, refusal.Newf(refusal.Usage, "--status-index is missing: without a ledger it is not known which places of the list are free")
		}
		return at, nil
	}
	if err != nil {
		return nil, err
	}
	known, err := outgoing.CredentialsOf(p)
	if err != nil {
		return nil, err
	}
	if at.Index < 0 {
		at.Index = known.NextStatus(at.List)
	}
	return at, known.FreeStatus(*at)
}

type attestStatusOptions struct {
	url, key, out string
	days          int
	issuer        claim.Party
}

func newAttestStatus(env *Env) *cobra.Command {
	var o attestStatusOptions
	cmd := &cobra.Command{
		Use:     "status URL --key FILE",
		Short:   "Make the status list that says which credentials are revoked",
		Example: "tally attest status https://example.com/status/1 --key .tally/keys/credential -o status.json",
		Long: `Make and sign the BitstringStatusListCredential for URL from the verified ledger: a bit for
each credential that was issued with --status-list-url URL, set if "tally attest revoke"
revoked it. Publish the file at URL, and make it again after each revocation and before it
expires. The key is the issuer's, and a current one: a list under a retired key is refused.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.url = args[0]
			return runAttestStatus(cmd.Context(), env, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.key, "key", "", "`FILE` with the issuer's key")
	f.StringVar(&o.issuer.DID, "issuer-did", "", "the issuer's `DID` (default: the did:key of the key)")
	f.StringVar(&o.issuer.Method, "key-id", "", "`NAME` of the key among those of a did:web (default: the key itself)")
	f.IntVar(&o.days, "days", 7, "how many `DAYS` the list is valid; an old list can hide a revocation for that long")
	f.StringVarP(&o.out, "out", "o", "", "write the list to `FILE` in place of standard output")
	return cmd
}

func runAttestStatus(_ context.Context, env *Env, o attestStatusOptions) error {
	if o.days < 1 || o.days > 3660 {
		return refusal.Newf(refusal.Usage, "--days %d: expected 1 to 3660", o.days)
	}
	if err := o.issuer.LoadKey(o.key); err != nil {
		return err
	}
	p, err := openPlace(env)
	if err != nil {
		return err
	}
	known, err := outgoing.CredentialsOf(p)
	if err != nil {
		return err
	}
	list, err := known.StatusList(o.url, o.issuer.DID)
	if err != nil {
		return err
	}
	now := env.Now()
	text, err := claim.IssueStatusList(o.url, list.Bits, o.issuer, now, now.Add(time.Duration(o.days)*24*time.Hour))
	if err != nil {
		return err
	}
	if err := acceptStatusList(env, o.issuer, now, text); err != nil {
		return err
	}
	env.Note("%d credentials, %d of them revoked; valid for %d days", list.Credentials, list.Revoked, o.days)
	if o.out == "" {
		return env.Answer(rawJSON(text), func(w io.Writer) { w.Write(append(plain.JSON(text), '\n')) })
	}
	if err := dossier.WriteOutput(o.out, append(text, '\n')); err != nil {
		return err
	}
	return env.Answer(map[string]any{"file": o.out, "list": list, "type": attest.Revocation}, func(w io.Writer) {
		fmt.Fprintf(w, "%s: publish it at %s\n", plain.Line(o.out), plain.Line(o.url))
	})
}
