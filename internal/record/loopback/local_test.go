package loopback

import (
	"net/netip"
	"testing"
)

func TestWhatIsNotOfTheInternetIsLocal(t *testing.T) {
	for text, want := range map[string]bool{
		"127.0.0.1": true, "127.255.255.254": true, "::1": true, "0.0.0.0": true, "::": true, "0.1.2.3": true,
		"10.1.2.3": true, "172.16.0.1": true, "172.31.255.255": true, "192.168.1.1": true, "169.254.169.254": true,
		"100.64.0.1": true, "100.127.255.255": true, "198.18.0.1": true, "203.0.113.9": true, "255.255.255.255": true, "224.0.0.1": true,
		"fe80::1": true, "fe80::1%eth0": true, "fc00::1": true, "fd12:3456::1": true, "fec0::1": true, "ff02::1": true, "2001:db8::1": true,
		"::ffff:127.0.0.1": true, "::ffff:10.0.0.1": true, "::ffff:7f00:1": true, "64:ff9b::7f00:1": true, "64:ff9b::a00:1": true, "64:ff9b:1::1": true,
		"2002:7f00:1::1": true, "2002:c0a8:101::1": true, "::7f00:1": true,

		"8.8.8.8": false, "100.63.255.255": false, "100.128.0.1": false, "172.15.0.1": false, "172.32.0.1": false, "192.169.0.1": false,
		"2606:4700::1": false, "2001:4860:4860::8888": false, "::ffff:8.8.8.8": false, "64:ff9b::808:808": false, "2002:808:808::1": false,
	} {
		if addr := netip.MustParseAddr(text); IsLocal(addr) != want {
			t.Errorf("%s is local: %v, want %v", text, !want, want)
		}
	}
	if !IsLocal(netip.Addr{}) {
		t.Error("no address at all is not local")
	}
}

func TestNamesThatAreLocalByThemselves(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "localhost.": true, "LOCALHOST": true, "LocalHost.": true, "api.localhost": true, "127.0.0.1": true, "::1": true, "10.0.0.1": true,
		"::ffff:127.0.0.1": true, "fd00::1": true,
		"localhost.example": false, "notlocalhost": false, "api.openai.com": false, "8.8.8.8": false, "": false,
	} {
		if IsLocalName(host) != want {
			t.Errorf("%q is local by its name: %v, want %v", host, !want, want)
		}
	}
}
