package web

import (
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"tallystick/internal/record/refusal"
)

// lastForwarded is the address that the nearest proxy saw.
func lastForwarded(h http.Header) (netip.Addr, bool) {
	lines := h.Values("X-Forwarded-For")
	if len(lines) == 0 {
		return netip.Addr{}, false
	}
	all := lines[len(lines)-1]
	addr, err := netip.ParseAddr(strings.TrimSpace(all[strings.LastIndex(all, ",")+1:]))
	return addr.Unmap(), err == nil
}

// checkPath refuses an address that two programs could read as two places: escaped
// slashes and dots, empty and dot segments, and every character that no address
// of a registry has. The mux would send a redirect for some of these, and a cache
// or a proxy in front of us could have another opinion.
func checkPath(u *url.URL) error {
	bad := func(why string) error {
		return refusal.Newf(refusal.Malformed, "the address has %s", why).
			WithHint("paths of artifacts have letters, digits and . _ - between single slashes")
	}
	escaped := strings.ToLower(u.EscapedPath())
	switch {
	case len(escaped) > maxPathBytes:
		return refusal.Newf(refusal.TooLarge, "the path has %d bytes, at most %d are read", len(escaped), maxPathBytes)
	case len(u.RawQuery) > maxQueryBytes:
		return refusal.Newf(refusal.TooLarge, "the query has %d bytes, at most %d are read", len(u.RawQuery), maxQueryBytes)
	case !strings.HasPrefix(u.Path, "/"):
		return bad("no path")
	case strings.Contains(escaped, "%2f"), strings.Contains(escaped, "%5c"), strings.Contains(escaped, "%2e"):
		return bad("an escaped slash, backslash or dot")
	}
	for i := 0; i < len(u.Path); i++ {
		if !isPathByte(u.Path[i]) {
			return bad("a character that no address here has")
		}
	}
	if u.Path == "/" {
		return nil
	}
	for segment := range strings.SplitSeq(u.Path[1:], "/") {
		switch segment {
		case "":
			return bad("an empty segment")
		case ".", "..":
			return bad("a dot segment")
		}
	}
	return nil
}

func isPathByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("/._-~:@+,=", c) >= 0
}

// readQuery takes the members of a query, each of which must be known and there
// once.
func readQuery(u *url.URL, known []param) (map[string]string, error) {
	all, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, refusal.Newf(refusal.Malformed, "the query cannot be read: %w", err)
	}
	names := make([]string, len(known))
	for i, p := range known {
		names[i] = p.name
	}
	given := make(map[string]string, len(all))
	for name, values := range all {
		if !has(known, name) {
			return nil, refusal.Newf(refusal.Malformed, "unknown query parameter %q", name).
				Suggest(name, names, "this address takes: %s", orNone(names))
		}
		if len(values) != 1 {
			return nil, refusal.Newf(refusal.Malformed, "query parameter %q is there %d times, expected once", name, len(values))
		}
		given[name] = values[0]
	}
	return given, nil
}

func has(known []param, name string) bool {
	for _, p := range known {
		if p.name == name {
			return true
		}
	}
	return false
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
