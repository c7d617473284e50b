package tessera

import (
	"context"
	"net/url"
	"os"
	"testing"

	"github.com/transparency-dev/tessera/client"
	"github.com/transparency-dev/tessera/fsck"
	"golang.org/x/mod/sumdb/note"
)

// TestTesseraReadsOurTilesFromABucket: what "tally ledger anchor publish" stores in a bucket
// is a log over HTTP. internal/testing/storetest starts the store and this test.
func TestTesseraReadsOurTilesFromABucket(t *testing.T) {
	address, key := os.Getenv("TALLY_TILES_URL"), os.Getenv("TALLY_TILES_KEY")
	if address == "" {
		t.Skip("TALLY_TILES_URL names no bucket: .ci/conformance s3 does")
	}
	ctx := context.Background()
	v, err := note.NewVerifier(key)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	tiles, err := client.NewHTTPFetcher(u, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, _, _, err := client.FetchCheckpoint(ctx, tiles.ReadCheckpoint, v, v.Name())
	if err != nil {
		t.Fatal(err)
	}
	if err := fsck.New(v.Name(), v, tiles, leafHashes, fsck.Opts{N: 2}).Check(ctx); err != nil {
		t.Fatalf("fsck: %v", err)
	}
	t.Logf("fsck of %d entries over HTTP", c.Size)
}
