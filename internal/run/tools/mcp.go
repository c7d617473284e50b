package tools

import (
	"strings"

	"tallystick/internal/record/canon"
	"tallystick/internal/run/cassette"
)

// callMCP answers from the recording of the same tools/call.
func (s *State) callMCP(t *tool, args []byte) (Result, error) {
	if len(args) == 0 {
		args = []byte("{}")
	}
	if t.def.Pinned != "" {
		listing, err := s.listing(t)
		if err != nil {
			return Result{}, err
		}
		if unlike := t.def.Unlike(listing, "cassette"); unlike != nil {
			return *unlike, nil
		}
	}
	params, err := canon.Marshal(map[string]any{"arguments": canon.RawMessage(args), "name": t.def.Remote})
	if err != nil {
		return Result{}, err
	}
	request, err := cassette.MCPRequest(t.server(), "tools/call", params, s.redactor)
	if err != nil {
		return Result{}, err
	}
	recorded, err := s.next(t, request)
	if err != nil {
		return Result{}, err
	}
	return t.use(t.def.AdmitMCP("cassette", recorded.MCP.Result, recorded.MCP.Error), recorded), nil
}

// AdmitMCP is [Definition.Admit] for the answer of an MCP server to tools/call:
// a result, which may say of itself that it is an error, or a JSON-RPC error.
func (d *Definition) AdmitMCP(source string, result, failure []byte) Result {
	if failure != nil {
		return d.Admit(source, nil, rpcError(failure))
	}
	var v any
	if err := canon.Unmarshal(result, &v); err != nil {
		return d.Admit(source, nil, "the MCP server's answer is not JSON that can be read")
	}
	object, ok := v.(map[string]any)
	if !ok {
		return d.Admit(source, nil, "the MCP server's answer is not an object")
	}
	text := ""
	if failed, _ := object["isError"].(bool); failed {
		if text = contentText(object["content"]); text == "" {
			text = "the tool failed"
		}
	}
	return d.admit(source, v, true, text)
}

// contentText joins the texts of an MCP result.
func contentText(content any) string {
	blocks, _ := content.([]any)
	var texts []string
	for _, block := range blocks {
		object, _ := block.(map[string]any)
		if text, ok := object["text"].(string); ok {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, "\n")
}

// rpcError is the message of a JSON-RPC error object.
func rpcError(raw []byte) string {
	var v any
	if err := canon.Unmarshal(raw, &v); err == nil {
		if object, ok := v.(map[string]any); ok {
			if text, ok := object["message"].(string); ok && text != "" {
				return text
			}
		}
	}
	return "the MCP server answered with an error"
}
