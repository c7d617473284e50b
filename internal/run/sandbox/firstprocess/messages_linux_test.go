package firstprocess

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// sockets are the two ends of a channel.
func sockets(t *testing.T) (ours, theirs int) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { CloseFds(fds[:]) })
	return fds[0], fds[1]
}

func TestMessagesBringTheirDescriptors(t *testing.T) {
	ours, theirs := sockets(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if err := unix.Sendmsg(theirs, append([]byte{SaysReady}, "words"...), unix.UnixRights(int(w.Fd())), nil, 0); err != nil {
		t.Fatal(err)
	}
	kind, text, rights, err := Receive(ours)
	if err != nil || kind != SaysReady || text != "words" || len(rights) != 1 {
		t.Fatalf("got %q %q %v, %v", kind, text, rights, err)
	}
	if flags, err := unix.FcntlInt(uintptr(rights[0]), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("a started program would inherit the descriptor: %v", err)
	}
	unix.Write(rights[0], []byte("x"))
	CloseFds(rights)
	if n, err := r.Read(make([]byte, 2)); n != 1 || err != nil {
		t.Errorf("the descriptor leads elsewhere: %d, %v", n, err)
	}

	if err := unix.Sendmsg(theirs, []byte("order"), unix.UnixRights(int(r.Fd()), int(w.Fd())), nil, 0); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, MaxPlanBytes)
	n, rights, err := ReceiveMany(ours, buf, 8)
	if err != nil || string(buf[:n]) != "order" || len(rights) != 2 {
		t.Errorf("got %q %v, %v", buf[:n], rights, err)
	}
	CloseFds(rights)
}

func TestTheOtherSideIsGone(t *testing.T) {
	ours, theirs := sockets(t)
	unix.Shutdown(theirs, unix.SHUT_RDWR)
	if _, _, _, err := Receive(ours); err == nil {
		t.Error("a message came from a closed socket")
	}
	if _, _, err := ReceiveMany(ours, make([]byte, 16), 1); err == nil {
		t.Error("a message came from a closed socket")
	}
}

func TestProgramsAreFoundAsAShellFindsThem(t *testing.T) {
	empty, full := t.TempDir(), t.TempDir()
	for name, mode := range map[string]os.FileMode{"agent": 0o755, "notes": 0o644} {
		if err := os.WriteFile(full+"/"+name, nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	env := []string{"PATH=" + empty + ":" + full}
	if got, err := findProgram("agent", env); err != nil || got != full+"/agent" {
		t.Errorf("got %q, %v", got, err)
	}
	for _, name := range []string{"notes", "absent"} {
		if got, err := findProgram(name, env); err == nil || !strings.Contains(err.Error(), "no such program") {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
	if got, err := findProgram("./absent", env); err != nil || got != "./absent" {
		t.Errorf("a path was looked for: %q, %v", got, err)
	}
}
