package ceremony

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"path"
	"strings"

	"tallystick/internal/read/dossier"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/store"
	"tallystick/internal/record/workspace"
)

// localOperator is who a checkout's own ledger names: no particular person.
const localOperator = "local-checkout"

// OpenCheckout gives a fresh checkout a ledger of its own, and reports whether it
// did. The origin is random, so no signed pin names it, and the only person in it
// is a key that was just made: whatever its benches are signed by, its attempts
// are scratch. A workspace that has its ledger is left alone.
func OpenCheckout(ctx context.Context, p *dossier.Place) (begun bool, err error) {
	fresh, err := p.Fresh()
	if err != nil {
		return false, err
	}
	place, err := p.Sequencer()
	if err != nil {
		return false, err
	}
	// An earlier call may have been interrupted before the first entry.
	named := p.Shared != nil && !workspace.Exists(place.SegmentsDir())
	if !fresh && !named {
		return false, nil
	}
	signers, err := localSigners(p)
	if err != nil {
		return false, err
	}
	if fresh {
		if err := p.Adopt(localOrigin(p.Settings.Origin), digest.IDOf(signers)); err != nil {
			return false, err
		}
	} else if digest.IDOf(signers) != p.Settings.TrustRoot {
		return false, refusal.Newf(refusal.SignersChainBroken, "%s names another key than %s", p.CheckoutFile(), p.CheckoutKey()).
			WithHint("remove %s to begin another local ledger", p.Private())
	}
	return true, beginLedger(ctx, p, &initPlan{signers: signers})
}

// needsOwnLedger refuses what belongs into the ledger that everybody shares, in a
// checkout that has only a ledger of its own.
func needsOwnLedger(p *dossier.Place, what string) error {
	if p.Shared == nil {
		return nil
	}
	return refusal.Newf(refusal.NotFound, "%s is recorded in the ledger %s, and this checkout has only a local one", what, p.Shared.Origin).
		WithHint("do it on the machine where that ledger is kept")
}

// localSigners makes the key of a checkout's own ledger, or finds the one that
// an interrupted call left, and composes the file that names it.
func localSigners(p *dossier.Place) ([]byte, error) {
	var plan initPlan
	key, err := plan.key(p.CheckoutKey(), localOperator)
	if err != nil {
		return nil, err
	}
	signers, err := seal.Compose(1, digest.ID{}, []seal.Entry{{Principals: localOperator, Key: key.Public(), Roles: []seal.Role{seal.Operator}}})
	if err != nil {
		return nil, err
	}
	if err := store.MakeDir(store.OS{}, p.KeysDir(), 0o700); err != nil {
		return nil, err
	}
	for _, k := range plan.keys {
		if err := k.write(p.Getenv); err != nil {
			return nil, err
		}
	}
	return signers, nil
}

// localOrigin is a name that no signer can have signed for: 128 random bits.
func localOrigin(of string) string {
	var b [16]byte
	rand.Read(b[:])
	base := strings.Trim(path.Base(of), ".-")
	if origin := "local/" + base + "-" + hex.EncodeToString(b[:]); evidence.CheckOrigin(origin) == nil {
		return origin
	}
	return "local/" + hex.EncodeToString(b[:])
}
