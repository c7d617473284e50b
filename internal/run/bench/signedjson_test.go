package bench

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tallystick/internal/record/refusal"
)

// withJSON signs the manifest again, now with the documents pinned, and writes
// signed.json of the class and the pins, as "tally bench digest" does.
func (f *fixture) withJSON() {
	f.Helper()
	f.must(os.Remove(filepath.Join(f.dir, "bench/greet/manifest.yaml")))
	manifest, _, err := f.load().ComputeNew()
	f.must(err)
	message, err := manifest.Message()
	f.must(err)
	f.write("bench/greet/manifest.yaml", manifest.Format())
	f.write("bench/greet/manifest.yaml.sig", f.signatures(message, []string{"alice", "bob"}))
	f.writeJSON()
}

func (f *fixture) writeJSON() {
	f.Helper()
	data, err := f.load().SignedJSON()
	f.must(err)
	f.write("bench/greet/"+SignedFile, data)
	pins, _, err := LoadPins(f.root)
	f.must(err)
	data, err = pins.SignedJSON()
	f.must(err)
	f.write("bench/"+SignedFile, data)
}

func (f *fixture) editFile(name, old, with string) {
	f.Helper()
	data := string(f.read(name))
	if strings.Count(data, old) == 0 {
		f.Fatalf("%s has no %q", name, old)
	}
	f.write(name, []byte(strings.Replace(data, old, with, 1)))
}

// TestSignedJSONAndYAMLMustAgree changes either side.
func TestSignedJSONAndYAMLMustAgree(t *testing.T) {
	for _, tt := range []struct {
		name  string
		forge func(*fixture)
		want  refusal.Name
		says  string
	}{
		{"honest", func(*fixture) {}, "", ""},
		{"a value in the registration", func(f *fixture) {
			f.editFile("bench/greet/signed.json", `"governance":"restricted"`, `"governance":"autonomous"`)
		}, refusal.ManifestMismatch, "autonomous"},
		{"a value in a case", func(f *fixture) { f.editFile("bench/greet/signed.json", `"difficulty":"hard"`, `"difficulty":"easy"`) }, refusal.ManifestMismatch, "disagree"},
		{"a digest in the manifest", func(f *fixture) {
			f.editFile("bench/greet/signed.json", `"registration":"blake3:`, `"registration":"blake3:0`)
		}, refusal.ManifestMismatch, "disagree"},
		{"a signature", func(f *fixture) {
			f.editFile("bench/greet/signed.json", `-----BEGIN SSH SIGNATURE-----`, `-----BEGIN SSH SIGNATURE-----\n`)
		}, refusal.ManifestMismatch, "disagree"},
		{"a case taken out", func(f *fixture) {
			f.editFile("bench/greet/signed.json", `"cases/hard/case.yaml"`, `"cases/harder/case.yaml"`)
		}, refusal.ManifestMismatch, "disagree"},
		{"white space", func(f *fixture) { f.editFile("bench/greet/signed.json", `{"documents":`, `{ "documents":`) }, refusal.ManifestMismatch, "disagree"},
		{"one more member", func(f *fixture) { f.editFile("bench/greet/signed.json", `"version":1}`, `"version":1,"x":1}`) }, refusal.ManifestMismatch, "disagree"},
		{"no newline", func(f *fixture) { f.editFile("bench/greet/signed.json", "\n", "") }, refusal.ManifestMismatch, "nothing more"},
		{"the file taken away", func(f *fixture) { f.must(os.Remove(filepath.Join(f.dir, "bench/greet/signed.json"))) }, refusal.BenchIncomplete, "there is no signed.json"},
		{"the YAML of the registration", func(f *fixture) { f.editFile("bench/greet/registration.yaml", "restricted", "autonomous") }, refusal.RegistrationDigestMismatch, ""},
		{"the pins", func(f *fixture) { f.editFile("bench/signed.json", `"greet"`, `"great"`) }, refusal.ManifestMismatch, "bench/signed.json"},
		{"the pin of the documents alone", func(f *fixture) {
			f.editFile("bench/greet/manifest.yaml", "documents: \"blake3:", "documents: \"blake3:0")
		}, refusal.Malformed, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t)
			f.withJSON()
			tt.forge(f)
			if tt.want == "" {
				f.accepts()
				return
			}
			f.refuses(tt.want, tt.says)
		})
	}
}

// TestManifestsFromBeforeStayAsTheyAre: a class that people signed before there
// was a signed.json verifies without it and with it, and computing its manifest
// again changes nothing that they signed.
func TestManifestsFromBeforeStayAsTheyAre(t *testing.T) {
	f := newFixture(t)
	f.accepts()
	manifest, _, err := f.load().ComputeNew()
	f.must(err)
	if manifest.Documents != nil || !bytes.Equal(manifest.Format(), f.read("bench/greet/manifest.yaml")) {
		t.Errorf("the manifest would be written anew:\n%s", manifest.Format())
	}
	f.writeJSON()
	f.accepts()
}

// TestSecondVerifierVerifiesABench: a stranger verifies digests and signatures
// of a class with JSON alone.
func TestSecondVerifierVerifiesABench(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not in PATH; docs/formats/verify.py is not tried")
	}
	script, err := filepath.Abs(filepath.Join(formats, "verify.py"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.ReadFile(script); err != nil { // tells the test cache
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name  string
		forge func(*fixture)
		want  int
	}{
		{"honest", func(*fixture) {}, 0},
		{"another registration", func(f *fixture) {
			f.editFile("bench/greet/signed.json", `"governance":"restricted"`, `"governance":"autonomous"`)
		}, 3},
		{"another case", func(f *fixture) { f.editFile("bench/greet/signed.json", `"difficulty":"hard"`, `"difficulty":"easy"`) }, 3},
		{"a file of a case", func(f *fixture) { f.write("bench/greet/cases/hard/input/prompt.txt", []byte("Say nothing.\n")) }, 3},
		{"a file more in a case", func(f *fixture) { f.write("bench/greet/cases/hard/input/more.txt", []byte("x")) }, 3},
		{"the rubric", func(f *fixture) { f.write("bench/greet/rubric/words.star", []byte("HELLO = \"bye\"\n")) }, 3},
		{"the dataset", func(f *fixture) { f.write("bench/greet/dataset.jsonl", []byte("{\"id\":\"line-one\"}\n")) }, 3},
		{"signed by one", func(f *fixture) { f.sealManifest("bob") }, 3},
		{"without the security role", func(f *fixture) { f.sealManifest("alice", "heidi") }, 3},
		{"a rule broken", func(f *fixture) { f.editFile("bench/greet/signed.json", `"turns":`, `"turns":-`) }, 3},
		{"not canonical", func(f *fixture) { f.editFile("bench/greet/signed.json", `{"documents":`, `{ "documents":`) }, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t)
			f.withJSON()
			f.write("signers", signersText(t))
			tt.forge(f)
			cmd := exec.Command(python, "-I", "-B", script, "bench", "--signers", "signers", "--now", "2026-06-01T12:00:00Z", "bench/greet")
			cmd.Dir = f.dir
			out, _ := cmd.CombinedOutput()
			if code := cmd.ProcessState.ExitCode(); code != tt.want {
				t.Errorf("exit code %d, want %d: %s", code, tt.want, out)
			}
		})
	}
}
