package web

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"

	"tallystick/internal/record/canon"
)

// The media types of answers.
const (
	typeJSON       = "application/json"
	typeCredential = "application/vc"
	typeSchema     = "application/schema+json"
	typeText       = "text/plain; charset=utf-8"
	typeMarkdown   = "text/markdown; charset=utf-8"
	typePython     = "text/x-python; charset=utf-8"
	typeSVG        = "image/svg+xml"
	typeBytes      = "application/octet-stream"
	typeDID        = "application/did+json"
	typeJWKS       = "application/jwk-set+json"
	typeLines      = "application/jsonl"
	typeHTML       = "text/html; charset=utf-8"
	typeCSS        = "text/css; charset=utf-8"
	typeScript     = "text/javascript; charset=utf-8"
	typeAtom       = "application/atom+xml; charset=utf-8"
	typeMetrics    = "text/plain; version=0.0.4; charset=utf-8"
)

// How long a cache may keep an answer to a public read. Nothing else is kept.
const (
	// cacheCheck lets a cache keep it and ask each time whether it is still so.
	cacheCheck = "public, no-cache"
	// cacheForever is for what the address itself fixes, such as a full tile.
	cacheForever = "public, max-age=31536000, immutable"
	cacheNever   = "no-store"
	// cachePrivate is for whatever depends on who asks.
	cachePrivate = "private, no-store"
)

// A reply is what a handler gives back for the server to write.
type reply struct {
	status      int
	contentType string
	body        []byte
	cache       string // empty: decided by the route
	etag        string // empty: made of the body
	location    string
	link        string
	retryAfter  int // seconds
	wwwAuth     string
	allow       string
	attachment  bool   // to be saved, not shown
	policy      string // content policy of a page; empty lets nothing run
	vary        string // a header of the request that decides what is answered
}

// asJSON answers with the canonical JSON of a value, so that the same answer has
// the same bytes and the same tag in every process that serves it.
func asJSON(status int, v any) (*reply, error) {
	body, err := canon.Marshal(v)
	if err != nil {
		return nil, err
	}
	return &reply{status: status, contentType: typeJSON, body: append(body, '\n')}, nil
}

// given answers with bytes as they are.
func given(contentType string, body []byte) *reply {
	return &reply{status: http.StatusOK, contentType: contentType, body: body}
}

// tagOf is the strong entity tag of a body: equal tags mean equal bytes.
func tagOf(body []byte) string {
	sum := sha256.Sum256(body)
	return `"` + hex.EncodeToString(sum[:16]) + `"`
}

// matches reports whether If-None-Match names the tag. It compares weakly, as RFC
// 9110 section 13.1.2 wants: a proxy that compressed the answer made our tag weak.
func matches(header []string, tag string) bool {
	if tag == "" {
		return false
	}
	tag = strings.TrimPrefix(tag, "W/")
	for _, line := range header {
		for member := range strings.SplitSeq(line, ",") {
			member = strings.TrimSpace(member)
			if member == "*" || strings.TrimPrefix(member, "W/") == tag {
				return true
			}
		}
	}
	return false
}

// TreeSizeHeader says of how many entries an answer is: what it shows follows from the
// tree of that size.
const TreeSizeHeader = "Tally-Tree-Size"

// write sends a reply. Every header is set here and nowhere else.
func (c *call) write(w http.ResponseWriter, rep *reply) {
	h := w.Header()
	h.Set("X-Request-Id", c.id)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	// Badges are pictures and documents are text: nothing of them runs.
	h.Set("Content-Security-Policy", cmp.Or(rep.policy, "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"))
	for name, value := range map[string]string{
		"Location": rep.location, "Link": rep.link, "WWW-Authenticate": rep.wwwAuth, "Allow": rep.allow, "Vary": rep.vary,
	} {
		if value != "" {
			h.Set(name, value)
		}
	}
	if c.route != nil && !c.route.operations {
		h.Set(TreeSizeHeader, strconv.FormatInt(c.s.reads.TreeSize(), 10))
	}
	if rep.attachment {
		h.Set("Content-Disposition", "attachment")
	}
	if rep.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(rep.retryAfter))
	}
	if c.route != nil && c.route.shared() {
		h.Set("Access-Control-Allow-Origin", "*")
		h.Set("Access-Control-Expose-Headers", "ETag, Link, "+TreeSizeHeader+", X-Request-Id")
	}
	status := rep.status
	h.Set("Cache-Control", c.cacheOf(rep))
	if status == http.StatusOK && c.readsPublic() {
		tag := rep.etag
		if tag == "" {
			tag = tagOf(rep.body)
		}
		h.Set("ETag", tag)
		if matches(c.r.Header.Values("If-None-Match"), tag) {
			w.WriteHeader(http.StatusNotModified)
			c.status = http.StatusNotModified
			return
		}
	}
	if c.route != nil && c.route.access != public {
		h.Set("Vary", "Authorization")
	}
	c.status = status
	if status == http.StatusNoContent {
		w.WriteHeader(status)
		return
	}
	h.Set("Content-Type", rep.contentType)
	h.Set("Content-Length", strconv.Itoa(len(rep.body)))
	w.WriteHeader(status)
	if c.r.Method != http.MethodHead {
		c.sent, _ = w.Write(rep.body) // on an error the client is gone, and there is no one to tell
	}
}

func (c *call) readsPublic() bool {
	return c.route != nil && c.route.shared() && (c.r.Method == http.MethodGet || c.r.Method == http.MethodHead)
}

func (c *call) cacheOf(rep *reply) string {
	switch {
	case c.route != nil && c.route.access != public:
		return cachePrivate
	case rep.status != http.StatusOK || !c.readsPublic():
		return cacheNever
	case rep.cache != "":
		return rep.cache
	}
	return cacheCheck
}
