package dossier

import (
	"context"

	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/sequencer"
	"tallystick/internal/record/store"
	"tallystick/internal/record/workspace"
)

// Expectations gathers what the workspace's ledger must contain: the published
// anchors and this machine's memory. The memory is read before the ledger, so
// a writer at work meanwhile cannot make it look ahead.
func (p *Place) Expectations() ([]sequencer.AnchorFile, []ledger.Expectation, error) {
	place, err := p.Sequencer()
	if err != nil {
		return nil, nil, err
	}
	if fresh, err := p.Fresh(); err != nil {
		return nil, nil, err
	} else if fresh {
		return nil, nil, p.noLedger()
	}
	remembered, err := sequencer.Remembered(place.FS, place.StateDir, p.Settings.Origin)
	if err != nil {
		return nil, nil, err
	}
	anchors, err := sequencer.LoadAnchors(place.FS, place.Anchors)
	if err != nil {
		return nil, nil, p.Alarm(err)
	}
	expect := sequencer.AnchorExpectations(anchors)
	if remembered != nil {
		expect = append(expect, sequencer.MemoryExpectation(*remembered))
	}
	return anchors, expect, nil
}

// Verify verifies the workspace's ledger against everything known. Every entry
// is decoded strictly and shown to visit, which may be nil.
func (p *Place) Verify(visit func(ledger.Record) error) (*ledger.Verified, error) {
	return p.verify(ledger.Options{Decode: true, Visit: visit})
}

func (p *Place) verify(o ledger.Options) (*ledger.Verified, error) {
	place, err := p.Sequencer()
	if err != nil {
		return nil, err
	}
	if _, o.Expect, err = p.Expectations(); err != nil {
		return nil, err
	}
	o.Origin, o.TrustRoot = p.Settings.Origin, p.Settings.TrustRoot
	v, err := place.Verify(o)
	if err != nil {
		return nil, p.Alarm(err)
	}
	return v, nil
}

// BestCheckpoint prefers the last anchor, whose checkpoint witnesses may have
// cosigned, and falls back to the last seal.
func (p *Place) BestCheckpoint(v *ledger.Verified, index int64) (ledger.TreeHead, []byte) {
	anchors, err := sequencer.LoadAnchors(store.OS{}, p.AnchorsDir())
	if err == nil {
		for i := len(anchors) - 1; i >= 0; i-- {
			if a := anchors[i]; a.Size > index && a.Size <= v.Size {
				if head, err := a.TreeHead(); err == nil {
					return head, []byte(a.Checkpoint)
				}
			}
		}
	}
	return v.TreeHead, v.Checkpoint
}

// OwnLedger verifies the ledger of the workspace, for a caller who trusts what it says
// of its people.
func (p *Place) OwnLedger() (*ledger.Verified, error) {
	place, err := p.Sequencer()
	if err != nil {
		return nil, err
	}
	return place.Verify(ledger.Options{Origin: p.Settings.Origin, TrustRoot: p.Settings.TrustRoot})
}

// Remembered asks this machine what it remembers of a ledger, nil if nothing.
func Remembered(getenv func(string) string) func(origin string) (*ledger.TreeHead, error) {
	return func(origin string) (*ledger.TreeHead, error) {
		state, err := workspace.StateDir(getenv)
		if err != nil {
			return nil, err
		}
		return sequencer.Remembered(store.OS{}, state, origin)
	}
}

// VerifierKeys are the keys that ever were an operator's, as signed notes spell
// them.
func (r *Reading) VerifierKeys() []string {
	var out []string
	for _, k := range r.verified.EveryKey() {
		out = append(out, seal.VKey(k.Key, k.Origin))
	}
	return out
}

// A Repaired says what was set aside, and how many lists of events were written
// again.
type Repaired struct {
	sequencer.Repaired
	Events int
}

// Repair sets aside what a crash left after the last seal, and writes lists of
// events again that are gone, from the evidence.
func (p *Place) Repair(ctx context.Context) (*Repaired, error) {
	cfg, err := p.Config()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, LockWait)
	defer cancel()
	repaired := &Repaired{}
	set, err := sequencer.Repair(ctx, cfg)
	switch nothing := err; {
	case refusal.Is(err, refusal.NothingToRepair):
		if repaired.Events, err = p.RestoreEvents(); err == nil && repaired.Events == 0 {
			err = nothing
		}
	case err == nil:
		repaired.Repaired = *set
		repaired.Events, err = p.RestoreEvents()
	}
	if err != nil {
		return nil, p.Alarm(err)
	}
	return repaired, nil
}
