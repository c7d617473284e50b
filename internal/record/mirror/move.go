package mirror

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"tallystick/internal/record/bucket"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/sequencer"
	"tallystick/internal/record/store"
)

// A Proof says that a ledger is the same in two places: what was read and verified
// in each.
type Proof struct {
	From    string    `json:"from"`
	To      string    `json:"to"`
	Entries int64     `json:"entries"`
	Head    digest.ID `json:"head"`
	Root    string    `json:"root"`
	Batches int64     `json:"batches"`
}

func tombstoneOf(v *ledger.Verified, movedTo string) Tombstone {
	return Tombstone{MovedTo: movedTo, Size: v.Size, Head: v.Head, Root: base64.StdEncoding.EncodeToString(v.Root[:])}
}

// MoveIn copies the folder's ledger with its evidence into the store, reads all of
// it back, verifies it, and marks the folder as the store's copy. The folder must
// contain what is expected. The caller changes the settings afterwards. Interrupted
// at any point it can be called again: what is there already is compared and not
// written twice.
func (m *Mirror) MoveIn(ctx context.Context, expect []ledger.Expectation) (*Proof, error) {
	lock, v, err := m.lockAndVerify(ctx, expect)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	want, err := m.marker()
	if err != nil {
		return nil, err
	}
	if err := bucket.CreateSame(ctx, m.Bucket, ledgerObject, want); err != nil && !errors.Is(err, bucket.ErrDiffers) {
		return nil, m.failed("storing "+ledgerObject, err)
	}
	if err := m.checkLedger(ctx); err != nil {
		return nil, err
	}
	if err := m.checkConditions(ctx); err != nil {
		return nil, err
	}
	if err := m.pushEvidence(ctx); err != nil {
		return nil, err
	}
	if err := m.pushBatches(ctx); err != nil {
		return nil, err
	}
	if err := m.Publish(ctx); err != nil {
		return nil, err
	}
	proof, err := m.prove(ctx, v)
	if err != nil {
		return nil, err
	}
	if err := m.noteStored(); err != nil {
		return nil, err
	}
	proof.From, proof.To = m.Dir, m.Address.String()
	return proof, store.WriteFile(m.FS, MovedFile(m.Place), []byte(m.Address.String()+"\n"), 0o600)
}

// pushBatches stores every batch of the folder.
func (m *Mirror) pushBatches(ctx context.Context) error {
	segments, err := store.Segments(m.FS, m.SegmentsDir())
	if err != nil {
		return err
	}
	for _, s := range segments {
		f, err := m.FS.OpenFile(s.Path, os.O_RDONLY, 0)
		if err != nil {
			return refusal.Newf(refusal.Unreadable, "reading %s: %w", s.Path, err)
		}
		_, err = ledger.Batches(io.NewSectionReader(f, 0, s.Size), int64(s.First), func(b ledger.Batch) error {
			err := bucket.CreateSame(ctx, m.Bucket, batchObject(b.First), b.Lines)
			if errors.Is(err, bucket.ErrDiffers) {
				return m.taken(ctx, b.First)
			}
			if err != nil {
				return m.failed("storing "+batchObject(b.First), err)
			}
			return nil
		})
		f.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// taken says what is where a batch should go.
func (m *Mirror) taken(ctx context.Context, first int64) error {
	there, err := bucket.GetSurely(ctx, m.Bucket, batchObject(first), ledger.MaxBatchBytes)
	if t, moved := parseTombstone(there); err == nil && moved {
		return refusal.Newf(refusal.LedgerMoved, "%s held this ledger before, until it was moved to %s with %d entries", m.Address, t.MovedTo, t.Size).
			WithHint("choose another prefix: what was moved away stays as it was")
	}
	return refusal.Newf(refusal.HistoryForked, "%s holds other entries than this folder from %d on", m.Address, first).
		WithHint("this ledger was moved there before and grew there, or another one has its name; nothing was changed")
}

// prove reads the whole ledger from the store into an empty folder, verifies it
// there and compares it with what the folder has.
func (m *Mirror) prove(ctx context.Context, v *ledger.Verified) (*Proof, error) {
	dir, remove, err := store.TempDir("tally-move")
	if err != nil {
		return nil, err
	}
	defer remove()
	fresh := New(m.Options)
	fresh.Place = sequencer.Place{FS: m.FS, Dir: dir, StateDir: m.StateDir}
	if err := fresh.pull(ctx); err != nil {
		return nil, err
	}
	again, err := fresh.Verify(ledger.Options{Origin: m.Origin, TrustRoot: m.TrustRoot, EverySeal: true})
	if err != nil {
		return nil, err
	}
	if again.Size != v.Size || again.Head != v.Head || again.Root != v.Root {
		return nil, refusal.Newf(refusal.HistoryForked, "%s has %d entries, head %s; this folder has %d, head %s", m.Address, again.Size, again.Head, v.Size, v.Head).
			WithHint("another machine wrote there meanwhile; nothing was changed here")
	}
	return &Proof{Entries: v.Size, Head: v.Head, Root: base64.StdEncoding.EncodeToString(v.Root[:]), Batches: again.Seals}, nil
}

// lockAndVerify keeps writers of this machine out and verifies the folder.
func (m *Mirror) lockAndVerify(ctx context.Context, expect []ledger.Expectation) (*store.Lock, *ledger.Verified, error) {
	wait, cancel := context.WithTimeout(ctx, m.LeaseWait())
	defer cancel()
	lock, err := store.TakeLock(wait, m.FS, filepath.Join(m.Dir, "lock"))
	if err != nil {
		return nil, nil, err
	}
	v, err := m.Verify(ledger.Options{Origin: m.Origin, TrustRoot: m.TrustRoot, Expect: expect, EverySeal: true})
	if err == nil && v.Tail.Torn > 0 {
		err = refusal.Newf(refusal.TornTail, "%s ends in %d bytes that a crash left and no seal covers", v.Tail.Segment, v.Tail.Torn).
			WithHint(`run "tally ledger repair" first: it sets them aside`)
	}
	if err != nil {
		lock.Close()
		return nil, nil, err
	}
	return lock, v, nil
}

// MoveOut ends the store's ledger: it fetches all evidence, reads and verifies
// everything once more, and puts a tombstone where the next batch would go, so
// that no machine can append there. The folder is then the ledger. The caller
// changes the settings afterwards. Interrupted at any point it can be called
// again.
func (m *Mirror) MoveOut(ctx context.Context, expect []ledger.Expectation) (*Proof, error) {
	wait, cancel := context.WithTimeout(ctx, m.LeaseWait())
	defer cancel()
	w, err := m.Begin(wait)
	moved := refusal.Is(err, refusal.LedgerMoved) // perhaps by an interrupted call of this
	if err != nil && !moved {
		return nil, err
	}
	if w != nil {
		defer w.Close()
	}
	lock, v, verr := m.lockAndVerify(ctx, expect)
	if verr != nil {
		return nil, verr
	}
	defer lock.Close()
	proof := &Proof{Entries: v.Size, Head: v.Head, Root: base64.StdEncoding.EncodeToString(v.Root[:]), Batches: v.Seals}
	switch {
	case moved && !m.movedHere(ctx, v):
		return nil, err
	case !moved:
		if proof, err = m.leave(ctx, v); err != nil {
			return nil, err
		}
	}
	proof.From, proof.To = m.Address.String(), m.Dir
	// Crash before this: the folder is still a copy, and calling again ends it.
	return proof, store.RemoveFile(m.FS, MovedFile(m.Place))
}

// leave copies what is only in the store and closes it with a tombstone.
func (m *Mirror) leave(ctx context.Context, v *ledger.Verified) (*Proof, error) {
	if err := m.FetchAll(ctx); err != nil {
		return nil, err
	}
	proof, err := m.prove(ctx, v)
	if err != nil {
		return nil, err
	}
	stone, err := tombstoneOf(v, m.here()).marshal()
	if err != nil {
		return nil, err
	}
	return proof, m.createBatch(ctx, v.Size, stone)
}

// here names this folder to other machines.
func (m *Mirror) here() string {
	host, _ := os.Hostname()
	dir, err := filepath.Abs(m.Dir)
	if err != nil {
		dir = m.Dir
	}
	return fmt.Sprintf("the folder %s of machine %q", dir, host)
}

// movedHere reports whether the store's tombstone is the one that MoveOut of this
// folder writes.
func (m *Mirror) movedHere(ctx context.Context, v *ledger.Verified) bool {
	want, err := tombstoneOf(v, m.here()).marshal()
	if err != nil {
		return false
	}
	found, err := bucket.GetSurely(ctx, m.Bucket, batchObject(v.Size), maxMarkerObject)
	return err == nil && bytes.Equal(found, want)
}
