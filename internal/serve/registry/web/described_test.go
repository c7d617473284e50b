package web

import (
	"encoding/json"
	"mime"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/schema"
)

// A description is the OpenAPI document of a server, read as a client reads it.
type description struct {
	paths   map[string]map[string]operation
	schemas map[string]canon.RawMessage

	mu       sync.Mutex
	compiled map[string]*schema.Schema
	seen     map[string]map[int]bool // operation to the statuses that tests saw
}

type operation struct {
	ID        string `json:"operationId"`
	Responses map[string]struct {
		Content map[string]struct {
			Schema canon.RawMessage `json:"schema"`
		} `json:"content"`
	} `json:"responses"`
}

func readDescription(t testing.TB, text []byte) *description {
	t.Helper()
	var doc struct {
		Paths      map[string]map[string]json.RawMessage `json:"paths"`
		Components struct {
			Schemas map[string]canon.RawMessage `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	d := &description{paths: map[string]map[string]operation{}, schemas: doc.Components.Schemas, compiled: map[string]*schema.Schema{}, seen: map[string]map[int]bool{}}
	for path, methods := range doc.Paths {
		d.paths[path] = map[string]operation{}
		for method, raw := range methods {
			var op operation
			if err := json.Unmarshal(raw, &op); err != nil {
				t.Fatal(err)
			}
			d.paths[path][strings.ToUpper(method)] = op
		}
	}
	return d
}

// schemaOf compiles a schema of the document together with its components.
func (d *description) schemaOf(t testing.TB, raw canon.RawMessage) *schema.Schema {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.compiled[string(raw)]; s != nil {
		return s
	}
	defs, err := canon.Marshal(d.schemas)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(`{"allOf":[`+string(raw)+`],"$defs":`+string(defs)+`}`, "#/components/schemas/", "#/$defs/")
	s, err := schema.Compile([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	d.compiled[string(raw)] = s
	return s
}

// described answers as the server does, and fails the test on an answer that its
// OpenAPI document does not describe: a route, a method, a status, a type or a body.
func described(t testing.TB, s *Server, d *description) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := httptest.NewRecorder()
		s.ServeHTTP(rec, r)
		if problem := d.check(t, s, r, rec); problem != "" {
			t.Errorf("%s %s answered %d with %s: %s\n%.600s", r.Method, r.URL.Path, rec.Code, rec.Header().Get("Content-Type"), problem, rec.Body)
		}
		for name, values := range rec.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(rec.Code)
		w.Write(rec.Body.Bytes())
	})
}

func (d *description) check(t testing.TB, s *Server, r *http.Request, rec *httptest.ResponseRecorder) string {
	if rec.Header().Get("X-Request-Id") == "" || rec.Header().Get("X-Content-Type-Options") != "nosniff" || rec.Header().Get("Cache-Control") == "" {
		return "a header that every answer has is missing"
	}
	pattern := ""
	if checkPath(r.URL) == nil {
		_, pattern = s.mux.Handler(r)
	}
	if pattern == "" || pattern == "/" {
		if !slices.Contains([]int{400, 404, 413, 503}, rec.Code) {
			return "the route is not in the table"
		}
		if r.Method == http.MethodHead && rec.Body.Len() == 0 {
			return ""
		}
		return d.body(t, canon.RawMessage(`{"$ref":"#/components/schemas/Error"}`), rec)
	}
	path := d.paths[openAPIPath(pattern)]
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	op, known := path[method]
	switch {
	case path == nil:
		return "the route is not described"
	case !known && r.Method == http.MethodOptions:
		if rec.Code != http.StatusNoContent {
			return "OPTIONS is answered with 204"
		}
		return ""
	case !known:
		if rec.Code != http.StatusMethodNotAllowed || rec.Header().Get("Allow") == "" {
			return "a method that is not described is answered with 405 and Allow"
		}
		return d.body(t, canon.RawMessage(`{"$ref":"#/components/schemas/Error"}`), rec)
	}
	d.mu.Lock()
	if d.seen[op.ID] == nil {
		d.seen[op.ID] = map[int]bool{}
	}
	d.seen[op.ID][rec.Code] = true
	d.mu.Unlock()
	response, known := op.Responses[strconv.Itoa(rec.Code)]
	if !known {
		return "the status is not described"
	}
	if rec.Code == http.StatusNotModified {
		if rec.Body.Len() > 0 {
			return "304 with a body"
		}
		return ""
	}
	media, _, err := mime.ParseMediaType(rec.Header().Get("Content-Type"))
	if err != nil {
		return err.Error()
	}
	content, known := response.Content[media]
	if !known {
		return "the type is not described"
	}
	if r.Method == http.MethodHead {
		if rec.Body.Len() > 0 {
			return "HEAD with a body"
		}
		return ""
	}
	if content.Schema == nil {
		return ""
	}
	return d.body(t, content.Schema, rec)
}

func (d *description) body(t testing.TB, raw canon.RawMessage, rec *httptest.ResponseRecorder) string {
	var found []string
	for _, p := range d.schemaOf(t, raw).Check(rec.Body.Bytes()) {
		found = append(found, p.String())
	}
	return strings.Join(found, "; ")
}

// The middleware must be able to fail.
func TestAnUndescribedAnswerIsNoticed(t *testing.T) {
	s, err := New(Config{PublicURL: "https://r.example"})
	if err != nil {
		t.Fatal(err)
	}
	d := readDescription(t, s.spec)
	for _, tt := range []struct {
		name, method, path string
		status             int
		contentType, body  string
		want               string
	}{
		{"as described", "GET", "/healthz", 200, typeText, "ok\n", ""},
		{"another status", "GET", "/healthz", 201, typeText, "ok\n", "status is not described"},
		{"another type", "GET", "/healthz", 200, "text/html", "ok\n", "type is not described"},
		{"a body that does not fit", "POST", "/api/credentials/dry-run", 200, typeJSON, `{"valid":true}`, "schemaUrl"},
		{"one more member", "POST", "/api/credentials/dry-run", 200, typeJSON, `{"valid":true,"schemaUrl":"/x","errors":[],"more":1}`, "more"},
		{"no route", "GET", "/nowhere", 200, typeText, "ok", "not in the table"},
		{"a method that is not described", "DELETE", "/healthz", 200, typeText, "ok", "405"},
		{"an error of another shape", "GET", "/nowhere", 404, typeJSON, `{"message":"x"}`, "error"},
		{"a private key in a key set", "GET", "/.well-known/jwks.json", 200, typeJWKS, `{"keys":[{"kty":"OKP","crv":"Ed25519","x":"AA","kid":"k","d":"AA"}]}`, "keys[0]"},
		{"a row without receipt", "GET", "/api/knowledge/eval/list", 200, typeJSON, `[{"proposalId":"x"}]`, "[0]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rec := httptest.NewRecorder()
			h := rec.Header()
			h.Set("X-Request-Id", "x")
			h.Set("X-Content-Type-Options", "nosniff")
			h.Set("Cache-Control", "no-store")
			h.Set("Content-Type", tt.contentType)
			rec.WriteHeader(tt.status)
			rec.WriteString(tt.body)
			got := d.check(t, s, httptest.NewRequest(tt.method, tt.path, nil), rec)
			if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// Every schema that a route names is there, compiles, and every schema is named.
func TestTheOpenAPIDocumentIsWhole(t *testing.T) {
	s, err := New(Config{PublicURL: "https://r.example"})
	if err != nil {
		t.Fatal(err)
	}
	d := readDescription(t, s.spec)
	for name := range d.schemas {
		d.schemaOf(t, canon.RawMessage(`{"$ref":"#/components/schemas/`+name+`"}`))
		if !strings.Contains(string(s.spec), `"#/components/schemas/`+name+`"`) {
			t.Errorf("no route uses the schema %s", name)
		}
	}
	names := map[string]bool{}
	for _, r := range routes() {
		if names[r.name] {
			t.Errorf("two routes are called %s", r.name)
		}
		names[r.name] = true
		for _, g := range append(r.gives, gives{schema: r.takes}) {
			if _, known := d.schemas[g.schema]; g.schema != "" && !known {
				t.Errorf("%s names the schema %s, which is not there", r.name, g.schema)
			}
		}
	}
}
