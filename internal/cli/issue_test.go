package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"tallystick/internal/read/dossier"
	"tallystick/internal/record/refusal"
)

// Every kind of document that is issued, with the command that issues it. OUT is what it
// writes.
var issues = []struct {
	name string
	args []string
	// file is which of several files is damaged: of a package or a site.
	file string
}{
	{"receipt of an attempt", []string{"export", "sums.default.1", "--format", "receipt", "-o", "OUT"}, ""},
	{"receipt of a case", []string{"export", "sums.default.1:three", "--format", "receipt", "-o", "OUT"}, ""},
	{"receipt on standard output", []string{"export", "sums.default.1", "--format", "receipt"}, ""},
	{"receipt of an entry", []string{"ledger", "prove", "3", "-o", "OUT"}, ""},
	{"bundles", []string{"export", "sums.default.1", "--format", "bundle", "-o", "OUT"}, ""},
	{"bundle of a case", []string{"export", "sums.default.1:one", "--format", "bundle", "-o", "OUT"}, ""},
	{"report", []string{"export", "sums.default.1", "--format", "html", "-o", "OUT"}, ""},
	{"statements", []string{"export", "sums.default.1", "--format", "in-toto", "--key", "KEY", "-o", "OUT"}, ""},
	{"credential", []string{"export", "sums.default.1", "--format", "vc", "--key", "KEY", "--harness-file", "WHEEL", "-o", "OUT"}, ""},
	{"credential on standard output", []string{"attest", "sums.default.1", "--key", "KEY", "--harness-file", "WHEEL"}, ""},
	{"credential with a manifest", []string{"attest", "sums.default.1", "--key", "KEY", "--harness-file", "WHEEL", "-o", "OUT", "--manifest", "OUT.manifest",
		"--artifact", "/artifacts/models/m", "--harness-path", "/artifacts/eval-harnesses/h", "--dataset-path", "/artifacts/datasets/d"}, ""},
	{"status list", []string{"attest", "status", "https://example.com/status/1", "--key", "KEY", "-o", "OUT"}, ""},
	{"submission", []string{"export", "sums.default.2", "--format", "submission", "--allow-dirty", "-o", "OUT"}, "results.jsonl"},
	{"submission in one file", []string{"export", "sums.default.2", "--format", "submission", "--allow-dirty", "-o", "OUT.zip"}, "metadata.json"},
	{"site", []string{"view", "--bundle", "OUT", "--attempt", "sums.default.1"}, "index.html"},
}

// damages are what happens to bytes on their way out.
var damages = map[string]func([]byte){
	"a bit in the middle": func(data []byte) { data[len(data)/2] ^= 1 },
	"a digit": func(data []byte) {
		// The last one: the first may be of a version that makes another file of it.
		for i := len(data) - 1; i >= 0; i-- {
			if '0' <= data[i] && data[i] <= '9' {
				data[i] = '0' + (data[i]-'0'+1)%10
				return
			}
		}
	},
	"the last half": func(data []byte) { clear(data[len(data)/2:]) },
}

// Issued means verified: what our own verifier refuses is not written, not printed and
// not recorded, whatever happened to it on its way out.
func TestNothingIsIssuedThatDoesNotVerify(t *testing.T) {
	l := newSums(t)
	l.run("run", "sums", "--submit-intent")
	l.ok("attest", "sums.default.1", "--key", l.key("operator"), "--harness-file", l.path("wheel"), "--status-list-url", "https://example.com/status/1", "-o", l.path("listed.json"))
	for _, tt := range issues {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			out := filepath.Join(dir, "out")
			var args []string
			for _, a := range tt.args {
				args = append(args, strings.NewReplacer("OUT", out, "KEY", l.key("operator"), "WHEEL", l.path("wheel")).Replace(a))
			}
			for name, damage := range damages {
				before := len(l.kinds())
				touched := false
				code, stdout, stderr := l.spoiling(func(issued any) {
					touched = true
					switch x := issued.(type) {
					case []byte:
						damage(x)
					case map[string][]byte:
						damage(x[tt.file])
					case string:
						path := filepath.Join(x, tt.file)
						data, err := os.ReadFile(path)
						l.must(err)
						damage(data)
						l.must(os.WriteFile(path, data, 0o644))
					}
				}, append(args, "--json")...)
				var e struct{ Name, Error string }
				if err := json.Unmarshal([]byte(stderr[strings.LastIndex(strings.TrimSpace(stderr), "\n")+1:]), &e); err != nil {
					t.Fatalf("%s: exit %d, stderr %q: %v", name, code, stderr, err)
				}
				if !touched || code != refusal.ExitUnverified || e.Name != string(refusal.NotIssued) || stdout != "" {
					t.Errorf("%s: exit %d, %s %s, stdout %.200q", name, code, e.Name, e.Error, stdout)
				}
				if left := filesIn(t, dir); len(left) > 0 {
					t.Errorf("%s: it left %v", name, left)
				}
				if len(l.kinds()) != before {
					t.Errorf("%s: the ledger has an entry more, %s", name, l.lastKind())
				}
			}
			if code, _, stderr := l.run(args...); code != 0 {
				t.Fatalf("unharmed: exit %d: %s", code, stderr)
			}
		})
	}
}

// A credential that "publish" signs is verified before a registry hears of it.
func TestNothingIsPublishedThatDoesNotVerify(t *testing.T) {
	l := newSums(t)
	args := []string{"publish", "sums.default.1", "--key", l.key("operator"), "--harness-file", l.path("wheel"), "--registry", "http://127.0.0.1:1",
		"--artifact", "/artifacts/models/m", "--harness-path", "/artifacts/eval-harnesses/h", "--dataset-path", "/artifacts/datasets/d"}
	for name, damage := range damages {
		code, _, stderr := l.spoiling(func(issued any) { damage(issued.([]byte)) }, args...)
		if code != refusal.ExitUnverified {
			t.Errorf("%s: exit %d: %s", name, code, stderr)
		}
	}
	if code, _, stderr := l.run(args...); code != refusal.ExitFailed || !strings.Contains(stderr, "there is no API key") {
		t.Errorf("unharmed: exit %d: %s", code, stderr)
	}
}

// A credential or a signed body of a file is not proposed unless it verifies, where its key
// is one that is known without a document.
func TestAFileThatDoesNotVerifyIsNotProposed(t *testing.T) {
	l := newSums(t)
	posts := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		posts++
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		io.WriteString(w, `{"proposalId":"p","status":"pending","ipPath":"/p"}`)
	}))
	defer server.Close()
	l.write("api-key", []byte("ak_"+strings.Repeat("A", 43)+"\n"))
	l.must(os.Chmod(l.path("api-key"), 0o600))
	l.ok("attest", "sums.default.1", "--key", l.key("operator"), "--harness-file", l.path("wheel"), "-o", l.path("credential.json"))
	var vc struct{ CredentialSubject json.RawMessage }
	l.must(json.Unmarshal([]byte(l.read("credential.json")), &vc))
	l.write("body.json", vc.CredentialSubject)
	for _, name := range []string{"credential.json", "body.json"} {
		honest := l.read(name)
		digit := regexp.MustCompile(`"passed":\d`).FindString(honest)
		for _, tt := range []struct {
			data string
			sent bool
		}{
			{honest, true},
			{strings.Replace(honest, digit, `"passed":5`, 1), false},
			{strings.Replace(honest, "did:key:z6Mk", "did:key:z6Mj", 1), false},
			{regexp.MustCompile(`"proofValue":"z."?`).ReplaceAllString(honest, `"proofValue":"zz`), false},
		} {
			if !tt.sent && tt.data == honest {
				t.Fatalf("%s: nothing was changed", name)
			}
			l.write("proposed.json", []byte(tt.data))
			before := posts
			code, _, stderr := l.run("publish", l.path("proposed.json"), "--registry", server.URL, "--api-key-file", l.path("api-key"),
				"--artifact", "/artifacts/models/m", "--harness-path", "/artifacts/eval-harnesses/h", "--dataset-path", "/artifacts/datasets/d")
			if sent := posts > before; sent != tt.sent || tt.sent && code != 0 || !tt.sent && code == 0 {
				t.Errorf("%s: exit %d, sent %v, want %v: %s", name, code, sent, tt.sent, stderr)
			}
		}
	}
}

func filesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// What is issued about a corrected attempt is what our verifier accepts, with the
// ledger's key and the receipt in it.
func TestWhatIsIssuedOfACorrectedAttemptVerifies(t *testing.T) {
	l := newSums(t)
	l.correct("three", "1", "example-alice")
	l.correct("one", "0", "example-bob")
	out := l.path("c.json")
	l.ok("export", "sums.default.1", "--format", "vc", "--key", l.key("operator"), "--harness-file", l.path("wheel"), "-o", out)
	if said := l.ok("attest", "verify", out); !strings.Contains(said, "verified") {
		t.Error(said)
	}
	l.ok("export", "sums.default.1", "--format", "in-toto", "--key", l.key("operator"), "-o", l.path("statements"))
	did := regexp.MustCompile(`did:key:\w+`).FindString(l.read("c.json"))
	l.ok("verify", "--issuer", did, l.path("statements/eval-result.dsse.json"), l.path("statements/test-result.dsse.json"))
}

// A command of cli that writes what a person asked for either issues a document, and
// passes it through issue.go, or is listed here with why it is not one.
func TestWhoWritesWithoutIssuing(t *testing.T) {
	not := map[string]string{
		"audit.go":         "the report of an audit is made again by whoever has the records",
		"audit_dispose.go": "a disposition is verified where it is signed",
		"verify.go":        "a page for checking, without a claim",
		"run_report.go":    "a comment for a pull request",
		"review.go":        "labels for people's own programs",
		"export.go":        "formats of others, which are not signed; what is signed comes verified",
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, "_test.go") || !bytes.Contains(data, []byte("WriteOutput")) {
			continue
		}
		if accepts := bytes.Contains(data, []byte("accept")); !accepts && not[name] == "" {
			t.Errorf("%s writes a document and does not pass it through issue.go", name)
		}
	}
	if !dossier.AreFiles("issue.go") {
		t.Error("the test looks in the wrong place")
	}
}
