package cli

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"tallystick/internal/read/dossier"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/sequencer"
)

// initWithPeople makes a workspace whose signers are alice and bob, who are not
// the examples that "tally init" makes: what examples sign counts for nothing.
// Their keys lie where those of the examples would.
func initWithPeople(t *testing.T, dir string, tally func(args ...string), more ...string) {
	t.Helper()
	keys := filepath.Join(dir, ".tally", "keys")
	if err := os.MkdirAll(keys, 0o700); err != nil {
		t.Fatal(err)
	}
	var entries []seal.Entry
	for _, p := range []struct {
		file, name string
		roles      []seal.Role
	}{{"operator", "operator@local", []seal.Role{seal.Operator}}, {"example-alice", "alice", []seal.Role{seal.Curator}},
		{"example-bob", "bob", []seal.Role{seal.Curator, seal.Security}}} {
		key, err := seal.NewKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		pem, err := key.MarshalPEM(p.name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(keys, p.file), pem, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(keys, p.file+".pub"), []byte(key.Public().String()+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		entries = append(entries, seal.Entry{Principals: p.name, Key: key.Public(), Roles: p.roles})
	}
	signers, err := seal.Compose(1, digest.ID{}, entries)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "allowed_signers")
	if err := os.WriteFile(file, signers, 0o644); err != nil {
		t.Fatal(err)
	}
	tally(append([]string{"init", dir, "--signers", file}, more...)...)
}

// TestSignedWitnessesDecide: two people signed for a witness. An operator who puts a
// witness of his own, under the same name, into tally.yaml gets nothing by it;
// asking for more there still works.
func TestSignedWitnessesDecide(t *testing.T) {
	p := newScoredPlace(t)
	settings := filepath.Join(p.dir, "tally.yaml")
	plain, err := os.ReadFile(settings)
	if err != nil {
		t.Fatal(err)
	}
	witness := func(seed byte) (*seal.Key, string) {
		key, err := seal.NewKey(bytes.NewReader(bytes.Repeat([]byte{seed}, 32)))
		if err != nil {
			t.Fatal(err)
		}
		pub, _ := key.Public().Ed25519()
		return key, seal.CosignatureVKey(pub, "witness.example")
	}
	trust := func(quorum int, keys ...string) {
		text := append(bytes.Clone(plain), "witnesses:\n"...)
		for _, key := range keys {
			text = fmt.Appendf(text, "  - url: http://127.0.0.1:1\n    key: %s\n", key)
		}
		if err := os.WriteFile(settings, fmt.Appendf(text, "quorum: %d\n", quorum), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	number := 0
	attempt := func(witness *seal.Key) string {
		number++
		return p.attemptThen("agent", number, "bench", func(l *sequencer.Ledger, w *dossier.Place) {
			pub, err := l.PublishAnchor(context.Background(), []sequencer.Cosigner{testCosigner{witness}})
			if err != nil {
				t.Fatal(err)
			}
			if err := w.KeepCheckpoint(pub); err != nil {
				t.Fatal(err)
			}
		}, 1)
	}
	level := func(id string) any { return p.answer("scorecard", id, "--no-evidence")["level"] }
	honest, honestKey := witness(9)
	forger, forgerKey := witness(7)

	trust(1, honestKey)
	p.pinWitnesses()
	seen := attempt(honest)
	trust(1, forgerKey)
	unseen := attempt(forger)
	if got := level(unseen); got != "signed" {
		t.Errorf("cosigned by a witness that no person signed for: %v", got)
	}
	if got := level(seen); got != "signed" { // the settings ask for one of theirs besides
		t.Errorf("not cosigned by the witness of the settings: %v", got)
	}
	for name, write := range map[string]func(){
		"the settings name it": func() { trust(1, honestKey) },
		"the settings name no witness": func() {
			if err := os.WriteFile(settings, plain, 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"the settings name two and ask for none": func() { trust(0, honestKey, forgerKey) },
	} {
		write()
		if got := level(seen); got != "witnessed" {
			t.Errorf("%s: %v", name, got)
		}
		if got := level(unseen); got != "signed" {
			t.Errorf("%s: the forger's is %v", name, got)
		}
	}
	trust(2, honestKey, forgerKey)
	if got := level(seen); got != "signed" {
		t.Errorf("one of two that the settings ask for: %v", got)
	}
}
