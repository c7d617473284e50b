package store

import (
	"context"
	"os"
	"time"

	"tallystick/internal/record/refusal"
)

// A Lock keeps other processes from the thing it stands for until it is
// closed or this process ends, however it ends.
type Lock struct{ f File }

// lockRetry is how often a waiting process looks again, chosen so that a
// waiter adds no load and a person notices no delay.
const lockRetry = 25 * time.Millisecond

// TakeLock takes the lock named by a file, waiting until ctx ends. The file
// itself stays for ever: removing it would let two processes each hold a lock
// of the same name.
func TakeLock(ctx context.Context, fsys FS, name string) (*Lock, error) {
	f, err := fsys.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, writeError("opening lock", name, err)
	}
	for {
		held, err := f.TryLock()
		if held {
			return &Lock{f}, nil
		}
		if err != nil {
			f.Close()
			return nil, writeError("locking", name, err)
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, refusal.Newf(refusal.LedgerBusy, "another process holds %s", name).
				WithHint("wait for it to end, or stop it; nothing was changed")
		case <-time.After(lockRetry):
		}
	}
}

// File is the locked file, for what keeps its data under its own lock.
func (l *Lock) File() File { return l.f }

// Close lets the next process in.
func (l *Lock) Close() error { return l.f.Close() }
