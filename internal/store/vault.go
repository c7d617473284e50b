package store

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"

	"tallystick/internal/digest"
	"tallystick/internal/refusal"
)

// A Vault is a folder of evidence: single blobs and packs. It finds a piece by
// its name, wherever it lies, and gives it out only if it is what its name
// says.
type Vault struct {
	fsys  FS
	dir   string
	blobs *Blobs

	mu     sync.Mutex
	pieces map[digest.Content]PieceAt // nil until the packs were scanned
	broken error                      // of the first pack that could not be
}

// OpenVault returns the vault in dir, which need not exist yet.
func OpenVault(fsys FS, dir string) *Vault {
	return &Vault{fsys: fsys, dir: dir, blobs: NewBlobs(fsys, filepath.Join(dir, "blobs"))}
}

// PacksDir is where the packs of attempts lie.
func (v *Vault) PacksDir() string { return filepath.Join(v.dir, "packs") }

// Put stores one piece as a blob, on disk when it returns.
func (v *Vault) Put(data []byte) (digest.Content, error) { return v.blobs.Put(data) }

// Get returns a piece.
func (v *Vault) Get(d digest.Content, limit int64) ([]byte, error) {
	if v.blobs.Has(d) {
		return v.blobs.Get(d, limit)
	}
	pieces, err := v.scan()
	if err != nil {
		return nil, err
	}
	at, ok := pieces[d]
	if !ok && v.broken != nil {
		return nil, v.broken // it may be in there
	}
	if !ok {
		return nil, refusal.Newf(refusal.NotFound, "no evidence %s in %s", d, v.dir).
			WithHint("copy the evidence folder of the machine that recorded it")
	}
	return ReadPiece(v.fsys, d, at, limit)
}

// scan reads where everything lies, once. A pack that is none does not keep
// what lies in others from being found.
func (v *Vault) scan() (map[digest.Content]PieceAt, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.pieces != nil {
		return v.pieces, nil
	}
	entries, err := v.fsys.ReadDir(v.PacksDir())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, readError(v.PacksDir(), err)
	}
	pieces := make(map[digest.Content]PieceAt)
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".pack") {
			continue
		}
		err := ScanPack(v.fsys, filepath.Join(v.PacksDir(), e.Name()), func(d digest.Content, at PieceAt) error {
			pieces[d] = at
			return nil
		})
		if v.broken == nil {
			v.broken = err
		}
	}
	v.pieces = pieces
	return pieces, nil
}
