package dossier

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"tallystick/internal/record/refusal"
	"tallystick/internal/record/sequencer"
	"tallystick/internal/record/workspace"
)

// Fresh reports whether the workspace is a fresh checkout: it came out of git,
// where no ledger is, and this folder never had one. A ledger that was here and
// is gone is another matter: it is refused, by [Place.lost] or by the caller that
// compares the ledger with what is known of it.
//
// What tells the two apart: this machine's memory, which knows in which folder a
// ledger was last written; what a ledger leaves beside it in .tally, which git
// does not carry; and, in a folder that git carries, a newest anchor that git does
// not have, since only the operator of the ledger publishes one.
func (p *Place) Fresh() (bool, error) {
	if p.Settings.Ledger != "" {
		return false, nil // whatever is here, the ledger is in its store
	}
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
var leftBehind = []string{"keys/operator", "runs", "checkpoints", "evidence/packs"}

// lost looks for what a ledger leaves behind, and says that it is gone.
func (p *Place) lost() error {
	for _, name := range leftBehind {
		if workspace.Exists(p.Private(filepath.FromSlash(name))) {
			return refusal.Newf(refusal.HistoryRolledBack, "%s is gone and %s is still there: this workspace had a ledger", p.LedgerDir(), p.Private(filepath.FromSlash(name))).
				WithHint("restore %s from a backup; for a checkout with a ledger of its own, clone into another folder", p.LedgerDir())
		}
	}
	anchor, err := p.uncommitted()
	if err != nil || anchor == "" {
		return err
	}
	return refusal.Newf(refusal.HistoryRolledBack, "%s is gone and git does not have the anchor %s, which only a ledger here can have published", p.LedgerDir(), anchor).
		WithHint("restore %s from a backup; for a checkout with a ledger of its own, clone into another folder", p.LedgerDir())
}

// uncommitted names the newest anchor of the workspace if git carries the
// workspace and not the anchor; "" if git has it, or knows nothing of the folder.
func (p *Place) uncommitted() (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), gitTimeout)
	defer cancel()
	repository := Repository{Dir: p.Dir, Path: p.Getenv("PATH")}
	tracked, err := repository.Run(ctx, nil, "ls-tree", "--name-only", "HEAD", "--", workspace.SettingsFile)
	if err != nil || len(tracked) == 0 {
		return "", nil // not from git, or there is no git to ask
	}
	anchors, err := sequencer.LoadAnchors(p.fs(), p.AnchorsDir())
	anchors = slices.DeleteFunc(anchors, func(a sequencer.AnchorFile) bool { return a.Origin != p.Settings.Origin })
	if err != nil || len(anchors) == 0 {
		return "", err
	}
	// What is only staged was not cloned.
	tips := []string{"HEAD"}
	if _, err := repository.Run(ctx, nil, "rev-parse", "--verify", "--quiet", "@{upstream}^{commit}"); err == nil {
		tips = append(tips, "@{upstream}")
	}
	cloned, err := repository.reachable(ctx, tips...)
	if err != nil {
		return "", refusal.Newf(refusal.Unreadable, "looking for anchors in git: %w", err).WithHint("\"git fsck\" tells what is wrong with the repository")
	}
	committed := p.gitMemory(ctx, p.Settings.Origin).anchors
	newest := &anchors[0]
	for i := range anchors {
		if anchors[i].Size > newest.Size {
			newest = &anchors[i]
		}
	}
	for _, a := range committed {
		// Git may have changed the ends of lines, so the bytes are not compared.
		if cloned[a.Blob] && a.Size == newest.Size && a.Head == newest.Head {
			return "", nil
		}
	}
	return newest.Path, nil
}

// noLedger says that a fresh checkout has no ledger, and what to do.
func (p *Place) noLedger() error {
	return refusal.Newf(refusal.NotFound, "this checkout has no ledger: there is no %s", p.LedgerDir()).
		WithHint(`the ledger %s stays on the machine where it was begun; "tally run CLASS" begins a local one, whose attempts are scratch`, p.Settings.Origin)
}
