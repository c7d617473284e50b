package registry

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/sequencer"
	"tallystick/internal/record/store"
	"tallystick/internal/share/attest"
)

func policyOf(t testing.TB, vkey string) ledger.Policy {
	t.Helper()
	origin, pub, err := seal.ParseLogKey(vkey)
	if err != nil {
		t.Fatal(err)
	}
	return ledger.Policy{Logs: []ledger.LogKey{{Origin: origin, Key: pub}}}
}

// requireSealedBy wants the checkpoint and a receipt of entry 0 to verify with one
// key and not with another.
func (w *world) requireSealedBy(now, before string) {
	w.t.Helper()
	checkpoint := must[[]byte](w.t)(w.Checkpoint(ctx))
	receipt := must[*Receipt](w.t)(w.Receipt(ctx, 1))
	for vkey, want := range map[string]bool{now: true, before: false} {
		if _, err := ledger.VerifyCheckpoint(checkpoint, policyOf(w.t, vkey)); (err == nil) != want {
			w.t.Errorf("the checkpoint by %s: %v", vkey, err)
		}
		if _, err := ledger.VerifyReceipt(receipt.File, receipt.Entry, policyOf(w.t, vkey)); (err == nil) != want {
			w.t.Errorf("a receipt by %s: %v", vkey, err)
		}
	}
	if config := must[*Public](w.t)(w.Config(ctx)); config.LogKey != now {
		w.t.Errorf("the registry says %s, want %s", config.LogKey, now)
	}
}

func TestTheOperatorsKeyRotates(t *testing.T) {
	w := newWorld(t, nil)
	a := w.register()
	w.publishPaths(a)
	minted := must[*Minted](t)(w.Mint(ctx, a.Agent, []byte(`{"kind":"eval.run.attestation.v1","body":`+attestation(t, "did:web:x.example", 0.5)+`}`), ""))
	first := must[*Public](t)(w.Config(ctx)).LogKey
	oldCheckpoint, oldReceipt := must[[]byte](t)(w.Checkpoint(ctx)), must[*Receipt](t)(w.Receipt(ctx, 1))
	stolen := must[*seal.Key](t)(loadOperator(w.dir))

	second := must[string](t)(w.RotateKey(ctx, OperatorPurpose))
	if second == first {
		t.Fatal("the key is the same")
	}
	// Before anything else is appended the checkpoint is the new key's.
	w.requireSealedBy(second, first)
	changed := must[*Public](t)(w.Config(ctx)).Entries - 1
	w.propose(a, Eval, evalBody(0.5))
	w.requireSealedBy(second, first)
	w.reopen()
	w.requireSealedBy(second, first)
	w.propose(a, Eval, evalBody(0.6))

	// What the first key sealed verifies with it, and it is published as former.
	if _, err := ledger.VerifyCheckpoint(oldCheckpoint, policyOf(t, first)); err != nil {
		t.Error(err)
	}
	if _, err := ledger.VerifyReceipt(oldReceipt.File, oldReceipt.Entry, policyOf(t, first)); err != nil {
		t.Error(err)
	}
	former := must[*Public](t)(w.Config(ctx)).FormerLogKeys
	if len(former) != 1 || former[0].Key != first || former[0].Until != changed {
		t.Errorf("former keys %+v, want %s until entry %d", former, first, changed)
	}
	if _, err := attest.Verify(minted.Credential, must[attest.Trust](t)(w.Trust(ctx))); err != nil {
		t.Errorf("a credential from before: %v", err)
	}

	// A second rotation, the index again from the ledger, and the same rows.
	third := must[string](t)(w.RotateKey(ctx, OperatorPurpose))
	w.propose(a, Eval, evalBody(0.7))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	rebuilt := must[*Rebuilt](t)(Rebuild(ctx, w.options()))
	if rebuilt.Before != rebuilt.Digest {
		t.Errorf("the rows were %s and are %s", rebuilt.Before, rebuilt.Digest)
	}
	w.open()
	w.requireSealedBy(third, second)

	// A holder of the first key writes nothing.
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	cfg := sequencerConfig(w.dir, must[string](t)(stateDir("")), w.settings, stolen, w.clock)
	_, err := sequencer.Open(ctx, cfg)
	wantRefusal(t, err, refusal.NotAnOperator)
	w.open()
}

func TestARotationThatWasInterruptedIsFoundAgain(t *testing.T) {
	w := newWorld(t, nil)
	w.register()
	path := operatorKeyPath(w.dir)
	before := must[[]byte](t)(os.ReadFile(path))
	second := must[string](t)(w.RotateKey(ctx, OperatorPurpose))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	// As if it had crashed before the key was put in place.
	writeFile(t, path, string(before))
	w.open()
	w.register()
	if got := must[*Public](t)(w.Config(ctx)).LogKey; got != second {
		t.Errorf("%s seals, want %s", got, second)
	}
	if string(must[[]byte](t)(os.ReadFile(path))) == string(before) {
		t.Error("the key in use was not put in place")
	}

	// A key that was made, and whose change is not in the ledger, changes nothing.
	if _, err := newSigningKey(w.dir); err != nil {
		t.Fatal(err)
	}
	w.reopen()
	if got := must[*Public](t)(w.Config(ctx)).LogKey; got != second {
		t.Errorf("%s seals, want %s", got, second)
	}

	// Without its private half nothing is written.
	_, pub, err := seal.ParseLogKey(second)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	own := keyPath(w.dir, seal.Multikey(pub))
	kept := must[[]byte](t)(os.ReadFile(own))
	if err := (store.OS{}).Remove(own); err != nil {
		t.Fatal(err)
	}
	writeFile(t, path, string(before))
	_, err = Open(context.Background(), w.options())
	wantRefusal(t, err, refusal.NotAnOperator)
	writeFile(t, filepath.Join(w.dir, "keys", filepath.Base(own)), string(kept))
	w.open()
}

func TestProposalsGoOnWhileTheOperatorsKeyRotates(t *testing.T) {
	w := newWorld(t, nil)
	a := w.register()
	w.publishPaths(a)
	done := make(chan error, 1)
	go func() {
		for range 3 {
			if _, err := w.RotateKey(ctx, OperatorPurpose); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for i := range 30 {
		w.propose(a, Eval, evalBody(float64(i)/100))
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	w.tick() // publishes an anchor
	w.reopen()
	if former := must[*Public](t)(w.Config(ctx)).FormerLogKeys; len(former) != 3 {
		t.Errorf("%d former keys", len(former))
	}
}
