//go:build linux

package sandbox

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tallystick/internal/run/sandbox/cgroup"
	"tallystick/internal/run/sandbox/firstprocess"
	"tallystick/internal/run/sandbox/proc"
	"tallystick/internal/run/sandbox/runfolder"
)

// What a sandbox may leave on a machine: processes of our program, mounts and
// folders below the folder for runs, cgroups.
func leftovers(t *testing.T, runs string) []string {
	t.Helper()
	var left []string
	entries, _ := os.ReadDir(runs)
	for _, e := range entries {
		left = append(left, "folder "+e.Name())
	}
	proc.EachLine("/proc/self/mountinfo", func(line string) {
		if strings.Contains(line, runs) {
			left = append(left, "mount "+line)
		}
	})
	procs, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, p := range procs {
		if !proc.Gone(pidOf(p)) && ofThisTest(p, runs) {
			b, _ := os.ReadFile(filepath.Join(filepath.Dir(p), "cmdline"))
			left = append(left, "process "+strings.ReplaceAll(string(b), "\x00", " "))
		}
	}
	own, err := cgroup.Own()
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range own {
		found, _ := filepath.Glob(filepath.Join(dir, cgroup.Prefix(runs)+"*"))
		left = append(left, found...)
	}
	return left
}

func pidOf(procFile string) int {
	n, _ := strconv.Atoi(strings.Split(procFile, "/")[2])
	return n
}

// ofThisTest recognises a sandbox's processes. gVisor's are our program and
// name their folder. In the namespace class it is our program without
// arguments, and then the interpreter with the rubric's path, or beside it the
// agent.
func ofThisTest(procFile, runs string) bool {
	// The same tests run as another user at the same time.
	var st unix.Stat_t
	if uid, _ := runfolder.HostID(); unix.Stat(filepath.Dir(procFile), &st) != nil || int(st.Uid) != uid && int(st.Uid) != os.Getuid() {
		return false
	}
	b, _ := os.ReadFile(filepath.Join(filepath.Dir(procFile), "cmdline"))
	cmdline := string(b)
	exe, _ := os.Readlink(procFile)
	switch {
	case strings.Contains(cmdline, "\x00"+rubricDir+"/rubric.py\x00"), strings.Contains(cmdline, "sleep\x00"+lingeringSleep+"\x00"):
		return true
	case exe != box:
		return false
	}
	ours := runs
	if runfolder.NeedsPrivateMounts() {
		ours = "=" + runfolder.PrivatePlace + "/" + stateDir
	}
	return strings.Contains(cmdline, ours) || strings.HasPrefix(cmdline, firstprocess.Name)
}

// checkClean waits: a killed process is taken apart by the kernel in its own
// time.
func checkClean(t *testing.T, runs string) {
	t.Helper()
	var left []string
	for range 500 {
		if left = leftovers(t, runs); len(left) == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("left behind:\n%s", strings.Join(left, "\n"))
}

// runsFolder is a folder for runs that only this test uses.
func runsFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(scratch, "r")
	if err != nil {
		t.Fatal(err)
	}
	os.Chmod(dir, 0o711)
	return dir
}

func TestNothingIsLeftAfterAnyEnding(t *testing.T) {
	eachClass(t, func(t *testing.T, class Class) {
		for _, c := range []struct {
			name, source string
			limits       Limits
			cancel       time.Duration
		}{
			{name: "success", source: `print("{}")`},
			{name: "failure", source: `raise SystemExit(3)`},
			{name: "crash", source: `import ctypes; ctypes.string_at(0)`},
			{name: "timeout", source: `while True: pass`, limits: Limits{Timeout: 1500 * time.Millisecond}},
			{name: "out of memory", source: `x = bytearray(4 << 30)`},
			{name: "too much output", source: `while True: print("x" * 1000)`},
			{name: "cancelled", source: `while True: pass`, cancel: 1500 * time.Millisecond},
			{name: "cancelled while starting", source: `while True: pass`, cancel: 30 * time.Millisecond},
		} {
			for _, scope := range []Scope{ScopeCase, ScopeAttempt} {
				if scope == ScopeAttempt && class != GVisor {
					continue
				}
				t.Run(c.name+" in scope "+string(scope), func(t *testing.T) {
					runs := runsFolder(t)
					s, err := Open(context.Background(), Options{Accept: []Class{class}, Scope: scope, Rubric: python(c.source),
						Image: hostImage(t), Executable: box, TempDir: runs})
					if err != nil {
						t.Fatal(err)
					}
					ctx := context.Background()
					if c.cancel > 0 {
						var cancel context.CancelFunc
						ctx, cancel = context.WithTimeout(ctx, c.cancel)
						defer cancel()
					}
					_, err = s.Run(ctx, Job{Limits: c.limits})
					if c.cancel > 0 && !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("cancelled, but %v", err)
					}
					if err := s.Close(); err != nil {
						t.Error(err)
					}
					checkClean(t, runs)
				})
			}
		}
	})
}

// The harness can be killed at any moment. Its sandboxes die with it, and the
// next one removes what it left on disk.
func TestNothingSurvivesTheHarness(t *testing.T) {
	if os.Getenv("TALLYSTICK_TEST_VICTIM") != "" {
		victim(t)
		return
	}
	image := hostImage(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	eachClass(t, func(t *testing.T, class Class) {
		for _, scope := range []Scope{ScopeCase, ScopeAttempt} {
			if scope == ScopeAttempt && class != GVisor {
				continue
			}
			for _, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGINT} {
				t.Run(signal.String()+" in scope "+string(scope), func(t *testing.T) {
					runs := runsFolder(t)
					cmd := exec.Command(self, "-test.run=^TestNothingSurvivesTheHarness$")
					cmd.Env = append(os.Environ(), "TALLYSTICK_TEST_VICTIM="+string(class)+" "+string(scope)+" "+runs,
						boxVariable+"="+box, imageVariable+"="+image.Dir)
					out, err := cmd.StdoutPipe()
					if err != nil {
						t.Fatal(err)
					}
					if err := cmd.Start(); err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { cmd.Process.Kill() })
					// Wait until the rubric, which never ends, is under way.
					waitForProcess(t, runs)
					cmd.Process.Signal(signal)
					cmd.Wait()
					out.Close()

					base, err := runfolder.Open(runs)
					if err != nil {
						t.Fatal(err)
					}
					base.Sweep()
					checkClean(t, runs)
				})
			}
		}
	})
}

// victim runs a rubric that never ends, for its parent to kill.
func victim(t *testing.T) {
	args := strings.Fields(os.Getenv("TALLYSTICK_TEST_VICTIM"))
	s, err := Open(context.Background(), Options{Accept: []Class{Class(args[0])}, Scope: Scope(args[1]), TempDir: args[2],
		Rubric: python("while True: pass"), Image: hostImage(t), Executable: box})
	if err != nil {
		t.Fatal(err)
	}
	s.Run(context.Background(), Job{})
}

// waitForProcess returns once one look at the machine shows both a process and
// a folder, so that the test is known to see leftovers. A process that is just
// becoming the interpreter is not recognised for a moment, hence the loop.
func waitForProcess(t *testing.T, runs string) {
	t.Helper()
	for range 3000 {
		folders, _ := filepath.Glob(filepath.Join(runs, "r*", "rubric", "rubric.py"))
		left := strings.Join(leftovers(t, runs), "\n")
		if len(folders) > 0 && strings.Contains(left, "process ") && strings.Contains(left, "folder ") {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("the rubric was never started")
}
