package provider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/journal"
	"tallystick/internal/run/tools"
)

// mcpVersions are the revisions of MCP that are spoken here, the newest first.
// All of them begin with initialize. A server that only knows the later
// revisions without it refuses initialize, and that is reported.
var mcpVersions = []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}

// Bounds of what a server may send for one request.
const (
	maxMessageBytes  = 8 << 20
	maxNotifications = 1000
	maxPages         = 100
)

// ToolsConfig is what the MCP servers of one case are called with.
type ToolsConfig struct {
	Access   *Access
	Recorder *cassette.Recorder

	// OnlyMissing, if not nil, answers what it has; a server is not even
	// started before something is missing.
	OnlyMissing *cassette.Player

	// Cached, if not nil, is asked before a server is; see [CaseOptions].
	Cached func(cassette.Request) (cassette.Borrowed, error)

	// Journal, if not nil, has each call of a tool on disk before it is sent,
	// and its result before a caller sees it.
	Journal *journal.Running

	// Dir is the folder that commands start in; the settings' own if empty.
	Dir string
}

// LiveTools calls live MCP servers and records each exchange, the handshake
// included. A server is started, or connected to, by the first exchange that
// needs it, and stopped by Close. After a failure of the connection every
// further exchange with that server fails: what it remembered is lost, and a
// fresh one would answer as if nothing had happened. It is safe for concurrent
// use; exchanges with one server follow each other.
type LiveTools struct {
	cfg ToolsConfig

	mu      sync.Mutex
	servers map[string]*mcpServer
}

// NewTools makes a LiveTools. Nothing is started yet.
func NewTools(cfg ToolsConfig) (*LiveTools, error) {
	if cfg.Access == nil || cfg.Recorder == nil {
		return nil, refusal.Newf(refusal.Failed, "live tools need their access and a recorder")
	}
	if cfg.Dir == "" {
		cfg.Dir = cfg.Access.Settings.dir
	}
	return &LiveTools{cfg: cfg, servers: map[string]*mcpServer{}}, nil
}

// Tools lists the tools of a server: the objects of the answers to tools/list,
// all pages, as they were recorded.
func (t *LiveTools) Tools(ctx context.Context, server string) ([]canon.RawMessage, error) {
	var all []canon.RawMessage
	var params []byte
	seen := map[string]bool{}
	for range maxPages {
		it, err := t.Exchange(ctx, server, "tools/list", params)
		if err != nil {
			return nil, err
		}
		if it.MCP.Error != nil {
			return nil, mcpFailure(server, "tools/list was answered with the error %.200s", it.MCP.Error)
		}
		var page struct {
			Tools      []canon.RawMessage `json:"tools"`
			NextCursor string             `json:"nextCursor"`
		}
		if err := json.Unmarshal(it.MCP.Result, &page); err != nil {
			return nil, mcpFailure(server, "the answer to tools/list is not a list of tools: %v", err)
		}
		all = append(all, page.Tools...)
		if page.NextCursor == "" {
			return all, nil
		}
		if seen[page.NextCursor] {
			return nil, mcpFailure(server, "tools/list gives the same page again and again")
		}
		seen[page.NextCursor] = true
		if params, err = canon.Marshal(map[string]string{"cursor": page.NextCursor}); err != nil {
			return nil, mcpFailure(server, "the cursor of tools/list: %v", err)
		}
	}
	return nil, mcpFailure(server, "tools/list has more than %d pages", maxPages)
}

// Call calls a tool. Arguments are a JSON object; none is an empty one. A tool
// that failed is a result, as the protocol has it.
func (t *LiveTools) Call(ctx context.Context, server, tool string, arguments []byte) (*cassette.Interaction, error) {
	return t.call(ctx, server, tool, arguments, manner{})
}

// A manner says how a tool is called. Harmless is one that only reads, so that a call
// with an unknown outcome may be made again. Unlike, if not nil, is given what the
// server says of its tools before the call is sent, and may refuse it.
type manner struct {
	harmless bool
	unlike   func(tools.Listing) *tools.Result
}

// An unlikeError says that a call was not sent, because the server says something else
// of the tool than what is pinned.
type unlikeError struct{ result *tools.Result }

func (e *unlikeError) Error() string { return e.result.Error }

func (t *LiveTools) call(ctx context.Context, server, tool string, arguments []byte, how manner) (*cassette.Interaction, error) {
	if len(arguments) == 0 {
		arguments = []byte(`{}`)
	}
	params, err := canon.Marshal(struct {
		Arguments canon.RawMessage `json:"arguments"`
		Name      string           `json:"name"`
	}{arguments, tool})
	if err != nil {
		return nil, refusal.Newf(refusal.Malformed, "the arguments of the tool %.60q: %w", tool, err)
	}
	return t.exchange(ctx, server, "tools/call", params, how)
}

// Exchange makes one request and records it with its answer. Params are JSON
// or nil. An error of the server is an answer.
func (t *LiveTools) Exchange(ctx context.Context, server, method string, params []byte) (*cassette.Interaction, error) {
	return t.exchange(ctx, server, method, params, manner{})
}

func (t *LiveTools) exchange(ctx context.Context, server, method string, params []byte, how manner) (*cassette.Interaction, error) {
	request, err := cassette.MCPRequest(server, method, params, t.cfg.Access.Redactor())
	if err != nil {
		return nil, err
	}
	// As for models, what this very execution has asked already comes first.
	made, it, err := t.recall(method, request)
	if it != nil || err != nil {
		return it, err
	}
	if made == nil {
		if it, err := t.replay(request); it != nil || err != nil {
			return it, err
		}
	} else if made.Unknown() && !how.harmless {
		return nil, refusal.Newf(refusal.ProviderFailed, "MCP server %s: a call was sent before the run was interrupted, and its outcome is unknown; it is not sent again, because its tool may have effects", server).
			WithHint("look at what the tool did, then run the case again; a tool of the class read is called again by itself")
	}
	s, err := t.server(server)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.connect(ctx, t); err != nil {
		return nil, err
	}
	if how.unlike != nil {
		if err := s.list(ctx, t); err != nil {
			return nil, err
		}
		if result := how.unlike(s.listing); result != nil {
			return nil, &unlikeError{result}
		}
	}
	sent, err := t.intend(made, server, method, request)
	if err != nil {
		return nil, err
	}
	if it, err = s.exchange(ctx, t, method, params); err != nil {
		if sent != nil && ctx.Err() == nil {
			err = errors.Join(err, sent.Failed(journal.Unknown, "the server gave no answer"))
		}
		return nil, err
	}
	return it, answered(sent, request, it)
}

// replay answers from what is recorded, nil if it is not.
func (t *LiveTools) replay(request cassette.Request) (*cassette.Interaction, error) {
	if t.cfg.Cached != nil {
		if it, err := t.cfg.Recorder.Borrow(request, t.cfg.Cached); it != nil || err != nil {
			return it, err
		}
	}
	if t.cfg.OnlyMissing == nil {
		return nil, nil
	}
	it, err := t.cfg.OnlyMissing.Next(request)
	if refusal.Is(err, refusal.CassetteMiss) {
		return nil, nil
	}
	return it, err
}

// server finds a server by its name in the settings.
func (t *LiveTools) server(name string) (*mcpServer, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s, ok := t.servers[name]; ok {
		return s, nil
	}
	settings, ok := t.cfg.Access.Settings.MCP[name]
	if !ok {
		return nil, refusal.Newf(refusal.NotFound, "the case uses the MCP server %.60q, and %s has none of that name", name, SettingsFile).
			WithHint("add it under mcp: in %s, with a command or a url", SettingsFile)
	}
	s := &mcpServer{name: name, settings: settings}
	t.servers[name] = s
	return s, nil
}

// Close stops the servers that were started.
func (t *LiveTools) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.servers {
		s.mu.Lock()
		if s.conn != nil {
			s.conn.close(closeWait)
			s.conn, s.failed = nil, mcpFailure(s.name, "the connection is closed")
		}
		s.mu.Unlock()
	}
}

func mcpFailure(server, format string, args ...any) *refusal.Error {
	return refusal.Newf(refusal.ProviderFailed, "MCP server %s: %w", server, fmt.Errorf(format, args...)).
		WithHint("see whether the server works by itself, then run the same command again")
}

// An mcpServer is a connection to one server.
type mcpServer struct {
	name     string
	settings Server

	mu     sync.Mutex
	conn   connection
	failed error // sticky
	lastID int64

	listing tools.Listing // what it says of its tools; nil before it was asked
}

// A connection carries messages to a server and back.
type connection interface {
	// send gives one message to the server.
	send(ctx context.Context, message []byte) error
	// receive returns the next message of the server. It is called until the
	// answer to the last request has come.
	receive(ctx context.Context) ([]byte, error)
	// done says that the answer has come.
	done()
	// agreed tells the version that the server chose.
	agreed(version string)
	// close ends the connection; a program has so long to end by itself.
	close(patience time.Duration)
}

// list asks the server for its tools, once, and records what it says: not what a
// recording has of it, since it is this server that will be called.
func (s *mcpServer) list(ctx context.Context, t *LiveTools) error {
	if s.listing != nil {
		return nil
	}
	listing, params := tools.Listing{}, []byte(nil)
	for range maxPages {
		it, err := s.exchange(ctx, t, "tools/list", params)
		if err != nil {
			return err
		}
		cursor, err := listing.Add(it.MCP.Result)
		if err != nil {
			return s.fail(t, err)
		}
		if cursor == "" {
			s.listing = listing
			return nil
		}
		if params, err = canon.Marshal(map[string]string{"cursor": cursor}); err != nil {
			return s.fail(t, fmt.Errorf("the cursor of tools/list: %w", err))
		}
	}
	return s.fail(t, fmt.Errorf("tools/list has more than %d pages", maxPages))
}

// connect starts the server and shakes hands, once.
func (s *mcpServer) connect(ctx context.Context, t *LiveTools) error {
	if s.failed != nil || s.conn != nil {
		return s.failed
	}
	if err := s.handshake(ctx, t); err != nil {
		return s.fail(t, err)
	}
	return nil
}

func (s *mcpServer) fail(t *LiveTools, err error) error {
	if s.conn != nil {
		s.conn.close(0)
		s.conn = nil
	}
	var named *refusal.Error
	if !errors.As(err, &named) {
		err = mcpFailure(s.name, "%w", t.cfg.Access.clean(err))
	}
	s.failed = err
	return err
}

func (s *mcpServer) handshake(ctx context.Context, t *LiveTools) (err error) {
	switch {
	case len(s.settings.Command) > 0:
		s.conn, err = startCommand(s.settings, t.cfg.Access, t.cfg.Dir)
	case s.settings.SSE:
		s.conn, err = openSSE(s.name, s.settings, t.cfg.Access)
	default:
		s.conn, err = openHTTP(s.name, s.settings, t.cfg.Access)
	}
	if err != nil {
		return err
	}
	params := []byte(`{"capabilities":{},"clientInfo":{"name":"tallystick","version":"1"},"protocolVersion":"` + mcpVersions[0] + `"}`)
	it, err := s.exchange(ctx, t, "initialize", params)
	if err != nil {
		return err
	}
	if it.MCP.Error != nil {
		return mcpFailure(s.name, "it refuses initialize: %.300s", it.MCP.Error).
			WithHint("this program speaks MCP %s to %s; a server of a later revision only cannot be recorded yet", mcpVersions[len(mcpVersions)-1], mcpVersions[0])
	}
	var result struct {
		ProtocolVersion string `json:"protocolVersion"`
	}
	if json.Unmarshal(it.MCP.Result, &result) != nil || !slices.Contains(mcpVersions, result.ProtocolVersion) {
		return mcpFailure(s.name, "it speaks MCP %.40q, expected one of %s", result.ProtocolVersion, strings.Join(mcpVersions, ", "))
	}
	s.conn.agreed(result.ProtocolVersion)
	_, err = s.exchange(ctx, t, "notifications/initialized", nil)
	return err
}

// exchange sends a request or a notification, waits for the answer, and
// records both.
func (s *mcpServer) exchange(ctx context.Context, t *LiveTools, method string, params []byte) (*cassette.Interaction, error) {
	limited, cancel := context.WithTimeoutCause(ctx, s.settings.Timeout, fmt.Errorf("%s was not answered within %s", method, s.settings.Timeout))
	defer cancel()
	begun := time.Now()
	traffic := cassette.MCPTraffic{Server: s.name, Method: method, Params: params}
	if err := s.converse(limited, &traffic); err != nil {
		if ctx.Err() != nil {
			s.fail(t, context.Cause(ctx))
			return nil, context.Cause(ctx)
		}
		return nil, s.fail(t, err)
	}
	traffic.Latency = time.Since(begun)
	return t.record(traffic)
}

// record keeps an exchange, unless a handshake is already part of what is
// added to.
func (t *LiveTools) record(traffic cassette.MCPTraffic) (*cassette.Interaction, error) {
	handshake := traffic.Method == "initialize" || traffic.Method == "notifications/initialized"
	if handshake && t.cfg.OnlyMissing != nil {
		request, err := cassette.MCPRequest(traffic.Server, traffic.Method, traffic.Params, t.cfg.Access.Redactor())
		if err != nil {
			return nil, err
		}
		if it, err := t.cfg.OnlyMissing.Next(request); err == nil {
			return it, nil
		}
	}
	it, err := t.cfg.Recorder.MCP(traffic)
	if err != nil {
		return nil, refusal.Newf(refusal.ProviderFailed, "MCP server %s: %w", traffic.Server, t.cfg.Access.clean(err))
	}
	return it, nil
}

// converse sends the message and takes in what comes until its answer.
func (s *mcpServer) converse(ctx context.Context, traffic *cassette.MCPTraffic) error {
	message := map[string]any{"jsonrpc": "2.0", "method": traffic.Method}
	if len(traffic.Params) > 0 {
		message["params"] = json.RawMessage(traffic.Params)
	}
	notification := strings.HasPrefix(traffic.Method, "notifications/")
	if !notification {
		s.lastID++
		message["id"] = s.lastID
	}
	data, err := json.Marshal(message)
	if err != nil {
		return err
	}
	defer s.conn.done()
	if err := s.conn.send(ctx, data); err != nil || notification {
		return err
	}
	size := 0
	for {
		data, err := s.conn.receive(ctx)
		if err != nil {
			return err
		}
		if size += len(data); size > maxMessageBytes || len(traffic.Notifications) > maxNotifications {
			return fmt.Errorf("the answer to %s has more than %d bytes or %d notifications", traffic.Method, maxMessageBytes, maxNotifications)
		}
		m, err := parseRPC(data)
		if err != nil {
			return err
		}
		switch {
		case m.method != "" && m.id == "":
			traffic.Notifications = append(traffic.Notifications, data)
		case m.method != "":
			if err := s.conn.send(ctx, m.ourAnswer()); err != nil {
				return err
			}
		case m.id == strconv.FormatInt(s.lastID, 10):
			traffic.Result, traffic.Error = m.result, m.failure
			return nil
		}
		// Else an answer to something else, such as a request of ours that is
		// over: no caller waits for it.
	}
}

// An rpcMessage is a JSON-RPC message of a server.
type rpcMessage struct {
	id, method      string // id as it is spelled; "" for none
	result, failure []byte
}

// parseRPC reads a message by the exact names of its members: encoding/json
// into a struct would take Result for result.
func parseRPC(data []byte) (rpcMessage, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return rpcMessage{}, fmt.Errorf("it sent something that is not a JSON-RPC message: %.100q", data)
	}
	m := rpcMessage{id: string(fields["id"]), result: fields["result"], failure: fields["error"]}
	if m.id == "null" {
		m.id = ""
	}
	if raw, ok := fields["method"]; ok && (json.Unmarshal(raw, &m.method) != nil || m.method == "") {
		return rpcMessage{}, fmt.Errorf("it sent a message whose method is not a text: %.100q", raw)
	}
	if m.method == "" && (m.result == nil) == (m.failure == nil) {
		return rpcMessage{}, fmt.Errorf("it sent an answer with both or neither of result and error: %.100q", data)
	}
	return m, nil
}

// ourAnswer answers a request of the server. We are there, and can do nothing
// of what a client may offer: no sampling, no roots, no questions to a person.
func (m rpcMessage) ourAnswer() []byte {
	if m.method == "ping" {
		return []byte(`{"id":` + m.id + `,"jsonrpc":"2.0","result":{}}`)
	}
	return []byte(`{"error":{"code":-32601,"message":"Method not found"},"id":` + m.id + `,"jsonrpc":"2.0"}`)
}
