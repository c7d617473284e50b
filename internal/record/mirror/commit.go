package mirror

import (
	"context"
	"errors"
	"time"

	"tallystick/internal/record/bucket"
	"tallystick/internal/record/refusal"
)

// commitTimeout bounds what one batch may take with all its repetitions. After
// it the batch may or may not be there; the next opening tells.
const commitTimeout = 5 * time.Minute

// A Writer puts batches into the store. It is a [sequencer.Remote].
type Writer struct {
	m     *Mirror
	lease *lease
}

// Begin takes the lease, brings the folder up to date and returns what writes to
// the store. It waits for another machine until ctx ends.
func (m *Mirror) Begin(ctx context.Context) (*Writer, error) {
	ask := context.WithoutCancel(ctx) // ctx is for waiting
	if err := m.checkLedger(ask); err != nil {
		return nil, err
	}
	if err := m.checkConditions(ask); err != nil {
		return nil, err
	}
	l, err := m.takeLease(ctx)
	if err != nil {
		return nil, err
	}
	// What others wrote while this one waited.
	if err := m.Pull(ask); err != nil {
		l.release()
		return nil, err
	}
	return &Writer{m, l}, nil
}

// Commit stores the evidence that the batch may name, and then the batch.
func (w *Writer) Commit(first int64, batch []byte) error {
	if err := w.lease.check(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), commitTimeout)
	defer cancel()
	if err := w.m.pushEvidence(ctx); err != nil {
		return err
	}
	return w.m.createBatch(ctx, first, batch)
}

// createBatch decides who continues the ledger: the store takes one batch of a
// name and no other.
func (m *Mirror) createBatch(ctx context.Context, first int64, batch []byte) error {
	name := batchObject(first)
	err := bucket.CreateSame(ctx, m.Bucket, name, batch)
	if errors.Is(err, bucket.ErrDiffers) {
		return refusal.Newf(refusal.StoreConflict, "another machine appended entry %d to the ledger at %s first", first, m.Address).
			WithHint("nothing of this batch was acknowledged; run the command again: it begins with what the other machine wrote")
	}
	if err != nil {
		return m.failed("storing "+name, err)
	}
	return nil
}

// Close gives the lease back and notes what evidence is in the store.
func (w *Writer) Close() error {
	err := w.m.noteStored()
	if rerr := w.lease.release(); err == nil {
		err = rerr
	}
	return err
}
