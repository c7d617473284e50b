package store

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
)

// A Vault is a folder of evidence: single blobs and packs. It finds a piece by
// its name, wherever it lies, and gives it out only if it is what its name
// says.
type Vault struct {
	// Elsewhere, if not nil, is asked for a piece that is not here. It brings the
	// piece into the folder if it knows it.
	Elsewhere func(digest.Content) error

	fsys  FS
	dir   string
	blobs *Blobs

	mu     sync.Mutex
	packs  []string    // by name, once they were scanned
	pieces *pieceIndex // nil until the packs were scanned
	broken error       // of the first pack that could not be
	open   map[uint32]*openPack
	wrong  []error // copies that were read and are not what their name says
}

// A pieceRef is where a piece lies, in little memory: there is one for every
// piece of every attempt.
type pieceRef struct {
	digest digest.Content
	offset int64
	size   uint32 // or the largest, of a piece that is larger than any limit
	pack   uint32 // in Vault.packs
}

// A pieceIndex finds pieces by digest. It takes two thirds of the memory of a
// map, and is never copied to a larger place but for its table.
type pieceIndex struct {
	table []uint32 // where in chunks, plus one; 0 is free; at most half is used
	refs  [][]pieceRef
	n     int
}

const refsInChunk = 1024

func (x *pieceIndex) at(i int) *pieceRef { return &x.refs[i/refsInChunk][i%refsInChunk] }

// slot returns where in the table a digest is, or would be. Digests are hashes:
// their first bytes are as good a place as any.
func (x *pieceIndex) slot(d digest.Content) int {
	mask := len(x.table) - 1
	i := int(binary.LittleEndian.Uint32(d[:])) & mask
	for x.table[i] != 0 && x.at(int(x.table[i])-1).digest != d {
		i = (i + 1) & mask
	}
	return i
}

// put notes a piece. Of one that is there more than once the first is noted:
// what is appended later does not hide it.
func (x *pieceIndex) put(ref pieceRef) {
	if 2*(x.n+1) > len(x.table) {
		x.table = make([]uint32, max(64, 2*len(x.table)))
		for i := range x.n {
			x.table[x.slot(x.at(i).digest)] = uint32(i + 1)
		}
	}
	i := x.slot(ref.digest)
	if x.table[i] != 0 {
		return
	}
	if x.n%refsInChunk == 0 {
		x.refs = append(x.refs, make([]pieceRef, 0, refsInChunk))
	}
	last := &x.refs[len(x.refs)-1]
	*last = append(*last, ref)
	x.n++
	x.table[i] = uint32(x.n)
}

func (x *pieceIndex) find(d digest.Content) (ref pieceRef, found bool) {
	if x.n == 0 {
		return ref, false
	}
	if i := x.table[x.slot(d)]; i != 0 {
		return *x.at(int(i) - 1), true
	}
	return ref, false
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
func (v *Vault) Get(d digest.Content, limit int64) ([]byte, error) { return v.get(d, limit, nil) }

// Check returns nil if a piece is there and is what its name says.
func (v *Vault) Check(d digest.Content, limit int64) error {
	buf := checkBuffers.Get().(*[]byte)
	data, err := v.get(d, limit, *buf)
	if cap(data) > cap(*buf) && cap(data) <= maxCheckBuffer {
		*buf = data
	}
	checkBuffers.Put(buf)
	return err
}

// checkBuffers are used again: a long attempt has hundreds of megabytes of
// pieces that are read to be hashed and for nothing else.
var checkBuffers = sync.Pool{New: func() any { return new([]byte) }}

const maxCheckBuffer = 1 << 20

// get reads a piece, into buf if it has room, and asks elsewhere if it is not
// here.
func (v *Vault) get(d digest.Content, limit int64, buf []byte) ([]byte, error) {
	data, err := v.here(d, limit, buf)
	if v.Elsewhere == nil || !refusal.Is(err, refusal.NotFound) {
		return data, err
	}
	if err := v.Elsewhere(d); err != nil {
		return nil, err
	}
	// What was brought for one piece may hold others.
	if err := v.scanAgain(); err != nil {
		return nil, err
	}
	return v.here(d, limit, buf)
}

// here reads a piece that is in the folder.
func (v *Vault) here(d digest.Content, limit int64, buf []byte) ([]byte, error) {
	data, found, err := v.scanned(d, limit, buf)
	if found && err == nil {
		return data, nil
	}
	if v.blobs.Has(d) {
		data, err = v.blobs.Get(d, limit)
		if found = true; err == nil {
			return data, nil
		}
	}
	if scanErr := v.scan(); scanErr != nil {
		return nil, scanErr
	}
	data, inPack, packErr := v.scanned(d, limit, buf)
	switch {
	case inPack && packErr == nil:
		v.note(err) // of the blob
		return data, nil
	case inPack:
		return v.another(d, limit, packErr)
	case found:
		return nil, err
	}
	if v.broken != nil {
		return nil, v.broken // it may be in there
	}
	return nil, refusal.Newf(refusal.NotFound, "no evidence %s in %s", d, v.dir).
		WithHint("copy the evidence folder of the machine that recorded it")
}

// note remembers a copy that is not what its name says, while another is.
func (v *Vault) note(err error) {
	if refusal.Is(err, refusal.DigestMismatch) {
		v.mu.Lock()
		v.wrong = append(v.wrong, err)
		v.mu.Unlock()
	}
}

// another looks for a copy that is what its name says, after the one that the
// index has was not. It reads where everything lies again, since the index has
// one copy of each; who put wrong bytes into a pack pays with our time once for
// each, and hides nothing.
func (v *Vault) another(d digest.Content, limit int64, first error) ([]byte, error) {
	var good []byte
	err := v.copies(func(at PieceAt, name digest.Content, _ bool) error {
		if name != d || good != nil {
			return nil
		}
		if data, err := ReadPiece(v.fsys, d, at, limit); err == nil {
			good = data
		}
		return nil
	})
	if err != nil || good == nil {
		return nil, first
	}
	v.note(first)
	return good, nil
}

// copies visits every piece of every pack, and says of each whether it is the
// copy that the index has.
func (v *Vault) copies(visit func(at PieceAt, name digest.Content, indexed bool) error) error {
	v.mu.Lock()
	packs, pieces := v.packs, v.pieces
	v.mu.Unlock()
	for i, pack := range packs {
		err := ScanPack(v.fsys, pack, func(d digest.Content, at PieceAt) error {
			ref, _ := pieces.find(d)
			return visit(at, d, ref.pack == uint32(i) && ref.offset == at.Offset)
		})
		if err != nil && v.broken == nil { // or scan said it before
			return err
		}
	}
	return nil
}

// WrongCopies says which further copies of pieces in packs, and which copies
// that were read before, are not what their name says, although another copy
// may be. A caller that asks for the piece never gets them; that they are there
// is a sign that a pack was written into from outside.
func (v *Vault) WrongCopies(limit int64) ([]error, error) {
	if err := v.scan(); err != nil {
		return nil, err
	}
	err := v.copies(func(at PieceAt, name digest.Content, indexed bool) error {
		if indexed {
			return nil
		}
		_, err := ReadPiece(v.fsys, name, at, limit)
		v.note(err)
		if refusal.Is(err, refusal.Unreadable) {
			return err
		}
		return nil
	})
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.wrong, err
}

// scanned returns a piece that lies in a pack already scanned. Without a scan it
// finds none: who wants only blobs need not know where all pieces lie.
func (v *Vault) scanned(d digest.Content, limit int64, buf []byte) (data []byte, found bool, err error) {
	v.mu.Lock()
	var ref pieceRef
	if v.pieces != nil {
		ref, found = v.pieces.find(d)
	}
	if !found {
		v.mu.Unlock()
		return nil, false, nil
	}
	at := PieceAt{Pack: v.packs[ref.pack], Offset: ref.offset, Size: int64(ref.size)}
	p, err := v.use(ref.pack)
	v.mu.Unlock()
	if err != nil {
		return nil, true, err
	}
	data, err = readPiece(p.f, d, at, limit, buf)
	v.mu.Lock()
	p.readers--
	v.mu.Unlock()
	return data, true, err
}

// use opens a pack, if it is not open, for one more reader. It is called with
// the lock held.
func (v *Vault) use(pack uint32) (*openPack, error) {
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
	pieces := &pieceIndex{}
	if err := v.scanInto(pieces); err != nil {
		return err
	}
	v.pieces, v.open = pieces, make(map[uint32]*openPack)
	return nil
}

// scanAgain reads where everything lies in packs that came since.
func (v *Vault) scanAgain() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.pieces == nil {
		return nil
	}
	return v.scanInto(v.pieces)
}

// scanInto reads the packs that were not read yet. It is called with the lock
// held.
func (v *Vault) scanInto(pieces *pieceIndex) error {
	entries, err := v.fsys.ReadDir(v.PacksDir())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return readError(v.PacksDir(), err)
	}
	for _, e := range entries {
		name, pack := filepath.Join(v.PacksDir(), e.Name()), uint32(len(v.packs))
		if !strings.HasSuffix(e.Name(), ".pack") || slices.Contains(v.packs, name) {
			continue
		}
		v.packs = append(v.packs, name)
		err := ScanPack(v.fsys, name, func(d digest.Content, at PieceAt) error {
			pieces.put(pieceRef{d, at.Offset, uint32(min(at.Size, math.MaxUint32)), pack})
			return nil
		})
		if v.broken == nil {
			v.broken = err
		}
	}
	return nil
}

// FileOf names the file that a piece is read from, or "". A caller that
// remembers that a piece was whole can tell from the file whether it was
// touched since.
func (v *Vault) FileOf(d digest.Content) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	var ref pieceRef
	found := false
	if v.pieces != nil {
		ref, found = v.pieces.find(d)
	}
	switch {
	case found:
		return v.packs[ref.pack]
	case v.blobs.Has(d):
		return v.blobs.path(d)
	}
	return ""
}
