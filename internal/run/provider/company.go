package provider

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
)

// A company is the runs on this machine that ask one provider with one key at the
// same time. Each holds the lock of a file whose name says whom it asks and for
// which class, and takes the class's equal part of the limits: two classes get half
// of them each, two runs of one class a quarter each. A run that was killed holds
// no lock, and one that has not asked for a while leaves by itself, so nothing is
// kept for runs that do not ask.
//
// It shares, and does not protect: another program of the same user can hold as many
// locks as it likes, and runs on other machines are not seen.
type company struct {
	dir    string // of all companies of this user
	prefix string // of the names of this one
	class  string // as names have it
	now    func() time.Time

	mu    sync.Mutex
	name  string // of our file; "" while we are not in it
	lock  *store.Lock
	until time.Time // when the others are counted again
	begin time.Time // not before: the others do not know of us yet
	part  float64
}

// recount is how often a run looks who else asks, and idle how long it stays
// without a call. Both chosen for a model that takes seconds to answer.
const (
	recount = 500 * time.Millisecond
	idle    = 2 * time.Second
)

// maxCompany bounds how many names are looked at.
const maxCompany = 1000

// Among has calls share the limits of their providers with other runs on this
// machine, by way of a folder of this user. A class gets as much as another.
func (a *Access) Among(dir, class string) {
	for _, e := range a.Settings.Endpoints {
		if l := e.Limits; l.CallsAtOnce > 0 || l.RequestsPerMinute > 0 || l.TokensPerMinute > 0 {
			a.lanes[e.Provider].company = newCompany(dir, e.BaseURL+" "+e.KeyEnv+e.KeyFile, class)
		}
	}
}

func newCompany(dir, provider, class string) *company {
	short := func(text string) string {
		return strings.TrimPrefix(digest.ContentOf([]byte(text)).String(), "blake3:")[:32]
	}
	return &company{dir: dir, prefix: short(provider) + "-", class: short(class), now: time.Now, part: 1}
}

// share is our part of the limits, more than 0 and at most 1, and how long to wait
// before it may be used. If the folder cannot be used it is all of them: that a run
// shares is a courtesy, and no control.
func (c *company) share() (part float64, wait time.Duration) {
	if c == nil {
		return 1, 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now, fresh := c.now(), c.lock == nil
	if fresh || !now.Before(c.until) {
		c.part, c.begin = 1, now
		if fresh && c.join() != nil {
			return 1, 0
		}
		if c.part = c.count(); fresh && c.part < 1 {
			c.begin = now.Add(recount)
		}
		c.until = now.Add(recount)
	}
	return c.part, max(0, c.begin.Sub(now))
}

// count is our part by who is there now.
func (c *company) count() float64 {
	runs, ours := map[string]int{c.class: 1}, 1
	entries, _ := os.ReadDir(c.dir)
	for _, e := range entries[:min(len(entries), maxCompany)] {
		class, _, ok := strings.Cut(strings.TrimPrefix(e.Name(), c.prefix), "-")
		if !ok || !strings.HasPrefix(e.Name(), c.prefix) || e.Name() == c.name || !c.isThere(e.Name()) {
			continue
		}
		if runs[class]++; class == c.class {
			ours++
		}
	}
	return 1 / float64(len(runs)*ours)
}

// join takes a name of our own and its lock. The name is made before it is locked, so
// another run may have taken it for one that was left behind; then there is another.
func (c *company) join() error {
	if err := store.MakeDir(store.OS{}, c.dir, 0o700); err != nil {
		return err
	}
	for range 10 {
		name := c.prefix + c.class + "-" + rand.Text()
		path := filepath.Join(c.dir, name)
		lock, err := store.TakeLock(over(), store.OS{}, path)
		if err != nil {
			continue
		}
		if _, err := os.Lstat(path); err == nil {
			c.name, c.lock = name, lock
			return nil
		}
		lock.Close()
	}
	return errors.New("no name of its own")
}

// isThere reports whether the run of a name lives. What a dead one left is removed.
func (c *company) isThere(name string) bool {
	path := filepath.Join(c.dir, name)
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return false
	}
	lock, err := store.TakeLock(over(), store.OS{}, path)
	if err != nil { // held, or no file of ours
		return refusal.Is(err, refusal.LedgerBusy)
	}
	defer lock.Close()
	store.RemoveFile(store.OS{}, path)
	return false
}

// leave gives our part to the others.
func (c *company) leave() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lock == nil {
		return
	}
	store.RemoveFile(store.OS{}, filepath.Join(c.dir, c.name))
	c.lock.Close()
	c.name, c.lock = "", nil
}

// over is a context that has ended: a lock is tried once.
func over() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
