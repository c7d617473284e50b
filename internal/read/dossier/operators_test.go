package dossier

import (
	"bytes"
	"os"
	"testing"
)

// The example on the page is a file that is read, and written again byte for
// byte but for the remark at its top.
func TestOperatorsOnThePage(t *testing.T) {
	page, err := os.ReadFile("../../../docs/formats/signers.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := bytes.Cut(page, []byte("```yaml operators.yaml\n"))
	example, _, closed := bytes.Cut(rest, []byte("```\n"))
	if !ok || !closed {
		t.Fatal("the page has no operators.yaml")
	}
	f, err := parseOperators("operators.yaml", example)
	if err != nil {
		t.Fatal(err)
	}
	if written := f.Format(); len(f.Operators) != 1 || !bytes.HasSuffix(written, example) {
		t.Errorf("written again:\n%s", written)
	}
}
