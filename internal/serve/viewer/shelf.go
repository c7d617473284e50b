package viewer

import (
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path"
	"sync"
	"time"

	"tallystick/internal/app/ceremony"
	"tallystick/internal/read/dossier"
	"tallystick/internal/run/bench"
)

// A shelf is what pages remember of a class of the workspace while its files stay as they
// are: of a hundred thousand cases, to verify it again takes longer than people like to
// wait. It is for display only: what decides verifies the bytes.
type shelf struct {
	class string
	look  string        // how the files looked, and who was trusted
	done  chan struct{} // closed when the class was verified

	result ceremony.VerifiedClass
	bench  *bench.Verified // of the one that is held, if it verifies
	err    error
}

// shelves are those of a viewer. The cases are held of one class, the last that were
// looked at.
type shelves struct {
	mu   sync.Mutex
	of   map[string]*shelf
	held *shelf
}

// shelfWait is how long the list of classes waits for one that is being verified.
const shelfWait = 500 * time.Millisecond

// shelfAtOnce is how many bytes of a class a page waits for; a larger one is verified
// beside it.
const shelfAtOnce = 4 << 20

// shelf verifies a class, unless its files look as they did: a large one beside the page,
// which then waits for a moment and no longer, because both hold the ledger as it is.
func (v *Viewer) shelf(class string) (*shelf, error) {
	look, size, err := v.lookOf(class)
	if err != nil {
		return nil, err
	}
	v.shelves.mu.Lock()
	if s := v.shelves.of[class]; s != nil && s.look == look {
		v.shelves.mu.Unlock()
		return s, nil
	}
	s := &shelf{class: class, look: look, done: make(chan struct{})}
	if v.shelves.of == nil {
		v.shelves.of = make(map[string]*shelf)
	}
	v.shelves.of[class] = s
	v.shelves.mu.Unlock()
	if size <= shelfAtOnce || v.config.Still { // a file is never asked for again
		v.fill(s)
		return s, nil
	}
	go func() {
		v.mu.RLock()
		defer v.mu.RUnlock()
		v.fill(s)
	}()
	return s, nil
}

// fill verifies a class. The caller holds the ledger as it is.
func (v *Viewer) fill(s *shelf) {
	defer close(s.done)
	s.err = v.withCorpus(func(c *dossier.Corpus) (err error) {
		s.result, _, err = ceremony.VerifyClass(c, s.class)
		return err
	})
	if s.err != nil && s.result.Class == "" { // the workspace could not be opened
		s.result = ceremony.VerifiedClass{Class: s.class, Error: s.err.Error()}
	}
}

// within waits for a class to be verified, and reports whether it is.
func (s *shelf) within(wait <-chan time.Time) bool {
	select {
	case <-s.done:
		return true
	default:
	}
	select {
	case <-s.done:
		return true
	case <-wait:
		return false
	}
}

// verified is a class with its cases. Of the classes of the workspace one is held, so that
// a reader who goes from case to case does not wait for each.
func (v *Viewer) verified(class string) (*bench.Verified, error) {
	if bench.IsShipped(class) {
		return v.r.Bench(class)
	}
	look, _, err := v.lookOf(class)
	if err != nil {
		return nil, err
	}
	v.shelves.mu.Lock()
	s := v.shelves.held
	mine := s == nil || s.class != class || s.look != look
	if mine {
		s = &shelf{class: class, look: look, done: make(chan struct{})}
		v.shelves.held = s
	}
	v.shelves.mu.Unlock()
	if mine { // by this page, not beside it: one that waits without end must not hold the ledger
		s.err = v.withCorpus(func(c *dossier.Corpus) (err error) {
			s.bench, err = c.Bench(class)
			return err
		})
		close(s.done)
	}
	<-s.done
	return s.bench, s.err
}

// lookOf is how the files of a class look from outside, with what else decides whether it
// verifies: who is trusted, and the day. It tells how many bytes they are.
func (v *Viewer) lookOf(class string) (look string, size int64, err error) {
	root, err := os.OpenRoot(v.config.Place.Dir)
	if err != nil {
		return "", 0, err
	}
	defer root.Close()
	h := fnv.New128a()
	fmt.Fprintln(h, len(v.r.History.Authorities), len(v.r.History.Tapes), v.r.History.FirstEntry, v.config.Now().UTC().Format(time.DateOnly))
	for _, dir := range []string{path.Join(bench.Dir, class), "cassettes/" + class} {
		err := fs.WalkDir(root.FS(), dir, func(name string, e fs.DirEntry, err error) error {
			if err != nil {
				return nil // what is not there is said by who verifies
			}
			if info, err := e.Info(); err == nil { // else it went away: another look
				fmt.Fprintln(h, name, info.Mode(), info.Size(), info.ModTime().UnixNano())
				size += info.Size()
			}
			return nil
		})
		if err != nil {
			return "", 0, err
		}
	}
	for _, name := range []string{bench.PinsFile, bench.PinsFile + ".sig", path.Join(bench.Dir, bench.SignedFile)} {
		if info, err := fs.Stat(root.FS(), name); err == nil {
			fmt.Fprintln(h, name, info.Size(), info.ModTime().UnixNano())
		}
	}
	return string(h.Sum(nil)), size, nil
}
