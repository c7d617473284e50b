package ledger

import (
	"slices"
	"strings"
	"testing"
)

// TestTileAtKnowsTheTilesOfEverySmallerTree: whatever was published earlier can
// still be compared.
func TestTileAtKnowsTheTilesOfEverySmallerTree(t *testing.T) {
	tree, leaves := treeOf(t, 70_000) // three levels
	cases := 0
	for _, size := range []int64{1, 2, 255, 256, 257, 511, 512, 65_535, 65_536, 65_537, 70_000} {
		for want, err := range Tiles(tree, leaves, size-1, size) {
			if err != nil {
				t.Fatal(err)
			}
			got, ok := TileAt(tree, leaves, want.Path)
			if !ok || got.Path != want.Path || !slices.Equal(got.Data, want.Data) {
				t.Errorf("%s of a tree of %d: another tile, or none (%v)", want.Path, size, ok)
			}
			cases++
		}
	}
	if cases < 22 {
		t.Errorf("%d tiles", cases)
	}
	for _, path := range []string{
		"", "checkpoint", "tile/", "tile/0", "tile/data/000", "tile/8/0/000", "0/000", "tile/0/000.p/0", "tile/0/000.p/256", "tile/0/000.p/04", "tile/0/0",
		"tile/0/000.p/4.AAAA.tmp", "tile/-1/000", "tile/0/-01", "tile/x/000", "tile/entries/0/000", "tile/0/001/000",
		"tile/0/273.p/113", "tile/0/274", "tile/1/001.p/18", "tile/2/000.p/2", "tile/3/000.p/1",
		"tile/7/000.p/1", "tile/63/000.p/1", "tile/1152921504606846976/000.p/1", "tile/9223372036854775807/000",
		"tile/0/" + strings.Repeat("x999/", 7) + "999", "tile/entries/" + strings.Repeat("x999/", 9) + "999",
	} {
		if tile, ok := TileAt(tree, leaves, path); ok {
			t.Errorf("%q is taken for %s", path, tile.Path)
		}
	}
}
