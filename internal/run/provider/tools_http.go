package provider

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"tallystick/internal/run/cassette"
)

// An httpWire speaks streamable HTTP (MCP 2025-03-26 to 2025-11-25): each
// message is a POST, whose reply is one message or a stream of them. The
// stream that a client may open with GET is not used: what a server says
// without being asked belongs to no exchange.
type httpWire struct {
	url     string
	key     string
	client  *http.Client
	session string
	version string

	queue  [][]byte      // messages that have come
	stream io.ReadCloser // that is still open, nil if none
	events *cassette.Arrival
	cancel context.CancelFunc
}

func openHTTP(name string, s Server, a *Access) (connection, error) {
	key, err := a.key("mcp "+name, s.KeyEnv, s.KeyFile)
	if err != nil {
		return nil, err
	}
	return &httpWire{url: s.URL, key: key, client: a.clients[s.CAFile]}, nil
}

// done lets go of the stream in which the answer came. What a server would
// say behind its answer is not waited for.
func (w *httpWire) done() {
	w.endStream()
	w.queue = nil
}

func (w *httpWire) agreed(version string) { w.version = version }

func (w *httpWire) request(ctx context.Context, method string, body io.Reader) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, w.url, body)
	if err != nil {
		return nil, err
	}
	req.GetBody = nil // a tool call that was sent must not be sent twice
	req.Header.Set("User-Agent", "tallystick")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if w.key != "" {
		req.Header.Set("Authorization", "Bearer "+w.key)
	}
	if w.session != "" {
		req.Header.Set("Mcp-Session-Id", w.session)
	}
	if w.version != "" {
		req.Header.Set("Mcp-Protocol-Version", w.version)
	}
	return req, nil
}

// send posts a message. An answer to the server goes out while the stream of
// our own request is still open.
func (w *httpWire) send(ctx context.Context, message []byte) error {
	ctx, cancel := context.WithCancel(ctx)
	req, err := w.request(ctx, http.MethodPost, bytes.NewReader(message))
	if err != nil {
		cancel()
		return err
	}
	resp, err := w.client.Do(req)
	if err != nil {
		cancel()
		return err
	}
	if err := w.take(resp); err != nil || w.stream != resp.Body {
		resp.Body.Close()
		cancel()
		return err
	}
	w.cancel = cancel
	return nil
}

// take puts the reply to a POST where receive finds it.
func (w *httpWire) take(resp *http.Response) error {
	if id := resp.Header.Get("Mcp-Session-Id"); id != "" && w.session == "" {
		w.session = id
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("content-type"))
	if resp.StatusCode == http.StatusOK && kind == "text/event-stream" && w.stream == nil {
		w.stream, w.events = resp.Body, cassette.NewArrival(nil)
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxMessageBytes+1))
	if err != nil {
		return err
	}
	if len(body) > maxMessageBytes {
		return fmt.Errorf("its message has more than %d bytes", maxMessageBytes)
	}
	// A refusal may carry a JSON-RPC error that answers the request.
	if m, err := parseRPC(body); kind == "application/json" && err == nil && (resp.StatusCode == http.StatusOK || m.id != "") {
		w.queue = append(w.queue, body)
		return nil
	}
	if resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusAccepted {
		if len(bytes.TrimSpace(body)) == 0 {
			return nil
		}
		return fmt.Errorf("it sent something that is not a JSON-RPC message: %.100q", body)
	}
	return fmt.Errorf("the status is %d: %.200q", resp.StatusCode, body)
}

func (w *httpWire) receive(ctx context.Context) ([]byte, error) {
	for len(w.queue) == 0 {
		if w.stream == nil {
			return nil, errors.New("it did not answer the request")
		}
		if err := w.more(); err != nil {
			if cause := context.Cause(ctx); cause != nil {
				return nil, cause
			}
			return nil, err
		}
	}
	message := w.queue[0]
	w.queue = w.queue[1:]
	return message, nil
}

// more reads from the open stream.
func (w *httpWire) more() error {
	buffer := make([]byte, 32<<10)
	n, err := w.stream.Read(buffer)
	events, _ := w.events.Write(buffer[:n])
	if err == io.EOF {
		rest, _ := w.events.Close()
		events, err = append(events, rest...), nil
		w.endStream()
	}
	for _, event := range events {
		if data := eventData(event); data != "" {
			w.queue = append(w.queue, []byte(data))
		}
	}
	return err
}

func (w *httpWire) endStream() {
	if w.stream != nil {
		w.stream.Close()
		w.cancel()
		w.stream = nil
	}
}

// close ends the session, as the protocol asks. A server that does not allow
// it ends it by itself.
func (w *httpWire) close(time.Duration) {
	w.endStream()
	if w.session == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeWait)
	defer cancel()
	req, err := w.request(ctx, http.MethodDelete, nil)
	if err != nil {
		return
	}
	if resp, err := w.client.Do(req); err == nil {
		resp.Body.Close()
	}
}

// eventData joins the data lines of an event (WHATWG HTML, server-sent events).
func eventData(event string) string {
	var data []string
	for _, line := range strings.FieldsFunc(event, func(c rune) bool { return c == '\n' || c == '\r' }) {
		if value, ok := strings.CutPrefix(line, "data:"); ok {
			data = append(data, strings.TrimPrefix(value, " "))
		}
	}
	return strings.Join(data, "\n")
}
