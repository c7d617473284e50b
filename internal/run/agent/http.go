package agent

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"tallystick/internal/record/loopback"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/scenario"
	"tallystick/internal/run/session"
	"tallystick/internal/run/trajectory"
	"tallystick/internal/run/wire"
)

// maxHTTPAnswer bounds what an agent behind a URL may answer.
const maxHTTPAnswer = 4 << 20

// HTTP is an agent behind a URL. For each turn it is sent
//
//	{"turn": 1, "input": "...", "history": [{"role": "user", "text": "..."}, ...],
//	 "messages": [{"role": "user", "content": "..."}]}
//
// and answers {"answer": "..."}, or {"answer": "...", "refused": true}, or hands
// on the reply of a model API as it is. What it does in between cannot be seen
// from here.
type HTTP struct {
	URL            string `json:"url,omitempty"`
	TimeoutSeconds int    `json:"timeout_seconds,omitempty"` // for each turn: 60

	// InProcess says that the agent is a function in the process that asks for the run.
	// Its URL, which differs from run to run, comes from the environment; it is sent the
	// id of the case, and may answer with an error and with scores of its own, which
	// are recorded as reported. Code is what it says its code is.
	InProcess bool   `json:"in_process,omitempty"`
	Code      string `json:"code,omitempty"`

	found string `json:"-"`
	token string `json:"-"`
}

// TaskURLVariable names, in the environment, where an agent in the asking process
// listens, and TaskTokenVariable the secret that it wants to hear: other users of the
// machine reach its port too.
const (
	TaskURLVariable   = "TALLY_TASK_URL"
	TaskTokenVariable = "TALLY_TASK_TOKEN"
)

// Find takes the URL of an agent in the asking process from the environment.
func (h *HTTP) Find(getenv func(string) string) error {
	found := HTTP{URL: getenv(TaskURLVariable), TimeoutSeconds: h.TimeoutSeconds}
	if found.URL == "" {
		return refusal.Newf(refusal.Usage, "its function runs in the process that asks for the run, and %s is not set", TaskURLVariable).
			WithHint("run the program that calls Eval again: docs/code-first.md")
	}
	if err := found.validate(); err != nil {
		return refusal.Newf(refusal.Usage, "%s: %w", TaskURLVariable, err)
	}
	if !found.Local() {
		return refusal.Newf(refusal.Usage, "%s is not on this machine, expected a URL such as http://127.0.0.1:8000/", TaskURLVariable)
	}
	h.found, h.token = found.URL, getenv(TaskTokenVariable)
	return nil
}

// Isolation is how the agent is kept apart, as the records of its cases have it: one in
// the asking process not at all.
func (h *HTTP) Isolation() string {
	if h.InProcess {
		return "none"
	}
	return "remote"
}

func (h *HTTP) address() string { return cmp.Or(h.URL, h.found) }

func (h *HTTP) validate() error {
	u, err := url.Parse(h.URL)
	switch {
	case h.InProcess && h.URL != "":
		return fmt.Errorf("url: an agent in the asking process has none here; it comes from %s", TaskURLVariable)
	case h.InProcess && len(h.Code) > 200:
		return fmt.Errorf("code: found %d bytes, expected at most 200", len(h.Code))
	case h.InProcess && h.TimeoutSeconds >= 0 && h.TimeoutSeconds <= 24*60*60:
		return nil
	case !h.InProcess && h.Code != "":
		return errors.New("code: only an agent in the asking process (in_process: true) says what its code is")
	case err != nil:
		return fmt.Errorf("url: %w", err)
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return fmt.Errorf("url: found %q, expected http:// or https://", h.URL)
	case u.User != nil:
		return errors.New("url: holds a user name or a password; a target must not hold secrets")
	case u.Scheme == "http" && !h.Local():
		return errors.New("url: http:// is accepted for this machine only; use https://")
	case h.TimeoutSeconds < 0 || h.TimeoutSeconds > 24*60*60:
		return fmt.Errorf("timeout_seconds: found %d, expected 1 to 86400", h.TimeoutSeconds)
	}
	return nil
}

// Local reports whether the agent is on this machine, so that driving it
// touches no network.
func (h *HTTP) Local() bool {
	u, err := url.Parse(h.address())
	if err != nil {
		return false
	}
	return loopback.Is(u.Hostname())
}

type httpMessage struct {
	Role string `json:"role"`
	Text string `json:"text"`
}

// A chatMessage is a message as every model API takes it.
type chatMessage struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// An httpTurn is what an agent is given in a turn: the user's words, what was
// said before, and both as messages that can be handed to a model as they are.
type httpTurn struct {
	Turn     int           `json:"turn"`
	Input    string        `json:"input"`
	History  []httpMessage `json:"history"`
	Messages []chatMessage `json:"messages"`
	// Parameters are those of the target's variant; absent without any.
	Parameters map[string]any `json:"parameters,omitempty"`
	// Case is the id of the case, for an agent in the asking process alone: another
	// could tell from its name what is wanted.
	Case string `json:"case,omitempty"`
}

// An httpAnswer is what an agent answered in a turn.
type httpAnswer struct {
	text    string
	refused bool
	scores  []trajectory.ReportedScore
}

func newHTTPTurn(number int, input string, history []httpMessage, parameters map[string]any) httpTurn {
	t := httpTurn{Turn: number, Input: input, History: history, Parameters: parameters}
	for _, m := range history {
		role := m.Role
		if role == "agent" {
			role = "assistant"
		}
		t.Messages = append(t.Messages, chatMessage{role, m.Text})
	}
	t.Messages = append(t.Messages, chatMessage{"user", input})
	return t
}

func (h *HTTP) drive(ctx context.Context, s *session.Session, c *scenario.Scenario, parameters map[string]any) (Outcome, error) {
	client := &http.Client{
		Timeout: time.Duration(max(h.TimeoutSeconds, 0)) * time.Second,
		// An agent that sends us elsewhere is not the agent that was named.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport:     &http.Transport{Proxy: nil},
	}
	if client.Timeout == 0 {
		client.Timeout = time.Minute
	}
	defer client.CloseIdleConnections()
	history := []httpMessage{}
	var out Outcome
	for number := 1; ; number++ {
		text, more, err := s.NextTurn(ctx, "", c.Turns)
		if err != nil || !more {
			return out, err
		}
		asked := newHTTPTurn(number, text, history, parameters)
		if h.InProcess {
			asked.Case = s.Case()
		}
		answer, err := h.turn(ctx, client, s, asked)
		if err != nil {
			return out, err
		}
		history = append(history, httpMessage{"user", text}, httpMessage{"agent", answer.text})
		out = Outcome{Answer: answer.text, Refused: answer.refused}
		if err := s.CompleteScored(answer.text, answer.scores); err != nil {
			return out, err
		}
	}
}

func (h *HTTP) turn(ctx context.Context, client *http.Client, s *session.Session, t httpTurn) (httpAnswer, error) {
	body, err := json.Marshal(t)
	if err != nil {
		return httpAnswer{}, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, h.address(), bytes.NewReader(body))
	if err != nil {
		return httpAnswer{}, err
	}
	request.Header.Set("Content-Type", "application/json")
	if h.token != "" {
		request.Header.Set("Authorization", "Bearer "+h.token)
	}
	event := &trajectory.TransportRequest{Protocol: "http", Method: http.MethodPost, Host: request.URL.Hostname(), Path: request.URL.Path, BytesOut: int64(len(body))}
	response, err := client.Do(request)
	if err != nil {
		event.Error = "no answer"
		if eerr := s.Event(event); eerr != nil {
			return httpAnswer{}, eerr
		}
		return httpAnswer{}, refusal.Newf(refusal.AgentFailed, "turn %d: asking the agent at %s: %w", t.Turn, request.URL.Host, err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, maxHTTPAnswer+1))
	event.Status, event.BytesIn = response.StatusCode, int64(len(data))
	if eerr := s.Event(event); eerr != nil {
		return httpAnswer{}, eerr
	}
	switch {
	case err != nil:
		return httpAnswer{}, refusal.Newf(refusal.AgentFailed, "turn %d: reading the agent's answer: %w", t.Turn, err)
	case len(data) > maxHTTPAnswer:
		return httpAnswer{}, refusal.Newf(refusal.AgentFailed, "turn %d: the agent's answer has more than %d bytes", t.Turn, maxHTTPAnswer)
	case response.StatusCode != http.StatusOK:
		return httpAnswer{}, refusal.Newf(refusal.AgentFailed, "turn %d: the agent answered with status %d, expected 200", t.Turn, response.StatusCode)
	}
	if h.InProcess {
		return parseReported(t.Turn, data)
	}
	text, refused, err := parseHTTPAnswer(t.Turn, data)
	return httpAnswer{text: text, refused: refused}, err
}

// parseReported reads what an agent in the asking process answers: JSON of ours and
// nothing else, with the error that its function raised, or its answer and scores.
func parseReported(turn int, data []byte) (httpAnswer, error) {
	var a struct {
		Answer *string                    `json:"answer"`
		Error  string                     `json:"error"`
		Scores []trajectory.ReportedScore `json:"scores"`
	}
	err := json.Unmarshal(data, &a)
	switch {
	case err != nil || !utf8.Valid(data) || a.Answer == nil && a.Error == "":
		return httpAnswer{}, refusal.Newf(refusal.AgentFailed, `turn %d: the process answered %q, expected JSON with an "answer" or an "error"`, turn, head(data)).
			WithHint("docs/code-first.md has the protocol")
	case a.Error != "":
		return httpAnswer{}, refusal.Newf(refusal.AgentFailed, "the task failed: %s", a.Error)
	}
	said := trajectory.TurnCompleted{Scores: a.Scores}
	if err := said.Validate(); err != nil {
		return httpAnswer{}, refusal.Newf(refusal.AgentFailed, "turn %d: what the process reported: %w", turn, err).
			WithHint("a score has a name, and a number from 0 to 1, or a reason why there is none; docs/code-first.md")
	}
	return httpAnswer{text: *a.Answer, scores: a.Scores}, nil
}

func parseHTTPAnswer(turn int, data []byte) (string, bool, error) {
	var a struct {
		Answer  *string `json:"answer"`
		Refused bool    `json:"refused"`
	}
	err := json.Unmarshal(data, &a)
	switch reply := modelReply(data); {
	case err != nil || !utf8.Valid(data):
	case a.Answer != nil:
		return *a.Answer, a.Refused, nil
	case reply != nil:
		return reply.Text(), reply.Refused(), nil
	}
	return "", false, refusal.Newf(refusal.AgentFailed, `turn %d: the agent's answer is not JSON with an "answer"; it begins %q`, turn, head(data)).
		WithHint(`answer {"answer": "..."}, or the reply of a model API as it is; docs/agents.md has the protocol`)
}

// modelReply reads the reply of a model API, for agents that hand it on as it is.
// It is nil for anything else, and for a reply that has no words: one that asks
// for a tool is not an answer.
func modelReply(data []byte) *wire.Reply {
	for _, api := range wire.APIs() {
		if r, err := wire.ReadReply(api, data); err == nil && r.Text() != "" {
			return &r
		}
	}
	return nil
}

func head(data []byte) string {
	return strings.ToValidUTF8(string(data[:min(len(data), 80)]), "\uFFFD")
}
