package provider

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"tallystick/internal/run/cassette"
)

// A sseWire speaks HTTP with SSE, the transport of MCP 2024-11-05: a GET opens a stream,
// whose first event names the address that messages are posted to; every message of the
// server comes on the stream.
type sseWire struct {
	httpWire
	post string // "" before the server has named it
}

func openSSE(name string, s Server, a *Access) (connection, error) {
	c, err := openHTTP(name, s, a)
	if err != nil {
		return nil, err
	}
	return &sseWire{httpWire: *c.(*httpWire)}, nil
}

// done keeps the stream: it is that of the whole session.
func (w *sseWire) done() {}

// open begins the stream. It outlives the exchange that opens it.
func (w *sseWire) open(ctx context.Context) error {
	within, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	defer stop()
	req, err := w.request(within, http.MethodGet, nil)
	if err != nil {
		cancel()
		return err
	}
	req.Header.Set("Accept", "text/event-stream")
	resp, err := w.client.Do(req)
	if err != nil {
		cancel()
		return err
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("content-type"))
	if resp.StatusCode != http.StatusOK || kind != "text/event-stream" {
		resp.Body.Close()
		cancel()
		return fmt.Errorf("the status is %d and the type %.60q, expected a stream of events; a server of streamable HTTP wants no transport: sse", resp.StatusCode, kind)
	}
	w.stream, w.events, w.cancel = resp.Body, cassette.NewArrival(nil), cancel
	for w.post == "" {
		if err := w.next(ctx); err != nil {
			return err
		}
	}
	return nil
}

// named takes the address for messages. It must be of the same server: the key is sent
// there.
func (w *sseWire) named(address string) error {
	base, err := url.Parse(w.url)
	if err != nil {
		return err
	}
	to, err := base.Parse(strings.TrimSpace(address))
	if err != nil || to.Scheme != base.Scheme || to.Host != base.Host || to.User != nil {
		return fmt.Errorf("it wants messages at %.200q, expected an address of %s", address, base.Host)
	}
	w.post = to.String()
	return nil
}

func (w *sseWire) send(ctx context.Context, message []byte) error {
	if w.stream == nil {
		if w.post != "" {
			return errors.New("its stream has ended")
		}
		if err := w.open(ctx); err != nil {
			return err
		}
	}
	req, err := w.request(ctx, http.MethodPost, bytes.NewReader(message))
	if err != nil {
		return err
	}
	if req.URL, err = url.Parse(w.post); err != nil {
		return err
	}
	resp, err := w.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		said, _ := io.ReadAll(io.LimitReader(resp.Body, 1000))
		return fmt.Errorf("the status is %d: %.200q", resp.StatusCode, said)
	}
	return nil
}

func (w *sseWire) receive(ctx context.Context) ([]byte, error) {
	for len(w.queue) == 0 {
		if w.stream == nil {
			return nil, errors.New("its stream has ended")
		}
		if err := w.next(ctx); err != nil {
			return nil, err
		}
	}
	message := w.queue[0]
	w.queue = w.queue[1:]
	return message, nil
}

// next reads from the stream. The end of the exchange's time closes it.
func (w *sseWire) next(ctx context.Context) error {
	stop := context.AfterFunc(ctx, w.cancel)
	defer stop()
	buffer := make([]byte, 32<<10)
	n, err := w.stream.Read(buffer)
	events, _ := w.events.Write(buffer[:n])
	for _, event := range events {
		data := eventData(event)
		switch kind := eventType(event); {
		case kind == "endpoint" && w.post == "":
			if err := w.named(data); err != nil {
				return err
			}
		case kind == "message" && data != "":
			w.queue = append(w.queue, []byte(data))
		}
	}
	if err != nil {
		w.endStream()
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		if err == io.EOF && len(w.queue) > 0 {
			return nil
		}
		if err == io.EOF {
			return errors.New("its stream has ended")
		}
	}
	return err
}

// close ends the session by ending its stream.
func (w *sseWire) close(time.Duration) { w.endStream() }

// eventType is what an event says that it is; a message unless it says otherwise.
func eventType(event string) string {
	for line := range strings.FieldsFuncSeq(event, func(c rune) bool { return c == '\n' || c == '\r' }) {
		if value, ok := strings.CutPrefix(line, "event:"); ok {
			return strings.TrimPrefix(value, " ")
		}
	}
	return "message"
}
