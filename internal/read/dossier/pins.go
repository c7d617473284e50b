package dossier

import (
	"crypto/ed25519"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"tallystick/internal/read/history"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/store"
	"tallystick/internal/run/bench"
)

// pinnedLedgers lists the ledgers that the signed pins name. A file that two people
// did not sign pins nothing, and the ledger is still read: whatever
// decides verifies the bench too, which such a file makes fail.
func (r *Reading) pinnedLedgers(v *ledger.Verified) ([]history.Ledger, error) {
	var err error
	if r.pins, _, err = r.signedPins(v); err != nil || r.pins == nil {
		return nil, err
	}
	var named []history.Ledger
	for _, l := range r.pins.Origins {
		one := history.Ledger{Origin: l.Origin}
		if l.FirstEntry != nil {
			one.First = *l.FirstEntry
		}
		named = append(named, one)
	}
	return named, nil
}

// signedPins verifies bench/digests.yaml with the people of the ledger. Without two
// signatures there are none, and why says what is wrong with the file.
func (p *Place) signedPins(v *ledger.Verified) (pins *bench.Pins, why error, err error) {
	if p.Shared != nil {
		return nil, nil, nil
	}
	root, err := os.OpenRoot(p.Dir)
	if err != nil {
		return nil, nil, refusal.Newf(refusal.Unreadable, "opening the workspace: %w", err)
	}
	defer root.Close()
	now := p.Now()
	if last := v.LastTime.Go(); now.Before(last) {
		now = last
	}
	verified, why := bench.VerifyPins(root, bench.Options{Now: now, Signers: v.Signers})
	if why != nil {
		return nil, why, nil
	}
	signed := verified.Pins()
	return &signed, nil, nil
}

// witnessPolicies are what a cosigned checkpoint has to meet, all of them. The first
// names the witnesses that decide: those that two people signed for, and none if
// they signed for none. The settings, which are unsigned, may only ask for more.
func (p *Place) witnessPolicies(pins *bench.Pins, v *ledger.Verified) ([]ledger.Policy, error) {
	signed := ledger.Policy{Logs: v.EveryKey()}
	unsigned := ledger.Policy{Logs: v.EveryKey(), Quorum: p.Settings.Quorum}
	var err error
	if unsigned.Witnesses, err = p.Settings.WitnessVerifiers(); err != nil {
		return nil, err
	}
	if pins != nil && len(pins.Witnesses) > 0 {
		all, quorum, err := pins.WitnessPolicy()
		if err != nil {
			return nil, err
		}
		own := p.ownWitnesses(pins, v)
		for i, w := range pins.Witnesses {
			if own[w] == "" {
				signed.Witnesses, signed.Quorum = append(signed.Witnesses, all[i]), quorum
			}
		}
	}
	return []ledger.Policy{signed, unsigned}, nil
}

// ownWitnesses says of pinned witnesses whose key they have, if that is one of the
// people of the ledger or lies on this machine: they would cosign whatever they are
// given, and do not count.
func (p *Place) ownWitnesses(pins *bench.Pins, v *ledger.Verified) map[string]string {
	own, found := p.ownKeys(v), make(map[string]string)
	for _, w := range pins.Witnesses {
		if key, err := seal.WitnessKey(w); err == nil && own[string(key)] != "" {
			name, _, _ := strings.Cut(w, "+")
			found[w] = fmt.Sprintf("the witness %s of %s does not count: its key is that of %s", name, bench.PinsFile, own[string(key)])
		}
	}
	return found
}

// ownKeys says whose the keys are that the people of the ledger have, and those that
// lie in the folders of this machine's keys.
func (p *Place) ownKeys(v *ledger.Verified) map[string]string {
	own := make(map[string]string)
	for _, dir := range []string{p.KeysDir(), filepath.Dir(p.Getenv("TALLY_OPERATOR_KEY"))} {
		files, err := os.ReadDir(dir)
		if err != nil || dir == "." {
			continue
		}
		for _, f := range files {
			path := filepath.Join(dir, f.Name())
			if pub := publicKeyIn(path); pub != nil {
				own[string(pub)] = path
			}
		}
	}
	for _, k := range v.EveryKey() {
		own[string(k.Key)] = "an operator of this ledger"
	}
	for _, e := range v.Signers.Entries() {
		if pub, ok := e.Key.Ed25519(); ok {
			own[string(pub)] = "the signer " + e.Principals
		}
	}
	return own
}

// publicKeyIn is the key in a file of one, nil if it is not a readable key.
func publicKeyIn(path string) ed25519.PublicKey {
	data, err := store.ReadFile(store.OS{}, path, 1<<16)
	if err != nil {
		return nil
	}
	if key, err := seal.ParseKey(data); err == nil {
		pub, _ := key.Public().Ed25519()
		return pub
	}
	if key, err := seal.ParsePublicKey(data); err == nil {
		pub, _ := key.Ed25519()
		return pub
	}
	return nil
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
// pins now. They stand for no person: every reader of the workspace has their keys.
func (r *Reading) ExamplesSign() bool { return r.reader.ExamplesSign(r.Now()) }

// PinThisLedger adds the ledger to pins that people are about to sign.
func (c *Corpus) PinThisLedger(pins *bench.Pins) error {
	if c.FirstEntry == (digest.Content{}) {
		return refusal.Newf(refusal.NotFound, "there is no ledger here to pin").WithHint("do it on the machine where the ledger is kept")
	}
	pins.PinLedger(c.Settings.Origin, c.FirstEntry)
	return nil
}
