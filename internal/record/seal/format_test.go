package seal

import (
	"bytes"
	"crypto/ed25519"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tallystick/internal/record/digest"
)

// formatExample reads the worked example of docs/formats/signers.md: the
// fenced blocks by the word after "text".
func formatExample(t *testing.T) map[string]string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "formats", "signers.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := map[string]string{}
	for _, part := range strings.Split(string(data), "\n```text ")[1:] {
		name, rest, _ := strings.Cut(part, "\n")
		body, _, ok := strings.Cut(rest, "```")
		if _, twice := blocks[name]; twice || !ok {
			t.Fatalf("block %q is there twice or not closed", name)
		}
		blocks[name] = body
	}
	return blocks
}

// exampleKey is the key whose seed is one byte 32 times.
func exampleKey(t *testing.T, seed byte) *Key {
	t.Helper()
	k, err := NewKey(bytes.NewReader(bytes.Repeat([]byte{seed}, 32)))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// TestFormatExampleIsReal makes every byte of the worked example again. The
// example is a promise about the format: if this test fails, the code is
// wrong, not the document.
func TestFormatExampleIsReal(t *testing.T) {
	doc := formatExample(t)
	alice, bob, carol := exampleKey(t, 1), exampleKey(t, 2), exampleKey(t, 3)
	sign := func(k *Key, ns Namespace, message string) string {
		return string(mustSign(t, k.Signer(), ns, []byte(message)))
	}

	v1 := "# tallystick-signers/1-draft\n# version: 1\n" +
		"alice@example.org " + alice.Public().String() + " roles=curator\n" +
		"bob@example.org namespaces=\"tallystick-*\",valid-after=\"20260101Z\" " + bob.Public().String() + " roles=security,operator\n"
	pin := digest.IDOf([]byte(v1))
	const act = "worked example\n"
	sigs := sign(alice, NamespaceCase, act) + sign(bob, NamespaceCase, act)
	v2 := "# tallystick-signers/1-draft\n# version: 2\n# previous: " + pin.String() + "\n" +
		strings.SplitAfterN(v1, "\n", 3)[2] +
		"carol@example.org " + carol.Public().String() + " roles=curator\n"
	v2sigs := sign(alice, NamespaceSigners, v2) + sign(bob, NamespaceSigners, v2)

	blob, err := unarmor(sign(alice, NamespaceCase, act))
	if err != nil {
		t.Fatal(err)
	}
	pub := bob.Ed25519().Public().(ed25519.PublicKey)
	for name, want := range map[string]string{
		"allowed_signers-1":     v1,
		"pin":                   pin.String() + "\n",
		"act":                   act,
		"act.sig":               sigs,
		"blob":                  hexLines(blob),
		"signed":                hexLines(signedData(string(NamespaceCase), "", "sha512", sum512([]byte(act)))),
		"allowed_signers-2":     v2,
		"allowed_signers-2.sig": v2sigs,
		"vkeys":                 VKey(pub, "ledger.example/a") + "\n" + CosignatureVKey(pub, "ledger.example/a") + "\n",
	} {
		if doc[name] != want {
			t.Errorf("block %s is\n%s\nexpected\n%s", name, doc[name], want)
		}
	}

	// And the documented bytes do what the text says they do.
	root, err := Root("allowed_signers", []byte(doc["allowed_signers-1"]), pin)
	if err != nil {
		t.Fatal(err)
	}
	split, err := SplitArmored([]byte(doc["act.sig"]))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := root.VerifyQuorum(split, []byte(doc["act"]), NamespaceCase, noon, Rule{People: 2, Roles: []Role{Security}}); err != nil {
		t.Error(err)
	}
	split, err = SplitArmored([]byte(doc["allowed_signers-2.sig"]))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Extend(root, []byte(doc["allowed_signers-2"]), split, noon); err != nil {
		t.Error(err)
	}
}

func hexLines(data []byte) string {
	var b strings.Builder
	for len(data) > 0 {
		n := min(32, len(data))
		fmt.Fprintf(&b, "%s\n", hex.EncodeToString(data[:n]))
		data = data[n:]
	}
	return b.String()
}
