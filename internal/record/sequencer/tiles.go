package sequencer

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"

	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
)

// TilesDir is the folder of the published tiles, in the layout of C2SP
// tlog-tiles: serve it as static files and any client of such logs can read
// the tree.
func (p Place) TilesDir() string { return filepath.Join(p.Dir, "tiles") }

func (p Place) checkpointPath() string { return filepath.Join(p.TilesDir(), "checkpoint") }

func (p Place) tileFile(path string) string {
	return filepath.Join(p.TilesDir(), filepath.FromSlash(path))
}

// tilesAtOnce is how many tiles are held in memory, about 10 MB, before their
// folders are synced.
const tilesAtOnce = 256

// maxTileBytes is more than a bundle of the longest leaves has.
const maxTileBytes = 1 << 20

// publishTiles writes the tiles that the last published tree did not have, and
// the checkpoint last: a reader never sees one whose tiles are missing.
func (p Place) publishTiles(tree *ledger.Tree, leaves *ledger.Leaves, tip Tip) error {
	var batch []store.Named
	write := func() error {
		defer func() { batch = batch[:0] }()
		return store.WriteFiles(p.FS, batch, 0o600)
	}
	for t, err := range ledger.Tiles(tree, leaves, p.publishedSize(tip), tip.Size) {
		if err != nil {
			return err
		}
		batch = append(batch, store.Named{Name: p.tileFile(t.Path), Data: t.Data})
		if len(batch) == tilesAtOnce {
			if err := write(); err != nil {
				return err
			}
		}
	}
	if err := write(); err != nil {
		return err
	}
	if err := store.MakeDir(p.FS, p.TilesDir(), 0o700); err != nil {
		return err
	}
	return store.WriteFile(p.FS, p.checkpointPath(), tip.Checkpoint, 0o600)
}

// publishedSize is the size of the tree whose tiles are on disk, or 0 to write
// all of them again: tiles are derived, so a missing or odd checkpoint costs
// time and nothing else.
func (p Place) publishedSize(tip Tip) int64 {
	c, err := p.publishedCheckpoint(ledger.KeysOf(tip.Signers, tip.Origin, tip.Time.Go()))
	if err != nil || c == nil || c.Size > tip.Size {
		return 0
	}
	return c.Size
}

func (p Place) publishedCheckpoint(keys []ledger.LogKey) (*ledger.Checkpoint, error) {
	data, err := p.readCheckpoint()
	if err != nil || data == nil {
		return nil, err
	}
	return ledger.VerifyCheckpoint(data, ledger.Policy{Logs: keys})
}

// readCheckpoint reads the published checkpoint, which is nil if there is none.
func (p Place) readCheckpoint() ([]byte, error) {
	if _, err := p.FS.Stat(p.checkpointPath()); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return store.ReadFile(p.FS, p.checkpointPath(), 1<<20)
}

// A TileCheck compares the published tiles with the entries, one by one. It is made
// before the walk over the ledger and fed by it: a writer at work meanwhile may
// publish more than the walk has seen, never less. That no tile, and no checkpoint of
// them, tells of more entries or of others is for [Place.Verify], whichever command asks.
type TileCheck struct {
	place      Place
	size       int64 // of the tree whose tiles must be there: what the checkpoint says
	signed     bool  // there is a checkpoint
	found      bool  // something is published
	tree       ledger.Tree
	leaves     ledger.Leaves
	unexpected []ledger.Problem
}

// CheckTiles begins a comparison.
func (p Place) CheckTiles() (*TileCheck, error) {
	t := &TileCheck{place: p}
	// One that is not a checkpoint is refused by the walk.
	checkpoint, err := p.readCheckpoint()
	if err != nil && !refusal.Is(err, refusal.TooLarge) {
		return nil, err
	}
	if head, err := headOf(checkpoint); err == nil {
		t.size, t.signed = head.Size, true
	}
	entries, err := p.FS.ReadDir(p.TilesDir())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, p.unreadableTiles(err)
	}
	t.found = len(entries) > 0
	return t, nil
}

// Visit notes one entry; it is for [ledger.Options].
func (t *TileCheck) Visit(r ledger.Record) error {
	if !t.found {
		return nil
	}
	t.leaves.Add(r.Position)
	return t.tree.Add(r.Leaf)
}

// Unexpected says, after [TileCheck.Problems], which files are among the tiles
// that are not tiles of this ledger. A client of tiles does not ask for them, so
// only a strict verification names them.
func (t *TileCheck) Unexpected() []ledger.Problem { return t.unexpected }

// Problems says what is wrong after the walk has verified the ledger. That
// nothing is published is not a problem. Tiles without a checkpoint, which a
// client cannot use and which a forger may have taken it from, are compared with
// the entries all the same.
func (t *TileCheck) Problems(v *ledger.Verified) ([]ledger.Problem, error) {
	if !t.found {
		return nil, nil
	}
	if !t.signed {
		t.expectNot("tiles/checkpoint is missing, and there are tiles")
	}
	t.leaves.Origin = v.Origin
	return t.compare(t.size)
}

// compare compares the tiles of a tree of that size, which must be there, and
// those that are left of smaller trees, which a client may still read.
func (t *TileCheck) compare(size int64) (problems []ledger.Problem, err error) {
	seen := make(map[string]bool)
	check := func(tile ledger.Tile) error {
		seen[tile.Path] = true
		problem, err := t.place.checkTile(tile)
		if problem != nil {
			problems = append(problems, *problem)
		}
		return err
	}
	for tile, err := range ledger.Tiles(&t.tree, &t.leaves, 0, size) {
		if err == nil {
			err = check(tile)
		}
		if err != nil {
			return nil, err
		}
	}
	err = t.place.walkTiles("", func(path string) error {
		if seen[path] || path == "checkpoint" {
			return nil
		}
		if tile, ok := ledger.TileAt(&t.tree, &t.leaves, path); ok {
			return check(tile)
		}
		t.expectNot("tiles/%s is not a tile of the entries of this ledger", path)
		return nil
	})
	return problems, err
}

func (t *TileCheck) expectNot(format string, args ...any) {
	t.unexpected = append(t.unexpected, ledger.Problem{Index: -1, Kind: "tile", Name: refusal.TileMismatch, Detail: fmt.Sprintf(format, args...)})
}

func (p Place) unreadableTiles(err error) error {
	return refusal.Newf(refusal.Unreadable, "reading tiles: %w", err).WithHint("nothing was changed; check the permissions and the disk of %s", p.TilesDir())
}

// walkTiles calls visit with the path of every file below a folder of tiles.
func (p Place) walkTiles(dir string, visit func(path string) error) error {
	entries, err := p.FS.ReadDir(p.tileFile(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return p.unreadableTiles(err)
	}
	for _, e := range entries {
		next := visit
		if e.IsDir() {
			next = func(dir string) error { return p.walkTiles(dir, visit) }
		}
		if err := next(path.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

func (p Place) checkTile(t ledger.Tile) (*ledger.Problem, error) {
	path := p.tileFile(t.Path)
	if _, err := p.FS.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return &ledger.Problem{Index: -1, Kind: "tile", Name: refusal.TileMismatch,
			Detail: t.Path + " is missing"}, nil
	}
	data, err := store.ReadFile(p.FS, path, int64(len(t.Data)))
	if refusal.Is(err, refusal.TooLarge) {
		return &ledger.Problem{Index: -1, Kind: "tile", Name: refusal.TileMismatch,
			Detail: fmt.Sprintf("%s has more than the %d bytes that the entries give", t.Path, len(t.Data))}, nil
	}
	if err != nil {
		return nil, err
	}
	return ledger.CheckTile(t, data), nil
}
