package gate

import (
	"os"
	"strings"
	"testing"
)

// The page shows the bytes that the writer writes.
func TestPageHasTheReport(t *testing.T) {
	page, err := os.ReadFile("../../../docs/formats/gate.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := "```tap\n" + string(writeTAP(t, plainReport())) + "```\n"; !strings.Contains(string(page), want) {
		t.Errorf("docs/formats/gate.md does not have\n%s", want)
	}
}
