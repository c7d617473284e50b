package backup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/sequencer"
	"tallystick/internal/record/store"
	"tallystick/internal/serve/registry"
)

// RestoreOptions say what to restore, and where.
type RestoreOptions struct {
	File     string
	Dir      string // must be empty or not there
	Keys     string // folder with the private keys, for a backup that has none
	DB       string // "" for the SQLite file in Dir
	StateDir string // where this machine remembers what it signed
	Now      func() time.Time
}

// A Restored says what was proved.
type Restored struct {
	Dir    string `json:"dir"`
	Origin string `json:"origin"`
	Size   int64  `json:"size"`
	Root   string `json:"root"`
	Blobs  int    `json:"blobs"` // read again and found to be what their names say
	// Rows is the digest over all rows of the database, which is that of the backup;
	// zero if there are no keys to open the registry with.
	Rows digest.ID `json:"rows"`
	Keys bool      `json:"keys"`
	// Remembered is how many entries this machine remembers to have signed; more than
	// Size means that the backup is old, and that nothing can be written to it here.
	Remembered int64 `json:"remembered"`
	Old        bool  `json:"old"`
}

// Restore makes a registry of a backup and proves that it is the same: every file by
// its digest, the ledger by its seals and the signed tree head, every text by its
// name, the database by the digest over its rows.
func Restore(ctx context.Context, o RestoreOptions) (*Restored, error) {
	in, err := store.Open(o.File)
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "reading %s: %w", o.File, refusal.WithoutPath(err))
	}
	defer in.Close()
	if err := makeEmpty(o.Dir); err != nil {
		return nil, err
	}
	m, err := unpack(in, o.Dir)
	if err != nil {
		return nil, err
	}
	settings, err := registry.LoadSettings(o.Dir)
	if err != nil {
		return nil, err
	}
	done := &Restored{Dir: o.Dir, Origin: settings.Origin, Size: m.Size, Root: m.Root, Keys: m.Keys || o.Keys != ""}
	if done.Blobs, err = sameLedger(o.Dir, settings, m); err != nil {
		return nil, err
	}
	if err := done.remember(o.StateDir, settings); err != nil {
		return nil, err
	}
	if !m.Keys && o.Keys != "" {
		if err := copyDir(o.Keys, filepath.Join(o.Dir, "keys"), ""); err != nil {
			return nil, err
		}
	}
	if !done.Keys {
		return done, nil
	}
	if o.DB == "" {
		o.DB = filepath.Join(o.Dir, "registry.db")
	}
	if done.Rows, err = rowsOf(ctx, o.Dir, o.DB, o.Now); err != nil {
		return nil, err
	}
	if done.Rows != m.Rows {
		return nil, refusal.Newf(refusal.RegistryMismatch, "the restored database has the digest %s; that of the backup is %s", done.Rows, m.Rows).
			WithHint("the ledger is the same; another version of the program may make other rows: see what changed before you serve it")
	}
	return done, nil
}

// makeEmpty refuses a folder with something in it.
func makeEmpty(dir string) error {
	entries, err := (store.OS{}).ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return store.MakeDir(store.OS{}, dir, 0o700)
	case err != nil:
		return refusal.Newf(refusal.Unreadable, "reading %s: %w", dir, refusal.WithoutPath(err))
	case len(entries) > 0:
		return refusal.Newf(refusal.AlreadyExists, "%s is not empty", dir).WithHint("restore into a new folder; nothing is overwritten")
	}
	return nil
}

// sameLedger verifies the restored ledger against the tree head of the backup, and
// reads every text that it names.
func sameLedger(dir string, s registry.Settings, m *Manifest) (int, error) {
	root, err := tlog.ParseHash(m.Root)
	if err != nil {
		return 0, refusal.Newf(refusal.Malformed, "the backup: root: %w", err)
	}
	head := ledger.TreeHead{Origin: m.Origin, Size: m.Size, Root: root}
	w, err := walk(dir, s, ledger.Expectation{TreeHead: head, Source: "the backup's list of files"})
	if err != nil {
		return 0, err
	}
	if w.TreeHead != head || string(w.Checkpoint) != m.Checkpoint {
		return 0, refusal.Newf(refusal.DigestMismatch, "the restored ledger has %d entries, root %s; the backup says %d, root %s", w.Size, w.Root, m.Size, m.Root)
	}
	shelf, err := store.OpenShelf(store.OS{}, filepath.Join(dir, "blobs"))
	if err != nil {
		return 0, err
	}
	defer shelf.Close()
	n := 0
	for name := range w.named {
		if w.down[name] {
			continue
		}
		if _, err := shelf.Get(name, maxBlob); err != nil {
			return 0, fmt.Errorf("the restored registry: %w", err)
		}
		n++
	}
	if n != m.Blobs {
		return 0, refusal.Newf(refusal.DigestMismatch, "the restored registry has %d texts, the backup says %d", n, m.Blobs)
	}
	return n, nil
}

// remember compares with what this machine remembers to have signed.
func (r *Restored) remember(stateDir string, s registry.Settings) error {
	head, err := sequencer.Remembered(store.OS{}, stateDir, s.Origin)
	if err != nil || head == nil {
		return err
	}
	r.Remembered = head.Size
	r.Old = head.Size > r.Size
	return nil
}
