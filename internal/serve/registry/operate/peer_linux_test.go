package operate

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestAnotherUserIsRefused opens the folder and the socket to everybody, so that only
// the question who is at the other end is left.
func TestAnotherUserIsRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	o, agent := made(t)
	serve(t, o)
	socket := filepath.Join(o.Dir, SocketName)
	for path, mode := range map[string]os.FileMode{filepath.Dir(o.Dir): 0o755, o.Dir: 0o755, socket: 0o777} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	said := make(chan string)
	go func() {
		// The user belongs to the thread, which ends with this goroutine because it is
		// never unlocked.
		runtime.LockOSThread()
		said <- askAs(65534, socket, `{"action":"admit","agents":["`+agent+`"],"person":"mallory"}`)
	}()
	if got := <-said; !strings.Contains(got, "user 65534 is not the operator") {
		t.Errorf("got %q", got)
	}
}

func askAs(uid int, socket, line string) string {
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)); errno != 0 {
		return errno.Error()
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return err.Error()
	}
	defer unix.Close(fd)
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: socket}); err != nil {
		return err.Error()
	}
	if _, err := unix.Write(fd, []byte(line+"\n")); err != nil {
		return err.Error()
	}
	answer := make([]byte, 4096)
	n, err := unix.Read(fd, answer)
	if err != nil {
		return err.Error()
	}
	return string(answer[:n])
}
