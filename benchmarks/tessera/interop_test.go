package tessera

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
	"github.com/transparency-dev/tessera/api"
	"github.com/transparency-dev/tessera/client"
	"github.com/transparency-dev/tessera/fsck"
	"golang.org/x/mod/sumdb/note"
)

const origin = "example.com/evals"

// workspace is a workspace of the real program, which it builds.
type workspace struct {
	*testing.T
	tally, dir string
}

func newWorkspace(t *testing.T) *workspace {
	t.Helper()
	w := &workspace{T: t, tally: filepath.Join(t.TempDir(), "tally"), dir: t.TempDir()}
	build := exec.Command("go", "build", "-o", w.tally, "./cmd/tally")
	build.Dir, build.Env = filepath.Join("..", ".."), append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building tally: %v\n%s", err, out)
	}
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	w.run(nil, "init", "--origin", origin)
	return w
}

func (w *workspace) run(stdin []byte, args ...string) []byte {
	w.Helper()
	cmd := exec.Command(w.tally, args...)
	cmd.Dir, cmd.Stdin = w.dir, bytes.NewReader(stdin)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		w.Fatalf("tally %v: %v\n%s%s", args, err, out, &stderr)
	}
	return out
}

// grow appends n notes and publishes, and returns the new checkpoint.
func (w *workspace) grow(n int) []byte {
	w.Helper()
	var bodies []byte
	for i := range n {
		bodies = fmt.Appendf(bodies, "{\"n\":%d}\n", i)
	}
	w.run(bodies, "ledger", "append", "--kind", "note")
	w.run(nil, "ledger", "anchor", "publish")
	data, err := w.tiles().ReadCheckpoint(context.Background())
	if err != nil {
		w.Fatal(err)
	}
	return data
}

func (w *workspace) tiles() client.FileFetcher {
	return client.FileFetcher{Root: filepath.Join(w.dir, ".tally", "ledger", "tiles")}
}

// verifier is the operator's key as the program tells it to strangers.
func (w *workspace) verifier() note.Verifier {
	w.Helper()
	var answer struct {
		Key string `json:"key"`
	}
	if err := json.Unmarshal(w.run(nil, "ledger", "prove", "0", "-o", "receipt", "--json"), &answer); err != nil {
		w.Fatal(err)
	}
	v, err := note.NewVerifier(answer.Key)
	if err != nil {
		w.Fatal(err)
	}
	return v
}

// leafHashes reads an entry bundle as tlog-tiles has it.
func leafHashes(bundle []byte) ([][]byte, error) {
	var b api.EntryBundle
	if err := b.UnmarshalText(bundle); err != nil {
		return nil, err
	}
	hashes := make([][]byte, len(b.Entries))
	for i, e := range b.Entries {
		hashes[i] = rfc6962.DefaultHasher.HashLeaf(e)
	}
	return hashes, nil
}

func (w *workspace) fsck(v note.Verifier) error {
	return fsck.New(origin, v, w.tiles(), leafHashes, fsck.Opts{N: 2}).Check(context.Background())
}

// TestTesseraReadsOurTiles: checkpoints and tiles that the program publishes
// are a log to an implementation that is not ours. Its fsck builds the tree
// from the entry bundles again and compares every tile and the root; its client
// follows the log from one checkpoint to the next, and proves entries.
func TestTesseraReadsOurTiles(t *testing.T) {
	ctx := context.Background()
	w := newWorkspace(t)
	// Sizes on both sides of a full tile, and one that fills it exactly.
	checkpoint := w.grow(9)
	v := w.verifier()
	tracker, err := client.NewLogStateTracker(ctx, w.tiles().ReadTile, checkpoint, v, origin, client.UnilateralConsensus(w.tiles().ReadCheckpoint))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{1, 243, 1, 300} {
		if _, err := note.Open(w.grow(n), note.VerifierList(v)); err != nil {
			t.Fatalf("note.Open: %v", err)
		}
		if err := w.fsck(v); err != nil {
			t.Fatalf("fsck: %v", err)
		}
		if _, _, _, err := tracker.Update(ctx); err != nil {
			t.Fatalf("following the log: %v", err)
		}
	}
	c, _, _, err := client.FetchCheckpoint(ctx, w.tiles().ReadCheckpoint, v, origin)
	if err != nil {
		t.Fatal(err)
	}
	builder, err := client.NewProofBuilder(ctx, c.Size, w.tiles().ReadTile)
	if err != nil {
		t.Fatal(err)
	}
	leaves, err := client.FetchLeafHashes(ctx, w.tiles().ReadTile, 0, c.Size, c.Size)
	if err != nil {
		t.Fatal(err)
	}
	for index, leaf := range leaves {
		p, err := builder.InclusionProof(ctx, uint64(index))
		if err == nil {
			err = proof.VerifyInclusion(rfc6962.DefaultHasher, uint64(index), c.Size, leaf, p, c.Hash)
		}
		if err != nil {
			t.Fatalf("entry %d: %v", index, err)
		}
	}
	t.Logf("%d entries, each proven", len(leaves))

	// It would notice.
	for _, name := range []string{"checkpoint", "tile/0/000", "tile/1/000.p/2", "tile/entries/001"} {
		path := filepath.Join(w.tiles().Root, filepath.FromSlash(name))
		good, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		bad := bytes.Clone(good)
		bad[len(bad)/2] ^= 1
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := w.fsck(v); err == nil {
			t.Errorf("fsck accepts a changed %s", name)
		}
		if err := os.WriteFile(path, good, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
