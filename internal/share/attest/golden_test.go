package attest

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
)

// The files in testdata/v1 are promises: whatever was issued once must verify for
// ever. They may be added to and never made again; -write-new writes only those
// that are missing.
var writeNew = flag.Bool("write-new", false, "write format goldens that do not exist yet")

// goldens are the documents of the fixtures, as files.
func goldens(t testing.TB) map[string][]byte {
	t.Helper()
	body, err := SignBody([]byte(exampleBody(t)), signer(t, runnerKey))
	if err != nil {
		t.Fatal(err)
	}
	endorsed, err := Secure(issued(t, withStatus(NewStatusEntry(listURL, 7, Revocation))), signer(t, judgeKey))
	if err != nil {
		t.Fatal(err)
	}
	return map[string][]byte{
		"credential.json":           issued(t, nil),
		"endorsed-with-status.json": endorsed,
		"imported.json":             issued(t, func(d *Draft) { d.Imported = true; d.Body = []byte(exampleBody(t)) }),
		"signed-body.json":          body,
		"web.json":                  webCredential(t),
	}
}

func goldenPath(name string) string { return filepath.Join("testdata", "v1", name) }

func golden(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(goldenPath(name))
	if err != nil {
		t.Fatal(err)
	}
	return bytes.TrimSuffix(data, []byte("\n"))
}

func TestWhatWasIssuedStillVerifies(t *testing.T) {
	// How gzip packs may change with the library, so this one is not issued again
	// to compare.
	keepNew(t, "status-list.json", func() []byte { return statusList1(t, issuerKey, nil) })
	trusted := Trust{Now: now, Keys: keysOf(t, didDocument(t, ""), ""), StatusLists: [][]byte{golden(t, "status-list.json")}}
	for name, want := range goldens(t) {
		keepNew(t, name, func() []byte { return want })
		text := golden(t, name)
		if !bytes.Equal(text, want) {
			t.Errorf("%s is now issued as\n%s", name, want)
		}
		var err error
		if name == "signed-body.json" {
			_, err = VerifyBody(text, trusted)
		} else {
			_, err = Verify(text, trusted)
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// keepNew writes a golden that is missing, if that was asked for.
func keepNew(t *testing.T, name string, make func() []byte) {
	t.Helper()
	if _, err := os.Stat(goldenPath(name)); !os.IsNotExist(err) || !*writeNew {
		return
	}
	if err := os.WriteFile(goldenPath(name), append(make(), '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}
