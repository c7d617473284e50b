package gateway

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/session"
	"tallystick/internal/run/tools"
	"tallystick/internal/run/trajectory"
)

// protocolVersions are the versions of MCP that are spoken here, the newest
// first. For a tools-only server without streams they differ in one thing:
// 2025-03-26 has batches. Clients of the later stateless revision fall back to
// these.
var protocolVersions = []string{"2025-11-25", "2025-06-18", batchVersion, "2024-11-05"}

const batchVersion = "2025-03-26"

const (
	maxBatch = 100
	maxPeers = 256
)

const (
	sessionHeader = "Mcp-Session-Id"
	versionHeader = "Mcp-Protocol-Version"
)

// mcp answers at the MCP endpoint (Streamable HTTP). Every answer is plain
// JSON: a server may stream and this one has nothing to stream.
func (x *exchange) mcp() {
	if !x.sameOrigin() {
		return
	}
	switch x.r.Method {
	case http.MethodPost:
		x.mcpPost()
	case http.MethodDelete:
		x.mcpDelete()
	case http.MethodGet:
		// A client asks for messages of the server at any time; see Close.
		x.w.Header().Set("Allow", "POST, DELETE")
		p := problem{http.StatusMethodNotAllowed, refusal.Usage, "this server sends no messages of its own"}
		x.g.hold(x.event(p.status, len(x.render(p)), ""))
		x.send(p)
	default:
		x.only(http.MethodPost, http.MethodDelete, http.MethodGet)
	}
}

// hold keeps an event for Close.
func (g *Gateway) hold(e *trajectory.TransportRequest) {
	if !g.countRefused() {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.later = append(g.later, e)
}

// sameOrigin refuses requests of web pages from elsewhere, as the protocol
// demands against DNS rebinding. Programs send no Origin.
func (x *exchange) sameOrigin() bool {
	origin := x.r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	if u, err := url.Parse(origin); err == nil && u.Host == x.r.Host {
		return true
	}
	_ = x.g.cfg.Session.Security(trajectory.SecurityEvent{Name: "gateway.foreign_origin", Severity: evidence.Warn,
		Detail: "an MCP request came from a web page of another origin"})
	x.fail(problem{http.StatusForbidden, refusal.Usage, "the request comes from a web page of another origin"})
	return false
}

func (x *exchange) mcpDelete() {
	id := x.r.Header.Get(sessionHeader)
	x.g.mu.Lock()
	_, known := x.g.peers[id]
	delete(x.g.peers, id)
	x.g.mu.Unlock()
	if !known {
		x.noPeer(id)
		return
	}
	x.answer(http.StatusNoContent, "", nil, "")
}

// noPeer answers a request in no MCP session, or in one that is over, or in one
// that this case never had.
func (x *exchange) noPeer(id string) {
	if id == "" {
		x.fail(problem{http.StatusBadRequest, refusal.Usage, "the header " + sessionHeader + " is missing; begin with initialize"})
		return
	}
	if !x.g.began(id) && x.g.countRefused() {
		x.g.refuse("gateway.foreign_session", "a request came in an MCP session that this case did not begin", "gateway:route")
	}
	x.fail(problem{http.StatusNotFound, refusal.NotFound, "there is no such MCP session; begin again with initialize"})
}

// newPeerID names an MCP session such that the gateway of another turn of the
// same case knows it for one of the case.
func (g *Gateway) newPeerID() string {
	id := rand.Text()
	return id + "-" + g.mark(id)
}

func (g *Gateway) mark(id string) string {
	h := hmac.New(sha256.New, []byte(g.cfg.Token))
	h.Write([]byte("tallystick mcp session " + id))
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// began reports whether an MCP session was begun in this case.
func (g *Gateway) began(id string) bool {
	name, mark, _ := strings.Cut(id, "-")
	return hmac.Equal([]byte(mark), []byte(g.mark(name)))
}

func (x *exchange) mcpPost() {
	body, ok := x.body()
	if !ok {
		return
	}
	if !jsontext.Value(body).IsValid() {
		x.fail(problem{http.StatusBadRequest, refusal.Unreadable, "the body is not JSON"})
		return
	}
	if v := x.r.Header.Get(versionHeader); v != "" && !slices.Contains(protocolVersions, v) {
		x.wrongVersion(body, v)
		return
	}
	if jsontext.Value(body).Kind() == '[' {
		x.batch(body)
		return
	}
	m, err := parseMessage(body)
	if err != nil {
		x.fail(problem{http.StatusBadRequest, refusal.Malformed, "reading the message: " + err.Error()})
		return
	}
	if fault := m.invalid(); fault != "" {
		x.fail(problem{http.StatusBadRequest, refusal.Malformed, fault})
		return
	}
	if m.isRequest() && m.Method == "initialize" {
		x.initialize(m)
		return
	}
	if _, ok := x.peer(); !ok {
		return
	}
	if !m.isRequest() {
		x.answer(http.StatusAccepted, "", nil, "")
		return
	}
	x.respond(x.call(m))
}

// wrongVersion tells a client which versions there are. The code and its data
// are those by which clients of later revisions know to fall back.
func (x *exchange) wrongVersion(body []byte, asked string) {
	var id jsontext.Value
	if m, err := parseMessage(body); err == nil && m.ID != nil && validID(m.ID) {
		id = m.ID
	}
	r := failed(id, codeVersion, "this version of the protocol is not spoken here", "")
	r.Error.Data = struct {
		Supported []string `json:"supported"`
		Requested string   `json:"requested"`
	}{protocolVersions, x.g.visible(asked, 64)}
	x.answer(http.StatusBadRequest, "application/json", encode(r), r.Error.Message)
}

// peer finds the version that the client's session speaks.
func (x *exchange) peer() (version string, ok bool) {
	id := x.r.Header.Get(sessionHeader)
	x.g.mu.Lock()
	version, ok = x.g.peers[id]
	x.g.mu.Unlock()
	if !ok {
		x.noPeer(id)
	}
	return version, ok
}

// respond sends the answer to one request.
func (x *exchange) respond(r *response) {
	trouble := ""
	if r.Error != nil {
		trouble = r.Error.Message
	}
	x.answer(http.StatusOK, "application/json", encode(r), trouble)
}

// batch answers several messages at once, one after the other.
func (x *exchange) batch(body []byte) {
	version, ok := x.peer()
	if !ok {
		return
	}
	var items []jsontext.Value
	err := json.Unmarshal(body, &items)
	switch {
	case version != batchVersion:
		x.fail(problem{http.StatusBadRequest, refusal.Malformed, "version " + version + " of the protocol has no batches"})
		return
	case err != nil:
		x.fail(problem{http.StatusBadRequest, refusal.Malformed, "reading the batch: " + err.Error()})
		return
	case len(items) == 0 || len(items) > maxBatch:
		x.fail(problem{http.StatusBadRequest, refusal.Malformed, "a batch has 1 to 100 messages"})
		return
	}
	var answers []*response
	trouble := ""
	for _, item := range items {
		r := x.batched(item)
		if r == nil {
			continue
		}
		if r.Error != nil && trouble == "" {
			trouble = r.Error.Message
		}
		answers = append(answers, r)
	}
	if answers == nil {
		x.answer(http.StatusAccepted, "", nil, "")
		return
	}
	x.answer(http.StatusOK, "application/json", encode(answers), trouble)
}

func (x *exchange) batched(item []byte) *response {
	m, err := parseMessage(item)
	if err != nil {
		return failed(nil, codeInvalidRequest, "the message is malformed", "")
	}
	if fault := m.invalid(); fault != "" {
		return failed(nil, codeInvalidRequest, fault, "")
	}
	switch {
	case !m.isRequest():
		return nil
	case m.Method == "initialize":
		return failed(m.ID, codeInvalidRequest, "initialize stands in no batch", "")
	}
	return x.call(m)
}

// initialize begins an MCP session.
func (x *exchange) initialize(m message) {
	var params struct {
		ProtocolVersion *string `json:"protocolVersion"`
	}
	if err := json.Unmarshal(m.Params, &params); err != nil || params.ProtocolVersion == nil {
		x.respond(failed(m.ID, codeInvalidParams, "params.protocolVersion is missing or no text", ""))
		return
	}
	version := *params.ProtocolVersion
	if !slices.Contains(protocolVersions, version) {
		version = protocolVersions[0]
	}
	id := x.g.newPeerID()
	x.g.mu.Lock()
	full := len(x.g.peers) >= maxPeers
	if !full {
		x.g.peers[id] = version
	}
	x.g.mu.Unlock()
	if full {
		x.respond(failed(m.ID, codeStopped, "too many MCP sessions are open", refusal.TooLarge))
		return
	}
	x.w.Header().Set(sessionHeader, id)
	type toolsCapability struct {
		ListChanged bool `json:"listChanged"`
	}
	type capabilities struct {
		Tools toolsCapability `json:"tools"`
	}
	type implementation struct {
		Name string `json:"name"`
		// Version does not change with the program: what an agent is told must
		// not differ from run to run.
		Version string `json:"version"`
	}
	x.respond(succeeded(m.ID, struct {
		ProtocolVersion string         `json:"protocolVersion"`
		Capabilities    capabilities   `json:"capabilities"`
		ServerInfo      implementation `json:"serverInfo"`
	}{version, capabilities{}, implementation{"tallystick", "1"}}))
}

// call answers a request within a session.
func (x *exchange) call(m message) *response {
	switch m.Method {
	case "ping":
		return succeeded(m.ID, struct{}{})
	case "tools/list":
		return x.listTools(m)
	case "tools/call":
		return x.callTool(m)
	}
	return failed(m.ID, codeNoMethod, "there is no method "+x.g.visible(m.Method, 100), "")
}

type toolEntry struct {
	Name        string         `json:"name"`
	Description string         `json:"description,omitzero"`
	InputSchema jsontext.Value `json:"inputSchema"`
}

func (x *exchange) listTools(m message) *response {
	var params struct {
		Cursor *string `json:"cursor"`
	}
	if m.Params != nil {
		if err := json.Unmarshal(m.Params, &params); err != nil || params.Cursor != nil {
			return failed(m.ID, codeInvalidParams, "the list has one page, and no cursor leads to another", "")
		}
	}
	list := struct {
		Tools []toolEntry `json:"tools"`
	}{Tools: []toolEntry{}}
	for _, d := range x.g.cfg.Session.Tools() {
		list.Tools = append(list.Tools, toolEntry{d.Name, d.Description, inputSchema(d)})
	}
	return succeeded(m.ID, list)
}

// inputSchema is a tool's schema as MCP wants it: always there, and with a type
// that says object.
func inputSchema(d tools.Definition) jsontext.Value {
	var members map[string]jsontext.Value
	if err := json.Unmarshal(d.Schema, &members); err != nil || members == nil {
		return jsontext.Value(`{"type":"object"}`)
	}
	if members["type"] != nil {
		return jsontext.Value(d.Schema)
	}
	members["type"] = jsontext.Value(`"object"`)
	return encode(members)
}

type textContent struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// callTool has the session decide about a call and make it. A call that the
// policy denies, and one of a tool that is not there, is a result with an
// error: the model is meant to see it.
func (x *exchange) callTool(m message) *response {
	var params struct {
		Name      *string        `json:"name"`
		Arguments jsontext.Value `json:"arguments"`
	}
	if err := json.Unmarshal(m.Params, &params); err != nil || params.Name == nil || *params.Name == "" {
		return failed(m.ID, codeInvalidParams, "params.name is missing or no text", "")
	}
	args := []byte(params.Arguments)
	if args == nil {
		args = []byte("{}")
	}
	reply, err := x.g.cfg.Session.Tool(x.g.ctx, session.ToolCall{Name: *params.Name, Args: args})
	if err != nil {
		p := problemOf(err)
		return failed(m.ID, codeStopped, x.g.visible(string(p.name)+": "+p.message, maxMessage), p.name)
	}
	return succeeded(m.ID, struct {
		Content []textContent `json:"content"`
		IsError bool          `json:"isError"`
	}{[]textContent{{"text", reply.Text}}, reply.IsError})
}
