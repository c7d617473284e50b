package judge

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"tallystick/internal/record/canon"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/wire"
)

// Bounds of a reply. A judge that needs more is not answering the question.
const (
	maxReplyBytes  = 16 << 10
	maxReasonBytes = 4000
)

// passMark is the score from which on a reply must say that it passed. It is
// in the fixed text, and is not a threshold: a grader has its own.
const passMark = 0.5

// An opinion is one reply that was accepted.
type opinion struct {
	score  float64
	passed bool
	reason string
}

// A said is what a model replied, before its shape is checked.
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
		if body, err = wire.BodyOfStream(it.Model.API, r.Stream); err != nil {
			return said{}, fmt.Errorf("the stream is not complete: %w", err)
		}
	}
	if len(body) == 0 {
		return said{}, fmt.Errorf("the provider answered with no JSON: %.200q", r.Text)
	}
	reply, err := wire.ReadReply(it.Model.API, body)
	if err != nil {
		return said{}, fmt.Errorf("it is not a reply of %s: %w", it.Model.API, err)
	}
	if err := complete(&reply); err != nil {
		return said{}, err
	}
	return bareText(&reply, shaped && it.Model.API.ShapedByTool())
}

// complete refuses a reply that is not one whole answer.
func complete(r *wire.Reply) error {
	switch {
	case r.Choices != 1:
		return fmt.Errorf("it has %d choices, expected one", r.Choices)
	case r.Refused():
		return fmt.Errorf("the model refused: %.200q", r.Text())
	case r.End == wire.Cut:
		return fmt.Errorf("it is cut off at the limit of output tokens (%.40q)", r.Stop)
	case r.End != wire.Finished:
		return fmt.Errorf("the model stopped because of %.40q", r.Stop)
	}
	return nil
}

// bareText takes the input of the one tool if the reply was asked for in its
// shape; what a model says beside it makes it no bare reply.
func bareText(r *wire.Reply, byTool bool) (said, error) {
	out, tools := said{model: r.Model}, 0
	for _, p := range r.Parts {
		switch {
		case p.Kind == wire.Reasoning:
		case p.Kind == wire.Text:
			out.text += p.Text
		case p.Kind == wire.ToolCall && byTool && p.Call.Name == replyTool:
			out.text += string(p.Call.Args)
			tools++
		case p.Kind == wire.ToolCall:
			return said{}, fmt.Errorf("the model called a tool, %.40q, expected nothing but the verdict", p.Call.Name)
		default:
			return said{}, fmt.Errorf("it has a %.40q, expected nothing but the verdict", p.Type)
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
