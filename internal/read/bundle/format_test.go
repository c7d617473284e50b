package bundle

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// exampleBundle is the task of the worked example in docs/formats/bundle.md.
func exampleBundle() *Bundle {
	args, result := Hash(sha256.Sum256([]byte("go test ./..."))), Hash(sha256.Sum256([]byte("ok")))
	policy := standardHash(Approved)
	return &Bundle{
		TaskID:     UUID{0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff},
		PolicyHash: policy.Short(),
		CreatedNS:  1700000000000000000,
		Outcome:    Solved,
		Mode:       Approved,
		Spec:       []byte("fix it\n"),
		Diff:       []byte("+ok\n"),
		TestLog:    []byte("tests: 1 passed, 0 failed\n"),
		Trace:      []ToolCall{{Action: "Bash", Check: Confirmed, ArgsHash: args.Short(), ResultHash: result.Short(), LatencyMS: 150, CostMicrodollars: 500, Tokens: 200}},
		Full:       &FullHashes{Policy: policy, Calls: []CallHashes{{args, result}}},
	}
}

// fenced returns the block of the page that begins with ```text name. What
// stands after a semicolon in a line is a remark.
func fenced(t *testing.T, name string) []byte {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "formats", "bundle.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(page), "\n```text "+name+"\n")
	block, _, closed := strings.Cut(rest, "\n```")
	if !ok || !closed {
		t.Fatalf("no block %q", name)
	}
	var hex strings.Builder
	for line := range strings.SplitSeq(block, "\n") {
		digits, _, _ := strings.Cut(line, ";")
		hex.WriteString(digits)
	}
	return unhex(t, hex.String())
}

// The worked example is a promise about the format: if this test fails, the
// code is wrong and not the page.
func TestFormatExampleIsReal(t *testing.T) {
	want := fenced(t, "bundle")
	b := exampleBundle()
	if got := pack(t, b, Seals{HMACKey: e2eKey, Key: testSigner()}); !bytes.Equal(got, want) {
		t.Errorf("packed\n%x, the page says\n%x", got, want)
	}
	v, err := Verify(want, Trust{HMACKey: e2eKey, Signers: []ed25519.PublicKey{testPublic()}})
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(&v.Bundle, b) {
		t.Errorf("the page's bytes say %+v, want %+v", &v.Bundle, b)
	}
	if got := ed25519Message(v.payload, v.ed25519At); !bytes.Equal(got, fenced(t, "message")) {
		t.Errorf("the signature covers %x, which is not what the page says", got)
	}
	if s, err := CheckOutcome(b); err != nil || s.Passed != 1 {
		t.Errorf("%s, %v", s, err)
	}
}
