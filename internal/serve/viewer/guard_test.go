package viewer

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"tallystick/internal/serve/viewer/layout"
)

// behind is a handler that says "in".
func behind(d Door) http.Handler {
	if d.Hosts == nil {
		d.Hosts = []string{"127.0.0.1:7000", "localhost:7000"}
	}
	return Guard(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("in")) }), d, "7000")
}

func request(method, target string, headers ...string) *http.Request {
	req := httptest.NewRequest(method, target, nil)
	req.Host, req.RemoteAddr = "127.0.0.1:7000", "127.0.0.1:40000"
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		} else {
			req.Header.Set(headers[i], headers[i+1])
		}
	}
	return req
}

func ask(h http.Handler, req *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	return w
}

func TestTokenIsExchangedOnce(t *testing.T) {
	h := behind(Door{Token: "the-token-of-this-viewer"})
	if w := ask(h, request("GET", "/")); w.Code != 403 {
		t.Fatalf("without a token: %d", w.Code)
	}
	if w := ask(h, request("GET", "/?token=another")); w.Code != 403 {
		t.Fatalf("with another token: %d", w.Code)
	}
	w := ask(h, request("GET", "/attempts?class=a&token=the-token-of-this-viewer"))
	if w.Code != 303 || w.Header().Get("Location") != "/attempts?class=a" {
		t.Fatalf("with the token: %d to %q", w.Code, w.Header().Get("Location"))
	}
	cookie := w.Result().Cookies()[0]
	if !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || cookie.Path != "/" {
		t.Errorf("the cookie is %v", cookie)
	}
	if w := ask(h, request("GET", "/?token=the-token-of-this-viewer")); w.Code != 403 || !strings.Contains(w.Body.String(), "used already") {
		t.Errorf("a second use: %d %s", w.Code, w.Body)
	}
	with := request("GET", "/")
	with.AddCookie(cookie)
	if w := ask(h, with); w.Code != 200 || w.Body.String() != "in" {
		t.Errorf("with the cookie: %d %s", w.Code, w.Body)
	}
	forged := request("GET", "/")
	forged.AddCookie(&http.Cookie{Name: cookie.Name, Value: cookie.Value + "x"})
	if w := ask(h, forged); w.Code != 403 {
		t.Errorf("with a forged cookie: %d", w.Code)
	}
	away := request("GET", "//evil.example/%2e%2e?token=x")
	away.AddCookie(cookie)
	if to := ask(h, away).Header().Get("Location"); strings.HasPrefix(to, "//") {
		t.Errorf("the redirect leads to %q", to)
	}
}

// typed is a token that a person typed into the form of the door.
func typed(token, to string, headers ...string) *http.Request {
	req := request("POST", "/enter", append([]string{"Content-Type", "application/x-www-form-urlencoded", "Origin", "http://127.0.0.1:7000", "Accept", "text/html"}, headers...)...)
	req.Body = io.NopCloser(strings.NewReader(url.Values{"token": {token}, "to": {to}}.Encode()))
	return req
}

func TestTheDoorTakesATypedToken(t *testing.T) {
	const token = "a-token-that-many-have"
	h := behind(Door{Shared: token})
	w := ask(h, request("GET", "/attempts?class=a&token=wrong", "Accept", "text/html,*/*"))
	if body := w.Body.String(); w.Code != 403 || !strings.Contains(body, `action="/enter"`) || !strings.Contains(body, `value="/attempts?class=a"`) || strings.Contains(body, "check.js") {
		t.Fatalf("without a token: %d %s", w.Code, body)
	}
	if got := w.Header().Get("Referrer-Policy"); got != "same-origin" {
		t.Errorf("browsers would send Origin: null with the form: the referrer policy is %q", got)
	}
	if w := ask(h, request("GET", "/assets/style.css")); w.Code != 200 {
		t.Errorf("the door has no style: %d", w.Code)
	}
	w = ask(h, typed(" "+token+"\n", "/attempts?class=a"))
	if w.Code != 303 || w.Header().Get("Location") != "/attempts?class=a" || len(w.Result().Cookies()) != 1 {
		t.Fatalf("with the token: %d %v", w.Code, w.Header())
	}
	in := request("GET", "/")
	in.AddCookie(w.Result().Cookies()[0])
	if w := ask(h, in); w.Code != 200 {
		t.Errorf("with the cookie: %d", w.Code)
	}
	old := request("GET", "/", "Accept", "text/html")
	old.AddCookie(&http.Cookie{Name: "tally_view_7000", Value: "of-the-process-before"})
	if w := ask(h, old); w.Code != 403 || !strings.Contains(w.Body.String(), "was started anew") || !strings.Contains(w.Body.String(), `action="/enter"`) {
		t.Errorf("with an old cookie: %d %s", w.Code, w.Body)
	}
	if w := ask(behind(Door{Token: token}), typed(token, "/")); w.Code != 405 {
		t.Errorf("the door for one browser takes a form: %d", w.Code)
	}
	for name, req := range map[string]*http.Request{
		"another origin": typed(token, "/", "Origin", "http://evil.example"), "no origin": typed(token, "/", "Origin", ""), "an origin of nobody": typed(token, "/", "Origin", "null"),
		"another site": typed(token, "/", "Sec-Fetch-Site", "cross-site"), "another name": typed(token, "/", "Host", "evil.example:7000"),
	} {
		if w := ask(h, req); w.Code < 400 || len(w.Result().Cookies()) > 0 {
			t.Errorf("%s: %d %v", name, w.Code, w.Header())
		}
	}
}

func TestTheDoorLeadsNowhereElse(t *testing.T) {
	const token = "a-token-that-many-have"
	for to, want := range map[string]string{
		"/attempts?q=a+b&token=x": "/attempts?q=a+b", "": "/", "//evil.example/x": "/x", `/\evil.example/x`: "/", `\\evil.example`: "/", "http://evil.example/x?y=1": "/x?y=1", "javascript:alert(1)": "/",
		"https:evil.example": "/", "///evil.example": "/evil.example", "/\t/evil.example": "/", "/%5cevil.example": "/", "/%2f/evil.example": "/%2f/evil.example", "/enter": "/",
	} {
		w := ask(behind(Door{Shared: token}), typed(token, to))
		got := w.Header().Get("Location")
		if at, err := url.Parse("http://127.0.0.1:7000/"); err != nil || w.Code != 303 || !strings.HasPrefix(got, "/") {
			t.Errorf("%q leads to %d %q", to, w.Code, got)
		} else if there, err := at.Parse(strings.ReplaceAll(got, `\`, "/")); err != nil || there.Host != at.Host {
			t.Errorf("%q leads to another server: %q", to, got)
		}
		if got != want {
			t.Errorf("%q leads to %q, want %q", to, got, want)
		}
	}
}

// Who guesses is not listened to for a while, in whichever way they send the token, and
// others are.
func TestTheDoorIsSlowForWhoGuesses(t *testing.T) {
	const token = "a-token-that-many-have"
	now := time.Date(2026, 5, 12, 14, 0, 0, 0, time.UTC)
	h := behind(Door{Shared: token}).(*guard)
	h.wrong.now = func() time.Time { return now }
	from := func(addr string, req *http.Request) *http.Request { req.RemoteAddr = addr; return req }
	ways := []func(token string) *http.Request{
		func(token string) *http.Request { return typed(token, "/") },
		func(token string) *http.Request { return request("GET", "/?token="+token) },
		func(token string) *http.Request { return request("GET", "/", "Authorization", "Bearer "+token) },
	}
	for i := range maxWrong {
		if w := ask(h, from("[2001:db8::1]:40000", ways[i%3]("wrong"))); w.Code != 403 && i < maxWrong-1 {
			t.Fatalf("wrong token %d: %d", i+1, w.Code)
		}
	}
	for i, way := range ways {
		w := ask(h, from("[2001:db8::2]:40001", way(token))) // another address of the same network
		if w.Code != 429 || w.Header().Get("Retry-After") != "60" {
			t.Errorf("way %d, after %d wrong tokens: %d %v", i, maxWrong, w.Code, w.Header())
		}
		if w := ask(h, from("[2001:db8:1::2]:40001", way(token))); w.Code >= 400 {
			t.Errorf("way %d, somebody else: %d", i, w.Code)
		}
	}
	now = now.Add(wrongWindow)
	if w := ask(h, from("[2001:db8::1]:40000", typed(token, "/"))); w.Code != 303 {
		t.Errorf("a minute later: %d", w.Code)
	}
	for i := range 3 * maxRemembered {
		ask(h, from(fmt.Sprintf("10.%d.%d.%d:1", i>>16, i>>8&255, i&255), typed("wrong", "/")))
	}
	if n := len(h.wrong.from); n > maxRemembered {
		t.Errorf("%d addresses are remembered", n)
	}
}

func TestGuardRefusesOtherHostsSitesAndMethods(t *testing.T) {
	h := behind(Door{Shared: "a-token-that-many-have"})
	in := []string{"Authorization", "Bearer a-token-that-many-have"}
	for _, tt := range []struct {
		name    string
		method  string
		headers []string
		want    int
	}{
		{"a person", "GET", nil, 200},
		{"from the address bar", "GET", []string{"Sec-Fetch-Site", "none"}, 200},
		{"from a page of ours", "GET", []string{"Sec-Fetch-Site", "same-origin", "Origin", "http://127.0.0.1:7000"}, 200},
		{"by its other name", "GET", []string{"Host", "localhost:7000"}, 200},
		{"HEAD", "HEAD", nil, 200},
		{"a name that points here", "GET", []string{"Host", "evil.example:7000"}, 421},
		{"a name without port", "GET", []string{"Host", "127.0.0.1"}, 421},
		{"a page of another site", "GET", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"a page of another port", "GET", []string{"Sec-Fetch-Site", "same-site"}, 403},
		{"another origin", "GET", []string{"Origin", "http://evil.example"}, 403},
		{"no origin at all", "GET", []string{"Origin", "null"}, 403},
		{"POST", "POST", nil, 405},
		{"PUT", "PUT", nil, 405},
		{"OPTIONS", "OPTIONS", nil, 405},
		{"another token", "GET", []string{"Authorization", "Bearer x"}, 403},
	} {
		w := ask(h, request(tt.method, "/", append(append([]string{}, in...), tt.headers...)...))
		if w.Code != tt.want {
			t.Errorf("%s: %d, want %d: %s", tt.name, w.Code, tt.want, w.Body)
		}
		for name, want := range map[string]string{"Content-Security-Policy": layout.Policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY",
			"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin", "Cache-Control": "no-store"} {
			if got := w.Header().Get(name); got != want {
				t.Errorf("%s: %s is %q", tt.name, name, got)
			}
		}
		if w.Header().Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: others are allowed", tt.name)
		}
	}
}

func TestProxyCountsOnlyFromItsAddress(t *testing.T) {
	h := behind(Door{ProxyHeader: "X-User", ProxyFrom: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}})
	for _, tt := range []struct {
		from, user string
		want       int
	}{{"10.0.0.7:1", "ann", 200}, {"10.0.0.7:1", "", 403}, {"10.0.1.7:1", "ann", 403}, {"[::ffff:10.0.0.7]:1", "ann", 200}, {"127.0.0.1:1", "ann", 403}, {"nonsense", "ann", 403}} {
		req := request("GET", "/", "X-User", tt.user)
		req.RemoteAddr = tt.from
		if w := ask(h, req); w.Code != tt.want {
			t.Errorf("%s as %q: %d, want %d", tt.from, tt.user, w.Code, tt.want)
		}
	}
}

func TestOthersMayAskForReceiptsOnlyWithTheFlag(t *testing.T) {
	token := []string{"Authorization", "Bearer a-token-that-many-have", "Origin", "null", "Sec-Fetch-Site", "cross-site"}
	for _, tt := range []struct {
		cors bool
		path string
		want int
	}{{true, "/receipt/3", 200}, {true, "/keys", 200}, {true, "/checkpoint", 200}, {true, "/", 403}, {true, "/attempts", 403}, {false, "/receipt/3", 403}, {false, "/keys", 403}} {
		w := ask(behind(Door{Shared: "a-token-that-many-have", CORS: tt.cors}), request("GET", tt.path, token...))
		if allowed := w.Header().Get("Access-Control-Allow-Origin") == "*"; w.Code != tt.want || allowed != (tt.want == 200) {
			t.Errorf("%s with cors %v: %d, allowed %v", tt.path, tt.cors, w.Code, allowed)
		}
	}
	h := behind(Door{Shared: "a-token-that-many-have", CORS: true})
	if w := ask(h, request("OPTIONS", "/receipt/3", "Origin", "null")); w.Code != 204 || w.Header().Get("Access-Control-Allow-Headers") != "Authorization" {
		t.Errorf("preflight: %d %v", w.Code, w.Header())
	}
	if w := ask(h, request("GET", "/receipt/3", "Origin", "null")); w.Code != 403 {
		t.Errorf("without the token: %d", w.Code)
	}
}
