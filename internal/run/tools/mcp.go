package tools

import (
	"errors"
	"fmt"
	"strings"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/policy"
)

// maxListBytes and maxListPages bound what a server may list.
const (
	maxListBytes = 4 << 20
	maxListPages = 100
)

// FromMCPList makes definitions of the result of tools/list of an MCP server.
// Class says what each tool can do to the world; what the server says about
// that does not count, and a tool that class does not know is privileged.
//
// A tool that cannot be offered is left out with a finding: its name is not one
// of ours, its schema cannot be applied, its description is far too long. Two
// tools whose names look alike are an error: a server that poses as itself
// twice is not to be used in part.
func FromMCPList(server string, listResult []byte, class func(tool string) policy.Class) ([]Definition, []Finding, error) {
	var list struct {
		tools []any
	}
	object, err := decodeObject(server, "tools/list", listResult)
	if err != nil {
		return nil, nil, err
	}
	var ok bool
	if list.tools, ok = object["tools"].([]any); !ok {
		return nil, nil, badAnswer(server, "tools/list", errors.New("found no list of tools"))
	}
	var defs []Definition
	var findings []Finding
	alike := map[string]string{}
	for i, item := range list.tools {
		d, err := fromMCPTool(server, item, class)
		if err != nil {
			findings = append(findings, Finding{ToolLeftOut, plain.Line(cut(fmt.Sprintf("left out tool %d of the MCP server %s: %v", i+1, server, err), 1000)), evidence.Warn})
			continue
		}
		if other, twice := alike[plain.Fold(d.Name)]; twice {
			return nil, nil, badAnswer(server, "tools/list", sameName(d.Name, other))
		}
		alike[plain.Fold(d.Name)] = d.Name
		if len(defs) == maxTools {
			return nil, nil, badAnswer(server, "tools/list", fmt.Errorf("more than %d tools", maxTools))
		}
		defs = append(defs, d)
	}
	return defs, findings, nil
}

func fromMCPTool(server string, item any, class func(string) policy.Class) (Definition, error) {
	object, ok := item.(map[string]any)
	if !ok {
		return Definition{}, errors.New("it is not an object")
	}
	name, _ := object["name"].(string)
	description, isText := object["description"].(string)
	if _, there := object["description"]; there && !isText {
		return Definition{}, fmt.Errorf("the description of %.80q is not a text", name)
	}
	d := Definition{Name: name, Description: description, Source: MCPPrefix + server, Trust: Outside, Class: class(name)}
	if !d.Class.Known() {
		d.Class = policy.Privileged
	}
	if schema, there := object["inputSchema"]; there {
		text, err := canon.Marshal(schema)
		if err != nil {
			return Definition{}, err
		}
		d.Schema = text
	}
	return d, Validate([]Definition{d})
}

// ListMCP asks the cassette for the tools of an MCP server, page by page, and
// makes definitions of them as [FromMCPList] does.
func ListMCP(server string, player *cassette.Player, redactor *cassette.Redactor, class func(tool string) policy.Class) ([]Definition, []Finding, error) {
	if err := bench.CheckID(server); err != nil {
		return nil, nil, refusal.Newf(refusal.Malformed, "MCP server: %w", err)
	}
	if player == nil {
		return nil, nil, refusal.Newf(refusal.CassetteMiss, "the tools of the MCP server %s are in the cassette, and the case has none (replay does not go to the network)", server).WithHint("record the case")
	}
	var tools []any
	var params []byte
	for range maxListPages {
		request, err := cassette.MCPRequest(server, "tools/list", params, redactor)
		if err != nil {
			return nil, nil, err
		}
		recorded, err := player.Next(request)
		if err != nil {
			return nil, nil, err
		}
		if recorded.MCP.Error != nil {
			return nil, nil, badAnswer(server, "tools/list", errors.New(rpcError(recorded.MCP.Error)))
		}
		page, err := decodeObject(server, "tools/list", recorded.MCP.Result)
		if err != nil {
			return nil, nil, err
		}
		list, ok := page["tools"].([]any)
		if !ok {
			return nil, nil, badAnswer(server, "tools/list", errors.New("found no list of tools"))
		}
		tools = append(tools, list...)
		cursor, _ := page["nextCursor"].(string)
		if cursor == "" {
			all, err := canon.Marshal(map[string]any{"tools": tools})
			if err != nil {
				return nil, nil, badAnswer(server, "tools/list", err)
			}
			return FromMCPList(server, all, class)
		}
		if params, err = canon.Marshal(map[string]any{"cursor": cursor}); err != nil {
			return nil, nil, badAnswer(server, "tools/list", err)
		}
	}
	return nil, nil, badAnswer(server, "tools/list", fmt.Errorf("more than %d pages", maxListPages))
}

// callMCP answers from the recording of the same tools/call.
func (s *State) callMCP(t *tool, args []byte) (Result, error) {
	if len(args) == 0 {
		args = []byte("{}")
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

func decodeObject(server, method string, data []byte) (map[string]any, error) {
	if len(data) > maxListBytes {
		return nil, badAnswer(server, method, fmt.Errorf("%d bytes, expected at most %d", len(data), maxListBytes))
	}
	var v any
	if err := canon.Unmarshal(data, &v); err != nil {
		return nil, badAnswer(server, method, err)
	}
	object, ok := v.(map[string]any)
	if !ok {
		return nil, badAnswer(server, method, errors.New("found no object"))
	}
	return object, nil
}

func badAnswer(server, method string, err error) error {
	return refusal.Newf(refusal.Malformed, "MCP server %s: the answer to %s: %s", plain.Line(cut(server, 100)), method, plain.Line(cut(err.Error(), 1000))).
		WithHint("the server does not speak MCP as published, or its tools are not safe to offer; leave it out of the case")
}
