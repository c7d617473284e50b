//go:build linux

package sandbox

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// guestKernelVariable names a kernel file for the guest.
const guestKernelVariable = "TALLYSTICK_TEST_GUEST_KERNEL"

// Everything but the hardware: the archive, the guest's first process, the
// serial line. Emulated, which no real run ever is.
func TestMicroVMGuestRunsRubricsUnderEmulation(t *testing.T) {
	kernel := os.Getenv(guestKernelVariable)
	if kernel == "" {
		t.Skipf("takes minutes; name a kernel file in %s to run it", guestKernelVariable)
	}
	qemu, err := exec.LookPath(qemuNames["amd64"])
	if err != nil {
		t.Skip("QEMU is not installed")
	}
	base, err := openRunBase(filepath.Join(scratch, "runs"))
	if err != nil {
		t.Fatal(err)
	}
	machine := vmMachine{qemu: qemu, kernel: kernel, accel: []string{"-accel", "tcg", "-cpu", "max"}}
	for _, c := range []struct {
		name    string
		rubric  Rubric
		verdict Verdict
		stdout  string
	}{
		{"starlark", star(echoStar), OK, `"passed":true`},
		{"python", python(echoPython), OK, `"passed": true`},
		{"failure", python("import sys; print('x' * 10); sys.exit(3)"), Failed, "xxxxxxxxxx"},
		{"too much output", python("while True: print('x' * 1000)"), OutputLimit, ""},
		{"files of the guest", python("print(open('/stdin').read())"), Failed, ""},
		{"network", python("import socket; s = socket.create_connection(('127.0.0.1', 9), 1)"), Failed, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := Options{Rubric: c.rubric, Executable: box}
			if lang, _ := c.rubric.Language(); lang == Python {
				o.Image = hostImage(t)
			}
			m := &microvmCase{options: o, base: base, machine: machine}
			r, err := m.run(context.Background(), []byte(`{"harness_output":1,"expected":1,"case_metadata":{}}`),
				Limits{Timeout: 4 * time.Minute, MemoryBytes: 512 << 20, OutputBytes: DefaultOutputBytes})
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s, status %d, %v; %s", r.Verdict, r.ExitCode, r.Wall, r.StderrHead)
			if r.Verdict != c.verdict || !strings.Contains(string(r.Stdout), c.stdout) {
				t.Errorf("verdict %s, want %s; stdout %q, stderr %s", r.Verdict, c.verdict, r.Stdout, r.StderrHead)
			}
		})
	}
}
