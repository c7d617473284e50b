package dossier

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/sequencer"
	"tallystick/internal/record/store"
	"tallystick/internal/record/workspace"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/replies"
	"tallystick/internal/run/suites"
)

// A Corpus is a workspace with what verifying its benches needs.
type Corpus struct {
	*Place
	Root    *os.Root
	Options bench.Options
	// From says where the signers come from: the ledger, or the files and the
	// trust root when there is no ledger, as in a fresh checkout.
	From string
	// Versions are those of the signers in the ledger.
	Versions []SignersVersion
	// Reading is the ledger that the people come from, if more of it was asked
	// for; otherwise nil.
	Reading *Reading

	// FirstEntry is that of the ledger; zero without one, and in a checkout that
	// has only a ledger of its own.
	FirstEntry digest.Content
	// Recorded are the cassettes that the ledger has a recording of, and how
	// they were made.
	Recorded map[digest.Content]string
	// Draws are the replies that the ledger saw drawn.
	Draws *replies.Draws

	verified *ledger.Verified // nil if there is no ledger
}

// A SignersVersion is one version of the signers in the ledger.
type SignersVersion struct{ Signers, Signatures string }

// Close closes the workspace's folder.
func (c *Corpus) Close() error { return c.Root.Close() }

// OpenCorpus finds out who is trusted in the workspace.
func (p *Place) OpenCorpus() (*Corpus, error) { return p.OpenCorpusFor("") }

// OpenCorpusFor is OpenCorpus for a caller who keeps the trust root outside the workspace;
// none if it is "". The workspace's own comes with the checkout: a contributor who can
// change that could add other signers and sign everything again.
func (p *Place) OpenCorpusFor(trustRoot string) (*Corpus, error) {
	return p.openCorpus(trustRoot, func(c *Corpus) error {
		var who people
		v, err := p.verify(ledger.Options{Visit: who.visit})
		if err == nil {
			c.trust(v, &who)
		}
		return err
	})
}

// ReadCorpus is OpenCorpusFor and [Place.Read] in one verification. Without a
// ledger, as in a fresh checkout, there is a Corpus and no Reading.
func (p *Place) ReadCorpus(trustRoot string, ask Ask) (*Corpus, error) {
	return p.openCorpus(trustRoot, func(c *Corpus) error {
		r, err := p.Read(ask)
		if err == nil {
			c.Reading = r
			c.trust(r.verified, &r.people)
		}
		return err
	})
}

// Corpus is the workspace with the people of its verified ledger.
func (r *Reading) Corpus() (*Corpus, error) {
	return r.openCorpus("", func(c *Corpus) error {
		c.Reading = r
		c.trust(r.verified, &r.people)
		return nil
	})
}

// openCorpus takes the people from the verified ledger that read reads. Without
// a ledger, as in a checkout on a CI machine, they come from the signers folder,
// from the trust root on; then cases are judged at the present time. A ledger
// that this machine remembers must be there.
func (p *Place) openCorpus(trustRoot string, read func(*Corpus) error) (*Corpus, error) {
	root, err := os.OpenRoot(p.Dir)
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "opening the workspace: %w", err)
	}
	c := &Corpus{Place: p, Root: root, Options: bench.Options{Now: p.Now(), Blobs: store.NewBlobs(store.OS{}, filepath.Join(p.EvidenceDir(), "cassettes"))}}
	c.Options.Made = func(d digest.Content) bench.CassetteProvenance { return bench.CassetteProvenance(c.Recorded[d]) }
	err = c.find(read)
	if err == nil {
		err = p.requireTrustRoot(trustRoot)
	}
	if err != nil {
		root.Close()
		return nil, err
	}
	return c, nil
}

func (c *Corpus) find(read func(*Corpus) error) error {
	place, err := c.Sequencer()
	if err != nil {
		return err
	}
	if _, err := os.Stat(place.SegmentsDir()); !errors.Is(err, fs.ErrNotExist) {
		if err := read(c); err != nil || c.Shared == nil {
			return err
		}
	} else if fresh, err := c.Fresh(); err != nil {
		return err
	} else if !fresh {
		return read(c)
	}
	c.From = "trust root"
	c.Options.Signers, err = c.signersFromFiles()
	return err
}

// trust takes the people of a verified ledger.
func (c *Corpus) trust(v *ledger.Verified, who *people) {
	c.verified, c.Draws = v, &who.draws
	if c.Shared != nil {
		return // only the machine itself is named in a checkout's own ledger
	}
	c.From, c.Versions, c.FirstEntry = "ledger", who.versions, who.first
	c.Recorded = who.recorded
	// A clock that was set back does not bring back a signer whose time is over.
	if last := v.LastTime.Go(); c.Options.Now.Before(last) {
		c.Options.Now = last
	}
	c.Options.Signers, c.Options.AcceptedAt, c.Options.SignersThen = v.Signers, who.accepted.AcceptedAt, who.accepted.SignersThen
}

// requireTrustRoot refuses a trust root that is not the workspace's.
func (p *Place) requireTrustRoot(trustRoot string) error {
	if trustRoot == "" {
		return nil
	}
	want, err := digest.ParseID(trustRoot)
	switch {
	case err != nil:
		return refusal.Newf(refusal.Usage, "--trust-root: %w", err)
	case want != p.PeopleRoot():
		return refusal.Newf(refusal.SignersChainBroken, "the trust root of this workspace is %s, --trust-root says %s", p.PeopleRoot(), want).
			WithHint("tally.yaml was changed, and with it who is trusted, or this is another workspace")
	}
	return nil
}

// OpenLedger opens the ledger for appending, and verifies only what came after
// the people were read.
func (c *Corpus) OpenLedger(ctx context.Context) (*sequencer.Ledger, error) {
	cfg, err := c.Config()
	if err != nil {
		return nil, err
	}
	cfg.From = c.verified
	return c.OpenWith(ctx, cfg, LockWait)
}

// Append appends one record to the ledger.
func (c *Corpus) Append(ctx context.Context, kind evidence.Kind, record evidence.Body) (ledger.Position, error) {
	return appendTo(c.OpenLedger(ctx))(kind, record)
}

// AppendAfter is [Place.AppendAfter] after the people were read.
func (c *Corpus) AppendAfter(ctx context.Context, event evidence.IntegrityEvent, kind evidence.Kind, record evidence.Body) (ledger.Position, error) {
	return appendTo(c.OpenLedger(ctx))(evidence.IntegrityEventKind, &event, entry{kind, record})
}

// HistoryFile is where version n of the signers is kept for checkouts that
// have no ledger.
func (p *Place) HistoryFile(version int) string {
	return p.Path("signers", "history", fmt.Sprint(version), "allowed_signers")
}

// signersFromFiles walks the versions in signers/history from the trust root
// on, each signed by two people of the one before. Without such a folder the
// file in force must be version 1.
//
// Files alone cannot show that the last version was taken away: that is what
// the ledger is for.
func (p *Place) signersFromFiles() (*seal.Signers, error) {
	if !workspace.Exists(p.HistoryFile(1)) {
		data, err := store.ReadFile(store.OS{}, p.SignersFile(), MaxSignedFile)
		if err != nil {
			return nil, err
		}
		return seal.Root(p.SignersFile(), data, p.PeopleRoot())
	}
	var signers *seal.Signers
	for version := 1; workspace.Exists(p.HistoryFile(version)); version++ {
		file := p.HistoryFile(version)
		data, err := store.ReadFile(store.OS{}, file, MaxSignedFile)
		if err != nil {
			return nil, err
		}
		if version == 1 {
			signers, err = seal.Root(file, data, p.PeopleRoot())
		} else {
			var sigs [][]byte
			if sigs, err = SignaturesOf(file); err == nil {
				signers, err = seal.Extend(signers, data, sigs, p.Now())
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	return signers, nil
}

// ClassDir is the folder of a class.
func (p *Place) ClassDir(class string, names ...string) string {
	return p.Path(append([]string{bench.Dir, class}, names...)...)
}

// Inside spells a file of the workspace as the pins do: relative to it, clean,
// with slashes. A person may give the whole path.
func (p *Place) Inside(file string) (string, error) {
	rel := filepath.Clean(file)
	if filepath.IsAbs(rel) {
		var err error
		if rel, err = filepath.Rel(p.Dir, rel); err != nil {
			return "", refusal.Newf(refusal.Usage, "%s: %w", file, err)
		}
	}
	if !filepath.IsLocal(rel) {
		return "", refusal.Newf(refusal.Usage, "%s is not in the workspace, %s", file, p.Dir).
			WithHint("name the file relative to the workspace")
	}
	return filepath.ToSlash(rel), nil
}

// Bench verifies a class of the workspace, or one that comes with the program.
func (c *Corpus) Bench(class string) (*bench.Verified, error) {
	if bench.IsShipped(class) {
		return suites.Verify(class, c.Options.Now)
	}
	return bench.Verify(c.Root, class, c.Options)
}
