//go:build linux

package sandbox

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"tallystick/internal/record/refusal"
	"tallystick/internal/run/sandbox/image"
	"tallystick/internal/run/sandbox/runfolder"
)

// Where the parent run of the tests leaves things for the run as an ordinary
// user.
const (
	boxVariable   = "TALLYSTICK_TEST_BOX"
	imageVariable = "TALLYSTICK_TEST_IMAGE"
	asUser        = 65534
)

var (
	box     string // a static program that calls Reexec
	scratch string // removed at the end
)

func TestMain(m *testing.M) {
	os.Exit(testMain(m))
}

func testMain(m *testing.M) int {
	var err error
	if scratch, err = os.MkdirTemp("", "tally-test-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer runfolder.RemoveTree(scratch)
	os.Chmod(scratch, 0o755)
	if box = os.Getenv(boxVariable); box == "" {
		box = filepath.Join(scratch, "tallybox")
		build := exec.Command("go", "build", "-ldflags=-s -w", "-o", box, "./testdata/tallybox")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "building tallybox: %v\n%s", err, out)
			return 1
		}
	}
	flag.Parse()
	if os.Getuid() == 0 && flag.Lookup("test.run").Value.String() == "" && flag.Lookup("test.skip").Value.String() == "" {
		go runAsOrdinaryUser()
	}
	return m.Run()
}

// TestAsOrdinaryUser runs every other test again as a user without rights.
func TestAsOrdinaryUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("not root: every test already runs as an ordinary user")
	}
	hostImage(t) // or skips
	out, err := runAsOrdinaryUser()
	if err != nil {
		t.Fatalf("as user %d: %v\n%s", asUser, err, out)
	}
	t.Logf("as user %d:\n%s", asUser, out)
}

// runAsOrdinaryUser runs all tests but this one. In a run of all tests it
// begins with the first of them: most tests wait most of the time.
var runAsOrdinaryUser = sync.OnceValues(func() (out []byte, err error) {
	image, err := loadHostImage()
	if err != nil {
		return nil, err
	}
	home := filepath.Join(scratch, "user")
	if err := os.Mkdir(home, 0o700); err != nil {
		return nil, err
	}
	if err := os.Chown(home, asUser, asUser); err != nil {
		return nil, err
	}
	exe := filepath.Join(scratch, "sandbox.test")
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	// Copied by another process: a test that forks while this one has the file open
	// for writing would keep it busy.
	if out, err := exec.Command("cp", self, exe).CombinedOutput(); err != nil {
		return out, err
	}
	args := []string{"-test.timeout=30m"}
	for _, a := range os.Args[1:] {
		if strings.HasPrefix(a, "-test.v") || strings.HasPrefix(a, "-test.short") {
			args = append(args, a)
		}
	}
	cmd := exec.Command(exe, args...)
	cmd.Dir = home
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + home, boxVariable + "=" + box, imageVariable + "=" + image.Dir}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: asUser, Gid: asUser}}
	return cmd.CombinedOutput()
})

// loadHostImage makes a snapshot of this machine's Python, which unlike the
// pinned image has sockets and ctypes: without them a hostile rubric proves
// nothing.
var loadHostImage = sync.OnceValues(func() (*image.Image, error) {
	if dir := os.Getenv(imageVariable); dir != "" {
		return image.Open(dir)
	}
	python := "/usr/bin/python3"
	if _, err := os.Stat(python); err != nil {
		if python, err = exec.LookPath("python3"); err != nil {
			return nil, err
		}
	}
	return image.SnapshotHost(filepath.Join(scratch, "images"), python)
})

func hostImage(t testing.TB) *image.Image {
	t.Helper()
	image, err := loadHostImage()
	if err != nil {
		t.Skipf("no Python to snapshot: %v", err)
	}
	return image
}

func python(source string) Rubric {
	return Rubric{Main: "rubric.py", Files: map[string][]byte{"rubric.py": []byte(source)}}
}

func star(source string) Rubric {
	return Rubric{Main: "rubric.star", Files: map[string][]byte{"rubric.star": []byte(source)}}
}

// open opens a sandbox of one class, or skips when the class does not work on
// this machine.
func open(t testing.TB, class Class, rubric Rubric, change ...func(*Options)) *Sandbox {
	t.Helper()
	o := Options{Accept: []Class{class}, Rubric: rubric, Executable: box, TempDir: filepath.Join(scratch, "runs")}
	if lang, _ := rubric.Language(); lang == Python {
		o.Image = hostImage(t)
	}
	for _, c := range change {
		c(&o)
	}
	s, err := Open(context.Background(), o)
	if refusal.Is(err, refusal.SandboxUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("closing: %v", err)
		}
	})
	return s
}

// run runs a rubric once in a class.
func run(t testing.TB, class Class, rubric Rubric, stdin string, limits Limits, change ...func(*Options)) Result {
	t.Helper()
	s := open(t, class, rubric, change...)
	if limits.Timeout == 0 {
		limits.Timeout = 30 * time.Second
	}
	r, err := s.Run(context.Background(), Job{Stdin: []byte(stdin), Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// eachClass runs f for every class that works on this machine. Classes that
// do not are named in the log.
func eachClass(t *testing.T, f func(t *testing.T, class Class)) {
	t.Helper()
	statuses, err := Probe(context.Background(), box, filepath.Join(scratch, "runs"))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range statuses {
		t.Run(string(s.Class), func(t *testing.T) {
			if !s.Works {
				t.Skipf("does not work here: %s", s.Reason)
			}
			f(t, s.Class)
		})
	}
}
