package wire

import (
	"slices"
	"strings"
)

// A Route is what a path stands for.
type Route struct {
	API         API
	CountTokens bool // not a call: the tokens of one are to be counted

	// Of an API that has them in the path.
	Model  string
	Stream bool
}

// inPath stands for the name of a model in the path of a row.
const inPath = "{model}"

// RouteOf finds the API that has a path, as in /v1/messages.
func RouteOf(path string) (Route, bool) {
	return routeOf(path, func(r *row) string { return "" })
}

// RouteOfEndpoint is [RouteOf] for a path without the version in front of it, as
// in /messages.
func RouteOfEndpoint(endpoint string) (Route, bool) { return routeOf(endpoint, (*row).version) }

// routeOf compares a path with those of the rows without their beginning.
func routeOf(path string, beginning func(*row) string) (Route, bool) {
	for _, r := range table {
		for _, kind := range []struct {
			path  string
			route Route
		}{{r.path, Route{API: r.api}}, {r.streamPath, Route{API: r.api, Stream: true}}, {r.countPath, Route{API: r.api, CountTokens: true}}} {
			if kind.path == "" {
				continue
			}
			if model, ok := matchPath(strings.TrimPrefix(kind.path, beginning(r)), path); ok {
				kind.route.Model = model
				return kind.route, true
			}
		}
	}
	return Route{}, false
}

// matchPath compares a path with one that may have a place for a model.
func matchPath(pattern, path string) (model string, ok bool) {
	before, after, hasPlace := strings.Cut(pattern, inPath)
	if !hasPlace {
		return "", path == pattern
	}
	rest, begins := strings.CutPrefix(path, before)
	model, ends := strings.CutSuffix(rest, after)
	return model, begins && ends && isModelInPath(model)
}

// isModelInPath reports whether a name can stand in a path. The author of a
// request chooses it, so it must not lead to another path of the provider.
func isModelInPath(name string) bool {
	for i := range len(name) {
		if !isIDByte(name[i]) && name[i] != '.' {
			return false
		}
	}
	return name != ""
}

// version is what stands in front of the endpoints of an API, as in /v1.
func (r *row) version() string {
	end := strings.Index(r.path[1:], "/")
	return r.path[:end+1]
}

// Versions lists what stands in front of the endpoints of the APIs.
func Versions() []string {
	var list []string
	for _, r := range table {
		if !slices.Contains(list, r.version()) {
			list = append(list, r.version())
		}
	}
	return list
}

// Paths lists where calls go.
func Paths() []string {
	var list []string
	for _, r := range table {
		list = append(list, r.path)
		if r.streamPath != "" {
			list = append(list, r.streamPath)
		}
	}
	return list
}

// CheckQuery refuses a request for a stream in a form that this program does not
// write. Has reports whether the query has a name with a value.
func (t Route) CheckQuery(has func(name, value string) bool) error {
	r := t.API.must()
	if name, value, _ := strings.Cut(r.streamArgs, "="); t.Stream && r.streamArgs != "" && !has(name, value) {
		return malformed("streams of %s are served as events only; ask for them with ?%s", t.API, r.streamArgs)
	}
	return nil
}

// Request is the body of a request as this program keeps it: with what the path
// says in it. A body whose API has nothing in the path stays as it is.
func (t Route) Request(body []byte) ([]byte, error) {
	if t.Model == "" {
		return body, nil
	}
	n, err := ParseNode(body)
	if err != nil {
		return nil, err
	}
	if n.Kind != '{' {
		return nil, malformed("the request to %s is not a JSON object", t.API)
	}
	n.Drop(func(name string, _ *Node) bool { return name == "stream" })
	n.Set("model", StringNode(t.Model))
	if t.Stream {
		n.Set("stream", Node{Kind: 't'})
	}
	return n.Canonical()
}

// Outgoing is the reverse of [Route.Request]: where a request goes at a base URL,
// such as that of [Provider.BaseURL], and what is sent there. The API must be
// known.
func (a API) Outgoing(base string, body []byte) (url string, sent []byte, err error) {
	r := a.must()
	if !strings.Contains(r.path, inPath) {
		return base + strings.TrimPrefix(r.path, r.provider.BasePath), body, nil
	}
	n, err := ParseNode(body)
	if err != nil {
		return "", nil, err
	}
	model := n.Str("model")
	if !isModelInPath(model) {
		return "", nil, malformed("the model of a request to %s is %.60q, expected a name of letters, digits, dots, dashes and underscores", a, model)
	}
	path := r.path
	if s := n.Get("stream"); s != nil && s.Kind == 't' {
		path = r.streamPath + "?" + r.streamArgs
	}
	n.Drop(func(name string, _ *Node) bool { return name == "model" || name == "stream" })
	return base + strings.TrimPrefix(strings.Replace(path, inPath, model, 1), r.provider.BasePath), n.AppendJSON(nil), nil
}
