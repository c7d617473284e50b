package lab

import (
	"context"
	"fmt"

	"tallystick/internal/app/ceremony"
	"tallystick/internal/read/dossier"
	"tallystick/internal/read/history"
	"tallystick/internal/record/cosign"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/sequencer"
	"tallystick/internal/record/workspace"
)

// Publish publishes the end of the ledger and has the workspace's witnesses
// cosign it. If some cannot be reached the anchor stands: both what was published
// and the refusal WitnessFailed are returned. The people sign it besides.
func Publish(ctx context.Context, p *dossier.Place, l *sequencer.Ledger, people ...sequencer.Person) (*sequencer.Published, error) {
	return publish(ctx, p, l, sequencer.Occasion{Git: p.InGit()}, people...)
}

func publish(ctx context.Context, p *dossier.Place, l *sequencer.Ledger, on sequencer.Occasion, people ...sequencer.Person) (*sequencer.Published, error) {
	cosigners, err := cosigners(p.Settings)
	if err != nil {
		return nil, err
	}
	pub, err := l.PublishAnchorOn(ctx, on, cosigners, people...)
	if err != nil {
		return nil, p.Alarm(err)
	}
	// The day's anchor file is replaced by the next publication, and with it
	// what shows that witnesses saw the registration before the first case.
	if err := p.KeepCheckpoint(pub); err != nil {
		return nil, err
	}
	link, err := p.Link()
	if err == nil {
		err = link.Publish(ctx)
	}
	if err != nil {
		return nil, p.Alarm(err)
	}
	if len(pub.Failed) == 0 {
		return pub, nil
	}
	return pub, refusal.Newf(refusal.WitnessFailed, "the anchor stands, but %d of %d witnesses did not cosign: %w",
		len(pub.Failed), len(pub.Failed)+len(pub.Witnesses), pub.Failed[0]).
		WithHint(`run "tally ledger anchor publish" again when they can be reached`)
}

// PublishNow opens the ledger for one publication. What git holds is looked at
// first: an anchor that contradicts what was pushed must not be made. The OpenPGP
// keys, by their fingerprints, sign it besides.
func PublishNow(ctx context.Context, p *dossier.Place, gpg []string) (*sequencer.Published, error) {
	past, err := p.Read(dossier.Ask{Git: true, Want: func(*history.Attempt) bool { return false }})
	if err != nil {
		return nil, err
	}
	cfg, err := p.Config()
	if err != nil {
		return nil, err
	}
	cfg.From = past.Verified()
	l, err := p.OpenWith(ctx, cfg, dossier.LockWait)
	if err != nil {
		return nil, err
	}
	var people []sequencer.Person
	for _, id := range gpg {
		people = append(people, func(signers *seal.Signers, message []byte) ([]byte, error) {
			return ceremony.SignWithGPG(signers, id, seal.NamespaceAnchor, message)
		})
	}
	pub, err := publish(ctx, p, l, sequencer.Occasion{Alone: true, Git: p.InGit()}, people...)
	if cerr := l.Close(); err == nil {
		err = cerr
	}
	return pub, err
}

func cosigners(s workspace.Settings) ([]sequencer.Cosigner, error) {
	var out []sequencer.Cosigner
	for _, witness := range s.Witnesses {
		c, err := cosign.NewClient(witness.URL, witness.Key, cosign.ClientOptions{})
		if err != nil {
			return nil, fmt.Errorf("%s: witness %s: %w", workspace.SettingsFile, witness.URL, err)
		}
		out = append(out, c)
	}
	return out, nil
}
