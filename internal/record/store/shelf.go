package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
)

// shelfPackBytes is when a shelf begins the next pack: few files, each small
// enough to be written again when a piece is dropped.
const shelfPackBytes = 64 << 20

// A Shelf keeps pieces by digest for as long as a program runs and after it: many
// writers share one sync, and a piece can be dropped for good. One process has it
// open for writing; the caller sees to that.
type Shelf struct {
	fsys FS
	dir  string

	mu     sync.RWMutex
	pieces map[digest.Content]PieceAt // on disk
	pack   *Pack                      // being written; nil until something is put
	name   string                     // of pack
	size   int64                      // bytes put into pack
	next   int
}

// OpenShelf opens the shelf in dir, which is made when the first piece is put.
// A torn end of a pack is what a crash left of pieces that were never
// acknowledged.
func OpenShelf(fsys FS, dir string) (*Shelf, error) {
	s := &Shelf{fsys: fsys, dir: dir, pieces: make(map[digest.Content]PieceAt)}
	names, err := s.packs()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if err := s.scan(name); err != nil {
			return nil, err
		}
		if _, err := fmt.Sscanf(filepath.Base(name), "%d.pack", &s.next); err != nil {
			return nil, refusal.Newf(refusal.Malformed, "%s is not the name of a pack of a shelf", name)
		}
	}
	s.next++
	return s, nil
}

func (s *Shelf) packs() ([]string, error) {
	entries, err := s.fsys.ReadDir(s.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, readError(s.dir, err)
	}
	var names []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".pack") {
			names = append(names, filepath.Join(s.dir, e.Name()))
		}
	}
	return names, nil
}

func (s *Shelf) scan(name string) error {
	return s.each(name, func(d digest.Content, at PieceAt) error {
		s.pieces[d] = at
		return nil
	})
}

// each visits the pieces of a pack.
func (s *Shelf) each(name string, visit func(digest.Content, PieceAt) error) error {
	info, err := s.fsys.Lstat(name)
	if err != nil {
		return readError(name, err)
	}
	if info.Size() <= int64(len(packHeader)) {
		return nil // a power cut while it was begun; the header is on disk before any piece
	}
	return ScanPack(s.fsys, name, visit)
}

// Put stores pieces, all of them on disk when it returns.
func (s *Shelf) Put(pieces ...[]byte) ([]digest.Content, error) {
	names := make([]digest.Content, len(pieces))
	places := make(map[digest.Content]PieceAt)
	for i, data := range pieces {
		names[i] = digest.ContentOf(data)
	}
	pack, err := s.place(names, pieces, places)
	if err != nil || pack == nil {
		return names, err
	}
	if err := pack.Commit(); err != nil {
		return names, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for d, at := range places {
		s.pieces[d] = at
	}
	return names, nil
}

// place gives the pieces that are not there to the pack, and says where they will
// be. It returns nil if all of them are there.
func (s *Shelf) place(names []digest.Content, pieces [][]byte, places map[digest.Content]PieceAt) (*Pack, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, d := range names {
		if _, there := s.pieces[d]; there {
			continue
		}
		if err := s.room(); err != nil {
			return nil, err
		}
		if places[d].Pack == "" {
			places[d] = PieceAt{Pack: s.name, Offset: s.pack.place(d, pieces[i]), Size: int64(len(pieces[i]))}
			s.size += int64(len(pieces[i])) + packRecordHeader
		}
	}
	if len(places) == 0 {
		return nil, nil
	}
	return s.pack, nil
}

// room begins a pack if there is none or it is full. It is called with the lock
// held.
func (s *Shelf) room() error {
	if s.pack != nil && s.size < shelfPackBytes {
		return nil
	}
	if err := s.closePack(); err != nil {
		return err
	}
	s.name = filepath.Join(s.dir, fmt.Sprintf("%016d.pack", s.next))
	pack, err := CreatePack(s.fsys, s.name)
	if err != nil {
		return err
	}
	s.pack, s.size = pack, 0
	s.next++
	return nil
}

func (s *Shelf) closePack() error {
	if s.pack == nil {
		return nil
	}
	err := s.pack.Close()
	s.pack = nil
	return err
}

// Get returns a piece, having checked that it is what its name says.
func (s *Shelf) Get(d digest.Content, limit int64) ([]byte, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	at, ok := s.pieces[d]
	if !ok {
		return nil, refusal.Newf(refusal.NotFound, "no blob %s in %s", d, s.dir).WithHint("restore the folder from a backup of the same moment as the ledger or later")
	}
	return ReadPiece(s.fsys, d, at, limit)
}

// Has reports whether a piece is there.
func (s *Shelf) Has(d digest.Content) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	_, ok := s.pieces[d]
	return ok
}

// Drop removes a piece and every copy of it. When it returns no file of the shelf
// has its bytes; what a disk keeps of a file that was replaced is beyond it.
func (s *Shelf) Drop(d digest.Content) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.closePack(); err != nil {
		return err
	}
	names, err := s.packs()
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := s.rewrite(name, d); err != nil {
			return err
		}
	}
	delete(s.pieces, d)
	return nil
}

// rewrite writes a pack again without a piece, if it has it.
func (s *Shelf) rewrite(name string, without digest.Content) error {
	found := false
	var kept []digest.Content
	var places []PieceAt
	err := s.each(name, func(d digest.Content, at PieceAt) error {
		if d == without {
			found = true
			return nil
		}
		kept, places = append(kept, d), append(places, at)
		return nil
	})
	if err != nil || !found {
		return err
	}
	data := []byte(packHeader)
	for i, d := range kept {
		piece, err := ReadPiece(s.fsys, d, places[i], places[i].Size)
		if err != nil {
			return err
		}
		data = append(data, d[:]...)
		data = binary.BigEndian.AppendUint64(data, uint64(len(piece)))
		places[i].Offset = int64(len(data))
		data = append(data, piece...)
	}
	if err := WriteFile(s.fsys, name, data, 0o600); err != nil {
		return err
	}
	for i, d := range kept {
		if s.pieces[d].Pack == name {
			s.pieces[d] = places[i]
		}
	}
	return nil
}

// Close ends writing. Pieces can still be read.
func (s *Shelf) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closePack()
}
