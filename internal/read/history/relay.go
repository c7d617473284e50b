package history

import (
	"sync/atomic"

	"tallystick/internal/record/ledger"
)

// A relay visits records on a goroutine of its own, in order, while the walk
// over the ledger runs: counting takes as long as verifying, and there is
// another processor for it.
type relay struct {
	visit  func(ledger.Record) error
	full   chan *load
	empty  chan *load
	filled *load // being filled
	closed bool

	failed atomic.Bool // err is set
	err    error       // the first of visit; read it after done
	done   chan struct{}
}

// A load is some records and their bytes, which the walk would use again.
type load struct {
	records []ledger.Record
	bytes   []byte
}

const (
	loads       = 8
	loadBytes   = 256 << 10
	loadRecords = 512
)

func newRelay(visit func(ledger.Record) error) *relay {
	r := &relay{visit: visit, full: make(chan *load, loads), empty: make(chan *load, loads), done: make(chan struct{})}
	for range loads {
		r.empty <- &load{records: make([]ledger.Record, 0, loadRecords), bytes: make([]byte, 0, loadBytes)}
	}
	go r.work()
	return r
}

func (r *relay) work() {
	defer close(r.done)
	for l := range r.full {
		for i := range l.records {
			if r.failed.Load() {
				break
			}
			if err := r.visit(l.records[i]); err != nil {
				r.err = err
				r.failed.Store(true)
			}
		}
		clear(l.records)
		l.records, l.bytes = l.records[:0], l.bytes[:0]
		r.empty <- l
	}
}

// add is for [ledger.Options].Visit. It ends the walk once a record was wrong.
func (r *relay) add(rec ledger.Record) error {
	if r.failed.Load() {
		return r.close()
	}
	size := len(rec.Envelope.Body)
	if l := r.filled; l != nil && (len(l.records) == cap(l.records) || len(l.bytes)+size > cap(l.bytes)) {
		r.full <- l
		r.filled = nil
	}
	if r.filled == nil {
		r.filled = <-r.empty
	}
	l := r.filled
	if size > cap(l.bytes) {
		rec.Envelope.Body = append([]byte(nil), rec.Envelope.Body...)
	} else {
		// Within the capacity, so what was put there before stays in place.
		l.bytes = append(l.bytes, rec.Envelope.Body...)
		rec.Envelope.Body = l.bytes[len(l.bytes)-size:]
	}
	rec.Raw = nil
	l.records = append(l.records, rec)
	return nil
}

// close waits until every record was visited, and returns the first error.
func (r *relay) close() error {
	if !r.closed {
		r.closed = true
		if r.filled != nil {
			r.full <- r.filled
		}
		close(r.full)
	}
	<-r.done
	return r.err
}
