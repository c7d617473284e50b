package ledger

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tallystick/internal/record/canon"
	"tallystick/internal/testing/rules"
)

// verifierKey is that of the operator of testdata/1-draft, as receipt.md gives it.
const verifierKey = "example.com/evals+bfcc5eb5+AYqI4910CfGV/VLbLTy6XXLKZwm/HZQSG/N0iAG0D29c"

// The files of testdata/1-draft that the second verifier reads.
const (
	segmentFile = "segments/0000000000000000.log"
	signersOne  = "signers"
	receiptFile = "entry-3.receipt"
	anchorFile  = "2026-05-12.json"
)

// TestSecondVerifierAgrees runs docs/formats/verify.py, which was written from
// the format pages alone, on the format goldens and on forgeries of them.
func TestSecondVerifierAgrees(t *testing.T) {
	run := secondVerifier(t)
	ledger := []string{"ledger", "--signers", signersOne, "."}
	receipt := []string{"receipt", "--key", verifierKey, receiptFile}
	anchor := []string{"anchor", "--key", verifierKey, anchorFile}
	// operator4's key, which is in the signers file but did not sign these.
	wrongKey := "example.com/evals+b83fdb23+AcqTrBcFGHBx1nuDx/8O/oEI6OxFMFdddyaHkzPb2r58"

	for _, c := range []struct {
		name     string
		args     []string
		file     string // the file that is forged, if any
		old, new string
		want     int
	}{
		{"ledger", ledger, "", "", "", 0},
		{"receipt", receipt, "", "", "", 0},
		{"anchor", anchor, "", "", "", 0},

		{"ledger, an entry edited", ledger, segmentFile, `{"n":4}`, `{"n":5}`, 3},
		{"ledger, entries swapped", ledger, segmentFile, segmentLine(t, 3) + segmentLine(t, 4), segmentLine(t, 4) + segmentLine(t, 3), 3},
		{"ledger, an entry dropped", ledger, segmentFile, segmentLine(t, 4), "", 3},
		{"ledger, a seal of another size", ledger, segmentFile, "~10 ", "~11 ", 3},
		{"ledger, a seal by another key id", ledger, segmentFile, "~10 v8xetT", "~10 v8xetU", 3},
		{"ledger, a change of signers edited", ledger, segmentFile, "roles=operator\\n\",\"version\":2", "roles=security\\n\",\"version\":2", 3},
		{"ledger, cut at a seal: not to be seen from the segments", ledger, segmentFile, segmentLine(t, 13) + segmentLine(t, 14) + segmentLine(t, 15), "", 0},
		{"ledger, other signers named", ledger, signersOne, "roles=curator,security", "roles=curator", 3},

		{"receipt, wrong key", []string{"receipt", "--key", wrongKey, receiptFile}, "", "", "", 3},
		{"receipt, another index", receipt, receiptFile, "index 3", "index 2", 3},
		{"receipt, another size", receipt, receiptFile, "\n10\n", "\n11\n", 3},
		{"receipt, another origin", receipt, receiptFile, "\n\nexample.com/evals\n", "\n\nexample.com/other\n", 3},
		{"receipt, a hash dropped", receipt, receiptFile, "XEMOuC3F6F/MyZWluQph2+49r273gZQj2FzPTU/Src4=\n", "", 3},
		{"receipt, another prev", receipt, receiptFile, "ZjEifQ==", "ZjAifQ==", 3},
		{"receipt, cut", receipt, receiptFile, "bFwOtaQc=\n", "", 1},

		{"anchor, wrong key", []string{"anchor", "--key", wrongKey, anchorFile}, "", "", "", 3},
		{"anchor, another head", anchor, anchorFile, `"sha256:7d31`, `"sha256:7d30`, 3},
		{"anchor, another size", anchor, anchorFile, `"size":10`, `"size":9`, 3},
		{"anchor, not canonical", anchor, anchorFile, `"size":10`, `"size": 10`, 1},
		{"anchor, with signatures of people, which it says it does not read", anchor, anchorFile, `"published_at"`, `"people":["x"],"published_at"`, 0},
		{"anchor, an empty list of people", anchor, anchorFile, `"published_at"`, `"people":[],"published_at"`, 1},

		{"ledger, signers with an OpenPGP key, which it does not read", ledger, signersOne, "# tallystick-signers/1-draft\n# version: 1\n", "# tallystick-signers/1-draft\n# version: 1\n# openpgp-signer: gus AA BB\n", 1},
		{"ledger, signers in a newer format", ledger, signersOne, "# tallystick-signers/1-draft\n", "# tallystick-signers/2\n", 1},
		{"anchor, a newer one", anchor, anchorFile, `"tallystick-anchor/1-draft"`, `"tallystick-anchor/2"`, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for _, name := range []string{segmentFile, signersOne, receiptFile, anchorFile} {
				data := goldenText(t, name)
				if name == c.file {
					if strings.Count(data, c.old) != 1 {
						t.Fatalf("%s has %q %d times, want once", name, c.old, strings.Count(data, c.old))
					}
					data = strings.Replace(data, c.old, c.new, 1)
				}
				path := filepath.Join(dir, filepath.FromSlash(name))
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(data), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			run(t, dir, c.want, c.args...)
		})
	}
}

// TestSecondVerifierCountsPeople: an operator's key lies on a machine, so it is
// no second person, for the stranger's verifier either.
func TestSecondVerifierCountsPeople(t *testing.T) {
	run := secondVerifier(t)
	for _, c := range []struct {
		name string
		by   []byte
		want int
	}{
		{"two curators", []byte{alice, bob}, 0},
		{"one curator and an operator", []byte{alice, olga}, 3},
		{"one curator twice", []byte{alice, alice}, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			items := []item{genesisItem(t)}
			items = append(items, sealItem(t, items, olga), changeItem(t, []byte{olga}, c.by...))
			data := render(append(items, sealItem(t, items, olga)))
			if _, err := Verify(one(data), trust(t)); (err == nil) != (c.want == 0) {
				t.Errorf("Verify says %v", err)
			}
			dir := t.TempDir()
			for name, data := range map[string][]byte{"signers": version1(t), "segments/0000000000000000.log": data} {
				if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755), os.WriteFile(filepath.Join(dir, name), data, 0o644)); err != nil {
					t.Fatal(err)
				}
			}
			run(t, dir, c.want, "ledger", "--signers", "signers", ".")
		})
	}
}

// TestSecondVerifierPassesAllVectors: every example in docs/formats/vectors is
// thought of by the stranger's verifier as its index says. The packages that own
// the formats write the examples, and hold the program to them.
func TestSecondVerifierPassesAllVectors(t *testing.T) {
	run := secondVerifier(t)
	vectors, err := filepath.Abs("../../../docs/formats/vectors")
	if err != nil {
		t.Fatal(err)
	}
	// Reading them here tells the test cache when one changes.
	for _, pattern := range []string{"vectors/*/index.json", "vectors/*/accepted/*", "vectors/*/refused/*", "rules/*.json"} {
		files, err := filepath.Glob(filepath.Join(vectors, "..", filepath.FromSlash(pattern)))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		for _, name := range files {
			if _, err := os.ReadFile(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	run(t, vectors, 0, "vectors", ".")
}

// TestSecondVerifierReadsTheRulesAlike changes the accepted examples in thousands
// of ways. What the rules say of each in Go, which the packages that own the
// formats have compared with the program, they must say in Python.
func TestSecondVerifierReadsTheRulesAlike(t *testing.T) {
	run := secondVerifier(t)
	dir := t.TempDir()
	for _, format := range []string{"records", "events", "bench"} {
		f, err := rules.Load(filepath.Join("../../../docs/formats/rules", format+".json"))
		if err != nil {
			t.Fatal(err)
		}
		vectors := changedVectors(t, f, filepath.Join("../../../docs/formats/vectors", format))
		files, err := rules.Files(rules.Index{}, vectors)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d documents", format, len(vectors))
		for name, data := range files {
			path := filepath.Join(dir, format, filepath.FromSlash(name))
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, data, 0o644)); err != nil {
				t.Fatal(err)
			}
		}
	}
	run(t, dir, 0, "vectors", ".")
}

// changedVectors takes every twenty-third change of each accepted example.
func changedVectors(t *testing.T, f *rules.File, folder string) (vectors []rules.Vector) {
	t.Helper()
	var index rules.Index
	data, err := os.ReadFile(filepath.Join(folder, "index.json"))
	if err == nil {
		err = json.Unmarshal(data, &index)
	}
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, name := range slices.Sorted(maps.Keys(index.Accepted)) {
		doc, err := os.ReadFile(filepath.Join(folder, "accepted", name))
		if err != nil {
			t.Fatal(err)
		}
		as := index.Accepted[name].As
		for _, m := range rules.Mutations(doc, 30) {
			changed, err := canon.Canonicalize(m.Data)
			if n++; n%23 != 0 || err != nil || len(changed) > 8<<10 {
				continue
			}
			v := rules.Vector{Name: fmt.Sprintf("%d.json", n), As: as, Data: append(changed, '\n')}
			if err := f.Check(as, changed); err != nil {
				v.Reason = err.Error()
			}
			vectors = append(vectors, v)
		}
	}
	return vectors
}

// secondVerifier returns a function that runs docs/formats/verify.py in a folder
// and checks its exit code. It skips the test if Python is not there.
func secondVerifier(t *testing.T) func(t *testing.T, dir string, want int, args ...string) {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not in PATH; docs/formats/verify.py is not tried")
	}
	// python3 may be a wrapper that takes its time: ask for the program behind it.
	out, err := exec.Command(python, "-I", "-c", "import sys; assert sys.version_info >= (3, 9), sys.version; print(sys.executable)").CombinedOutput()
	if err != nil {
		t.Skipf("python3 does not run or is older than 3.9; docs/formats/verify.py is not tried: %v: %s", err, out)
	}
	if behind := strings.TrimSpace(string(out)); filepath.IsAbs(behind) {
		python = behind
	}
	script, err := filepath.Abs("../../../docs/formats/verify.py")
	if err != nil {
		t.Fatal(err)
	}
	// Reading it here tells the test cache when it changes.
	if _, err := os.ReadFile(script); err != nil {
		t.Fatal(err)
	}
	return func(t *testing.T, dir string, want int, args ...string) {
		t.Helper()
		cmd := exec.Command(python, append([]string{"-I", "-B", script}, args...)...)
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

// goldenText is a file of testdata/1-draft.
func goldenText(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata/1-draft", filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// segmentLine is one line of the segment, counted from 1, with its newline.
func segmentLine(t *testing.T, n int) string {
	t.Helper()
	return strings.SplitAfter(goldenText(t, segmentFile), "\n")[n-1]
}
