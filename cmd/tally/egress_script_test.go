package main

import (
	"bufio"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// egressAgent is an agent that makes the HTTP requests of its input, one in a line, as
// METHOD URL BODY, with whatever client settings are in its environment, and says what
// came back.
func egressAgent() {
	// ProxyFromEnvironment leaves this machine out, whatever NO_PROXY says.
	proxy, err := url.Parse(os.Getenv("HTTPS_PROXY"))
	if err != nil {
		fmt.Println("no proxy:", err)
		return
	}
	client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(proxy), DisableKeepAlives: true}}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		method, rest, _ := strings.Cut(strings.TrimSpace(lines.Text()), " ")
		target, body, _ := strings.Cut(rest, " ")
		req, err := http.NewRequest(method, os.ExpandEnv(target), strings.NewReader(os.ExpandEnv(body)))
		if err != nil {
			fmt.Println("no request:", err)
			continue
		}
		if body != "" {
			req.Header.Set("Content-Type", "application/json")
		}
		resp, err := client.Do(req)
		if err != nil {
			fmt.Println("no reply:", strings.ReplaceAll(err.Error(), "\n", " "))
			continue
		}
		data, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		fmt.Println(resp.StatusCode, strings.TrimSpace(string(data)), strings.TrimPrefix(fmt.Sprint(err), "<nil>"))
	}
}

// website starts a web server on this machine, over HTTP at $WEB and over TLS at
// $WEBTLS, each as HOST:PORT, whose certificate is in web.pem. A path below /page/ is a
// page that names itself, /echo gives the request back with its Authorization, /to
// redirects to what its query says, and /stream is a stream of events. "website stop"
// stops it.
func startWebsite(t *testing.T) func(*testscript.TestScript, bool, []string) {
	var mu sync.Mutex
	running := map[string][]*httptest.Server{}
	return func(ts *testscript.TestScript, neg bool, args []string) {
		mu.Lock()
		defer mu.Unlock()
		if len(args) == 1 && args[0] == "stop" {
			for _, s := range running[ts.Getenv("WEB")] {
				s.Close()
			}
			return
		}
		if neg || len(args) != 0 {
			ts.Fatalf("usage: website [stop]")
		}
		plain, secure := httptest.NewServer(http.HandlerFunc(webPage)), httptest.NewTLSServer(http.HandlerFunc(webPage))
		t.Cleanup(plain.Close)
		t.Cleanup(secure.Close)
		ts.Check(os.WriteFile(ts.MkAbs("web.pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}), 0o644))
		for name, s := range map[string]*httptest.Server{"WEB": plain, "WEBTLS": secure} {
			u, err := url.Parse(s.URL)
			ts.Check(err)
			ts.Setenv(name, u.Host)
			ts.Setenv(name+"_PORT", u.Port())
		}
		running[ts.Getenv("WEB")] = []*httptest.Server{plain, secure}
	}
}

func webPage(w http.ResponseWriter, r *http.Request) {
	switch {
	case strings.HasPrefix(r.URL.Path, "/page/"):
		fmt.Fprintf(w, "this is the page %s", strings.TrimPrefix(r.URL.Path, "/page/"))
	case r.URL.Path == "/echo":
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s got %s with %q", r.Method, body, r.Header.Get("Authorization"))
	case r.URL.Path == "/to":
		http.Redirect(w, r, r.URL.Query().Get("u"), http.StatusFound)
	case r.URL.Path == "/stream":
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 3 {
			fmt.Fprintf(w, "data: event %d\n\n", i)
			w.(http.Flusher).Flush()
		}
	default:
		http.NotFound(w, r)
	}
}
