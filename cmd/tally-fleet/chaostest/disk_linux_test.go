package chaostest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestFullDiskOfAWorker: a worker whose disk is full says so, and its cases go to
// somebody else.
func TestFullDiskOfAWorker(t *testing.T) {
	y := newYard(t, 0)
	y.scripted(2, `,"tools":[{"name":"fs_write","source":"folder"}],"files":{"big.txt":"`+strings.Repeat("x", 300_000)+`"}`)
	disk := filepath.Join(t.TempDir(), "disk")
	y.must(os.Mkdir(disk, 0o700))
	inOwnMounts := &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	const mount = `mount -t tmpfs -o size=128k none "$TMPDIR" && `
	try := exec.Command("sh", "-c", mount+"true")
	try.SysProcAttr, try.Env = inOwnMounts, append(os.Environ(), "TMPDIR="+disk)
	if out, err := try.CombinedOutput(); err != nil {
		t.Skipf("this machine mounts nothing for this user: %v %s", err, out)
	}
	c := y.coordinator()
	full := y.prepare([]string{"XDG_STATE_HOME=" + filepath.Join(disk, "state"), "TMPDIR=" + disk}, "sh", "-c", mount+`exec tally-fleet "$@"`, "sh",
		"worker", "--join", "nats://"+y.address, "--trust-root", y.root, "--key", filepath.Join(y.dir, ".tally", "keys", "worker1"), "--jobs", "1")
	full.cmd.SysProcAttr = inOwnMounts
	full.begin()
	if said := full.wait(1); !strings.Contains(said, "no space left on device") {
		t.Errorf("the worker does not say what is wrong:\n%s", said)
	}
	y.worker(2)
	c.wait(0)
	b := y.read("paid.default.1")
	if len(b.scored) != 2 || b.finished == nil {
		t.Errorf("%d cases are recorded", len(b.scored))
	}
	for _, name := range []string{"fleet.case.lost", "fleet.worker.quarantined"} {
		if len(b.events[name]) == 0 {
			t.Errorf("no event %s: %v", name, b.events)
		}
	}
	if lost := b.events["fleet.case.lost"]; len(lost) > 0 && !strings.Contains(lost[0], "no space left on device") {
		t.Errorf("the event does not say why: %s", lost[0])
	}
	y.run("ledger", "verify", "--strict")
}
