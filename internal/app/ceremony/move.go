package ceremony

import (
	"context"

	"tallystick/internal/read/dossier"
	"tallystick/internal/record/mirror"
	"tallystick/internal/record/refusal"
)

// MoveLedger moves the ledger into the store at an address, or with "" back into
// the folder of the workspace, and returns the proof that nothing changed. The
// settings are changed last: interrupted at any point, it can be run again.
func MoveLedger(ctx context.Context, p *dossier.Place, address string) (*mirror.Proof, error) {
	if p.Shared != nil {
		return nil, refusal.Newf(refusal.Usage, "this checkout has a ledger of its own, which stays on this machine").WithHint("move the ledger %s where it is kept", p.Shared.Origin)
	}
	switch kept := p.Settings.Ledger; {
	case address == "" && kept == "":
		return nil, refusal.Newf(refusal.Usage, "the ledger is in the folder %s already", p.LedgerDir())
	case address != "" && kept != "":
		return nil, refusal.Newf(refusal.Usage, "the ledger is kept at %s already", kept).
			WithHint(`to move it to another store, move it into the folder first: "tally ledger move --to-folder"`)
	}
	proof, err := moveLedger(ctx, p, address)
	if err != nil {
		return nil, p.Alarm(err)
	}
	if address != "" {
		address = proof.To // as it is spelled everywhere
	}
	if address == "" {
		// The lists of events of attempts that other machines ran come here too.
		if _, err := p.RestoreEvents(); err != nil {
			return nil, p.Alarm(err)
		}
	}
	return proof, p.SetLedger(address)
}

func moveLedger(ctx context.Context, p *dossier.Place, address string) (*mirror.Proof, error) {
	link, err := p.Link()
	if err != nil {
		return nil, err
	}
	link.Again(false) // moving out pulls, and knows the tombstone of an interrupted call
	_, expect, err := p.Expectations()
	if err != nil {
		return nil, err
	}
	if address == "" {
		m, err := link.Mirror()
		if err != nil {
			return nil, err
		}
		return m.MoveOut(ctx, expect)
	}
	m, err := link.At(address)
	if err != nil {
		return nil, err
	}
	return m.MoveIn(ctx, expect)
}
