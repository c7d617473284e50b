package viewer

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

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
