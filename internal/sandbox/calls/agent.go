package calls

import (
	"encoding/binary"
	"net/netip"
	"path"
	"slices"
	"strings"
)

// agentRules say what of an agent's doings is an attempt to get out.
type agentRules struct {
	hidden []string // folders of the host by name
	shown  []string // folders that are there inside; what is below is the agent's own
}

// hides reports whether a file is one that the agent was not given.
func (r *agentRules) hides(full string) bool {
	below := func(dirs []string) bool {
		return slices.ContainsFunc(dirs, func(dir string) bool { return full == dir || strings.HasPrefix(full, dir+"/") })
	}
	return below(r.hidden) && !below(r.shown)
}

// agentFamilies of sockets are ordinary: AF_UNIX, AF_INET, AF_INET6 and
// AF_NETLINK.
var agentFamilies = []int{1, 2, 10, 16}

// dnsPort is where names are asked for, also on one's own loopback.
const dnsPort = 53

// isOwn reports whether an address, as raw sockaddr bytes, is one of the
// sandbox itself.
func (r *agentRules) isOwn(raw []byte) bool {
	if len(raw) < 2 {
		return true
	}
	switch family := binary.NativeEndian.Uint16(raw); {
	case family == 0: // dissolves a connection
		return true
	case family == 1:
		return r.isOwnUnix(raw[2:])
	case family == 2 && len(raw) >= 8:
		return isOwnInternet(netip.AddrFrom4([4]byte(raw[4:8])), binary.BigEndian.Uint16(raw[2:]))
	case family == 10 && len(raw) >= 24:
		return isOwnInternet(netip.AddrFrom16([16]byte(raw[8:24])), binary.BigEndian.Uint16(raw[2:]))
	case family == 16:
		return true
	}
	return false
}

func isOwnInternet(a netip.Addr, port uint16) bool {
	a = a.Unmap()
	// The unspecified address means this host too.
	return (a.IsLoopback() || a.IsUnspecified()) && port != dnsPort
}

// ownSocketFolders are where programs in the sandbox put sockets, and where the
// C library looks for its name service unasked.
var ownSocketFolders = []string{WorkDir, "/tmp", "/var/run/nscd", "/run/nscd"}

func (r *agentRules) isOwnUnix(name []byte) bool {
	if len(name) == 0 || name[0] == 0 {
		return len(name) == 0 // the abstract ones have no owner to tell by
	}
	text, _, _ := strings.Cut(string(name), "\x00")
	text = path.Clean(text)
	return !path.IsAbs(text) || slices.ContainsFunc(ownSocketFolders, func(dir string) bool { return strings.HasPrefix(text, dir+"/") })
}
