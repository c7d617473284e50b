package ledger

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"iter"
	"strings"

	"golang.org/x/mod/sumdb/tlog"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
)

// tileHeight is fixed by C2SP tlog-tiles: 256 hashes a tile.
const tileHeight = 8

const tileWidth = 1 << tileHeight

// A Tile is one file of the C2SP tlog-tiles layout. Tiles are derived from the
// entries and can be made again at any time.
type Tile struct {
	Path string // relative to the folder that holds "checkpoint"
	Data []byte
}

// Leaves gathers what the entry bundles of the tiles need of each entry.
type Leaves struct {
	Origin string
	prev   rows[digest.ID] // of the first entry of each bundle: the others follow
	cont   rows[digest.Content]
	first  int64 // index of the first entry that is noted, where a bundle begins
}

// Add notes the next entry.
func (l *Leaves) Add(p Position) {
	if l.cont.n%tileWidth == 0 {
		l.prev.add(p.Prev)
	}
	l.cont.add(p.Content)
}

// Tiles returns the tiles of a tree of newSize that a tree of oldSize did not
// have, entry bundles included, one at a time: all of them take as much memory
// as the leaves.
func Tiles(tree *Tree, leaves *Leaves, oldSize, newSize int64) iter.Seq2[Tile, error] {
	return func(yield func(Tile, error) bool) {
		for _, t := range tlog.NewTiles(tileHeight, oldSize, newSize) {
			if !yield(makeTile(tree, leaves, t)) {
				return
			}
			if t.L == 0 {
				t.L = bundleLevel
				if !yield(makeTile(tree, leaves, t)) {
					return
				}
			}
		}
	}
}

// TilePaths lists the tiles that [Tiles] makes.
func TilePaths(oldSize, newSize int64) []string {
	var paths []string
	for _, t := range tlog.NewTiles(tileHeight, oldSize, newSize) {
		paths = append(paths, tilePath(fmt.Sprint(t.L), t.N, t.W))
		if t.L == 0 {
			paths = append(paths, tilePath("entries", t.N, t.W))
		}
	}
	return paths
}

// bundleLevel is how package tlog calls the level of the entry bundles.
const bundleLevel = -1

func makeTile(tree *Tree, leaves *Leaves, t tlog.Tile) (Tile, error) {
	if t.L == bundleLevel {
		return Tile{Path: tilePath("entries", t.N, t.W), Data: leaves.bundle(t.N*tileWidth, t.W)}, nil
	}
	path := tilePath(fmt.Sprint(t.L), t.N, t.W)
	data, err := tlog.ReadTileData(t, tree)
	if err != nil {
		return Tile{}, fmt.Errorf("%s: %w", path, err)
	}
	return Tile{Path: path, Data: data}, nil
}

// TileAt returns the tile that a file of that path must be, whatever the size
// of the tree that it was published with. It reports false when the path is no
// tile's, or that of a tree larger than this one.
func TileAt(tree *Tree, leaves *Leaves, path string) (Tile, bool) {
	t, ok := parseTile(path)
	if !ok || reach(t) > tree.size {
		return Tile{}, false
	}
	tile, err := makeTile(tree, leaves, t)
	return tile, err == nil && tile.Path == path
}

// TileReach is how many entries a tree has at least that has a tile of that path; 0 if
// the path is not a tile's.
func TileReach(path string) int64 {
	t, ok := parseTile(path)
	if !ok {
		return 0
	}
	return reach(t)
}

// reach is how many entries a tree has at least that has the tile.
func reach(t tlog.Tile) int64 { return (t.N*tileWidth + int64(t.W)) << (tileHeight * max(t.L, 0)) }

// parseTile reads the path of a tile of a tree that may be as large as any.
func parseTile(path string) (t tlog.Tile, ok bool) {
	// Package tlog spells the height out and calls entries data.
	rest, ok := strings.CutPrefix(path, "tile/")
	if after, entries := strings.CutPrefix(rest, "entries/"); entries {
		rest = "data/" + after
	}
	t, err := tlog.ParseTilePath(fmt.Sprintf("tile/%d/%s", tileHeight, rest))
	const maxLevel = 6 // the highest that has a tile in a tree of maxTreeSize
	if !ok || err != nil || t.L > maxLevel || t.N > maxTreeSize/tileWidth>>(tileHeight*max(t.L, 0)) {
		return t, false
	}
	return t, true
}

// bundle is the entry bundle of the leaves from first on, where a tile begins:
// each with its length in two bytes before it.
func (l *Leaves) bundle(first int64, n int) []byte {
	leaf := AppendLeaf(nil, l.Origin, first+int64(n), digest.ID{}, digest.Content{}) // as long as any here, or longer
	out := make([]byte, 0, n*(2+len(leaf)))
	prev := l.prev.at((first - l.first) / tileWidth)
	for i := first; i < first+int64(n); i++ {
		content := l.cont.at(i - l.first)
		leaf = AppendLeaf(leaf[:0], l.Origin, i, prev, content)
		out = binary.BigEndian.AppendUint16(out, uint16(len(leaf)))
		out = append(out, leaf...)
		prev = nextHead(prev, content)
	}
	return out
}

// tilePath spells tile/<L>/<N>[.p/<W>] as tlog-tiles has it: groups of three
// digits, all but the last with an x in front.
func tilePath(level string, n int64, width int) string {
	number := fmt.Sprintf("%03d", n%1000)
	for n >= 1000 {
		n /= 1000
		number = fmt.Sprintf("x%03d/%s", n%1000, number)
	}
	path := "tile/" + level + "/" + number
	if width < tileWidth {
		path += fmt.Sprintf(".p/%d", width)
	}
	return path
}

// CheckTile compares a tile on disk with what the entries give, and says at
// which byte the two part.
func CheckTile(want Tile, got []byte) *Problem {
	if bytes.Equal(want.Data, got) {
		return nil
	}
	if len(want.Data) != len(got) {
		return tileProblem("%s has %d bytes, the entries give %d", want.Path, len(got), len(want.Data))
	}
	at := 0
	for want.Data[at] == got[at] {
		at++
	}
	return tileProblem("%s differs from the entries at byte %d", want.Path, at)
}

func tileProblem(format string, args ...any) *Problem {
	return &Problem{Index: -1, Kind: "tile", Detail: fmt.Sprintf(format, args...), Name: refusal.TileMismatch}
}

// RootAt computes the root that a tree had when it was smaller, from its
// published tiles, which are verified against the root that it has now. A
// reader who remembers the smaller root can tell whether the tree still begins
// with it. Read fetches a tile by its path.
func RootAt(now TreeHead, size int64, read func(path string) ([]byte, error)) (tlog.Hash, error) {
	hashes := tlog.TileHashReader(tlog.Tree{N: now.Size, Hash: now.Root}, tileFetcher(read))
	return tlog.TreeHash(size, hashes)
}

// A tileFetcher reads tiles by their path.
type tileFetcher func(path string) ([]byte, error)

// Height is that of tlog-tiles.
func (tileFetcher) Height() int { return tileHeight }

// ReadTiles fetches tiles. A full one is also good for the part of it.
func (f tileFetcher) ReadTiles(tiles []tlog.Tile) ([][]byte, error) {
	var out [][]byte
	for _, t := range tiles {
		data, err := f(tilePath(fmt.Sprint(t.L), t.N, t.W))
		if err != nil && t.W < tileWidth {
			if data, err = f(tilePath(fmt.Sprint(t.L), t.N, tileWidth)); err == nil && len(data) > t.W*tlog.HashSize {
				data = data[:t.W*tlog.HashSize]
			}
		}
		if err != nil {
			return nil, err
		}
		out = append(out, data)
	}
	return out, nil
}

// SaveTiles keeps nothing.
func (tileFetcher) SaveTiles([]tlog.Tile, [][]byte) {}
