package monitor

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/sumdb/tlog"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/format"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/store"
)

const (
	memorySchema = "tallystick-registry-monitor/" + format.Version
	maxMemory    = 1 << 20
	// maxEntry bounds one line of the copy; the ledger takes entries of 1 MiB.
	maxEntry = 2 << 20
)

// Folder is where a monitor of a registry remembers what it saw, below the state
// folder of this machine.
func Folder(stateDir, address string) string {
	sum := sha256.Sum256([]byte(address))
	return filepath.Join(stateDir, "monitor", hex.EncodeToString(sum[:16]))
}

// A memory is what is remembered between looks. The entries themselves lie beside
// it, in files named by the index of their first: a registry that serves other
// entries later is caught with what it served before.
type memory struct {
	Schema     string   `json:"schema"`
	Address    string   `json:"address"`
	Origin     string   `json:"origin"`
	Keys       []string `json:"keys"` // verifier keys of the log that are trusted
	FirstUse   bool     `json:"first_use"`
	Size       int64    `json:"size"`
	Root       string   `json:"root"`
	Checkpoint string   `json:"checkpoint"` // signed note
	// Receipts says up to which entry the receipts of rows were verified.
	Receipts int64 `json:"receipts"`
	// Compared says up to which entry the answers about what it changed were compared.
	Compared int64 `json:"compared,omitempty"`
}

// loadMemory reads what is remembered, nil if there is nothing.
func loadMemory(dir string) (*memory, error) {
	path := filepath.Join(dir, "memory.json")
	data, err := store.ReadFile(store.OS{}, path, maxMemory)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	m := &memory{}
	if err == nil {
		err = canon.Unmarshal(data, m)
	}
	if err == nil {
		err = format.Check("it", m.Schema, memorySchema)
	}
	if newer := format.Newer(path, data, "schema", memorySchema); newer != nil {
		return nil, newer
	}
	if err != nil {
		return nil, damaged(path, err)
	}
	return m, nil
}

func damaged(path string, err error) error {
	return refusal.Newf(refusal.MemoryDamaged, "%s: %w", path, err).
		WithHint("it no longer says what was seen of the registry; keep it, and begin again with another --state")
}

func (m *memory) save(dir string) error {
	data, err := canon.Marshal(m)
	if err != nil {
		return err
	}
	return store.WriteFile(store.OS{}, filepath.Join(dir, "memory.json"), append(data, '\n'), 0o600)
}

func (m *memory) root() (tlog.Hash, error) { return tlog.ParseHash(m.Root) }

func entriesDir(dir string) string { return filepath.Join(dir, "entries") }

// saveEntries keeps the entries from an index on. They are written before the
// memory that counts them, so that a crash leaves at worst a file that the next
// look writes again.
func saveEntries(dir string, from int64, entries [][]byte) error {
	if err := store.MakeDir(store.OS{}, entriesDir(dir), 0o700); err != nil {
		return err
	}
	data := append(bytes.Join(entries, []byte("\n")), '\n')
	return store.WriteFile(store.OS{}, filepath.Join(entriesDir(dir), fmt.Sprintf("%016d.jsonl", from)), data, 0o600)
}

// loadEntries shows the first size entries that were kept, in order.
func loadEntries(dir string, size int64, visit func([]byte) error) error {
	if size == 0 {
		return nil
	}
	listed, err := (store.OS{}).ReadDir(entriesDir(dir))
	if err != nil {
		return damaged(entriesDir(dir), refusal.WithoutPath(err))
	}
	var names []string
	for _, e := range listed {
		if strings.HasSuffix(e.Name(), ".jsonl") {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	next := int64(0)
	for _, name := range names {
		path := filepath.Join(entriesDir(dir), name)
		if next >= size {
			return nil // of a look that did not get to remember
		}
		if name != fmt.Sprintf("%016d.jsonl", next) {
			return damaged(path, fmt.Errorf("expected the file that begins with entry %d", next))
		}
		n, err := readEntries(path, size-next, visit)
		if err != nil {
			return err
		}
		next += n
	}
	if next < size {
		return damaged(entriesDir(dir), fmt.Errorf("it has %d entries, %d were seen", next, size))
	}
	return nil
}

func readEntries(path string, most int64, visit func([]byte) error) (int64, error) {
	f, err := (store.OS{}).OpenFile(path, 0, 0)
	if err != nil {
		return 0, damaged(path, refusal.WithoutPath(err))
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(make([]byte, 64<<10), maxEntry)
	n := int64(0)
	for n < most && lines.Scan() {
		if err := visit(lines.Bytes()); err != nil {
			return n, damaged(path, err)
		}
		n++
	}
	if err := lines.Err(); err != nil {
		return n, damaged(path, err)
	}
	return n, nil
}

// A log is a ledger as far as it was read: its chain, its tree and who may seal it.
type log struct {
	origin  string
	chain   *ledger.Chain
	tree    *ledger.Tree
	signers *seal.Signers
	last    evidence.Time
	changes []change // of the signers, the first version included
}

// A change is a version of the signers and how many entries there were with the one
// that brought it.
type change struct {
	signers *seal.Signers
	at      evidence.Time
	size    int64
}

// operators are the keys that may sign the tree of that size. They come from
// entries, so they hold for a tree that a trusted key has signed: signers change only
// with signatures of those before them.
func (l *log) operators(size int64) []ledger.LogKey {
	for _, c := range slices.Backward(l.changes) {
		if c.size > size {
			continue
		}
		at := c.at
		if size == l.chain.Size() {
			at = l.last
		}
		return ledger.KeysOf(c.signers, l.origin, at.Go())
	}
	return nil
}

// heirs are the given keys and every key that one of them handed the ledger over to:
// a lone operator's key signs the version that names the next. A key that is merely
// listed in a version hands over nothing, since the maker of a ledger can list
// another operator's key.
func (l *log) heirs(keys []ledger.LogKey) []ledger.LogKey {
	all := slices.Clone(keys)
	for i := 1; i < len(l.changes); i++ {
		before, alone := l.changes[i-1].signers.LoneOperator()
		after, still := l.changes[i].signers.LoneOperator()
		from, _ := before.Key.Ed25519()
		if alone && still && slices.ContainsFunc(all, func(k ledger.LogKey) bool { return k.Key.Equal(from) }) {
			to, _ := after.Key.Ed25519()
			all = append(all, ledger.LogKey{Origin: l.origin, Key: to})
		}
	}
	return all
}

func newLog(origin string) *log {
	return &log{origin: origin, chain: ledger.NewChain(origin), tree: &ledger.Tree{}}
}

// add reads the next entry strictly and chains it.
func (l *log) add(raw []byte) (ledger.Position, evidence.Entry, evidence.Body, error) {
	index := l.chain.Size()
	fail := func(format string, args ...any) (ledger.Position, evidence.Entry, evidence.Body, error) {
		return ledger.Position{}, evidence.Entry{}, nil, refusal.Newf(refusal.EntryInvalid, "entry %d: "+format, append([]any{index}, args...)...)
	}
	entry, body, err := evidence.DecodeEntry(raw)
	if err != nil {
		return fail("%w", err)
	}
	if entry.Time.Go().Before(l.last.Go()) {
		return fail("its time %s is before that of the entry before it, %s", entry.Time, l.last)
	}
	switch b := body.(type) {
	case *evidence.Opened:
		if index != 0 {
			return fail("a ledger is opened once")
		}
		if b.Origin != l.origin {
			return fail("it opens the ledger %s, the checkpoint is of %s", b.Origin, l.origin)
		}
		// The first version of the signers is trusted because a trusted key
		// signed a tree that begins with it.
		if l.signers, err = seal.Root("signers", []byte(b.Signers), digest.IDOf([]byte(b.Signers))); err != nil {
			return fail("%w", err)
		}
		l.changes = append(l.changes, change{l.signers, entry.Time, index + 1})
	case *evidence.SignersChanged:
		if l.signers == nil {
			return fail("a change of signers is the first entry")
		}
		if l.signers, err = ledger.ExtendSigners(l.signers, b, entry.Time); err != nil {
			return fail("%w", err)
		}
		l.changes = append(l.changes, change{l.signers, entry.Time, index + 1})
	}
	if l.signers == nil {
		return fail("the first entry is %s, expected %s", entry.Kind, evidence.LedgerOpened)
	}
	l.last = entry.Time
	position := l.chain.Append(digest.ContentOf(raw))
	return position, entry, body, l.tree.Add(position.Leaf)
}
