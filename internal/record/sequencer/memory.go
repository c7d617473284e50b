package sequencer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"golang.org/x/mod/sumdb/tlog"

	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
)

// slotLen is the length of one remembered tree head: size, root, check.
const slotLen = 8 + tlog.HashSize + 8

// A memory remembers, outside the ledger's folder, the last tree head that was
// sealed here, so that putting back an old copy of the whole folder is
// noticed. It is written after each batch is durable and therefore never ahead
// of the ledger. It holds two slots. The first head after an opening is made
// durable in one of them, which is left alone from then on; all later heads go
// into the other, unsynced. So whatever a power cut tears, a head is left.
//
// The lock on its file also keeps a second copy of the folder from being
// written to at the same time, which the lock inside the folder cannot.
type memory struct {
	lock  *store.Lock
	next  int              // slot to write next: after the first head, the one that may be torn
	known *ledger.TreeHead // what was remembered when it was opened, or nil
	// sync makes the first head since the opening and the file's name durable,
	// nil afterwards. What was read may be in the kernel's memory alone, after
	// a sync that failed.
	sync func() error
}

// memoryPath names the file by the ledger's origin.
func memoryPath(stateDir, origin string) string {
	sum := sha256.Sum256([]byte(origin))
	return filepath.Join(stateDir, "ledgers", hex.EncodeToString(sum[:16])+".head")
}

// placePath names the file that says where the ledger lay when it was last
// opened for writing.
func placePath(stateDir, origin string) string {
	return strings.TrimSuffix(memoryPath(stateDir, origin), ".head") + ".place"
}

// rememberPlace notes where the ledger lies, so that a ledger that is gone from
// there can be told from a second clone, which never had one.
func (c *Config) rememberPlace() error {
	dir, path := realPath(c.Dir), placePath(c.StateDir, c.Origin)
	if old, err := store.ReadFile(c.FS, path, maxPlace); err == nil && string(old) == dir+"\n" {
		return nil
	}
	return store.WriteFile(c.FS, path, []byte(dir+"\n"), 0o600)
}

// maxPlace bounds the path of a folder.
const maxPlace = 1 << 16

// LayHere reports whether this machine remembers that the ledger lay in its
// folder. A memory that does not say where, as a crash right after the first entry
// leaves it, counts as one of here.
func (p Place) LayHere(origin string) (bool, error) {
	known, err := Remembered(p.FS, p.StateDir, origin)
	if known == nil || err != nil {
		return false, err
	}
	dir, err := store.ReadFile(p.FS, placePath(p.StateDir, origin), maxPlace)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	return strings.TrimSuffix(string(dir), "\n") == realPath(p.Dir), err
}

// realPath is a folder's absolute path without links. The end of it may not
// exist any more.
func realPath(dir string) string {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return dir
	}
	if real, err := filepath.EvalSymlinks(abs); err == nil {
		return real
	}
	parent := filepath.Dir(abs)
	if parent == abs {
		return abs
	}
	return filepath.Join(realPath(parent), filepath.Base(abs))
}

// openMemory locks and reads the memory of a ledger.
func openMemory(ctx context.Context, fsys store.FS, stateDir, origin string) (*memory, error) {
	path := memoryPath(stateDir, origin)
	if err := store.MakeDir(fsys, filepath.Dir(path), 0o700); err != nil {
		return nil, refusal.Newf(refusal.WriteFailed, "remembering what is signed: %w", err).
			WithHint("the memory of signed checkpoints is kept in %s; set XDG_STATE_HOME to a folder that can be written", stateDir)
	}
	lock, err := store.TakeLock(ctx, fsys, path)
	if err != nil {
		return nil, err
	}
	head, slot, err := readSlots(lock.File(), path, origin)
	if err != nil {
		lock.Close()
		return nil, err
	}
	return &memory{lock: lock, next: 1 - slot, known: head, sync: func() error {
		if err := lock.File().Sync(); err != nil {
			return err
		}
		return fsys.SyncDir(filepath.Dir(path))
	}}, nil
}

// Remembered returns the tree head that this machine remembers of a ledger, or
// nil. It takes no lock and changes nothing.
func Remembered(fsys store.FS, stateDir, origin string) (*ledger.TreeHead, error) {
	path := memoryPath(stateDir, origin)
	if _, err := fsys.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	data, err := store.ReadFile(fsys, path, 2*slotLen)
	if refusal.Is(err, refusal.TooLarge) {
		return nil, memoryDamaged(path, origin)
	}
	if err != nil {
		return nil, err
	}
	head, _, err := parseSlots(data, path, origin)
	return head, err
}

func readSlots(f store.File, path, origin string) (*ledger.TreeHead, int, error) {
	buf := make([]byte, 2*slotLen+1)
	n, err := f.ReadAt(buf, 0)
	if err != nil && err != io.EOF {
		return nil, 0, refusal.Newf(refusal.Unreadable, "reading %s: %w", path, err)
	}
	return parseSlots(buf[:n], path, origin)
}

// parseSlots returns the larger of the two remembered heads and its slot.
func parseSlots(data []byte, path, origin string) (best *ledger.TreeHead, slot int, err error) {
	// A first head that was never finished is not there at all.
	if len(data) < slotLen || len(bytes.Trim(data, "\x00")) == 0 {
		return nil, 1, nil
	}
	for i := 0; i < 2 && (i+1)*slotLen <= len(data); i++ {
		head, ok := parseSlot(data[i*slotLen:(i+1)*slotLen], origin)
		if ok && (best == nil || head.Size > best.Size) {
			best, slot = &head, i
		}
	}
	if best == nil || len(data) > 2*slotLen {
		return nil, 0, memoryDamaged(path, origin)
	}
	return best, slot, nil
}

func memoryDamaged(path, origin string) error {
	return refusal.Newf(refusal.MemoryDamaged, "%s is damaged: it does not say what was last signed for %s", path, origin).
		WithHint(`compare the ledger with an anchor ("tally ledger anchor verify"), then move this file away`)
}

func parseSlot(slot []byte, origin string) (ledger.TreeHead, bool) {
	head := ledger.TreeHead{Origin: origin, Size: int64(binary.BigEndian.Uint64(slot))}
	copy(head.Root[:], slot[8:])
	return head, string(appendSlot(nil, head)) == string(slot)
}

func appendSlot(dst []byte, head ledger.TreeHead) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(head.Size))
	dst = append(dst, head.Root[:]...)
	sum := sha256.Sum256([]byte(head.Text()))
	return append(dst, sum[:8]...)
}

// remember notes a sealed tree head. Only the first is synced: later a power
// cut may bring an older head back, which is still one that the ledger
// contains.
func (m *memory) remember(head ledger.TreeHead) error {
	err := m.write(head)
	if err != nil {
		return refusal.Newf(refusal.WriteFailed, "remembering what is signed: %w", err).
			WithHint("the last entries are in the ledger although they were not acknowledged; check the disk of the state folder (XDG_STATE_HOME) before you go on")
	}
	return nil
}

func (m *memory) write(head ledger.TreeHead) error {
	first := m.sync != nil
	if first && m.known != nil {
		// What was read may not be on the disk, and the other slot goes now.
		if err := m.lock.File().Sync(); err != nil {
			return err
		}
	}
	if _, err := m.lock.File().WriteAt(appendSlot(nil, head), int64(m.next*slotLen)); err != nil || !first {
		return err
	}
	err := m.sync()
	m.sync, m.next = nil, 1-m.next
	return err
}

func (m *memory) close() error {
	m.lock.File().Sync()
	return m.lock.Close()
}
