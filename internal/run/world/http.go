package world

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"tallystick/internal/record/canon"
	"tallystick/internal/run/scenario"
)

// An endpoint is the tools of a world that speaks MCP over HTTP (Streamable HTTP) on its
// own loopback. Nothing but the tools goes there: the world is still controlled over its
// inherited streams.
type endpoint struct {
	w       *World
	url     string
	client  *http.Client
	version string

	mu      sync.Mutex
	session string
	lastID  int64
}

func newEndpoint(w *World, at *scenario.WorldAddress) *endpoint {
	dial := func(context.Context, string, string) (net.Conn, error) { return w.Dial(at.Port) }
	return &endpoint{w: w, url: fmt.Sprintf("http://127.0.0.1:%d%s", at.Port, cmp.Or(at.Path, "/mcp")),
		client: &http.Client{Transport: &http.Transport{DialContext: dial, DisableCompression: true, MaxResponseHeaderBytes: 64 << 10},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

func (e *endpoint) ask(ctx context.Context, method string, params any) (answer, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.w.broken != nil {
		return answer{}, e.w.broken
	}
	e.lastID++
	message := map[string]any{"jsonrpc": "2.0", "id": e.lastID, "method": method, "params": params}
	if params == nil {
		delete(message, "params")
	}
	m, err := e.post(ctx, message, strconv.FormatInt(e.lastID, 10))
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return answer{}, e.w.fail("%s at %s: %w", method, e.url, err)
	}
	return m.answer, nil
}

func (e *endpoint) notify(ctx context.Context, method string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, err := e.post(ctx, map[string]any{"jsonrpc": "2.0", "method": method}, ""); err != nil {
		return e.w.fail("%s at %s: %w", method, e.url, err)
	}
	return nil
}

// post sends one message and reads the answer with the id; "" expects none.
func (e *endpoint) post(ctx context.Context, said map[string]any, id string) (message, error) {
	var none message
	body, err := canon.Marshal(said)
	if err != nil {
		return none, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, bytes.NewReader(body))
	if err != nil {
		return none, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if e.session != "" {
		r.Header.Set("Mcp-Session-Id", e.session)
	}
	if e.version != "" {
		r.Header.Set("MCP-Protocol-Version", e.version)
	}
	answered, err := e.client.Do(r)
	if err != nil {
		return none, err
	}
	defer answered.Body.Close()
	if answered.StatusCode/100 != 2 {
		text, _ := io.ReadAll(io.LimitReader(answered.Body, 300))
		return none, fmt.Errorf("it answered with status %d: %q", answered.StatusCode, text)
	}
	if s := answered.Header.Get("Mcp-Session-Id"); s != "" && len(s) < 1000 {
		e.session = s
	}
	if id == "" {
		return none, nil
	}
	kind, _, _ := mime.ParseMediaType(answered.Header.Get("Content-Type"))
	limited := io.LimitReader(answered.Body, maxMessage+1)
	if kind != "text/event-stream" {
		text, err := io.ReadAll(limited)
		if err != nil {
			return none, err
		}
		return e.parse(text, id)
	}
	return e.stream(limited, id)
}

// stream reads events until the answer comes.
func (e *endpoint) stream(from io.Reader, id string) (none message, err error) {
	scan := bufio.NewScanner(from)
	scan.Buffer(nil, maxMessage)
	for n := 0; scan.Scan() && n < maxNotifications; {
		data, ok := strings.CutPrefix(scan.Text(), "data:")
		if data = strings.TrimSpace(data); !ok || data == "" {
			continue
		}
		m, err := parse([]byte(data))
		if err != nil {
			return none, err
		}
		if m.method != "" && m.id == "" && strings.HasPrefix(m.method, "notifications/") {
			n++
			continue
		}
		return e.parse([]byte(data), id)
	}
	if err := scan.Err(); err != nil {
		return none, err
	}
	return none, fmt.Errorf("its stream has no answer to request %s", id)
}

func (e *endpoint) parse(text []byte, id string) (message, error) {
	m, err := parse(text)
	if err == nil && (m.method != "" || m.id != id) {
		err = fmt.Errorf("it answered the request %.80q, and was asked %s", m.id, id)
	}
	return m, err
}
