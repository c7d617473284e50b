package gateway

import (
	"bytes"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tallystick/internal/record/refusal"
)

// Error codes of JSON-RPC 2.0, and of MCP beyond it.
const (
	codeParse          = -32700
	codeInvalidRequest = -32600
	codeNoMethod       = -32601
	codeInvalidParams  = -32602
	codeStopped        = -32000 // ours: the case has ended, or the request was refused
	codeVersion        = -32022 // MCP: a version of the protocol that is not spoken here
)

// A message is what an MCP client sends: a request (id and method), a
// notification (method) or a response (id and result or error).
type message struct {
	JSONRPC string         `json:"jsonrpc"`
	ID      jsontext.Value `json:"id,omitzero"`
	Method  string         `json:"method"`
	Params  jsontext.Value `json:"params,omitzero"`
	Result  jsontext.Value `json:"result,omitzero"`
	Error   jsontext.Value `json:"error,omitzero"`
}

// A response answers a request. Exactly one of Result and Error is set.
type response struct {
	JSONRPC string         `json:"jsonrpc"`
	ID      jsontext.Value `json:"id"`
	Result  any            `json:"result,omitzero"`
	Error   *rpcError      `json:"error,omitzero"`
}

type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data,omitzero"`
}

func succeeded(id jsontext.Value, result any) *response {
	return &response{JSONRPC: "2.0", ID: id, Result: result}
}

// failed answers with an error; the id is null where none could be read.
func failed(id jsontext.Value, code int, text string, name refusal.Name) *response {
	if id == nil {
		id = jsontext.Value("null")
	}
	e := &rpcError{Code: code, Message: text}
	if name != "" {
		e.Data = struct {
			Name refusal.Name `json:"name"`
		}{name}
	}
	return &response{JSONRPC: "2.0", ID: id, Error: e}
}

// codeOf is the code of a problem that ends a request before it is understood.
func codeOf(p problem) int {
	switch {
	case p.status == http.StatusBadRequest && p.name == refusal.Malformed:
		return codeInvalidRequest
	case p.name == refusal.Unreadable:
		return codeParse
	}
	return codeStopped
}

// parseMessage reads one message. Names given twice, invalid UTF-8 and values
// of the wrong type are refused; unknown names are passed over, as
// the protocol grows by them.
func parseMessage(data []byte) (message, error) {
	var m message
	err := json.Unmarshal(data, &m)
	return m, err
}

// valid says what is wrong with a message, or "".
func (m *message) invalid() string {
	switch {
	case m.JSONRPC != "2.0":
		return `jsonrpc is not "2.0"`
	case m.ID != nil && !validID(m.ID):
		return "the id is neither a text nor a whole number"
	case m.Method == "" && m.Result == nil && m.Error == nil:
		return "there is no method"
	case m.Method == "" && m.ID == nil:
		return "a response has no id"
	case m.Params != nil && m.Params.Kind() != '{' && m.Params.Kind() != '[':
		return "params is neither an object nor a list"
	}
	return ""
}

func (m *message) isRequest() bool { return m.Method != "" && m.ID != nil }

// validID accepts what MCP allows: a text or a whole number, never null. The
// bound keeps a client from having megabytes sent back.
func validID(id jsontext.Value) bool {
	if len(id) > 512 {
		return false
	}
	switch id.Kind() {
	case '"':
		return true
	case '0':
		return !bytes.ContainsAny(id, ".eE")
	}
	return false
}
