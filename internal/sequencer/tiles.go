package sequencer

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"tallystick/internal/ledger"
	"tallystick/internal/refusal"
	"tallystick/internal/store"
)

// TilesDir is the folder of the published tiles, in the layout of C2SP
// tlog-tiles: serve it as static files and any client of such logs can read
// the tree.
func (p Place) TilesDir() string { return filepath.Join(p.Dir, "tiles") }

func (p Place) checkpointPath() string { return filepath.Join(p.TilesDir(), "checkpoint") }

// publishTiles writes the tiles that the last published tree did not have, and
// the checkpoint last: a reader never sees one whose tiles are missing.
func (p Place) publishTiles(tree *ledger.Tree, leaves *ledger.Leaves, tip Tip) error {
	old := p.publishedSize(tip)
	tiles, err := ledger.Tiles(tree, leaves, old, tip.Size)
	if err != nil {
		return err
	}
	files := make([]store.Named, len(tiles))
	for i, t := range tiles {
		files[i] = store.Named{Name: filepath.Join(p.TilesDir(), filepath.FromSlash(t.Path)), Data: t.Data}
	}
	if err := store.WriteFiles(p.FS, files, 0o600); err != nil {
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

// A TileCheck compares the published tiles and their checkpoint with the
// entries. It is made before the walk over the ledger and fed by it: a writer
// at work meanwhile may publish more than the walk has seen, never less.
type TileCheck struct {
	place      Place
	checkpoint []byte
	tree       ledger.Tree
	leaves     ledger.Leaves
}

// CheckTiles begins a comparison.
func (p Place) CheckTiles() (*TileCheck, error) {
	checkpoint, err := p.readCheckpoint()
	if err != nil {
		return nil, err
	}
	return &TileCheck{place: p, checkpoint: checkpoint}, nil
}

// Visit notes one entry; it is for [ledger.Options].
func (t *TileCheck) Visit(r ledger.Record) error {
	if t.checkpoint == nil {
		return nil
	}
	t.leaves.Add(r.Position)
	return t.tree.Add(r.Leaf)
}

// Problems says what is wrong after the walk has verified the ledger. Nothing
// published is no problem.
func (t *TileCheck) Problems(v *ledger.Verified) ([]ledger.Problem, error) {
	if t.checkpoint == nil {
		return nil, nil
	}
	// A former operator's checkpoint may stand there until the next one.
	c, err := ledger.VerifyCheckpoint(t.checkpoint, ledger.Policy{Logs: v.EveryKey()})
	if err != nil {
		return []ledger.Problem{{Index: -1, Kind: "checkpoint", Detail: "tiles/checkpoint: " + err.Error(), Name: refusal.CheckpointInvalid}}, nil
	}
	t.leaves.Origin = v.Origin
	if c.Size > v.Size {
		return []ledger.Problem{{Index: v.Size, Kind: "checkpoint", Name: refusal.HistoryRolledBack,
			Detail: "tiles/checkpoint covers more entries than the ledger has"}}, nil
	}
	root, err := t.tree.Root(c.Size)
	if err != nil {
		return nil, err
	}
	if root != c.Root {
		return []ledger.Problem{{Index: c.Size - 1, Kind: "checkpoint", Name: refusal.HistoryForked,
			Detail: "tiles/checkpoint has another root than the entries"}}, nil
	}
	tiles, err := ledger.Tiles(&t.tree, &t.leaves, 0, c.Size)
	if err != nil {
		return nil, err
	}
	var problems []ledger.Problem
	for _, tile := range tiles {
		problem, err := t.place.checkTile(tile)
		if err != nil {
			return nil, err
		}
		if problem != nil {
			problems = append(problems, *problem)
		}
	}
	return problems, nil
}

func (p Place) checkTile(t ledger.Tile) (*ledger.Problem, error) {
	path := filepath.Join(p.TilesDir(), filepath.FromSlash(t.Path))
	if _, err := p.FS.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return &ledger.Problem{Index: -1, Kind: "tile", Name: refusal.TileMismatch,
			Detail: strings.TrimPrefix(t.Path, "/") + " is missing; publishing an anchor makes it again"}, nil
	}
	data, err := store.ReadFile(p.FS, path, 64<<20)
	if err != nil {
		return nil, err
	}
	return ledger.CheckTile(t, data), nil
}
