package mirror

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"tallystick/internal/record/bucket"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/sequencer"
	"tallystick/internal/record/store"
)

// A round of a pull holds so many bytes in memory, which are verified and written
// together, and fetches so many objects at once.
const (
	roundBytes = 32 << 20
	fetchers   = 16
)

// A tail is where a folder's copy ends.
type tail struct {
	size    int64  // entries
	first   int64  // index of the first entry of its last batch
	batch   []byte // the last batch
	segment string // its file
	start   int64  // byte of the file at which that batch begins
	end     int64  // byte at which it ends
	torn    []byte // what a crash left after it
}

// Pull brings the folder up to date with the store. It refuses a store that does
// not have what the folder has: nothing is overwritten on either side. If a writer
// of this machine is at work, the folder is as new as the store was when that
// began, and its own entries are in it.
func (m *Mirror) Pull(ctx context.Context) error {
	lock, err := m.pullLock(ctx)
	if err != nil {
		return err
	}
	defer lock.Close()
	at, cancel := context.WithCancel(ctx)
	cancel() // do not wait for a writer
	writer, err := store.TakeLock(at, m.FS, filepath.Join(m.Dir, "lock"))
	if refusal.Is(err, refusal.LedgerBusy) {
		return nil
	}
	if err != nil {
		return err
	}
	defer writer.Close()
	if err := m.pull(ctx); err != nil {
		return err
	}
	return m.pullCheckpoints(ctx)
}

// pull is Pull for who holds the locks.
func (m *Mirror) pull(ctx context.Context) error {
	if err := m.checkLedger(ctx); err != nil {
		return err
	}
	have, err := m.localTail()
	if err != nil {
		return err
	}
	if err := m.compareLast(ctx, have); err != nil {
		return err
	}
	var known *ledger.Verified
	for {
		round, err := m.fetch(ctx, have.size)
		if err != nil {
			return err
		}
		if len(round) == 0 {
			return nil
		}
		if have, known, err = m.add(have, round, known); err != nil {
			return err
		}
	}
}

// localTail reads the end of the folder's last segment.
func (m *Mirror) localTail() (t tail, err error) {
	if err := store.MakeDir(m.FS, m.SegmentsDir(), 0o700); err != nil {
		return t, err
	}
	segments, err := store.Segments(m.FS, m.SegmentsDir())
	if err != nil {
		return t, err
	}
	// A crash may have left an empty segment, whose name is the size.
	for i := len(segments) - 1; i >= 0; i-- {
		s := segments[i]
		f, err := m.FS.OpenFile(s.Path, os.O_RDONLY, 0)
		if err != nil {
			return t, refusal.Newf(refusal.Unreadable, "reading %s: %w", s.Path, err)
		}
		found := tail{size: int64(s.First), segment: s.Path}
		found.end, err = ledger.Batches(f, int64(s.First), func(b ledger.Batch) error {
			found.size, found.first, found.start = b.Size, b.First, b.Start
			found.batch = append(found.batch[:0], b.Lines...)
			return nil
		})
		if err == nil {
			found.torn, err = io.ReadAll(io.NewSectionReader(f, found.end, s.Size-found.end))
		}
		f.Close()
		if err != nil {
			return t, refusal.Newf(refusal.ChainTamperDetected, "%s: %w", s.Path, err).WithHint("the local copy of the ledger was changed; set %s aside, and it is fetched anew", m.SegmentsDir())
		}
		if found.batch != nil || i == 0 {
			return found, nil
		}
	}
	return t, nil
}

// compareLast looks for the folder's last batch in the store: two copies with
// the same last batch have the same history, since its seal covers all of it.
func (m *Mirror) compareLast(ctx context.Context, have tail) error {
	if have.batch == nil {
		return nil
	}
	name := batchObject(have.first)
	there, err := bucket.GetSurely(ctx, m.Bucket, name, ledger.MaxBatchBytes)
	switch {
	case errors.Is(err, bucket.ErrNotFound):
		return refusal.Newf(refusal.HistoryRolledBack, "%s is gone: this machine has the entries %d to %d, and the store does not", m.place(name), have.first, have.size-1).
			WithHint("the end of the stored ledger was cut off, or tally.yaml names another store; nothing is appended, and the copy in %s is kept", m.Dir)
	case err == nil && !bytes.Equal(there, have.batch), errors.Is(err, bucket.ErrTooLarge):
		return refusal.Newf(refusal.HistoryForked, "%s holds other entries than this machine has at %d", m.place(name), have.first).
			WithHint("the stored ledger was rewritten, or the copy in %s was; keep both and compare them", m.Dir)
	case err != nil:
		return m.failed("reading "+name, err)
	}
	return nil
}

// fetch gets the batches from an index on, as many as one round holds. The next
// batch is asked for by its name: a listing that lags behind hides nothing.
func (m *Mirror) fetch(ctx context.Context, size int64) (round [][]byte, err error) {
	var ahead []string // names that a listing gave
	bytes := 0
	for bytes < roundBytes {
		var lines []byte
		if len(ahead) == 0 {
			lines, err = bucket.GetSurely(ctx, m.Bucket, batchObject(size), ledger.MaxBatchBytes)
			if errors.Is(err, bucket.ErrNotFound) {
				return round, m.nothingBeyond(ctx, size)
			}
			if err != nil {
				return nil, m.failed("reading "+batchObject(size), err)
			}
			if size, err = m.take(&round, lines, size); err != nil {
				return nil, err
			}
			bytes += len(lines)
			ahead, err = m.namesFrom(ctx, size)
			if err != nil {
				return nil, err
			}
			continue
		}
		n := min(len(ahead), fetchers)
		got, err := m.getAll(ctx, ahead[:n])
		if err != nil {
			return nil, err
		}
		next := ahead[n:]
		for i, lines := range got {
			if ahead[i] != batchObject(size) {
				next = nil // one is missing in between: it is asked for by its name
				break
			}
			if size, err = m.take(&round, lines, size); err != nil {
				return nil, err
			}
			bytes += len(lines)
		}
		ahead = next
	}
	return round, nil
}

// take adds a fetched batch to a round and returns the next index.
func (m *Mirror) take(round *[][]byte, lines []byte, first int64) (next int64, err error) {
	if t, moved := parseTombstone(lines); moved {
		return 0, t.refusal(m.Address.String())
	}
	b, err := ledger.ParseBatch(lines, first)
	if err != nil {
		return 0, refusal.Newf(refusal.ChainTamperDetected, "%s: %w", m.place(batchObject(first)), err).
			WithHint("the object was changed after it was stored; restore it; the copy in %s ends before it", m.Dir)
	}
	*round = append(*round, lines)
	return b.Size, nil
}

// namesFrom lists the batches from an index on, as far as one request tells.
func (m *Mirror) namesFrom(ctx context.Context, size int64) ([]string, error) {
	var names []string
	for o, err := range m.Bucket.List(ctx, segmentsPrefix, batchObject(size-1)) {
		if err != nil {
			return nil, m.failed("listing "+segmentsPrefix, err)
		}
		if len(names) == 0 && o.Name != batchObject(size) {
			return nil, nil
		}
		if names = append(names, o.Name); len(names) == 1000 {
			break
		}
	}
	return names, nil
}

// nothingBeyond refuses a store that has batches after one that is missing: a
// writer never leaves a gap.
func (m *Mirror) nothingBeyond(ctx context.Context, size int64) error {
	for o, err := range m.Bucket.List(ctx, segmentsPrefix, batchObject(size)) {
		if err != nil {
			return m.failed("listing "+segmentsPrefix, err)
		}
		// One that another machine wrote a moment ago may be met here: ask again.
		if _, err := bucket.GetSurely(ctx, m.Bucket, batchObject(size), ledger.MaxBatchBytes); err == nil || errors.Is(err, bucket.ErrTooLarge) {
			return nil
		} else if !errors.Is(err, bucket.ErrNotFound) {
			return m.failed("reading "+batchObject(size), err)
		}
		return refusal.Newf(refusal.HistoryRolledBack, "%s is gone, and %s is still there: entries were taken out of the stored ledger", m.place(batchObject(size)), o.Name).
			WithHint("restore the object; nothing is appended until then")
	}
	return nil
}

// getAll fetches objects side by side.
func (m *Mirror) getAll(ctx context.Context, names []string) ([][]byte, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type result struct {
		i    int
		data []byte
		err  error
	}
	results := make(chan result, len(names))
	for i, name := range names {
		go func() {
			data, err := bucket.GetSurely(ctx, m.Bucket, name, ledger.MaxBatchBytes)
			results <- result{i, data, err}
		}()
	}
	out := make([][]byte, len(names))
	for range names {
		r := <-results
		if errors.Is(r.err, bucket.ErrNotFound) {
			return nil, refusal.Newf(refusal.HistoryRolledBack, "%s was listed and is gone", m.place(names[r.i]))
		}
		if r.err != nil {
			return nil, m.failed("reading "+names[r.i], r.err)
		}
		out[r.i] = r.data
	}
	return out, nil
}

// add verifies a round as the continuation of the folder and appends it. What
// does not verify is never written.
func (m *Mirror) add(have tail, round [][]byte, known *ledger.Verified) (tail, *ledger.Verified, error) {
	if err := m.setAside(have, round[0]); err != nil {
		return have, nil, err
	}
	all := bytes.Join(round, nil)
	v, err := m.verify(have, all, known)
	if err != nil {
		return have, nil, err
	}
	log, err := store.OpenLog(m.FS, m.SegmentsDir(), have.start, have.end)
	if err != nil {
		return have, nil, err
	}
	defer log.Close()
	if log.Size() > 0 && log.Size()+int64(len(all)) > sequencer.SegmentBytes {
		if err := log.Rotate(uint64(have.size)); err != nil {
			return have, nil, err
		}
	}
	// Crash before this returns: whole batches and perhaps a torn one, which the
	// next pull recognises as the beginning of the store's.
	if err := log.Append(all); err != nil {
		return have, nil, err
	}
	now, err := m.localTail()
	return now, v, err
}

// setAside cuts off what a crash left of a batch that the store has whole.
func (m *Mirror) setAside(have tail, next []byte) error {
	if len(have.torn) == 0 {
		return nil
	}
	if !bytes.HasPrefix(next, have.torn) {
		return refusal.Newf(refusal.HistoryForked, "%s ends in %d bytes that no seal covers, and the store continues otherwise", have.segment, len(have.torn)).
			WithHint(`"tally ledger repair" sets them aside`)
	}
	keep := filepath.Join(m.TornDir(), fmt.Sprintf("%s-%d.torn", filepath.Base(have.segment), have.end))
	return store.CutTail(m.FS, have.segment, have.end, keep)
}

// verify verifies the folder and what is to be appended to it.
func (m *Mirror) verify(have tail, more []byte, known *ledger.Verified) (*ledger.Verified, error) {
	segments, err := m.Segments()
	if err != nil {
		return nil, err
	}
	o := ledger.Options{Origin: m.Origin, TrustRoot: m.TrustRoot, From: known}
	if have.size > 0 {
		if known, err = m.Verify(o); err != nil {
			return nil, err
		}
		o.From = known
	} else {
		segments = nil // at most an empty one
	}
	segments = append(segments, ledger.Segment{
		Name: filepath.Base(batchObject(have.size)), First: have.size, Size: int64(len(more)),
		Open: func(from int64) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(more[from:])), nil },
	})
	if _, err = ledger.Verify(segments, o); err != nil {
		if problem, wrong := errors.AsType[*ledger.Problem](err); wrong {
			return nil, refusal.Newf(problem.Name, "%s, from entry %d on: %w", m.Address, have.size, problem).
				WithHint("the stored ledger was changed; nothing of it was taken over, and the copy in %s is kept", m.Dir)
		}
		return nil, err
	}
	return known, nil
}
