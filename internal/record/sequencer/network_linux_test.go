//go:build amd64 || arm64

package sequencer_test

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/seal"
	"tallystick/internal/share/verify"
)

// networkEnv tells the child of the test below what to do.
const networkEnv = "TALLY_TEST_NETWORK"

// TestVerifyingMakesNoNetworkCall verifies a ledger with its tiles, a receipt
// and an anchor, as tally-verify does, in a process that the kernel kills at
// the first system call that has to do with the network. That the kernel does
// is tested too.
func TestVerifyingMakesNoNetworkCall(t *testing.T) {
	run := func(what string) ([]byte, error) {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(self, "-test.run=^TestNetworkChild$", "-test.v")
		cmd.Env = append(os.Environ(), networkEnv+"="+what)
		return cmd.CombinedOutput()
	}
	if out, err := run("nothing"); err != nil {
		t.Skipf("no system call filter here: %v\n%s", err, out)
	}
	out, err := run("dial")
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGSYS {
		t.Fatalf("a process that uses the network was not killed for it: %v\n%s", err, out)
	}
	out, err = run("verify")
	if err != nil {
		t.Fatalf("verifying without network: %v\n%s", err, out)
	}
	if n := bytes.Count(out, []byte("verified:")); n != 3 {
		t.Errorf("%d of 3 artefacts verified:\n%s", n, out)
	}
}

// TestNetworkChild is the process without a network.
func TestNetworkChild(t *testing.T) {
	what := os.Getenv(networkEnv)
	if what == "" {
		t.Skip("started by TestVerifyingMakesNoNetworkCall")
	}
	if err := forbidNetwork(); err != nil {
		t.Fatal(err)
	}
	switch what {
	case "dial":
		c, err := net.Dial("udp", "127.0.0.1:9")
		t.Fatalf("still alive after %v, %v", c, err)
	case "verify":
		golden := filepath.Join("..", "ledger", "testdata", "1-draft")
		signers, err := os.ReadFile(filepath.Join(golden, "signers"))
		if err != nil {
			t.Fatal(err)
		}
		key, err := seal.NewKey(bytes.NewReader(bytes.Repeat([]byte{1}, ed25519.SeedSize)))
		if err != nil {
			t.Fatal(err)
		}
		pub, _ := key.Public().Ed25519()
		vkey := seal.VKey(pub, "example.com/evals")
		for _, args := range [][]string{
			{"--trust-root", digest.IDOf(signers).String(), golden},
			{"--key", vkey, filepath.Join(golden, "entry-3.receipt")},
			{"--key", vkey, filepath.Join(golden, "2026-05-12.json")},
		} {
			var stdout, stderr bytes.Buffer
			if code := verify.Main(args, &stdout, &stderr); code != 0 {
				t.Errorf("%v: exit %d\n%s%s", args, code, &stdout, &stderr)
				continue
			}
			t.Logf("verified: %s", args[2])
		}
	}
}

// forbidNetwork makes the kernel kill this process, all threads, at every
// system call that could open a way to the network.
func forbidNetwork() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const nrOffset = 0 // of seccomp_data
	filter := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: nrOffset}}
	calls := []uint32{unix.SYS_SOCKET, unix.SYS_SOCKETPAIR, unix.SYS_CONNECT, unix.SYS_BIND, unix.SYS_LISTEN, unix.SYS_ACCEPT4,
		unix.SYS_SENDTO, unix.SYS_SENDMSG, unix.SYS_RECVFROM, unix.SYS_RECVMSG, unix.SYS_IO_URING_SETUP}
	for _, nr := range calls {
		filter = append(filter,
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: nr, Jf: 1},
			unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_KILL_PROCESS})
	}
	filter = append(filter, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW})
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return errno
	}
	return nil
}
