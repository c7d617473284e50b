// Package backup copies a registry into one file while its server runs, and makes a
// registry of such a file again, with a proof that nothing changed.
//
// A backup has the ledger up to a size that the operator sealed, every text that its
// entries name, settings, signers and anchors, and never private keys unless they are
// asked for. Before it is written it is put together in a temporary folder, its
// ledger is verified there, and the database is made from it: the digest over all
// rows stands in the file. [Restore] does the same again and compares the tree head
// and that digest.
//
// What it does not do: it does not encrypt; with keys in it, a holder of the file is
// the registry. A backup that is older than what this machine, an anchor or a witness
// remembers is restored and said to be old, and the ledger's own memory refuses to
// write to it.
package backup

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/format"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/sequencer"
	"tallystick/internal/record/store"
	"tallystick/internal/serve/registry"
)

const (
	schema = "tallystick-registry-backup/" + format.Version
	// maxFile bounds one file of a registry: a segment, a pack, a page of settings.
	maxFile = 1 << 30
	maxBlob = 64 << 20
)

// A Manifest says what a backup has. It is the last file of it, so that a backup that
// was cut off has none.
type Manifest struct {
	Schema     string        `json:"schema"`
	Made       evidence.Time `json:"made"`
	Origin     string        `json:"origin"`
	Size       int64         `json:"size"` // entries
	Root       string        `json:"root"`
	Checkpoint string        `json:"checkpoint"` // signed note of that tree head
	Blobs      int           `json:"blobs"`
	TakenDown  int           `json:"taken_down"` // texts that are not there because they were taken down
	Rows       digest.ID     `json:"rows"`       // over all rows of the database that the entries give
	Keys       bool          `json:"keys"`
	Files      []File        `json:"files"`
}

// A File is one file of a backup.
type File struct {
	Path   string         `json:"path"`
	Bytes  int64          `json:"bytes"`
	Digest digest.Content `json:"digest"`
}

// Options say what to copy.
type Options struct {
	Dir      string
	Out      string // file that must not exist
	WithKeys bool
	Now      func() time.Time
}

// Make copies the registry in a folder, whether a server runs or not.
func Make(ctx context.Context, o Options) (*Manifest, error) {
	settings, err := registry.LoadSettings(o.Dir)
	if err != nil {
		return nil, err
	}
	if _, err := (store.OS{}).Lstat(o.Out); !errors.Is(err, fs.ErrNotExist) {
		return nil, refusal.Newf(refusal.AlreadyExists, "%s exists already and is not overwritten", o.Out)
	}
	work, remove, err := store.TempDir("tally-registry-backup-")
	if err != nil {
		return nil, err
	}
	defer remove()
	m := &Manifest{Schema: schema, Made: evidence.At(o.Now()), Origin: settings.Origin, Keys: o.WithKeys}
	if err := copyLedger(o.Dir, work, settings, m); err != nil {
		return nil, err
	}
	if err := copyPlain(o.Dir, work, settings); err != nil {
		return nil, err
	}
	// The keys are needed to open the copy and make its database; whether they go
	// into the file is another question.
	if err := copyDir(filepath.Join(o.Dir, "keys"), filepath.Join(work, "keys"), ""); err != nil {
		return nil, err
	}
	if m.Rows, err = rowsOf(ctx, work, filepath.Join(work, "registry.db"), o.Now); err != nil {
		return nil, err
	}
	return m, pack(work, o.Out, m)
}

// place is where the ledger of a registry lies.
func place(dir, stateDir string) sequencer.Place {
	return sequencer.Place{FS: store.OS{}, Dir: filepath.Join(dir, "ledger"), StateDir: stateDir, Anchors: filepath.Join(dir, "ledger", "anchors")}
}

// walked is what a walk over a ledger gathers.
type walked struct {
	*ledger.Verified
	named map[digest.Content]bool // texts that entries name
	down  map[digest.Content]bool // texts that were taken down
}

// walk verifies a ledger and gathers the texts that its entries name.
func walk(dir string, s registry.Settings, expect ...ledger.Expectation) (*walked, error) {
	w := &walked{named: map[digest.Content]bool{}, down: map[digest.Content]bool{}}
	var err error
	w.Verified, err = place(dir, "").Verify(ledger.Options{
		Origin: s.Origin, TrustRoot: s.TrustRoot, Decode: true, Expect: expect,
		Visit: func(r ledger.Record) error {
			if down, ok := r.Body.(*evidence.RegistryTakenDown); ok {
				w.down[down.Blob] = true
			}
			for _, b := range named(r.Body) {
				if b != nil {
					w.named[*b] = true
				}
			}
			return nil
		},
	})
	var p *ledger.Problem
	if errors.As(err, &p) {
		return nil, p.Refusal()
	}
	return w, err
}

// named lists the texts that an entry names.
func named(body evidence.Body) []*digest.Content {
	switch b := body.(type) {
	case *evidence.RegistryAgent:
		return []*digest.Content{b.Profile}
	case *evidence.RegistryJudge:
		return []*digest.Content{b.Reason}
	case *evidence.RegistryProposed:
		if b.Credential == nil {
			return []*digest.Content{&b.Manifest}
		}
		return []*digest.Content{&b.Manifest, &b.Credential.Blob}
	case *evidence.RegistryDrawn:
		return []*digest.Content{b.Checkpoint}
	case *evidence.RegistryJudged:
		return []*digest.Content{b.Reason}
	case *evidence.CredentialIssued:
		return []*digest.Content{b.Blob}
	}
	return nil
}

// copyLedger copies what is sealed now, and the texts that it names.
func copyLedger(dir, work string, s registry.Settings, m *Manifest) error {
	w, err := walk(dir, s)
	if err != nil {
		return err
	}
	if err := copySegments(dir, work, w.Verified); err != nil {
		return err
	}
	m.Size, m.Root, m.Checkpoint = w.Size, w.Root.String(), string(w.Checkpoint)
	if err := copyBlobs(dir, work, s, w, m); err != nil {
		return err
	}
	return copyDir(filepath.Join(dir, "ledger", "anchors"), filepath.Join(work, "ledger", "anchors"), ".json")
}

// copySegments copies the segments as far as they were verified: what the server
// appends meanwhile is after that.
func copySegments(dir, work string, v *ledger.Verified) error {
	from, to := place(dir, "").SegmentsDir(), place(work, "").SegmentsDir()
	if err := store.MakeDir(store.OS{}, to, 0o700); err != nil {
		return err
	}
	entries, err := (store.OS{}).ReadDir(from)
	if err != nil {
		return refusal.Newf(refusal.Unreadable, "reading %s: %w", from, refusal.WithoutPath(err))
	}
	for _, e := range entries {
		if filepath.Ext(e.Name()) != ".log" || e.Name() > v.Tail.Segment {
			continue
		}
		data, err := store.ReadFile(store.OS{}, filepath.Join(from, e.Name()), maxFile)
		if err != nil {
			return err
		}
		if e.Name() == v.Tail.Segment {
			data = data[:v.Tail.GoodSize]
		}
		if err := store.WriteFile(store.OS{}, filepath.Join(to, e.Name()), data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// blobBatch is how many bytes of texts share a sync.
const blobBatch = 8 << 20

// copyBlobs copies every text that an entry names and that was not taken down.
func copyBlobs(dir, work string, s registry.Settings, w *walked, m *Manifest) error {
	from, err := store.OpenShelf(store.OS{}, filepath.Join(dir, "blobs"))
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := store.OpenShelf(store.OS{}, filepath.Join(work, "blobs"))
	if err != nil {
		return err
	}
	var batch [][]byte
	size := 0
	flush := func() error {
		_, err := to.Put(batch...)
		batch, size = batch[:0], 0
		return err
	}
	for name := range w.named {
		if w.down[name] {
			m.TakenDown++
			continue
		}
		data, err := from.Get(name, maxBlob)
		if err != nil {
			if err := takenDownSince(dir, s, name, err); err != nil {
				return errors.Join(err, to.Close())
			}
			// The copy ends before the entry that took it down, and must not have
			// the text all the same: the backup is begun again by the caller.
			return errors.Join(refusal.Newf(refusal.Interrupted, "the text %s was taken down while the backup was made", name).WithHint("make the backup again"), to.Close())
		}
		m.Blobs++
		if batch, size = append(batch, data), size+len(data); size > blobBatch {
			if err := flush(); err != nil {
				return errors.Join(err, to.Close())
			}
		}
	}
	return errors.Join(flush(), to.Close())
}

// takenDownSince returns nil if the ledger says by now that a text was taken down.
func takenDownSince(dir string, s registry.Settings, name digest.Content, missing error) error {
	now, err := walk(dir, s)
	if err != nil {
		return err
	}
	if now.down[name] {
		return nil
	}
	return missing
}

// copyPlain copies settings and signers, and the calibration set.
func copyPlain(dir, work string, s registry.Settings) error {
	names := []string{registry.SettingsFile, filepath.Join("signers", "allowed_signers")}
	if s.Calibration != "" {
		if !filepath.IsLocal(s.Calibration) {
			return refusal.Newf(refusal.Malformed, "the calibration set %q is not inside of the registry's folder", s.Calibration).WithHint("move it there, so that a backup has it")
		}
		names = append(names, s.Calibration)
	}
	for _, name := range names {
		if err := copyFile(filepath.Join(dir, name), filepath.Join(work, name)); err != nil {
			return err
		}
	}
	return nil
}

// copyDir copies the files of a folder that end in a suffix; a folder that is not
// there has none.
func copyDir(from, to, suffix string) error {
	entries, err := (store.OS{}).ReadDir(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return refusal.Newf(refusal.Unreadable, "reading %s: %w", from, refusal.WithoutPath(err))
	}
	for _, e := range entries {
		if e.Type().IsRegular() && strings.HasSuffix(e.Name(), suffix) {
			if err := copyFile(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

func copyFile(from, to string) error {
	data, err := store.ReadFile(store.OS{}, from, maxFile)
	if err != nil {
		return err
	}
	if err := store.MakeDir(store.OS{}, filepath.Dir(to), 0o700); err != nil {
		return err
	}
	return store.WriteFile(store.OS{}, to, data, 0o600)
}

// rowsOf makes the database of a folder and returns the digest over its rows. The
// memory of what was signed is left out of it: this only reads, and a copy that is
// older than the memory has rows too.
func rowsOf(ctx context.Context, dir, db string, now func() time.Time) (digest.ID, error) {
	memory, remove, err := store.TempDir("tally-registry-memory-")
	if err != nil {
		return digest.ID{}, err
	}
	defer remove()
	made, err := registry.Rebuild(ctx, registry.Options{Dir: dir, DB: db, StateDir: memory, Now: now})
	if err != nil {
		return digest.ID{}, err
	}
	return made.Digest, nil
}
