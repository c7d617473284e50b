package operate

import (
	"net"
	"os"

	"golang.org/x/sys/unix"

	"tallystick/internal/record/refusal"
)

// checkPeer refuses a process whose user is neither the server's nor root.
func checkPeer(conn net.Conn) error {
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return err
	}
	var peer *unix.Ucred
	var asked error
	if err := raw.Control(func(fd uintptr) { peer, asked = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return err
	}
	if asked != nil {
		return asked
	}
	if peer.Uid != 0 && int(peer.Uid) != os.Geteuid() {
		return refusal.Newf(refusal.TokenRefused, "user %d is not the operator of this registry", peer.Uid)
	}
	return nil
}
