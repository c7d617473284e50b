package sequencer

import (
	"context"
	"fmt"
	"path/filepath"

	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
)

// A Repaired says what repair set aside.
type Repaired struct {
	Segment string
	Bytes   int64  // cut off the segment
	Kept    string // file that has them now
	Entries int64  // left in the ledger
}

// Repair sets aside what a crash left after the last seal. It refuses when the
// ledger is damaged in any other way, and when the memory or an anchor shows
// that the bytes to be cut had been acknowledged.
func Repair(ctx context.Context, cfg Config) (*Repaired, error) {
	l, err := open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer l.abandon()
	anchors, err := LoadAnchors(cfg.FS, cfg.Anchors)
	if err != nil {
		return nil, err
	}
	expect := AnchorExpectations(anchors)
	if l.memory.known != nil {
		expect = append(expect, MemoryExpectation(*l.memory.known))
	}
	tail, entries, err := cfg.tornTail(expect)
	if err != nil {
		return nil, err
	}
	if tail.Torn == 0 {
		return nil, refusal.Newf(refusal.NothingToRepair, "the ledger ends in a seal; there is nothing to repair")
	}
	name := filepath.Join(cfg.SegmentsDir(), tail.Segment)
	keep := filepath.Join(cfg.TornDir(), fmt.Sprintf("%s-%s-%d.torn", cfg.Now().UTC().Format("20060102T150405.000"), tail.Segment, tail.GoodSize))
	if err := store.CutTail(cfg.FS, name, tail.GoodSize, keep); err != nil {
		return nil, err
	}
	return &Repaired{Segment: tail.Segment, Bytes: tail.Torn, Kept: keep, Entries: entries}, nil
}

// tornTail finds the torn tail of a ledger that verifies up to it.
func (p Config) tornTail(expect []ledger.Expectation) (ledger.Tail, int64, error) {
	v, err := p.Verify(ledger.Options{Origin: p.Origin, TrustRoot: p.TrustRoot, Expect: expect, Salvage: true})
	if err == nil {
		return v.Tail, v.Size, nil
	}
	// The first batch of all may be the torn one: then there is no seal yet.
	segments, serr := store.Segments(p.FS, p.SegmentsDir())
	if refusal.Is(err, refusal.TornTail) && serr == nil && len(segments) == 1 && len(expect) == 0 {
		return ledger.Tail{Segment: filepath.Base(segments[0].Path), Torn: segments[0].Size}, 0, nil
	}
	return ledger.Tail{}, 0, err
}
