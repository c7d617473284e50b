package viewer

import (
	"context"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tallystick/internal/read/dossier"
)

const plainCase = "/attempt/hostile.default.1/case/plain-one"

// besides makes a viewer take every transcript for a long one.
func besides(t *testing.T, v *Viewer) {
	t.Helper()
	v.atOnce = -1
}

func TestALongTranscriptIsShownWhileItIsChecked(t *testing.T) {
	v := openShop(t)
	besides(t, v)
	v.beside <- struct{}{} // nothing is verified until the test lets it
	for range 2 {
		w := get(t, v, plainCase)
		body := w.Body.String()
		if w.Code != 200 || !strings.Contains(body, "being checked") || !strings.Contains(body, "What is 1 plus 1?") || !strings.Contains(body, `data-live="`+plainCase+`"`) || strings.Contains(body, `class="timeline"`) {
			t.Fatalf("while it is checked: %d %s", w.Code, body)
		}
	}
	// Events are given only when they are verified; a reader who does not wait gets none.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := httptest.NewRecorder()
	v.ServeHTTP(w, httptest.NewRequest("GET", plainCase+"/events", nil).WithContext(ctx))
	if w.Code == 200 || strings.Contains(w.Body.String(), "run_started") {
		t.Errorf("unverified events: %d %s", w.Code, w.Body)
	}
	<-v.beside
	if w := get(t, v, plainCase+"/events"); w.Code != 200 || !strings.Contains(w.Body.String(), "run_started") {
		t.Errorf("events: %d %s", w.Code, w.Body)
	}
	body := get(t, v, plainCase).Body.String()
	if strings.Contains(body, "being checked") || strings.Contains(body, "data-live=") || !strings.Contains(body, `class="timeline"`) {
		t.Errorf("after it was checked: %s", body)
	}
}

// Outlines of long transcripts take memory, so they are remembered by their length and
// not only by their number.
func TestLongTranscriptsAreForgottenForOthers(t *testing.T) {
	v := openShop(t)
	const another = "/attempt/hostile.default.1/case/hostile-long"
	look := func(path string) {
		if w := get(t, v, path); w.Code != 200 || !strings.Contains(w.Body.String(), `class="timeline"`) {
			t.Fatalf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	look(plainCase)
	if look(another); len(v.scripts) != 2 {
		t.Fatalf("%d short transcripts are remembered, expected 2", len(v.scripts))
	}
	v.scripts, v.maxKept = make(map[int64]*script), 1
	look(plainCase)
	look(plainCase)
	if look(another); len(v.scripts) != 1 {
		t.Errorf("%d transcripts are remembered, expected the last alone", len(v.scripts))
	}
}

// What is found to be forged beside the page is a banner from then on, and never again
// something that is being checked.
func TestAForgedLongTranscriptBecomesTheBanner(t *testing.T) {
	s, err := makeShop()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Dir(s.dir))); err != nil {
		t.Fatal(err)
	}
	forged := &shop{dir: filepath.Join(dir, "w"), vars: map[string]string{"XDG_STATE_HOME": filepath.Join(dir, "state"), "HOME": dir}}
	p, err := dossier.Open(forged.dir, world(t, forged.vars))
	if err != nil {
		t.Fatal(err)
	}
	v, err := Open(Config{Place: p})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	besides(t, v)
	// The last line is what no later line protects: only the head tells.
	if n := replaceEverywhere(t, p.EvidenceDir(), `"status":"completed"},"prev"`, `"status":"completeb"},"prev"`); n == 0 {
		t.Fatal("no evidence has the text")
	}
	v.beside <- struct{}{}
	if w := get(t, v, plainCase); w.Code != 200 || !strings.Contains(w.Body.String(), "being checked") {
		t.Errorf("while it is checked: %d %s", w.Code, w.Body)
	}
	<-v.beside
	if w := get(t, v, plainCase+"/events"); w.Code == 200 {
		t.Errorf("forged events are given: %s", w.Body)
	}
	for range 2 {
		body := get(t, v, plainCase).Body.String()
		if !strings.Contains(body, `class="alarm"`) || strings.Contains(body, "being checked") || strings.Contains(body, "completeb") {
			t.Fatalf("a forged transcript: %s", body)
		}
	}
}

// replaceEverywhere changes a text in the evidence, by one as long, and counts the files.
func replaceEverywhere(t *testing.T, dir, old, text string) int {
	t.Helper()
	n := 0
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(data), old) {
			return err
		}
		n++
		if err := os.Chmod(path, 0o644); err != nil {
			return err
		}
		return os.WriteFile(path, []byte(strings.ReplaceAll(string(data), old, text)), 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}
