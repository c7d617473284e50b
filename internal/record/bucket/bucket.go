// Package bucket is what Tallystick needs of an object store: named bytes that
// can be read, listed, and created only if nothing has the name yet.
//
// The conditional creation ("If-None-Match: *" in S3) is the one thing on which
// a ledger's safety rests. [CreateSame] does it so that the answer is never a
// guess: after a timeout the object is read back, and it is known to be ours or
// another writer's, or the answer says that it is unknown.
//
// Package bucket/s3 has the driver; only the program tally-fleet links it.
package bucket

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"time"

	"tallystick/internal/record/refusal"
)

// What a [Bucket] answers besides bytes. Every other error means that nothing is
// known: the request may have been done or not.
var (
	ErrNotFound = errors.New("no such object")
	ErrExists   = errors.New("an object of that name exists")
	ErrTooLarge = errors.New("the object is larger than the limit")
)

// An Object is one line of a listing.
type Object struct {
	Name string
	Size int64
}

// A Bucket holds objects. Names are relative to the ledger's prefix.
type Bucket interface {
	// Get reads a whole object of at most limit bytes.
	Get(ctx context.Context, name string, limit int64) ([]byte, error)
	// Create stores an object of a name that nothing has yet, or answers
	// ErrExists.
	Create(ctx context.Context, name string, data []byte) error
	// Put stores an object, over an older one if there is one.
	Put(ctx context.Context, name string, data []byte) error
	// Delete removes an object. One that is not there is no error.
	Delete(ctx context.Context, name string) error
	// List lists the objects whose names begin with prefix and come after the
	// name after, in order of their names.
	List(ctx context.Context, prefix, after string) iter.Seq2[Object, error]
}

// An Opener opens the bucket at an address. The program tally has none.
type Opener func(Address) (Bucket, error)

// ErrDiffers is the answer of [CreateSame] if the name is taken by other bytes.
var ErrDiffers = errors.New("an object of that name exists and holds other bytes")

// tries is how often a request is sent whose answer never came, and pause how
// long the first wait between two is; each further wait is twice as long.
const (
	tries = 5
	pause = 200 * time.Millisecond
)

// CreateSame creates an object, or finds that the same bytes are there already.
// It returns ErrDiffers if others are. Any other error means that the store could
// not be asked: the object may be there or not.
func CreateSame(ctx context.Context, b Bucket, name string, data []byte) error {
	var last error
	for try := range tries {
		if try > 0 && !sleep(ctx, pause<<(try-1)) {
			break
		}
		if last = b.Create(ctx, name, data); last == nil {
			return nil
		}
		// A server that says that the name is taken may speak of this very
		// request, sent again after its answer was lost.
		found, err := b.Get(ctx, name, int64(len(data)))
		switch {
		case err == nil && bytes.Equal(found, data):
			return nil
		case err == nil, errors.Is(err, ErrTooLarge):
			return ErrDiffers
		case !errors.Is(err, ErrNotFound):
			last = err
		}
	}
	return last
}

// GetSurely reads an object, and asks again while no answer comes.
func GetSurely(ctx context.Context, b Bucket, name string, limit int64) (data []byte, err error) {
	for try := range tries {
		if try > 0 && !sleep(ctx, pause<<(try-1)) {
			break
		}
		data, err = b.Get(ctx, name, limit)
		if err == nil || errors.Is(err, ErrNotFound) || errors.Is(err, ErrTooLarge) {
			return data, err
		}
	}
	return nil, err
}

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// Unreachable says that a store could not be asked. It is never the answer to
// what its bytes are.
func Unreachable(address string, err error) error {
	return refusal.Newf(refusal.StoreUnreachable, "%s: %w", address, err).
		WithHint("check the address, the network, and the credentials in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; nothing was acknowledged that is not there")
}
