package ledger

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"golang.org/x/mod/sumdb/tlog"

	"tallystick/internal/digest"
	"tallystick/internal/refusal"
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
	prev   []digest.ID
	cont   []digest.Content
}

// Add notes the next entry.
func (l *Leaves) Add(p Position) {
	l.prev = append(l.prev, p.Prev)
	l.cont = append(l.cont, p.Content)
}

// Tiles returns the tiles of a tree of newSize that a tree of oldSize did not
// have, entry bundles included.
func Tiles(tree *Tree, leaves *Leaves, oldSize, newSize int64) ([]Tile, error) {
	var out []Tile
	for _, t := range tlog.NewTiles(tileHeight, oldSize, newSize) {
		data, err := tlog.ReadTileData(t, tree)
		if err != nil {
			return nil, fmt.Errorf("tile %s: %w", t.Path(), err)
		}
		out = append(out, Tile{Path: tilePath(fmt.Sprint(t.L), t.N, t.W), Data: data})
		if t.L == 0 {
			out = append(out, Tile{Path: tilePath("entries", t.N, t.W), Data: leaves.bundle(t.N*tileWidth, t.W)})
		}
	}
	return out, nil
}

// bundle is the entry bundle of the leaves from first on: each with its length
// in two bytes before it.
func (l *Leaves) bundle(first int64, n int) []byte {
	var out []byte
	for i := first; i < first+int64(n); i++ {
		leaf := AppendLeaf(nil, l.Origin, i, l.prev[i], l.cont[i])
		out = binary.BigEndian.AppendUint16(out, uint16(len(leaf)))
		out = append(out, leaf...)
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
// which entry the two part.
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
