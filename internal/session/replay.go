package session

import (
	"context"
	"encoding/json"
	"strings"

	"tallystick/internal/canon"
	"tallystick/internal/cassette"
)

// Replay answers model calls from a cassette, and from nothing else.
type Replay struct{ Player *cassette.Player }

// Call gives the recording of a request.
func (r *Replay) Call(_ context.Context, api cassette.API, body []byte, onChunk func(string) error) (*cassette.Interaction, error) {
	request, err := cassette.ModelRequest(api, body, nil)
	if err != nil {
		return nil, err
	}
	return r.next(request, onChunk)
}

func (r *Replay) next(request cassette.Request, onChunk func(string) error) (*cassette.Interaction, error) {
	it, err := r.Player.Next(request)
	if err != nil {
		return nil, err
	}
	return it, giveChunks(it, onChunk)
}

func giveChunks(it *cassette.Interaction, onChunk func(string) error) error {
	if onChunk == nil {
		return nil
	}
	reply, err := it.Model.Reply(cassette.StreamOptions{Stream: true, IncludeUsage: true})
	if err != nil {
		return err
	}
	for _, chunk := range reply.Stream {
		if err := onChunk(chunk); err != nil {
			return err
		}
	}
	return nil
}

// A said is what a model's reply comes to in the events: its text and the tools
// that it wants.
type said struct {
	text   strings.Builder
	calls  []saidCall
	finish string
}

type saidCall struct {
	Args string `json:"args"`
	Name string `json:"name"`
}

// replyText gives a reply for the event: the text alone, or a JSON object with
// the tool calls.
func replyText(m *cassette.ModelCall) (text, finish string) {
	r := &m.Response
	if r.Status >= 400 || r.Body == nil && r.Stream == nil {
		return cutText(r.Text+string(r.Body), 64<<10), "error"
	}
	body := []byte(r.Body)
	if r.Stream != nil {
		var err error
		if body, err = cassette.BodyOfStream(m.API, r.Stream); err != nil {
			return strings.Join(r.Stream, ""), "broken"
		}
	}
	var s said
	switch m.API {
	case cassette.OpenAIChat:
		s.chat(body)
	case cassette.OpenAIResponses:
		s.responses(body)
	case cassette.AnthropicMessages:
		s.messages(body)
	}
	finish = cutText(s.finish, 60)
	if len(s.calls) == 0 {
		return s.text.String(), finish
	}
	doc := map[string]any{"tool_calls": s.calls}
	if s.text.Len() > 0 {
		doc["text"] = s.text.String()
	}
	out, err := canon.Marshal(doc)
	if err != nil {
		return string(body), finish
	}
	return string(out), finish
}

func (s *said) chat(body []byte) {
	var r struct {
		Choices []struct {
			FinishReason string `json:"finish_reason"`
			Message      struct {
				Content   json.RawMessage `json:"content"`
				Refusal   string          `json:"refusal"`
				ToolCalls []struct {
					Function struct{ Name, Arguments string }
				} `json:"tool_calls"`
			}
		}
	}
	if json.Unmarshal(body, &r) != nil || len(r.Choices) == 0 {
		return
	}
	c := r.Choices[0]
	s.finish = c.FinishReason
	var text string
	if json.Unmarshal(c.Message.Content, &text) == nil {
		s.text.WriteString(text)
	}
	s.text.WriteString(c.Message.Refusal)
	for _, call := range c.Message.ToolCalls {
		s.calls = append(s.calls, saidCall{call.Function.Arguments, call.Function.Name})
	}
}

func (s *said) responses(body []byte) {
	var r struct {
		Status string
		Output []struct {
			Type, Name, Arguments string
			Content               []struct{ Text, Refusal string }
		}
	}
	if json.Unmarshal(body, &r) != nil {
		return
	}
	s.finish = r.Status
	for _, item := range r.Output {
		if item.Type == "function_call" {
			s.calls = append(s.calls, saidCall{item.Arguments, item.Name})
		}
		for _, c := range item.Content {
			s.text.WriteString(c.Text + c.Refusal)
		}
	}
}

func (s *said) messages(body []byte) {
	var r struct {
		StopReason string `json:"stop_reason"`
		Content    []struct {
			Type, Text, Name string
			Input            json.RawMessage
		}
	}
	if json.Unmarshal(body, &r) != nil {
		return
	}
	s.finish = r.StopReason
	for _, c := range r.Content {
		switch c.Type {
		case "text":
			s.text.WriteString(c.Text)
		case "tool_use":
			s.calls = append(s.calls, saidCall{string(c.Input), c.Name})
		}
	}
}
