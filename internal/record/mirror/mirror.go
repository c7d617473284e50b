// Package mirror keeps a ledger and its evidence in an object store, and the
// local folder a verified copy of it.
//
// Each sealed batch is one object, named by the index of its first entry and
// created only if nothing has that name: two machines cannot both continue the
// same ledger, whatever else goes wrong. [Mirror.Pull] brings the local folder
// up to date and refuses a store that is not an extension of it; every reader
// then works on the folder as always. [Mirror.Begin] returns a [Writer],
// through which a batch goes to the store before it goes to disk and before the
// caller is told.
//
// A lease says who writes, for people and to avoid useless work. Nothing rests on
// it: a holder that slept through its lease loses at its next batch.
//
// Where it stops: a tail cut off the store is noticed by a machine that has seen
// it, or by a memory, an anchor or a witness that has. That one of them is there
// is the caller's to ask for.
package mirror

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"tallystick/internal/record/bucket"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/sequencer"
	"tallystick/internal/record/store"
)

// Options are what a [Mirror] is made of.
type Options struct {
	sequencer.Place
	Origin      string
	TrustRoot   digest.ID
	Evidence    string // folder of the evidence
	Checkpoints string // folder of the kept checkpoints
	Address     bucket.Address
	Bucket      bucket.Bucket
	// Lease is how long a silent holder is believed to be alive; 0 means twenty
	// seconds.
	Lease time.Duration
	Now   func() time.Time
}

// A Mirror is a ledger in an object store and its copy in a folder.
type Mirror struct {
	Options
	evidence evidenceIndex
}

// New returns the mirror; nothing is asked of the store yet.
func New(o Options) *Mirror {
	if o.Lease == 0 {
		o.Lease = leaseTime
	}
	return &Mirror{Options: o}
}

// The objects of a ledger. docs/formats/store.md describes them.
const (
	ledgerObject    = "ledger.json" // which ledger this is; written first
	leaseObject     = "lease.json"
	segmentsPrefix  = "segments/"
	tilesPrefix     = "tiles/"
	packsPrefix     = "evidence/packs/"
	blobsPrefix     = "evidence/blobs/"
	keptPrefix      = "checkpoints/"
	maxSmallObject  = 1 << 20
	maxMarkerObject = 1 << 16
)

// batchObject names a batch by the index of its first entry. Names sort as
// numbers do.
func batchObject(first int64) string { return fmt.Sprintf("%s%016d.log", segmentsPrefix, first) }

// MovedFile says, in a ledger's folder, that the ledger is kept in a store and the
// folder is its copy.
func MovedFile(p sequencer.Place) string { return filepath.Join(p.Dir, sequencer.StoreFile) }

// pullLock keeps two pulls into one folder apart. The ledger's own lock is a
// writer's, and held for hours.
func (m *Mirror) pullLock(ctx context.Context) (*store.Lock, error) {
	if err := store.MakeDir(m.FS, m.Dir, 0o700); err != nil {
		return nil, err
	}
	return store.TakeLock(ctx, m.FS, filepath.Join(m.Dir, "pull.lock"))
}

// failed names an error of the store.
func (m *Mirror) failed(doing string, err error) error {
	var r *refusal.Error
	if errors.As(err, &r) {
		return err
	}
	return bucket.Unreachable(m.Address.String(), fmt.Errorf("%s: %w", doing, err))
}

// place names an object for people.
func (m *Mirror) place(object string) string {
	return fmt.Sprintf("%s of %s", object, m.Address)
}
