package cassette

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/strictyaml"
	"tallystick/internal/run/wire"
)

// FromYAML reads the form that people write, which is described with examples
// in docs/formats/cassette.md, and compiles it. The result is authored. Name
// is the file's name for messages; an error names line and column.
//
// Requests become canonical as in a recording, secrets removed. Replies are
// kept as they are written: an adversarial case needs its bait.
func FromYAML(name string, data []byte) (*Cassette, error) {
	doc, err := strictyaml.Parse(name, data, yamlRules)
	if err != nil {
		return nil, err
	}
	f, top := yamlFile{doc}, newPlace(doc.Top)
	if err := f.object(top, "!format", "!interactions"); err != nil {
		return nil, err
	}
	format := top.get("format")
	if format.kind != '"' || format.text != Format {
		if strings.HasPrefix(format.text, "tallystick-cassette/") {
			return nil, f.refuseAt(format, "this is a cassette of another version: %s, this program reads %s", format.describe(), Format)
		}
		return nil, f.refuseAt(format, "found %s, expected %s", format.describe(), Format)
	}
	list, err := f.items(top.get("interactions"))
	if err != nil {
		return nil, err
	}
	interactions := make([]Interaction, 0, len(list))
	for i, p := range list {
		it, err := f.interaction(p, i+1)
		if err == nil {
			if bad := it.validate(); bad != nil {
				err = f.refuseAt(p, "%w", bad)
			}
		}
		if err != nil {
			return nil, err
		}
		interactions = append(interactions, it)
	}
	c, err := New(Authored, nil, 0, interactions)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return c, nil
}

// interaction reads one item of the list; number is unique in the file and
// makes the ids of short replies so.
func (f yamlFile) interaction(p *place, number int) (it Interaction, err error) {
	if err := f.object(p, "model", "tool", "mcp", "latency_ms"); err != nil {
		return it, err
	}
	kinds := 0
	for _, kind := range []string{"model", "tool", "mcp"} {
		if p.get(kind) != nil {
			kinds++
		}
	}
	if kinds != 1 {
		return it, f.refuseAt(p, "found %d of model, tool and mcp, expected one", kinds)
	}
	switch {
	case p.get("model") != nil:
		it, err = f.model(p.get("model"), number)
	case p.get("tool") != nil:
		it, err = f.tool(p.get("tool"))
	default:
		it, err = f.mcp(p.get("mcp"))
	}
	if err != nil {
		return it, err
	}
	it.LatencyMS, err = f.count(p.get("latency_ms"), 0)
	return it, err
}

func (f yamlFile) model(p *place, number int) (it Interaction, err error) {
	if err := f.object(p, "!api", "!request", "!reply", "cost_microdollars"); err != nil {
		return it, err
	}
	api := wire.API(p.get("api").text)
	if !api.Known() {
		return it, f.refuseAt(p.get("api"), "found %s, expected %s", p.get("api").describe(), wire.Expected())
	}
	body, err := f.json(p.get("request"))
	if err != nil {
		return it, err
	}
	req, err := ModelRequest(api, body, nil)
	if err != nil {
		return it, f.refuseAt(p.get("request"), "%w", err)
	}
	it = req.it
	if err := f.reply(p.get("reply"), it.Model, number); err != nil {
		return it, err
	}
	if cost := p.get("cost_microdollars"); cost != nil {
		v, err := f.count(cost, 0)
		if err != nil {
			return it, err
		}
		it.Model.CostMicrodollars = &v
	}
	return it, nil
}

// reply reads one of four forms: message, which is short, or body, stream and
// raw, which say exactly what goes over the wire.
func (f yamlFile) reply(p *place, m *ModelCall, number int) error {
	if err := f.object(p, "status", "headers", "message", "usage", "body", "stream", "raw"); err != nil {
		return err
	}
	r := &m.Response
	var err error
	if r.Status, err = f.count(p.get("status"), 200); err != nil {
		return err
	}
	if err := f.headers(p.get("headers"), r); err != nil {
		return err
	}
	var forms []string
	for _, form := range []string{"message", "body", "stream", "raw"} {
		if p.get(form) != nil {
			forms = append(forms, form)
		}
	}
	if len(forms) != 1 {
		return f.refuseAt(p, "found %d of message, body, stream and raw, expected one", len(forms))
	}
	if u := p.get("usage"); u != nil && forms[0] != "message" {
		return f.refuseAt(u, "usage belongs to message; %s has the usage fields of its API", forms[0])
	}
	at := p.get(forms[0])
	switch forms[0] {
	case "message":
		r.Body, err = f.message(at, p.get("usage"), m, number)
	case "body":
		r.Body, err = f.json(at)
	case "stream":
		r.Stream, err = f.stream(at)
	case "raw":
		r.Text, err = f.text(at)
	}
	if err != nil {
		return err
	}
	return f.usage(at, m)
}

func (f yamlFile) headers(p *place, r *Response) error {
	if p == nil {
		return nil
	}
	if err := f.object(p, KeptHeaders...); err != nil {
		return err
	}
	for i, name := range p.names {
		value, err := f.text(p.list[i])
		if err != nil {
			return err
		}
		if r.Headers == nil {
			r.Headers = map[string]string{}
		}
		r.Headers[name] = value
	}
	return nil
}

// stream reads events; the blank line that ends one may be left out.
func (f yamlFile) stream(p *place) ([]string, error) {
	list, err := f.items(p)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, f.refuseAt(p, "found no event")
	}
	var chunks []string
	for _, item := range list {
		text, err := f.text(item)
		if err != nil {
			return nil, err
		}
		text = strings.TrimRight(text, "\n")
		if text == "" || !utf8.ValidString(text) {
			return nil, f.refuseAt(item, "found an empty event")
		}
		chunks = append(chunks, text+"\n\n")
	}
	return chunks, nil
}

// usage takes the tokens from the reply as it will go over the wire.
func (f yamlFile) usage(at *place, m *ModelCall) error {
	var body *wire.Node
	switch r := &m.Response; {
	case r.Stream != nil:
		whole, err := wire.Assemble(m.API, r.Stream)
		if err != nil {
			whole = wire.PartialUsage(m.Response.Stream) // a broken stream is a fair thing to author
		}
		body = whole
	case r.Body != nil:
		n := wire.ParseCanonical(string(r.Body))
		body = &n
	default:
		return nil
	}
	u, err := wire.UsageOf(m.API, body)
	if err != nil {
		return f.refuseAt(at, "%w", err)
	}
	m.Usage = u
	return nil
}

func (f yamlFile) tool(p *place) (it Interaction, err error) {
	if err := f.object(p, "!name", "arguments", "result", "error"); err != nil {
		return it, err
	}
	name, err := f.text(p.get("name"))
	if err != nil {
		return it, err
	}
	var arguments []byte
	if a := p.get("arguments"); a != nil {
		if arguments, err = f.json(a); err != nil {
			return it, err
		}
	}
	req, err := ToolRequest(name, arguments, nil)
	if err != nil {
		return it, f.refuseAt(p, "%w", err)
	}
	it = req.it
	if it.Tool.Error, err = f.text(p.get("error")); err != nil {
		return it, err
	}
	if r := p.get("result"); r != nil {
		it.Tool.Result, err = f.json(r)
	}
	return it, err
}

func (f yamlFile) mcp(p *place) (it Interaction, err error) {
	if err := f.object(p, "!server", "!method", "params", "result", "error", "notifications"); err != nil {
		return it, err
	}
	server, err := f.text(p.get("server"))
	if err != nil {
		return it, err
	}
	method, err := f.text(p.get("method"))
	if err != nil {
		return it, err
	}
	parts := map[string][]byte{}
	for _, name := range []string{"params", "result", "error"} {
		if v := p.get(name); v != nil {
			if parts[name], err = f.json(v); err != nil {
				return it, err
			}
		}
	}
	req, err := MCPRequest(server, method, parts["params"], nil)
	if err != nil {
		return it, f.refuseAt(p, "%w", err)
	}
	it = req.it
	it.MCP.Result, it.MCP.Error = parts["result"], parts["error"]
	notifications, err := f.items(p.get("notifications"))
	if err != nil {
		return it, err
	}
	for _, n := range notifications {
		text, err := f.json(n)
		if err != nil {
			return it, err
		}
		it.MCP.Notifications = append(it.MCP.Notifications, canon.RawMessage(text))
	}
	return it, nil
}

// message compiles the short form of a reply into the body of its API.
func (f yamlFile) message(p, usage *place, m *ModelCall, number int) ([]byte, error) {
	if err := f.object(p, "text", "tool_calls"); err != nil {
		return nil, err
	}
	a := wire.Answer{ID: "authored" + strconv.Itoa(number), Model: m.modelName(), Echo: true}
	var err error
	if a.Text, err = f.text(p.get("text")); err != nil {
		return nil, err
	}
	calls, err := f.items(p.get("tool_calls"))
	if err != nil {
		return nil, err
	}
	for i, c := range calls {
		if err := f.object(c, "!name", "arguments"); err != nil {
			return nil, err
		}
		id := fmt.Sprintf("%s%c", a.ID, 'a'+rune(i%26)) + strings.Repeat("x", i/26)
		call := wire.AnswerCall{Call: wire.Call{ID: m.API.CallID(id), Args: []byte("{}")}, Item: id}
		if call.Name, err = f.text(c.get("name")); err != nil {
			return nil, err
		}
		if v := c.get("arguments"); v != nil {
			if call.Args, err = f.json(v); err != nil {
				return nil, err
			}
		}
		a.Calls = append(a.Calls, call)
	}
	if a.Text == "" && len(a.Calls) == 0 {
		return nil, f.refuseAt(p, "found neither text nor tool_calls")
	}
	if usage != nil {
		if err := f.object(usage, "!input_tokens", "!output_tokens"); err != nil {
			return nil, err
		}
		if a.InputTokens, err = f.count(usage.get("input_tokens"), 0); err != nil {
			return nil, err
		}
		if a.OutputTokens, err = f.count(usage.get("output_tokens"), 0); err != nil {
			return nil, err
		}
	}
	return wire.Body(m.API, &a)
}
