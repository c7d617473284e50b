package registry

import (
	"context"
	"fmt"
	"time"

	"tallystick/internal/record/cosign"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/sequencer"
)

// tickEvery is how often deadlines, witnesses and anchors are looked at.
const tickEvery = 10 * time.Second

// anchorEvery is how often the end of the ledger is published, if it has grown.
const anchorEvery = time.Hour

// witnessEvery is how soon witnesses are asked again for a draw that waits: each
// time leaves an entry.
const witnessEvery = time.Minute

// Run does what is due until ctx ends.
func (r *Registry) Run(ctx context.Context) error {
	t := time.NewTicker(tickEvery)
	defer t.Stop()
	for {
		if err := r.Tick(ctx); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			if refusal.ExitCode(err) == refusal.ExitUnverified {
				return err // the ledger was changed, or a witness saw another one
			}
			r.o.Log.Warn("doing what is due", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
	}
}

// Tick does everything that is due now: anchors, draws, deadlines, status lists.
func (r *Registry) Tick(ctx context.Context) error {
	r.tickMu.Lock()
	defer r.tickMu.Unlock()
	r.mu.Lock()
	err := r.open4writes()
	r.mu.Unlock()
	if err != nil {
		return err
	}
	if err := r.anchor(ctx); err != nil {
		return err
	}
	if err := r.drawAll(); err != nil {
		return err
	}
	if err := r.decideAll(); err != nil {
		return err
	}
	if err := r.renewCheckpoint(ctx, false); err != nil {
		return err
	}
	return r.refreshStatusLists(ctx)
}

// anchor publishes the end of the ledger when it is time to, or when a draw waits
// for witnesses.
func (r *Registry) anchor(ctx context.Context) error {
	r.mu.Lock()
	waiting := len(picked(r.state.undrawn, func(p *proposal) bool { return p.sealed == nil && len(p.config.Witnesses) > 0 })) > 0
	last := r.anchorAt
	r.mu.Unlock()
	since := r.o.Now().Sub(last)
	waiting = waiting && len(r.settings.Witnesses) > 0 && since >= witnessEvery
	if !waiting && (r.ledger.Tip().Size <= r.anchored || since < anchorEvery) {
		return nil
	}
	cosigners, err := r.cosigners()
	if err != nil {
		return err
	}
	pub, err := r.ledger.PublishAnchor(ctx, cosigners)
	if err != nil {
		return err
	}
	for _, f := range pub.Failed {
		r.o.Log.Warn("a witness did not cosign", "error", f)
	}
	r.mu.Lock()
	r.anchorAt = r.o.Now()
	r.mu.Unlock()
	r.anchored = r.ledger.Tip().Size
	return r.witnessed(pub)
}

func (r *Registry) cosigners() ([]sequencer.Cosigner, error) {
	var out []sequencer.Cosigner
	for _, w := range r.settings.Witnesses {
		c, err := cosign.NewClient(w.URL, w.Key, cosign.ClientOptions{})
		if err != nil {
			return nil, fmt.Errorf("%s: witness %s: %w", SettingsFile, w.URL, err)
		}
		out = append(out, c)
	}
	return out, nil
}

// witnessed takes a checkpoint that enough witnesses cosigned as the root of the
// draws that wait for one.
func (r *Registry) witnessed(pub *sequencer.Published) error {
	if len(r.settings.Witnesses) == 0 || len(pub.Witnesses) < r.settings.WitnessQuorum {
		return nil
	}
	head, err := pub.Anchor.TreeHead()
	if err != nil {
		return err
	}
	names, err := r.put([]byte(pub.Anchor.Checkpoint))
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.state.undrawn {
		if p.sealed == nil && len(p.config.Witnesses) > 0 && p.index < head.Size && len(r.state.eligible(p, head.Size)) > 0 {
			p.sealed = &sealedRoot{size: head.Size, checkpoint: &names[0]}
		}
	}
	return nil
}

// reconfigure records settings that changed since the last opening, and publishes
// the keys under the name that the issuer has now.
func (r *Registry) reconfigure() error {
	return r.transact([]string{"settings"}, func() ([]evidence.Body, error) {
		did, err := issuer(r.settings, r.ring.credential.key)
		if err != nil {
			return nil, err
		}
		want := configured(r.settings, did)
		if sameConfig(want, &r.state.config) {
			return nil, nil
		}
		out := []evidence.Body{want}
		r.ring.did = did
		for purpose, k := range map[string]*signingKey{CredentialPurpose: &r.ring.credential, ChainPurpose: &r.ring.chain} {
			method := methodOf(did, purpose, k.key)
			if method == k.method {
				continue
			}
			known, err := published(method, purpose, k.key, false)
			if err != nil {
				return nil, err
			}
			k.method = method
			out = append(out, known)
		}
		return out, nil
	})
}

func sameConfig(a, b *evidence.RegistryConfigured) bool {
	return a.DeadlineHours == b.DeadlineHours && a.DID == b.DID && a.DrawRule == b.DrawRule && a.Judges == b.Judges && a.PublicURL == b.PublicURL && a.Quorum == b.Quorum &&
		fmt.Sprint(a.Witnesses) == fmt.Sprint(b.Witnesses)
}

// Stats are for metrics and health.
func (r *Registry) Stats() Stats {
	tip := r.ledger.Tip()
	r.mu.Lock()
	defer r.mu.Unlock()
	return Stats{Entries: tip.Size, Applied: r.applied, Agents: len(r.state.agents), Persons: r.state.admitted(), Proposals: len(r.state.proposals),
		PendingNow: len(r.state.undecided), LastAnchor: r.anchorAt, Broken: r.behind}
}

// Ready returns nil if writes can be answered.
func (r *Registry) Ready(ctx context.Context) error {
	r.mu.Lock()
	err := r.open4writes()
	r.mu.Unlock()
	if err != nil {
		return err
	}
	return r.Reader.Ready(ctx)
}
