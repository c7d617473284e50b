package agent

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tallystick/internal/canon"
	"tallystick/internal/cassette"
)

// Bounds of what a reply may hold, so that a hostile one costs no more than a
// long one.
const (
	maxCalls     = 64  // of one reply; those beyond are dropped
	maxNameBytes = 128 // of a tool; OpenAI and Anthropic allow 64
	maxIDBytes   = 128
)

// A reply is what a model said.
type reply struct {
	text    string // of a refusal, its words
	refused bool
	cut     bool // at the limit of output tokens: the end is missing
	calls   []call
	dropped int // calls beyond maxCalls
}

// A badReply is a call of a model that gave nothing to go on with. Again says
// that asking again may help.
type badReply struct {
	name   string // for the event
	detail string
	again  bool
}

func (e *badReply) Error() string { return e.detail }

// parseReply reads the response of a model call, body or stream. Its errors
// are *badReply.
func parseReply(it *cassette.Interaction) (reply, error) {
	if it == nil || it.Model == nil {
		return reply{}, &badReply{"reply_malformed", "the reply is not one of a model", false}
	}
	m := it.Model
	if m.Response.Status < 200 || m.Response.Status > 299 {
		return reply{}, statusError(&m.Response)
	}
	body := []byte(m.Response.Body)
	if m.Response.Stream != nil {
		joined, err := cassette.BodyOfStream(m.API, m.Response.Stream)
		if err != nil {
			return reply{}, &badReply{"reply_malformed", "the stream does not make a reply: " + clip(err.Error(), 400), true}
		}
		body = joined
	}
	if len(body) == 0 {
		return reply{}, &badReply{"reply_malformed", "the reply is not JSON: " + strconv.Quote(clip(m.Response.Text, 200)), true}
	}
	var r reply
	var err error
	switch m.API {
	case cassette.OpenAIResponses:
		r, err = parseResponses(body)
	case cassette.AnthropicMessages:
		r, err = parseAnthropic(body)
	default:
		r, err = parseChat(body)
	}
	if err != nil {
		if bad := (*badReply)(nil); errors.As(err, &bad) {
			return reply{}, bad
		}
		return reply{}, &badReply{"reply_malformed", fmt.Sprintf("the reply is not one of %s: %s", m.API, clip(err.Error(), 400)), true}
	}
	r.bound()
	return r, nil
}

// statusError says what a reply with an error status means. What the SDKs of
// the providers try again is tried again: 408, 409, 429 and 5xx.
func statusError(r *cassette.Response) *badReply {
	var body struct {
		Error jsontext.Value `json:"error"`
	}
	var inner struct {
		Message string `json:"message"`
	}
	message := r.Text
	if json.Unmarshal(r.Body, &body) == nil && json.Unmarshal(body.Error, &inner) == nil {
		message = inner.Message
	}
	if message == "" {
		message = string(r.Body)
	}
	again := r.Status == 408 || r.Status == 409 || r.Status == 429 || r.Status >= 500
	return &badReply{"model_status_" + strconv.FormatInt(r.Status, 10),
		fmt.Sprintf("the model answered with status %d: %s", r.Status, strconv.Quote(clip(message, 300))), again}
}

func parseChat(body []byte) (r reply, err error) {
	var doc struct {
		Choices []struct {
			FinishReason string `json:"finish_reason"`
			Message      struct {
				Content   jsontext.Value `json:"content"`
				Refusal   string         `json:"refusal"`
				ToolCalls []struct {
					ID       string `json:"id"`
					Function struct {
						Arguments jsontext.Value `json:"arguments"`
						Name      string         `json:"name"`
					} `json:"function"`
				} `json:"tool_calls"`
			} `json:"message"`
		} `json:"choices"`
	}
	if err := json.Unmarshal(body, &doc); err != nil {
		return r, err
	}
	if len(doc.Choices) == 0 {
		return r, errors.New("it has no choices")
	}
	choice := &doc.Choices[0]
	if r.text, err = r.content(choice.Message.Content); err != nil {
		return r, err
	}
	if choice.Message.Refusal != "" {
		r.text, r.refused = choice.Message.Refusal, true
	}
	r.cut = choice.FinishReason == "length"
	r.refused = r.refused || choice.FinishReason == "content_filter"
	for _, c := range choice.Message.ToolCalls {
		r.calls = append(r.calls, call{c.ID, c.Function.Name, arguments(c.Function.Arguments)})
	}
	return r, nil
}

func parseResponses(body []byte) (r reply, err error) {
	var doc struct {
		Status     string `json:"status"`
		Incomplete struct {
			Reason string `json:"reason"`
		} `json:"incomplete_details"`
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
		Output []struct {
			Type      string         `json:"type"`
			Arguments jsontext.Value `json:"arguments"`
			CallID    string         `json:"call_id"`
			Content   jsontext.Value `json:"content"`
			Name      string         `json:"name"`
		} `json:"output"`
	}
	if err := json.Unmarshal(body, &doc); err != nil {
		return r, err
	}
	switch doc.Status {
	case "failed", "cancelled":
		return r, &badReply{"model_failed", "the model did not answer: " + strconv.Quote(clip(doc.Error.Message, 300)), true}
	case "queued", "in_progress":
		return r, fmt.Errorf("its status is %s", doc.Status)
	}
	for _, item := range doc.Output {
		switch item.Type {
		case "message":
			text, err := r.content(item.Content)
			if err != nil {
				return r, err
			}
			r.text += text
		case "function_call":
			r.calls = append(r.calls, call{item.CallID, item.Name, arguments(item.Arguments)})
		}
	}
	r.cut = doc.Incomplete.Reason == "max_output_tokens"
	r.refused = r.refused || doc.Incomplete.Reason == "content_filter"
	return r, nil
}

func parseAnthropic(body []byte) (r reply, err error) {
	var doc struct {
		Type       string `json:"type"`
		StopReason string `json:"stop_reason"`
		Content    []struct {
			Type  string         `json:"type"`
			Text  string         `json:"text"`
			ID    string         `json:"id"`
			Input jsontext.Value `json:"input"`
			Name  string         `json:"name"`
		} `json:"content"`
	}
	if err := json.Unmarshal(body, &doc); err != nil {
		return r, err
	}
	if doc.Type != "message" {
		return r, fmt.Errorf("its type is %.40q, expected message", doc.Type)
	}
	var text strings.Builder
	for _, block := range doc.Content {
		switch block.Type {
		case "text":
			text.WriteString(block.Text)
		case "tool_use":
			r.calls = append(r.calls, call{block.ID, block.Name, []byte(block.Input)})
		}
	}
	r.text = text.String()
	r.cut = doc.StopReason == "max_tokens" || doc.StopReason == "model_context_window_exceeded"
	r.refused = doc.StopReason == "refusal"
	return r, nil
}

// content reads the content of a message: a text, a list of parts, or null. A
// part that is a refusal makes the whole reply one.
func (r *reply) content(v jsontext.Value) (string, error) {
	if len(v) == 0 || v.Kind() == 'n' {
		return "", nil
	}
	if v.Kind() == '"' {
		var text string
		err := json.Unmarshal(v, &text)
		return text, err
	}
	var parts []struct {
		Type    string `json:"type"`
		Text    string `json:"text"`
		Refusal string `json:"refusal"`
	}
	if err := json.Unmarshal(v, &parts); err != nil {
		return "", err
	}
	var text strings.Builder
	for _, p := range parts {
		switch p.Type {
		case "text", "output_text":
			text.WriteString(p.Text)
		case "refusal":
			text.WriteString(p.Refusal)
			r.refused = true
		}
	}
	return text.String(), nil
}

// arguments takes the arguments out of the text in which the OpenAI APIs have
// them. Some servers write the object itself.
func arguments(v jsontext.Value) []byte {
	if v.Kind() != '"' {
		return []byte(v)
	}
	var text string
	if json.Unmarshal(v, &text) != nil {
		return []byte(v)
	}
	return []byte(text)
}

// bound brings the calls into a form that can be sent back: not too many, each
// with a name, and with an id that no other has.
func (r *reply) bound() {
	if len(r.calls) > maxCalls {
		r.dropped = len(r.calls) - maxCalls
		r.calls = r.calls[:maxCalls]
	}
	for i := range r.calls {
		c := &r.calls[i]
		if c.name == "" {
			c.name = "unnamed"
		}
		c.name = clip(c.name, maxNameBytes)
		if c.id == "" || len(c.id) > maxIDBytes || usedBefore(r.calls[:i], c.id) {
			c.id = "call_" + strconv.Itoa(i+1)
			for usedBefore(r.calls[:i], c.id) {
				c.id += "x"
			}
		}
	}
}

func usedBefore(calls []call, id string) bool {
	for _, c := range calls {
		if c.id == id {
			return true
		}
	}
	return false
}

// object returns the canonical form of arguments that are a JSON object.
// Nothing at all is the empty object, as models write it.
func object(args []byte) ([]byte, bool) {
	if len(strings.TrimSpace(string(args))) == 0 {
		return []byte("{}"), true
	}
	text, err := canon.Canonicalize(args)
	if err != nil || text[0] != '{' {
		return nil, false
	}
	return text, true
}

// clip returns at most limit bytes of s, cut between two characters.
func clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}
