// Package client talks to a registry over HTTP, for those who publish, judge or
// watch. It trusts nothing that a registry answers: an answer is bounded in
// size and time, read strictly, and never followed to another host.
//
// An API key goes into the Authorization header of requests to the one host that
// was named, over TLS or to this machine, and nowhere else: not into an address,
// a message or a log.
package client

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/loopback"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
)

// MaxAnswer bounds what is read of an answer: a page of rows, an entry of a ledger,
// a credential. Nothing that a registry serves is larger.
const MaxAnswer = 16 << 20

const (
	requestTimeout = 60 * time.Second
	// shownBytes is how much of an answer that is not understood is shown.
	shownBytes = 200
)

// Options say where a registry is and who asks.
type Options struct {
	URL    string
	APIKey string // "" for what needs none
	// AllowHTTP lets requests go over plain HTTP to another machine, where every machine
	// on the way can read and change them.
	AllowHTTP bool
}

// A Client talks to one registry.
type Client struct {
	base *url.URL
	key  string
	http *http.Client
}

// New checks the address and returns a client. It sends nothing.
func New(o Options) (*Client, error) {
	base, err := parseBase(o.URL, o.AllowHTTP)
	if err != nil {
		return nil, err
	}
	if o.APIKey != "" {
		if err := checkAPIKey(o.APIKey); err != nil {
			return nil, err
		}
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxResponseHeaderBytes = 64 << 10
	return &Client{base: base, key: o.APIKey, http: &http.Client{
		Timeout:   requestTimeout,
		Transport: transport,
		// A redirect would take the request, and with it the API key, wherever
		// the answer says.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

func parseBase(text string, allowHTTP bool) (*url.URL, error) {
	bad := func(format string, args ...any) (*url.URL, error) {
		return nil, refusal.Newf(refusal.Usage, "registry address: "+format, args...).WithHint("give it as https://registry.example")
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		// The parser's message repeats the address, which may have a password in it.
		return bad("it is not a URL")
	case u.User != nil:
		return bad("it has a user or a password in it")
	case u.Host == "" || u.Opaque != "":
		return bad("%q names no host", text)
	case u.RawQuery != "" || u.Fragment != "" || u.ForceQuery:
		return bad("it has a query or a fragment")
	case u.Scheme == "https":
	case u.Scheme != "http":
		return bad("the scheme is %q, expected https", u.Scheme)
	case !allowHTTP && !loopback.Is(u.Hostname()):
		return nil, refusal.Newf(refusal.Usage, "registry address: http:// to %s: every machine on the way could read the API key and change the answers", plain.Line(u.Hostname())).
			WithHint("use https://, or --allow-http if the way is protected by something else")
	}
	u.Path = strings.TrimSuffix(u.Path, "/")
	u.RawPath = ""
	return u, nil
}

// Address is the registry's address, without a slash at the end.
func (c *Client) Address() string { return c.base.String() }

// Host is the name of the registry's host, with its port if it has one.
func (c *Client) Host() string { return c.base.Host }

// An Answer is what a registry sent.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Get asks for a path of the registry, which may have a query.
func (c *Client) Get(ctx context.Context, path string) (*Answer, error) {
	return c.do(ctx, http.MethodGet, path, nil, "", anyAnswer)
}

// GetPage asks for a path as a browser does.
func (c *Client) GetPage(ctx context.Context, path string) (*Answer, error) {
	return c.do(ctx, http.MethodGet, path, nil, "", PageAnswer)
}

// What is asked for: JSON where there is a choice, or the page for people.
const (
	anyAnswer  = "application/json, */*;q=0.5"
	PageAnswer = "text/html"
)

// Post sends a JSON document. An idempotency key makes sending it again harmless.
func (c *Client) Post(ctx context.Context, path string, body []byte, idempotency string) (*Answer, error) {
	return c.do(ctx, http.MethodPost, path, body, idempotency, anyAnswer)
}

func (c *Client) do(ctx context.Context, method, path string, body []byte, idempotency, accept string) (*Answer, error) {
	at, err := c.resolve(path)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, method, at.String(), bytes.NewReader(body))
	if err != nil {
		return nil, refusal.Newf(refusal.Usage, "registry address: %w", err)
	}
	req.Header.Set("Accept", accept)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	if idempotency != "" {
		req.Header.Set("Idempotency-Key", idempotency)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "%s %s: %w", method, at, withoutURL(err)).WithHint("is the registry running, and is the address right?")
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, MaxAnswer+1))
	switch {
	case err != nil:
		return nil, refusal.Newf(refusal.Unreadable, "%s %s: %w", method, at, withoutURL(err))
	case len(data) > MaxAnswer:
		return nil, refusal.Newf(refusal.TooLarge, "%s %s: the answer has more than %d bytes", method, at, MaxAnswer)
	case resp.StatusCode >= 300 && resp.StatusCode < 400 && resp.StatusCode != http.StatusNotModified:
		return nil, refusal.Newf(refusal.Unreadable, "%s %s: the registry redirects to %q, which is not followed", method, at, resp.Header.Get("Location")).
			WithHint("if you trust that address, name it yourself")
	}
	return &Answer{Status: resp.StatusCode, Header: resp.Header, Body: data}, nil
}

// resolve makes the full address of a path, or of an address that the registry
// gave: one of another host is refused.
func (c *Client) resolve(path string) (*url.URL, error) {
	ref, err := url.Parse(path)
	if err != nil {
		return nil, refusal.Newf(refusal.Malformed, "the registry gives an address that is not one: %q", path)
	}
	if ref.IsAbs() || ref.Host != "" || ref.User != nil {
		if ref.Scheme != c.base.Scheme || ref.Host != c.base.Host || ref.User != nil || !strings.HasPrefix(ref.Path, c.base.Path+"/") {
			return nil, refusal.Newf(refusal.Malformed, "the registry %s gives an address elsewhere: %q", c.base, path).
				WithHint("it is not followed; if the registry has moved, or --public-url is not where you reach it, name the other address")
		}
		return ref, nil
	}
	if !strings.HasPrefix(ref.Path, "/") {
		return nil, refusal.Newf(refusal.Malformed, "the registry gives an address that does not begin with /: %q", path)
	}
	at := *c.base
	at.RawPath = at.EscapedPath() + ref.EscapedPath()
	at.Path = c.base.Path + ref.Path
	at.RawQuery = ref.RawQuery
	return &at, nil
}

// withoutURL takes off the address that net/http puts before every error: the
// caller has named it.
func withoutURL(err error) error {
	var ue *url.Error
	if errors.As(err, &ue) {
		return ue.Err
	}
	return err
}

// Decode reads the JSON of an answer with one of the statuses into v. A registry
// may say more than v has members for; what two readers could understand
// differently, such as a name given twice, is refused. Every answer with another
// status is an error.
func (a *Answer) Decode(v any, statuses ...int) error {
	if !slices.Contains(statuses, a.Status) {
		return a.Err()
	}
	if err := decode(a.Body, v); err != nil {
		return refusal.Newf(refusal.Malformed, "the registry's answer is not what its API says: %w", err).WithHint("it begins with %s", a.beginning())
	}
	return nil
}

func decode(data []byte, v any) error {
	canonical, err := canon.Canonicalize(data)
	if err != nil {
		return err
	}
	return json.Unmarshal(canonical, v)
}

// A problem is the body of a registry's refusals.
type problem struct {
	Error        string `json:"error"`
	Name         string `json:"name"`
	Hint         string `json:"hint"`
	ProposeRoute string `json:"proposeRoute"`
}

// Err is the error that an answer stands for, which is not one that was hoped for.
func (a *Answer) Err() error {
	var p problem
	if err := decode(a.Body, &p); err != nil || p.Error == "" {
		p.Error = "it says " + a.beginning()
	}
	e := refusal.Newf(nameOf(a.Status), "the registry refuses with %d: %s", a.Status, plain.Line(p.Error))
	hint := p.Hint
	switch {
	case hint == "" && p.ProposeRoute != "":
		hint = "propose it first at " + p.ProposeRoute
	case hint == "" && a.Status == http.StatusUnauthorized:
		hint = "get an API key with \"tally registry register\" and name its file with --api-key-file"
	case hint == "" && a.Status == http.StatusTooManyRequests:
		hint = "try again in " + a.Header.Get("Retry-After") + " seconds"
	}
	return e.WithHint("%s", plain.Line(hint))
}

func (a *Answer) beginning() string {
	return strconv.Quote(string(a.Body[:min(len(a.Body), shownBytes)]))
}

func nameOf(status int) refusal.Name {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return refusal.TokenRefused
	case http.StatusNotFound, http.StatusGone:
		return refusal.NotFound
	case http.StatusConflict:
		return refusal.AlreadyExists
	case http.StatusRequestEntityTooLarge:
		return refusal.TooLarge
	case http.StatusTooManyRequests:
		return refusal.LimitReached
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return refusal.Malformed
	}
	return refusal.Failed
}

// checkAPIKey refuses what cannot be a key, so that a file named by mistake is
// not sent to a stranger. The message does not show it.
func checkAPIKey(key string) error {
	rest, ok := strings.CutPrefix(key, "ak_")
	if !ok || len(rest) < 20 || len(rest) > 200 || strings.Trim(rest, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
		return refusal.Newf(refusal.Usage, "the API key is not one: it begins with ak_ and has letters, digits, - and _")
	}
	return nil
}
