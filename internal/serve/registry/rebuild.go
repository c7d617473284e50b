package registry

import (
	"context"
	"errors"

	"tallystick/internal/serve/registry/index"
)

// Rebuild makes the index again from the ledger and the blobs. No other process may have the
// registry open. The digest is that of every row; Before is that of what was there,
// which is the same unless it was changed by hand or was behind.
func Rebuild(ctx context.Context, o Options) (*Rebuilt, error) {
	if err := o.defaults(); err != nil {
		return nil, err
	}
	settings, err := LoadSettings(o.Dir)
	if err != nil {
		return nil, err
	}
	out := &Rebuilt{}
	x, err := index.Open(ctx, o.DB)
	if err != nil {
		return nil, err
	}
	if applied, _, err := x.Applied(ctx); err == nil && applied > 0 {
		out.Before, _, err = x.Digest(ctx)
		if err != nil {
			return nil, errors.Join(err, x.Close())
		}
	}
	if err := x.Close(); err != nil {
		return nil, err
	}
	r := newRegistry(o, settings)
	if err := r.open(ctx, true); err != nil {
		return nil, errors.Join(err, r.abandon())
	}
	out.Entries = r.state.size
	out.Digest, out.Rows, err = r.index.Digest(ctx)
	return out, errors.Join(err, r.abandon())
}
