package mirror

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"tallystick/internal/record/bucket"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
)

// maxTileBytes bounds a tile: 256 leaves of an entry bundle, each of at most 64 KB.
const maxTileBytes = 256 << 16

// Publish stores the tiles that were published into the folder, then the
// checkpoint, then the checkpoints that witnesses cosigned. A client of tiles reads
// them from the bucket as from the folder: it never sees a checkpoint whose tiles
// are missing.
func (m *Mirror) Publish(ctx context.Context) error {
	checkpoint, err := store.ReadFile(m.FS, filepath.Join(m.TilesDir(), "checkpoint"), maxSmallObject)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // nothing was published yet
	}
	if err != nil {
		return err
	}
	size, err := sizeOf(checkpoint)
	if err != nil {
		return err
	}
	old, err := m.publishedSize(ctx, size)
	if err != nil {
		return err
	}
	for _, tile := range ledger.TilePaths(old, size) {
		data, err := store.ReadFile(m.FS, filepath.Join(m.TilesDir(), filepath.FromSlash(tile)), maxTileBytes)
		if err != nil {
			return err
		}
		if err := m.createTile(ctx, tilesPrefix+tile, data); err != nil {
			return err
		}
	}
	if err := m.Bucket.Put(ctx, tilesPrefix+"checkpoint", checkpoint); err != nil {
		return m.failed("storing the checkpoint", err)
	}
	return m.pushCheckpoints(ctx)
}

func (m *Mirror) createTile(ctx context.Context, object string, data []byte) error {
	err := bucket.CreateSame(ctx, m.Bucket, object, data)
	if errors.Is(err, bucket.ErrDiffers) {
		return refusal.Newf(refusal.TileMismatch, "%s holds another tile than the entries give", m.place(object)).
			WithHint("a tile never changes, so this one was altered; remove the object and publish again")
	}
	if err != nil {
		return m.failed("storing "+object, err)
	}
	return nil
}

// publishedSize is the size of the tree whose tiles are in the store, or 0 to send
// all of them: those that are there cost a request each and nothing else.
func (m *Mirror) publishedSize(ctx context.Context, size int64) (int64, error) {
	data, err := bucket.GetSurely(ctx, m.Bucket, tilesPrefix+"checkpoint", maxSmallObject)
	if errors.Is(err, bucket.ErrNotFound) || errors.Is(err, bucket.ErrTooLarge) {
		return 0, nil
	}
	if err != nil {
		return 0, m.failed("reading the checkpoint", err)
	}
	if old, err := sizeOf(data); err == nil && old <= size {
		return old, nil
	}
	return 0, nil
}

// sizeOf reads how many entries a signed checkpoint covers, and verifies nothing.
func sizeOf(checkpoint []byte) (int64, error) {
	text, _, _ := strings.Cut(string(checkpoint), "\n\n")
	head, err := ledger.ParseTreeHead(text + "\n")
	return head.Size, err
}

// pushCheckpoints stores the checkpoints that witnesses cosigned: they show, on
// every machine, that a registration was seen before its first case ran.
func (m *Mirror) pushCheckpoints(ctx context.Context) error {
	return m.eachCheckpoint(func(name string, data []byte) error {
		// A later publication of the same size may have more cosignatures.
		if err := m.Bucket.Put(ctx, keptPrefix+name, data); err != nil {
			return m.failed("storing "+keptPrefix+name, err)
		}
		return nil
	})
}

func (m *Mirror) eachCheckpoint(visit func(name string, data []byte) error) error {
	if m.Checkpoints == "" {
		return nil
	}
	files, err := m.FS.ReadDir(m.Checkpoints)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return refusal.Newf(refusal.Unreadable, "reading checkpoints: %w", err)
	}
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".checkpoint") {
			continue
		}
		data, err := store.ReadFile(m.FS, filepath.Join(m.Checkpoints, f.Name()), maxSmallObject)
		if err == nil {
			err = visit(f.Name(), data)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// pullCheckpoints fetches the cosigned checkpoints that the folder lacks. Each
// reader of the ledger verifies them.
func (m *Mirror) pullCheckpoints(ctx context.Context) error {
	if m.Checkpoints == "" {
		return nil
	}
	for o, err := range m.Bucket.List(ctx, keptPrefix, "") {
		if err != nil {
			return m.failed("listing "+keptPrefix, err)
		}
		local := filepath.Join(m.Checkpoints, path.Base(o.Name))
		if _, err := m.FS.Lstat(local); err == nil {
			continue
		}
		data, err := bucket.GetSurely(ctx, m.Bucket, o.Name, maxSmallObject)
		if err != nil {
			return m.failed("reading "+o.Name, err)
		}
		size, err := sizeOf(data)
		if err != nil || o.Name != fmt.Sprintf("%s%d.checkpoint", keptPrefix, size) {
			return refusal.Newf(refusal.CheckpointInvalid, "%s is not the checkpoint that its name says", m.place(o.Name)).WithHint("remove the object: attempts then lose the level witnessed, or restore it")
		}
		if err := store.MakeDir(m.FS, m.Checkpoints, 0o700); err != nil {
			return err
		}
		if err := store.WriteFile(m.FS, local, data, 0o600); err != nil {
			return err
		}
	}
	return nil
}
