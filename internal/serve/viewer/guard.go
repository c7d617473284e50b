package viewer

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/serve/viewer/layout"
)

// A Door says who may come in. One of Token, Shared and Proxy is set.
type Door struct {
	// Token is good for one exchange: the browser that comes with it first gets the cookie.
	Token string
	// Shared is a token that several people have; each exchanges it for the cookie,
	// or sends it as "Authorization: Bearer".
	Shared string
	// ProxyHeader names a header in which a proxy says who the user is. It counts
	// only from ProxyFrom: every other client can write it too.
	ProxyHeader string
	ProxyFrom   []netip.Prefix
	// Hosts are the names and addresses by which the server may be called, with
	// port. Another name belongs to an attacker who made it point here.
	Hosts []string
	// CORS lets pages of other origins ask for receipts, checkpoint and keys.
	CORS bool
}

// NewToken makes a token that cannot be guessed.
func NewToken() string {
	b := make([]byte, 24)
	rand.Read(b)
	return base64.RawURLEncoding.EncodeToString(b)
}

// minToken is the length of a token that cannot be guessed.
const minToken = 16

// LoadToken reads a token that several people have.
func LoadToken(file string) (string, error) {
	data, err := store.ReadFile(store.OS{}, file, 4096)
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(data))
	if len(token) < minToken || strings.Trim(token, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~") != "" {
		return "", refusal.Newf(refusal.Usage, "%s: expected a token of at least %d letters, digits, - and _ on one line", file, minToken).
			WithHint("make one: head -c 24 /dev/urandom | base64 | tr '+/' '-_' > %s", file)
	}
	return token, nil
}

// A guard stands before a handler.
type guard struct {
	Door
	next    http.Handler
	cookie  string // name of the cookie: two viewers on one machine have different ports
	session string // its value

	mu   sync.Mutex
	used bool // the one-time token
}

// Guard puts a door before a handler. Port tells the cookies of two viewers on one
// machine apart.
func Guard(next http.Handler, d Door, port string) http.Handler {
	return &guard{Door: d, next: next, cookie: "tally_view_" + port, session: NewToken()}
}

func (g *guard) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", layout.Policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Embedder-Policy", "require-corp")
	h.Set("Permissions-Policy", "camera=(), microphone=(), geolocation=()")
	h.Set("Cache-Control", "no-store")

	if !slices.Contains(g.Hosts, strings.ToLower(req.Host)) {
		refuse(w, http.StatusMisdirectedRequest, "this server is not called "+req.Host+"; it answers to "+strings.Join(g.Hosts, ", "))
		return
	}
	elsewhere := g.CORS && forOthers(req.URL.Path)
	if elsewhere {
		h.Set("Access-Control-Allow-Origin", "*")
		h.Set("Cross-Origin-Resource-Policy", "cross-origin")
		if req.Method == http.MethodOptions {
			h.Set("Access-Control-Allow-Headers", "Authorization")
			h.Set("Access-Control-Allow-Methods", "GET, HEAD")
			w.WriteHeader(http.StatusNoContent)
			return
		}
	}
	if req.Method != http.MethodGet && req.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		refuse(w, http.StatusMethodNotAllowed, "the viewer only reads: GET and HEAD")
		return
	}
	if !elsewhere && fromElsewhere(req) {
		refuse(w, http.StatusForbidden, "another site asked for this page; type its address or open it from a page of the viewer")
		return
	}
	g.enter(w, req)
}

// forOthers are the addresses that a page opened from disk may ask, with --cors.
func forOthers(path string) bool {
	return strings.HasPrefix(path, "/receipt/") || path == "/checkpoint" || path == "/keys"
}

// fromElsewhere reports whether a page of another origin made the browser ask.
// Old browsers send neither header; the cookie is SameSite=Strict besides.
func fromElsewhere(req *http.Request) bool {
	if site := req.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" {
		return true
	}
	origin := req.Header.Get("Origin")
	return origin != "" && origin != "http://"+req.Host && origin != "https://"+req.Host
}

// enter lets in a user who has the cookie, the proxy's word or a token.
func (g *guard) enter(w http.ResponseWriter, req *http.Request) {
	token := req.URL.Query().Get("token")
	switch {
	case g.ProxyHeader != "":
		if !g.fromProxy(req) || req.Header.Get(g.ProxyHeader) == "" {
			refuse(w, http.StatusForbidden, "only the proxy may ask, with the header "+g.ProxyHeader)
			return
		}
	case g.hasCookie(req):
		if token != "" {
			http.Redirect(w, req, clean(req), http.StatusSeeOther)
			return
		}
	case g.Shared != "" && same(bearer(req), g.Shared):
	case token != "" && g.takes(token):
		http.SetCookie(w, &http.Cookie{Name: g.cookie, Value: g.session, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: req.TLS != nil})
		http.Redirect(w, req, clean(req), http.StatusSeeOther)
		return
	case token != "":
		refuse(w, http.StatusForbidden, "this address was used already, or is not of this server; start \"tally view\" again")
		return
	default:
		refuse(w, http.StatusForbidden, "open the address that \"tally view\" printed: it has the token that lets this browser in")
		return
	}
	g.next.ServeHTTP(w, req)
}

func (g *guard) hasCookie(req *http.Request) bool {
	c, err := req.Cookie(g.cookie)
	return err == nil && same(c.Value, g.session)
}

// takes reports whether a token lets a user in, and uses it up if it is good for
// once.
func (g *guard) takes(token string) bool {
	if g.Shared != "" {
		return same(token, g.Shared)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.Token == "" || g.used || !same(token, g.Token) {
		return false
	}
	g.used = true
	return true
}

func (g *guard) fromProxy(req *http.Request) bool {
	host, _, err := net.SplitHostPort(req.RemoteAddr)
	if err != nil {
		return false
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && slices.ContainsFunc(g.ProxyFrom, func(p netip.Prefix) bool { return p.Contains(addr.Unmap()) })
}

func bearer(req *http.Request) string {
	token, _ := strings.CutPrefix(req.Header.Get("Authorization"), "Bearer ")
	return token
}

// same compares secrets in a time that tells nothing about them.
func same(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return b != "" && subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

// clean is the address without the token. It begins with one slash: two would
// lead to another server.
func clean(req *http.Request) string {
	q := req.URL.Query()
	q.Del("token")
	path := "/" + strings.TrimLeft(req.URL.EscapedPath(), "/\\")
	if len(q) > 0 {
		path += "?" + q.Encode()
	}
	return path
}

func refuse(w http.ResponseWriter, status int, why string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	w.Write([]byte("refused: " + Line(why) + "\n"))
}
