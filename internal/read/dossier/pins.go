package dossier

import (
	"fmt"
	"os"

	"tallystick/internal/read/history"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/bench"
)

// pinnedLedgers verifies bench/digests.yaml with the people of the ledger, and
// lists the ledgers that it names. A file that two people did not sign pins
// nothing, and it is no reason not to read the ledger: whatever decides verifies
// the bench too, which such a file makes fail.
func (r *Reading) pinnedLedgers(v *ledger.Verified) ([]history.Ledger, error) {
	r.pins = nil
	if r.Shared != nil {
		return nil, nil
	}
	root, err := os.OpenRoot(r.Dir)
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "opening the workspace: %w", err)
	}
	defer root.Close()
	now := r.Now()
	if last := v.LastTime.Go(); now.Before(last) {
		now = last
	}
	verified, err := bench.VerifyPins(root, bench.Options{Now: now, Signers: v.Signers})
	if err != nil {
		return nil, nil
	}
	pins := verified.Pins()
	r.pins = &pins
	var named []history.Ledger
	for _, l := range pins.Origins {
		one := history.Ledger{Origin: l.Origin}
		if l.FirstEntry != nil {
			one.First = *l.FirstEntry
		}
		named = append(named, one)
	}
	return named, nil
}

// witnessPolicies are what a cosigned checkpoint has to meet, all of them. The
// first names the witnesses that decide: those that two people signed for, if
// they did. The settings, which nobody signs, may only ask for more.
func (r *Reading) witnessPolicies(logs []ledger.LogKey) ([]ledger.Policy, error) {
	unsigned := ledger.Policy{Logs: logs, Quorum: r.Settings.Quorum}
	var err error
	if unsigned.Witnesses, err = r.Settings.WitnessVerifiers(); err != nil {
		return nil, err
	}
	if r.pins == nil || len(r.pins.Witnesses) == 0 {
		return []ledger.Policy{unsigned}, nil
	}
	signed := ledger.Policy{Logs: logs}
	if signed.Witnesses, signed.Quorum, err = r.pins.WitnessPolicy(); err != nil {
		return nil, err
	}
	return []ledger.Policy{signed, unsigned}, nil
}

// cosignedUnder verifies something under each policy and returns it as the first
// has it; nil if some witnesses are not enough for one of them.
func cosignedUnder[T any](policies []ledger.Policy, verify func(ledger.Policy) (*T, error)) (*T, error) {
	var first *T
	for i, p := range policies {
		found, err := verify(p)
		if refusal.Is(err, refusal.WitnessQuorumMissing) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if i == 0 {
			first = found
		}
	}
	return first, nil
}

// PinNote says what the signed pins cannot tell about this ledger; "" if they
// name it with its first entry.
func (r *Reading) PinNote() string {
	switch r.History.Pin() {
	case history.OtherPinned:
		return fmt.Sprintf("%s does not name the ledger %s with the first entry %s: its attempts are scratch", bench.PinsFile, r.History.Origin, r.History.FirstEntry)
	case history.NothingPinned:
		return fmt.Sprintf("%s names no ledger, so one that was begun anew would count", bench.PinsFile)
	}
	return ""
}

// ExamplesSign reports whether the example people of "tally init" can sign benches and
// pins now. They are nobody: what they sign for, whoever has their keys signs for.
func (r *Reading) ExamplesSign() bool { return r.reader.ExamplesSign(r.Now()) }

// PinThisLedger adds the ledger to pins that people are about to sign.
func (c *Corpus) PinThisLedger(pins *bench.Pins) error {
	if c.FirstEntry == (digest.Content{}) {
		return refusal.Newf(refusal.NotFound, "there is no ledger here to pin").WithHint("do it on the machine where the ledger is kept")
	}
	pins.PinLedger(c.Settings.Origin, c.FirstEntry)
	return nil
}
