package sequencer

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
)

// A Pending is an entry on its way to disk.
type Pending struct {
	kind   evidence.Kind
	body   []byte
	manual bool
	by     *sealer // of a change of signers: who seals from then on, nil for the same

	done chan struct{}
	pos  ledger.Position
	err  error
}

// Wait returns when the entry is on disk, or will not be.
func (p *Pending) Wait() (ledger.Position, error) {
	<-p.done
	return p.pos, p.err
}

// Append appends a record and returns when it is on disk. The body must be
// canonical JSON of the record's kind; the ledger adds index and time.
func (l *Ledger) Append(kind evidence.Kind, body []byte) (ledger.Position, error) {
	return l.Submit(kind, body).Wait()
}

// AppendRecord encodes a record and appends it.
func (l *Ledger) AppendRecord(kind evidence.Kind, record evidence.Body) (ledger.Position, error) {
	if err := record.Validate(); err != nil {
		return ledger.Position{}, refusal.Newf(refusal.Malformed, "%s: %w", kind, err)
	}
	body, err := canon.Marshal(record)
	if err != nil {
		return ledger.Position{}, fmt.Errorf("%s: %w", kind, err)
	}
	return l.Append(kind, body)
}

// Submit hands a record over without waiting. Entries are ordered as they are
// submitted by one goroutine. The body must not change until Wait returns.
func (l *Ledger) Submit(kind evidence.Kind, body []byte) *Pending {
	return l.submit(&Pending{kind: kind, body: body})
}

// SubmitOperator is Submit for a change of signers after which another key seals.
// The batch of the change is the last that the key before it seals.
func (l *Ledger) SubmitOperator(change *evidence.SignersChanged, key *seal.Key) (*Pending, error) {
	if err := change.Validate(); err != nil {
		return nil, refusal.Newf(refusal.Malformed, "%s: %w", change.Kind(), err)
	}
	body, err := canon.Marshal(change)
	if err != nil {
		return nil, err
	}
	by, err := newSealer(key, l.cfg.Origin)
	if err != nil {
		return nil, err
	}
	return l.submit(&Pending{kind: change.Kind(), body: body, by: by}), nil
}

// SubmitManual is Submit for what a person appends by hand. The record is
// validated and marked, so that it is never taken for the harness's own.
func (l *Ledger) SubmitManual(kind evidence.Kind, body []byte) (*Pending, error) {
	p, err := manual(kind, body)
	if err != nil {
		return nil, err
	}
	return l.submit(p), nil
}

func manual(kind evidence.Kind, body []byte) (*Pending, error) {
	_, canonical, err := evidence.ParseBody(kind, body)
	if err != nil {
		return nil, err
	}
	p := &Pending{kind: kind, body: canonical, manual: true}
	return p, p.check()
}

func (l *Ledger) submit(p *Pending) *Pending {
	p.done = make(chan struct{})
	if p.err = p.check(); p.err != nil {
		close(p.done)
		return p
	}
	l.queue <- p
	return p
}

// check refuses what would make the ledger unreadable. It is not a substitute
// for canonical bytes, which the caller promises.
func (p *Pending) check() error {
	switch n := len(p.body); {
	case n > evidence.MaxEntryBytes-1024:
		return refusal.Newf(refusal.TooLarge, "%s: the record has %d bytes, an entry takes at most %d", p.kind, n, evidence.MaxEntryBytes-1024).
			WithHint("put the large part into the evidence and its digest into the record")
	case !p.kind.Known():
		return refusal.Newf(refusal.UnknownKind, "no entry kind %q", string(p.kind))
	case n < 2 || p.body[0] != '{' || p.body[n-1] != '}' || bytes.IndexByte(p.body, '\n') >= 0:
		return refusal.Newf(refusal.Malformed, "%s: the record is not one canonical JSON object", p.kind)
	}
	return evidence.CheckDepth(p.kind, p.body)
}

// Close waits for what was submitted, syncs the memory and lets the next
// writer in. Nothing may be submitted any more.
func (l *Ledger) Close() error {
	close(l.queue)
	<-l.closed
	err := l.broken
	closers := []func() error{l.log.Close, l.memory.close, l.lock.Close}
	if l.cfg.Remote != nil {
		closers = append(closers, l.cfg.Remote.Close)
	}
	for _, c := range closers {
		if cerr := c(); err == nil && cerr != nil {
			err = cerr
		}
	}
	return err
}

// sequence is the one goroutine that orders, chains, seals and writes: a lone
// writer pays one sync an entry, many writers share one.
func (l *Ledger) sequence() {
	defer close(l.closed)
	var batch []*Pending
	for first := range l.queue {
		batch = l.gather(append(batch[:0], first))
		l.commit(batch)
	}
}

// gather adds what is waiting to a batch that has its first entry. When nothing
// waits it lets the other goroutines run once: those about to submit an entry
// are served by the same sync, and a lone writer is not kept waiting.
func (l *Ledger) gather(batch []*Pending) []*Pending {
	size, yielded := len(batch[0].body), false
	for len(batch) < maxBatchEntries && size < maxBatchBytes && !batch[len(batch)-1].alone() {
		select {
		case p, open := <-l.queue:
			if !open {
				return batch
			}
			batch = append(batch, p)
			size += len(p.body)
			yielded = false
		default:
			if yielded {
				return batch
			}
			runtime.Gosched()
			yielded = true
		}
	}
	return batch
}

// alone reports whether the entry must end its batch: a change of signers is
// in force from the next seal on.
func (p *Pending) alone() bool { return p.kind == evidence.SignersChangedKind }

// commit writes one batch. All of it is acknowledged or none.
func (l *Ledger) commit(batch []*Pending) {
	if l.broken == nil {
		l.broken = l.write(batch)
	}
	for _, p := range batch {
		if p.err == nil {
			p.err = l.broken
		}
		close(p.done)
	}
}

// write frames, seals and writes a batch. An entry that is refused for itself
// is left out and the rest goes on; any other error ends this writer.
func (l *Ledger) write(batch []*Pending) error {
	at, late, err := l.clock()
	if err == nil {
		err = l.by.checkOperator(l.signers, at)
	}
	if err != nil {
		return err
	}
	l.buf, l.framed = l.buf[:0], nil
	first := l.chain.Size()
	if late != nil {
		l.frame(&Pending{kind: evidence.IntegrityEventKind, body: late}, at)
	}
	accepted := 0
	next, by := l.signers, l.by
	for _, p := range batch {
		if p.kind == evidence.LedgerOpened && l.chain.Size() > 0 {
			p.err = refusal.Newf(refusal.Malformed, "%s stands only at the beginning of a ledger", p.kind)
			continue
		}
		if p.kind == evidence.SignersChangedKind {
			changed, err := l.extendSigners(p.body, at)
			if err == nil && p.by != nil {
				err = p.by.checkOperator(changed, at)
			}
			if err != nil {
				p.err = err
				continue
			}
			if next = changed; p.by != nil {
				by = p.by
			}
		}
		if err := l.once.Add(p.kind, p.body, l.chain.Size()); err != nil {
			p.err = err
			continue
		}
		l.frame(p, at)
		accepted++
	}
	if accepted == 0 && late == nil {
		return nil
	}
	head := ledger.TreeHead{Origin: l.cfg.Origin, Size: l.chain.Size(), Root: l.chain.Root()}
	signature, err := l.by.sign(head)
	if err != nil {
		return err
	}
	checkpoint := ledger.AssembleCheckpoint(head, signature)
	if by != l.by {
		if checkpoint, err = by.checkpoint(head); err != nil {
			return err
		}
	}
	l.buf = ledger.AppendSealLine(l.buf, head.Size, l.chain.Head(), signature)
	if l.cfg.Remote != nil {
		// Crash after this: the batch is part of the ledger, though the caller
		// was not told, and the next opening fetches it.
		if err := l.cfg.Remote.Commit(first, l.buf); err != nil {
			return err
		}
	}
	if l.log.Size() > 0 && l.log.Size()+int64(len(l.buf)) > l.cfg.segmentBytes {
		// The new segment's name must be the index of its first entry.
		if err := l.log.Rotate(uint64(first)); err != nil {
			return err
		}
	}
	// Crash before this returns: unsealed or whole, it was never acknowledged.
	if err := l.log.Append(l.buf); err != nil {
		return err
	}
	l.last, l.signers = at, next
	l.mu.Lock()
	l.by = by
	l.tip = Tip{head, l.chain.Head(), checkpoint, next, at}
	l.mu.Unlock()
	if l.cfg.Committed != nil && head.Size > 1 {
		l.cfg.Committed(l.framed, l.tip)
	}
	// Crash here: the memory is behind the ledger, which is allowed.
	return l.memory.remember(head)
}

// frame adds one entry to the batch.
func (l *Ledger) frame(p *Pending, at evidence.Time) {
	l.line = evidence.AppendEntry(l.line[:0], p.body, p.kind, p.manual, at)
	p.pos = l.chain.Append(digest.ContentOf(l.line))
	l.buf = ledger.AppendEntryLine(l.buf, l.line, p.pos.Head)
	if l.cfg.Committed != nil {
		l.framed = append(l.framed, ledger.Record{
			Position: p.pos, Raw: slices.Clone(l.line),
			Envelope: evidence.Envelope{Body: p.body, Kind: p.kind, Manual: p.manual, Time: at},
		})
	}
}

// clock returns the time of the next batch. Entries never go back in time: a
// clock that does is overruled, and if it is far behind that is recorded.
func (l *Ledger) clock() (at evidence.Time, late []byte, err error) {
	now := evidence.At(l.cfg.Now())
	if _, err := now.MarshalText(); err != nil {
		return now, nil, refusal.Newf(refusal.Failed, "the clock of this machine: %w", err)
	}
	if !now.Before(l.last) {
		l.lateTold = false
		return now, nil, nil
	}
	if l.last.Go().Sub(now.Go()) <= clockTolerance || l.lateTold {
		return l.last, nil, nil
	}
	l.lateTold = true
	event := evidence.IntegrityEvent{
		Name: "ClockWentBack", Severity: evidence.Warn, Boundary: "TB-4",
		Detail: fmt.Sprintf("the clock says %s, the last entry is of %s; entries keep that time until the clock has passed it", now, l.last),
	}
	late, err = canon.Marshal(event)
	return l.last, late, err
}

// stamp is now, or the time of the last entry if that is later.
func (l *Ledger) stamp() evidence.Time {
	now := evidence.At(l.cfg.Now())
	if now.Before(l.last) {
		return l.last
	}
	return now
}

// extendSigners verifies a change of signers before it is written, at the time
// it will carry.
func (l *Ledger) extendSigners(body []byte, at evidence.Time) (*seal.Signers, error) {
	record, err := evidence.DecodeBody(evidence.SignersChangedKind, body)
	if err != nil {
		return nil, err
	}
	return ledger.ExtendSigners(l.signers, record.(*evidence.SignersChanged), at)
}
