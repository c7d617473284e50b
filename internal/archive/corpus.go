package archive

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"tallystick/internal/bench"
	"tallystick/internal/digest"
	"tallystick/internal/evidence"
	"tallystick/internal/ledger"
	"tallystick/internal/refusal"
	"tallystick/internal/seal"
	"tallystick/internal/sequencer"
	"tallystick/internal/store"
	"tallystick/internal/suites"
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
}

// A SignersVersion is one version of the signers in the ledger.
type SignersVersion struct{ Signers, Signatures string }

// Close closes the workspace's folder.
func (c *Corpus) Close() error { return c.Root.Close() }

// OpenCorpus finds out who is trusted in the workspace.
func (p *Place) OpenCorpus() (*Corpus, error) {
	root, err := os.OpenRoot(p.Dir)
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "opening the workspace: %w", err)
	}
	c := &Corpus{Place: p, Root: root, Options: bench.Options{Now: p.Now(), Blobs: store.NewBlobs(store.OS{}, filepath.Join(p.EvidenceDir(), "cassettes"))}}
	if err := c.trust(); err != nil {
		root.Close()
		return nil, err
	}
	return c, nil
}

// OpenCorpusFor is OpenCorpus for somebody who keeps the trust root himself;
// none if it is "". The workspace's own comes with the checkout: whoever can
// change that could bring signers of his own and sign everything again.
func (p *Place) OpenCorpusFor(trustRoot string) (*Corpus, error) {
	c, err := p.OpenCorpus()
	if err != nil || trustRoot == "" {
		return c, err
	}
	want, err := digest.ParseID(trustRoot)
	switch {
	case err != nil:
		err = refusal.Newf(refusal.Usage, "--trust-root: %w", err)
	case want != p.Settings.TrustRoot:
		err = refusal.Newf(refusal.SignersChainBroken, "the trust root of this workspace is %s, --trust-root says %s", p.Settings.TrustRoot, want).
			WithHint("somebody changed tally.yaml and with it who is trusted, or this is another workspace")
	default:
		return c, nil
	}
	c.Close()
	return nil, err
}

// trust takes the people from the verified ledger. Without one, as in a
// checkout on a CI machine, they come from the signers folder, from the trust
// root on; then cases are judged at the present time. A ledger that this
// machine remembers must be there.
func (c *Corpus) trust() error {
	place, err := c.Sequencer()
	if err != nil {
		return err
	}
	_, err = os.Stat(place.SegmentsDir())
	if errors.Is(err, fs.ErrNotExist) {
		remembered, err := sequencer.Remembered(place.FS, place.StateDir, c.Settings.Origin)
		if err != nil {
			return err
		}
		if remembered == nil {
			c.From = "trust root"
			c.Options.Signers, err = c.signersFromFiles()
			return err
		}
	}
	accepted := &bench.Acceptances{}
	v, err := c.Verify(func(r ledger.Record) error {
		switch b := r.Body.(type) {
		case *evidence.Opened:
			c.Versions = append(c.Versions, SignersVersion{Signers: b.Signers})
		case *evidence.SignersChanged:
			c.Versions = append(c.Versions, SignersVersion{b.Signers, strings.Join(b.Signatures, "")})
		}
		return accepted.Visit(r)
	})
	if err != nil {
		return err
	}
	c.From = "ledger"
	// A clock that was set back does not bring back a signer whose time is over.
	if last := v.LastTime.Go(); c.Options.Now.Before(last) {
		c.Options.Now = last
	}
	c.Options.Signers, c.Options.AcceptedAt, c.Options.SignersThen = v.Signers, accepted.AcceptedAt, accepted.SignersThen
	return nil
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
	if !fileExists(p.HistoryFile(1)) {
		data, err := store.ReadFile(store.OS{}, p.SignersFile(), MaxSignedFile)
		if err != nil {
			return nil, err
		}
		return seal.Root(p.SignersFile(), data, p.Settings.TrustRoot)
	}
	var signers *seal.Signers
	for version := 1; fileExists(p.HistoryFile(version)); version++ {
		file := p.HistoryFile(version)
		data, err := store.ReadFile(store.OS{}, file, MaxSignedFile)
		if err != nil {
			return nil, err
		}
		if version == 1 {
			signers, err = seal.Root(file, data, p.Settings.TrustRoot)
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
