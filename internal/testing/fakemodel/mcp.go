package fakemodel

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// MCP is a small MCP server with the tools echo, which answers with its
// arguments, and fail, which fails. It serves standard input and output with
// [MCP.Serve] and streamable HTTP as a handler. The zero value is well behaved.
type MCP struct {
	Version string // that it insists on; the client's if empty
	Refuse  string // a method that it answers with an error
	Chatty  bool   // sends a notification, a ping and another request before each answer
	Pages   bool   // one tool a page
	Stream  bool   // over HTTP, answers with a stream
	SSE     bool   // speaks the HTTP with SSE of 2024-11-05
	At      string // the address for messages that it names then; its own if empty
	Says    string // the description of echo; one of its own if empty
	Die     string // a method at which it ends
	Garbage string // a method that it answers with no JSON
	Secret  string // that it repeats in its answers

	mu       sync.Mutex
	pongs    int
	sessions int
	ended    int
	streams  map[string]chan string // by session, of SSE
}

type rpc struct {
	ID     json.RawMessage `json:"id,omitempty"`
	Method string          `json:"method,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  json.RawMessage `json:"error,omitempty"`
}

// Pongs counts the answers of the client to ping.
func (m *MCP) Pongs() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pongs
}

// Sessions counts the HTTP sessions that were begun and ended.
func (m *MCP) Sessions() (begun, ended int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.sessions, m.ended
}

// Serve reads messages, one a line, and answers them until the input ends.
func (m *MCP) Serve(in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		messages, alive := m.handle(lines.Bytes())
		for _, message := range messages {
			fmt.Fprintf(out, "%s\n", message)
		}
		if !alive {
			return fmt.Errorf("told to end, with %s", m.Secret)
		}
	}
	return lines.Err()
}

// ServeHTTP answers one POST, or ends a session.
func (m *MCP) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if m.SSE {
		m.serveSSE(w, r)
		return
	}
	body, _ := io.ReadAll(r.Body)
	var q rpc
	json.Unmarshal(body, &q)
	switch {
	case r.Method == http.MethodDelete:
		m.mu.Lock()
		m.ended++
		m.mu.Unlock()
		return
	case q.Method == "initialize":
		m.mu.Lock()
		m.sessions++
		w.Header().Set("Mcp-Session-Id", "session-"+strconv.Itoa(m.sessions))
		m.mu.Unlock()
	case r.Header.Get("Mcp-Session-Id") == "" || q.Method != "" && r.Header.Get("Mcp-Protocol-Version") == "":
		http.Error(w, "no session or version", http.StatusBadRequest)
		return
	}
	messages, alive := m.handle(body)
	switch {
	case !alive:
		panic(http.ErrAbortHandler)
	case len(messages) == 0:
		w.WriteHeader(http.StatusAccepted)
	case m.Stream || len(messages) > 1:
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "id: 1\ndata:\n\n")
		for _, message := range messages {
			fmt.Fprintf(w, "event: message\ndata: %s\n\n", message)
		}
	default:
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, messages[0])
	}
}

// serveSSE opens a stream, or takes a message whose answer goes there.
func (m *MCP) serveSSE(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		body, _ := io.ReadAll(r.Body)
		messages, alive := m.handle(body)
		m.mu.Lock()
		stream := m.streams[r.URL.Query().Get("session")]
		m.mu.Unlock()
		if stream == nil {
			http.Error(w, "no session", http.StatusBadRequest)
			return
		}
		for _, message := range messages {
			stream <- message
		}
		if !alive {
			close(stream)
		}
		w.WriteHeader(http.StatusAccepted)
		return
	}
	stream := make(chan string, 100)
	m.mu.Lock()
	m.sessions++
	if m.streams == nil {
		m.streams = map[string]chan string{}
	}
	m.streams[strconv.Itoa(m.sessions)] = stream
	at := m.At
	if at == "" {
		at = "?session=" + strconv.Itoa(m.sessions)
	}
	m.mu.Unlock()
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, ": hello\n\nevent: endpoint\ndata: %s\n\n", at)
	w.(http.Flusher).Flush()
	defer func() { m.mu.Lock(); m.ended++; m.mu.Unlock() }()
	for {
		select {
		case message, ok := <-stream:
			if !ok {
				return
			}
			fmt.Fprintf(w, "event: message\ndata: %s\n\n", message)
			w.(http.Flusher).Flush()
		case <-r.Context().Done():
			return
		}
	}
}

// handle gives the messages that answer one, and whether the server lives on.
func (m *MCP) handle(data []byte) (messages []string, alive bool) {
	var q rpc
	if err := json.Unmarshal(data, &q); err != nil {
		return []string{`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}`}, true
	}
	switch {
	case q.Method == "" && q.Result != nil:
		m.mu.Lock()
		m.pongs++
		m.mu.Unlock()
		return nil, true
	case q.Method == "" || q.ID == nil:
		return nil, true
	case m.Die != "" && q.Method == m.Die:
		return nil, false
	case m.Garbage != "" && q.Method == m.Garbage:
		return []string{"this is not JSON, " + m.Secret}, true
	}
	if m.Chatty {
		messages = append(messages,
			`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"working on `+q.Method+`"}}`,
			`{"jsonrpc":"2.0","id":"s1","method":"ping"}`,
			`{"jsonrpc":"2.0","id":"s2","method":"sampling/createMessage","params":{}}`,
			`{"jsonrpc":"2.0","id":999999,"result":{}}`)
	}
	answer := `"result":` + m.result(q)
	if q.Method == m.Refuse || answer == `"result":` {
		answer = `"error":{"code":-32601,"message":"no ` + q.Method + ` here"}`
	}
	return append(messages, `{"jsonrpc":"2.0","id":`+string(q.ID)+`,`+answer+`}`), true
}

func (m *MCP) result(q rpc) string {
	switch q.Method {
	case "initialize":
		var params struct{ ProtocolVersion string }
		json.Unmarshal(q.Params, &params)
		if m.Version != "" {
			params.ProtocolVersion = m.Version
		}
		return `{"protocolVersion":"` + params.ProtocolVersion + `","capabilities":{"tools":{}},"serverInfo":{"name":"fakemodel","version":"1"}}`
	case "ping":
		return `{}`
	case "tools/list":
		return m.list(q)
	case "tools/call":
		var params struct {
			Name      string
			Arguments json.RawMessage
		}
		json.Unmarshal(q.Params, &params)
		text, _ := json.Marshal(strings.TrimSpace(string(params.Arguments) + " " + m.Secret))
		return `{"content":[{"type":"text","text":` + string(text) + `}],"isError":` + strconv.FormatBool(params.Name != "echo") + `}`
	}
	return ""
}

func (m *MCP) list(q rpc) string {
	says := "Gives back what it gets."
	if m.Says != "" {
		says = m.Says
	}
	echo := `{"name":"echo","description":"` + says + `","inputSchema":{"type":"object"}}`
	fail := `{"name":"fail","description":"Fails.","inputSchema":{"type":"object"}}`
	if !m.Pages {
		return `{"tools":[` + echo + `,` + fail + `]}`
	}
	var params struct{ Cursor string }
	json.Unmarshal(q.Params, &params)
	if params.Cursor == "2" {
		return `{"tools":[` + fail + `]}`
	}
	return `{"tools":[` + echo + `],"nextCursor":"2"}`
}
