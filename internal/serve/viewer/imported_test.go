package viewer

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// importedLog writes an Inspect log of which one sample has the id of a case of the shop,
// and texts that try to be markup.
func importedLog(t *testing.T) string {
	t.Helper()
	bad := "<script>alert(1)</script>\u202e"
	log := map[string]any{"version": 2, "status": "success", "eval": map[string]any{"task": "hostile", "model": "acme/tiny", "created": "2026-05-12T09:30:00+00:00", "dataset": map[string]any{"name": "hostile"}},
		"results": map[string]any{"total_samples": 1, "completed_samples": 1, "scores": []any{map[string]any{"name": "match", "scorer": "match", "metrics": map[string]any{"accuracy": map[string]any{"name": "accuracy", "value": 0}}}}},
		"samples": []any{map[string]any{"id": "hostile-svg", "epoch": 1, "input": "draw " + bad, "target": "x", "output": map[string]any{"completion": "done"},
			"scores": map[string]any{"match": map[string]any{"value": "I", "answer": "done", "explanation": "not " + bad}},
			"messages": []any{
				map[string]any{"role": "user", "content": "draw " + bad},
				map[string]any{"role": "assistant", "content": "", "tool_calls": []any{map[string]any{"id": "1", "function": "paint" + bad, "arguments": map[string]any{"colour": "red"}}}},
				map[string]any{"role": "tool", "function": "paint" + bad, "tool_call_id": "1", "content": "no paint " + bad, "error": map[string]any{"type": "unknown", "message": "x"}},
				map[string]any{"role": "assistant", "content": "done"},
			}}}}
	data, err := json.Marshal(log)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "log.json")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAnImportedRowOpensAndIsNeverVerified(t *testing.T) {
	shop := openShop(t)
	v, err := Open(Config{Place: shop.config.Place, Files: []string{importedLog(t)}})
	if err != nil {
		t.Fatal(err)
	}
	list := get(t, v, "/imported/1")
	const row = "/imported/1/row/0/1/hostile-svg"
	if !strings.Contains(list.Body.String(), `href="`+row+`"`) {
		t.Errorf("no link leads to the row: %s", list.Body)
	}
	w := get(t, v, row)
	page := w.Body.String()
	for _, want := range []string{"Imported, not observed", "data-outside", `said-user`, `said-tool`, `said-assistant`, `&#34;colour&#34;: &#34;red&#34;`, "no paint", "Error", "Why, by match"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Count(page, "said-tool") != 1 || strings.Count(page, "said-assistant") != 1 {
		t.Error("a call and its result are not one card")
	}
	for _, never := range []string{"<script>alert", "\u202e", "data-entry", "data-field"} {
		if strings.Contains(page, never) {
			t.Errorf("the page has %q", never)
		}
	}
	for _, path := range []string{"/imported/1/row/0/1/none", "/imported/1/row/9/1/hostile-svg", "/imported/1/row/0/7/hostile-svg", "/imported/2/row/0/1/hostile-svg", "/imported/1/compare?b=none", "/imported/1/compare?run=7"} {
		if w := get(t, v, path); w.Code != http.StatusNotFound {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}

func TestAnImportIsComparedWithAnAttempt(t *testing.T) {
	shop := openShop(t)
	v, err := Open(Config{Place: shop.config.Place, Files: []string{importedLog(t)}})
	if err != nil {
		t.Fatal(err)
	}
	page := get(t, v, "/imported/1/compare?b=hostile.default.1").Body.String()
	for _, want := range []string{"imported and not observed", "Nothing on this page is verified", "<dt>Paired</dt><dd>1 ", "By the scorer match"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(page, "data-entry") {
		t.Error("the page says that it can be checked")
	}
	other := get(t, v, "/imported/1/compare?b=hostile.default.1&scorer="+url.QueryEscape("none<b>")).Body.String()
	if strings.Contains(other, "none<b>") || strings.Contains(other, "<dt>Paired") {
		t.Error("a scorer that is not there is compared")
	}
}
