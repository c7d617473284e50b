package verify

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
)

// Two verifiers, of which one was written from the format pages alone, agree on every
// way in which a ledger can be cut short: what the segments still prove by themselves,
// and what the checkpoint and the anchors beside them refuse.
func TestBothVerifiersAgreeOnTruncation(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not in PATH; docs/formats/verify.py is not tried")
	}
	script, err := filepath.Abs("../../../docs/formats/verify.py")
	if err != nil {
		t.Fatal(err)
	}
	golden := "../../../cmd/tally/testdata/golden/1-draft/workspace"
	const segment = ".tally/ledger/segments/0000000000000000.log"
	whole, err := os.ReadFile(filepath.Join(golden, segment))
	if err != nil {
		t.Fatal(err)
	}
	signers := firstSigners(t, whole)
	seals := regexp.MustCompile(`(?m)^[0-9a-f]{16} ~[0-9]+ .*\n`).FindAllIndex(whole, -1)
	if len(seals) < 6 {
		t.Fatalf("the golden ledger has %d seals", len(seals))
	}
	last := seals[len(seals)-1]

	cuts := map[string]int{
		"nothing": len(whole), "missing newline": len(whole) - 1, "mid-seal": last[0] + 40, "missing seal": last[0], "mid-line": last[0] - 10,
		"missing newline of an entry": last[0] - 1, "the last batch": seals[len(seals)-2][1], "into the last batch": seals[len(seals)-2][1] + 20,
		"everything": 0, "all but half a line": 100, "all but an entry without its seal": seals[0][0],
	}
	for i := range 4 { // boundaries from the beginning on
		cuts[fmt.Sprintf("after batch %d", i+1)] = seals[i][1]
		cuts[fmt.Sprintf("within batch %d", i+2)] = seals[i][1] + 1
	}
	for _, beside := range []struct {
		name   string
		remove []string
	}{
		{"with checkpoint and anchors", nil},
		{"with the checkpoint only", []string{"audit/anchors"}},
		{"with anchors only", []string{".tally/ledger/tiles"}},
		{"with tiles and no checkpoint", []string{".tally/ledger/tiles/checkpoint", "audit/anchors"}},
		{"with neither", []string{".tally/ledger/tiles", "audit/anchors"}},
	} {
		for name, cut := range cuts {
			if cut > seals[4][1] && beside.remove != nil {
				continue // seconds in Python, for what the others show
			}
			t.Run(beside.name+", "+name, func(t *testing.T) {
				t.Parallel()
				ws := t.TempDir()
				for _, part := range []string{".tally/ledger", "audit"} {
					if err := os.CopyFS(filepath.Join(ws, part), os.DirFS(filepath.Join(golden, part))); err != nil {
						t.Fatal(err)
					}
				}
				for _, gone := range beside.remove {
					if err := os.RemoveAll(filepath.Join(ws, gone)); err != nil {
						t.Fatal(err)
					}
				}
				for name, data := range map[string][]byte{segment: whole[:cut], "signers-1": signers} {
					if err := os.WriteFile(filepath.Join(ws, name), data, 0o600); err != nil {
						t.Fatal(err)
					}
				}
				item := Path(ws, Trust{Root: digest.IDOf(signers)})
				want := 0
				if item.Err() != nil {
					want = refusal.ExitCode(item.Err())
				}
				out, err := exec.Command(python, "-I", "-B", script, "ledger", "--signers", filepath.Join(ws, "signers-1"), ws).CombinedOutput()
				code := 0
				if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
					code = exit.ExitCode()
				} else if err != nil {
					t.Fatal(err)
				}
				if (code == 0) != (want == 0) || (code == 3) != (want == 3) {
					t.Errorf("verify.py ends with %d (%s), tally-verify with %d (%s)", code, bytes.TrimSpace(out), want, item.Detail)
				}
				if cut < seals[4][1] && beside.name != "with neither" && want != 3 {
					t.Errorf("a ledger that was cut to %d bytes verifies", cut)
				}
			})
		}
	}
}

// firstSigners is version 1 of the signers file, which entry 0 states.
func firstSigners(t *testing.T, log []byte) []byte {
	t.Helper()
	var entry struct {
		Body struct {
			Signers string `json:"signers"`
		} `json:"body"`
	}
	line, _, _ := bytes.Cut(log, []byte("\n"))
	if err := json.Unmarshal(line[17:], &entry); err != nil {
		t.Fatal(err)
	}
	return []byte(entry.Body.Signers)
}
