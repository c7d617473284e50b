package viewer

import (
	"bytes"
	"context"
	"crypto/rand"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tallystick/internal/read/dossier"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/share/browser/site"
	"tallystick/internal/share/verify"
)

// A written is a site in memory, and what its operator has.
type written struct {
	files  map[string][]byte
	policy ledger.Policy
	key    *seal.Key
}

func acceptSite(dir string, keys []string) error {
	var t verify.Trust
	for _, key := range keys {
		if err := t.AddLog(key); err != nil {
			return err
		}
	}
	return verify.IssuedSite(dir, t)
}

func writeShop(t *testing.T, only ...string) *written {
	t.Helper()
	s, err := makeShop()
	if err != nil {
		t.Fatal(err)
	}
	p, err := dossier.Open(s.dir, world(t, s.vars))
	if err != nil {
		t.Fatal(err)
	}
	v, err := Open(Config{Place: p, Still: true})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	dir := filepath.Join(t.TempDir(), "site")
	b, err := v.WriteBundle(context.Background(), BundleAsk{Dir: dir, Attempts: only, Accept: acceptSite})
	if err != nil {
		t.Fatal(err)
	}
	if !b.Signed {
		t.Fatalf("not signed: %s", b.Unsigned)
	}
	w := &written{files: map[string][]byte{}}
	err = fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			w.files[name], err = os.ReadFile(filepath.Join(dir, name))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if w.key, err = p.OperatorKey(); err != nil {
		t.Fatal(err)
	}
	for _, k := range v.r.VerifierKeys() {
		origin, pub, err := seal.ParseLogKey(k)
		if err != nil {
			t.Fatal(err)
		}
		w.policy.Logs = append(w.policy.Logs, ledger.LogKey{Origin: origin, Key: pub})
	}
	return w
}

func (w *written) verify() error {
	_, err := site.Verify(slices.Collect(maps.Keys(w.files)), func(name string) ([]byte, error) {
		if data, ok := w.files[name]; ok {
			return data, nil
		}
		return nil, fs.ErrNotExist
	}, w.policy)
	return err
}

// seal lists and signs the files as they are now, as an operator can.
func (w *written) seal(t *testing.T, key *seal.Key, change func(*site.Manifest)) {
	t.Helper()
	m, err := site.Parse(w.files[site.ManifestFile])
	if err != nil {
		t.Fatal(err)
	}
	m.Files = nil
	for name, data := range w.files {
		if name != site.ManifestFile && name != site.SignatureFile {
			m.Add(name, data)
		}
	}
	change(m)
	data, err := m.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	signature, err := site.Sign(data, key)
	if err != nil {
		t.Fatal(err)
	}
	w.files[site.ManifestFile], w.files[site.SignatureFile] = data, signature
}

func TestEveryLinkOfASiteLeadsToAFile(t *testing.T) {
	w := writeShop(t)
	pages, links := 0, 0
	for name, data := range w.files {
		if path.Base(name) != "index.html" {
			continue
		}
		pages++
		_, err := eachTag(data, func(x *tag) bool {
			if _, there := x.get("data-live"); there || x.name == "form" {
				t.Errorf("%s has what only a server answers: %v", name, *x)
			}
			for _, attr := range linking {
				ref, ok := x.get(attr)
				if ref, _, _ = strings.Cut(ref, "#"); !ok || ref == "" || ref == "data:," {
					continue
				}
				links++
				if to := path.Join(path.Dir(name), ref); w.files[to] == nil {
					t.Errorf("%s: %s leads to %s, which is not there", name, ref, to)
				}
			}
			return true
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !bytes.Contains(data, []byte(`http-equiv="Content-Security-Policy"`)) {
			t.Errorf("%s has no content policy", name)
		}
	}
	if pages < 50 || links < 1000 {
		t.Errorf("%d pages with %d links: that is not the shop", pages, links)
	}
}

func TestASiteTellsNoHeldOutCaseAndRunsNoText(t *testing.T) {
	w := writeShop(t)
	for name, data := range w.files {
		if bytes.Contains(data, []byte(secret)) {
			t.Errorf("%s tells the held-out case", name)
		}
		if path.Ext(name) != ".html" {
			continue
		}
		for kind, texts := range hostile {
			for _, text := range texts[1:] {
				if bytes.Contains(data, []byte(text)) {
					t.Errorf("%s has the text %q of %s as it is", name, text, kind)
				}
			}
		}
	}
	if w.files["attempt/hostile.default.1/case/kept-secret/index.html"] == nil {
		t.Error("the page of the held-out case is not there, so nothing was looked at")
	}
}

// Forgeries of who has the folder, and of who has the operator's key as well.
func TestAForgedSiteIsRefused(t *testing.T) {
	whole := writeShop(t)
	if err := whole.verify(); err != nil {
		t.Fatal(err)
	}
	other, err := seal.NewKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	same := func(*site.Manifest) {}
	for _, tt := range []struct {
		name  string
		forge func(w *written)
		says  string
	}{
		{"a page", func(w *written) {
			w.files["index.html"] = bytes.Replace(w.files["index.html"], []byte("Overview"), []byte("Overvlew"), 1)
		}, "index.html has"},
		{"a file more", func(w *written) { w.files["more.html"] = []byte("x") }, "more.html is not in the manifest"},
		{"a file less", func(w *written) { delete(w.files, "keys") }, "keys is missing"},
		{"the manifest", func(w *written) {
			w.files[site.ManifestFile] = bytes.Replace(w.files[site.ManifestFile], []byte(`"bytes":`), []byte(`"bytes":1`), 1)
		}, site.SignatureFile},
		{"no signature", func(w *written) { delete(w.files, site.SignatureFile) }, "these pages are unsigned"},
		{"signed by another key", func(w *written) { w.seal(t, other, same) }, "not a trusted key"},
		{"signed for something else", func(w *written) {
			signature, err := seal.SignWith(w.key.Signer(), seal.NamespaceSubmission, w.files[site.ManifestFile])
			if err != nil {
				t.Fatal(err)
			}
			w.files[site.SignatureFile] = signature
		}, "tallystick-submission"},
		{"a key of another ledger", func(w *written) {
			w.policy.Logs = slices.Clone(w.policy.Logs)
			for i := range w.policy.Logs {
				w.policy.Logs[i].Origin = "other.example/ledger"
			}
		}, "not a trusted key of the ledger"},
		{"signed again: the entry of a receipt", func(w *written) {
			w.files["receipt/3"] = bytes.Replace(w.files["receipt/3"], []byte(`\"kind\":\"`), []byte(`\"kind\":\"x`), 1)
			w.seal(t, w.key, same)
		}, "receipt/3: "},
		{"signed again: a receipt of another entry", func(w *written) {
			w.files["receipt/3"] = w.files["receipt/4"]
			w.seal(t, w.key, same)
		}, "receipt/3 is a receipt of entry 4"},
		{"signed again: the size", func(w *written) { w.seal(t, w.key, func(m *site.Manifest) { m.TreeSize++ }) }, "its checkpoint"},
		{"signed again: the root", func(w *written) { w.seal(t, w.key, func(m *site.Manifest) { m.Root = "x" }) }, "its checkpoint"},
		{"signed again: the checkpoint that browsers ask for", func(w *written) {
			w.files["checkpoint"] = []byte(`{"checkpoint":"x"}`)
			w.seal(t, w.key, same)
		}, "checkpoint is not the checkpoint"},
		{"signed again: a path outside", func(w *written) {
			w.files["../x"] = []byte("x")
			w.seal(t, w.key, same)
		}, "below the folder"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := &written{maps.Clone(whole.files), whole.policy, whole.key}
			tt.forge(w)
			err := w.verify()
			if !refusal.Is(err, refusal.SiteInvalid) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("expected a refusal that says %q, got %v", tt.says, err)
			}
		})
	}
}

func TestASiteOfOneAttemptHasNoOther(t *testing.T) {
	w := writeShop(t, "hostile.default.2")
	if err := w.verify(); err != nil {
		t.Error(err)
	}
	seen := false
	for name := range w.files {
		seen = seen || strings.HasPrefix(name, "attempt/hostile.default.2/case/plain-one/")
		if strings.HasPrefix(name, "attempt/") && !strings.HasPrefix(name, "attempt/hostile.default.2/") || strings.HasPrefix(name, "ledger/") {
			t.Errorf("%s is there", name)
		}
	}
	if !seen || w.files["index.html"] == nil {
		t.Error("the attempt itself is not there")
	}
}

func TestASiteThatIsTooLargeIsRefused(t *testing.T) {
	for _, w := range []*walker{{maxFiles: 30, maxBytes: 1 << 30}, {maxFiles: 1000, maxBytes: 200_000}} {
		whole := newWalker(openShop(t))
		whole.maxFiles, whole.maxBytes = w.maxFiles, w.maxBytes
		if err := whole.explore(context.Background()); !refusal.Is(err, refusal.TooLarge) || !strings.Contains(refusal.Of(err).Hint, "--attempt") {
			t.Errorf("%d files and %d bytes: %v", w.maxFiles, w.maxBytes, err)
		}
	}
}

func TestNamesThatDifferOnlyInCapitals(t *testing.T) {
	w := newWalker(nil)
	first, second := place{path: "/attempt/a"}, place{path: "/attempt/A"}
	a, b := w.unique(first.file("text/html"), first), w.unique(second.file("text/html"), second)
	if a != "attempt/a/index.html" || strings.EqualFold(a, b) || !strings.HasPrefix(b, "attempt/A/~") {
		t.Errorf("%s and %s", a, b)
	}
}

func TestMarkupThatCannotBeReadIsRefused(t *testing.T) {
	for _, page := range []string{`<a href='/x'>`, `<a href=/x>`, `<a href="/x`, `<!-- <a href="/x"> -->`, `<`, `< a>`, `<form><a>`, `<a "x">`} {
		if out, err := eachTag([]byte(page), func(t *tag) bool { return t.name != "form" }); err == nil {
			t.Errorf("%s became %s", page, out)
		}
	}
	const page = `<!doctype html><p class="a&amp;b" hidden>a &lt;b&gt; "c"</p><form action="/x"><input></form><rect x="1"/>`
	out, err := eachTag([]byte(page), func(t *tag) bool { return t.name != "form" })
	if want := strings.Replace(page, `<form action="/x"><input></form>`, "", 1); err != nil || string(out) != want {
		t.Errorf("%s, %v", out, err)
	}
}

func TestNamesOfFiles(t *testing.T) {
	for address, want := range map[string]string{
		"/":                                   "index.html",
		"/attempt/a%2Fb/case/..%2F..x":        "attempt/a_2fb/case/_2e._2f..x/index.html",
		"/attempt/A?state=not_run":            "attempt/A/~state-not_5frun/index.html",
		"/attempt/a/case/b?from=399":          "attempt/a/case/b/~from-201/index.html",
		"/attempt/a/case/b?from=200&repeat=1": "attempt/a/case/b/index.html",
		"/attempts?q=x":                       "",
		"/attempt/a?state=x&tag=y":            "",
		"//elsewhere.example/":                "",
		"https://elsewhere.example/":          "",
		"javascript:alert(1)":                 "",
	} {
		to, _, ok := placeOf(place{path: "/"}, address)
		if got := to.file("text/html; charset=utf-8"); ok != (want != "") || ok && got != want {
			t.Errorf("%s becomes %q (%v), expected %q", address, got, ok, want)
		}
	}
}

// A file of a case that ran several times is not a folder as well: no file system has both.
func TestFilesOfRepetitionsAreNotFolders(t *testing.T) {
	for _, kind := range []string{"text/html", "text/plain", "text/markdown; charset=utf-8", "application/x-ndjson", "image/png", "application/octet-stream"} {
		files := map[string]bool{}
		for _, query := range []string{"", "?repeat=2", "?repeat=3", "?from=201&repeat=2"} {
			to, _, _ := placeOf(place{path: "/"}, "/attempt/a/case/b/conversation.md"+query)
			files[to.file(kind)] = true
		}
		if len(files) != 4 {
			t.Errorf("%s: four addresses become %v", kind, files)
		}
		for a := range files {
			for b := range files {
				if strings.HasPrefix(b, a+"/") {
					t.Errorf("%s: %s is a file, and the folder of %s", kind, a, b)
				}
			}
		}
	}
}
