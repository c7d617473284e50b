package agent

import (
	"bytes"
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
	URL            string `json:"url"`
	TimeoutSeconds int    `json:"timeout_seconds,omitempty"` // for each turn: 60
}

func (h *HTTP) validate() error {
	u, err := url.Parse(h.URL)
	switch {
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
	u, err := url.Parse(h.URL)
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
	for i, turn := range c.Turns {
		if err := s.StartTurn("", turn.Text); err != nil {
			return out, err
		}
		answer, refused, err := h.turn(ctx, client, s, newHTTPTurn(i+1, turn.Text, history, parameters))
		if err != nil {
			return out, err
		}
		history = append(history, httpMessage{"user", turn.Text}, httpMessage{"agent", answer})
		out = Outcome{Answer: answer, Refused: refused}
		if err := s.CompleteTurn(answer); err != nil {
			return out, err
		}
	}
	return out, nil
}

func (h *HTTP) turn(ctx context.Context, client *http.Client, s *session.Session, t httpTurn) (answer string, refused bool, err error) {
	body, err := json.Marshal(t)
	if err != nil {
		return "", false, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, h.URL, bytes.NewReader(body))
	if err != nil {
		return "", false, err
	}
	request.Header.Set("Content-Type", "application/json")
	event := &trajectory.TransportRequest{Protocol: "http", Method: http.MethodPost, Host: request.URL.Hostname(), Path: request.URL.Path, BytesOut: int64(len(body))}
	response, err := client.Do(request)
	if err != nil {
		event.Error = "no answer"
		if eerr := s.Event(event); eerr != nil {
			return "", false, eerr
		}
		return "", false, refusal.Newf(refusal.AgentFailed, "turn %d: asking the agent at %s: %w", t.Turn, request.URL.Host, err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, maxHTTPAnswer+1))
	event.Status, event.BytesIn = response.StatusCode, int64(len(data))
	if eerr := s.Event(event); eerr != nil {
		return "", false, eerr
	}
	switch {
	case err != nil:
		return "", false, refusal.Newf(refusal.AgentFailed, "turn %d: reading the agent's answer: %w", t.Turn, err)
	case len(data) > maxHTTPAnswer:
		return "", false, refusal.Newf(refusal.AgentFailed, "turn %d: the agent's answer has more than %d bytes", t.Turn, maxHTTPAnswer)
	case response.StatusCode != http.StatusOK:
		return "", false, refusal.Newf(refusal.AgentFailed, "turn %d: the agent answered with status %d, expected 200", t.Turn, response.StatusCode)
	}
	return parseHTTPAnswer(t.Turn, data)
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
