// Package sequencer keeps a ledger on disk: one writer at a time puts entries
// in order, seals them in batches, and acknowledges an entry only when it is
// on disk.
//
// Opening a ledger for writing verifies all of it, against its own seals,
// against the memory of the last seal made on this machine and against the
// published anchors. A ledger that does not extend what was signed before is
// refused: nothing is ever appended to it and nothing signed over it.
//
// A failure while writing poisons the writer. What it had acknowledged is on
// disk; what it had not may or may not be there, and the next opening tells.
package sequencer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/store"
)

// A Place says where a ledger and what belongs to it are.
type Place struct {
	FS       store.FS
	Dir      string // of the ledger: segments, tiles, lock
	StateDir string // of the memory, outside the workspace
	Anchors  string // folder of published anchors; "" for none
	// Checkpoints is the folder of checkpoints that witnesses cosigned; "" for none.
	Checkpoints string
}

// SegmentsDir is the folder of the segments.
func (p Place) SegmentsDir() string { return filepath.Join(p.Dir, "segments") }

// TornDir is the folder that keeps what repair set aside.
func (p Place) TornDir() string { return filepath.Join(p.Dir, "torn") }

// Config is what opening a ledger for writing needs.
type Config struct {
	Place
	Origin    string
	TrustRoot digest.ID
	Key       *seal.Key // the operator's
	// FindKey, if set, is asked for another key if Key is not an operator's at the
	// end of the ledger: the operator may have changed it. Nil is none.
	FindKey func(*seal.Signers) *seal.Key
	Now     func() time.Time
	// From is a verification of the same ledger that this process made before,
	// which opening continues instead of beginning again. It was made without
	// the lock: what others have appended since is verified now.
	From *ledger.Verified
	// Visit sees each entry while the ledger is verified at opening, for a
	// caller that wants to know what is in it without reading it twice. Entries
	// that From covers are not visited.
	Visit func(ledger.Record) error
	// Committed sees every batch, in order, once it is on disk and before those
	// who wait for its entries are told: for a caller that keeps an index of the
	// ledger. It may keep the records and must return soon, since the next batch
	// waits for it. The first entry of a ledger is not shown.
	Committed func([]ledger.Record, Tip)

	// Remote, if not nil, is where the ledger is kept besides: each batch goes there
	// first. A ledger's folder that is a copy of a store is not written without it.
	Remote Remote
	// Vouch is asked about a ledger kept elsewhere of which neither the memory nor
	// an anchor knows anything: nil refuses it.
	Vouch func(ctx context.Context, checkpoint *ledger.Checkpoint, tree *ledger.Tree) error

	segmentBytes int64 // 0 means SegmentBytes; the tests cross it often
}

// A Remote takes each batch before it is on disk and before the caller is told.
type Remote interface {
	// Commit stores the batch whose first entry has the index first. It returns
	// nil only if no other machine can have stored another one there.
	Commit(first int64, batch []byte) error
	// Close lets the next machine in.
	Close() error
}

// StoreFile, in the folder of a ledger, says that the folder is the copy of a
// ledger in a store, and which.
const StoreFile = "store"

// SegmentBytes is when a new segment is started: large enough that files are
// few, small enough to copy and to look at.
const SegmentBytes = 64 << 20

// A batch ends when it has this many entries or bytes, so that one sync never
// keeps the first of its writers waiting for long.
const (
	maxBatchEntries = 4096
	maxBatchBytes   = 8 << 20
)

// clockTolerance is how far the clock may be behind the last entry without a
// record of it: machines that share a ledger are never exactly alike.
const clockTolerance = 5 * time.Second

// A Ledger is a ledger open for appending. Its methods may be called from any
// number of goroutines.
type Ledger struct {
	cfg    Config
	lock   *store.Lock
	memory *memory
	log    *store.Log
	opened *ledger.Verified

	queue  chan *Pending
	closed chan struct{} // closed when the sequencing goroutine has ended

	// Owned by the sequencing goroutine until closed.
	chain    *ledger.Chain
	last     evidence.Time
	signers  *seal.Signers
	once     ledger.Once
	lateTold bool // the clock being behind is recorded, once until it catches up
	broken   error
	buf      []byte          // the batch being framed
	line     []byte          // the entry being framed
	framed   []ledger.Record // the entries of the batch, for Config.Committed

	mu  sync.Mutex
	tip Tip     // what is on disk
	by  *sealer // of the next batch; changed by the sequencing goroutine alone
}

// A Tip is the acknowledged end of a ledger.
type Tip struct {
	ledger.TreeHead
	Head       digest.ID
	Checkpoint []byte // signed note
	Signers    *seal.Signers
	Time       evidence.Time
}

// Tip returns the end of what is on disk.
func (l *Ledger) Tip() Tip {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tip
}

// end is the tip, and who seals what comes after it.
func (l *Ledger) end() (Tip, *sealer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tip, l.by
}

// Verified returns what was verified when the ledger was opened, for a reader
// that continues from there. It is nil for a ledger that was just created.
func (l *Ledger) Verified() *ledger.Verified { return l.opened }

// Create starts a ledger: its first entry pins version 1 of the signers file,
// in which the key must be an operator's.
func Create(ctx context.Context, cfg Config, signersFile []byte) (*Ledger, error) {
	signers, err := seal.Root("signers file", signersFile, cfg.TrustRoot)
	if err != nil {
		return nil, err
	}
	if err := store.MakeDir(cfg.FS, cfg.SegmentsDir(), 0o700); err != nil {
		return nil, err
	}
	segments, err := store.Segments(cfg.FS, cfg.SegmentsDir())
	if err != nil {
		return nil, err
	}
	// An empty first segment is what a crash of an earlier Create left.
	if len(segments) > 1 || len(segments) == 1 && segments[0].Size > 0 {
		return nil, refusal.Newf(refusal.AlreadyExists, "%s holds a ledger already", cfg.Dir)
	}
	l, err := open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if l.memory.known != nil {
		l.abandon()
		return nil, refusal.Newf(refusal.HistoryRolledBack, "a ledger called %s was written on this machine before and is not in %s", cfg.Origin, cfg.Dir).
			WithHint("restore it, or give the new ledger another origin")
	}
	if l.log, err = store.OpenLog(cfg.FS, cfg.SegmentsDir(), 0, 0); err != nil {
		l.abandon()
		return nil, err
	}
	l.chain, l.signers = ledger.NewChain(cfg.Origin), signers
	if err := l.by.checkOperator(l.signers, l.stamp()); err != nil {
		l.abandon()
		return nil, err
	}
	if err := l.cfg.rememberPlace(); err != nil {
		l.abandon()
		return nil, err
	}
	go l.sequence()
	body, err := canon.Marshal(evidence.Opened{Origin: cfg.Origin, Signers: string(signersFile)})
	if err == nil {
		_, err = l.Append(evidence.LedgerOpened, body)
	}
	if err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// Open verifies a ledger and opens it for appending. It waits for another
// writer until ctx ends.
//
// If it fails, cfg.Remote is still the caller's to close.
func Open(ctx context.Context, cfg Config) (*Ledger, error) {
	if err := cfg.checkKeptHere(); err != nil {
		return nil, err
	}
	l, err := open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if err := l.load(ctx); err != nil {
		l.abandon()
		return nil, err
	}
	go l.sequence()
	return l, nil
}

// checkKeptHere refuses to write to the copy of a ledger that is kept in a store:
// the next pull would find two histories.
func (c *Config) checkKeptHere() error {
	if c.Remote != nil {
		return nil
	}
	where, err := store.ReadFile(c.FS, filepath.Join(c.Dir, StoreFile), maxPlace)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return refusal.Newf(refusal.LedgerMoved, "the ledger was moved to %s, and %s is only its copy", strings.TrimSpace(string(where)), c.Dir).
		WithHint(`have tally.yaml say "ledger: %s" as it does where the ledger was moved; to end a move that was interrupted, run "tally ledger move" again`, strings.TrimSpace(string(where)))
}

// open takes the locks.
func open(ctx context.Context, cfg Config) (*Ledger, error) {
	by, err := newSealer(cfg.Key, cfg.Origin)
	if err != nil {
		return nil, err
	}
	if err := cfg.exists(cfg.Dir); err != nil {
		return nil, err
	}
	lock, err := store.TakeLock(ctx, cfg.FS, filepath.Join(cfg.Dir, "lock"))
	if err != nil {
		return nil, err
	}
	m, err := openMemory(ctx, cfg.FS, cfg.StateDir, cfg.Origin)
	if err != nil {
		lock.Close()
		return nil, err
	}
	if cfg.segmentBytes == 0 {
		cfg.segmentBytes = SegmentBytes
	}
	return &Ledger{
		cfg: cfg, by: by, lock: lock, memory: m,
		queue:  make(chan *Pending, maxBatchEntries),
		closed: make(chan struct{}),
	}, nil
}

// load verifies what is on disk and makes it the beginning of what is to come.
func (l *Ledger) load(ctx context.Context) error {
	anchors, err := LoadAnchors(l.cfg.FS, l.cfg.Anchors)
	if err != nil {
		return err
	}
	expect := AnchorExpectations(anchors)
	if l.memory.known != nil {
		expect = append(expect, MemoryExpectation(*l.memory.known))
	}
	v, err := l.cfg.Verify(ledger.Options{Origin: l.cfg.Origin, TrustRoot: l.cfg.TrustRoot, Expect: expect, From: l.cfg.From, Visit: l.cfg.Visit})
	if err != nil {
		return err
	}
	if l.cfg.Remote != nil && len(expect) == 0 {
		if err := l.cfg.vouched(ctx, v); err != nil {
			return err
		}
	}
	if t := v.Tail; t.Torn > 0 {
		return refusal.Newf(refusal.TornTail, "%s ends in %d bytes that a crash left and no seal covers", t.Segment, t.Torn).
			WithHint(`run "tally ledger repair": it sets them aside; nothing that was acknowledged is in them`)
	}
	l.chain, l.last, l.signers, l.once = v.Chain(), v.LastTime, v.Signers, v.Once()
	if err := l.chooseKey(); err != nil {
		return err
	}
	checkpoint := v.Checkpoint
	if _, replaced := ledger.VerifyCheckpoint(checkpoint, ledger.Policy{Logs: ledger.KeysOf(v.Signers, v.Origin, v.LastTime.Go())}); replaced != nil {
		if checkpoint, err = l.by.checkpoint(v.TreeHead); err != nil {
			return err
		}
	}
	if l.log, err = store.OpenLog(l.cfg.FS, l.cfg.SegmentsDir(), v.Tail.Batch, v.Tail.GoodSize); err != nil {
		return err
	}
	if err := l.cfg.rememberPlace(); err != nil {
		return err
	}
	l.opened = v
	l.tip = Tip{v.TreeHead, v.Head, checkpoint, v.Signers, v.LastTime}
	return l.memory.remember(v.TreeHead)
}

// vouched asks a witness about a ledger that came from a store, on a machine
// that knows nothing of it: an attacker who cut off its end would have to fool
// the witness too.
func (c *Config) vouched(ctx context.Context, v *ledger.Verified) error {
	if c.Vouch == nil {
		return refusal.Newf(refusal.NothingVouches, "nothing vouches that the %d entries of %s are all: this machine has no memory of it, the workspace no anchor, and tally.yaml names no witness", v.Size, c.Origin).
			WithHint("pull audit/anchors from git, or name a witness in tally.yaml; then entries cut from the end are noticed")
	}
	tree := &ledger.Tree{}
	if _, err := c.Verify(ledger.Options{Origin: c.Origin, TrustRoot: c.TrustRoot, Visit: func(r ledger.Record) error { return tree.Add(r.Leaf) }}); err != nil {
		return err
	}
	return c.Vouch(ctx, &ledger.Checkpoint{TreeHead: v.TreeHead, Note: v.Checkpoint}, tree)
}

// MemoryExpectation is what a ledger must contain to agree with the memory.
func MemoryExpectation(head ledger.TreeHead) ledger.Expectation {
	return ledger.Expectation{TreeHead: head, Source: "the memory of what was signed on this machine"}
}

// chooseKey takes the key of an operator in force at the end of the ledger.
func (l *Ledger) chooseKey() error {
	err := l.by.checkOperator(l.signers, l.stamp())
	if err == nil || l.cfg.FindKey == nil {
		return err
	}
	key := l.cfg.FindKey(l.signers)
	if key == nil {
		return err
	}
	other, failed := newSealer(key, l.cfg.Origin)
	if failed != nil {
		return failed
	}
	if failed := other.checkOperator(l.signers, l.stamp()); failed != nil {
		return failed
	}
	l.by = other
	return nil
}

// abandon gives up a ledger whose sequencing never began.
func (l *Ledger) abandon() {
	if l.log != nil {
		l.log.Close()
	}
	l.memory.close()
	l.lock.Close()
}

// exists tells a ledger that is not there from one that cannot be looked at.
func (p Place) exists(dir string) error {
	switch _, err := p.FS.Stat(dir); {
	case errors.Is(err, fs.ErrNotExist):
		return refusal.Newf(refusal.NotFound, "no ledger in %s", p.Dir).WithHint(`"tally init" starts one`)
	case err != nil:
		return refusal.Newf(refusal.Unreadable, "reading ledger: %w", err).WithHint("nothing was changed; check the permissions and the disk of %s", dir)
	}
	return nil
}

// Segments lists the ledger's segments for verification.
func (p Place) Segments() ([]ledger.Segment, error) {
	if err := p.exists(p.SegmentsDir()); err != nil {
		return nil, err
	}
	files, err := store.Segments(p.FS, p.SegmentsDir())
	if err != nil {
		return nil, err
	}
	segments := make([]ledger.Segment, len(files))
	for i, f := range files {
		segments[i] = ledger.Segment{
			Name:  filepath.Base(f.Path),
			First: int64(f.First),
			Size:  f.Size,
			File:  fileID(f.Info),
			Open: func(from int64) (io.ReadCloser, error) {
				file, err := p.FS.OpenFile(f.Path, os.O_RDONLY, 0)
				if err != nil || from == 0 {
					return file, err
				}
				return fileFrom{io.NewSectionReader(file, from, math.MaxInt64-from), file}, nil
			},
		}
	}
	return segments, nil
}

func fileID(info fs.FileInfo) ledger.FileID {
	id := ledger.FileID{Modified: info.ModTime().UnixNano()}
	id.Device, id.Inode, id.Changed = store.IdentityOf(info)
	return id
}

// A fileFrom reads a file from some byte on.
type fileFrom struct {
	io.Reader
	io.Closer
}

// Verify verifies the ledger on disk, also against what is left of it in the files
// around it.
func (p Place) Verify(o ledger.Options) (*ledger.Verified, error) {
	remains, err := p.remains()
	if err != nil {
		return nil, err
	}
	o.Expect = slices.Concat(o.Expect, remains)
	segments, err := p.Segments()
	// A ledger of which something is known and that is not there is no missing
	// file: it was rolled back to nothing.
	if err != nil && !(refusal.Is(err, refusal.NotFound) && len(o.Expect) > 0) {
		return nil, err
	}
	v, err := ledger.Verify(segments, o)
	if problem, wrong := err.(*ledger.Problem); wrong {
		return nil, problem.Refusal()
	}
	if err != nil {
		return nil, fmt.Errorf("ledger in %s: %w", p.Dir, err)
	}
	return v, nil
}
