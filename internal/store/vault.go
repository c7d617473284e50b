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
	packs  []string                    // by name, once they were scanned
	pieces map[digest.Content]pieceRef // nil until the packs were scanned
	broken error                       // of the first pack that could not be
	open   map[int32]*openPack
}

// A pieceRef is a [PieceAt] in less memory: there is one for every piece of
// every attempt.
type pieceRef struct {
	offset, size int64
	pack         int32 // in Vault.packs
}

// An openPack is a pack kept open for the next piece: opening it takes longer
// than reading one.
type openPack struct {
	f       File
	readers int
}

// maxOpenPacks bounds how many packs are kept open. Cases of one attempt lie in
// one pack, and few attempts are read at once.
const maxOpenPacks = 8

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
	if data, ok, err := v.scanned(d, limit); ok && (err == nil || !v.blobs.Has(d)) {
		return data, err
	}
	if v.blobs.Has(d) {
		return v.blobs.Get(d, limit)
	}
	if err := v.scan(); err != nil {
		return nil, err
	}
	if data, ok, err := v.scanned(d, limit); ok {
		return data, err
	}
	if v.broken != nil {
		return nil, v.broken // it may be in there
	}
	return nil, refusal.Newf(refusal.NotFound, "no evidence %s in %s", d, v.dir).
		WithHint("copy the evidence folder of the machine that recorded it")
}

// scanned returns a piece that lies in a pack already scanned. Without a scan it
// finds none: who wants only blobs need not know where all pieces lie.
func (v *Vault) scanned(d digest.Content, limit int64) (data []byte, found bool, err error) {
	v.mu.Lock()
	ref, found := v.pieces[d]
	if !found {
		v.mu.Unlock()
		return nil, false, nil
	}
	at := PieceAt{Pack: v.packs[ref.pack], Offset: ref.offset, Size: ref.size}
	p, err := v.use(ref.pack)
	v.mu.Unlock()
	if err != nil {
		return nil, true, err
	}
	data, err = readPiece(p.f, d, at, limit)
	v.mu.Lock()
	p.readers--
	v.mu.Unlock()
	return data, true, err
}

// use opens a pack, if it is not open, for one more reader. It is called with
// the lock held.
func (v *Vault) use(pack int32) (*openPack, error) {
	p := v.open[pack]
	if p == nil {
		for other, o := range v.open {
			if len(v.open) >= maxOpenPacks && o.readers == 0 {
				o.f.Close()
				delete(v.open, other)
			}
		}
		f, _, err := openRegular(v.fsys, v.packs[pack])
		if err != nil {
			return nil, err
		}
		p = &openPack{f: f}
		v.open[pack] = p
	}
	p.readers++
	return p, nil
}

// scan reads where everything lies, once. A file that is not a pack does not
// keep what lies in others from being found.
func (v *Vault) scan() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.pieces != nil {
		return nil
	}
	entries, err := v.fsys.ReadDir(v.PacksDir())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return readError(v.PacksDir(), err)
	}
	pieces := make(map[digest.Content]pieceRef)
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".pack") {
			continue
		}
		name, pack := filepath.Join(v.PacksDir(), e.Name()), int32(len(v.packs))
		v.packs = append(v.packs, name)
		err := ScanPack(v.fsys, name, func(d digest.Content, at PieceAt) error {
			pieces[d] = pieceRef{at.Offset, at.Size, pack}
			return nil
		})
		if v.broken == nil {
			v.broken = err
		}
	}
	v.pieces, v.open = pieces, make(map[int32]*openPack)
	return nil
}
