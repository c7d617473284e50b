package provider

import (
	"bytes"
	"cmp"
	"compress/flate"
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/egress"
	"tallystick/internal/run/journal"
	"tallystick/internal/run/session"
)

// Egress adds what a target lists to an access: the credentials that are put into its
// requests, which no file and no error has from now on, and the certificates. A server
// that providers.yaml names is not reached this way.
func (a *Access) Egress(rules egress.Rules, dir string, getenv func(string) string) error {
	for _, r := range rules {
		if at := a.modelServer(&r); at != "" {
			return refusal.Newf(refusal.Usage, "egress: %s is the model provider %s of %s: ask it through the gateway, so that budgets, policy and recordings see the call", r.Host, at, SettingsFile).
				WithHint("take the host out of the target's egress; the agent has the gateway's address in its environment")
		}
		err := a.trustIn(dir, r.CAFile)
		if c := r.Credential; c != nil && err == nil {
			err = a.load(getenv, c.Env, "")
		}
		if err != nil {
			return fmt.Errorf("egress: %s: %w", r.Host, err)
		}
	}
	var keys []string
	for _, key := range a.keys {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	var err error
	a.redactor, err = cassette.NewRedactor(keys...)
	return err
}

// modelServer names the provider whose address a rule has, "" if none has it.
func (a *Access) modelServer(r *egress.Rule) string {
	for _, e := range a.Settings.Endpoints {
		at, err := evidence.EndpointAt(e.BaseURL)
		if err == nil && at.Host == r.Host && r.HasPort(at.Port) {
			return e.Provider
		}
	}
	return ""
}

// WebConfig is what the servers of one case are asked with.
type WebConfig struct {
	Access   *Access
	Recorder *cassette.Recorder
	Rules    egress.Rules
	Guard    egress.Guard

	// OnlyMissing, if not nil, answers what it has, and Cached, if not nil, is asked
	// before a server is; see [CaseOptions].
	OnlyMissing *cassette.Player
	Cached      func(cassette.Request) (cassette.Borrowed, error)

	// Journal, if not nil, has each request on disk before it is sent, and its reply
	// before a caller sees it.
	Journal *journal.Running
}

// A Web asks the servers that a target lists, and records each exchange. It is safe for
// concurrent use.
type Web struct {
	cfg      WebConfig
	calls    atomic.Int64
	replayed atomic.Int64
}

// NewWeb makes a Web. Nothing is contacted yet.
func NewWeb(cfg WebConfig) *Web { return &Web{cfg: cfg} }

// Fetch answers a request from what is recorded, or from the server.
func (w *Web) Fetch(ctx context.Context, ask cassette.HTTPAsk, request cassette.Request, pass *session.HTTPPass) (*cassette.Interaction, error) {
	made, it, err := w.recall(request)
	if it != nil || err != nil {
		return it, err
	}
	if made == nil {
		if it, err := w.replay(request); it != nil || err != nil {
			return it, err
		}
	} else if made.Unknown() && ask.Method != http.MethodGet && ask.Method != http.MethodHead {
		return nil, refusal.Newf(refusal.ProviderFailed, "%s %s: the request was sent before the run was interrupted, and its outcome is unknown; it is not sent again, because it may have effects", ask.Method, ask.Host).
			WithHint("look at what the server did, then run the case again; a GET is sent again by itself")
	}
	rule, err := w.cfg.Rules.Find(ask.Method, ask.Scheme, ask.Host, ask.Port, ask.Path)
	if err != nil {
		return nil, &session.NotSentError{Rule: "egress:unlisted", Err: err}
	}
	addrs, err := w.cfg.Guard.Addresses(ctx, rule)
	var local *egress.LocalAddressError
	if errors.As(err, &local) {
		return nil, &session.NotSentError{Rule: "egress:address", Err: local}
	}
	sent, jerr := w.intend(made, ask.Host, request)
	if jerr != nil {
		return nil, jerr
	}
	w.calls.Add(1)
	t := cassette.HTTPTraffic{Ask: ask}
	if err == nil {
		err = w.send(ctx, rule, addrs, &t, pass)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil { // that no reply came is what the program gets, now and in a replay
		t.Err, t.From, t.Pieces = w.cfg.Access.clean(err).Error(), nil, nil
	}
	if it, err = w.cfg.Recorder.HTTP(t); err != nil {
		return nil, err
	}
	return it, answered(sent, request, it)
}

func (w *Web) recall(request cassette.Request) (*journal.Call, *cassette.Interaction, error) {
	if w.cfg.Journal == nil {
		return nil, nil, nil
	}
	made := w.cfg.Journal.Recall(journal.Tool, request.Key)
	if made == nil {
		return nil, nil, nil
	}
	it, err := keptReply(made, request, w.cfg.Recorder, w.cfg.Access.Settings)
	return made, it, err
}

func (w *Web) intend(made *journal.Call, host string, request cassette.Request) (sent *journal.Sent, err error) {
	if w.cfg.Journal == nil {
		return nil, nil
	}
	if made == nil {
		if made, err = w.cfg.Journal.Call(journal.Tool, request.Key); err != nil {
			return nil, err
		}
	}
	return made.Send("http", host, nil)
}

// replay answers from what is recorded, nil if it is not.
func (w *Web) replay(request cassette.Request) (*cassette.Interaction, error) {
	if w.cfg.Cached != nil {
		it, err := w.cfg.Recorder.Borrow(request, w.cfg.Cached)
		if it != nil || err != nil {
			return w.found(it), err
		}
	}
	if w.cfg.OnlyMissing == nil {
		return nil, nil
	}
	it, err := w.cfg.OnlyMissing.Next(request)
	if refusal.Is(err, refusal.CassetteMiss) {
		return nil, nil
	}
	return w.found(it), err
}

func (w *Web) found(it *cassette.Interaction) *cassette.Interaction {
	if it != nil {
		w.replayed.Add(1)
	}
	return it
}

// webSilence is how long a server may send nothing.
const webSilence = time.Minute

// send makes one request on a connection of its own, to an address that was permitted.
func (w *Web) send(ctx context.Context, rule *egress.Rule, addrs []netip.Addr, t *cassette.HTTPTraffic, pass *session.HTTPPass) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(webSilence, func() { cancel(errSilent) })
	defer silence.Stop()
	ctx, seen := watchConnection(ctx)
	req, err := w.request(ctx, rule, &t.Ask)
	if err != nil {
		return err
	}
	trusted := w.cfg.Access.trusted[rule.CAFile]
	transport := pinned(addrs, t.Ask.Port, t.Ask.Host, trusted)
	defer transport.CloseIdleConnections()
	begun := time.Now()
	defer func() { t.Latency = time.Since(begun).Milliseconds() }()
	// Not a client: redirects are for the program, whose next request is judged again.
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return cmp.Or(context.Cause(ctx), err)
	}
	defer resp.Body.Close()
	if t.From, err = seen.endpointAt(egress.URL(t.Ask.Scheme, t.Ask.Host, t.Ask.Port, ""), nil, resp.TLS, trusted); err != nil {
		return err
	}
	if resp.StatusCode < 200 || resp.StatusCode > 599 {
		return fmt.Errorf("the status is %d, which no reply has", resp.StatusCode)
	}
	t.Status, t.Headers = resp.StatusCode, resp.Header
	t.Streamed = resp.ContentLength < 0
	body, err := decoded(resp)
	if err != nil {
		return err
	}
	if !isStream(resp.Header.Get("Content-Type")) {
		pass = nil
	}
	err = readPieces(body, t, pass, func() { silence.Reset(webSilence) })
	return cmp.Or(context.Cause(ctx), err)
}

// isStream reports whether a type is one of which clients use the parts as they come.
func isStream(contentType string) bool {
	media, _, _ := mime.ParseMediaType(contentType)
	return slices.Contains([]string{"text/event-stream", "application/x-ndjson", "application/jsonl", "application/json-seq"}, media)
}

func readPieces(body io.Reader, t *cassette.HTTPTraffic, pass *session.HTTPPass, came func()) error {
	buffer, total := make([]byte, 32<<10), 0
	if pass != nil {
		pass.Begin(t.Status, t.Headers)
	}
	for {
		n, err := body.Read(buffer)
		if came(); n > 0 {
			if total += n; total > egress.MaxBodyBytes {
				return fmt.Errorf("the body has more than %d bytes", egress.MaxBodyBytes)
			}
			t.Pieces = append(t.Pieces, string(buffer[:n]))
			if pass != nil {
				pass.Piece(string(buffer[:n]))
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("the body broke off: %w", err)
		}
	}
}

// decoded is the body without a compression that nobody asked for.
func decoded(resp *http.Response) (io.Reader, error) {
	switch coding := strings.ToLower(resp.Header.Get("Content-Encoding")); coding {
	case "", "identity":
		return resp.Body, nil
	case "gzip", "x-gzip":
		return gzip.NewReader(resp.Body)
	case "deflate":
		return flate.NewReader(resp.Body), nil
	default:
		return nil, fmt.Errorf("the body is compressed with %.40q, although none was asked for", coding)
	}
}

// request is what goes to the server. The credential is put in here and nowhere before.
func (w *Web) request(ctx context.Context, rule *egress.Rule, ask *cassette.HTTPAsk) (*http.Request, error) {
	url := egress.URL(ask.Scheme, ask.Host, ask.Port, ask.Path)
	if ask.Query != "" {
		url += "?" + ask.Query
	}
	req, err := http.NewRequestWithContext(ctx, ask.Method, url, bytes.NewReader(ask.Body))
	if err != nil {
		return nil, err
	}
	for name, values := range ask.Headers {
		req.Header[http.CanonicalHeaderKey(name)] = values
	}
	req.Header.Set("Accept-Encoding", "identity") // what is recorded can be read and searched
	if len(ask.Headers["user-agent"]) == 0 {
		req.Header.Set("User-Agent", "")
	}
	if c := rule.Credential; c != nil {
		key, err := w.cfg.Access.key("egress: "+rule.Host, c.Env, "")
		if err != nil {
			return nil, err
		}
		req.Header.Set(c.InHeader(), c.Prefix+key)
	}
	return req, nil
}

// pinned is a transport to the given addresses, whatever else a name may stand for by
// then. It asks no proxy: that would look the name up again.
func pinned(addrs []netip.Addr, port int, host string, trusted *roots) *http.Transport {
	return &http.Transport{
		DialContext: func(ctx context.Context, network, _ string) (conn net.Conn, err error) {
			dialer := net.Dialer{Timeout: 15 * time.Second}
			for _, addr := range addrs {
				if conn, err = dialer.DialContext(ctx, "tcp", net.JoinHostPort(addr.String(), strconv.Itoa(port))); err == nil {
					return conn, nil
				}
			}
			return nil, err
		},
		TLSClientConfig:        &tls.Config{RootCAs: trusted.pool(), ServerName: host, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}},
		TLSHandshakeTimeout:    15 * time.Second,
		ExpectContinueTimeout:  time.Second,
		DisableKeepAlives:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: 64 << 10,
	}
}
