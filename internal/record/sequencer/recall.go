package sequencer

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"os"
	"strings"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/format"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/store"
)

// A Recollection is what this machine keeps of a ledger's verified past, so that a run
// need not read all of it again: where the ledger ended, and the facts that a run asks
// for. It lies in the state folder and is sealed with the operator's key. The decision
// record docs/decisions/0009-frontier.md says what is found later because of it than without.
//
// It lags and never leads: it is written after what it covers is on disk and was read
// back, so every entry since is verified as always.
type Recollection struct {
	Frontier *ledger.Frontier
	// Facts are the caller's: what it made of the entries. [Place.Keep] keeps them.
	Facts []byte
	// Whole is when all entries were read last.
	Whole evidence.Time

	pieces []pieces
}

const recallFormat = "tallystick-frontier/" + format.Version

// kept is the sealed document. The signature covers its canonical form without
// signature.
type kept struct {
	Format   string           `json:"format"`
	Frontier *ledger.Frontier `json:"frontier"`
	Facts    digest.Content   `json:"facts"`
	Whole    evidence.Time    `json:"whole"`
	Pieces   []pieces         `json:"pieces"`
	// Signature is the operator's, in [seal.NamespaceFrontier].
	Signature string `json:"signature,omitempty"`
}

// Bounds of what is kept.
const (
	maxKept  = 64 << 20
	maxFacts = 1 << 30
)

// pieceBytes is how much of a segment one digest covers.
const pieceBytes = 1 << 20

// pieces are the digests of a segment, piece by piece, as far as seals cover it.
type pieces struct {
	Segment string           `json:"segment"`
	Bytes   int64            `json:"bytes"`
	Digests []digest.Content `json:"digests"`
}

func (p Place) recallPath(origin string) string {
	return strings.TrimSuffix(memoryPath(p.StateDir, origin), ".head") + ".frontier"
}

func (p Place) factsPath(origin string) string {
	return strings.TrimSuffix(memoryPath(p.StateDir, origin), ".head") + ".facts"
}

// Recall returns what is kept of the ledger's past, if the operator's key sealed it and
// the files look as they did: their names, sizes and times, all bytes of the last
// segment, and a piece of the others that is chosen by chance. Otherwise why says what is
// amiss, and the caller verifies everything. A wrong recollection costs time, never truth.
func (p Place) Recall(origin string, key *seal.Key) (r *Recollection, why string, err error) {
	k, why, err := p.readKept(origin, key)
	if err != nil || why != "" {
		return nil, why, err
	}
	known, err := Remembered(p.FS, p.StateDir, origin)
	if err != nil {
		return nil, "", err
	}
	if known == nil || known.Size < k.Frontier.Size {
		return nil, "the memory of what was signed here does not reach so far", nil
	}
	segments, err := p.Segments()
	if err != nil {
		return nil, "", err
	}
	if why, err := p.looksAsKept(k, segments); err != nil || why != "" {
		return nil, why, err
	}
	facts, err := store.ReadFile(p.FS, p.factsPath(origin), maxFacts)
	switch {
	case errors.Is(err, fs.ErrNotExist) || refusal.Is(err, refusal.TooLarge):
		return nil, "the facts are not there", nil
	case err != nil:
		return nil, "", err
	case digest.ContentOf(facts) != k.Facts:
		return nil, "the facts are not those that were sealed", nil
	}
	return &Recollection{Frontier: k.Frontier, Facts: facts, Whole: k.Whole, pieces: k.Pieces}, "", nil
}

// readKept reads the sealed document.
func (p Place) readKept(origin string, key *seal.Key) (*kept, string, error) {
	data, err := store.ReadFile(p.FS, p.recallPath(origin), maxKept)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "nothing is kept", nil
	}
	if refusal.Is(err, refusal.TooLarge) {
		return nil, "what is kept is too long", nil
	}
	if err != nil {
		return nil, "", err
	}
	k := &kept{}
	if canon.UnmarshalCanonical(data, k) != nil || k.Format != recallFormat || k.Frontier == nil || len(k.Pieces) != len(k.Frontier.Segments) || k.Frontier.Origin != origin {
		return nil, "what is kept is not of this ledger and this program", nil
	}
	message, err := k.message()
	if err != nil {
		return nil, "", err
	}
	by, err := seal.VerifySignature([]byte(k.Signature), message, seal.NamespaceFrontier)
	if err != nil || by.Fingerprint() != key.Fingerprint() {
		return nil, "the operator's key did not seal what is kept", nil
	}
	return k, "", nil
}

// message is what the operator signs.
func (k *kept) message() ([]byte, error) {
	unsigned := *k
	unsigned.Signature = ""
	return canon.Marshal(&unsigned)
}

// looksAsKept compares the files with what was seen.
func (p Place) looksAsKept(k *kept, segments []ledger.Segment) (why string, err error) {
	then := k.Frontier.Segments
	if len(segments) < len(then) {
		return "a segment is gone", nil
	}
	last := len(then) - 1
	for i, seen := range then {
		now := segments[i]
		// Others may have appended to the last.
		grown := i == last && now.Size > seen.Size
		if now.Name != seen.Name || now.First != seen.First || now.Size != seen.Size && !grown || now.File != seen.File && !(grown && now.File.Device == seen.File.Device && now.File.Inode == seen.File.Inode) {
			return seen.Name + " was touched", nil
		}
		if k.Pieces[i].Segment != seen.Name || k.Pieces[i].Bytes != seen.Size || int64(len(k.Pieces[i].Digests)) != piecesIn(seen.Size) {
			return "the digests of " + seen.Name + " are not there", nil
		}
	}
	if !k.Pieces[last].all(segments[last]) {
		return then[last].Name + " has other bytes than it had", nil
	}
	if last == 0 {
		return "", nil
	}
	n, err := rand.Int(rand.Reader, big.NewInt(int64(last)))
	if err != nil {
		return "", err
	}
	i := int(n.Int64())
	if n, err = rand.Int(rand.Reader, big.NewInt(max(1, int64(len(k.Pieces[i].Digests))))); err != nil {
		return "", err
	}
	if !k.Pieces[i].holds(segments[i], int(n.Int64())) {
		return then[i].Name + " has other bytes than it had", nil
	}
	return "", nil
}

func piecesIn(bytes int64) int64 { return (bytes + pieceBytes - 1) / pieceBytes }

// all compares every piece.
func (d pieces) all(s ledger.Segment) bool {
	for i := range d.Digests {
		if !d.holds(s, i) {
			return false
		}
	}
	return true
}

// holds compares one piece.
func (d pieces) holds(s ledger.Segment, i int) bool {
	if i >= len(d.Digests) {
		return d.Bytes == 0 // an empty segment has no pieces
	}
	found, err := pieceOf(s, int64(i)*pieceBytes, min(d.Bytes, int64(i+1)*pieceBytes))
	return err == nil && found == d.Digests[i]
}

// pieceOf is the digest of the bytes of a segment from one to another.
func pieceOf(s ledger.Segment, from, to int64) (digest.Content, error) {
	r, err := s.Open(from)
	if err != nil {
		return digest.Content{}, err
	}
	defer r.Close()
	content, n, err := digest.ContentOfReader(io.LimitReader(r, to-from))
	if err == nil && n != to-from {
		err = io.ErrUnexpectedEOF
	}
	return content, err
}

// Keep seals what is known of a ledger that was verified, in place of what was kept
// before. It keeps nothing of a ledger whose files cannot be told from others.
func (p Place) Keep(v *ledger.Verified, r Recollection, before *Recollection, key *seal.Key) error {
	frontier := v.Frontier()
	if frontier == nil {
		return nil
	}
	segments, err := p.Segments()
	if err != nil {
		return err
	}
	if len(segments) < len(frontier.Segments) {
		return nil // it changes; another command keeps it
	}
	k := &kept{Format: recallFormat, Frontier: frontier, Facts: digest.ContentOf(r.Facts), Whole: r.Whole}
	for i, s := range frontier.Segments {
		d, err := digestsOf(segments[i], s, before)
		if err != nil {
			return refusal.Newf(refusal.Unreadable, "reading %s: %w", s.Name, err)
		}
		k.Pieces = append(k.Pieces, d)
	}
	message, err := k.message()
	if err != nil {
		return err
	}
	signature, err := key.SignMessage(seal.NamespaceFrontier, message)
	if err != nil {
		return err
	}
	k.Signature = string(signature)
	data, err := canon.Marshal(k)
	if err != nil {
		return err
	}
	// The facts first: a document without its facts is not believed.
	if err := store.WriteFile(p.FS, p.factsPath(v.Origin), r.Facts, 0o600); err != nil {
		return err
	}
	return store.WriteFile(p.FS, p.recallPath(v.Origin), data, 0o600)
}

// digestsOf are the digests of a segment as far as it was verified. Whole pieces that
// were kept before are not read again.
func digestsOf(now ledger.Segment, s ledger.SegmentAsSeen, before *Recollection) (pieces, error) {
	d := pieces{Segment: s.Name, Bytes: s.Size}
	if before != nil {
		for i, old := range before.Frontier.Segments {
			if old.Name == s.Name && old.File.Inode == s.File.Inode && old.Size <= s.Size {
				d.Digests = before.pieces[i].Digests[:old.Size/pieceBytes]
			}
		}
	}
	d.Digests = append([]digest.Content(nil), d.Digests...)
	for from := int64(len(d.Digests)) * pieceBytes; from < s.Size; from += pieceBytes {
		content, err := pieceOf(now, from, min(s.Size, from+pieceBytes))
		if err != nil {
			return d, fmt.Errorf("from byte %d: %w", from, err)
		}
		d.Digests = append(d.Digests, content)
	}
	return d, nil
}

// Forget removes what is kept of a ledger's past: the next command reads all of it.
func (p Place) Forget(origin string) error {
	for _, path := range []string{p.recallPath(origin), p.factsPath(origin)} {
		if err := p.FS.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return refusal.Newf(refusal.WriteFailed, "removing %s: %w", path, err)
		}
	}
	return nil
}
