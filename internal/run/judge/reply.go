package judge

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"tallystick/internal/run/cassette"
	"tallystick/internal/run/question"
	"tallystick/internal/run/wire"
)

// Bounds of what a reply says. A judge that needs more is not answering the question.
const (
	verdictBytes   = 16 << 10 // of a verdict alone
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

// replyText takes the words out of a model call. An error says that it is not the
// reply of a model; a flaw, that it is one which does not count, whatever it says.
func replyText(it *cassette.Interaction, shaped bool) (s said, flaw string, err error) {
	r := &it.Model.Response
	body := []byte(r.Body)
	if r.Stream != nil {
		var err error
		if body, err = wire.BodyOfStream(it.Model.API, r.Stream); err != nil {
			return said{}, "", fmt.Errorf("the stream is not complete: %w", err)
		}
	}
	if len(body) == 0 {
		return said{}, "", fmt.Errorf("the provider answered with no JSON: %.200q", r.Text)
	}
	reply, err := wire.ReadReply(it.Model.API, body)
	if err != nil {
		return said{}, "", fmt.Errorf("it is not a reply of %s: %w", it.Model.API, err)
	}
	s, flaw = words(&reply, shaped && it.Model.API.ShapedByTool())
	if err := complete(&reply); err != nil {
		flaw = err.Error()
	}
	return s, flaw, nil
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

// words are what a model wrote, and the input of the tool in whose shape it was asked to
// reply, in their order.
func words(r *wire.Reply, byTool bool) (out said, flaw string) {
	out.model = r.Model
	var texts []string
	for _, p := range r.Parts {
		switch {
		case p.Kind == wire.Reasoning:
		case p.Kind == wire.Text:
			texts = append(texts, p.Text)
		case p.Kind == wire.ToolCall && byTool && p.Call.Name == replyTool:
			texts = append(texts, string(p.Call.Args))
		case p.Kind == wire.ToolCall:
			flaw = fmt.Sprintf("the model called a tool, %.40q, expected nothing but the verdict", p.Call.Name)
		default:
			flaw = fmt.Sprintf("it has a %.40q, expected nothing but the verdict", p.Type)
		}
	}
	out.text = strings.Join(texts, "\n")
	return out, flaw
}

// verdictShape is the object that a plain question asks for: three members in their
// ranges, that do not contradict each other.
func verdictShape() question.Shape[opinion] {
	return question.Shape[opinion]{Wanted: []string{"score", "passed", "reason"}, Read: func(m question.Members) (o opinion, err error) {
		if err := errors.Join(m.Take("score", &o.score), m.Take("passed", &o.passed), m.Take("reason", &o.reason)); err != nil {
			return o, err
		}
		switch {
		case !(o.score >= 0 && o.score <= 1):
			return o, fmt.Errorf("score is %v, expected 0 to 1", o.score)
		case o.passed != (o.score >= passMark):
			return o, fmt.Errorf("it contradicts itself: score is %v and passed is %v", o.score, o.passed)
		}
		o.score += 0 // minus zero is a second spelling of zero
		return o, checkReason(o.reason)
	}}
}

func checkReason(reason string) error {
	if strings.TrimSpace(reason) == "" || len(reason) > maxReasonBytes {
		return fmt.Errorf("reason has %d bytes, expected 1 to %d and not only blanks", len(reason), maxReasonBytes)
	}
	return nil
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
