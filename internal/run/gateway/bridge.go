package gateway

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tallystick/internal/record/refusal"
)

// maxBridgeBytes bounds a line of the client and an answer of the gateway,
// whose results may be larger than requests.
const maxBridgeBytes = 16 << 20

// Bridge is an MCP server on lines: it sends each message that comes in to the
// gateway's MCP endpoint and writes the answers out, for clients that start
// their servers as programs. It ends with the input, or with ctx.
//
// Messages go one after the other, so that events keep the order in which the
// client wrote them; a message therefore waits for the call before it.
func Bridge(ctx context.Context, in io.Reader, out io.Writer, endpoint, token string) error {
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return refusal.Newf(refusal.Usage, "the address of the MCP endpoint is not an http URL").
			WithHint("the harness gives it in TALLY_MCP_URL")
	}
	b := &bridge{out: out, endpoint: u.String(), token: token, client: &http.Client{
		// The token goes to the gateway and nowhere else: no proxy, and no
		// redirects.
		Transport:     &http.Transport{Proxy: nil, DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	defer b.client.CloseIdleConnections()
	lines := make(chan line)
	go readLines(ctx, in, lines)
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case l := <-lines:
			if errors.Is(l.err, io.EOF) {
				b.end(ctx)
				return nil
			}
			if l.err != nil {
				return refusal.Newf(refusal.Unreadable, "reading a message: %w", l.err)
			}
			if err := b.forward(ctx, l); err != nil {
				return err
			}
		}
	}
}

// A line is one message, or why there is none.
type line struct {
	text    []byte
	tooLong bool
	err     error
}

func readLines(ctx context.Context, in io.Reader, lines chan<- line) {
	r := bufio.NewReaderSize(in, 64<<10)
	for {
		l := readLine(r)
		if l.err == nil && len(bytes.TrimSpace(l.text)) == 0 && !l.tooLong {
			continue
		}
		select {
		case lines <- l:
		case <-ctx.Done():
			return
		}
		if l.err != nil {
			return
		}
	}
}

// readLine reads up to a newline or the end. Of a line that is too long the
// rest is passed over.
func readLine(r *bufio.Reader) line {
	var l line
	for {
		part, err := r.ReadSlice('\n')
		if !l.tooLong {
			l.text = append(l.text, part...)
		}
		if len(l.text) > maxBridgeBytes {
			l.text, l.tooLong = nil, true
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(bytes.TrimSpace(l.text)) > 0:
			return l // the end comes with the next call
		}
		l.err = err
		return l
	}
}

type bridge struct {
	out      io.Writer
	endpoint string
	token    string
	client   *http.Client
	session  string
	version  string
}

// forward sends one message and writes the answer. An error is one of the
// output; what goes wrong with the gateway the client is told.
func (b *bridge) forward(ctx context.Context, l line) error {
	if l.tooLong {
		return b.write(encode(failed(nil, codeInvalidRequest, fmt.Sprintf("the message has more than %d bytes", maxBridgeBytes), refusal.TooLarge)))
	}
	text := bytes.TrimSpace(l.text)
	ids := requestIDs(text)
	status, body, err := b.post(ctx, text)
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return b.tell(ids, "the gateway does not answer: "+strings.ReplaceAll(err.Error(), b.token, "[token]"))
	}
	value := jsontext.Value(body)
	switch {
	case status == http.StatusAccepted, status == http.StatusNoContent:
		return nil
	case status == http.StatusOK && value.Compact() == nil:
		b.learnVersion(value)
		return b.write(value)
	}
	return b.tell(ids, fmt.Sprintf("the gateway answers with status %d: %s", status, messageOf(body)))
}

// requestIDs lists what waits for an answer in a message or a batch.
func requestIDs(text []byte) []jsontext.Value {
	var several []jsontext.Value
	if jsontext.Value(text).Kind() != '[' || json.Unmarshal(text, &several) != nil {
		several = []jsontext.Value{text}
	}
	var ids []jsontext.Value
	for _, one := range several {
		m, err := parseMessage(one)
		switch {
		case err != nil || m.ID != nil && !validID(m.ID):
			ids = append(ids, nil)
		case m.isRequest():
			ids = append(ids, m.ID)
		}
	}
	return ids
}

// tell answers every request that waits with an error.
func (b *bridge) tell(ids []jsontext.Value, text string) error {
	for _, id := range ids {
		if err := b.write(encode(failed(id, codeStopped, text, ""))); err != nil {
			return err
		}
	}
	return nil
}

// messageOf is what the gateway says in an error.
func messageOf(body []byte) string {
	var r struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &r) != nil || r.Error.Message == "" {
		return "no message"
	}
	return r.Error.Message
}

// learnVersion remembers what initialize agreed on: later messages must say it.
func (b *bridge) learnVersion(answer []byte) {
	var r struct {
		Result struct {
			ProtocolVersion string `json:"protocolVersion"`
		} `json:"result"`
	}
	if json.Unmarshal(answer, &r) == nil && r.Result.ProtocolVersion != "" {
		b.version = r.Result.ProtocolVersion
	}
}

func (b *bridge) request(ctx context.Context, method string, body io.Reader) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, b.endpoint, body)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Authorization", "Bearer "+b.token)
	if b.session != "" {
		r.Header.Set(sessionHeader, b.session)
	}
	if b.version != "" {
		r.Header.Set(versionHeader, b.version)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	return b.client.Do(r)
}

func (b *bridge) post(ctx context.Context, text []byte) (status int, body []byte, err error) {
	resp, err := b.request(ctx, http.MethodPost, bytes.NewReader(text))
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	if id := resp.Header.Get(sessionHeader); id != "" {
		b.session, b.version = id, ""
	}
	body, err = io.ReadAll(io.LimitReader(resp.Body, maxBridgeBytes+1))
	if err == nil && len(body) > maxBridgeBytes {
		err = fmt.Errorf("the answer has more than %d bytes", maxBridgeBytes)
	}
	return resp.StatusCode, body, err
}

// end closes the MCP session. The gateway may be gone already.
func (b *bridge) end(ctx context.Context) {
	if b.session == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if resp, err := b.request(ctx, http.MethodDelete, nil); err == nil {
		resp.Body.Close()
	}
}

func (b *bridge) write(message []byte) error {
	if _, err := b.out.Write(append(bytes.Clone(message), '\n')); err != nil {
		return refusal.Newf(refusal.WriteFailed, "answering the MCP client: %w", err)
	}
	return nil
}
