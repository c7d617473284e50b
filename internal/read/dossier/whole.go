package dossier

import (
	"fmt"
	"runtime"
	"sync"

	"tallystick/internal/read/history"
	"tallystick/internal/record/refusal"
)

// A Whole is a dossier whose evidence was all read and verified, each case once, so
// that what decides does not depend on what a cache says or on who asked first. Only
// [Dossier.ReadAll] makes one. It remembers what is missing by case, and no bytes.
type Whole struct {
	*Dossier
	found map[int64]error // by the entry of the record; nil where all is there
}

// ReadAll reads all evidence that the records of the attempt name. What is missing or
// changed is no error: [Whole.Missing] tells it by case. What cannot be read is one.
func (d *Dossier) ReadAll() (*Whole, error) {
	w := &Whole{Dossier: d, found: make(map[int64]error)}
	var mu sync.Mutex
	var unreadable error
	note := func(c *Case, err error) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err == nil, refusal.Is(err, refusal.NotFound), refusal.Is(err, refusal.DigestMismatch):
			w.found[c.Index] = err
		case unreadable == nil:
			unreadable = fmt.Errorf("attempt %s: case %s: reading its evidence: %w", d.ID, c.ID, err)
		}
	}
	cases := make(chan *Case)
	var readers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		readers.Go(func() {
			for c := range cases {
				note(c, c.readAll())
			}
		})
	}
	for c := range d.Cases() {
		if c.Index >= 0 {
			cases <- c
		}
	}
	close(cases)
	readers.Wait()
	if unreadable != nil {
		return nil, unreadable
	}
	return w, nil
}

// readAll reads the evidence of a case. That of a case that passed must make a
// complete bundle; of another one every piece must be there.
func (c *Case) readAll() error {
	if c.Passed() {
		return c.CheckEvidence()
	}
	for _, d := range c.Case.Evidence {
		if err := c.of.r.whole(d); err != nil {
			return asMissing(err)
		}
	}
	return nil
}

// Missing says what is missing of the evidence of a case, or was changed: a refusal
// NotFound or DigestMismatch; nil if it is whole. A case that was not read is not
// whole.
func (w *Whole) Missing(c *history.Case) error {
	err, read := w.found[c.Index]
	if !read {
		return refusal.Newf(refusal.NotFound, "case %s (entry %d) is not among the records of attempt %s", c.ID, c.Index, w.ID)
	}
	return err
}
