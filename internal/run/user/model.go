package user

import (
	"context"
	_ "embed" // the prompt
	"fmt"
	"strconv"
	"strings"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/question"
	"tallystick/internal/run/scenario"
	"tallystick/internal/run/session"
	"tallystick/internal/run/trajectory"
	"tallystick/internal/run/wire"
)

//go:embed prompt_v1.txt
var promptText string

// PromptDigest names the template that a model is given. The plan of an attempt has it.
func PromptDigest() digest.Content { return digest.ContentOf([]byte(promptText)) }

// A Model plays the user by asking a model. Its requests hold the whole conversation.
type Model struct {
	settings *Settings
	models   session.Models
	source   string // in events, of what is not from the library

	envelope wire.Envelope
	system   []byte
	messages [][]byte
}

// NewModel makes the player of one execution. Models answers it, and nothing else: what
// is recorded for the agent is not at hand.
func NewModel(settings *Settings, models session.Models, source string, s *scenario.Scenario) (*Model, error) {
	text, err := prompt(s)
	if err != nil {
		return nil, err
	}
	o := wire.Options{Model: settings.Model, MaxOutput: settings.MaxOutput}
	if settings.Temperature != nil {
		if o.Temperature, err = canon.Marshal(*settings.Temperature); err != nil {
			return nil, err
		}
	}
	m := &Model{settings: settings, models: models, source: source, envelope: wire.NewEnvelope(settings.API, o)}
	m.system = m.envelope.System(text)
	return m, nil
}

// prompt fills the template. What is filled in is not looked at again.
func prompt(s *scenario.Scenario) (string, error) {
	u := s.User
	facts, err := lines(u.Facts)
	if err != nil {
		return "", err
	}
	never, err := lines(u.Never)
	if err != nil {
		return "", err
	}
	var shown []any
	for _, t := range u.Tools {
		shown = append(shown, struct {
			Description string           `json:"description,omitempty"`
			Name        string           `json:"name"`
			Schema      canon.RawMessage `json:"schema,omitempty"`
		}{t.Description, t.Name, t.Schema})
	}
	tools, err := lines(shown)
	if err != nil {
		return "", err
	}
	opening, err := canon.Marshal(s.Turns[0].Text)
	if err != nil {
		return "", err
	}
	return strings.NewReplacer("{{persona}}", u.Persona, "{{goal}}", u.Goal, "{{facts}}", facts, "{{never}}", never, "{{tools}}", tools,
		"{{most}}", strconv.Itoa(u.Most()), "{{opening}}", string(opening)).Replace(promptText), nil
}

func lines[T any](list []T) (string, error) {
	if len(list) == 0 {
		return "(nothing)", nil
	}
	var b strings.Builder
	for i, item := range list {
		text, err := canon.Marshal(item)
		if err != nil {
			return "", err
		}
		if i > 0 {
			b.WriteByte('\n')
		}
		b.Write(text)
	}
	return b.String(), nil
}

// move asks the model for its next move.
func (m *Model) move(ctx context.Context, h Heard) (Move, *trajectory.UserMoved, error) {
	said, err := canon.Marshal(h)
	if err != nil {
		return Move{}, nil, err
	}
	fence := digest.IDOf(said).String()
	text := fmt.Sprintf("%s%s:%s:begin=====\n%s\n%s%s:%s:end=====", question.Mark, h.From, fence, said, question.Mark, h.From, fence)
	m.messages = append(m.messages, m.settings.API.User(text))
	body := m.envelope.Request(m.system, m.messages, nil)
	event := &trajectory.UserMoved{By: trajectory.ByModel, Model: m.settings.Model, Source: m.source}
	if m.models == nil {
		return Move{}, event, refusal.Newf(refusal.CassetteMiss, "the case has no recording of the model that plays its user").
			WithHint(`record one with "tally record CLASS --target TARGET", write replies with for: user in the scenario, or give the case a %s`, scenario.UserFile)
	}
	within, cancel := context.WithTimeoutCause(ctx, m.settings.Timeout, errSlow)
	defer cancel()
	it, err := m.models.Call(within, m.settings.API, body, nil)
	if err != nil && within.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w: %v", errSlow, m.settings.Timeout)
	}
	if err != nil {
		return Move{}, event, err
	}
	paid(event, it)
	reply, err := replyOf(it)
	if err != nil {
		return Move{}, event, &unreadable{err}
	}
	m.messages = append(m.messages, m.settings.API.Say(reply, nil))
	move, err := parseReply(reply)
	if err != nil {
		return Move{}, event, &unreadable{err}
	}
	return move, event, nil
}

// paid notes what a call cost.
func paid(e *trajectory.UserMoved, it *cassette.Interaction) {
	c := it.Model
	request := digest.ContentOf(c.Request)
	e.Request, e.LatencyMS, e.TokensIn, e.TokensOut = &request, it.LatencyMS, c.Usage.In(), c.Usage.OutputTokens
	if e.Unpriced = c.CostMicrodollars == nil; !e.Unpriced {
		e.CostMicroUSD = *c.CostMicrodollars
	}
	if it.FromLibrary {
		e.Source = "library"
	}
}

// replyOf is the text of a reply, or why there is none.
func replyOf(it *cassette.Interaction) (string, error) {
	r := &it.Model.Response
	if r.Status >= 400 {
		return "", fmt.Errorf("the provider answered with status %d: %s", r.Status, wire.Head(wire.FailureMessage(r.Body)))
	}
	body := []byte(r.Body)
	if r.Stream != nil {
		var err error
		if body, err = wire.BodyOfStream(it.Model.API, r.Stream); err != nil {
			return "", err
		}
	}
	said, err := wire.ReadReply(it.Model.API, body)
	if err != nil {
		return "", err
	}
	if said.Text() == "" {
		return "", fmt.Errorf("the reply has no words")
	}
	return said.Text(), nil
}
