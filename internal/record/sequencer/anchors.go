package sequencer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/store"
)

// An AnchorFile is an anchor as it lies in the folder of anchors: read, and
// not verified yet.
type AnchorFile struct {
	Path string
	Data []byte
	ledger.Anchor
}

// LoadAnchors reads every anchor in dir. A missing folder holds none.
func LoadAnchors(fsys store.FS, dir string) ([]AnchorFile, error) {
	if dir == "" {
		return nil, nil
	}
	entries, err := fsys.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "reading anchors: %w", err)
	}
	var files []AnchorFile
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".json") {
			continue
		}
		f, err := loadAnchor(fsys, filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

func loadAnchor(fsys store.FS, path string) (AnchorFile, error) {
	data, err := store.ReadFile(fsys, path, ledger.MaxAnchorBytes)
	if err != nil && !refusal.Is(err, refusal.TooLarge) {
		return AnchorFile{}, err
	}
	var a *ledger.Anchor
	if err == nil {
		a, err = ledger.ParseAnchor(data)
	}
	if refusal.Is(err, refusal.NewerFormat) {
		return AnchorFile{}, fmt.Errorf("%s: %w", path, err)
	}
	if err != nil {
		// An anchor that cannot be parsed is evidence that does not verify, not
		// a foreign file: its name claims to be an anchor.
		return AnchorFile{}, refusal.Newf(refusal.AnchorSignatureInvalid, "%s: %w", path, err).
			WithHint("restore the file from git; it was changed after it was published")
	}
	if want := a.Date + ".json"; filepath.Base(path) != want {
		return AnchorFile{}, refusal.Newf(refusal.AnchorMismatch, "%s is the anchor of %s and should be called %s", path, a.Date, want)
	}
	return AnchorFile{Path: path, Data: data, Anchor: *a}, nil
}

// AnchorExpectations are what a ledger must contain to agree with anchors.
// Each anchor is verified against the operators of the signers in force after
// its last entry who were valid when it was published.
func AnchorExpectations(files []AnchorFile) []ledger.Expectation {
	expect := make([]ledger.Expectation, len(files))
	for i, f := range files {
		expect[i] = ledger.Expectation{
			TreeHead: ledger.TreeHead{Origin: f.Origin, Size: f.Size},
			Head:     f.Head,
			Source:   "the anchor of " + f.Date,
			Confirm: func(signers *seal.Signers) error {
				keys := ledger.KeysOf(signers, f.Origin, f.PublishedAt.Go())
				if len(keys) == 0 {
					return refusal.Newf(refusal.AnchorSignatureInvalid, "no operator was in force at %s, when it says it was published", f.PublishedAt)
				}
				_, err := ledger.VerifyAnchor(f.Data, ledger.Policy{Logs: keys, Signers: func(string, int64) *seal.Signers { return signers }})
				return err
			},
		}
		if head, err := f.TreeHead(); err == nil {
			expect[i].TreeHead = head
		}
	}
	return expect
}

// A Cosigner asks one witness to cosign a checkpoint. It may ask for the proof
// that an older tree is the beginning of this one.
type Cosigner interface {
	Name() string
	Cosign(ctx context.Context, checkpoint *ledger.Checkpoint, tree *ledger.Tree) (signatureLine []byte, err error)
}

// A Person signs the message of an anchor, in [seal.NamespaceAnchor], and returns
// the armoured signature.
type Person func(signers *seal.Signers, message []byte) ([]byte, error)

// A Published is what came of publishing an anchor.
type Published struct {
	Path      string
	Anchor    ledger.Anchor
	Witnesses []string // that cosigned
	Failed    []error  // one for each witness that did not
}

// An Occasion says why and where an anchor is published.
type Occasion struct {
	Alone bool // for its own sake, and not because an attempt begins or ends
	Git   bool // the workspace is in a git repository
}

// PublishAnchor is [Ledger.PublishAnchorOn] with nothing to say of the occasion.
func (l *Ledger) PublishAnchor(ctx context.Context, cosigners []Cosigner, people ...Person) (*Published, error) {
	return l.PublishAnchorOn(ctx, Occasion{}, cosigners, people...)
}

// PublishAnchorOn publishes the end of the ledger: tiles, the day's anchor file
// and the witnesses' cosignatures, and records that it did. A witness that
// cannot be reached leaves the local anchor in place and is reported; the next
// publication catches it up, because each proof starts at what the witness
// last saw.
//
// The people, if any, sign the anchor besides: each is given what to sign and the
// signers in force.
func (l *Ledger) PublishAnchorOn(ctx context.Context, on Occasion, cosigners []Cosigner, people ...Person) (*Published, error) {
	tip, by := l.end()
	at := l.anchorTime(tip)
	if err := by.checkOperator(tip.Signers, evidence.At(at)); err != nil {
		return nil, err
	}
	// The last seal may be that of an operator whom its own batch replaced;
	// what is published is signed by one in force.
	var err error
	if tip.Checkpoint, err = by.checkpoint(tip.TreeHead); err != nil {
		return nil, err
	}
	anchors, err := LoadAnchors(l.cfg.FS, l.cfg.Anchors)
	if err != nil {
		return nil, err
	}
	// Walk the disk once more: what is published is what is there, and not
	// only what this process believes it wrote; and an anchor that came here
	// in the meantime, by git for one, is not replaced unless it agrees.
	tree, leaves, err := l.walkForTiles(tip, ledger.Options{Origin: l.cfg.Origin, TrustRoot: l.cfg.TrustRoot,
		Expect: append(AnchorExpectations(anchors), ledger.Expectation{TreeHead: tip.TreeHead, Head: tip.Head, Source: "the seal just made"})})
	if err != nil {
		return nil, err
	}
	pub := &Published{}
	signed := l.cosign(ctx, tip, tree, cosigners, pub)
	// A witness that has seen another history is not one that could not be
	// reached: nothing may be published over what it disproves.
	for _, err := range pub.Failed {
		if refusal.ExitCode(err) == refusal.ExitUnverified {
			return nil, err
		}
	}
	if err := l.cfg.publishTiles(tree, leaves, tip); err != nil {
		return nil, err
	}
	if err := l.writeAnchor(tip, by, signed, at, people, pub); err != nil {
		return nil, err
	}
	slices.Sort(pub.Witnesses)
	_, err = l.AppendRecord(evidence.AnchorPublishedKind, &evidence.AnchorPublished{
		Date: pub.Anchor.Date, Size: tip.Size, Root: pub.Anchor.Root, Head: tip.Head, Witnesses: append([]string{}, pub.Witnesses...),
		Alone: on.Alone, Git: on.Git,
	})
	return pub, err
}

// walkForTiles reads the ledger and gives the tree that is to be published: from where
// the last one was published, if its tiles are what they must be, else from the start.
func (l *Ledger) walkForTiles(tip Tip, o ledger.Options) (*ledger.Tree, *ledger.Leaves, error) {
	tree, leaves := &ledger.Tree{}, &ledger.Leaves{Origin: tip.Origin}
	if l.opened != nil {
		read := func(path string) ([]byte, error) {
			return store.ReadFile(l.cfg.FS, l.cfg.tileFile(path), maxTileBytes)
		}
		if t, ls, err := l.opened.Published(l.cfg.publishedSize(tip), read); err == nil {
			tree, leaves, o.From = t, ls, l.opened
		}
	}
	o.Visit = func(r ledger.Record) error {
		leaves.Add(r.Position)
		return tree.Add(r.Leaf)
	}
	_, err := l.cfg.Verify(o)
	return tree, leaves, err
}

// cosign collects the witnesses' signatures under the checkpoint.
func (l *Ledger) cosign(ctx context.Context, tip Tip, tree *ledger.Tree, cosigners []Cosigner, pub *Published) []byte {
	signed := slices.Clone(tip.Checkpoint)
	for _, c := range cosigners {
		line, err := c.Cosign(ctx, &ledger.Checkpoint{TreeHead: tip.TreeHead, Note: tip.Checkpoint}, tree)
		if err != nil {
			pub.Failed = append(pub.Failed, fmt.Errorf("witness %s: %w", c.Name(), err))
			continue
		}
		signed = append(signed, line...)
		pub.Witnesses = append(pub.Witnesses, c.Name())
	}
	return signed
}

// writeAnchor signs and writes the day's file. An older one of the same day is
// replaced only by a larger one, after the ledger was found to contain it.
func (l *Ledger) writeAnchor(tip Tip, by *sealer, checkpoint []byte, at time.Time, people []Person, pub *Published) error {
	a := ledger.NewAnchor(tip.TreeHead, tip.Head, checkpoint, at)
	message, err := a.Message()
	if err != nil {
		return err
	}
	signature, err := seal.SignWith(by.key.Signer(), seal.NamespaceAnchor, message)
	if err != nil {
		return err
	}
	a.Signature = string(signature)
	for _, person := range people {
		by, err := person(tip.Signers, message)
		if err != nil {
			return err
		}
		a.People = append(a.People, string(by))
	}
	data, err := a.Marshal()
	if err != nil {
		return err
	}
	// A signature that does not count would refuse the anchor for ever.
	if _, err := ledger.VerifyAnchor(data, ledger.Policy{Logs: ledger.KeysOf(tip.Signers, tip.Origin, at),
		Signers: func(string, int64) *seal.Signers { return tip.Signers }}); err != nil {
		return err
	}
	pub.Anchor, pub.Path = *a, filepath.Join(l.cfg.Anchors, a.Date+".json")
	if err := store.MakeDir(l.cfg.FS, l.cfg.Anchors, 0o755); err != nil {
		return err
	}
	switch old, err := loadAnchor(l.cfg.FS, pub.Path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case old.Size > a.Size:
		return refusal.Newf(refusal.HistoryRolledBack, "%s covers %d entries, the ledger has %d", pub.Path, old.Size, a.Size)
	}
	return store.WriteFile(l.cfg.FS, pub.Path, data, 0o644)
}

// anchorTime is now, and never before the last entry.
func (l *Ledger) anchorTime(tip Tip) time.Time {
	if now := l.cfg.Now(); now.After(tip.Time.Go()) {
		return now
	}
	return tip.Time.Go()
}
