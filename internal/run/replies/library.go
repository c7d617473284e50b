package replies

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
)

// maxFile bounds the file of a reply: a call is at most 8 MiB of request and as much of
// reply, escaped.
const maxFile = 64 << 20

// A Library is the replies of one workspace. It is safe for concurrent use.
type Library struct {
	dir    string // of the workspace
	draws  *Draws
	append func(*evidence.ReplyDrawn) error // nil if nothing is drawn

	mu      sync.Mutex
	paid    map[digest.ID]chan struct{} // keys that are being asked now; closed when that has ended
	writing map[place]bool
}

// Open gives the library of a workspace, with what its ledger says of draws. Enter
// appends to the ledger; with nil nothing can be kept.
func Open(dir string, draws *Draws, enter func(*evidence.ReplyDrawn) error) *Library {
	if draws == nil {
		draws = &Draws{}
	}
	return &Library{dir: dir, draws: draws, append: enter, paid: map[digest.ID]chan struct{}{}, writing: map[place]bool{}}
}

// load reads a draw; nil if there is no such file. Listed says that the ledger has an
// entry of these very bytes.
func (l *Library) load(key digest.ID, draw int64) (r *Reply, listed bool, err error) {
	name := File(key, draw)
	data, err := store.ReadFile(store.OS{}, filepath.Join(l.dir, filepath.FromSlash(name)), maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("%s: %w", name, err)
	}
	if r, err = parse(data, key, draw); err != nil {
		return nil, false, refusal.Newf(refusal.ReplyInvalid, "%s: %w", name, err).WithHint("%s", invalidHint)
	}
	known := l.draws.of(key, draw)
	listed = slices.Contains(known, digest.ContentOf(data))
	if !listed && len(known) > 0 {
		return nil, false, refusal.Newf(refusal.ReplyInvalid, "%s is %s, the reply.drawn entry of this ledger says %s", name, digest.ContentOf(data), known[len(known)-1]).WithHint("%s", invalidHint)
	}
	return r, listed, nil
}

const invalidHint = "the file was changed or moved after the reply was drawn: restore it from git, or remove it to ask the model again"

// keep puts a reply away as the next draw under its key, the entry first: a crash in
// between leaves an entry whose file is missing, and never a file that the ledger does
// not know. Again says that an earlier process may have kept this very reply: then it
// is not a second draw.
func (l *Library) keep(r *Reply, again, discard bool) error {
	key, err := r.Key()
	if err != nil {
		return err
	}
	r.Draw = 0
	for {
		r.Draw++
		data, err := canon.Marshal(r)
		if err != nil {
			return err
		}
		at := place{key, r.Draw}
		if !l.reserve(at) {
			continue
		}
		defer l.release(at)
		name := filepath.Join(l.dir, filepath.FromSlash(File(key, r.Draw)))
		switch there, err := store.ReadFile(store.OS{}, name, maxFile); {
		case err == nil && !(again && bytes.Equal(there, data)):
			continue // another draw
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("%s: %w", File(key, r.Draw), err)
		}
		return l.put(r, key, name, data, again, discard)
	}
}

// reserve takes the number of a draw while it is written, so that no two take one.
func (l *Library) reserve(at place) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.writing[at] {
		return false
	}
	l.writing[at] = true
	return true
}

func (l *Library) release(at place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.writing, at)
}

func (l *Library) put(r *Reply, key digest.ID, name string, data []byte, again, discard bool) error {
	if !again || !slices.Contains(l.draws.of(key, r.Draw), digest.ContentOf(data)) {
		entry, err := r.entry(key, data, !discard)
		if err == nil {
			err = l.append(entry)
		}
		if err != nil {
			return fmt.Errorf("recording a draw: %w", err)
		}
		l.draws.Note(false, entry)
	}
	if discard {
		return nil
	}
	if err := store.MakeDir(store.OS{}, filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return store.WriteFile(store.OS{}, name, data, 0o644)
}

// begin waits while another call asks under the key, then takes the key. Ended gives it
// back. So two cases that ask the same at once pay once.
func (l *Library) begin(key digest.ID) (ended func(), waited bool) {
	for {
		l.mu.Lock()
		other := l.paid[key]
		if other == nil {
			mine := make(chan struct{})
			l.paid[key] = mine
			l.mu.Unlock()
			return func() {
				l.mu.Lock()
				delete(l.paid, key)
				l.mu.Unlock()
				close(mine)
			}, waited
		}
		l.mu.Unlock()
		<-other
		waited = true
	}
}
