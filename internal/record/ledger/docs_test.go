package ledger

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"tallystick/internal/record/seal"
)

// example finds a fenced block that a comment says is a file, or some lines of
// one.
var example = regexp.MustCompile("<!-- (testdata/\\S+)(?: lines (\\d+)-(\\d+))? -->\n```text\n((?s:.*?))\n```\n")

// TestFormatPagesShowTheRealBytes compares the examples in docs/formats with
// the format goldens, so that the author of a second verifier can try it on
// what the pages show.
func TestFormatPagesShowTheRealBytes(t *testing.T) {
	for page, want := range map[string]int{"ledger.md": 1, "receipt.md": 1, "anchor.md": 1} {
		text := formatPage(t, page)
		found := example.FindAllStringSubmatch(text, -1)
		if len(found) != want {
			t.Errorf("%s has %d examples, want %d", page, len(found), want)
		}
		for _, m := range found {
			data, err := os.ReadFile(filepath.FromSlash(m[1]))
			if err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
			if m[2] != "" {
				first, _ := strconv.Atoi(m[2])
				last, _ := strconv.Atoi(m[3])
				lines = lines[first-1 : last]
			}
			if got := strings.Join(lines, "\n"); got != m[4] {
				t.Errorf("%s does not show %s as it is", page, m[0][:40])
			}
		}
	}
}

// TestLedgerPageComputesEntry3 computes what the page says about entry 3.
func TestLedgerPageComputesEntry3(t *testing.T) {
	text := formatPage(t, "ledger.md")
	receipt, _, _, p := proofs(t)
	r, err := ParseReceipt(receipt)
	if err != nil {
		t.Fatal(err)
	}
	leaf := AppendLeaf(nil, testOrigin, r.Index, r.Prev, r.Content)
	hash := tlog.RecordHash(leaf)
	head := nextHead(r.Prev, r.Content)
	for _, want := range []string{
		fmt.Sprintf("content  %x\nprev     %x\n", r.Content[:], r.Prev[:]),
		fmt.Sprintf("SHA-256(prev ‖ content) = %x\n", head[:]),
		string(leaf) + "\n" + base64.StdEncoding.EncodeToString(hash[:]) + "\n",
		fmt.Sprintf("%d bytes from the brace on", len(r.Entry)),
	} {
		if !strings.Contains(text, want) {
			t.Errorf("ledger.md lacks %q", want)
		}
	}
	if want := seal.VKey(p.Logs[0].Key, p.Logs[0].Origin); !strings.Contains(formatPage(t, "receipt.md"), want+"\n") {
		t.Errorf("receipt.md lacks the verifier key %q", want)
	}
}

func formatPage(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "formats", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
