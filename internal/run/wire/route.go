package wire

import (
	"fmt"
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

	// Of an API with deployments: the path is an older one, with the name of one as
	// Model where it has that, and Version is what the query says of the API's.
	Deployment bool
	Version    string

	// Framing is how the client wants the events of a stream.
	Framing Framing
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
	for _, list := range [][]*row{table, silent} {
		for _, r := range list {
			for _, kind := range [...]struct {
				path  string
				route Route
			}{
				{r.path, Route{}}, {r.streamPath, Route{Stream: true}}, {r.countPath, Route{CountTokens: true}},
				{r.batchPath, Route{}}, {r.deploymentPath, Route{Deployment: true}}, {r.barePath, Route{Deployment: true}},
			} {
				if kind.path == "" {
					continue
				}
				if model, ok := r.matchPath(strings.TrimPrefix(kind.path, beginning(r)), path); ok {
					kind.route.API, kind.route.Model, kind.route.Framing = r.api, model, r.framing
					return kind.route, true
				}
			}
		}
	}
	return Route{}, false
}

// matchPath compares a path with one that may have a place for a model.
func (r *row) matchPath(pattern, path string) (model string, ok bool) {
	before, after, hasPlace := strings.Cut(pattern, inPath)
	if !hasPlace {
		return "", path == pattern
	}
	rest, begins := strings.CutPrefix(path, before)
	model, ends := strings.CutSuffix(rest, after)
	return model, begins && ends && r.isModelInPath(model)
}

// isModelInPath reports whether a name can stand in a path. The author of a
// request chooses it, so it must not lead to another path of the provider.
func (r *row) isModelInPath(name string) bool {
	for i := range len(name) {
		if !isIDByte(name[i]) && name[i] != '.' && strings.IndexByte(r.modelBytes, name[i]) < 0 {
			return false
		}
	}
	return name != ""
}

// escapeModel spells a name as one segment of a path: whatever stands in it, a
// slash too, leads nowhere else.
func escapeModel(name string) string {
	var b strings.Builder
	for i := range len(name) {
		if c := name[i]; isIDByte(c) || c == '.' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// version is what stands in front of the endpoints of an API, as in /v1; "" if
// its paths begin with something else.
func (r *row) version() string {
	end := strings.Index(r.path[1:], "/")
	if v := r.path[:end+1]; len(v) > 2 && v[1] == 'v' && '0' <= v[2] && v[2] <= '9' {
		return v
	}
	return ""
}

// Versions lists what stands in front of the endpoints of the APIs.
func Versions() []string {
	var list []string
	for _, r := range table {
		if v := r.version(); v != "" && !slices.Contains(list, v) {
			list = append(list, v)
		}
	}
	return list
}

// Paths lists where calls go.
func Paths() []string {
	var list []string
	for _, r := range rows() {
		for _, path := range []string{r.path, r.streamPath, r.batchPath, r.deploymentPath} {
			if path != "" {
				list = append(list, path)
			}
		}
	}
	return list
}

// maxVersion bounds the version of an API that a query names, such as
// 2024-10-21.
const maxVersion = 40

// Query takes over what the query of a request says.
func (t Route) Query(get func(name string) string) (Route, error) {
	r := t.API.must()
	if name, value, _ := strings.Cut(r.streamArgs, "="); t.Stream && r.streamArgs != "" && get(name) != value {
		if form := get(name); form != "" && form != "json" {
			return t, malformed("streams of %s are served with ?%s or as an array of JSON, found %s=%.40q", t.API, r.streamArgs, name, form)
		}
		t.Framing = JSONArray
	}
	t.Version = get(versionArg)
	if r.onDeployments != "" && t.Version != "" {
		t.API, t.Deployment = r.onDeployments, true
		r = t.API.must()
	}
	if r.deploymentPath == "" {
		t.Version = ""
		return t, nil
	}
	if len(t.Version) > maxVersion || strings.ContainsFunc(t.Version, func(c rune) bool { return c > 'z' || !isIDByte(byte(c)) && c != '.' }) {
		return t, malformed("%s is %.60q, expected one such as 2024-10-21", versionArg, t.Version)
	}
	return t, nil
}

// versionArg is the query member, and the member of a request inside this
// program, that names the version of an API with deployments; deploymentName is
// the member that has the deployment of the path.
const (
	versionArg     = "api-version"
	deploymentName = "deployment"
)

// Request is the body of a request as this program keeps it: with what the path
// says in it. A body whose API has nothing in the path stays as it is.
func (t Route) Request(body []byte) ([]byte, error) {
	if t.Model == "" && t.API.must().deploymentPath == "" {
		return body, nil
	}
	n, err := ParseNode(body)
	if err != nil {
		return nil, err
	}
	if n.Kind != '{' {
		return nil, malformed("the request to %s is not a JSON object", t.API)
	}
	if t.API.must().deploymentPath != "" {
		t.keepDeployment(&n)
		return n.Canonical()
	}
	n.Drop(func(name string, _ *Node) bool { return name == "stream" })
	n.Set("model", StringNode(t.Model))
	if t.Stream {
		n.Set("stream", Node{Kind: 't'})
	}
	return n.Canonical()
}

// keepDeployment writes into a request what only the path and the query say. A
// model that the body names is what clients send as well; the deployment counts.
func (t Route) keepDeployment(n *Node) {
	n.Drop(func(name string, _ *Node) bool { return name == deploymentName || name == versionArg })
	if t.Deployment {
		n.Set(deploymentName, StringNode(t.Model))
		if n.Str("model") == "" && t.Model != "" {
			n.Set("model", StringNode(t.Model))
		}
	}
	if t.Version != "" {
		n.Set(versionArg, StringNode(t.Version))
	}
}

// Outgoing is the reverse of [Route.Request]: where a request goes at a base URL,
// such as that of [Provider.BaseURL], and what is sent there. The API must be
// known.
func (a API) Outgoing(base string, body []byte) (url string, sent []byte, err error) {
	r := a.must()
	if r.deploymentPath == "" && !strings.Contains(r.path, inPath) {
		return base + strings.TrimPrefix(r.path, r.provider.BasePath), body, nil
	}
	n, err := ParseNode(body)
	if err != nil {
		return "", nil, err
	}
	if r.deploymentPath != "" {
		return r.toDeployment(base, &n)
	}
	model := n.Str("model")
	if !r.isModelInPath(model) {
		return "", nil, r.badModel(model)
	}
	path, query := r.path, ""
	if s := n.Get("stream"); s != nil && s.Kind == 't' {
		path = r.streamPath
		if r.streamArgs != "" {
			query = "?" + r.streamArgs
		}
	}
	if r.batchName != "" && n.Get(r.batchName) != nil {
		path = r.batchPath
	}
	n.Drop(func(name string, _ *Node) bool { return name == "model" || name == "stream" })
	return base + strings.TrimPrefix(strings.Replace(path, inPath, escapeModel(model), 1), r.provider.BasePath) + query, n.AppendJSON(nil), nil
}

func (r *row) badModel(model string) error {
	return malformed("the model of a request to %s is %.60q, expected a name of letters, digits, dots, dashes and underscores", r.api, model)
}

// toDeployment is [API.Outgoing] of an API with deployments.
func (r *row) toDeployment(base string, n *Node) (url string, sent []byte, err error) {
	path, deployment := r.path, n.Str(deploymentName)
	if n.Get(deploymentName) != nil {
		if strings.Contains(r.deploymentPath, inPath) && !r.isModelInPath(deployment) {
			return "", nil, r.badModel(deployment)
		}
		path = strings.Replace(r.deploymentPath, inPath, escapeModel(deployment), 1)
	}
	version := n.Str(versionArg)
	if version != "" {
		path += "?" + versionArg + "=" + version
	}
	if _, err := (Route{API: r.api}).Query(func(string) string { return version }); err != nil {
		return "", nil, err
	}
	n.Drop(func(name string, _ *Node) bool { return name == deploymentName || name == versionArg })
	return base + path, n.AppendJSON(nil), nil
}
