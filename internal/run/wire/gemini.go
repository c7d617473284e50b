package wire

import (
	"cmp"
	"errors"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
)

// google has one API here, gemini.generate: generateContent of the Gemini API.
var google = Provider{
	Name:      "google",
	BaseURL:   "https://generativelanguage.googleapis.com",
	BaseEnv:   []string{"GOOGLE_GEMINI_BASE_URL"},
	KeyEnv:    "GEMINI_API_KEY",
	KeyHeader: "x-goog-api-key",

	failure: func(kind, message, code string) Node {
		status := geminiStatuses[kind]
		return ObjectNode("error", ObjectNode("code", numberNode(status.code), "message", StringNode(message), "status", StringNode(status.name),
			"details", ArrayNode(ObjectNode("@type", StringNode("type.googleapis.com/google.rpc.ErrorInfo"), "reason", StringNode(code), "domain", StringNode("tallystick")))))
	},
	model: func(name string) Node {
		return ObjectNode("name", StringNode("models/"+name), "displayName", StringNode(name),
			"supportedGenerationMethods", ArrayNode(StringNode("generateContent"), StringNode("countTokens")))
	},
	modelList: func(models []Node, _ []string) Node { return ObjectNode("models", ArrayNode(models...)) },
}

// geminiStatuses are the words of google.rpc.Code for those that the other
// providers use.
var geminiStatuses = map[string]struct {
	code int64
	name string
}{
	"invalid_request_error": {400, "INVALID_ARGUMENT"},
	"authentication_error":  {401, "UNAUTHENTICATED"},
	"not_found_error":       {404, "NOT_FOUND"},
	"request_too_large":     {413, "INVALID_ARGUMENT"},
	"api_error":             {500, "INTERNAL"},
}

var geminiRow = row{api: GeminiGenerate, provider: &google, path: "/v1beta/models/{model}:generateContent",
	streamPath: "/v1beta/models/{model}:streamGenerateContent", streamArgs: "alt=sse",
	countPath: "/v1beta/models/{model}:countTokens", countName: "totalTokens", usageName: "usageMetadata", modelName: "modelVersion",
	list: "contents", instructions: []string{"systemInstruction", "system_instruction"}, notTexts: []string{"mimeType", "fileUri", "thoughtSignature"}, irrelevant: []string{"labels", "stream"},
	words: []string{"parts", "text", "functionCall", "functionResponse", "name", "args", "response", "output", "result", "error"}, elsewhere: geminiElsewhere,
	idPrefixes: []string{"function-call-"}, callPrefix: "function-call-", toolGroup: "functionDeclarations",
	inName: "promptTokenCount", outName: "candidatesTokenCount", dialect: gemini{}}

// geminiElsewhere knows what brings content that is not in the request: files
// and caches that Google keeps, and tools with which it fetches more.
func geminiElsewhere(m *Node) bool {
	switch m.Name {
	case "fileData", "file_data", "cachedContent", "cached_content", "googleSearch", "google_search", "urlContext", "url_context", "fileSearch", "file_search":
		return m.Kind != 'n'
	}
	return false
}

// gemini is how gemini.generate says things. Its servers read members in camel
// case and in snake case; what it writes is camel case.
type gemini struct{}

func (gemini) recognises(n *Node) bool { return n.Get("contents") != nil }

func (gemini) ids(n *Node) (ids []*Node) {
	for i := range n.Items("contents") {
		parts := n.Items("contents")[i].Items("parts")
		for j := range parts {
			for _, name := range []string{"functionCall", "function_call", "functionResponse", "function_response"} {
				if m := parts[j].Get(name); m != nil {
					ids = appendMembers(ids, m, "id")
				}
			}
		}
	}
	return ids
}

// delivery reads what [Route.Request] wrote: the path says whether to stream.
func (gemini) delivery(body []byte) (Delivery, error) {
	var asked struct {
		Stream bool `json:"stream"`
	}
	err := json.Unmarshal(body, &asked)
	return Delivery{Stream: asked.Stream}, err
}

func (gemini) request(n *Node) Request {
	r := Request{MaxOutput: -1, Choices: 1}
	if config := firstOf(n, "generationConfig", "generation_config"); config != nil {
		r.MaxOutput = outputLimit(config, "maxOutputTokens", "max_output_tokens")
		if many, ok := wholeOf(firstOf(config, "candidateCount", "candidate_count")); ok {
			r.Choices = many
		}
	}
	if system := firstOf(n, "systemInstruction", "system_instruction"); system != nil {
		r.System = contentParts(system.Get("parts"), geminiPart)
	}
	for i := range n.Items("contents") {
		m := roleOf(&n.Items("contents")[i])
		if m.Role == "model" {
			m.Role = "assistant"
		}
		m.Parts = contentParts(n.Items("contents")[i].Get("parts"), geminiPart)
		r.Messages = append(r.Messages, m)
	}
	return r
}

// geminiPart reads a part. Its type is the name of the member that it has.
func geminiPart(n *Node) Part {
	if c := firstOf(n, "functionCall", "function_call"); c != nil {
		call := &Call{ID: c.Str("id"), Name: c.Str("name"), Args: []byte("{}")}
		if args := firstOf(c, "args"); args != nil {
			call.Args = args.AppendJSON(nil)
		}
		return Part{Kind: ToolCall, Type: "functionCall", Call: call}
	}
	if f := firstOf(n, "functionResponse", "function_response"); f != nil {
		return Part{Kind: ToolResult, Type: "functionResponse", Result: geminiResult(f)}
	}
	if text := firstOf(n, "text"); text != nil {
		p := Part{Kind: Text, Type: "text", Text: textOf(text)}
		if thought := n.Get("thought"); thought != nil && thought.Kind == 't' {
			p.Kind, p.Type = Reasoning, "thought"
		}
		return p
	}
	for _, m := range n.Members() {
		if m.Kind == '{' {
			return Part{Type: m.Name}
		}
	}
	return Part{}
}

// geminiResult reads a result. By convention its text stands in output, and what
// went wrong in error.
func geminiResult(f *Node) *Result {
	response := f.Get("response")
	r := &Result{ID: f.Str("id"), Name: f.Str("name"), Sent: textOf(response)}
	r.Text = r.Sent
	if response == nil {
		return r
	}
	if failed := firstOf(response, "error"); failed != nil {
		r.IsError, r.Text = true, textOf(failed)
	} else if output := firstOf(response, "output"); output != nil {
		r.Text = textOf(output)
	}
	return r
}

func (gemini) envelope(o Options) Envelope {
	config := []byte{}
	if o.MaxOutput > 0 {
		config = appendRaw(config, "maxOutputTokens", []byte(strconv.FormatInt(o.MaxOutput, 10)))
	}
	if o.Shape != nil {
		config = appendRaw(config, "responseJsonSchema", o.Shape.Schema)
		config = appendMember(config, "responseMimeType", "application/json")
	}
	if o.Temperature != nil {
		config = appendRaw(config, "temperature", o.Temperature)
	}
	e := Envelope{head: []byte(`{"contents":[`), middle: []byte(`]`)}
	if len(config) > 0 {
		e.middle = append(append(append(e.middle, `,"generationConfig":{`...), config...), '}')
	}
	e.middle = appendMember(e.middle, "model", o.Model)
	return e
}

func (gemini) system(text string) []byte {
	return append(appendMember([]byte(`,"systemInstruction":{"parts":[{`), "text", text), `}]}`...)
}

func (gemini) user(text string) []byte {
	return append(appendMember([]byte(`{"parts":[{`), "text", text), `}],"role":"user"}`...)
}

func (gemini) say(text string, calls []Call) []byte {
	b := []byte(`{"parts":[`)
	if text != "" {
		b = append(appendMember(append(b, '{'), "text", text), '}')
	}
	for _, c := range calls {
		if b[len(b)-1] != '[' {
			b = append(b, ',')
		}
		args, ok := ArgumentsObject(c.Args)
		if !ok { // as in anthropic.messages, the error that answers the call quotes it
			args = []byte("{}")
		}
		b = appendRaw(append(b, `{"functionCall":{`...), "args", args)
		b = append(appendMember(appendMember(b, "id", c.ID), "name", c.Name), `}}`...)
	}
	return append(b, `],"role":"model"}`...)
}

func (gemini) results(results []Result) []byte {
	b := []byte(`{"parts":[`)
	for i, r := range results {
		member := "output"
		if r.IsError {
			member = "error"
		}
		b = append(b, separator(i, "")+`{"functionResponse":{`...)
		b = appendMember(appendMember(b, "id", r.ID), "name", r.Name)
		b = append(appendMember(append(b, `,"response":{`...), member, r.Text), `}}}`...)
	}
	return append(b, `],"role":"user"}`...)
}

func (gemini) tool(b []byte, t Tool) []byte {
	b = appendMember(appendMember(append(b, '{'), "description", t.Description), "name", t.Name)
	return append(appendRaw(b, "parametersJsonSchema", t.Schema), '}')
}

func (gemini) reply(body *Node) (Reply, error) {
	var r reader
	out := Reply{Model: r.text(body, "modelVersion")}
	candidates := r.objects(body, "candidates")
	out.Choices = len(candidates)
	if len(candidates) == 0 {
		if out.Stop = r.text(r.object(body, "promptFeedback"), "blockReason"); out.Stop == "" {
			return out, errors.Join(r.err, errors.New("it has no candidates"))
		}
		out.Choices, out.End = 1, Refused
		return out, r.err
	}
	out.Stop = r.text(&candidates[0], "finishReason")
	out.End = geminiEnd(out.Stop)
	content := r.object(&candidates[0], "content")
	parts := r.objects(content, "parts")
	for i := range parts {
		p := geminiPart(&parts[i])
		if p.Kind == ToolResult { // which only a request has
			p = Part{Type: p.Type}
		}
		out.Parts = append(out.Parts, p)
	}
	out.served = geminiServed(parts)
	for i := range candidates[1:] {
		if c := candidates[i+1].Get("content"); c != nil {
			out.others = append(out.others, contentParts(c.Get("parts"), geminiPart)...)
		}
	}
	if out.End == Failed {
		out.Detail = cmp.Or(candidates[0].Str("finishMessage"), out.Stop)
	}
	return out, r.err
}

// geminiEnd says how a reply with this finishReason ended.
func geminiEnd(reason string) End {
	switch reason {
	case "STOP":
		return Finished
	case "MAX_TOKENS":
		return Cut
	case "SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY":
		return Refused
	case "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL":
		return Failed
	}
	return Stopped
}

// geminiServed lists the programs that Google ran, each with the part behind it.
func geminiServed(parts []Node) (served []Result) {
	for i := range parts {
		code := firstOf(&parts[i], "executableCode", "executable_code")
		if code == nil {
			continue
		}
		r := Result{Name: "executableCode", Args: []byte(textOf(code))}
		if i+1 < len(parts) {
			if result := firstOf(&parts[i+1], "codeExecutionResult", "code_execution_result"); result != nil {
				r.Sent, r.IsError = textOf(result), result.Str("outcome") != "OUTCOME_OK"
			}
		}
		served = append(served, r)
	}
	return served
}

func (gemini) answer(a *Answer) (Node, error) {
	parts := []Node{}
	reason := "STOP"
	if text := a.Text + a.Refusal; text != "" {
		parts = append(parts, ObjectNode("text", StringNode(text)))
	}
	if a.Refusal != "" {
		reason = "SAFETY"
	}
	for _, c := range a.Calls {
		args, err := ParseNode(c.Args)
		if err != nil {
			return Node{}, malformed("the arguments of a call: %w", err)
		}
		parts = append(parts, ObjectNode("functionCall", ObjectNode("id", StringNode(c.ID), "name", StringNode(c.Name), "args", args)))
	}
	return ObjectNode("candidates", ArrayNode(ObjectNode("content", ObjectNode("parts", ArrayNode(parts...), "role", StringNode("model")), "finishReason", StringNode(reason), "index", numberNode(0))),
		"modelVersion", StringNode(a.Model), "responseId", StringNode(a.ID),
		"usageMetadata", ObjectNode("promptTokenCount", numberNode(a.InputTokens), "candidatesTokenCount", numberNode(a.OutputTokens), "totalTokenCount", numberNode(a.InputTokens+a.OutputTokens))), nil
}

// usage takes off the input what came from the cache, which Google counts as
// both, and adds the thoughts to the output, which it counts apart.
func (gemini) usage(c *counter, usage *Node) Usage {
	cached, thoughts := c.at(usage, "cachedContentTokenCount"), c.at(usage, "thoughtsTokenCount")
	return Usage{
		InputTokens:     c.at(usage, "promptTokenCount") + c.at(usage, "toolUsePromptTokenCount") - cached,
		CacheReadTokens: cached,
		OutputTokens:    c.at(usage, "candidatesTokenCount") + thoughts,
		ReasoningTokens: thoughts,
	}
}

// ends: a stream has no last event of its own. The reason why it ended is in the
// last of a candidate.
func (gemini) ends(chunk string) bool {
	return strings.Contains(chunk, `"finishReason"`) || strings.Contains(chunk, `"blockReason"`)
}

// assemble joins the events, each of which is a reply with a piece of what is
// said. Pieces of a text that follow one another become one part.
func (gemini) assemble(events []Event, _ bool) (*Node, error) {
	body := ObjectNode()
	var candidates []Node
	over := false
	for i := range events {
		data := &events[i].Data
		if problem := data.Get("error"); problem != nil {
			return nil, brokenStream(GeminiGenerate, "it reports an error: %s", Head(string(problem.AppendJSON(nil))))
		}
		for _, m := range data.Members() {
			if m.Name == "candidates" {
				for j := range m.List {
					candidates = mergeCandidate(candidates, &m.List[j])
				}
			} else {
				body.Set(m.Name, m) // counts are those so far, so the last are right
			}
		}
		if feedback := data.Get("promptFeedback"); feedback != nil && feedback.Str("blockReason") != "" {
			over = true
		}
	}
	for i := range candidates {
		if candidates[i].Str("finishReason") == "" {
			return nil, brokenStream(GeminiGenerate, "it ends before a candidate has its finishReason")
		}
		over = true
	}
	if !over {
		return nil, brokenStream(GeminiGenerate, "it has no candidate")
	}
	if candidates != nil {
		body.Set("candidates", ArrayNode(candidates...))
	}
	return &body, nil
}

// mergeCandidate adds a piece to the candidate with the same index, which is 0
// where it is left out.
func mergeCandidate(list []Node, piece *Node) []Node {
	index := func(n *Node) string {
		if v := n.Get("index"); v != nil {
			return v.Text
		}
		return "0"
	}
	for i := range list {
		if index(&list[i]) != index(piece) {
			continue
		}
		for _, m := range piece.Members() {
			if old := list[i].Get(m.Name); m.Name == "content" && old != nil {
				mergeParts(old, m.Items("parts"))
			} else {
				list[i].Set(m.Name, m)
			}
		}
		return list
	}
	return append(list, piece.Clone())
}

func mergeParts(content *Node, parts []Node) {
	have := content.Items("parts")
	for i := range parts {
		if last := len(have) - 1; i == 0 && last >= 0 && isPlainText(&have[last]) && isPlainText(&parts[0]) && (have[last].Get("thought") != nil) == (parts[0].Get("thought") != nil) {
			have[last].Set("text", StringNode(have[last].Str("text")+parts[0].Str("text")))
			continue
		}
		have = append(have, parts[i])
	}
	content.Set("parts", ArrayNode(have...))
}

// isPlainText tells a part that is a text, or a thought, and nothing else.
func isPlainText(n *Node) bool {
	for _, m := range n.Members() {
		if m.Name != "text" && m.Name != "thought" {
			return false
		}
	}
	return n.Get("text") != nil
}

// stream writes a body as one event, which is how short replies come.
func (gemini) stream(w *eventWriter, body *Node, _ bool) { w.write("", *body) }
