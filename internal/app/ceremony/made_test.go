package ceremony

import (
	"crypto/ed25519"
	"os"
	"testing"

	"tallystick/internal/record/workspace"
)

// A key that came with a workspace is not this machine's, whatever the workspace says: only
// the state folder of the machine that made it knows it.
func TestOnlyAKeyThatWasMadeHereIsKnown(t *testing.T) {
	p := mustBegin(t)
	operator, err := p.OperatorKey()
	if err != nil {
		t.Fatal(err)
	}
	more, err := NewKey(p, "more")
	if err != nil {
		t.Fatal(err)
	}
	first, _ := operator.Public().Ed25519()
	second, _ := more.Public().Ed25519()
	elsewhere := t.TempDir()
	other := func(name string) string { return map[string]string{"XDG_STATE_HOME": elsewhere}[name] }
	for _, key := range []ed25519.PublicKey{first, second} {
		if !workspace.MadeHere(p.Getenv, key) {
			t.Error("the machine does not know a key that it made")
		}
		if workspace.MadeHere(other, key) {
			t.Error("a machine knows a key that it did not make")
		}
		if workspace.MadeHere(func(string) string { return "" }, key) {
			t.Error("without a state folder a key is known")
		}
	}

	// The memory of one key does not stand for another.
	foreign := mustBegin(t)
	key, err := foreign.OperatorKey()
	if err != nil {
		t.Fatal(err)
	}
	third, _ := key.Public().Ed25519()
	if err := os.CopyFS(elsewhere, os.DirFS(p.Getenv("XDG_STATE_HOME"))); err != nil {
		t.Fatal(err)
	}
	if !workspace.MadeHere(other, first) || workspace.MadeHere(other, third) {
		t.Error("the memory of one key stands for another")
	}
}
