package egress

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"tallystick/internal/record/loopback"
)

// A Guard finds the addresses of a host that a connection may be made to.
type Guard struct {
	// Lookup resolves a name.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
}

// LocalAddressError says that a name leads to an address that is not public and not
// listed, so that nothing was sent.
type LocalAddressError struct {
	Host string
	Addr netip.Addr
}

func (e *LocalAddressError) Error() string {
	return fmt.Sprintf("%s resolves to %s, which is not a public address; add addresses: [%q] to its line under egress: if it is meant", e.Host, e.Addr, e.Addr)
}

// Addresses resolves the host of a rule, once: what it gives is dialled, and no name.
// One address that is not permitted refuses them all, so that no answer of a name
// server decides by its order.
func (g *Guard) Addresses(ctx context.Context, r *Rule) ([]netip.Addr, error) {
	if addr, err := netip.ParseAddr(r.Host); err == nil {
		return []netip.Addr{addr}, nil // listed by address
	}
	lookup := g.Lookup
	if lookup == nil {
		lookup = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host+".")
		}
	}
	found, err := lookup(ctx, r.Host)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s has no address", r.Host)
	}
	for i, addr := range found {
		addr = addr.Unmap().WithZone("")
		if loopback.IsLocal(addr) && !slices.Contains(r.Addresses, addr.String()) {
			return nil, &LocalAddressError{r.Host, addr}
		}
		found[i] = addr
	}
	return found, nil
}
