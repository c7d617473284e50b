package viewer

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

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
	// Write lets the browser that was let in send the forms of a person who works here.
	Write bool
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

	wrong wrongTokens

	mu   sync.Mutex
	used bool // the one-time token
}

// Guard puts a door before a handler. Port tells the cookies of two viewers on one
// machine apart.
func Guard(next http.Handler, d Door, port string) http.Handler {
	return &guard{Door: d, next: next, cookie: "tally_view_" + port, session: NewToken(), wrong: wrongTokens{now: time.Now}}
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
	if req.Method != http.MethodGet && req.Method != http.MethodHead && !g.mayPost(req) {
		h.Set("Allow", "GET, HEAD")
		refuse(w, http.StatusMethodNotAllowed, "these pages only read: GET and HEAD")
		return
	}
	if req.Method == http.MethodPost && req.Header.Get("Origin") == "" || !elsewhere && fromElsewhere(req) {
		refuse(w, http.StatusForbidden, "another site asked for this page; type its address or open it from a page of the viewer")
		return
	}
	g.enter(w, req)
}

// doorPath is where the form of the door sends a token.
const doorPath = "/enter"

// mayPost: the form of the door sends a token, a person who works here sends what they
// wish to sign, and nothing else is sent.
func (g *guard) mayPost(req *http.Request) bool {
	switch {
	case req.Method != http.MethodPost:
		return false
	case req.URL.Path == doorPath:
		return g.Shared != ""
	}
	return g.Write && g.Shared == "" && g.ProxyHeader == "" && req.URL.Path == writePath
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
	case g.Shared != "" && strings.HasPrefix(req.URL.Path, "/assets/"): // of the program, not of the workspace; the form of the door looks like the pages
	case g.Shared != "" && req.Method == http.MethodPost && req.URL.Path == doorPath:
		g.knock(w, req)
		return
	case g.hasCookie(req):
		if token != "" {
			http.Redirect(w, req, clean(req.URL), http.StatusSeeOther)
			return
		}
	case g.Shared != "" && bearer(req) != "":
		if !g.takes(req, bearer(req)) {
			g.refuseToken(w, req, req.URL, "this is not the token of this server")
			return
		}
	case token != "" && g.takes(req, token):
		g.letIn(w, req, req.URL)
		return
	case token != "" && g.Shared != "":
		g.refuseToken(w, req, req.URL, "this is not the token of this server")
		return
	case token != "":
		g.refuseToken(w, req, req.URL, "this address was used already, or is not of this server; start \"tally view\" again")
		return
	case g.Shared != "":
		g.refuseToken(w, req, req.URL, g.whyAgain(req))
		return
	default:
		g.refuseToken(w, req, req.URL, "open the address that \"tally view\" printed: it has the token that lets this browser in")
		return
	}
	g.next.ServeHTTP(w, req)
}

// whyAgain says why a reader is asked for the token.
func (g *guard) whyAgain(req *http.Request) string {
	if _, err := req.Cookie(g.cookie); err == nil {
		return "the server was started anew since this browser was let in, so it asks again"
	}
	return ""
}

// maxForm bounds what the form of the door sends.
const maxForm = 4096

// knock takes the token of the form.
func (g *guard) knock(w http.ResponseWriter, req *http.Request) {
	req.Body = http.MaxBytesReader(w, req.Body, maxForm)
	if err := req.ParseForm(); err != nil {
		refuse(w, http.StatusBadRequest, "the form cannot be read")
		return
	}
	to, err := url.Parse(req.PostForm.Get("to"))
	if err != nil {
		to = &url.URL{Path: "/"}
	}
	if !g.takes(req, strings.TrimSpace(req.PostForm.Get("token"))) {
		g.refuseToken(w, req, to, "this is not the token of this server")
		return
	}
	g.letIn(w, req, to)
}

// letIn gives the browser the cookie and leads it to a page of this server.
func (g *guard) letIn(w http.ResponseWriter, req *http.Request, to *url.URL) {
	http.SetCookie(w, &http.Cookie{Name: g.cookie, Value: g.session, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: req.TLS != nil})
	http.Redirect(w, req, clean(to), http.StatusSeeOther)
}

// A doorData is what the page of the door shows.
type doorData struct {
	Why  string // it is asked; "" if nobody was refused
	Form bool   // a token may be typed
	Wait int    // seconds until a token is looked at again; 0 if now
	To   string // where the reader wanted to go
}

// refuseToken asks a person for the token, and tells a program why it is refused.
func (g *guard) refuseToken(w http.ResponseWriter, req *http.Request, to *url.URL, why string) {
	status, wait := http.StatusForbidden, g.wrong.wait(req)
	if wait > 0 && g.Shared != "" {
		status, why = http.StatusTooManyRequests, fmt.Sprintf("too many wrong tokens came from this address; try again in %d seconds", wait)
		w.Header().Set("Retry-After", strconv.Itoa(wait))
	}
	if !strings.Contains(req.Header.Get("Accept"), "text/html") {
		refuse(w, status, cmp.Or(why, "this server needs a token: send it as \"Authorization: Bearer\", or open a page in a browser and type it"))
		return
	}
	p := &page{Title: "Token needed", Template: "door", Bare: true, Home: "/", Assets: "/assets", Data: doorData{why, g.Shared != "", wait, clean(to)}}
	if g.Shared == "" {
		p.Title = "This browser is not let in"
	}
	data, err := p.Render(templates())
	if err != nil {
		refuse(w, status, why)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	sendsForms(w)
	w.WriteHeader(status)
	w.Write(data)
}

// sendsForms lets a page send a form: where a page may say to nobody where it is, browsers
// send "Origin: null" with its forms, as they do for pages of strangers.
func sendsForms(w http.ResponseWriter) { w.Header().Set("Referrer-Policy", "same-origin") }

func (g *guard) hasCookie(req *http.Request) bool {
	c, err := req.Cookie(g.cookie)
	return err == nil && same(c.Value, g.session)
}

// takes reports whether a token lets a user in, and uses it up if it is good for
// once. An address from which many wrong ones came is not listened to for a while, not
// even with the right one: or it could go on guessing.
func (g *guard) takes(req *http.Request, token string) bool {
	if g.Shared != "" {
		if g.wrong.wait(req) > 0 {
			return false
		}
		right := same(token, g.Shared)
		if !right {
			g.wrong.note(req)
		}
		return right
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

// clean is an address on this server, without the token. It begins with one slash: two
// would lead to another server, and so would a scheme or a host.
func clean(to *url.URL) string {
	q := to.Query()
	q.Del("token")
	path := "/" + strings.TrimLeft(to.EscapedPath(), "/\\")
	if strings.HasPrefix(strings.ToUpper(path), "/%5C") || path == doorPath { // a backslash, which browsers take for a slash
		path = "/"
	}
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
