package archive

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"tallystick/internal/refusal"
	"tallystick/internal/workspace"
)

// Fresh reports whether the workspace is a fresh checkout: it came out of git,
// where no ledger is, and this folder never had one. A ledger that was here and
// is gone is another matter: it is refused, by [Place.lost] or by whoever
// compares the ledger with what is known of it.
//
// What tells the two apart: this machine's memory, which knows in which folder a
// ledger was last written; what a ledger leaves beside it in .tally, which git
// does not carry; and anchors that git does not have, since only whoever has the
// ledger publishes them.
func (p *Place) Fresh() (bool, error) {
	_, err := os.Lstat(p.LedgerDir())
	switch {
	case err == nil || !workspace.Exists(p.Path(workspace.SettingsFile)):
		return false, nil // there is one, or init is about to begin one
	case !errors.Is(err, fs.ErrNotExist):
		return false, refusal.Newf(refusal.Unreadable, "looking for the ledger: %w", err)
	}
	place, err := p.Sequencer()
	if err != nil {
		return false, err
	}
	// The memory of here makes the ledger's readers refuse, with both heads.
	here, err := place.LayHere(p.Settings.Origin)
	if here || err != nil {
		return false, err
	}
	if p.Shared != nil {
		return false, nil // its own ledger was named and never begun
	}
	return true, p.Alarm(p.lost())
}

// CheckoutKey is the key of a checkout's own ledger.
func (p *Place) CheckoutKey() string { return filepath.Join(p.KeysDir(), "checkout") }

// leftBehind are what lies in .tally where there was a ledger.
var leftBehind = []string{"keys/operator", "keys/operator.salt", "runs", "checkpoints", "evidence/packs"}

// lost looks for what a ledger leaves behind, and says that it is gone.
func (p *Place) lost() error {
	for _, name := range leftBehind {
		if workspace.Exists(p.Private(filepath.FromSlash(name))) {
			return refusal.Newf(refusal.HistoryRolledBack, "%s is gone and %s is still there: this workspace had a ledger", p.LedgerDir(), p.Private(filepath.FromSlash(name))).
				WithHint("restore %s from a backup; for a checkout with a ledger of its own, clone into another folder", p.LedgerDir())
		}
	}
	return nil
}

// noLedger says that a fresh checkout has no ledger, and what to do.
func (p *Place) noLedger() error {
	return refusal.Newf(refusal.NotFound, "this checkout has no ledger: there is no %s", p.LedgerDir()).
		WithHint(`the ledger %s stays on the machine where it was begun; "tally run CLASS" begins a local one, whose attempts are scratch`, p.Settings.Origin)
}
