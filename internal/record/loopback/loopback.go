// Package loopback tells which hosts are this machine, the only ones that may
// be spoken to without TLS, and which addresses are local: not of the internet,
// so that the operator of this machine may be the one who answers there.
package loopback

import (
	"net"
	"net/netip"
	"strings"
)

// Is reports whether a host is this machine by its name alone: a name that has to be
// looked up may lead anywhere.
func Is(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// IsLocalName reports whether a host is local whatever it is looked up as: the name
// localhost with everything below it (RFC 6761), and addresses that are local. Other
// names are local if the address that they led to is.
func IsLocalName(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if addr, err := netip.ParseAddr(host); err == nil {
		return IsLocal(addr)
	}
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// IsLocal reports whether an address is local: loopback, private, link-local, shared
// by a carrier's customers, unique-local, or any other that the registries of IANA
// call not globally reachable. An IPv6 address that carries an IPv4 address is what
// that one is.
func IsLocal(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	if inner, ok := carried(addr); ok {
		return IsLocal(inner)
	}
	for _, p := range global6 {
		if p.Contains(addr) {
			return false
		}
	}
	for _, p := range local {
		if p.Contains(addr) {
			return true
		}
	}
	return !addr.IsValid() || addr.IsMulticast()
}

// local are the blocks that are not globally reachable, from the special-purpose
// address registries of IANA (RFC 6890 and what updates it).
var local = prefixes("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
	"192.0.2.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4",
	"::/8", "64:ff9b:1::/48", "100::/8", "2001::/23", "2001:db8::/32", "3fff::/20", "5f00::/16", "fc00::/7", "fe80::/10", "fec0::/10")

// global6 are blocks inside those of local that are globally reachable.
var global6 = prefixes("2001:1::1/128", "2001:1::2/128", "2001:3::/32", "2001:4:112::/48", "2001:20::/28", "2001:30::/28", "192.0.0.9/32", "192.0.0.10/32")

// carrying are the blocks whose addresses have an IPv4 address in them, and at which
// byte: translated (RFC 6052), 6to4 (RFC 3056), and compatible (RFC 4291).
var carrying = []struct {
	netip.Prefix
	at int
}{
	{netip.MustParsePrefix("64:ff9b::/96"), 12},
	{netip.MustParsePrefix("2002::/16"), 2},
	{netip.MustParsePrefix("::/96"), 12},
}

func carried(addr netip.Addr) (netip.Addr, bool) {
	if !addr.Is6() || addr == netip.IPv6Unspecified() || addr == netip.IPv6Loopback() {
		return netip.Addr{}, false
	}
	for _, c := range carrying {
		if c.Contains(addr) {
			b := addr.As16()
			return netip.AddrFrom4([4]byte(b[c.at : c.at+4])), true
		}
	}
	return netip.Addr{}, false
}

func prefixes(texts ...string) (all []netip.Prefix) {
	for _, t := range texts {
		all = append(all, netip.MustParsePrefix(t))
	}
	return all
}
