package dossier

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/sequencer"
)

// An Appended is where an entry was put.
type Appended struct {
	Index int64     `json:"index"`
	Head  digest.ID `json:"head"`
}

// aheadLimit bounds how many bodies wait for the disk at once: enough to fill
// a batch, few enough to hold in memory.
const aheadLimit = 4096

// AppendLines appends records of a kind by hand, one JSON body a line, as fast as
// they come, and answers each when it is durable. A bad line stops the reading;
// what was accepted before it is on disk and answered. So does an answer that
// cannot be given: the caller must not continue for hours into a full disk or a
// closed pipe. Wait is how long another writer is waited for.
func (p *Place) AppendLines(ctx context.Context, kind evidence.Kind, in io.Reader, wait time.Duration, answer func(Appended) error) error {
	l, err := p.OpenLedgerWithin(ctx, wait)
	if err != nil {
		return err
	}
	err = appendLines(ctx, l, kind, in, answer)
	if cerr := l.Close(); err == nil {
		err = cerr
	}
	return err
}

func appendLines(ctx context.Context, l *sequencer.Ledger, kind evidence.Kind, in io.Reader, answer func(Appended) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	pending := make(chan *sequencer.Pending, aheadLimit)
	answered := make(chan error, 1)
	go func() {
		var first error
		for p := range pending {
			pos, err := p.Wait()
			if err == nil && first == nil {
				err = answer(Appended{pos.Index, pos.Head})
			}
			if err != nil && first == nil {
				first = err
				stop()
			}
		}
		answered <- first
	}()
	err := submitLines(ctx, in, l, kind, pending)
	close(pending)
	if aerr := <-answered; aerr != nil {
		return aerr
	}
	return err
}

func submitLines(ctx context.Context, in io.Reader, l *sequencer.Ledger, kind evidence.Kind, pending chan<- *sequencer.Pending) error {
	lines := readBodies(ctx, in)
	for n := 1; ; n++ {
		var line inputLine
		var more bool
		select {
		case <-ctx.Done():
			return ctx.Err()
		case line, more = <-lines:
		}
		if !more {
			return nil
		}
		if line.err != nil {
			return fmt.Errorf("standard input line %d: %w", n, line.err)
		}
		if len(bytes.TrimSpace(line.body)) == 0 {
			continue
		}
		p, err := l.SubmitManual(kind, line.body)
		// Whether a change of signers is accepted depends on the entries
		// before it, so only the sequencer can tell.
		if err == nil && kind == evidence.SignersChangedKind {
			_, err = p.Wait()
		}
		if err != nil {
			return fmt.Errorf("standard input line %d: %w", n, err)
		}
		pending <- p
	}
}

type inputLine struct {
	body []byte
	err  error
}

// readBodies reads lines until ctx ends. It reads in a goroutine of its own: a
// read cannot be interrupted, and a signal must end the command even while
// no process writes.
func readBodies(ctx context.Context, in io.Reader) <-chan inputLine {
	lines := make(chan inputLine)
	send := func(l inputLine) bool {
		select {
		case lines <- l:
			return true
		case <-ctx.Done():
			return false
		}
	}
	go func() {
		defer close(lines)
		s := bufio.NewScanner(in)
		s.Buffer(make([]byte, 64<<10), evidence.MaxEntryBytes)
		for s.Scan() {
			if !send(inputLine{body: bytes.Clone(s.Bytes())}) {
				return
			}
		}
		if err := s.Err(); errors.Is(err, bufio.ErrTooLong) {
			send(inputLine{err: refusal.Newf(refusal.TooLarge, "longer than the %d bytes of an entry", evidence.MaxEntryBytes).
				WithHint("put the large part into the evidence and its digest into the record")})
		} else if err != nil {
			send(inputLine{err: refusal.Newf(refusal.Unreadable, "reading: %w", err)})
		}
	}()
	return lines
}
