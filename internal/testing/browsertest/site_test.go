package browsertest

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A site of files is checked by browsers as the viewer's own pages are, by whatever web
// server sends it, and from a folder of that server too.
func TestASiteOfFilesChecksItself(t *testing.T) {
	w := workspace(t)
	top := t.TempDir()
	dir := filepath.Join(top, "evals")
	if _, err := w.tally(0, "--workspace", w.dir, "view", "--bundle", dir); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.FileServer(http.Dir(top)))
	t.Cleanup(server.Close)
	attemptPage := "attempt/" + attempt + "/index.html"
	b := open(t, server.URL+"/evals/"+attemptPage)
	b.waitFor(`document.getElementById("mark").dataset.state === "unknown"`)
	b.give(w.key)
	b.waitFor(`document.getElementById("mark").dataset.state === "good"`)
	b.clean()
	b.picture("site-attempt")

	// The transcript with its chain, which is one file here.
	b.goTo(server.URL + "/evals/attempt/" + attempt + "/case/says-hello/index.html")
	b.waitFor(`/ and [0-9]+ events on this page/.test(document.getElementById("mark").textContent)`)
	b.waitFor(`document.getElementById("mark").dataset.state === "unknown"`)
	b.clean()
	for _, page := range []string{"", "attempts/", "matrix/", "corpus/", "judges/", "ledger/", "ledger/3/"} {
		b.goTo(server.URL + "/evals/" + page)
		b.waitFor(marked)
		if state := b.state(); state == "bad" {
			t.Errorf("%s: %s %s", page, b.text("#mark"), b.text("#tallystick-alarm"))
		}
		b.accessible()
		b.clean()
	}

	// One byte of a score.
	file := filepath.Join(dir, filepath.FromSlash(attemptPage))
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const score = `data-field="/score/score" data-as="number3">0.`
	forged := bytes.Replace(data, []byte(score+"0"), []byte(score+"9"), 1)
	if bytes.Equal(forged, data) {
		t.Fatal("the page has no score to change")
	}
	if err := os.WriteFile(file, forged, 0o644); err != nil {
		t.Fatal(err)
	}
	b = open(t, server.URL+"/evals/"+attemptPage)
	b.waitFor(`document.getElementById("mark").dataset.state === "bad"`)
	if got := b.text("#tallystick-alarm"); !strings.Contains(got, "shows “0.900”, signed is “0.000”") {
		t.Errorf("the banner says %q", got)
	}
	b.picture("site-forged")

	// From disk no browser lets a page ask for a receipt, and the page says so.
	b = openFile(t, file)
	if got := b.text("#mark"); !strings.Contains(got, "Not checked") || !strings.Contains(got, "verify.html") {
		t.Errorf("from disk the mark says %q", got)
	}
	b.picture("site-from-disk")
}
