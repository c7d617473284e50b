package workspace

import (
	"errors"
	"fmt"
	"io/fs"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/record/strictyaml"
)

// A checkout is a workspace that came out of git, without the ledger that its
// tally.yaml names. It gets a ledger of its own, under a random origin, and
// .tally/checkout.yaml names that. No person signs for such a ledger, so
// nothing in it counts for more than scratch.

// CheckoutFile is where a checkout's own ledger is named.
func (w *Workspace) CheckoutFile() string { return w.Private("checkout.yaml") }

// checkoutFile is how it is written.
type checkoutFile struct {
	Version   int       `json:"version"`
	Origin    string    `json:"origin"`
	TrustRoot digest.ID `json:"trust_root"`
	Of        string    `json:"of"` // the origin that tally.yaml names
}

// loadCheckout takes the ledger from checkout.yaml, if there is one.
func (w *Workspace) loadCheckout() error {
	data, err := store.ReadFile(store.OS{}, w.CheckoutFile(), maxSettingsBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var f checkoutFile
	if _, err := strictyaml.Decode(w.CheckoutFile(), data, settingsRules, &f); err != nil {
		return err
	}
	err = evidence.CheckOrigin(f.Origin)
	switch {
	case err != nil:
	case f.Version != 1:
		err = fmt.Errorf("version is %d, this program reads 1", f.Version)
	case f.TrustRoot.IsZero():
		err = errors.New("trust_root is missing")
	case f.Of != w.Settings.Origin || f.Origin == f.Of:
		err = fmt.Errorf("it is the local ledger of a checkout of %s, and %s names %s", f.Of, SettingsFile, w.Settings.Origin)
	}
	if err != nil {
		return refusal.Newf(refusal.Malformed, "%s: %w", w.CheckoutFile(), err).
			WithHint("remove %s to begin another local ledger", w.Private())
	}
	w.adopt(f.Origin, f.TrustRoot)
	return nil
}

// adopt makes the settings name the checkout's own ledger.
func (w *Workspace) adopt(origin string, root digest.ID) {
	shared := w.Settings
	w.Shared = &shared
	w.Settings = Settings{Version: shared.Version, Origin: origin, TrustRoot: root, TestMounts: shared.TestMounts, TestImage: shared.TestImage}
}

// Adopt names a ledger of its own for a checkout, and writes that down.
func (w *Workspace) Adopt(origin string, root digest.ID) error {
	text := fmt.Appendf(nil, "# The ledger of this checkout. It stays on this machine, and its attempts are scratch.\nversion: 1\norigin: %s\ntrust_root: %s\nof: %s\n",
		strictyaml.Quote(origin), root, strictyaml.Quote(w.Settings.Origin))
	if err := store.WriteFile(store.OS{}, w.CheckoutFile(), text, 0o600); err != nil {
		return err
	}
	w.adopt(origin, root)
	return nil
}

// PeopleRoot is the digest of version 1 of signers/allowed_signers: of those who
// sign benches, also where the ledger is a checkout's own.
func (w *Workspace) PeopleRoot() digest.ID {
	if w.Shared != nil {
		return w.Shared.TrustRoot
	}
	return w.Settings.TrustRoot
}
