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
	look string        // how the files looked, and who was trusted
	done chan struct{} // closed when the class was verified

	result ceremony.VerifiedClass
	bench  *bench.Verified // nil if it does not verify, or if it was put away
	err    error
}

// shelves are those of a viewer. The bench itself is kept of one class, the last whose
// cases were looked at.
type shelves struct {
	mu      sync.Mutex
	of      map[string]*shelf
	holding string
}

// shelfWait is how long the list of classes waits for one that is being verified.
const shelfWait = 500 * time.Millisecond

// shelf begins to verify a class, unless its files look as they did. It does not wait.
func (v *Viewer) shelf(class string) (*shelf, error) {
	look, err := v.lookOf(class)
	if err != nil {
		return nil, err
	}
	v.shelves.mu.Lock()
	defer v.shelves.mu.Unlock()
	if s := v.shelves.of[class]; s != nil && s.look == look {
		return s, nil
	}
	s := &shelf{look: look, done: make(chan struct{})}
	if v.shelves.of == nil {
		v.shelves.of = make(map[string]*shelf)
	}
	v.shelves.of[class] = s
	go func() {
		// Beside the page, which waits for a moment and no longer: it holds the ledger, and
		// so does this.
		v.mu.RLock()
		defer v.mu.RUnlock()
		v.fill(class, s, false)
	}()
	return s, nil
}

// fill verifies a class. The caller holds the ledger as it is.
func (v *Viewer) fill(class string, s *shelf, keep bool) {
	defer close(s.done)
	s.err = v.withCorpus(func(c *dossier.Corpus) (err error) {
		s.result, s.bench, err = ceremony.VerifyClass(c, class)
		return err
	})
	if s.err != nil && s.result.Class == "" { // the workspace could not be opened
		s.result = ceremony.VerifiedClass{Class: class, Error: s.err.Error()}
	}
	if !keep {
		s.bench = nil
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
	look, err := v.lookOf(class)
	if err != nil {
		return nil, err
	}
	v.shelves.mu.Lock()
	s, mine := v.shelves.of[class], false
	if s == nil || s.look != look || v.shelves.holding != class {
		if held := v.shelves.of[v.shelves.holding]; held != nil && v.shelves.holding != class {
			delete(v.shelves.of, v.shelves.holding) // its bytes go with it
		}
		s = &shelf{look: look, done: make(chan struct{})}
		if v.shelves.of == nil {
			v.shelves.of = make(map[string]*shelf)
		}
		v.shelves.of[class], v.shelves.holding, mine = s, class, true
	}
	v.shelves.mu.Unlock()
	if mine { // by this page, not beside it: one that waits must not hold the ledger
		v.fill(class, s, true)
	}
	<-s.done
	return s.bench, s.err
}

// lookOf is how the files of a class look from outside, with what else decides whether it
// verifies: who is trusted, and the day.
func (v *Viewer) lookOf(class string) (string, error) {
	root, err := os.OpenRoot(v.config.Place.Dir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	h := fnv.New128a()
	fmt.Fprintln(h, len(v.r.History.Authorities), len(v.r.History.Tapes), v.r.History.FirstEntry, v.config.Now().UTC().Format(time.DateOnly))
	for _, dir := range []string{path.Join(bench.Dir, class), "cassettes/" + class} {
		err := fs.WalkDir(root.FS(), dir, func(name string, e fs.DirEntry, err error) error {
			if err != nil {
				return nil // what is not there is said by who verifies
			}
			return glance(h, name, e)
		})
		if err != nil {
			return "", err
		}
	}
	for _, name := range []string{bench.PinsFile, bench.PinsFile + ".sig", path.Join(bench.Dir, bench.SignedFile)} {
		if info, err := fs.Stat(root.FS(), name); err == nil {
			fmt.Fprintln(h, name, info.Size(), info.ModTime().UnixNano())
		}
	}
	return string(h.Sum(nil)), nil
}

func glance(h interface{ Write([]byte) (int, error) }, name string, e fs.DirEntry) error {
	info, err := e.Info()
	if err != nil {
		return nil // it went away: another look
	}
	fmt.Fprintln(h, name, info.Mode(), info.Size(), info.ModTime().UnixNano())
	return nil
}
