//go:build !linux

package operate

import "net"

// checkPeer relies on the mode of the folder: who is at the other end is asked in
// another way on every system.
func checkPeer(net.Conn) error { return nil }
