package cli

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"tallystick/internal/read/bundle"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
)

func newWitnessVerify(env *Env) *cobra.Command {
	var o witnessTrustOptions
	cmd := &cobra.Command{
		Use:         "verify FILE",
		Annotations: looksAtFiles,
		Short:       "Verify a bundle: that it agrees with itself, and who signed it",
		Long: `Verify a bundle from its first byte to its last. Who is trusted must be named, and
every key named must hold: with --hmac-key-file the HMAC must be there and right, with
--signer one of the keys must have signed, with --ledger-key the receipt must prove the
entry. An unsigned bundle never passes.

--unsafe-unsigned checks the form only and says so in the answer.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runWitnessVerify(cmd.Context(), env, o, args[0])
		},
	}
	o.declare(cmd)
	return cmd
}

// witnessVerifyAnswer says what was verified and, as plainly, what was not.
type witnessVerifyAnswer struct {
	Path             string         `json:"path"`
	Verified         bool           `json:"verified"`
	Detail           string         `json:"detail"`
	TaskID           string         `json:"task_id,omitempty"`
	Outcome          string         `json:"outcome,omitempty"`
	SignedBy         []string       `json:"signed_by"`
	Unchecked        []string       `json:"unchecked"`
	UnknownSections  []uint16       `json:"unknown_sections"`
	EvidenceComplete bool           `json:"evidence_complete"`
	Ledger           *witnessLedger `json:"ledger,omitempty"`
}

// witnessLedger is the entry that the receipt proves.
type witnessLedger struct {
	Origin  string `json:"origin"`
	Index   int64  `json:"index"`
	Attempt string `json:"attempt"`
	CaseID  string `json:"case_id"`
}

func runWitnessVerify(_ context.Context, env *Env, o witnessTrustOptions, path string) error {
	a := witnessVerifyAnswer{Path: path, SignedBy: []string{}, Unchecked: []string{}, UnknownSections: []uint16{}}
	p, v, err := o.read(path)
	switch {
	case err != nil && refusal.ExitCode(err) != refusal.ExitUnverified:
		return err
	case err != nil:
		a.Detail = err.Error()
	default:
		a.describe(p, v)
	}
	if aerr := env.Answer(a, a.text); aerr != nil {
		return aerr
	}
	return err
}

func (a *witnessVerifyAnswer) describe(p *bundle.Parsed, v *bundle.Verified) {
	a.TaskID, a.Outcome, a.EvidenceComplete = p.TaskID.String(), p.Outcome.String(), p.EvidenceComplete()
	for _, s := range p.Other {
		a.UnknownSections = append(a.UnknownSections, uint16(s.Tag))
	}
	if v == nil {
		a.Detail = "only the form was checked: anybody can have written this"
		return
	}
	a.Verified, a.SignedBy, a.Unchecked = true, signedBy(v), v.Unchecked()
	a.Detail = "signed by " + strings.Join(a.SignedBy, " and ")
	if v.Proved != nil {
		a.Ledger = &witnessLedger{v.Proved.Checkpoint.Origin, v.Proved.Index, v.Record.Attempt, v.Record.CaseID}
	}
}

// signedBy lists whose signatures were verified.
func signedBy(v *bundle.Verified) []string {
	var out []string
	if v.HMACVerified {
		out = append(out, "HMAC-SHA256")
	}
	if v.VerifiedKey != nil {
		name := hex.EncodeToString(v.VerifiedKey)
		if key, err := seal.NewPublicKey(v.VerifiedKey); err == nil {
			name = key.Fingerprint()
		}
		out = append(out, "Ed25519 "+name)
	}
	return out
}

func (a witnessVerifyAnswer) text(out io.Writer) {
	word := "verified    "
	switch {
	case a.Verified:
	case a.TaskID != "":
		word = "NOT VERIFIED"
	default:
		word = "REFUSED     "
	}
	fmt.Fprintf(out, "%s  %s\n              %s\n", verdictText(a.Verified, word, word), plain.Line(a.Path), plain.Line(a.Detail))
	if a.TaskID == "" {
		return
	}
	fmt.Fprintf(out, "              task %s, %s, evidence %s\n", a.TaskID, a.Outcome, evidenceText(a.EvidenceComplete))
	if l := a.Ledger; l != nil {
		fmt.Fprintf(out, "              entry %d of %s: case %s of attempt %s\n", l.Index, plain.Line(l.Origin), plain.Line(l.CaseID), plain.Line(l.Attempt))
	}
	for _, what := range a.Unchecked {
		fmt.Fprintf(out, "              it also carries %s, which nobody was named for and nobody checked\n", what)
	}
	for _, tag := range a.UnknownSections {
		fmt.Fprintf(out, "              section %#04x is not known to this program\n", tag)
	}
}
