package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tallystick/internal/cli"
)

// The stranger has to believe every module and package in this program, so
// each one is here for a reason.
var (
	trustedModules = map[string]string{
		"github.com/go-json-experiment/json": "strict JSON, which canon stands on",
		"github.com/hiddeco/sshsig":          "SSH signatures of anchors and signers",
		"github.com/klauspost/cpuid/v2":      "chooses BLAKE3's code for this processor",
		"github.com/zeebo/blake3":            "names the content of entries",
		"golang.org/x/crypto":                "SSH keys and certificates",
		"golang.org/x/mod":                   "the tree, its proofs, and signed notes",
		"golang.org/x/sys":                   "locks and processor features",
		"golang.org/x/text":                  "the one spelling of look-alike letters that the audit of a submission compares",
	}
	trustedPackages = map[string]string{
		"internal/record/canon":     "reads documents in their one spelling",
		"internal/record/digest":    "names bytes by their hash",
		"internal/record/evidence":  "knows the form of every record",
		"internal/record/format":    "tells a newer format from a broken one",
		"internal/record/ledger":    "verifies chain, tree, checkpoints and receipts",
		"internal/record/plain":     "keeps a file's text from steering the terminal",
		"internal/record/refusal":   "names what is refused, and the exit codes",
		"internal/share/attest":     "verifies credentials; pure",
		"internal/record/seal":      "verifies signatures",
		"internal/record/sequencer": "knows where the files of a ledger are",
		"internal/record/store":     "reads files within bounds",
		"internal/share/verify":     "recognises what is given and verifies it",
		"internal/read/bundle":      "parses and verifies bundles; pure",

		// A submission is derived again, its audit report among the rest.
		"internal/read/submittable":       "says whether an attempt may be submitted; pure",
		"internal/read/audit":             "makes the audit report of a submission again; pure",
		"internal/read/program":           "reads the programs that decide a score, for the audit; pure",
		"internal/read/step":              "the schema of a step in trajectories.jsonl; pure",
		"internal/run/sight":              "finds an answer in a text, in any spelling; pure",
		"internal/record/jsonvalue":       "reads JSON values one after the other; pure",
		"internal/record/openpgp":         "reads one key and one detached signature of a person; pure",
		"internal/share/browser":          "how a value of an entry becomes text on a page, and the page's scripts; pure",
		"internal/share/browser/report":   "renders a report again to compare it byte for byte; pure",
		"internal/share/browser/site":     "compares the files of a site with its signed manifest, and verifies its receipts; pure",
		"internal/read/audit/disposition": "what a person signed about a finding; pure",
		"internal/record/sequential":      "the arithmetic by which an attempt stops early, decided again from its records; pure",
		"internal/record/cost":            "what calls cost, and how much of it is not known; pure",
		"internal/run/vantage":            "the table of what can be seen of a run, which a submission names; pure",
		"internal/share/submission":       "derives every file of a submission from its receipts; pure",
	}
)

// maxBinaryBytes is what a person downloads to check a receipt.
const maxBinaryBytes = 10 << 20

// TestTrustedPackagesAreFew reads the imports of every file that this program
// is made of. It reads them itself, and not with "go list", so that the test
// cache notices a change.
func TestTrustedPackagesAreFew(t *testing.T) {
	root := filepath.Join("..", "..")
	seen := make(map[string]bool)
	queue := []string{"cmd/tally-verify"}
	for len(queue) > 0 {
		dir := queue[0]
		queue = queue[1:]
		for _, path := range importsOf(t, filepath.Join(root, filepath.FromSlash(dir))) {
			switch path {
			case "net/http", "os/exec", "net":
				if dir != "internal/record/seal" || path != "net" { // seal speaks to the SSH agent when it signs
					t.Errorf("%s imports %s: a verifier reads files and nothing else", dir, path)
				}
			}
			ours, ok := strings.CutPrefix(path, "tallystick/")
			if !ok || seen[ours] {
				continue
			}
			seen[ours] = true
			queue = append(queue, ours)
			if trustedPackages[ours] == "" {
				t.Errorf("%s imports %s, which no stranger has a reason to trust", dir, ours)
			}
		}
	}
	for name := range trustedPackages {
		if !seen[name] {
			t.Errorf("%s is listed and not used", name)
		}
	}
}

func importsOf(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: no Go files (%v)", dir, err)
	}
	var imports []string
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, data, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range f.Imports {
			path, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			imports = append(imports, path)
		}
	}
	return imports
}

// TestBinaryIsSmallAndOpensNoSocket builds the program as it is released and
// has it verify one of everything.
func TestBinaryIsSmallAndOpensNoSocket(t *testing.T) {
	binary := build(t)

	st, err := os.Stat(binary)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes", st.Size())
	if st.Size() > maxBinaryBytes {
		t.Errorf("the program has %d bytes, want at most %d", st.Size(), maxBinaryBytes)
	}

	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range info.Deps {
		if trustedModules[m.Path] == "" {
			t.Errorf("module %s is linked, which no stranger has a reason to trust", m.Path)
		}
	}
	t.Logf("%d modules", len(info.Deps))

	args := workspaceToVerify(t)
	t.Run("without a network", func(t *testing.T) {
		if err := exec.Command("unshare", "-rn", "true").Run(); err != nil {
			t.Skipf("no empty network here: %v", err)
		}
		verified(t, exec.Command("unshare", append([]string{"-rn", binary}, args...)...))
	})
	t.Run("no socket", func(t *testing.T) {
		trace := filepath.Join(t.TempDir(), "trace")
		strace := []string{"-f", "-qq", "-e", "trace=network", "-o", trace}
		if err := exec.Command("strace", append(strace, "true")...).Run(); err != nil {
			t.Skipf("no strace here: %v", err)
		}
		verified(t, exec.Command("strace", append(append(strace, binary), args...)...))
		calls, err := os.ReadFile(trace)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(calls)) {
			if strings.Contains(line, "(") && !strings.Contains(line, "+++") {
				t.Errorf("the verifier uses the network: %s", line)
			}
		}
	})
}

func build(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "tally-verify")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", binary, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building tally-verify: %v\n%s", err, out)
	}
	return binary
}

// workspaceToVerify makes a workspace with an anchor and a receipt, and returns
// the arguments that verify all of it.
func workspaceToVerify(t *testing.T) []string {
	t.Helper()
	dir, state := filepath.Join(t.TempDir(), "ws"), t.TempDir()
	tally := func(stdin string, args ...string) []byte {
		t.Helper()
		var out, errs bytes.Buffer
		getenv := func(name string) string {
			if name == "XDG_STATE_HOME" {
				return state
			}
			return ""
		}
		if code := cli.Main(append(args, "--json", "--workspace", dir), strings.NewReader(stdin), &out, &errs, getenv, nil); code != 0 {
			t.Fatalf("tally %s: exit %d\n%s", strings.Join(args, " "), code, errs.Bytes())
		}
		return out.Bytes()
	}
	var made struct {
		VKey string `json:"vkey"`
		Root string `json:"trust_root"`
	}
	if err := json.Unmarshal(tally("", "init", dir), &made); err != nil {
		t.Fatal(err)
	}
	tally(`{"n":1}`, "ledger", "append", "--kind", "note")
	tally("", "ledger", "anchor", "publish")
	receipt := filepath.Join(t.TempDir(), "receipt")
	tally("", "ledger", "prove", "1", "-o", receipt)
	anchors, err := filepath.Glob(filepath.Join(dir, "audit", "anchors", "*.json"))
	if err != nil || len(anchors) != 1 {
		t.Fatalf("found %q, want one anchor (%v)", anchors, err)
	}
	return []string{"--json", "--key", made.VKey, "--trust-root", made.Root,
		dir, receipt, anchors[0], filepath.Join(dir, ".tally", "ledger", "tiles", "checkpoint")}
}

// verified runs a command and requires that it verified four items.
func verified(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	cmd.Stderr = io.Discard
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	var answer struct {
		Items []struct {
			Type     string
			Verified bool
		}
	}
	if err := json.Unmarshal(out, &answer); err != nil {
		t.Fatal(err)
	}
	var types []string
	for _, i := range answer.Items {
		if i.Verified {
			types = append(types, i.Type)
		}
	}
	if want := []string{"ledger", "receipt", "anchor", "checkpoint"}; !slices.Equal(types, want) {
		t.Errorf("verified %q, want %q", types, want)
	}
}
