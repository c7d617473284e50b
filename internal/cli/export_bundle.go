package cli

import (
	"encoding/hex"
	"fmt"
	"io"

	"tallystick/internal/read/bundle"
	"tallystick/internal/read/bundle/describe"
	"tallystick/internal/read/dossier"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/seal"
	"tallystick/internal/share/outgoing"
)

// exportBundle packs the cases of an attempt, or what a folder or a JSON file
// describes, into bundles.
func exportBundle(env *Env, o exportOptions) error {
	if namesAttempt(env, o.attempt) {
		return packAttempt(env, o)
	}
	d, err := describe.Load(o.attempt)
	if err != nil {
		return err
	}
	b, err := d.Bundle(env.Now())
	if err != nil {
		return inFile(o.attempt, err)
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
		return inFile(o.attempt, err)
	}
	if err := acceptBundle(env)(data, seals, ""); err != nil {
		return err
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
			fmt.Fprintln(out, "It is not signed, so it cannot be verified. Sign it with --hmac-key-file or --key.")
		}
		if a.Ed25519Key != "" {
			fmt.Fprintf(out, "Check it with: tally verify --signer %s %s\n", a.Ed25519Key, plain.Line(a.Path))
		}
		if !a.EvidenceComplete {
			fmt.Fprintf(out, "evidence is %s\n", evidenceText(false))
		}
	})
}

// seals loads the keys that the flags name.
func (o exportOptions) seals() (bundle.Seals, error) {
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
