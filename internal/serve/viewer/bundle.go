package viewer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/serve/viewer/layout"
	"tallystick/internal/share/browser/site"
)

// A Bundle is what was written as a site of files.
type Bundle struct {
	Dir      string `json:"dir"`
	Origin   string `json:"origin"`
	TreeSize int64  `json:"tree_size"`
	Files    int    `json:"files"`
	Bytes    int64  `json:"bytes"`
	Signed   bool   `json:"signed"`
	// Unsigned is why there is no signature.
	Unsigned string `json:"unsigned_because,omitempty"`
}

// A BundleAsk says what to write, and where.
type BundleAsk struct {
	Dir       string
	Overwrite bool // replace an earlier bundle
	// Attempts, if there are any, leave out the pages of other attempts and of the
	// entries of the ledger.
	Attempts []string
	// Accept verifies the signed pages, in the folder where they lie, as a reader would
	// who has the ledger's keys; what it refuses does not get its name.
	Accept func(dir string, keys []string) error
}

// WriteBundle writes every page that links lead to as a file, with receipts, keys and
// scripts, into a new folder. The Viewer must be a still one.
func (v *Viewer) WriteBundle(ctx context.Context, ask BundleAsk) (*Bundle, error) {
	replace, err := mayReplace(ask.Dir, ask.Overwrite)
	if err != nil {
		return nil, err
	}
	w := newWalker(v)
	if w.only, err = v.known(ask.Attempts); err != nil {
		return nil, err
	}
	if err := w.explore(ctx); err != nil {
		return nil, err
	}
	return v.write(ctx, w, ask, replace)
}

// known are the attempts of these names, each of which must be there.
func (v *Viewer) known(names []string) ([]string, error) {
	var ids []string
	for _, name := range names {
		a, err := v.attemptNamed(name)
		if err != nil {
			return nil, err
		}
		ids = append(ids, a.ID)
	}
	return ids, nil
}

func (v *Viewer) write(ctx context.Context, w *walker, ask BundleAsk, replace bool) (*Bundle, error) {
	tree, err := store.NewTree(ask.Dir)
	if err != nil {
		return nil, err
	}
	defer tree.Discard()
	head, note := v.r.BestCheckpoint(v.r.Verified(), v.r.History.Entries-1)
	b := &Bundle{Dir: ask.Dir, Origin: head.Origin, TreeSize: head.Size}
	manifest := site.New(head, note)
	for _, t := range w.order {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		data, err := w.written(t)
		if err == nil {
			err = tree.Write(t.file, data)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.place, err)
		}
		manifest.Add(t.file, data)
		b.Files, b.Bytes = b.Files+1, b.Bytes+int64(len(data))
	}
	if err := v.seal(b, manifest, tree); err != nil {
		return nil, err
	}
	if b.Signed { // without a signature there is nothing to verify, and the answer says so
		if err := ask.Accept(tree.Draft(), v.r.VerifierKeys()); err != nil {
			return nil, err
		}
	}
	return b, tree.Commit(replace)
}

// seal writes the manifest, signed if the key of an operator of this ledger is at hand.
func (v *Viewer) seal(b *Bundle, m *site.Manifest, tree *store.Tree) error {
	data, err := m.Marshal()
	if err != nil {
		return err
	}
	if err := tree.Write(site.ManifestFile, data); err != nil {
		return err
	}
	key, err := v.operatorKey()
	if err != nil {
		b.Unsigned = err.Error()
		return nil
	}
	signature, err := site.Sign(data, key)
	if err != nil {
		return err
	}
	b.Signed = true
	return tree.Write(site.SignatureFile, signature)
}

// mayReplace reports whether there is an earlier bundle to replace. Anything else that
// is there stays.
func mayReplace(dir string, overwrite bool) (bool, error) {
	entries, err := os.ReadDir(dir)
	if os.IsNotExist(err) || err == nil && len(entries) == 0 {
		return false, nil
	}
	if err != nil {
		return false, refusal.Newf(refusal.Unreadable, "reading %s: %w", dir, refusal.WithoutPath(err))
	}
	data, err := store.ReadFile(store.OS{}, filepath.Join(dir, site.ManifestFile), site.MaxFiles*1000)
	if err != nil {
		return false, refusal.Newf(refusal.AlreadyExists, "%s is not empty, and not an earlier bundle", dir).WithHint("name a new folder")
	}
	m, err := site.Parse(data)
	if err != nil {
		return false, refusal.Newf(refusal.AlreadyExists, "%s is not empty, and its %s cannot be read: %w", dir, site.ManifestFile, err).WithHint("name a new folder")
	}
	if !overwrite {
		return false, refusal.Newf(refusal.AlreadyExists, "%s holds an earlier bundle", dir).WithHint("--overwrite replaces it")
	}
	var names []string
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		names = append(names, filepath.ToSlash(name))
		return err
	})
	if err != nil {
		return false, refusal.Newf(refusal.Unreadable, "reading %s: %w", dir, err)
	}
	if others := m.Unlisted(names); len(others) > 0 {
		return false, refusal.Newf(refusal.AlreadyExists, "%s holds %s, which the earlier bundle did not write", dir, others[0]).WithHint("move it away, or name a new folder")
	}
	return true, nil
}

// A target is an address of the site and the file that it becomes.
type target struct {
	place place
	file  string // "" if there is nothing: a link to it becomes text
	page  bool
}

// A walker asks the viewer for everything that links lead to.
type walker struct {
	v       *Viewer
	targets map[string]*target
	order   []*target
	taken   map[string]bool // names of files in small letters: some file systems know no others
	bytes   int64
	only    []string           // the attempts that are shown; nil for all
	ran     map[[2]string]bool // classes and cases that they ran; nil before it is asked

	maxFiles int
	maxBytes int64
}

func newWalker(v *Viewer) *walker {
	return &walker{v: v, targets: map[string]*target{}, taken: map[string]bool{}, maxFiles: site.MaxFiles, maxBytes: site.MaxBytes}
}

// takes reports whether a page is to be in the site.
func (w *walker) takes(at place) bool {
	segments := at.segments()
	if len(segments) == 4 && segments[0] == "corpus" {
		return w.shows(segments[1], segments[3])
	}
	if w.only == nil {
		return true
	}
	switch segments[0] {
	case "attempt", "audit":
		id, err := url.PathUnescape(segments[1])
		return err == nil && slices.Contains(w.only, id)
	case "compare":
		return slices.Contains(w.only, at.query.Get("a")) && slices.Contains(w.only, at.query.Get("b"))
	}
	return segments[0] != "ledger" && segments[0] != "golden" // a golden page shows the newest run
}

// shows reports whether an attempt of the site ran a case of the corpus. Of a dataset of a
// hundred thousand lines of which ten were run there are ten pages.
func (w *walker) shows(class, id string) bool {
	if w.ran == nil {
		w.ran = make(map[[2]string]bool)
		for _, a := range w.v.r.History.Attempts {
			if w.only != nil && !slices.Contains(w.only, a.ID) {
				continue
			}
			for c := range a.Cases() {
				w.ran[[2]string{a.Class, c.ID}] = true
			}
		}
	}
	class, err := url.PathUnescape(class)
	id, err2 := url.PathUnescape(id)
	return err == nil && err2 == nil && w.ran[[2]string{class, id}]
}

// explore finds all files of the site, from the overview on, without keeping them.
func (w *walker) explore(ctx context.Context) error {
	queue := []place{{path: "/"}, {path: "/verify.html"}, {path: "/keys"}, {path: "/checkpoint"}}
	for _, name := range layout.AssetNames() {
		queue = append(queue, place{path: "/assets/" + name})
	}
	for ; len(queue) > 0; queue = queue[1:] {
		if err := ctx.Err(); err != nil {
			return err
		}
		at := queue[0]
		if w.targets[at.String()] != nil || !w.takes(at) {
			continue
		}
		t := &target{place: at}
		w.targets[at.String()] = t
		body, kind, err := w.ask(at)
		if err != nil {
			return err
		}
		if kind == "" {
			continue
		}
		t.page = strings.HasPrefix(kind, "text/html") && at.path != "/verify.html"
		t.file = w.unique(at.file(kind), at)
		w.order = append(w.order, t)
		w.bytes += int64(len(body))
		if len(w.order) > w.maxFiles || w.bytes > w.maxBytes {
			return refusal.Newf(refusal.TooLarge, "the site would have more than %d files or %d bytes, at %s", w.maxFiles, w.maxBytes, at).
				WithHint("--attempt ID leaves out the pages of other attempts and of the ledger's entries; \"tally view --public\" shows everything")
		}
		if t.page {
			found, err := linksOf(at, body)
			if err != nil {
				return fmt.Errorf("%s: %w", at, err)
			}
			queue = append(queue, found...)
		}
	}
	return nil
}

// unique is a name that no other file has.
func (w *walker) unique(file string, at place) string {
	if w.taken[strings.ToLower(file)] {
		sum := sha256.Sum256([]byte(at.String()))
		file = path.Join(path.Dir(file), "~"+hex.EncodeToString(sum[:8]), path.Base(file))
	}
	w.taken[strings.ToLower(file)] = true
	return file
}

// ask is the viewer's answer. The type is "" if there is nothing at an address, or
// nothing that may be shown. What does not verify is an error: it is not written down
// as if it were a page.
func (w *walker) ask(at place) (body []byte, kind string, err error) {
	if strings.HasSuffix(at.path, "/events") {
		return w.events(at)
	}
	a, err := w.get(at)
	switch {
	case err != nil:
		return nil, "", err
	case a.code >= http.StatusInternalServerError:
		return nil, "", refusal.Newf(refusal.Failed, "%s cannot be written: the viewer answers %d", at, a.code).
			WithHint("open it with \"tally view\": the page says what is wrong")
	case a.code != http.StatusOK:
		return nil, "", nil
	}
	return a.body.Bytes(), a.header.Get("Content-Type"), nil
}

// An answered keeps what a handler writes.
type answered struct {
	code   int
	header http.Header
	body   bytes.Buffer
}

func (a *answered) Header() http.Header         { return a.header }
func (a *answered) Write(b []byte) (int, error) { return a.body.Write(b) }
func (a *answered) WriteHeader(code int)        { a.code = code }

func (w *walker) get(at place) (*answered, error) {
	req, err := http.NewRequest(http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, err
	}
	a := &answered{code: http.StatusOK, header: http.Header{}}
	w.v.ServeHTTP(a, req)
	return a, nil
}

// events are all lines of a transcript: a web server for files knows no windows, and
// sends the whole file for each.
func (w *walker) events(at place) ([]byte, string, error) {
	var all bytes.Buffer
	for from := 1; ; from += maxEvents {
		q := place{at.path, map[string][]string{"from": {strconv.Itoa(from)}, "n": {strconv.Itoa(maxEvents)}, "repeat": {at.query.Get("repeat")}}}
		answer, err := w.get(q)
		if err != nil {
			return nil, "", err
		}
		if answer.code != http.StatusOK {
			return nil, "", refusal.Newf(refusal.Failed, "%s cannot be written from event %d on: the viewer answers %d", at, from, answer.code)
		}
		lines := answer.body.Bytes()
		all.Write(lines)
		if bytes.Count(lines, []byte("\n")) < maxEvents {
			return all.Bytes(), "application/x-ndjson", nil
		}
	}
}

// linking are the attributes that lead to another file.
var linking = []string{"href", "src", "data-trajectory", "data-evidence", "data-grading", "data-piece", "data-copy-from"}

// linksOf are the places that a page leads to, and the receipts of the entries that
// its values name.
func linksOf(at place, page []byte) ([]place, error) {
	var found []place
	_, err := eachTag(page, func(t *tag) bool {
		for _, name := range linking {
			if ref, ok := t.get(name); ok {
				// The two sides of a comparison, for each case of each pair, are followed
				// only from the page of a case.
				if to, _, ok := placeOf(at, ref); ok && (!to.query.Has("case") || to.path != "/compare" || len(at.segments()) == 4) {
					found = append(found, to)
				}
			}
		}
		if index, ok := t.get("data-entry"); ok {
			found = append(found, place{path: "/receipt/" + index})
		}
		return t.name != "form"
	})
	return found, err
}

// written is the file of a target: a page with its links made relative, anything else
// as the viewer sends it.
func (w *walker) written(t *target) ([]byte, error) {
	body, _, err := w.ask(t.place)
	if err != nil || !t.page {
		return body, err
	}
	return eachTag(body, func(x *tag) bool {
		x.drop("data-live") // nothing happens in a file
		for i := range x.attrs {
			if a := &x.attrs[i]; slices.Contains(linking, a.name) {
				a.value = w.relink(t, a.value)
			}
		}
		for _, name := range linking {
			if value, ok := x.get(name); ok && value == "" {
				x.drop(name)
			}
		}
		return x.name != "form" // no server answers it
	})
}

// relink is a link as it stands in the file of a page; "" if it leads nowhere.
func (w *walker) relink(t *target, ref string) string {
	if strings.HasPrefix(ref, "#") || ref == "data:," {
		return ref
	}
	to, fragment, ok := placeOf(t.place, ref)
	if !ok || w.targets[to.String()] == nil || w.targets[to.String()].file == "" {
		return ""
	}
	if fragment != "" {
		fragment = "#" + fragment
	}
	return relative(t.file, w.targets[to.String()].file) + fragment
}
