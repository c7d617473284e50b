package dossier

import (
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/mod/sumdb/note"

	"tallystick/internal/read/history"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/sequencer"
	"tallystick/internal/record/store"
	"tallystick/internal/run/bench"
)

// KeepCheckpoint keeps the checkpoint of an anchor just published, so that it
// shows later that witnesses had seen a registration before the first case: a day
// has one anchor file, which the last publication of the day replaces.
func (p *Place) KeepCheckpoint(pub *sequencer.Published) error {
	if len(pub.Witnesses) == 0 {
		return nil
	}
	dir := p.CheckpointsDir()
	if err := store.MakeDir(store.OS{}, dir, 0o700); err != nil {
		return err
	}
	return store.WriteFile(store.OS{}, filepath.Join(dir, fmt.Sprintf("%d.checkpoint", pub.Anchor.Size)), []byte(pub.Anchor.Checkpoint), 0o600)
}

// cosigned verifies which checkpoints the workspace's witnesses cosigned. That
// the ledger contains them was checked when it was verified.
func (r *Reading) cosigned(v *ledger.Verified) ([]history.Cosigned, error) {
	policies, err := r.witnessPolicies(r.pins, v)
	if err != nil || len(policies[0].Witnesses) == 0 {
		return nil, err
	}
	notes := make(map[string][]byte)
	for _, a := range r.anchors {
		notes[a.Path] = []byte(a.Checkpoint)
	}
	for _, c := range r.kept {
		notes[c.Path] = c.Note
	}
	var out []history.Cosigned
	for path, note := range notes {
		c, err := cosignedUnder(policies, func(p ledger.Policy) (*ledger.Checkpoint, error) { return ledger.VerifyCheckpoint(note, p) })
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if c != nil && len(c.Cosignatures) > 0 {
			out = append(out, history.Cosigned{Size: c.Size, Witnesses: c.Cosignatures})
		}
	}
	return out, nil
}

// A CosignedAnchor is a verified anchor of the ledger.
type CosignedAnchor struct {
	Size int64
	// Cosigned is the earliest time at which a trusted witness cosigned it;
	// zero if none did.
	Cosigned time.Time
}

// Anchors says of each anchor and kept checkpoint when witnesses cosigned it.
// That the ledger agrees with them was verified with it. An anchor that the
// ledger says was published and that is gone must stop the caller:
// a person who removes anchors has something to hide. [refusal.MissingAnchor] is left
// for the caller to record.
func (r *Reading) Anchors() ([]CosignedAnchor, error) {
	if err := r.missingAnchor(); err != nil {
		return nil, err
	}
	return r.cosignedAnchors(r.pins, r.verified, r.anchors, r.kept)
}

// cosignedAnchors says of each anchor and kept checkpoint when a witness that two
// people signed for cosigned it.
func (p *Place) cosignedAnchors(pins *bench.Pins, v *ledger.Verified, files []sequencer.AnchorFile, kept []sequencer.KeptCheckpoint) ([]CosignedAnchor, error) {
	policies, err := p.witnessPolicies(pins, v)
	if err != nil {
		return nil, err
	}
	var anchors []CosignedAnchor
	for _, f := range files {
		a, err := cosignedUnder(policies, func(p ledger.Policy) (*ledger.VerifiedAnchor, error) { return ledger.VerifyAnchor(f.Data, p) })
		if err != nil {
			return nil, p.Alarm(fmt.Errorf("%s: %w", f.Path, err))
		}
		if a == nil {
			continue // the witnesses have not seen it yet
		}
		anchors = append(anchors, CosignedAnchor{Size: a.Size, Cosigned: cosignedAt(a.Checkpoint.Note, policies[0].Witnesses)})
	}
	for _, c := range kept {
		checkpoint, err := cosignedUnder(policies, func(p ledger.Policy) (*ledger.Checkpoint, error) { return ledger.VerifyCheckpoint(c.Note, p) })
		if err != nil {
			return nil, p.Alarm(fmt.Errorf("%s: %w", c.Path, err))
		}
		if checkpoint == nil {
			continue // as of an anchor: some witnesses are not enough
		}
		if at := cosignedAt(c.Note, policies[0].Witnesses); !at.IsZero() {
			anchors = append(anchors, CosignedAnchor{Size: checkpoint.Size, Cosigned: at})
		}
	}
	return anchors, nil
}

// AnchorsThen are those that had been published when the ledger was as long as
// that history. The file of a day may have been replaced by a larger one since;
// the ledger says what there was.
func (r *Reading) AnchorsThen(then *history.History) ([]CosignedAnchor, error) {
	known, err := r.Anchors()
	if err != nil {
		return nil, r.Alarm(err)
	}
	anchors := slices.DeleteFunc(known, func(a CosignedAnchor) bool { return a.Size > then.Entries })
	for _, a := range then.Anchors {
		anchors = append(anchors, CosignedAnchor{Size: a.Size})
	}
	return anchors, nil
}

// missingAnchor compares what the ledger says was published with what is there.
// A day's file is replaced only by a larger one.
func (r *Reading) missingAnchor() error {
	there := make(map[string]int64)
	for _, f := range r.anchors {
		there[f.Date] = max(there[f.Date], f.Size)
	}
	for _, a := range r.History.Anchors {
		if size, ok := there[a.Date]; !ok || size < a.Size {
			return refusal.Newf(refusal.MissingAnchor, "entry %d says that %d entries were anchored on %s; the anchor of that day is missing or covers only %d", a.Index, a.Size, a.Date, size).
				WithHint("restore %s from git; without it you cannot tell whether the ledger was cut", filepath.Join(r.AnchorsDir(), a.Date+".json"))
		}
	}
	return nil
}

// everyAnchorGone refuses a workspace from which all anchors were taken although
// the ledger says that some were published: a person who removes them has something to
// hide, and nothing that follows may be built on it.
func everyAnchorGone(dir string, published []history.Anchor, there int) error {
	if len(published) == 0 || there > 0 {
		return nil
	}
	last := published[len(published)-1]
	return refusal.Newf(refusal.MissingAnchor, "entry %d says that %d entries were anchored on %s, and there is no anchor in %s", last.Index, last.Size, last.Date, dir).
		WithHint(`restore them with "git checkout -- audit/anchors"; without them you cannot tell whether the ledger was cut`)
}

// cosignedAt is the earliest time at which one of the witnesses cosigned a
// checkpoint; zero if none did.
func cosignedAt(signed []byte, witnesses []note.Verifier) time.Time {
	var first time.Time
	n, err := note.Open(signed, note.VerifierList(witnesses...))
	if err != nil {
		return first
	}
	for _, sig := range n.Sigs {
		if at, err := seal.CosignatureTime(sig); err == nil && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first
}
