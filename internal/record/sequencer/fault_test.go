package sequencer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/testing/faultfs"
)

// onDisk is the test ledger on a disk that faults can be put into. None of its
// folders exists yet.
func onDisk(t testing.TB, d *faultfs.Disk) Config {
	cfg := testConfig(t)
	cfg.Place = Place{FS: d, Dir: "/mem/x/ledger", StateDir: "/state", Anchors: "/mem/x/audit/anchors"}
	cfg.segmentBytes = 1500
	return cfg
}

// promised is what a process was told is done.
type promised struct {
	mu       sync.Mutex
	entries  map[int64]digest.Content
	anchored int64 // size of the last anchor published
}

func (p *promised) entry(pos ledger.Position, err error) {
	if err == nil {
		p.mu.Lock()
		p.entries[pos.Index] = pos.Content
		p.mu.Unlock()
	}
}

// workload is the life of a small ledger: created, written to by several
// writers, rotated, published, closed, opened again. It goes on after errors
// as far as it can, and returns what it was promised.
func workload(cfg Config, signers []byte) *promised {
	p := &promised{entries: map[int64]digest.Content{}}
	l, err := Create(context.Background(), cfg, signers)
	if err != nil {
		return p
	}
	p.entry(ledger.Position{Index: 0, Content: genesisContent(cfg, signers)}, nil)
	var writers sync.WaitGroup
	for w := range 3 {
		writers.Go(func() {
			for i := range 2 {
				p.entry(l.Append(evidence.NoteKind, fmt.Appendf(nil, `{"pad":"%s","writer":%d}`, strings.Repeat("x", 200), w*10+i)))
			}
		})
	}
	writers.Wait()
	if pub, err := l.PublishAnchor(context.Background(), nil); err == nil {
		p.anchored = pub.Anchor.Size
	}
	large := l.Submit(evidence.NoteKind, fmt.Appendf(nil, `{"pad":"%s"}`, strings.Repeat("y", 2500)))
	small := l.Submit(evidence.NoteKind, []byte(`{"n":1}`))
	p.entry(large.Wait())
	p.entry(small.Wait())
	l.Close()
	if l, err = Open(context.Background(), cfg); err != nil {
		return p
	}
	p.entry(l.Append(evidence.NoteKind, []byte(`{"n":2}`)))
	if pub, err := l.PublishAnchor(context.Background(), nil); err == nil {
		p.anchored = pub.Anchor.Size
	}
	l.Close()
	return p
}

func genesisContent(cfg Config, signers []byte) digest.Content {
	body := fmt.Appendf(nil, `{"origin":"%s","signers":%s}`, cfg.Origin, quote(string(signers)))
	return digest.ContentOf(evidence.AppendEntry(nil, body, evidence.LedgerOpened, false, evidence.At(cfg.Now())))
}

func quote(s string) string {
	return `"` + strings.NewReplacer("\n", `\n`, `"`, `\"`).Replace(s) + `"`
}

// holds checks that a ledger verifies against memory and anchors and has all
// that was promised, and returns it; nil if there is none yet.
func (p *promised) holds(cfg Config) (*ledger.Verified, error) {
	o := options(cfg)
	anchors, err := LoadAnchors(cfg.FS, cfg.Anchors)
	if err != nil {
		return nil, fmt.Errorf("anchors: %w", err)
	}
	o.Expect = AnchorExpectations(anchors)
	var published int64
	for _, a := range anchors {
		published = max(published, a.Size)
	}
	if published < p.anchored {
		return nil, fmt.Errorf("an anchor of %d entries was published, the folder has one of %d", p.anchored, published)
	}
	memory, err := Remembered(cfg.FS, cfg.StateDir, cfg.Origin)
	if err != nil {
		return nil, fmt.Errorf("memory: %w", err)
	}
	if memory == nil && len(p.entries) > 0 {
		return nil, errors.New("entries were promised and nothing is remembered of them")
	}
	if memory != nil {
		o.Expect = append(o.Expect, MemoryExpectation(*memory))
	}
	found := map[int64]digest.Content{}
	o.Visit = func(r ledger.Record) error { found[r.Index] = r.Content; return nil }
	v, err := cfg.Verify(o)
	switch {
	case refusal.Is(err, refusal.NotFound) || refusal.Is(err, refusal.TornTail):
		if len(p.entries) > 0 || memory != nil {
			return nil, fmt.Errorf("%d entries promised, memory %v, and: %w", len(p.entries), memory, err)
		}
		return nil, nil
	case err != nil:
		return nil, err
	}
	for i, content := range p.entries {
		if i >= v.Size || found[i] != content {
			return nil, fmt.Errorf("entry %d was promised as %s; the ledger has %d entries and %s there", i, content, v.Size, found[i])
		}
	}
	return v, nil
}

// recovers plays the next process: it looks, repairs if it has to, appends one
// more entry, and pulls the plug.
func recovers(cfg Config, d *faultfs.Disk, p *promised, signers []byte, seed uint64) error {
	ctx := context.Background()
	cfg.FS = d
	v, err := p.holds(cfg)
	if err != nil {
		return fmt.Errorf("looking: %w", err)
	}
	repaired, err := Repair(ctx, cfg)
	switch {
	case err == nil:
		if v != nil && v.Tail.Torn != repaired.Bytes || repaired.Bytes == 0 {
			return fmt.Errorf("repair cut %d bytes of %+v", repaired.Bytes, v)
		}
		if kept, err := store.ReadFile(d, repaired.Kept, 1<<20); err != nil || int64(len(kept)) != repaired.Bytes {
			return fmt.Errorf("repair kept %d bytes of %d: %v", len(kept), repaired.Bytes, err)
		}
	case v == nil && refusal.Is(err, refusal.NotFound):
	case v != nil && v.Tail.Torn == 0 && refusal.Is(err, refusal.NothingToRepair):
	default:
		return fmt.Errorf("repairing: %w", err)
	}
	var l *Ledger
	if v == nil {
		l, err = Create(ctx, cfg, signers)
	} else {
		l, err = Open(ctx, cfg)
	}
	if err != nil {
		return fmt.Errorf("opening again: %w", err)
	}
	more := &promised{entries: map[int64]digest.Content{}, anchored: p.anchored}
	for i, content := range p.entries {
		more.entries[i] = content
	}
	pos, err := l.Append(evidence.NoteKind, []byte(`{"again":true}`))
	if err != nil {
		return fmt.Errorf("appending again: %w", err)
	}
	more.entry(pos, nil)
	if v != nil && pos.Index != v.Size {
		return fmt.Errorf("the next entry is %d, expected %d", pos.Index, v.Size)
	}
	// The plug is pulled while the ledger is open.
	cut := cfg
	cut.FS = d.PowerCut(seed)
	if _, err := more.holds(cut); err != nil {
		return fmt.Errorf("after a power cut: %w", err)
	}
	if err := l.Close(); err != nil {
		return fmt.Errorf("closing: %w", err)
	}
	if v, err = more.holds(cfg); err != nil || v.Tail.Torn != 0 {
		return fmt.Errorf("at the end: %+v, %w", v, err)
	}
	return nil
}

// TestNoFaultLosesAPromise makes every operation of a ledger's life go wrong
// in every way, and then restarts it as after a kill and as after power cuts.
func TestNoFaultLosesAPromise(t *testing.T) {
	signers := testSigners(t)
	clean := faultfs.New("/")
	cfg := onDisk(t, clean)
	p := workload(cfg, signers)
	if len(p.entries) != 10 || p.anchored == 0 {
		t.Fatalf("without faults %d entries and an anchor of %d were promised", len(p.entries), p.anchored)
	}
	segments, err := store.Segments(clean, cfg.SegmentsDir())
	if err != nil || len(segments) < 3 {
		t.Fatalf("%d segments (%v): the workload should rotate", len(segments), err)
	}
	ops := clean.Ops()
	step := 1
	if testing.Short() {
		step = 7
	}
	var faults, cases atomic.Int64
	t.Run("faults", func(t *testing.T) {
		for _, kind := range faultfs.Kinds() {
			t.Run(kind.String(), func(t *testing.T) {
				t.Parallel()
				for at := 0; at < ops; at += step {
					d := faultfs.New("/")
					cfg := onDisk(t, d)
					d.Inject(faultfs.Fault{At: at, Kind: kind})
					p := workload(cfg, signers)
					if !d.Hit() {
						continue // batches differ from run to run, and so does the end
					}
					faults.Add(1)
					restart := func(how string, d2 *faultfs.Disk, seed uint64) {
						cases.Add(1)
						if err := recovers(cfg, d2, p, signers, seed); err != nil {
							t.Errorf("%s at operation %d (%s), then %s, then power cut %d: %v", kind, at, d.Log()[at], how, seed, err)
						}
					}
					restart("a restart", d.Crash(), uint64(at))
					for _, seed := range []uint64{0, 2*uint64(at) + 1, 2*uint64(at) + 2} {
						restart(fmt.Sprintf("power cut %d", seed), d.PowerCut(seed), uint64(at%3))
					}
					if t.Failed() && !testing.Verbose() {
						return
					}
				}
			})
		}
	})
	t.Logf("%d operations; %d faults; %d restarts", ops, faults.Load(), cases.Load())
	if cases.Load() < 300 {
		t.Errorf("only %d cases ran", cases.Load())
	}
}
