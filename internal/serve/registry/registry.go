package registry

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/sequencer"
	"tallystick/internal/record/store"
	"tallystick/internal/serve/registry/index"
)

// Options say what to open.
type Options struct {
	Dir      string
	DB       string // "" for DIR/registry.db, or postgres://…
	StateDir string // of the memory of what was signed; "" for the user's
	Now      func() time.Time
	Log      *slog.Logger
	// PublicURL, if not empty, takes the place of what registry.yaml says.
	PublicURL string
	// Lock bounds how long to wait for another process that has it open; zero
	// means three seconds.
	Lock time.Duration
}

func (o *Options) defaults() error {
	var err error
	if o.Dir, err = filepath.Abs(o.Dir); err != nil {
		return refusal.Newf(refusal.Unreadable, "finding the folder: %w", err)
	}
	if o.DB == "" {
		o.DB = filepath.Join(o.Dir, "registry.db")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Lock == 0 {
		o.Lock = 3 * time.Second
	}
	o.StateDir, err = stateDir(o.StateDir)
	return err
}

// A Registry is a registry open for writing: there is one at a time.
type Registry struct {
	*Reader
	o        Options
	settings Settings
	ledger   *sequencer.Ledger
	shelf    *store.Shelf
	answers  *calibrationSet // nil if there is none

	// mu is held only to decide: to compare a request with what is known and to
	// hand over the entries that follow from it.
	mu       sync.Mutex
	state    *state
	tails    *tails
	ring     *keyring
	inflight map[string]chan struct{} // what is being decided, until it is applied
	behind   error                    // why the index does not follow the ledger, if it does not
	closed   bool

	// The applier's.
	queueMu  sync.Mutex
	queue    []committed
	arrived  *sync.Cond // of queueMu: something is in the queue, or it is over
	over     bool
	stopped  chan struct{}
	applied  int64      // guarded by mu
	progress *sync.Cond // of mu: applied or behind has changed

	settle     chan struct{} // something may have to be drawn
	background sync.WaitGroup
	cancel     context.CancelFunc

	rotating sync.Mutex // held while the operator's key changes

	failApply func() error        // for tests: what the index does in place of writing
	tickMu    sync.Mutex          // held while what is due is done
	anchored  int64               // entries when the last anchor was published; guarded by tickMu
	anchorAt  time.Time           // guarded by mu
	lists     map[int]*signedList // guarded by mu
	dating    dating
}

// A committed is a batch of entries that is on disk.
type committed struct {
	records []ledger.Record
	tip     sequencer.Tip
}

// Open opens a registry for writing. It verifies the ledger, brings the index up
// to it, and refuses an index that is ahead of the ledger or of another one.
func Open(ctx context.Context, o Options) (*Registry, error) {
	if err := o.defaults(); err != nil {
		return nil, err
	}
	settings, err := LoadSettings(o.Dir)
	if err != nil {
		return nil, err
	}
	if o.PublicURL != "" {
		settings.PublicURL = strings.TrimSuffix(o.PublicURL, "/")
		if err := settings.validate(); err != nil {
			return nil, refusal.Newf(refusal.Usage, "%w", err)
		}
	}
	r := newRegistry(o, settings)
	if err := r.open(ctx, false); err != nil {
		return nil, errors.Join(err, r.abandon())
	}
	background, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r.cancel = cancel
	go r.apply()
	r.background.Go(func() { r.settler(background) })
	err = r.reconfigure()
	if err == nil {
		err = r.refreshStatusLists(ctx)
	}
	if err == nil {
		err = r.renewCheckpoint(ctx, true)
	}
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	r.wake()
	return r, nil
}

func newRegistry(o Options, settings Settings) *Registry {
	r := &Registry{o: o, settings: settings, state: newState(), tails: newTails(), inflight: make(map[string]chan struct{}),
		stopped: make(chan struct{}), settle: make(chan struct{}, 1), lists: make(map[int]*signedList)}
	r.progress, r.arrived = sync.NewCond(&r.mu), sync.NewCond(&r.queueMu)
	return r
}

// open reads everything and brings the index up to date; a fresh one is made from
// nothing.
func (r *Registry) open(ctx context.Context, fresh bool) error {
	var err error
	if r.answers, err = loadCalibration(r.o.Dir, r.settings); err != nil {
		return err
	}
	if r.shelf, err = store.OpenShelf(store.OS{}, filepath.Join(r.o.Dir, "blobs")); err != nil {
		return err
	}
	x, err := index.Open(ctx, r.o.DB)
	if err != nil {
		return err
	}
	r.Reader = newReader(x, r.o.Now, r.o.Log)
	return r.openLedger(ctx, fresh)
}

// openLedger verifies the ledger and folds it. What the index has not seen is
// applied to it after all of the ledger has been found good.
func (r *Registry) openLedger(ctx context.Context, fresh bool) error {
	known, head, err := r.index.Applied(ctx)
	if err != nil {
		return err
	}
	if fresh {
		known = 0
	}
	operator, err := loadOperator(r.o.Dir)
	if err != nil {
		return err
	}
	cfg := sequencerConfig(r.o.Dir, r.o.StateDir, r.settings, operator, r.o.Now)
	var found *seal.Key
	cfg.FindKey = func(s *seal.Signers) *seal.Key {
		found = findOperator(r.o.Dir, s)
		return found
	}
	c := newChanges()
	var missed []ledger.Record
	cfg.Visit = func(rec ledger.Record) error {
		if rec.Index == known-1 && rec.Head.String() != head {
			return r.differs("entry %d of the ledger is not the one that the database was made from", rec.Index)
		}
		touched := c
		if rec.Index < known {
			touched = newChanges() // the index has it
		} else {
			rec.Raw = append([]byte(nil), rec.Raw...)
			rec.Envelope.Body = append([]byte(nil), rec.Envelope.Body...)
			missed = append(missed, rec)
		}
		return r.visit(rec, touched)
	}
	cfg.Committed = r.committed
	if r.ledger, err = r.openSequencer(ctx, cfg); err != nil {
		return err
	}
	if found != nil {
		if err := putOperator(r.o.Dir, found); err != nil {
			return err
		}
	}
	tip := r.ledger.Tip()
	if known > tip.Size {
		return r.differs("the database was made from %d entries, and the ledger has %d", known, tip.Size)
	}
	r.applied = tip.Size
	r.log.set(tip)
	if r.ring, err = loadKeyring(r.o.Dir, r.state); err != nil {
		return err
	}
	if err := r.dropTakenDown(); err != nil {
		return err
	}
	if known == 0 {
		// Only now: until the ledger was open another process may have had both.
		if err := r.index.Clear(ctx); err != nil {
			return err
		}
	}
	if len(missed) > 0 {
		r.o.Log.Info("bringing the database up to the ledger", "entries", len(missed), "from", known)
	}
	return r.catchUp(ctx, missed, c, tip)
}

// openSequencer opens the ledger, and sets aside what a crash left unsealed at its
// end: no client was promised it.
func (r *Registry) openSequencer(ctx context.Context, cfg sequencer.Config) (*sequencer.Ledger, error) {
	ctx, cancel := context.WithTimeout(ctx, r.o.Lock)
	defer cancel()
	l, err := sequencer.Open(ctx, cfg)
	if !refusal.Is(err, refusal.TornTail) {
		return l, err
	}
	repaired, err := sequencer.Repair(ctx, cfg)
	if err != nil {
		return nil, err
	}
	r.o.Log.Warn("set aside what a crash left at the end of the ledger", "bytes", repaired.Bytes, "kept", repaired.Kept)
	r.state, r.tails = newState(), newTails()
	r.log = newLogView()
	return sequencer.Open(ctx, cfg)
}

// visit folds one entry that was there when the registry was opened.
func (r *Registry) visit(rec ledger.Record, c *changes) error {
	if err := r.state.fold(rec, c); err != nil {
		return err
	}
	if err := r.log.add(rec.Position); err != nil {
		return err
	}
	if rec.Envelope.Manual || !folded(rec.Envelope.Kind) {
		return nil
	}
	body, err := evidence.DecodeBody(rec.Envelope.Kind, rec.Envelope.Body)
	if err != nil {
		return err
	}
	r.tails.observe(body)
	return nil
}

func (r *Registry) differs(format string, args ...any) error {
	return refusal.Newf(refusal.IndexDiffers, format, args...).
		WithHint("if the ledger is the right one, \"tally registry rebuild --dir %s\" makes the database again; if it was restored from a backup, something that was acknowledged is lost: find the newer ledger first", r.o.Dir)
}

// chunk is how many entries go into the index in one transaction when many are
// missing.
const chunk = 5000

// catchUp writes what the index has not seen. Its entries come first, and then,
// with how far it is, everything that they changed: a crash in between begins
// again.
func (r *Registry) catchUp(ctx context.Context, missed []ledger.Record, c *changes, tip sequencer.Tip) error {
	for len(missed) > chunk {
		b := index.NewBatch()
		for _, rec := range missed[:chunk] {
			b.Entries = append(b.Entries, entryRow(rec))
		}
		if err := r.index.Apply(ctx, b); err != nil {
			return err
		}
		missed = missed[chunk:]
	}
	b, err := r.render(c)
	if err != nil {
		return err
	}
	for _, rec := range missed {
		b.Entries = append(b.Entries, entryRow(rec))
	}
	r.stamp(b, tip)
	return r.index.Apply(ctx, b)
}

func entryRow(rec ledger.Record) index.Entry {
	prev := rec.Prev
	return index.Entry{Index: rec.Index, Kind: string(rec.Envelope.Kind), Prev: prev[:], Raw: rec.Raw}
}

func (r *Registry) stamp(b *index.Batch, tip sequencer.Tip) {
	b.Applied, b.Head, b.Origin, b.Checkpoint = r.state.size, r.state.head.String(), r.settings.Origin, tip.Checkpoint
}

// committed takes a batch from the ledger; the applier does the rest.
func (r *Registry) committed(records []ledger.Record, tip sequencer.Tip) {
	r.queueMu.Lock()
	defer r.queueMu.Unlock()
	r.queue = append(r.queue, committed{records, tip})
	r.arrived.Signal()
}

// take waits for batches and takes all that there are.
func (r *Registry) take() []committed {
	r.queueMu.Lock()
	defer r.queueMu.Unlock()
	for len(r.queue) == 0 && !r.over {
		r.arrived.Wait()
	}
	batches := r.queue
	r.queue = nil
	return batches
}

// apply is the one goroutine that folds entries and writes the index, in the order
// of the ledger, one transaction for all that is waiting.
func (r *Registry) apply() {
	defer close(r.stopped)
	for {
		batches := r.take()
		if batches == nil {
			return
		}
		r.applyAll(batches)
	}
}

func (r *Registry) applyAll(batches []committed) {
	c := newChanges()
	var entries []index.Entry
	var broken error
	r.mu.Lock()
	for _, batch := range batches {
		for _, rec := range batch.records {
			broken = errors.Join(broken, r.state.fold(rec, c), r.log.add(rec.Position))
			entries = append(entries, entryRow(rec))
		}
	}
	r.mu.Unlock()
	tip := batches[len(batches)-1].tip
	for try := 1; ; try++ {
		err := broken
		if err == nil {
			err = r.write(c, entries, tip)
		}
		r.report(err, try, tip)
		if err == nil || broken != nil || r.ending(try) {
			return
		}
	}
}

// write renders what changed and writes it. Only the applier changes the state,
// so it reads it without the lock.
func (r *Registry) write(c *changes, entries []index.Entry, tip sequencer.Tip) error {
	if r.failApply != nil {
		if err := r.failApply(); err != nil {
			return err
		}
	}
	b, err := r.render(c)
	if err != nil {
		return err
	}
	b.Entries, b.From = entries, entries[0].Index
	r.stamp(b, tip)
	return r.applyDated(context.Background(), b, tip.Checkpoint)
}

// report tells those who wait that the index has followed, or that it does not.
func (r *Registry) report(err error, try int, tip sequencer.Tip) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err == nil:
		r.applied, r.behind = r.state.size, nil
		r.log.set(tip)
		r.Reader.changed()
		r.wake()
	case try < patience:
		r.o.Log.Warn("writing the database; trying again", "error", err)
		return
	default:
		r.behind = refusal.Newf(refusal.Failed, "the entry is recorded, and the database does not follow: %w", err).
			WithHint("nothing is lost; send it again with the same idempotency key when the database is back")
		r.o.Log.Error("the database does not follow the ledger", "error", err)
	}
	r.progress.Broadcast()
}

// patience is how often writing the database is tried before those who wait are
// told: a restart of the database must not fail the caller.
const patience = 5

// ending waits before the next try, and reports whether there is to be none.
func (r *Registry) ending(try int) bool {
	time.Sleep(min(time.Duration(try*try)*20*time.Millisecond, 5*time.Second))
	r.queueMu.Lock()
	defer r.queueMu.Unlock()
	return r.over
}

// wake tells the settler that something may have to be drawn.
func (r *Registry) wake() {
	select {
	case r.settle <- struct{}{}:
	default:
	}
}

// waitFor before a key lets many requests of one kind continue together.
const waitFor = "after "

// transact decides about a request and records what follows. The keys name what it
// is about: of two requests with a key in common the second waits for the first,
// and decides with what became of it. A key after [waitFor] is waited for and not
// taken. Decide is called with the lock held, reads
// the state, and returns the entries to append, none if there is nothing to do.
func (r *Registry) transact(keys []string, decide func() ([]evidence.Body, error)) error {
	for {
		r.mu.Lock()
		if err := r.open4writes(); err != nil {
			r.mu.Unlock()
			return err
		}
		if busy := r.busy(keys); busy != nil {
			r.mu.Unlock()
			<-busy
			continue
		}
		bodies, err := decide()
		if err != nil || len(bodies) == 0 {
			r.mu.Unlock()
			return err
		}
		pending, err := r.submit(bodies)
		if err != nil {
			r.mu.Unlock()
			return err
		}
		done := make(chan struct{})
		for _, k := range keys {
			r.inflight[k] = done
		}
		r.mu.Unlock()
		err = r.wait(pending)
		r.mu.Lock()
		for _, k := range keys {
			delete(r.inflight, k)
		}
		r.mu.Unlock()
		close(done)
		return err
	}
}

func (r *Registry) open4writes() error {
	if r.closed {
		return refusal.Newf(refusal.Interrupted, "the registry is being stopped").WithHint("try again in a moment")
	}
	return r.behind
}

func (r *Registry) busy(keys []string) chan struct{} {
	for _, k := range keys {
		if c := r.inflight[strings.TrimPrefix(k, waitFor)]; c != nil {
			return c
		}
	}
	return nil
}

// submit hands entries over in order. It is called with the lock held, so the
// order of the ledger is that of the decisions.
func (r *Registry) submit(bodies []evidence.Body) ([]*sequencer.Pending, error) {
	encoded := make([][]byte, len(bodies))
	for i, b := range bodies {
		if err := b.Validate(); err != nil {
			return nil, refusal.Newf(refusal.Malformed, "%s: %w", b.Kind(), err)
		}
		var err error
		if encoded[i], err = canon.Marshal(b); err != nil {
			return nil, refusal.Newf(refusal.Malformed, "%s: %w", b.Kind(), err)
		}
	}
	pending := make([]*sequencer.Pending, len(bodies))
	for i, b := range bodies {
		pending[i] = r.ledger.Submit(b.Kind(), encoded[i])
		r.tails.observe(b)
	}
	return pending, nil
}

// wait returns when entries are on disk and in the index.
func (r *Registry) wait(pending []*sequencer.Pending) error {
	last := int64(-1)
	for _, p := range pending {
		pos, err := p.Wait()
		if err != nil {
			return err
		}
		last = pos.Index
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.applied <= last && r.behind == nil {
		r.progress.Wait()
	}
	if r.applied <= last {
		return r.behind
	}
	return nil
}

// Settings are those in force.
func (r *Registry) Settings() Settings { return r.settings }

// Close waits for what was begun, and lets the next process in.
func (r *Registry) Close() error {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return nil
	}
	r.closed = true
	r.mu.Unlock()
	r.cancel()
	r.background.Wait()
	err := r.ledger.Close()
	r.queueMu.Lock()
	r.over = true
	r.arrived.Signal()
	r.queueMu.Unlock()
	<-r.stopped
	return errors.Join(err, r.shelf.Close(), r.index.Close())
}

// abandon lets go of what an opening that failed had opened.
func (r *Registry) abandon() error {
	var err error
	if r.ledger != nil {
		err = r.ledger.Close()
	}
	if r.shelf != nil {
		err = errors.Join(err, r.shelf.Close())
	}
	if r.Reader != nil {
		err = errors.Join(err, r.index.Close())
	}
	return err
}
