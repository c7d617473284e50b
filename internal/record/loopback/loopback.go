// Package loopback tells which hosts are this machine, the only ones that may be
// spoken to without TLS.
package loopback

import "net"

// Is reports whether a host is this machine by its name alone: a name that has to be
// looked up may lead anywhere.
func Is(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
