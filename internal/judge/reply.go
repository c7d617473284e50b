package judge

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"tallystick/internal/canon"
	"tallystick/internal/cassette"
)

// Bounds of a reply. A judge that needs more is not answering the question.
const (
	maxReplyBytes  = 16 << 10
	maxReasonBytes = 4000
)

// passMark is the score from which on a reply must say that it passed. It is
// in the fixed text, and is no threshold: a grader has its own.
const passMark = 0.5

// An opinion is one reply that was accepted.
type opinion struct {
	score  float64
	passed bool
	reason string
}

// A said is what a model replied, before anybody looks at its shape.
type said struct {
	text  string
	model string // as the provider names it
}

// statusOf is the error that a provider answered with, after all of its tries.
func statusOf(it *cassette.Interaction) error {
	if it == nil || it.Model == nil {
		return errors.New("it is not the reply of a model")
	}
	if r := &it.Model.Response; r.Status < 200 || r.Status > 299 {
		return fmt.Errorf("the provider answered with status %d: %.200q", r.Status, string(r.Body)+r.Text)
	}
	return nil
}

// replyText takes the words out of a model call. What is not a complete reply
// of a model, and nothing but words, is an error.
func replyText(it *cassette.Interaction, shaped bool) (said, error) {
	r := &it.Model.Response
	body := []byte(r.Body)
	if r.Stream != nil {
		var err error
		if body, err = cassette.BodyOfStream(it.Model.API, r.Stream); err != nil {
			return said{}, fmt.Errorf("the stream is not complete: %w", err)
		}
	}
	if len(body) == 0 {
		return said{}, fmt.Errorf("the provider answered with no JSON: %.200q", r.Text)
	}
	switch it.Model.API {
	case cassette.OpenAIResponses:
		return responsesText(body)
	case cassette.AnthropicMessages:
		return messagesText(body, shaped)
	}
	return chatText(body)
}

func chatText(body []byte) (said, error) {
	var r struct {
		Model   string `json:"model"`
		Choices []struct {
			FinishReason string `json:"finish_reason"`
			Message      struct {
				Content   *string           `json:"content"`
				Refusal   string            `json:"refusal"`
				ToolCalls []json.RawMessage `json:"tool_calls"`
			} `json:"message"`
		} `json:"choices"`
	}
	if err := json.Unmarshal(body, &r); err != nil {
		return said{}, fmt.Errorf("it is no reply of %s: %w", cassette.OpenAIChat, err)
	}
	if len(r.Choices) != 1 {
		return said{}, fmt.Errorf("it has %d choices, expected one", len(r.Choices))
	}
	c := r.Choices[0]
	switch {
	case c.Message.Refusal != "" || c.FinishReason == "content_filter":
		return said{}, fmt.Errorf("the model refused: %.200q", c.Message.Refusal)
	case c.FinishReason == "length":
		return said{}, errors.New("it is cut off at the limit of output tokens")
	case len(c.Message.ToolCalls) > 0:
		return said{}, errors.New("the model called a tool")
	case c.Message.Content == nil:
		return said{}, errors.New("it has no text")
	}
	return said{*c.Message.Content, r.Model}, nil
}

func responsesText(body []byte) (said, error) {
	var r struct {
		Model  string `json:"model"`
		Status string `json:"status"`
		Output []struct {
			Type    string `json:"type"`
			Content []struct {
				Type    string `json:"type"`
				Text    string `json:"text"`
				Refusal string `json:"refusal"`
			} `json:"content"`
		} `json:"output"`
	}
	if err := json.Unmarshal(body, &r); err != nil {
		return said{}, fmt.Errorf("it is no reply of %s: %w", cassette.OpenAIResponses, err)
	}
	if r.Status != "completed" {
		return said{}, fmt.Errorf("its status is %.40q, expected completed", r.Status)
	}
	out := said{model: r.Model}
	for _, item := range r.Output {
		switch item.Type {
		case "reasoning":
		case "message":
			for _, c := range item.Content {
				if c.Type != "output_text" {
					return said{}, fmt.Errorf("the model refused: %.200q", c.Refusal)
				}
				out.text += c.Text
			}
		default:
			return said{}, fmt.Errorf("it has a %.40q, expected nothing but a message", item.Type)
		}
	}
	return out, nil
}

// messagesText takes the input of the one tool if the reply was asked for in
// its shape; what a model says beside it makes it no bare reply.
func messagesText(body []byte, shaped bool) (said, error) {
	var r struct {
		Model      string `json:"model"`
		StopReason string `json:"stop_reason"`
		Content    []struct {
			Type  string          `json:"type"`
			Text  string          `json:"text"`
			Name  string          `json:"name"`
			Input json.RawMessage `json:"input"`
		} `json:"content"`
	}
	if err := json.Unmarshal(body, &r); err != nil {
		return said{}, fmt.Errorf("it is no reply of %s: %w", cassette.AnthropicMessages, err)
	}
	switch r.StopReason {
	case "end_turn", "stop_sequence", "tool_use":
	default:
		return said{}, fmt.Errorf("the model stopped because of %.40q", r.StopReason)
	}
	out, tools := said{model: r.Model}, 0
	for _, block := range r.Content {
		switch {
		case block.Type == "thinking" || block.Type == "redacted_thinking":
		case block.Type == "text":
			out.text += block.Text
		case block.Type == "tool_use" && shaped && block.Name == replyTool:
			out.text += string(block.Input)
			tools++
		default:
			return said{}, fmt.Errorf("it has a %.40q, expected nothing but the verdict", block.Type)
		}
	}
	if tools > 1 {
		return said{}, fmt.Errorf("it has %d verdicts, expected one", tools)
	}
	return out, nil
}

// parseReply reads a reply: one JSON object with exactly the three members, in
// their ranges, that does not contradict itself. White space around it is all
// that is let pass.
func parseReply(text string) (opinion, error) {
	if len(text) > maxReplyBytes {
		return opinion{}, fmt.Errorf("it has %d bytes, the most is %d", len(text), maxReplyBytes)
	}
	trimmed := strings.Trim(text, " \t\r\n")
	if !strings.HasPrefix(trimmed, "{") {
		return opinion{}, fmt.Errorf("it is not a JSON object: %.100q", trimmed)
	}
	// Pointers tell a member that is missing from one that is zero.
	var r struct {
		Score  *float64 `json:"score"`
		Passed *bool    `json:"passed"`
		Reason *string  `json:"reason"`
	}
	if err := canon.Unmarshal([]byte(trimmed), &r); err != nil {
		return opinion{}, err
	}
	switch {
	case r.Score == nil || r.Passed == nil || r.Reason == nil:
		return opinion{}, fmt.Errorf("it lacks score, passed or reason: %.200q", trimmed)
	case !(*r.Score >= 0 && *r.Score <= 1):
		return opinion{}, fmt.Errorf("score is %v, expected 0 to 1", *r.Score)
	case *r.Passed != (*r.Score >= passMark):
		return opinion{}, fmt.Errorf("it contradicts itself: score is %v and passed is %v", *r.Score, *r.Passed)
	case strings.TrimSpace(*r.Reason) == "" || len(*r.Reason) > maxReasonBytes:
		return opinion{}, fmt.Errorf("reason has %d bytes, expected 1 to %d and not only blanks", len(*r.Reason), maxReasonBytes)
	}
	// Minus zero is a second spelling of zero.
	return opinion{*r.Score + 0, *r.Passed, *r.Reason}, nil
}

// cut shortens a text for a message or a document.
func cut(s string, most int) string {
	s = strings.ToValidUTF8(s, "\ufffd")
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most] + "…"
}
