package browsertest

import (
	"crypto/ed25519"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"tallystick/internal/record/seal"
	ours "tallystick/internal/share/browser"
)

// otherKey is a key of a ledger of that name, which signed nothing.
func otherKey(origin string) string {
	return seal.VKey(ed25519.NewKeyFromSeed(make([]byte, 32)).Public().(ed25519.PublicKey), origin)
}

func quote(s string) string {
	data, _ := json.Marshal(s)
	return string(data)
}

// openVerify opens verify.html from disk, with a key or without.
func openVerify(t *testing.T, key string) *tab {
	t.Helper()
	path := filepath.Join(t.TempDir(), "verify.html")
	if err := os.WriteFile(path, ours.VerifyPage(), 0o600); err != nil {
		t.Fatal(err)
	}
	b := openFile(t, path)
	b.waitFor(`document.documentElement.hasAttribute("data-ready")`)
	b.js(`document.getElementById("keys").value = ` + quote(key))
	b.js(`document.getElementById("keys").dispatchEvent(new Event("input"))`)
	return b
}

// drop gives files to the page and returns the verdict on each, newest first.
func (b *tab) drop(files ...string) []verdict {
	b.t.Helper()
	before, _ := b.js(`document.querySelectorAll("#results > li").length`).(float64)
	b.run(chromedp.SetUploadFiles("#files", files))
	return b.verdicts(before)
}

type verdict struct{ Name, State, Text string }

func (b *tab) verdicts(before float64) []verdict {
	b.t.Helper()
	b.waitFor(`document.querySelectorAll("#results > li").length > ` + quoteNumber(before))
	data, _ := b.js(`JSON.stringify([...document.querySelectorAll("#results > li")].map(li => ({Name: li.querySelector("h3").textContent, State: li.dataset.state, Text: li.textContent})))`).(string)
	var all []verdict
	if err := json.Unmarshal([]byte(data), &all); err != nil {
		b.t.Fatal(err)
	}
	return all
}

func quoteNumber(f float64) string {
	data, _ := json.Marshal(f)
	return string(data)
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// proofOf writes a proof of an attempt or a case.
func proofOf(t *testing.T, what string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.proof")
	workspace(t).do(t, 0, "export", "--format", "receipt", what, "-o", path)
	return path
}

// otherIndex changes the index of the first receipt, and no length.
func otherIndex(t *testing.T, proof string) string {
	t.Helper()
	at := strings.Index(proof, "\nindex ")
	end := at + 1 + strings.Index(proof[at+1:], "\n")
	last := proof[end-1]
	now := last + 1
	if last == '9' {
		now = '8'
	}
	return proof[:end-1] + string(now) + proof[end:]
}

func TestVerifyPageSaysWhatEachFileProves(t *testing.T) {
	w := workspace(t)
	b := openVerify(t, w.key)
	b.picture("verify-empty")
	want := func(state string, words []string, files ...string) {
		t.Helper()
		got := b.drop(files...)[0]
		if got.State != state {
			t.Errorf("%s: %s, want %s: %.600s", got.Name, got.State, state, got.Text)
		}
		for _, word := range words {
			if !strings.Contains(got.Text, word) {
				t.Errorf("%s does not say %q: %.600s", got.Name, word, got.Text)
			}
		}
		if state != "good" && strings.Contains(got.Text, "Verified with") {
			t.Errorf("%s: %.600s", got.Name, got.Text)
		}
	}
	attemptProof, caseProof := proofOf(t, attempt), proofOf(t, attempt+":says-hello")
	want("good", []string{"Case says-hello of class chat: failed.", "default", "number 1 of at least 1", "Entries in the tree", "scratch"}, caseProof)
	want("good", []string{"Attempt chat.default.1 of class chat finished.", "Mean score"}, attemptProof)
	report, page, _ := exported(t)
	want("good", []string{"A report of attempt chat.default.1"}, report)

	single := filepath.Join(t.TempDir(), "one.receipt")
	w.do(t, 0, "ledger", "prove", "1", "-o", single)
	want("unclear", []string{"does not carry its entry"}, single)
	want("good", []string{"Entry 1 is in the ledger"}, single, single+".entry.json")

	want("bad", []string{"Does not verify"}, write(t, "changed.proof", otherIndex(t, readFile(t, caseProof))))
	want("bad", nil, write(t, "score.html", forgeries(t, page)["a score"]))
	want("unclear", []string{"not of this release"}, write(t, "script.html", strings.Replace(page, `"use strict";`, `"use strict";document.title="x";`, 1)))
	want("unclear", []string{"This is a key, not evidence"}, write(t, "key.txt", w.key+"\n"))
	want("unclear", []string{"Not a file that this page knows"}, write(t, "x.txt", `<img src=x onerror=window.pwned=1>`))
	b.picture("verify-results")
	b.accessible()
	b.clean()

	// Hostile names of files are texts, too.
	want("unclear", nil, write(t, `<img src=x onerror=window.pwned=2>.txt`, "x"))
	b.clean()
}

func TestVerifyPageIsNeverGreenWithoutATypedKey(t *testing.T) {
	w := workspace(t)
	report, _, _ := exported(t)
	caseProof := proofOf(t, attempt+":says-hello")

	b := openVerify(t, "")
	if got := b.drop(report)[0]; got.State != "unknown" || !strings.Contains(got.Text, "Consistent, signer not known to you") {
		t.Errorf("a report without a key: %s: %.300s", got.State, got.Text)
	}
	if got := b.drop(caseProof)[0]; got.State != "unclear" {
		t.Errorf("a proof without a key: %s: %.300s", got.State, got.Text)
	}
	// A key among the evidence is not a key that the reader gave.
	for _, got := range b.drop(write(t, "key.txt", w.key+"\n"), report) {
		if got.State == "good" {
			t.Errorf("%s is green: %.300s", got.Name, got.Text)
		}
	}
	b.clean()

	b = openVerify(t, "example.com/evals+bfcc5eb5+AYqI4910CfGV/VLbLTy6XXLKZwm/HZQSG/N0iAG0D29c")
	for _, file := range []string{report, caseProof} {
		if got := b.drop(file)[0]; got.State != "bad" {
			t.Errorf("with another key: %s: %.300s", got.State, got.Text)
		}
	}
	b.clean()
}

// A lying server is asked from a page that it did not send.
func TestVerifyPageAsksAServer(t *testing.T) {
	w := workspace(t)
	answers := map[string]string{}
	for _, n := range []string{"1", "2", "3"} {
		path := filepath.Join(t.TempDir(), "r.receipt")
		w.do(t, 0, "ledger", "prove", n, "-o", path)
		doc := map[string]any{"receipt": readFile(t, path), "key": map[string]string{"name": "x", "public": w.key}}
		if beside, err := os.ReadFile(path + ".entry.json"); err == nil {
			doc["entry"] = string(beside)
		}
		data, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		answers["/sub/receipt/"+n] = string(data)
	}
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		rw.Header().Set("Access-Control-Allow-Origin", "*")
		rw.Write([]byte(answers[req.URL.Path]))
	}))
	defer server.Close()
	ask := func(key, entries string) verdict {
		t.Helper()
		b := openVerify(t, key)
		b.js(`document.getElementById("server").value = ` + quote(server.URL+"/sub"))
		b.js(`document.getElementById("entries").value = ` + quote(entries))
		b.js(`document.querySelector("#ask button").click()`)
		v := b.verdicts(0)[0]
		b.clean()
		return v
	}
	if got := ask(w.key, "1-3"); got.State != "good" || !strings.Contains(got.Text, "3 entries are in the ledger") {
		t.Errorf("%s: %.400s", got.State, got.Text)
	}
	if got := ask("", "2"); got.State != "unknown" {
		t.Errorf("without a key: %s: %.400s", got.State, got.Text)
	}
	answers["/sub/receipt/2"] = answers["/sub/receipt/3"]
	if got := ask(w.key, "2"); got.State != "bad" || !strings.Contains(got.Text, "proved entry 3") {
		t.Errorf("another entry than was asked for: %s: %.400s", got.State, got.Text)
	}
	answers["/sub/receipt/1"] = strings.Replace(answers["/sub/receipt/1"], "index 1", "index 0", 1)
	if got := ask(w.key, "1"); got.State != "bad" {
		t.Errorf("a forged receipt: %s: %.400s", got.State, got.Text)
	}
}
