package archive

import (
	"context"
	"sync"
	"time"

	"tallystick/internal/bucket"
	"tallystick/internal/cosign"
	"tallystick/internal/digest"
	"tallystick/internal/ledger"
	"tallystick/internal/mirror"
	"tallystick/internal/refusal"
	"tallystick/internal/sequencer"
	"tallystick/internal/store"
)

// A remote is the store of a workspace's ledger, and whether the folder was brought
// up to date with it.
type remote struct {
	mu     sync.Mutex
	mirror *mirror.Mirror
	pulled bool
}

// pullTime bounds how long bringing a folder up to date may take.
const pullTime = time.Hour

// Mirror is the ledger's store, or nil if the ledger is in the folder.
func (p *Place) Mirror() (*mirror.Mirror, error) {
	p.remote.mu.Lock()
	defer p.remote.mu.Unlock()
	if p.remote.mirror == nil && p.Settings.Ledger != "" {
		m, err := p.MirrorAt(p.Settings.Ledger)
		if err != nil {
			return nil, err
		}
		p.remote.mirror = m
	}
	return p.remote.mirror, nil
}

// MirrorAt is this workspace's ledger in the store at an address.
func (p *Place) MirrorAt(address string) (*mirror.Mirror, error) {
	a, err := bucket.ParseAddress(address)
	if err != nil {
		return nil, refusal.Newf(refusal.Usage, "%w", err).WithHint("an address is s3://bucket/prefix?endpoint=https://HOST&region=REGION")
	}
	if p.Store == nil {
		return nil, refusal.Newf(refusal.NotFound, "the ledger is kept at %s, which this program cannot read", a).WithHint("use the program tally-fleet")
	}
	b, err := p.Store(a)
	if err != nil {
		return nil, bucket.Unreachable(a.String(), err)
	}
	place, err := p.folder()
	if err != nil {
		return nil, err
	}
	o := mirror.Options{Place: place, Origin: p.Settings.Origin, TrustRoot: p.Settings.TrustRoot,
		Evidence: p.EvidenceDir(), Address: a, Bucket: b, Lease: p.Lease, Now: p.Now}
	if len(p.Settings.Witnesses) > 0 {
		o.Checkpoints = p.CheckpointsDir()
	}
	return mirror.New(o), nil
}

// pullOnce brings the folder up to date, once for each command. Whoever opens the
// ledger for writing does it again, under its lease.
func (p *Place) pullOnce() error {
	m, err := p.Mirror()
	if m == nil || err != nil {
		return err
	}
	p.remote.mu.Lock()
	defer p.remote.mu.Unlock()
	if p.remote.pulled {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), pullTime)
	defer cancel()
	if err := m.Pull(ctx); err != nil {
		return p.Alarm(err)
	}
	p.remote.pulled = true
	return nil
}

// pullAgain has the next reader look into the store once more.
func (p *Place) pullAgain() {
	p.remote.mu.Lock()
	p.remote.pulled = false
	p.remote.mu.Unlock()
}

// open opens the ledger for writing, with its store if it is in one.
func (p *Place) open(ctx context.Context, cfg sequencer.Config, wait time.Duration) (*sequencer.Ledger, error) {
	m, err := p.Mirror()
	if err != nil {
		return nil, err
	}
	if m != nil {
		// A holder of the lease that is dead is waited for that long.
		wait = max(wait, m.LeaseWait())
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	if m == nil {
		return sequencer.Open(ctx, cfg)
	}
	w, err := m.Begin(ctx)
	if err != nil {
		return nil, err
	}
	cfg.Remote = w
	// The wait may have used up all the time that there was for it.
	ctx, cancelOpen := context.WithTimeout(context.WithoutCancel(ctx), LockWait)
	defer cancelOpen()
	l, err := sequencer.Open(ctx, cfg)
	if err != nil {
		w.Close()
		return nil, err
	}
	return l, nil
}

// evidence is the vault of the workspace. What is not in the folder is read from
// the store.
func (p *Place) evidence() *store.Vault {
	v := store.OpenVault(p.fs(), p.EvidenceDir())
	if m, err := p.Mirror(); m != nil && err == nil {
		v.Elsewhere = func(d digest.Content) error { return m.Fetch(context.Background(), d) }
	}
	return v
}

// vouch asks the workspace's witnesses whether a ledger has all that they have
// seen. One that has seen something and cosigns this is enough.
func (p *Place) vouch(ctx context.Context, checkpoint *ledger.Checkpoint, tree *ledger.Tree) error {
	last := refusal.Newf(refusal.NothingVouches, "no witness has seen the ledger %s yet, so none vouches that its %d entries are all", p.Settings.Origin, checkpoint.Size).
		WithHint(`pull audit/anchors from git; "tally anchor publish" on a machine that knows the ledger shows it to the witnesses`)
	for _, w := range p.Settings.Witnesses {
		c, err := cosign.NewClient(w.URL, w.Key, cosign.ClientOptions{})
		if err != nil {
			return err
		}
		seen, err := c.Vouch(context.WithoutCancel(ctx), checkpoint, tree)
		switch {
		case refusal.ExitCode(err) == refusal.ExitUnverified:
			return refusal.Newf(refusal.Of(err).Name, "witness %s: %w", c.Name(), err)
		case err == nil && seen > 0:
			return nil
		case err != nil:
			last = refusal.Newf(refusal.NothingVouches, "no witness could be asked whether the %d entries of %s are all: %w", checkpoint.Size, p.Settings.Origin, err).
				WithHint("pull audit/anchors from git, or run again when the witness answers")
		}
	}
	return last
}

// PublishTiles stores what the last publication of an anchor left in the folder.
func (p *Place) PublishTiles(ctx context.Context) error {
	m, err := p.Mirror()
	if m == nil || err != nil {
		return err
	}
	return m.Publish(ctx)
}

// MoveLedger moves the ledger into the store at an address, or with "" back into
// the folder of the workspace, and returns the proof that nothing changed. The
// settings are changed last: interrupted at any point, it can be run again.
func (p *Place) MoveLedger(ctx context.Context, address string) (*mirror.Proof, error) {
	if p.Shared != nil {
		return nil, refusal.Newf(refusal.Usage, "this checkout has a ledger of its own, which stays on this machine").WithHint("move the ledger %s where it is kept", p.Shared.Origin)
	}
	var proof *mirror.Proof
	var err error
	switch {
	case address == "" && p.Settings.Ledger == "":
		return nil, refusal.Newf(refusal.Usage, "the ledger is in the folder %s already", p.LedgerDir())
	case address == "":
		proof, err = p.moveOut(ctx)
	case p.Settings.Ledger != "":
		return nil, refusal.Newf(refusal.Usage, "the ledger is kept at %s already", p.Settings.Ledger).
			WithHint(`to move it to another store, move it into the folder first: "tally ledger move --to-folder"`)
	default:
		proof, err = p.moveIn(ctx, address)
	}
	if err != nil {
		return nil, p.Alarm(err)
	}
	return proof, p.SetLedger(address)
}

func (p *Place) moveIn(ctx context.Context, address string) (*mirror.Proof, error) {
	m, err := p.MirrorAt(address)
	if err != nil {
		return nil, err
	}
	_, expect, err := p.Expectations()
	if err != nil {
		return nil, err
	}
	return m.MoveIn(ctx, expect)
}

func (p *Place) moveOut(ctx context.Context) (*mirror.Proof, error) {
	m, err := p.Mirror()
	if err != nil {
		return nil, err
	}
	p.remote.mu.Lock()
	p.remote.pulled = true // MoveOut does, and knows the tombstone of an earlier call
	p.remote.mu.Unlock()
	_, expect, err := p.Expectations()
	if err != nil {
		return nil, err
	}
	return m.MoveOut(ctx, expect)
}
