package chaostest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"tallystick/internal/record/evidence"
)

// ownMounts starts a program that may mount, for itself.
func ownMounts() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
}

const mountDisk = `mount -t tmpfs -o size=128k none "$TMPDIR" && `

// newFullYard has cases with a file that does not fit on the disk of [yard.full].
func newFullYard(t *testing.T, cases int) *yard {
	t.Helper()
	y := newYard(t, 0)
	try := exec.Command("sh", "-c", mountDisk+"true")
	try.SysProcAttr, try.Env = ownMounts(), append(os.Environ(), "TMPDIR="+t.TempDir())
	if out, err := try.CombinedOutput(); err != nil {
		t.Skipf("this machine mounts nothing for this user: %v %s", err, out)
	}
	y.scripted(cases, `,"tools":[{"name":"fs_write","source":"folder"}],"files":{"big.txt":"`+strings.Repeat("x", 300_000)+`"}`)
	return y
}

// full starts a worker whose disk is nearly full.
func (y *yard) full(n int) *process {
	y.Helper()
	disk := y.TempDir()
	p := y.prepare([]string{"XDG_STATE_HOME=" + filepath.Join(disk, "state"), "TMPDIR=" + disk}, "sh", "-c", mountDisk+`exec tally-fleet "$@"`, "sh",
		"fleet", "worker", "--join", "nats://"+y.address, "--trust-root", y.root, "--key", fmt.Sprintf(".tally/keys/worker%d", n), "--jobs", "1")
	p.cmd.SysProcAttr = ownMounts()
	p.begin()
	return p
}

// TestFullDiskOfAWorker: a worker whose disk is full says so, and its cases go
// to another worker.
func TestFullDiskOfAWorker(t *testing.T) {
	y := newFullYard(t, 2)
	c := y.coordinator()
	if said := y.full(1).wait(3); strings.Count(said, "could not be driven here") < 3 || !strings.Contains(said, "3 times in a row it did not bring back") || !strings.Contains(said, "no space left on device") {
		t.Errorf("the worker does not say what is wrong:\n%s", said)
	}
	y.worker(2)
	c.wait(0)
	b := y.read("paid.default.1")
	if len(b.scored) != 2 || b.finished == nil || b.finished.Outcomes[evidence.Passed] != 2 {
		t.Errorf("%d cases are recorded: %+v", len(b.scored), b.finished)
	}
	if lost := b.events["fleet.case.lost"]; len(lost) != 3 || !strings.Contains(lost[0], "no space left on device") {
		t.Errorf("events: %v", b.events)
	}
	if len(b.events["fleet.worker.quarantined"]) != 1 {
		t.Errorf("events: %v", b.events)
	}
	y.run("ledger", "verify", "--strict")
}

// TestCaseThatNoWorkerBringsBackIsUnscored: after five executions that workers
// lost, the case is recorded as unscored, the attempt ends, and the ledger
// verifies.
func TestCaseThatNoWorkerBringsBackIsUnscored(t *testing.T) {
	y := newFullYard(t, 1)
	c := y.coordinator()
	y.full(1).wait(3) // after three
	last := y.full(2)
	c.wait(4)
	last.kill()
	b := y.read("paid.default.1")
	r := b.scored["case-000"]
	if r == nil || r.Outcome != evidence.Unscored || r.Execution != 5 || !strings.Contains(r.Reason, "workers did not bring the case back in 5 executions") {
		t.Errorf("recorded: %+v", r)
	}
	if b.started["case-000"] != 5 || len(b.events["fleet.case.lost"]) != 5 {
		t.Errorf("%d executions; events: %v", b.started["case-000"], b.events)
	}
	y.run("ledger", "verify", "--strict")
	y.run("verify", "--recompute")
}
