package store

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/format"
	"tallystick/internal/record/refusal"
)

// packHeader begins every pack; docs/formats/evidence.md describes what
// follows it.
const (
	packFormat = "tallystick-pack/" + format.Version
	packHeader = packFormat + "\n"
)

// packRecordHeader is the length of what stands before each piece: its digest
// and its length.
const packRecordHeader = digest.Size + 8

// packMemory is how many pieces a pack remembers, so that it does not write them
// again. Remembering all of a long attempt would take more memory than running
// it; a piece that is there twice costs its bytes and nothing else.
const packMemory = 1 << 16

// packBuffer is the largest buffer that a pack keeps for the next pieces.
const packBuffer = 8 << 20

// A Pack gathers the evidence of one attempt in one append-only file: single
// files would cost a sync of a folder each. [Pack.Put] hands a piece over,
// [Pack.Commit] returns when everything put before it is on disk. Both may be
// called from any number of goroutines; commits that come together share one
// sync.
//
// A ledger entry names a piece only after Commit has returned, so what a crash
// tears at the end of a pack is evidence that no entry names.
type Pack struct {
	name string

	mu       sync.Mutex              // guards all that follows, and not the file
	buf      []byte                  // put and not written yet
	spare    []byte                  // what buf will be while the other is written
	has      map[digest.Content]bool // at most packMemory of those put
	broken   error
	written  int64      // bytes given to the file
	synced   int64      // bytes known to be on disk
	syncing  bool       // one of the callers of Commit is at work on the file
	progress *sync.Cond // synced, syncing or broken has changed

	f File
}

// CreatePack starts a pack that must not exist yet. Its first pieces are on disk
// when it returns: they share the sync that making it takes.
func CreatePack(fsys FS, name string, first ...[]byte) (*Pack, error) {
	if err := MakeDir(fsys, filepath.Dir(name), 0o700); err != nil {
		return nil, err
	}
	f, err := fsys.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, writeError("making pack", name, err)
	}
	p := &Pack{name: name, f: f, has: make(map[digest.Content]bool), buf: []byte(packHeader)}
	p.progress = sync.NewCond(&p.mu)
	for _, piece := range first {
		p.Put(piece)
	}
	err = p.Commit()
	if err == nil {
		if serr := fsys.SyncDir(filepath.Dir(name)); serr != nil {
			err = writeError("making pack", name, serr)
		}
	}
	if err != nil {
		f.Close()
		// Nothing is in it, and the next try must not find it in the way.
		return nil, errors.Join(err, fsys.Remove(name))
	}
	return p, nil
}

// Put takes a piece of evidence and returns its name. It is on disk after the
// next Commit.
func (p *Pack) Put(data []byte) digest.Content {
	d := digest.ContentOf(data)
	p.put(d, data)
	return d
}

// put is Put for a caller that has just computed the piece's name. Under
// another name the piece could never be found again.
func (p *Pack) put(d digest.Content, data []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.has[d] {
		return
	}
	p.add(d, data)
}

// place is put for who wants to know where the piece will begin. It writes a
// piece that is there again.
func (p *Pack) place(d digest.Content, data []byte) (offset int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.add(d, data)
}

// add is called with the lock held.
func (p *Pack) add(d digest.Content, data []byte) (offset int64) {
	large := len(data) > packBuffer
	for large && p.syncing {
		p.progress.Wait() // then the file is this caller's, while it has the lock
	}
	if len(p.has) == packMemory {
		clear(p.has)
	}
	p.has[d] = true
	p.buf = append(p.buf, d[:]...)
	p.buf = binary.BigEndian.AppendUint64(p.buf, uint64(len(data)))
	offset = p.written + int64(len(p.buf))
	if large {
		p.writeLarge(data)
		return offset
	}
	p.buf = append(p.buf, data...)
	return offset
}

// writeLarge writes what was put, which ends in the header of a piece, and that
// piece, which is too large to be copied first. It is on disk after the next
// Commit, as any other. It is called with the lock held, and keeps it: nothing
// else may get in between.
func (p *Pack) writeLarge(data []byte) {
	if p.broken != nil {
		return
	}
	_, err := p.f.WriteAt(p.buf, p.written)
	if err == nil {
		_, err = p.f.WriteAt(data, p.written+int64(len(p.buf)))
	}
	if err != nil {
		p.broken = writeError("writing evidence to", p.name, err)
		return // the buffer stays, so that the next Commit fails
	}
	p.written += int64(len(p.buf) + len(data))
	p.buf = p.buf[:0]
}

// Commit returns when everything put so far is on disk. After a failure the
// pack takes nothing more: what it holds beyond the last success is unknown.
func (p *Pack) Commit() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	target := p.written + int64(len(p.buf))
	for p.synced < target && p.broken == nil {
		if p.syncing {
			p.progress.Wait()
			continue
		}
		p.syncing = true
		p.flush()
		p.syncing = false
		p.progress.Broadcast()
	}
	if p.synced >= target { // perhaps by the sync of another caller
		return nil
	}
	return p.broken
}

// flush writes and syncs what was put. It is called with the lock held and
// lets go of it while it works.
func (p *Pack) flush() {
	p.gather()
	batch, at := p.buf, p.written
	p.buf, p.spare, p.written = p.spare, nil, at+int64(len(batch))
	p.mu.Unlock()
	_, err := p.f.WriteAt(batch, at)
	if err == nil {
		err = p.f.Sync()
	}
	p.mu.Lock()
	if err != nil {
		p.broken = writeError("writing evidence to", p.name, err)
		return
	}
	p.synced = at + int64(len(batch))
	if cap(batch) <= packBuffer {
		p.spare = batch[:0]
	}
}

// gather lets those who are about to put something put it, so that one sync
// serves them too. It does not wait for callers that have nothing to put at the
// moment.
func (p *Pack) gather() {
	for before := -1; before != len(p.buf); {
		before = len(p.buf)
		p.mu.Unlock()
		runtime.Gosched()
		p.mu.Lock()
	}
}

// Close commits and closes the pack.
func (p *Pack) Close() error {
	err := p.Commit()
	if cerr := p.f.Close(); err == nil && cerr != nil {
		err = writeError("closing", p.name, cerr)
	}
	return err
}

// A PieceAt says where a piece lies.
type PieceAt struct {
	Pack   string
	Offset int64
	Size   int64
}

// ScanPack calls visit for each whole piece of a pack, in order. A torn end is
// no error: no entry names what is in it. The pieces' contents are not read;
// [ReadPiece] checks a piece against its name.
func ScanPack(fsys FS, name string, visit func(digest.Content, PieceAt) error) error {
	f, info, err := openRegular(fsys, name)
	if err != nil {
		return err
	}
	defer f.Close()
	head := make([]byte, len(packHeader))
	if _, err := f.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return readError(name, err)
	}
	if string(head) != packHeader {
		if info.Size() < int64(len(packHeader)) && packHeader[:info.Size()] == string(head[:info.Size()]) {
			return nil // torn before the first piece
		}
		first, _, _ := strings.Cut(string(head), "\n")
		if newer := format.NewerName(name, first, packFormat); newer != nil {
			return newer
		}
		return refusal.Newf(refusal.Malformed, "%s does not begin as a pack does", name)
	}
	window := packWindow{f: f, buf: make([]byte, 0, min(scanWindow, info.Size()))}
	for at := int64(len(packHeader)); at+packRecordHeader <= info.Size(); {
		record, err := window.at(at)
		if err != nil {
			return readError(name, err)
		}
		size := binary.BigEndian.Uint64(record[digest.Size:])
		at += packRecordHeader
		if size > uint64(info.Size()-at) {
			return nil
		}
		if err := visit(digest.Content(record[:digest.Size]), PieceAt{Pack: name, Offset: at, Size: int64(size)}); err != nil {
			return err
		}
		at += int64(size)
	}
	return nil
}

// scanWindow is how much of a pack is read at once to find the headers of its
// pieces: most pieces are shorter, and few calls are cheaper than few bytes.
const scanWindow = 64 << 10

// A packWindow is a part of a pack in memory.
type packWindow struct {
	f     File
	start int64
	buf   []byte
}

// at returns the header of the piece that begins there.
func (w *packWindow) at(offset int64) ([]byte, error) {
	from := offset - w.start
	if from < 0 || from+packRecordHeader > int64(len(w.buf)) {
		n, err := w.f.ReadAt(w.buf[:cap(w.buf)], offset)
		if n < packRecordHeader {
			return nil, err
		}
		w.start, w.buf, from = offset, w.buf[:n], 0
	}
	return w.buf[from : from+packRecordHeader], nil
}

// ReadPiece reads a piece and checks that it is what its name says.
func ReadPiece(fsys FS, d digest.Content, at PieceAt, limit int64) ([]byte, error) {
	f, _, err := openRegular(fsys, at.Pack)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readPiece(f, d, at, limit, nil)
}

// readPiece is ReadPiece of an open pack, into buf if it has room.
func readPiece(f File, d digest.Content, at PieceAt, limit int64, buf []byte) ([]byte, error) {
	if at.Size > limit {
		return nil, refusal.Newf(refusal.TooLarge, "%s in %s has %d bytes, at most %d are read", d, at.Pack, at.Size, limit)
	}
	data := slices.Grow(buf[:0], int(at.Size))[:at.Size]
	if n, err := f.ReadAt(data, at.Offset); n < len(data) {
		return nil, readError(at.Pack, err)
	}
	if got := digest.ContentOf(data); got != d {
		return nil, refusal.Newf(refusal.DigestMismatch, "%s at byte %d holds %s, its name says %s", at.Pack, at.Offset, got, d).
			WithHint("restore the file from a copy; nothing that names it can be checked without it")
	}
	return data, nil
}
