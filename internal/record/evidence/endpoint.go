package evidence

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// An Endpoint is who answered a call, as the machine that made the call saw it: the
// address that it asked, and the connection on which the answer came. It is what the
// operator's machine saw and shows nothing to others by itself. Everything in it is
// in one spelling, so that equal endpoints are equal values.
type Endpoint struct {
	Scheme string `json:"scheme"`         // https or http
	Host   string `json:"host"`           // lower case, no dot at the end; addresses as netip spells them
	Port   int    `json:"port"`           // written out also if it is the usual one
	Path   string `json:"path,omitempty"` // of the base URL, without a slash at the end

	// Local says that the host, or the address that the connection reached, is
	// not of the internet: the machine's own operator may have answered.
	Local bool `json:"local,omitempty"`
	// Address is the one that the connection reached; that of the proxy if there is
	// one. It is left out where endpoints are summed up.
	Address string `json:"address,omitempty"`
	Proxy   string `json:"proxy,omitempty"` // HOST:PORT of the proxy in between

	// Leaf and Chain are the SHA-256 of the server's certificate, and of all that it
	// sent, one after the other; [PlainEndpoint] without TLS. Roots says what they were
	// verified against: [ShippedRoots], or the digest of a file of certificates.
	Leaf  string `json:"leaf"`
	Chain string `json:"chain"`
	Roots string `json:"roots,omitempty"`
}

const (
	// PlainEndpoint stands in place of certificates where there is no TLS.
	PlainEndpoint = "plain"
	// ShippedRoots are the certificate authorities that come with this program.
	ShippedRoots = "shipped"
)

// An EndpointUse is an endpoint with how much of a recording came from it.
type EndpointUse struct {
	Endpoint  Endpoint `json:"endpoint"`            // without its address
	Addresses []string `json:"addresses,omitempty"` // that connections reached, sorted
	Models    []string `json:"models,omitempty"`    // that the replies name, sorted: the provider's word
	Replies   int      `json:"replies"`
}

// EndpointAt is the place that a base URL names, in the one spelling: what is known
// of an endpoint before the first connection to it.
func EndpointAt(base string) (Endpoint, error) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Opaque != "" {
		return Endpoint{}, errors.New("is not a URL with a host")
	}
	e := Endpoint{Scheme: strings.ToLower(u.Scheme), Host: strings.ToLower(strings.TrimSuffix(u.Hostname(), ".")), Path: strings.TrimSuffix(u.EscapedPath(), "/")}
	if addr, err := netip.ParseAddr(e.Host); err == nil {
		e.Host = addr.Unmap().WithZone("").String()
	}
	for _, c := range []byte(e.Host) {
		if !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || strings.IndexByte("._:-", c) >= 0) {
			return Endpoint{}, fmt.Errorf("has the host %.80q, expected letters, digits, dots and dashes; write a name of other letters as its xn-- form", e.Host)
		}
	}
	usual := map[string]string{"https": "443", "http": "80"}[e.Scheme]
	if usual == "" || e.Host == "" || len(e.Host) > 253 {
		return Endpoint{}, fmt.Errorf("has the scheme %.40q and the host %.80q, expected https or http and a host", e.Scheme, e.Host)
	}
	if e.Port, err = strconv.Atoi(cmp.Or(u.Port(), usual)); err != nil || e.Port < 1 || e.Port > 65535 {
		return Endpoint{}, fmt.Errorf("has the port %.20q, expected 1 to 65535", u.Port())
	}
	return e, nil
}

// URL is where the endpoint is.
func (e Endpoint) URL() string {
	host := e.Host
	if strings.Contains(host, ":") { // an address of IPv6
		host = "[" + host + "]"
	}
	return e.Scheme + "://" + host + ":" + strconv.Itoa(e.Port) + e.Path
}

// SamePlace reports whether two endpoints are at the same URL, whatever was seen of
// their connections.
func (e Endpoint) SamePlace(other Endpoint) bool { return e.URL() == other.URL() }

// Text says it for people: where it is, what protects it, and whether it is local.
func (e Endpoint) Text() string {
	text := e.URL()
	switch {
	case e.Leaf == PlainEndpoint:
		text += ", plain"
	case e.Roots == ShippedRoots:
		text += ", tls"
	default:
		text += ", tls by the certificates of a file, " + e.Roots
	}
	if e.Proxy != "" {
		text += ", through the proxy " + e.Proxy
	}
	if e.Local {
		text += ", local"
	}
	return text
}

// Text is [Endpoint.Text] with what came from there.
func (u EndpointUse) Text() string {
	text := u.Endpoint.Text()
	if len(u.Models) > 0 {
		text += ", calls itself " + strings.Join(u.Models, ", ")
	}
	if u.Replies == 1 {
		return text + ", 1 reply"
	}
	return fmt.Sprintf("%s, %d replies", text, u.Replies)
}

// Validate says which rule of endpoints is broken, or nil.
func (e *Endpoint) Validate() error { return e.validate() }

// AddEndpoints adds up what came from where, in the order of the URLs.
func AddEndpoints(lists ...[]EndpointUse) []EndpointUse {
	var all []EndpointUse
	index := map[Endpoint]int{}
	for _, more := range slices.Concat(lists...) {
		place := more.Endpoint
		place.Address = ""
		i, known := index[place]
		if !known {
			i = len(all)
			index[place], all = i, append(all, EndpointUse{Endpoint: place})
		}
		u := &all[i]
		if u.Addresses = append(u.Addresses, more.Addresses...); more.Endpoint.Address != "" {
			u.Addresses = append(u.Addresses, more.Endpoint.Address)
		}
		u.Models, u.Replies = append(u.Models, more.Models...), u.Replies+more.Replies
	}
	for i := range all {
		all[i].Addresses, all[i].Models = distinct(all[i].Addresses), distinct(all[i].Models)
	}
	slices.SortFunc(all, func(a, b EndpointUse) int {
		x, y := a.Endpoint, b.Endpoint
		return cmp.Or(strings.Compare(x.URL(), y.URL()), strings.Compare(x.Leaf, y.Leaf), strings.Compare(x.Chain, y.Chain), strings.Compare(x.Roots, y.Roots),
			strings.Compare(x.Proxy, y.Proxy), strings.Compare(strconv.FormatBool(x.Local), strconv.FormatBool(y.Local)))
	})
	return all
}

// distinct sorts a list and leaves out what is there twice.
func distinct(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}
