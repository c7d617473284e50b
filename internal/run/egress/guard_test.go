package egress

import (
	"context"
	"errors"
	"net/netip"
	"testing"
)

// A name leads to public addresses only, unless its line lists others; one that does not
// is enough to refuse them all.
func TestAddressesThatANameMayLeadTo(t *testing.T) {
	for _, tt := range []struct {
		found  []string
		listed []string
		ok     bool
	}{
		{[]string{"93.184.216.34"}, nil, true},
		{[]string{"93.184.216.34", "2606:2800:220:1::1"}, nil, true},
		{[]string{"127.0.0.1"}, nil, false},
		{[]string{"93.184.216.34", "127.0.0.1"}, nil, false},
		{[]string{"10.1.2.3"}, nil, false},
		{[]string{"172.16.0.1"}, nil, false},
		{[]string{"192.168.0.1"}, nil, false},
		{[]string{"169.254.169.254"}, nil, false},
		{[]string{"100.64.0.1"}, nil, false},
		{[]string{"224.0.0.1"}, nil, false},
		{[]string{"0.0.0.0"}, nil, false},
		{[]string{"255.255.255.255"}, nil, false},
		{[]string{"::"}, nil, false},
		{[]string{"::1"}, nil, false},
		{[]string{"fe80::1%eth0"}, nil, false},
		{[]string{"fd00::1"}, nil, false},
		{[]string{"ff02::1"}, nil, false},
		{[]string{"::ffff:127.0.0.1"}, nil, false},
		{[]string{"::ffff:10.0.0.1"}, nil, false},
		{[]string{"64:ff9b::7f00:1"}, nil, false},
		{[]string{"64:ff9b::a9fe:a9fe"}, nil, false},
		{[]string{"2002:7f00:1::1"}, nil, false},
		{[]string{"::127.0.0.1"}, nil, false},
		{[]string{"10.1.2.3"}, []string{"10.1.2.3"}, true},
		{[]string{"::ffff:10.1.2.3"}, []string{"10.1.2.3"}, true},
		{[]string{"10.1.2.4"}, []string{"10.1.2.3"}, false},
		{[]string{"10.1.2.3", "10.1.2.4"}, []string{"10.1.2.3"}, false},
		{nil, nil, false},
	} {
		g := Guard{Lookup: func(context.Context, string) ([]netip.Addr, error) {
			var all []netip.Addr
			for _, text := range tt.found {
				all = append(all, netip.MustParseAddr(text))
			}
			return all, nil
		}}
		addrs, err := g.Addresses(context.Background(), &Rule{Host: "api.example.com", Addresses: tt.listed})
		if (err == nil) != tt.ok || tt.ok && len(addrs) != len(tt.found) {
			t.Errorf("%v with %v listed: %v, %v", tt.found, tt.listed, addrs, err)
		}
		var local *LocalAddressError
		if !tt.ok && tt.found != nil && !errors.As(err, &local) {
			t.Errorf("%v: %v is not said to be local", tt.found, err)
		}
	}
	// A host that is listed by its address is not looked up.
	g := Guard{Lookup: func(context.Context, string) ([]netip.Addr, error) { t.Error("it was looked up"); return nil, nil }}
	if addrs, err := g.Addresses(context.Background(), &Rule{Host: "127.0.0.1"}); err != nil || len(addrs) != 1 {
		t.Errorf("%v, %v", addrs, err)
	}
}
