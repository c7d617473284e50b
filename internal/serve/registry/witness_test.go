package registry

import (
	"crypto/rand"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"tallystick/internal/record/cosign"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/workspace"
	"tallystick/internal/serve/registry/recompute"
)

func TestADrawWaitsForItsWitnesses(t *testing.T) {
	j := newJudged(t, 4, nil)
	name, pub, err := seal.ParseLogKey(must[*Public](t)(j.Config(t.Context())).LogKey)
	if err != nil {
		t.Fatal(err)
	}
	logs := []ledger.LogKey{{Origin: name, Key: pub}}
	witness := must[*cosign.Server](t)(cosign.OpenServer(ctx, cosign.ServerConfig{
		Dir: t.TempDir(), Key: must[*seal.Key](t)(seal.NewKey(rand.Reader)), Name: "witness.example", Logs: logs, Now: j.clock,
		Conflicts: func(cosign.Conflict) {}, Errors: func(err error) { t.Error(err) },
	}))
	t.Cleanup(func() { witness.Close() })
	var away atomic.Bool
	away.Store(true)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if away.Load() {
			http.Error(w, "away", http.StatusServiceUnavailable)
			return
		}
		witness.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	s := j.settings
	s.Witnesses, s.WitnessQuorum = []workspace.Witness{{URL: server.URL, Key: witness.VKey()}}, 1
	writeFile(t, j.dir+"/registry.yaml", string(s.format()))
	j.reopen()

	p := j.propose(j.author, Eval, evalBody(0.7))
	j.tick()
	if got := must[*Proposal](t)(j.Proposal(ctx, p.ID)); got.Judges.Drawn != 0 {
		t.Fatalf("drawn without the witness: %+v", got.Judges)
	}
	size := j.Stats().Entries
	j.tick() // too soon to ask again
	if grown := j.Stats().Entries - size; grown != 0 {
		t.Errorf("%d entries were made while waiting", grown)
	}
	away.Store(false)
	j.pass(2 * time.Minute)
	j.tick()
	got := must[*Proposal](t)(j.Proposal(ctx, p.ID))
	if got.Judges.Drawn != 3 {
		t.Fatalf("the witness is back: %+v", got.Judges)
	}
	// The checkpoint lies there for everybody to check.
	var d *evidence.RegistryDrawn
	for i := p.Entry; d == nil; i++ {
		_, body, err := evidence.DecodeEntry(must[[][]byte](t)(j.Entries(ctx, i, 1))[0])
		if err != nil {
			t.Fatal(err)
		}
		d, _ = body.(*evidence.RegistryDrawn)
	}
	if !d.Witnessed || d.Checkpoint == nil {
		t.Fatalf("%+v", d)
	}
	verifier := must[note.Verifier](t)(seal.CosignatureVerifier(witness.VKey()))
	c := must[*ledger.Checkpoint](t)(ledger.VerifyCheckpoint(must[[]byte](t)(j.Blob(ctx, *d.Checkpoint)), ledger.Policy{Logs: logs, Witnesses: []note.Verifier{verifier}, Quorum: 1}))
	root := must[tlog.Hash](t)(j.log.root(d.Size))
	if c.Size != d.Size || c.Root != root || !slices.Equal(recompute.Draw(root, d.Content, []string{"person0", "person1", "person2", "person3"}, 3), d.Judges) {
		t.Errorf("the draw is not that of its checkpoint: %+v", d)
	}
}
