// Package fakemodel is a model provider and an MCP server for tests: they speak
// the wire protocols on this machine and answer what the test says.
//
// It is imported by tests only. Its replies have the form of the real ones as
// far as clients look at them; it checks nothing about requests.
package fakemodel

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"tallystick/internal/run/wire"
)

// Model is the model that replies name if the request names none.
const Model = "fake-1"

// A Reply is what the provider answers to one request. The zero value is an
// empty text.
type Reply struct {
	Status  int // 200 if zero
	Headers map[string]string

	// A well-formed answer, as a stream if the request asks for one.
	Text                      string
	ToolCalls                 []ToolCall
	InputTokens, OutputTokens int64 // 10 and 5 if both are zero

	// Instead of it, bytes as they are: a body, or events of a stream.
	Body   string
	Events []string

	// Raw is sent instead of any HTTP reply, and the connection closed.
	Raw string

	// Cut closes the connection after what is above, without the end that the
	// protocol has. Hang keeps it open until the client goes away.
	Cut, Hang bool

	// Gate, if not nil, is received from before every event but the first, and Wait
	// before anything is sent.
	Gate, Wait <-chan struct{}
}

// A ToolCall is a tool that the model wants called.
type ToolCall struct{ Name, Arguments string }

// A Request is what a client sent.
type Request struct {
	API     wire.API
	Framing wire.Framing // of the stream that it asks for
	Path    string       // with the query
	Header  http.Header
	Body    []byte // with the model in it, wherever the API has it
}

// Stream reports whether the client asks for a stream.
func (r Request) Stream() bool {
	var fields struct{ Stream bool }
	json.Unmarshal(r.Body, &fields)
	return fields.Stream
}

// A Server is a provider of models. It is safe for concurrent use.
type Server struct {
	URL string

	t      testing.TB
	answer func(Request) Reply

	mu       sync.Mutex
	script   []Reply
	requests []Request
}

// New starts a provider that gives these replies one after the other, and
// status 500 with a mark of the test's failure after the last. It ends with
// the test.
func New(t testing.TB, script ...Reply) *Server {
	t.Helper()
	s := &Server{t: t, script: script}
	server := httptest.NewServer(s)
	s.URL = server.URL
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return s
}

// Answer starts a provider that asks f for each reply.
func Answer(t testing.TB, f func(Request) Reply) *Server {
	t.Helper()
	s := New(t)
	s.answer = f
	return s
}

// OpenAI is the base URL for OpenAI's APIs.
func (s *Server) OpenAI() string { return s.URL + "/v1" }

// Anthropic is the base URL for Anthropic's API.
func (s *Server) Anthropic() string { return s.URL }

// Requests lists what has been asked so far.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client went away
	}
	route, ok := wire.RouteOf(r.URL.Path)
	if !ok || route.CountTokens || r.Method != http.MethodPost {
		s.t.Errorf("fakemodel: %s %s is not a call of a model", r.Method, r.URL.Path)
		w.WriteHeader(http.StatusNotFound)
		return
	}
	if route, err = route.Query(r.URL.Query().Get); err == nil {
		body, err = route.Request(body)
	}
	if err != nil {
		s.t.Errorf("faketest: %s: %v", r.URL.Path, err)
	}
	q := Request{API: route.API, Framing: route.Framing, Path: r.URL.RequestURI(), Header: r.Header, Body: body}
	reply := s.next(q)
	if reply.Wait != nil {
		select {
		case <-reply.Wait:
		case <-r.Context().Done():
			return
		}
	}
	reply.write(w, r, q)
}

func (s *Server) next(q Request) Reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, q)
	if s.answer != nil {
		return s.answer(q)
	}
	if len(s.script) == 0 {
		s.t.Errorf("fakemodel: request %d has no reply: %.300s", len(s.requests), q.Body)
		return Reply{Status: 500, Headers: map[string]string{"x-should-retry": "false"}, Body: "fakemodel: no reply left"}
	}
	reply := s.script[0]
	s.script = s.script[1:]
	return reply
}

func (p Reply) write(w http.ResponseWriter, r *http.Request, q Request) {
	if p.Raw != "" {
		conn, buf, err := w.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		buf.WriteString(p.Raw)
		buf.Flush()
		conn.Close()
		return
	}
	body, events := p.Body, p.Events
	if body == "" && events == nil {
		body = p.compose(q)
		if q.Stream() && p.Status < 400 {
			var err error
			if events, err = wire.StreamOfBody(q.API, []byte(body), true); err != nil {
				panic(err)
			}
		}
	}
	w.Header().Set("Content-Type", "application/json")
	if events != nil {
		w.Header().Set("Content-Type", q.Framing.ContentType())
		body = ""
	}
	for name, value := range p.Headers {
		w.Header().Set(name, value)
	}
	if p.Cut && events == nil {
		w.Header().Set("Content-Length", fmt.Sprint(len(body)+1))
	}
	if p.Status != 0 {
		w.WriteHeader(p.Status)
	}
	io.WriteString(w, body)
	for i, event := range events {
		if i > 0 && p.Gate != nil {
			select {
			case <-p.Gate:
			case <-r.Context().Done():
				return
			}
		}
		io.WriteString(w, q.Framing.Encode(event, i == 0))
		w.(http.Flusher).Flush()
	}
	if events != nil && !p.Cut && !p.Hang {
		io.WriteString(w, q.Framing.End(len(events) == 0))
	}
	if p.Hang {
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}
	if p.Cut {
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
}

// compose makes the body of an answer in the form of the API.
func (p Reply) compose(q Request) string {
	var request struct{ Model string }
	json.Unmarshal(q.Body, &request)
	a := wire.Answer{ID: "fake00000001", Model: cmp.Or(request.Model, Model), Text: p.Text, InputTokens: p.InputTokens, OutputTokens: p.OutputTokens}
	if a.InputTokens == 0 && a.OutputTokens == 0 {
		a.InputTokens, a.OutputTokens = 10, 5
	}
	for i, c := range p.ToolCalls {
		id := fmt.Sprintf("fake%08d", i)
		a.Calls = append(a.Calls, wire.AnswerCall{Call: wire.Call{ID: q.API.CallID(id), Name: c.Name, Args: []byte(c.Arguments)}, Item: id})
	}
	if !q.API.Converses() && a.Text == "" {
		return vectors(q, &a)
	}
	body, err := wire.Body(q.API, &a)
	if err != nil {
		panic(err)
	}
	return string(body)
}
