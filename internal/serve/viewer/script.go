package viewer

import (
	"context"

	"tallystick/internal/read/dossier"
)

// A script is the transcript of a case. A long one is verified beside the pages, which
// show a window of it meanwhile and say that it is being checked.
type script struct {
	opened *dossier.OpenTranscript
	done   chan struct{} // closed when it was verified, or refused
	// Set before done is closed.
	verified *dossier.Transcript
	err      error

	settled bool // guarded by the viewer's memo: a page took note of the result
}

// maxScripts is how many are remembered, and maxScriptBytes how long they are together:
// the outline of one takes as long to make as all of it takes to read, and a tenth of
// its bytes to keep.
const (
	maxScripts     = 4
	maxScriptBytes = 200 << 20
)

func (s *script) verify() {
	s.verified, s.err = s.opened.Verify()
	close(s.done)
}

// finished reports whether it was verified, or refused.
func (s *script) finished() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// begin gives the transcript of a case, whose verification has at least begun. One that
// is short has been verified, and so has one that was refused the last time: its page
// must not say again that it is being checked.
func (v *Viewer) begin(c *dossier.Case) (*script, error) {
	held, err := c.IsHidden() // it may be since the last time
	if err != nil {
		return nil, err
	}
	v.memo.Lock()
	s := v.scripts[c.Index]
	refused := s != nil && s.finished() && s.err != nil
	v.memo.Unlock()
	if s != nil && !held && !refused {
		if s.opened.Bytes <= v.atOnce {
			<-s.done // another page verifies it just now
		}
		return s, nil
	}
	opened, err := c.OpenTranscript()
	if err != nil {
		return nil, err
	}
	s = &script{opened: opened, done: make(chan struct{})}
	if beside := v.keep(c.Index, s) && !refused && opened.Bytes > v.atOnce && !v.config.Still; !beside {
		s.verify()
		return s, nil
	}
	go func() {
		v.beside <- struct{}{} // one at a time
		s.verify()
		<-v.beside
	}()
	return s, nil
}

// keep remembers a transcript. It forgets others that were verified if there are many,
// and reports whether another may be verified beside the pages.
func (v *Viewer) keep(index int64, s *script) (room bool) {
	v.memo.Lock()
	defer v.memo.Unlock()
	bytes := s.opened.Bytes
	for _, old := range v.scripts {
		bytes += old.opened.Bytes
	}
	if len(v.scripts) >= maxScripts || bytes > v.maxKept {
		for i, old := range v.scripts {
			if old.finished() {
				v.takeNote(old)
				delete(v.scripts, i)
			}
		}
	}
	room = len(v.scripts) < maxScripts
	v.scripts[index] = s
	return room
}

// settle takes note of the result; nil and no error if there is none yet. What was
// refused is recorded.
func (v *Viewer) settle(s *script) (*dossier.Transcript, error) {
	if !s.finished() {
		return nil, nil
	}
	v.memo.Lock()
	defer v.memo.Unlock()
	v.takeNote(s)
	return s.verified, s.err
}

// takeNote closes a transcript that was verified, and records why one was refused. Memo
// is held.
func (v *Viewer) takeNote(s *script) {
	if s.settled {
		return
	}
	s.settled = true
	s.opened.Close()
	if s.err != nil {
		s.err = v.r.Refused(s.err)
	}
}

// script is the verified transcript of a case, however long that takes.
func (v *Viewer) script(c *dossier.Case) (*dossier.Transcript, error) {
	s, err := v.begin(c)
	if err != nil {
		return nil, err
	}
	<-s.done
	return v.settle(s)
}

// waitFor waits, without the lock, until a transcript was verified or no page asks for it.
func waitFor(ctx context.Context, s *script) error {
	select {
	case <-s.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
