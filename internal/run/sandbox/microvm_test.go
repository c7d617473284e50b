//go:build linux

package sandbox

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tallystick/internal/record/evidence"
	"tallystick/internal/run/sandbox/runfolder"
)

// microVMVariable asks for virtual machines by emulation, with the value tcg.
// .ci/conformance.d/microvm sets it.
const microVMVariable = "TALLYSTICK_TEST_MICROVM"

// emulatedMachine is a virtual machine without the hardware: QEMU translates
// the guest's instructions. Who asked for it gets a failure, not a skip, when
// it cannot be made.
func emulatedMachine(t *testing.T) vmMachine {
	t.Helper()
	switch how := os.Getenv(microVMVariable); how {
	case "":
		t.Skipf("takes minutes, and needs QEMU and a kernel file; run .ci/conformance.d/microvm, or set %s=tcg", microVMVariable)
	case "tcg":
	default:
		t.Fatalf("%s is %q, want tcg", microVMVariable, how)
	}
	qemu, err := findQEMU()
	if err != nil {
		t.Fatal(err)
	}
	kernel, err := findKernel()
	if err != nil {
		t.Fatal(err)
	}
	return vmMachine{qemu: qemu, kernel: kernel, accel: []string{"-accel", "tcg", "-cpu", "max"}}
}

// Everything but the hardware: the kernel, the archive, the guest's first
// process, the serial line. Emulated, which no real run ever is.
func TestMicroVMGuestRunsRubricsUnderEmulation(t *testing.T) {
	machine := emulatedMachine(t)
	t.Logf("%s boots %s", machine.qemu, machine.kernel)
	base, err := runfolder.Open(filepath.Join(scratch, "runs"))
	if err != nil {
		t.Fatal(err)
	}
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
		{"memory", python("x = bytearray(4 << 30)"), OOM, ""},
		{"processes", python("import os; os.fork()"), Failed, ""},
		{"network", python("import socket; s = socket.create_connection(('127.0.0.1', 9), 1)"), Failed, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := Options{Rubric: c.rubric, Executable: box}
			if lang, _ := c.rubric.Language(); lang == Python {
				o.Image = hostImage(t)
			}
			began := time.Now()
			vm := &fresh{class: &microVM, options: o, base: base, machine: machine}
			r, err := vm.run(context.Background(), []byte(`{"harness_output":1,"expected":1,"case_metadata":{}}`),
				Limits{Timeout: 4 * time.Minute, MemoryBytes: 512 << 20, OutputBytes: DefaultOutputBytes})
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%s, status %d, %v; %s", r.Verdict, r.ExitCode, time.Since(began).Round(time.Millisecond), r.StderrHead)
			if _, err := evidence.ParseScore(r.Stdout); (err == nil) != (c.verdict == OK) {
				t.Errorf("the score of a rubric that ended with %s: %v", r.Verdict, err)
			}
			if r.Verdict != c.verdict || !strings.Contains(string(r.Stdout), c.stdout) {
				t.Errorf("verdict %s, want %s; stdout %q, stderr %s", r.Verdict, c.verdict, r.Stdout, r.StderrHead)
			}
		})
	}
}
