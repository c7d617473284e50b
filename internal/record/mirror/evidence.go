package mirror

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"tallystick/internal/record/bucket"
	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
)

// partBytes is the largest part of a pack that is one object.
const partBytes = 64 << 20

// maxPackBytes bounds a pack that is fetched: a store may list anything.
const maxPackBytes = 1 << 40

// maxBlobBytes bounds one piece of evidence.
const maxBlobBytes = 1 << 30

// storedFile, in the folder of the evidence, notes what of it is in the store, so
// that it is not sent again. Losing the note costs a second copy and nothing else.
const storedFile = "stored.json"

// A storedPack says how much of a local pack is in the store, and under which
// name. Two machines may have begun packs of one name, of which only one ends up
// in the ledger: the writer's random word keeps them apart.
type storedPack struct {
	Writer string `json:"writer"`
	Bytes  int64  `json:"bytes"`
}

// An evidenceIndex is what this process knows of the evidence in the store.
type evidenceIndex struct {
	mu     sync.Mutex
	stored map[string]storedPack // local packs; nil until read
	blobs  map[string]bool       // local blobs that are there
	noted  bool                  // stored is what the note says
	remote map[string][]part     // packs of the store by folder; nil until listed
}

// A part is a run of bytes of a pack.
type part struct {
	object string
	start  int64
	size   int64
}

func (m *Mirror) packsDir() string { return filepath.Join(m.Evidence, "packs") }
func (m *Mirror) blobsDir() string { return filepath.Join(m.Evidence, "blobs") }

// pushEvidence stores what packs and blobs have grown by. Whatever an entry names
// was synced to them before the entry was submitted, so it is in the store before
// the batch is.
func (m *Mirror) pushEvidence(ctx context.Context) error {
	x := &m.evidence
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := m.loadStored(); err != nil {
		return err
	}
	packs, err := m.FS.ReadDir(m.packsDir())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return refusal.Newf(refusal.Unreadable, "reading evidence: %w", err)
	}
	for _, e := range packs {
		if name, ok := strings.CutSuffix(e.Name(), packSuffix); ok {
			if err := m.pushPack(ctx, name); err != nil {
				return err
			}
		}
	}
	return m.pushBlobs(ctx)
}

const packSuffix = ".pack"

// pushPack stores the whole pieces that a pack has grown by.
func (m *Mirror) pushPack(ctx context.Context, name string) error {
	known, has := m.evidence.stored[name]
	if !has {
		known = storedPack{Writer: strings.ToLower(rand.Text()[:8])}
	}
	file := filepath.Join(m.packsDir(), name+packSuffix)
	info, err := m.FS.Stat(file)
	if err != nil {
		return refusal.Newf(refusal.Unreadable, "reading evidence: %w", err)
	}
	if info.Size() <= known.Bytes {
		return nil
	}
	end, err := store.PackEnd(m.FS, file, known.Bytes)
	if err != nil {
		return err
	}
	for known.Bytes < end {
		data, err := store.ReadRange(m.FS, file, known.Bytes, min(end, known.Bytes+partBytes))
		if err != nil {
			return err
		}
		object := fmt.Sprintf("%s%s~%s/%016d", packsPrefix, name, known.Writer, known.Bytes)
		if err := bucket.CreateSame(ctx, m.Bucket, object, data); err != nil {
			return m.failed("storing "+object, err)
		}
		known.Bytes += int64(len(data))
		m.evidence.stored[name], m.evidence.noted = known, false
	}
	return nil
}

// pushBlobs stores blobs that are not known to be there.
func (m *Mirror) pushBlobs(ctx context.Context) error {
	folders, err := m.FS.ReadDir(m.blobsDir())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return refusal.Newf(refusal.Unreadable, "reading evidence: %w", err)
	}
	for _, folder := range folders {
		files, err := m.FS.ReadDir(filepath.Join(m.blobsDir(), folder.Name()))
		if err != nil {
			return refusal.Newf(refusal.Unreadable, "reading evidence: %w", err)
		}
		for _, f := range files {
			if m.evidence.blobs[f.Name()] || strings.HasSuffix(f.Name(), ".tmp") {
				continue
			}
			data, err := store.ReadFile(m.FS, filepath.Join(m.blobsDir(), folder.Name(), f.Name()), maxBlobBytes)
			if err != nil {
				return err
			}
			object := blobsPrefix + folder.Name() + "/" + f.Name()
			if err := bucket.CreateSame(ctx, m.Bucket, object, data); err != nil {
				return m.failed("storing "+object, err)
			}
			m.evidence.blobs[f.Name()], m.evidence.noted = true, false
		}
	}
	return nil
}

// A storedNote is the note of what is in the store.
type storedNote struct {
	Blobs []string              `json:"blobs"`
	Packs map[string]storedPack `json:"packs"`
	Store string                `json:"store"`
}

// loadStored reads the note of what is in the store.
func (m *Mirror) loadStored() error {
	if m.evidence.stored != nil {
		return nil
	}
	m.evidence.stored, m.evidence.blobs, m.evidence.noted = map[string]storedPack{}, map[string]bool{}, true
	data, err := store.ReadFile(m.FS, filepath.Join(m.Evidence, storedFile), maxBlobBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var note storedNote
	if err == nil {
		err = canon.UnmarshalCanonical(bytes.TrimSuffix(data, []byte("\n")), &note)
	}
	if err != nil {
		return refusal.Newf(refusal.Malformed, "%s: %w", filepath.Join(m.Evidence, storedFile), err).WithHint("remove the file: evidence is then stored once more")
	}
	// A note about another store says nothing about this one.
	if note.Store == m.Address.String() {
		m.evidence.stored = note.Packs
		for _, name := range note.Blobs {
			m.evidence.blobs[name] = true
		}
	}
	return nil
}

// noteStored writes down what is in the store.
func (m *Mirror) noteStored() error {
	m.evidence.mu.Lock()
	defer m.evidence.mu.Unlock()
	return m.writeStored()
}

func (m *Mirror) writeStored() error {
	if m.evidence.stored == nil || m.evidence.noted {
		return nil
	}
	text, err := canon.Marshal(storedNote{
		append([]string{}, slices.Sorted(maps.Keys(m.evidence.blobs))...), m.evidence.stored, m.Address.String(),
	})
	if err == nil {
		err = store.MakeDir(m.FS, m.Evidence, 0o700)
	}
	if err == nil {
		err = store.WriteFile(m.FS, filepath.Join(m.Evidence, storedFile), append(text, '\n'), 0o600)
	}
	m.evidence.noted = err == nil
	return err
}

// Fetch brings a piece of evidence, or the pack that has it, into the folder.
// Packs are fetched one after the other until the piece is found: a later question
// finds more of them here. What arrives is compared with its digest before it gets
// its name. It is not an error if the store does not have the piece.
func (m *Mirror) Fetch(ctx context.Context, d digest.Content) error {
	x := &m.evidence
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := m.loadStored(); err != nil {
		return err
	}
	if got, err := m.fetchBlob(ctx, d); err != nil {
		return err
	} else if got {
		return m.writeStored()
	}
	if err := m.listPacks(ctx); err != nil {
		return err
	}
	for _, folder := range slices.Sorted(maps.Keys(x.remote)) {
		found, err := m.fetchPack(ctx, folder, d)
		if err != nil {
			return err
		}
		delete(x.remote, folder)
		if found {
			break
		}
	}
	return m.writeStored()
}

// FetchAll brings all evidence of the store into the folder.
func (m *Mirror) FetchAll(ctx context.Context) error {
	if err := m.Fetch(ctx, digest.Content{}); err != nil { // no piece has this name
		return err
	}
	for o, err := range m.Bucket.List(ctx, blobsPrefix, "") {
		if err != nil {
			return m.failed("listing "+blobsPrefix, err)
		}
		raw, err := hex.DecodeString(path.Base(o.Name))
		if err != nil || len(raw) != digest.Size {
			return refusal.Newf(refusal.DigestMismatch, "%s is not named by a digest", m.place(o.Name))
		}
		if _, err := m.fetchBlob(ctx, digest.Content(raw)); err != nil {
			return err
		}
	}
	return m.noteStored()
}

func (m *Mirror) fetchBlob(ctx context.Context, d digest.Content) (bool, error) {
	name := hex.EncodeToString(d[:])
	object := blobsPrefix + name[:2] + "/" + name
	data, err := bucket.GetSurely(ctx, m.Bucket, object, maxBlobBytes)
	if errors.Is(err, bucket.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, m.failed("reading "+object, err)
	}
	if got := digest.ContentOf(data); got != d {
		return false, refusal.Newf(refusal.DigestMismatch, "%s holds %s, its name says %s", m.place(object), got, d).
			WithHint("the stored evidence was changed; restore the object from a copy")
	}
	if _, err := store.NewBlobs(m.FS, m.blobsDir()).Put(data); err != nil {
		return false, err
	}
	m.evidence.blobs[name], m.evidence.noted = true, false
	return true, nil
}

// listPacks lists the packs of the store that are not in the folder.
func (m *Mirror) listPacks(ctx context.Context) error {
	if m.evidence.remote != nil {
		return nil
	}
	here := map[string]bool{}
	for name, s := range m.evidence.stored {
		here[originalName(name, s.Writer)+"~"+s.Writer] = true
	}
	remote := map[string][]part{}
	for o, err := range m.Bucket.List(ctx, packsPrefix, "") {
		if err != nil {
			return m.failed("listing "+packsPrefix, err)
		}
		folder, offset, ok := strings.Cut(strings.TrimPrefix(o.Name, packsPrefix), "/")
		start, err := strconv.ParseInt(offset, 10, 64)
		if !ok || err != nil || start < 0 || !isPackFolder(folder) {
			return refusal.Newf(refusal.DigestMismatch, "%s is not a part of a pack", m.place(o.Name)).WithHint("remove it; only Tallystick writes there")
		}
		if !here[folder] {
			remote[folder] = append(remote[folder], part{o.Name, start, o.Size})
		}
	}
	m.evidence.remote = remote
	return nil
}

// isPackFolder accepts NAME~WRITER whose name is safe as a file's.
func isPackFolder(folder string) bool {
	name, writer, ok := strings.Cut(folder, "~")
	return ok && name != "" && writer != "" && name == filepath.Base(name) && !strings.HasPrefix(name, ".") && !strings.ContainsAny(folder, `\:`) && !strings.Contains(writer, "~")
}

// localName is what a fetched pack is called: as where it was made, unless the
// folder has a pack of that name.
func (m *Mirror) localName(name, writer string) string {
	if _, err := m.FS.Lstat(filepath.Join(m.packsDir(), name+packSuffix)); err == nil {
		return name + "." + writer
	}
	return name
}

func originalName(local, writer string) string { return strings.TrimSuffix(local, "."+writer) }

// fetchPack fetches a pack, and reports whether it has the piece.
func (m *Mirror) fetchPack(ctx context.Context, folder string, want digest.Content) (found bool, err error) {
	parts := m.evidence.remote[folder]
	name, writer, _ := strings.Cut(folder, "~")
	local := m.localName(name, writer)
	size := int64(0)
	for _, p := range parts {
		if p.start != size || p.size > partBytes || size+p.size > maxPackBytes {
			return false, refusal.Newf(refusal.DigestMismatch, "%s begins at byte %d, and the parts before it end at %d", m.place(p.object), p.start, size).
				WithHint("a part of the pack is missing in the store; restore it from a copy")
		}
		size += p.size
	}
	in, err := store.ReceivePack(m.FS, filepath.Join(m.packsDir(), local+packSuffix))
	if err != nil {
		return false, err
	}
	defer in.Discard()
	for _, p := range parts {
		data, err := bucket.GetSurely(ctx, m.Bucket, p.object, partBytes)
		if errors.Is(err, bucket.ErrNotFound) {
			return false, refusal.Newf(refusal.DigestMismatch, "%s was listed and is gone", m.place(p.object))
		}
		if err != nil {
			return false, m.failed("reading "+p.object, err)
		}
		if err := in.Write(data); err != nil {
			return false, err
		}
	}
	found, err = in.Check(want, maxBlobBytes)
	if err != nil {
		return false, fmt.Errorf("%s%s of %s: %w", packsPrefix, folder, m.Address, err)
	}
	// Crash between the two: the pack is fetched again, or sent again.
	if err := in.Keep(); err != nil {
		return false, err
	}
	m.evidence.stored[local], m.evidence.noted = storedPack{writer, size}, false
	return found, nil
}
