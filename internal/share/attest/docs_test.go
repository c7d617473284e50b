package attest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/seal"
)

// The page shows the bytes of the golden, and what it computes from them.
func TestPageShowsTheRealBytes(t *testing.T) {
	data, err := os.ReadFile("../../../docs/formats/credential.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(data)
	text := golden(t, "credential.json")
	d, err := openDocument(text)
	if err != nil {
		t.Fatal(err)
	}
	config := without(d.proofs[0], "proofValue")
	options, rest := digest.IDOf(config), digest.IDOf(d.rest)
	for _, want := range []string{
		"```json\n" + string(text) + "\n```\n",
		"```json\n" + string(config) + "\n```\n",
		fmt.Sprintf("SHA-256 of the proof without proofValue  %x\n", options[:]),
		fmt.Sprintf("SHA-256 of the document without proof    %x\n", rest[:]),
		fmt.Sprintf("public key                               %x\n", public(testKey(t, issuerKey))),
	} {
		if !strings.Contains(page, want) {
			t.Errorf("docs/formats/credential.md lacks\n%s", want)
		}
	}
	for name := range bodyRules {
		if !strings.Contains(page, "`"+name+"`") {
			t.Errorf("docs/formats/credential.md does not mention %s", name)
		}
	}
}

// TestSecondVerifierAgrees runs docs/formats/verify_credential.py, which was
// written from the page, on the goldens and on forgeries of them.
func TestSecondVerifierAgrees(t *testing.T) {
	run := secondVerifier(t)
	webKey := []string{"--key", webMethod + "=" + seal.Multikey(public(testKey(t, issuerKey)))}
	wrongKey := []string{"--key", webMethod + "=" + seal.Multikey(public(testKey(t, forgerKey)))}
	list := []string{"--status-list", "status-list.json"}
	for _, tt := range []struct {
		name, file, old, new string
		args                 []string
		want                 int
	}{
		{"a credential", "credential.json", "", "", nil, 0},
		{"imported", "imported.json", "", "", nil, 0},
		{"endorsed, with status", "endorsed-with-status.json", "", "", list, 0},
		{"a signed body", "signed-body.json", "", "", nil, 0},
		{"did:web", "web.json", "", "", webKey, 0},
		{"738.0 for 738 and white space", "credential.json", `"temperature":0}`, `"temperature": 0.0 }`, nil, 0},

		{"did:web without a key", "web.json", "", "", nil, 3},
		{"did:web with another key", "web.json", "", "", wrongKey, 3},
		{"without its status list", "endorsed-with-status.json", "", "", nil, 1},
		{"another index", "endorsed-with-status.json", `"statusListIndex":"7"`, `"statusListIndex":"8"`, list, 3},
		{"another score", "credential.json", `"accuracy":0.738`, `"accuracy":0.838`, nil, 3},
		{"another score in a body", "signed-body.json", `"accuracy":0.738`, `"accuracy":0.838`, nil, 3},
		{"imported made observed", "imported.json", `"ImportedNotObserved"`, `"ObservedRun"`, nil, 3},
		{"a context injected", "credential.json", `undefined-terms/v2"],"credentialSubject"`, `undefined-terms/v2","https://evil.example"],"credentialSubject"`, nil, 3},
		{"the dates moved", "credential.json", `"validFrom":"2026-05-12`, `"validFrom":"2026-05-11`, nil, 3},
		{"a name twice", "credential.json", `"issuer":`, `"issuer":"did:web:a.example","issuer":`, nil, 1},
		{"a proof of another suite", "signed-body.json", `"eddsa-jcs-2022"`, `"eddsa-rdfc-2022"`, nil, 3},
		{"cut", "credential.json", `"validFrom":"2026-05-12T08:30:00Z"}`, ``, nil, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for _, name := range []string{tt.file, "status-list.json"} {
				text := golden(t, name)
				if name == tt.file && tt.old != "" {
					text = edit(t, text, tt.old, tt.new)
				}
				if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			run(t, dir, tt.want, append(tt.args, tt.file)...)
		})
	}
}

// secondVerifier returns a function that runs the script in a folder and checks
// its exit code. It skips the test if Python is not there.
func secondVerifier(t *testing.T) func(t *testing.T, dir string, want int, args ...string) {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not in PATH; docs/formats/verify_credential.py is not tried")
	}
	if out, err := exec.Command(python, "-I", "-c", "import sys; assert sys.version_info >= (3, 9), sys.version").CombinedOutput(); err != nil {
		t.Skipf("python3 does not run or is older than 3.9; docs/formats/verify_credential.py is not tried: %v: %s", err, out)
	}
	script, err := filepath.Abs("../../../docs/formats/verify_credential.py")
	if err != nil {
		t.Fatal(err)
	}
	// Reading them here tells the test cache when they change.
	for _, name := range []string{"verify_credential.py", "verify.py"} {
		if _, err := os.ReadFile(filepath.Join(filepath.Dir(script), name)); err != nil {
			t.Fatal(err)
		}
	}
	return func(t *testing.T, dir string, want int, args ...string) {
		t.Helper()
		cmd := exec.Command(python, append([]string{"-I", "-B", script, "--now", "2026-05-12T09:30:00Z"}, args...)...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		code := 0
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			code = exit.ExitCode()
		} else if err != nil {
			t.Fatal(err)
		}
		if code != want || strings.Count(string(out), "\n") != 1 {
			t.Errorf("exit code %d, want %d and one line: %s", code, want, out)
		}
	}
}
