package mirror

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"tallystick/internal/record/bucket"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
)

// A Comparison is a store held against the folder, entry by entry and piece of
// evidence by piece, as both are: nothing is fetched into the folder.
type Comparison struct {
	Store       string       `json:"store"`
	Entries     Sides        `json:"entries"`
	Evidence    Sides        `json:"evidence"`
	Differences []Difference `json:"differences"`
}

// Sides counts what is on each side, and what is the same on both.
type Sides struct {
	Here  int64 `json:"here"`
	There int64 `json:"there"`
	Same  int64 `json:"same"`
}

// A Difference is something that one side has and the other has not, or has otherwise.
type Difference struct {
	Kind   string `json:"kind"`   // entries, seal or evidence
	Name   string `json:"name"`   // which
	Where  Where  `json:"where"`  // who has it
	Detail string `json:"detail"` // in words
}

// Where says who has what differs.
type Where string

// The places.
const (
	Here  Where = "only_here"
	There Where = "only_there"
	Both  Where = "different"
)

// Refusal is the worst of what was found; nil if the store has all that the folder
// has. What only the store has the next reader fetches.
func (c *Comparison) Refusal() error {
	for _, want := range []struct {
		evidence bool
		where    Where
		name     refusal.Name
		hint     string
	}{
		{false, Both, refusal.HistoryForked, "two histories cannot both be true; keep both, and see \"tally help forks\""},
		{true, Both, refusal.DigestMismatch, "one of the copies was changed; restore it from the other"},
		{false, Here, refusal.HistoryRolledBack, "the end of the stored ledger was cut off, or another store is named; keep the folder as it is"},
		{true, Here, refusal.StrictGap, "the store lacks evidence that is here; the next entry that is appended here stores it, or restore the objects"},
	} {
		var found []Difference
		for _, d := range c.Differences {
			if (d.Kind == evidenceKind) == want.evidence && d.Where == want.where {
				found = append(found, d)
			}
		}
		if len(found) > 0 {
			return refusal.Newf(want.name, "%s and the folder differ in %d places, the first: %s", c.Store, len(found), found[0].Detail).WithHint("%s", want.hint)
		}
	}
	return nil
}

const (
	entriesKind  = "entries"
	sealKind     = "seal"
	evidenceKind = "evidence"
)

// Compare compares the store with the folder.
func (m *Mirror) Compare(ctx context.Context) (*Comparison, error) {
	c := &Comparison{Store: m.Address.String(), Differences: []Difference{}}
	if err := m.checkLedger(ctx); err != nil {
		return nil, err
	}
	here, err := m.entriesHere()
	if err != nil {
		return nil, err
	}
	there, err := m.entriesThere(ctx, c)
	if err != nil {
		return nil, err
	}
	c.compareLines(entriesKind, here.entries, there.entries)
	c.compareLines(sealKind, here.seals, there.seals)
	if err := m.compareEvidence(ctx, c); err != nil {
		return nil, err
	}
	return c, nil
}

// sums are the digests of entries by their index, and of seals by the size that they
// seal.
type sums struct{ entries, seals map[int64]digest.Content }

func newSums() sums {
	return sums{make(map[int64]digest.Content), make(map[int64]digest.Content)}
}

// add takes the lines of a batch: its entries, and last its seal.
func (s sums) add(b ledger.Batch) {
	index := b.First
	for line := range bytes.Lines(b.Lines) {
		if index < b.Size {
			s.entries[index] = digest.ContentOf(line)
		} else {
			s.seals[b.Size] = digest.ContentOf(line)
		}
		index++
	}
}

func (m *Mirror) entriesHere() (sums, error) {
	found := newSums()
	segments, err := store.Segments(m.FS, m.SegmentsDir())
	if errors.Is(err, fs.ErrNotExist) {
		return found, nil
	}
	if err != nil {
		return found, err
	}
	for _, s := range segments {
		f, err := m.FS.OpenFile(s.Path, os.O_RDONLY, 0)
		if err != nil {
			return found, refusal.Newf(refusal.Unreadable, "reading %s: %w", s.Path, err)
		}
		_, err = ledger.Batches(f, int64(s.First), func(b ledger.Batch) error {
			found.add(b)
			return nil
		})
		f.Close()
		if err != nil {
			return found, refusal.Newf(refusal.ChainTamperDetected, "%s: %w", s.Path, err).WithHint("the local copy of the ledger was changed; set %s aside, and it is fetched anew", m.SegmentsDir())
		}
	}
	return found, nil
}

func (m *Mirror) entriesThere(ctx context.Context, c *Comparison) (sums, error) {
	found := newSums()
	for o, err := range m.Bucket.List(ctx, segmentsPrefix, "") {
		if err != nil {
			return found, m.failed("listing "+segmentsPrefix, err)
		}
		lines, err := bucket.GetSurely(ctx, m.Bucket, o.Name, ledger.MaxBatchBytes)
		if err != nil && !errors.Is(err, bucket.ErrTooLarge) {
			return found, m.failed("reading "+o.Name, err)
		}
		if t, moved := parseTombstone(lines); moved {
			return found, t.refusal(m.Address.String())
		}
		first, perr := strconv.ParseInt(strings.TrimSuffix(path.Base(o.Name), ".log"), 10, 64)
		b, berr := ledger.ParseBatch(lines, first)
		if err = errors.Join(err, perr, berr); err != nil || o.Name != batchObject(first) {
			c.differ(entriesKind, o.Name, Both, fmt.Sprintf("%s is not a batch of entries: %v", m.place(o.Name), err))
			continue
		}
		found.add(b)
	}
	return found, nil
}

// compareLines compares entries, or seals, by their numbers. Neighbours that differ in
// the same way are told together.
func (c *Comparison) compareLines(kind string, here, there map[int64]digest.Content) {
	if kind == entriesKind {
		c.Entries.Here, c.Entries.There = int64(len(here)), int64(len(there))
	}
	all := maps.Clone(here)
	maps.Copy(all, there)
	var from, to int64
	var run Where
	flush := func() {
		if run != "" {
			c.differ(kind, span(kind, from, to), run, span(kind, from, to)+words(run))
		}
		run = ""
	}
	for _, n := range slices.Sorted(maps.Keys(all)) {
		a, isHere := here[n]
		b, isThere := there[n]
		where := Both
		switch {
		case isHere && isThere && a == b:
			if kind == entriesKind {
				c.Entries.Same++
			}
			flush()
			continue
		case !isThere:
			where = Here
		case !isHere:
			where = There
		}
		if run != where || n != to+1 {
			flush()
			from, run = n, where
		}
		to = n
	}
	flush()
}

func span(kind string, from, to int64) string {
	switch {
	case kind == sealKind && from == to:
		return fmt.Sprintf("the seal of %d entries", from)
	case kind == sealKind:
		return fmt.Sprintf("the seals of %d to %d entries", from, to)
	case from == to:
		return fmt.Sprintf("entry %d", from)
	}
	return fmt.Sprintf("entries %d to %d", from, to)
}

func words(w Where) string {
	switch w {
	case Here:
		return ": only the folder has it"
	case There:
		return ": only the store has it"
	}
	return ": the folder and the store have it, and not the same"
}

func (c *Comparison) differ(kind, name string, where Where, detail string) {
	c.Differences = append(c.Differences, Difference{kind, name, where, detail})
}

// compareEvidence compares the pieces of evidence. On each side every piece is read
// and held against its name.
func (m *Mirror) compareEvidence(ctx context.Context, c *Comparison) error {
	here, there := make(map[digest.Content]error), make(map[digest.Content]error)
	if err := m.piecesHere(here); err != nil {
		return err
	}
	if err := m.piecesThere(ctx, c, there); err != nil {
		return err
	}
	c.Evidence.Here, c.Evidence.There = int64(len(here)), int64(len(there))
	all := maps.Clone(here)
	maps.Copy(all, there)
	for _, d := range slices.SortedFunc(maps.Keys(all), func(a, b digest.Content) int { return bytes.Compare(a[:], b[:]) }) {
		wrongHere, isHere := here[d]
		wrongThere, isThere := there[d]
		name := d.String()
		switch {
		case wrongHere != nil:
			c.differ(evidenceKind, name, Both, fmt.Sprintf("evidence %s: the copy in the folder is wrong: %v", name, wrongHere))
		case wrongThere != nil:
			c.differ(evidenceKind, name, Both, fmt.Sprintf("evidence %s: the copy in the store is wrong: %v", name, wrongThere))
		case isHere && isThere:
			c.Evidence.Same++
		case isHere:
			c.differ(evidenceKind, name, Here, "evidence "+name+words(Here))
		default:
			c.differ(evidenceKind, name, There, "evidence "+name+words(There))
		}
	}
	return nil
}

// note keeps what is wrong with a piece: one good copy is enough.
func note(pieces map[digest.Content]error, d digest.Content, err error) {
	if known, ok := pieces[d]; !ok || known != nil {
		pieces[d] = err
	}
}

func (m *Mirror) piecesHere(pieces map[digest.Content]error) error {
	packs, err := m.FS.ReadDir(m.packsDir())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return refusal.Newf(refusal.Unreadable, "reading evidence: %w", err)
	}
	for _, e := range packs {
		if !strings.HasSuffix(e.Name(), packSuffix) {
			continue
		}
		err := store.ScanPack(m.FS, filepath.Join(m.packsDir(), e.Name()), func(d digest.Content, at store.PieceAt) error {
			_, err := store.ReadPiece(m.FS, d, at, maxBlobBytes)
			note(pieces, d, err)
			return nil
		})
		if err != nil {
			return err
		}
	}
	blobs := store.NewBlobs(m.FS, m.blobsDir())
	folders, err := m.FS.ReadDir(m.blobsDir())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return refusal.Newf(refusal.Unreadable, "reading evidence: %w", err)
	}
	for _, folder := range folders {
		files, err := m.FS.ReadDir(filepath.Join(m.blobsDir(), folder.Name()))
		if err != nil {
			return refusal.Newf(refusal.Unreadable, "reading evidence: %w", err)
		}
		for _, f := range files {
			if raw, err := hex.DecodeString(f.Name()); err == nil && len(raw) == digest.Size {
				_, err := blobs.Get(digest.Content(raw), maxBlobBytes)
				note(pieces, digest.Content(raw), err)
			}
		}
	}
	return nil
}

func (m *Mirror) piecesThere(ctx context.Context, c *Comparison, pieces map[digest.Content]error) error {
	for o, err := range m.Bucket.List(ctx, blobsPrefix, "") {
		if err != nil {
			return m.failed("listing "+blobsPrefix, err)
		}
		raw, err := hex.DecodeString(path.Base(o.Name))
		if err != nil || len(raw) != digest.Size {
			c.differ(evidenceKind, o.Name, Both, m.place(o.Name)+" is not named by a digest")
			continue
		}
		data, err := bucket.GetSurely(ctx, m.Bucket, o.Name, maxBlobBytes)
		if err != nil && !errors.Is(err, bucket.ErrTooLarge) {
			return m.failed("reading "+o.Name, err)
		}
		if got := digest.ContentOf(data); err == nil && got != digest.Content(raw) {
			err = fmt.Errorf("%s holds %s", m.place(o.Name), got)
		}
		note(pieces, digest.Content(raw), err)
	}
	packs := make(map[string][]part)
	for o, err := range m.Bucket.List(ctx, packsPrefix, "") {
		if err != nil {
			return m.failed("listing "+packsPrefix, err)
		}
		folder, offset, _ := strings.Cut(strings.TrimPrefix(o.Name, packsPrefix), "/")
		start, err := strconv.ParseInt(offset, 10, 64)
		if err != nil || !isPackFolder(folder) {
			c.differ(evidenceKind, o.Name, Both, m.place(o.Name)+" is not a part of a pack")
			continue
		}
		packs[folder] = append(packs[folder], part{o.Name, start, o.Size})
	}
	for _, folder := range slices.Sorted(maps.Keys(packs)) {
		if err := m.piecesOf(ctx, c, folder, packs[folder], pieces); err != nil {
			return err
		}
	}
	return nil
}

// piecesOf reads one pack of the store. What of it is not whole is told, and the rest
// is read.
func (m *Mirror) piecesOf(ctx context.Context, c *Comparison, folder string, parts []part, pieces map[digest.Content]error) error {
	in, err := store.ReceivePack(m.FS, filepath.Join(m.packsDir(), "compared-"+folder))
	if err != nil {
		return err
	}
	defer in.Discard()
	size := int64(0)
	for _, p := range parts {
		data, err := bucket.GetSurely(ctx, m.Bucket, p.object, partBytes)
		if err != nil && !errors.Is(err, bucket.ErrTooLarge) {
			return m.failed("reading "+p.object, err)
		}
		if err != nil || p.start != size {
			c.differ(evidenceKind, p.object, Both, fmt.Sprintf("%s begins at byte %d, and the parts before it end at %d", m.place(p.object), p.start, size))
			break
		}
		if err := in.Write(data); err != nil {
			return err
		}
		size += int64(len(data))
	}
	err = in.Pieces(maxBlobBytes, func(d digest.Content, wrong error) { note(pieces, d, wrong) })
	if err != nil {
		c.differ(evidenceKind, packsPrefix+folder, Both, fmt.Sprintf("%s%s of %s: %v", packsPrefix, folder, m.Address, err))
	}
	return nil
}
