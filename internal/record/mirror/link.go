package mirror

import (
	"context"
	"sync"
	"time"

	"tallystick/internal/record/bucket"
	"tallystick/internal/record/cosign"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/sequencer"
	"tallystick/internal/record/store"
	"tallystick/internal/record/workspace"
)

// A Link is what a workspace has of the store of its ledger: nothing, if the ledger
// is in the workspace's folder.
type Link struct {
	// Workspace has the settings, and Place is the folder of its ledger.
	Workspace *workspace.Workspace
	Place     sequencer.Place
	// Store opens a store; nil if this program cannot. Lease is as in [Options].
	Store bucket.Opener
	Lease time.Duration
	Now   func() time.Time

	mu     sync.Mutex
	mirror *Mirror
	pulled bool
}

// pullTime bounds how long bringing a folder up to date may take.
const pullTime = time.Hour

// openTime is how long a process of the same machine is waited for.
const openTime = 10 * time.Second

// Mirror is the ledger's store, or nil if the ledger is in the folder.
func (l *Link) Mirror() (*Mirror, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mirror == nil && l.Workspace.Settings.Ledger != "" {
		m, err := l.At(l.Workspace.Settings.Ledger)
		if err != nil {
			return nil, err
		}
		l.mirror = m
	}
	return l.mirror, nil
}

// At is the workspace's ledger in the store at an address.
func (l *Link) At(address string) (*Mirror, error) {
	a, err := bucket.ParseAddress(address)
	if err != nil {
		return nil, refusal.Newf(refusal.Usage, "%w", err).WithHint("an address is s3://bucket/prefix?endpoint=https://HOST&region=REGION")
	}
	if l.Store == nil {
		return nil, refusal.Newf(refusal.NotFound, "the ledger is kept at %s, which this program cannot read", a).WithHint("use the program tally-fleet")
	}
	b, err := l.Store(a)
	if err != nil {
		return nil, bucket.Unreachable(a.String(), err)
	}
	s := l.Workspace.Settings
	o := Options{Place: l.Place, Origin: s.Origin, TrustRoot: s.TrustRoot, Evidence: l.Workspace.EvidenceDir(), Address: a, Bucket: b, Lease: l.Lease, Now: l.Now}
	if len(s.Witnesses) > 0 {
		o.Checkpoints = l.Workspace.CheckpointsDir()
	}
	return New(o), nil
}

// PullOnce brings the folder up to date, once until [Link.Again] is called.
// Opening the ledger for writing does it again, under the lease.
func (l *Link) PullOnce() error {
	m, err := l.Mirror()
	if m == nil || err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pulled {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), pullTime)
	defer cancel()
	if err := m.Pull(ctx); err != nil {
		return err
	}
	l.pulled = true
	return nil
}

// Again says whether the next reader looks into the store once more.
func (l *Link) Again(again bool) {
	l.mu.Lock()
	l.pulled = !again
	l.mu.Unlock()
}

// Open opens the ledger for writing, in its store if it is in one.
func (l *Link) Open(ctx context.Context, cfg sequencer.Config, wait time.Duration) (*sequencer.Ledger, error) {
	m, err := l.Mirror()
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
	if len(l.Workspace.Settings.Witnesses) > 0 {
		cfg.Vouch = l.vouch
	}
	// The wait may have used up all the time that there was for it.
	ctx, cancelOpen := context.WithTimeout(context.WithoutCancel(ctx), openTime)
	defer cancelOpen()
	opened, err := sequencer.Open(ctx, cfg)
	if err != nil {
		w.Close()
		return nil, err
	}
	return opened, nil
}

// vouch asks the workspace's witnesses whether a ledger has all that they have
// seen. One that has seen something and cosigns this is enough.
func (l *Link) vouch(ctx context.Context, checkpoint *ledger.Checkpoint, tree *ledger.Tree) error {
	origin := l.Workspace.Settings.Origin
	last := refusal.Newf(refusal.NothingVouches, "no witness has seen the ledger %s yet, so none vouches that its %d entries are all", origin, checkpoint.Size).
		WithHint(`pull audit/anchors from git; "tally ledger anchor publish" on a machine that knows the ledger shows it to the witnesses`)
	for _, w := range l.Workspace.Settings.Witnesses {
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
			last = refusal.Newf(refusal.NothingVouches, "no witness could be asked whether the %d entries of %s are all: %w", checkpoint.Size, origin, err).
				WithHint("pull audit/anchors from git, or run again when the witness answers")
		}
	}
	return last
}

// Vault is the evidence of the workspace. What is not in the folder is read from the
// store.
func (l *Link) Vault() *store.Vault {
	v := store.OpenVault(l.Place.FS, l.Workspace.EvidenceDir())
	if m, err := l.Mirror(); m != nil && err == nil {
		v.Elsewhere = func(d digest.Content) error { return m.Fetch(context.Background(), d) }
	}
	return v
}

// Publish stores what the last publication of an anchor left in the folder.
func (l *Link) Publish(ctx context.Context) error {
	m, err := l.Mirror()
	if m == nil || err != nil {
		return err
	}
	return m.Publish(ctx)
}
