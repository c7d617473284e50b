package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"tallystick/internal/record/digest"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/policy"
	"tallystick/internal/run/session"
	"tallystick/internal/run/trajectory"
)

const token = "sk-tally-0123456789abcdef0123456789abcdef0123456789abcdef"

// A website answers every request, and remembers what it was asked.
type website struct {
	mu    sync.Mutex
	asked []cassette.HTTPAsk
	reply cassette.HTTPResponse
}

func (w *website) Fetch(_ context.Context, ask cassette.HTTPAsk, request cassette.Request, pass *session.HTTPPass) (*cassette.Interaction, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked = append(w.asked, ask)
	reply := w.reply
	if reply.Status == 0 {
		reply = cassette.HTTPResponse{Status: 200, Text: "a page", Headers: map[string][]string{"content-type": {"text/plain"}}}
	}
	return &cassette.Interaction{HTTP: &cassette.HTTPExchange{Request: request.Canonical(), Response: &reply}}, nil
}

func (w *website) requests() []cassette.HTTPAsk {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asked
}

var listed = Rules{
	{Host: "api.example.com", Methods: []string{"GET", "POST"}, Paths: []string{"/v1/"}},
	{Host: "127.0.0.1", Scheme: "http", Ports: []int{8080}, Paths: []string{"/docs"}},
	{Host: "xn--bcher-kva.example"},
	{Host: "other.example"},
}

// A caseRun is one case with a proxy that listens.
type caseRun struct {
	*Proxy
	session *session.Session
	web     *website
	here    string
	toGate  chan net.Conn // what the gateway got
	watched []string      // by those who look for gold answers
}

func newCase(t testing.TB, rules Rules) *caseRun {
	t.Helper()
	if err := rules.Validate(); err != nil {
		t.Fatal(err)
	}
	compiled, err := policy.Compile(policy.Policy{Mode: policy.Autonomous, MaxCostMicroUSD: 1_000_000, MaxToolCalls: 1000, Deny: []string{"http:* other.example/forbidden/*"}})
	if err != nil {
		t.Fatal(err)
	}
	c := &caseRun{web: &website{}, toGate: make(chan net.Conn, 8)}
	c.session, err = session.New(session.Config{
		Run:   trajectory.RunStarted{Attempt: "a-1", Case: "c", Class: "k", Execution: 1, Repeat: 1, Target: "t"},
		Rules: compiled, Source: "cassette", Web: c.web,
		Watch: func(text string, _ digest.Content, _ bool) { c.watched = append(c.watched, text) }, // the session has its lock
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.session.Hide(token); err != nil {
		t.Fatal(err)
	}
	authority, err := NewAuthority(rules, time.Hour, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c.here = listener.Addr().String()
	c.Proxy = New(context.Background(), Config{Session: c.session, Rules: rules, Authority: authority, Token: token, Here: c.here})
	split := NewSplit(listener, c.Proxy)
	go func() {
		for {
			conn, err := split.Accept()
			if err != nil {
				return
			}
			c.toGate <- conn
		}
	}()
	t.Cleanup(func() { split.Close(); c.Proxy.Close() })
	return c
}

// violations are the rules that the case broke.
func (c *caseRun) violations(t testing.TB) []string {
	t.Helper()
	result := c.session.Complete("", false)
	var rules []string
	for e := range result.Verified.Events() {
		if p, ok := e.Payload.(*trajectory.PolicyViolation); ok {
			rules = append(rules, p.Rule)
		}
	}
	return rules
}

// auth is the header by which the program shows its token.
var auth = "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("tally:"+token)) + "\r\n"

// dial opens a connection to the proxy.
func (c *caseRun) dial(t testing.TB) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", c.here)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// raw sends bytes and gives the first reply.
func raw(t testing.TB, conn net.Conn, bytes string) (status int, body string) {
	t.Helper()
	if _, err := io.WriteString(conn, bytes); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	data, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(data)
}

// open asks for a tunnel.
func (c *caseRun) open(t testing.TB, place string) net.Conn {
	t.Helper()
	conn := c.dial(t)
	if _, err := io.WriteString(conn, "CONNECT "+place+" HTTP/1.1\r\nHost: "+place+"\r\n"+auth+"\r\n"); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReaderSize(io.LimitReader(conn, int64(len("HTTP/1.1 200 Connection established\r\n\r\n"))), 64).ReadString('\n')
	if err != nil || !strings.Contains(line, " 200 ") {
		t.Fatalf("CONNECT %s: %q, %v", place, line, err)
	}
	return conn
}

// secure begins TLS in a tunnel, with a name and the authority of the case.
func (c *caseRun) secure(t testing.TB, conn net.Conn, name string) (*tls.Conn, error) {
	t.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(c.cfg.Authority.PEM()) {
		t.Fatal("the authority has no certificate")
	}
	client := tls.Client(conn, &tls.Config{RootCAs: pool, ServerName: name, NextProtos: []string{"h2", "http/1.1"}})
	return client, client.Handshake()
}
