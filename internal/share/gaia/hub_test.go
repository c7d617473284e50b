package gaia

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"tallystick/internal/record/refusal"
)

const someCommit = "0123456789abcdef0123456789abcdef01234567"

// newHub is a hub on this machine that has one split, and another host to which it
// sends for files.
func newHub(t *testing.T, rows string) (*httptest.Server, *[]string) {
	t.Helper()
	var leaked []string
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if a := q.Header.Get("Authorization"); a != "" {
			leaked = append(leaked, a)
		}
		fmt.Fprint(w, "x")
	}))
	t.Cleanup(elsewhere.Close)
	there := strings.Replace(elsewhere.URL, "127.0.0.1", "localhost", 1)
	hub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		switch {
		case q.Header.Get("Authorization") != "Bearer hf_token":
			w.WriteHeader(http.StatusUnauthorized)
		case q.URL.Path == "/api/datasets/gaia-benchmark/GAIA/revision/main":
			fmt.Fprintf(w, `{"sha":%q}`, someCommit)
		case q.URL.Path == "/datasets/gaia-benchmark/GAIA/resolve/"+someCommit+"/2023/validation/metadata.jsonl":
			fmt.Fprint(w, rows)
		case strings.HasSuffix(q.URL.Path, "/2023/validation/a.xlsx"):
			http.Redirect(w, q, there+"/blob", http.StatusFound)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(hub.Close)
	return hub, &leaked
}

func TestHubIsReadAtOneCommit(t *testing.T) {
	hub, leaked := newHub(t, row(map[string]any{"file_name": "a.xlsx"})+"\n")
	d, err := ReadHub(context.Background(), Hub{URL: hub.URL, Token: "hf_token"}, Options{Split: Validation})
	if err != nil || len(d.Tasks) != 1 || string(d.Tasks[0].File.Data) != "x" || d.Revision != someCommit {
		t.Fatalf("%+v, %v", d, err)
	}
	if len(*leaked) > 0 {
		t.Errorf("the token went to another host: %v", *leaked)
	}
}

func TestHubRefusals(t *testing.T) {
	hub, _ := newHub(t, row(map[string]any{"file_name": "../x"})+"\n")
	missing, _ := newHub(t, row(map[string]any{"file_name": "gone.pdf"})+"\n")
	for _, tt := range []struct {
		name string
		hub  Hub
		want refusal.Name
	}{
		{"no token", Hub{URL: hub.URL}, refusal.Usage},
		{"a token over plain http", Hub{URL: "http://hub.example", Token: "hf_token"}, refusal.Usage},
		{"no address", Hub{URL: "hub", Token: "hf_token"}, refusal.Usage},
		{"another's token", Hub{URL: hub.URL, Token: "hf_other"}, refusal.Unreadable},
		{"a name that leaves the folder", Hub{URL: hub.URL, Token: "hf_token"}, refusal.Malformed},
		{"a file that the hub has not", Hub{URL: missing.URL, Token: "hf_token"}, refusal.Malformed},
		{"a revision that it has not", Hub{URL: hub.URL, Token: "hf_token", Revision: "other"}, refusal.NotFound},
	} {
		if _, err := ReadHub(context.Background(), tt.hub, Options{Split: Validation}); !refusal.Is(err, tt.want) || strings.Contains(fmt.Sprint(err), "hf_") {
			t.Errorf("%s: %v, want %s", tt.name, err, tt.want)
		}
	}
}
