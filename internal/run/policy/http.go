package policy

import "strings"

// HTTPPrefix begins the name under which a request of an agent's program to a server
// is judged, as in "http:GET api.example.com/v1/search". No tool may be called so.
const HTTPPrefix = "http:"

// HTTPName is that name. A port is part of the host unless it is the usual one.
func HTTPName(method, host, path string) string { return HTTPPrefix + method + " " + host + path }

// matchesHTTP reports whether an entry of a list names a request: exactly, with * for
// every method, or with * at its end for every path that begins so. The rest of an
// entry is compared as it is, and the name of a request has one spelling only.
func matchesHTTP(entry, name string) bool {
	listed, ok := strings.CutPrefix(entry, HTTPPrefix)
	if !ok {
		return false
	}
	method, place, _ := strings.Cut(strings.TrimPrefix(name, HTTPPrefix), " ")
	wantMethod, wantPlace, ok := strings.Cut(listed, " ")
	if !ok || wantMethod != "*" && wantMethod != method {
		return false
	}
	// The host is never open: without a slash before it, a * would end in the middle
	// of a name.
	if begin, open := strings.CutSuffix(wantPlace, "*"); open && strings.Contains(begin, "/") {
		return strings.HasPrefix(place, begin)
	}
	return place == wantPlace
}
