package dossier

import (
	"fmt"
	"iter"
	"runtime"
	"sync"

	"tallystick/internal/read/history"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
)

// A Whole is a dossier whose evidence was all read and verified, each case once, so
// that what decides does not depend on what a cache says or on who asked first. Only
// [Dossier.ReadAll] makes one, and [WholeForTest]. It remembers what is missing by
// case, and no bytes.
type Whole struct {
	*Dossier
	*findings
}

// ReadAll reads all evidence that the records of the attempt name. What is missing or
// changed is not an error: Missing tells it by case. What cannot be read is one.
func (d *Dossier) ReadAll() (*Whole, error) {
	found, err := d.find(d.Cases(), (*Case).readAll)
	if err != nil {
		return nil, err
	}
	return &Whole{d, found}, nil
}

// ReadAll is [Dossier.ReadAll] of an attempt of the history, or of one as it was
// earlier.
func (r *Reading) ReadAll(a *history.Attempt) (*Whole, error) { return r.Dossier(a).ReadAll() }

// WholeForTest is a Whole of which a test tells what is missing. Only tests may name
// it, which package structure sees to.
func WholeForTest(d *Dossier, missing func(*history.Case) error) *Whole {
	found := newFindings(d)
	for c := range d.Cases() {
		if c.Index >= 0 {
			found.note(c.Index, missing(c.Case))
		}
	}
	return &Whole{d, found}
}

// readAll reads the evidence of a case. That of a case that passed must make a
// complete bundle, also if its score was lowered later: a reader may ask about it as
// it was before. Of another one every piece must be there.
func (c *Case) readAll() error {
	if c.Passed() || c.Outcome() == evidence.Passed {
		return c.CheckEvidence()
	}
	for _, d := range c.Case.Evidence {
		if err := c.of.r.whole(d); err != nil {
			return asMissing(err)
		}
	}
	return nil
}

// findings are what was found of the evidence of records, by their entry. Of the many
// whose evidence is all there they keep one bit.
type findings struct {
	first   int64    // the entry of the registration, which records come after
	read    []uint64 // a bit for each entry from there on
	missing map[int64]error
}

func newFindings(d *Dossier) *findings {
	return &findings{first: d.Index, missing: make(map[int64]error)}
}

func (f *findings) note(entry int64, missing error) {
	at := entry - f.first
	for int64(len(f.read)) <= at/64 {
		f.read = append(f.read, 0)
	}
	f.read[at/64] |= 1 << (at % 64)
	if missing != nil {
		f.missing[entry] = missing
	}
}

// find looks at the evidence of cases that have a record, on all processors.
func (d *Dossier) find(among iter.Seq[*Case], look func(*Case) error) (*findings, error) {
	found := newFindings(d)
	var mu sync.Mutex
	var unreadable error
	note := func(c *Case, err error) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err == nil, refusal.Is(err, refusal.NotFound), refusal.Is(err, refusal.DigestMismatch):
			found.note(c.Index, err)
		case unreadable == nil:
			unreadable = fmt.Errorf("attempt %s: case %s: reading its evidence: %w", d.ID, c.ID, err)
		}
	}
	cases := make(chan *Case)
	var readers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		readers.Go(func() {
			for c := range cases {
				note(c, look(c))
			}
		})
	}
	for c := range among {
		if c.Index >= 0 {
			cases <- c
		}
	}
	close(cases)
	readers.Wait()
	return found, unreadable
}

// Missing says what is missing of the evidence of a case, or was changed: a refusal
// NotFound or DigestMismatch; nil if it is whole. A case that was not read is not
// whole.
func (f *findings) Missing(c *history.Case) error {
	at := c.Index - f.first
	if at < 0 || at/64 >= int64(len(f.read)) || f.read[at/64]&(1<<(at%64)) == 0 {
		return refusal.Newf(refusal.NotFound, "the evidence of case %s (entry %d) was not read", c.ID, c.Index)
	}
	return f.missing[c.Index]
}
