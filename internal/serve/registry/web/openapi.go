package web

import (
	_ "embed"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"tallystick/internal/record/canon"
)

// schemas.json has the components: one JSON Schema for each body that is taken or
// given.
//
//go:embed schemas.json
var schemasFile []byte

// openAPI makes the OpenAPI 3.1 document of the table.
func openAPI(table []route, publicURL string) ([]byte, error) {
	var schemas map[string]any
	if err := canon.Unmarshal(schemasFile, &schemas); err != nil {
		return nil, fmt.Errorf("schemas.json: %w", err)
	}
	paths := map[string]map[string]any{}
	for _, r := range table {
		for name, text := range r.schemas {
			var schema any
			if err := canon.Unmarshal([]byte(text), &schema); err != nil {
				return nil, fmt.Errorf("the schema %s: %w", name, err)
			}
			schemas[name] = schema
		}
		op, err := r.operation()
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", r.method, r.path, err)
		}
		path := openAPIPath(r.path)
		if paths[path] == nil {
			paths[path] = map[string]any{}
		}
		paths[path][strings.ToLower(r.method)] = op
	}
	doc := map[string]any{
		"openapi": "3.1.0",
		"info": map[string]any{
			"title": "Tallystick registry", "version": "1",
			"description": "A catalogue of evaluations and a credential service. A path parameter named path has slashes in it. " +
				"Reads that need no API key have an ETag and may be read by pages elsewhere. Repeat a proposal or an issue with the same Idempotency-Key to get the same answer.",
		},
		"paths":      paths,
		"components": map[string]any{"schemas": schemas, "securitySchemes": map[string]any{"apiKey": map[string]any{"type": "http", "scheme": "bearer", "bearerFormat": "ak_…"}}},
	}
	if publicURL != "" {
		doc["servers"] = []any{map[string]any{"url": publicURL}}
	}
	text, err := canon.Marshal(doc)
	return append(text, '\n'), err
}

// openAPIPath spells a path of the mux as OpenAPI does.
func openAPIPath(path string) string {
	return strings.ReplaceAll(strings.TrimSuffix(path, "{$}"), "...}", "}")
}

// reference names a component.
func reference(schema string) map[string]any {
	return map[string]any{"$ref": "#/components/schemas/" + schema}
}

// operation describes one route.
func (r *route) operation() (map[string]any, error) {
	op := map[string]any{"operationId": r.name, "summary": r.summary}
	op["security"] = []any{}
	if r.access != public {
		op["security"] = []any{map[string]any{"apiKey": []any{}}}
	}
	params, err := r.parameters()
	if err != nil {
		return nil, err
	}
	if len(params) > 0 {
		op["parameters"] = params
	}
	if r.takes != "" {
		op["requestBody"] = map[string]any{
			"required": true,
			"content":  map[string]any{typeJSON: map[string]any{"schema": reference(r.takes)}},
		}
	}
	responses := map[string]any{}
	for _, g := range r.gives {
		addResponse(responses, g)
	}
	if r.shared() {
		responses[strconv.Itoa(http.StatusNotModified)] = map[string]any{"description": "the tag in If-None-Match is still that of the answer"}
	}
	for status, about := range r.problems() {
		if _, described := responses[strconv.Itoa(status)]; !described {
			problem := gives{status, typeJSON, "Error", about}
			if r.page {
				problem.media, problem.schema = typeHTML, ""
			}
			addResponse(responses, problem)
		}
	}
	op["responses"] = responses
	return op, nil
}

func addResponse(responses map[string]any, g gives) {
	key := strconv.Itoa(g.status)
	media := map[string]any{}
	if g.schema != "" {
		media["schema"] = reference(g.schema)
	}
	if before, there := responses[key].(map[string]any); there {
		before["content"].(map[string]any)[mediaOf(g.media)] = media
		return
	}
	responses[key] = map[string]any{"description": g.about, "content": map[string]any{mediaOf(g.media): media}}
}

// mediaOf is a media type without its parameters.
func mediaOf(contentType string) string {
	kind, _, _ := strings.Cut(contentType, ";")
	return kind
}

// parameters lists the wildcards of the path and the members of the query.
func (r *route) parameters() ([]any, error) {
	var all []any
	for rest := r.path; ; {
		_, after, found := strings.Cut(rest, "{")
		if !found {
			break
		}
		name, tail, _ := strings.Cut(after, "}")
		rest = tail
		if name = strings.TrimSuffix(name, "..."); name == "$" {
			continue
		}
		schema := map[string]any{"type": "string"}
		if name == "kind" && strings.HasPrefix(r.path, "/api/knowledge/") {
			schema["enum"] = things
		}
		all = append(all, map[string]any{"name": name, "in": "path", "required": true, "schema": schema})
	}
	for _, q := range r.query {
		all = append(all, map[string]any{"name": q.name, "in": "query", "description": q.about, "schema": canon.RawMessage(q.schema)})
	}
	if r.once() {
		all = append(all, map[string]any{"name": "Idempotency-Key", "in": "header", "description": "the same key with the same body gets the same answer",
			"schema": map[string]any{"type": "string", "maxLength": maxIdempotencyBytes}})
	}
	return all, nil
}

// problems lists the errors that a route can answer with.
func (r *route) problems() map[int]string {
	p := map[int]string{
		http.StatusInternalServerError: "the registry's fault; tell the operator the request id",
		http.StatusServiceUnavailable:  "not now, or not here: the server is busy or only reads",
	}
	p[http.StatusBadRequest] = "the request is malformed, or what it says is refused"
	if r.operations {
		return p
	}
	p[http.StatusTooManyRequests] = "too many requests; Retry-After says how long to wait"
	p[http.StatusRequestEntityTooLarge] = "too large"
	if strings.Contains(r.path, "{") || r.writes || r.method == http.MethodPost || r.name == "did" || r.name == "didBelow" {
		p[http.StatusNotFound] = "there is no such thing"
		p[http.StatusGone] = "the operator took it down; a tombstone is left"
	}
	if r.takes != "" {
		p[http.StatusUnsupportedMediaType] = "the body is not application/json"
	}
	if r.access != public {
		p[http.StatusUnauthorized] = "no API key, or one that is unknown or revoked"
		p[http.StatusForbidden] = "this agent may not do that"
	}
	if r.writes {
		p[http.StatusConflict] = "it contradicts what is there: a path that is taken, an idempotency key used before, a decision made"
	}
	return p
}
