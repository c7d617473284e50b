package mirror

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"tallystick/internal/record/bucket"
	"tallystick/internal/record/canon"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
)

// leaseTime is how long a holder may be silent before another machine takes its
// place: a long run must not lose the ledger to a hiccup of the network.
const leaseTime = 20 * time.Second

// A Holder is who writes to a stored ledger, as the lease says it.
type Holder struct {
	ID      string        `json:"id"`
	Host    string        `json:"host"`
	PID     int           `json:"pid"`
	Since   evidence.Time `json:"since"`
	Renewed evidence.Time `json:"renewed"`
}

func (h Holder) String() string {
	return fmt.Sprintf("machine %q, process %d, since %s, last renewed %s", h.Host, h.PID, h.Since, h.Renewed)
}

// A lease tells other machines that one is writing. It avoids useless work and
// gives a good message; the conditional write of each batch decides.
type lease struct {
	m    *Mirror
	mine Holder
	stop context.CancelFunc
	done chan struct{}

	mu      sync.Mutex
	renewed time.Time // on this machine's clock
	lost    error
}

// LeaseWait is how long a machine should wait for a lease at least: the holder
// may be dead, and is believed to be alive that long.
func (m *Mirror) LeaseWait() time.Duration { return m.Lease + m.Lease/2 }

// takeLease takes the lease, waiting until ctx ends. A lease that does not
// change for the whole lease time, by this machine's own clock, belongs to a
// dead holder: clocks of two machines are never compared.
func (m *Mirror) takeLease(ctx context.Context) (*lease, error) {
	host, _ := os.Hostname()
	now := evidence.At(m.Now())
	l := &lease{m: m, mine: Holder{ID: rand.Text(), Host: host, PID: os.Getpid(), Since: now, Renewed: now}}
	// Only the waiting ends with ctx: a request that was cut short tells nothing.
	ask := context.WithoutCancel(ctx)
	var seen []byte
	var since time.Time
	for {
		text, err := canon.Marshal(l.mine)
		if err != nil {
			return nil, err
		}
		err = bucket.CreateSame(ask, m.Bucket, leaseObject, text)
		if err == nil {
			l.keep()
			return l, nil
		}
		if !errors.Is(err, bucket.ErrDiffers) {
			return nil, m.failed("taking the lease", err)
		}
		found, err := bucket.GetSurely(ask, m.Bucket, leaseObject, maxMarkerObject)
		if errors.Is(err, bucket.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, m.failed("reading the lease", err)
		}
		if !bytes.Equal(found, seen) {
			seen, since = found, time.Now()
		}
		if time.Since(since) > m.Lease {
			// The holder did not renew it. Should it only have slept, the store
			// refuses whichever of the two comes second with the next batch.
			if err := m.Bucket.Delete(ask, leaseObject); err != nil {
				return nil, m.failed("taking over the lease", err)
			}
			continue
		}
		select {
		case <-ctx.Done():
			return nil, busy(m, found)
		case <-time.After(m.Lease / 20):
		}
	}
}

func busy(m *Mirror, found []byte) error {
	var h Holder
	if canon.UnmarshalCanonical(found, &h) != nil {
		return refusal.Newf(refusal.LedgerBusy, "%s is not a lease", m.place(leaseObject)).WithHint("remove the object")
	}
	return refusal.Newf(refusal.LedgerBusy, "another process writes to the ledger at %s: %s", m.Address, h).
		WithHint("wait for it to end, or stop it; nothing was changed")
}

// keep renews the lease until it is released.
func (l *lease) keep() {
	ctx, cancel := context.WithCancel(context.Background())
	l.stop, l.done, l.renewed = cancel, make(chan struct{}), time.Now()
	go func() {
		defer close(l.done)
		every := time.NewTicker(l.m.Lease / 4)
		defer every.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-every.C:
				l.renew(ctx)
			}
		}
	}()
}

// renew says that this machine is still at work, unless another one has the lease
// by now. That the store cannot be reached is told by the next batch.
func (l *lease) renew(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, l.m.Lease)
	defer cancel()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost != nil || !l.stillMine(ctx) {
		return
	}
	next := l.mine
	next.Renewed = evidence.At(l.m.Now())
	text, err := canon.Marshal(next)
	if err != nil || l.m.Bucket.Put(ctx, leaseObject, text) != nil {
		return
	}
	l.mine, l.renewed = next, time.Now()
}

// stillMine looks at the lease, and notes whose it is if it is another's.
func (l *lease) stillMine(ctx context.Context) bool {
	found, err := l.m.Bucket.Get(ctx, leaseObject, maxMarkerObject)
	if errors.Is(err, bucket.ErrNotFound) {
		return true // another machine is about to take it over, or removed it: the batch decides
	}
	var h Holder
	if err != nil || canon.UnmarshalCanonical(found, &h) != nil {
		return false
	}
	if h.ID != l.mine.ID {
		l.lost = refusal.Newf(refusal.StoreConflict, "this process was silent for longer than its lease of %s, and the ledger at %s was taken over by %s", l.m.Lease, l.m.Address, h).
			WithHint("nothing was appended and nothing acknowledged since; run the command again when the other has ended")
		return false
	}
	return true
}

// check refuses to go on under a lease that another machine has taken over. It
// asks only if the last renewal is long ago, as after a pause.
func (l *lease) check() error {
	l.mu.Lock()
	late := time.Since(l.renewed) > l.m.Lease
	l.mu.Unlock()
	if late {
		l.renew(context.Background())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost
}

// release lets the next machine in.
func (l *lease) release() error {
	l.stop()
	<-l.done
	ctx, cancel := context.WithTimeout(context.Background(), l.m.Lease)
	defer cancel()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost != nil || !l.stillMine(ctx) {
		return nil
	}
	// A lease that stays is taken over when its time is up.
	_ = l.m.Bucket.Delete(ctx, leaseObject)
	return nil
}
