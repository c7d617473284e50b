package dossier

import (
	"iter"
	"sync"

	"tallystick/internal/read/history"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
)

// A Display answers what is shown to people and decides nothing, from a cache
// where it can. A row of the cache says that the evidence of a record was found
// whole, and in which files; it holds as long as these are untouched.
//
// The cache is a folder of the workspace that may be deleted at any time, and that
// a process that can write there may forge. So gate, promote, verify and whatever else
// decides or vouches takes a [Whole]; package structure has the list of those who
// may ask for a Display.
type Display struct {
	r *Reading

	mu   sync.Mutex
	rows map[string]*rows // by attempt
}

// ForDisplay returns a Display of what was read. Close it to keep what it found.
func (r *Reading) ForDisplay() *Display { return &Display{r: r, rows: make(map[string]*rows)} }

// CacheDir is the folder of what is derived and may be deleted at any time.
func (p *Place) CacheDir() string { return p.Private("cache") }

// A Shown is a dossier of whose cases that passed the evidence was looked at, or
// known from the cache. It tells what is missing as a [Whole] does, and nothing that
// decides takes one: only [Display.Dossier] makes it.
type Shown struct {
	*Dossier
	*findings
}

// Dossier looks at the evidence of the cases of an attempt that passed.
func (d *Display) Dossier(a *history.Attempt) (*Shown, error) {
	one := d.r.Dossier(a)
	found, err := one.find(one.passed(), d.look)
	if err != nil {
		return nil, err
	}
	return &Shown{one, found}, nil
}

// passed are the cases that passed, as recorded or as corrected.
func (d *Dossier) passed() iter.Seq[*Case] {
	return func(yield func(*Case) bool) {
		for c := range d.Cases() {
			if (c.Passed() || c.Outcome() == evidence.Passed) && !yield(c) {
				return
			}
		}
	}
}

// look is [Case.CheckEvidence] for display.
func (d *Display) look(c *Case) error {
	a, key := c.of.Attempt, rowKey(c.of.Attempt, c.Case)
	if d.known(a.ID, key) {
		return nil
	}
	var named []digest.Content
	err := c.packable(func(piece digest.Content) { named = append(named, piece) })
	if err == nil {
		d.note(a.ID, key, named)
	}
	return asMissing(err)
}

// Reading is what is displayed.
func (d *Display) Reading() *Reading { return d.r }

func (d *Display) known(attempt string, key digest.Content) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := d.rows[attempt]
	if r == nil {
		r = loadRows(d.r.fs(), d.r.CacheDir(), d.r.EvidenceDir(), attempt)
		d.rows[attempt] = r
	}
	return r.Has(key)
}

// note remembers that the evidence of a record is whole.
func (d *Display) note(attempt string, key digest.Content, named []digest.Content) {
	files := make(map[string]bool)
	for _, piece := range named {
		files[d.r.vault.FileOf(piece)] = true
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.rows[attempt].Add(key, files)
}

// Close writes down what is new. A failure to write is ignored: the
// next one derives it again.
func (d *Display) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range d.rows {
		r.Save()
	}
}
