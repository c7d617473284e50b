package loopback

import "testing"

func TestOnlyThisMachineIsLoopback(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "127.0.0.1": true, "127.9.9.9": true, "::1": true, "::ffff:127.0.0.1": true,
		"": false, "localhost.example": false, "LOCALHOST": false, "0.0.0.0": false, "::": false, "10.0.0.1": false, "127.0.0.1.example": false, "127.1": false,
	} {
		if Is(host) != want {
			t.Errorf("%q is this machine: %v, want %v", host, !want, want)
		}
	}
}
