package viewer

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
)

// A place is what an address leads to on a site of files: its path, and the values of
// its query that choose what is shown.
type place struct {
	path  string // escaped
	query url.Values
}

// String is the address.
func (p place) String() string {
	if len(p.query) == 0 {
		return p.path
	}
	return p.path + "?" + p.query.Encode()
}

func (p place) segments() []string { return strings.Split(strings.Trim(p.path, "/"), "/") }

// queryOf are the values that choose between files, by the first segment of an address.
// A search can ask for anything, so it has no file.
var queryOf = map[string][]string{
	"attempts": {"class", "target", "page"},
	"attempt":  {"state", "tag", "page", "repeat", "from", "kind"},
	"matrix":   {"class", "show", "page"},
	"compare":  {"a", "b", "case"},
	"corpus":   {"page"},
	"judges":   {"page"},
	"imported": {"page", "run", "b", "scorer"},
	"ledger":   {"page"},
	"blob":     {"attempt", "case", "repeat"},
}

// placeOf is where a link on a page leads. It reports false for what has no file:
// other sites, searches, and several filters at once, of which there would be a file
// for each combination.
func placeOf(from place, ref string) (to place, fragment string, ok bool) {
	base, err := url.Parse(from.String())
	if err != nil {
		return place{}, "", false
	}
	u, err := base.Parse(ref)
	if err != nil || u.Scheme != "" || u.Host != "" || u.Opaque != "" {
		return place{}, "", false
	}
	to = place{path: u.EscapedPath(), query: u.Query()}
	known := queryOf[to.segments()[0]]
	for key, values := range to.query {
		if !slices.Contains(known, key) || len(values) != 1 {
			return place{}, "", false
		}
	}
	to.tidy()
	return to, u.EscapedFragment(), !(to.query.Has("state") && to.query.Has("tag") || to.query.Has("kind") && to.query.Has("from"))
}

// tidy leaves out what is there anyway, and lets a window of events begin where
// windows begin: an address for each turn would be a file for each turn.
func (p *place) tidy() {
	for _, key := range []string{"page", "repeat", "from"} {
		n, err := strconv.Atoi(p.query.Get(key))
		if key == "from" && err == nil {
			n = (n-1)/eventsInWindow*eventsInWindow + 1
			p.query.Set(key, strconv.Itoa(n))
		}
		if err != nil || n <= 1 {
			p.query.Del(key)
		}
	}
	for key, values := range p.query {
		if values[0] == "" {
			p.query.Del(key)
		}
	}
}

// extensions are those of files that are not pages, by the type that the viewer sends.
var extensions = map[string]string{
	"text/plain": ".txt", "application/x-ndjson": ".jsonl",
	"image/png": ".png", "image/jpeg": ".jpeg", "image/gif": ".gif", "image/webp": ".webp",
}

// file is the name of the file for an address: a page is index.html in a folder of its
// own, so that relative links lead alike from disk and from any web server.
func (p place) file(kind string) string {
	if strings.HasPrefix(p.path, "/assets/") {
		return p.path[1:] // scripts name each other
	}
	var names []string
	for _, s := range p.segments() {
		if plainText, err := url.PathUnescape(s); err == nil {
			s = plainText
		}
		if s != "" {
			names = append(names, safeName(s))
		}
	}
	var chosen []string
	for _, key := range slices.Sorted(maps.Keys(p.query)) {
		chosen = append(chosen, "~"+key+"-"+safeName(p.query.Get(key)))
	}
	kind, _, _ = strings.Cut(kind, ";")
	if kind == "text/html" && p.path != "/verify.html" {
		names = append(append(names, chosen...), "index.html")
	} else { // the file without a query has the name, and a file is not a folder as well
		names = slices.Insert(names, len(names)-1, chosen...)
	}
	return path.Join(names...) + extensions[kind]
}

// maxName bounds the name of a file.
const maxName = 100

// safeName is a name that every file system and web server takes as it is: other
// letters are spelled _hh, and what would be too long or mean something is told apart by a hash.
func safeName(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '.' && b.Len() > 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "_%02x", c)
		}
	}
	name := b.String()
	if len(name) > maxName || strings.HasSuffix(name, ".") {
		sum := sha256.Sum256([]byte(s))
		name = strings.TrimRight(name[:min(len(name), maxName-20)], ".") + "~" + hex.EncodeToString(sum[:8])
	}
	return name
}

// relative is the way from a page's file to another file.
func relative(from, to string) string {
	here, there := strings.Split(path.Dir(from), "/"), strings.Split(to, "/")
	if path.Dir(from) == "." {
		here = nil
	}
	n := 0
	for n < len(here) && n < len(there)-1 && here[n] == there[n] {
		n++
	}
	return strings.Repeat("../", len(here)-n) + strings.Join(there[n:], "/")
}
