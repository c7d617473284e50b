package sandbox

import (
	"debug/elf"
	"os"
	"path/filepath"

	"tallystick/internal/record/refusal"
	"tallystick/internal/run/sandbox/firstprocess"
	"tallystick/internal/run/sandbox/runsc"
)

// The names under which this program is started again.
const (
	starlarkName = "tally-sandbox-starlark" // interprets rubric.star; runs inside the sandbox
	pauseName    = "tally-sandbox-pause"    // keeps an attempt's sandbox open; runs inside it
)

// pauseReady is what the pausing process says, and pausePython that process in
// an image's own Python: its limits are the rubric's, in which our program
// does not fit. What loses its parent is its child, and not to be kept as a
// zombie.
const (
	pauseReady  = "ready\n"
	pausePython = "import signal, sys\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\nsys.stdout.write('ready\\n')\nsys.stdout.flush()\nsys.stdin.read()\n"
)

// Reexec turns this process into a part of a sandbox and does not return,
// when it was started as one; otherwise it does nothing. It must be the first
// statement of main: those processes have their own flags, no environment,
// and often no file system.
func Reexec() {
	if os.Args[0] == vmInitPath && os.Getpid() == 1 {
		vmInit()
	}
	switch filepath.Base(os.Args[0]) {
	case starlarkName:
		starlarkMain()
	case pauseName:
		pause()
	case firstprocess.Name:
		firstprocess.Main()
	}
	if runsc.Asked() {
		runsc.Main()
	}
}

// pause says that it runs, and sleeps until it is killed. Reading the pipe
// without a writer ends it as well when the harness is gone.
func pause() {
	var b [1]byte
	os.Stdout.WriteString(pauseReady)
	for {
		if n, err := os.Stdin.Read(b[:]); n == 0 || err != nil {
			os.Exit(0)
		}
	}
}

// resolveExecutable resolves the program that sandboxes are made of and checks that
// it is static: inside a sandbox there is no dynamic linker to start it.
func resolveExecutable(path string) (string, error) {
	if path == "" {
		path = madeOf()
	}
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", refusal.Newf(refusal.Unreadable, "finding the program itself: %w", err)
	}
	if path, err = filepath.Abs(path); err != nil {
		return "", refusal.Newf(refusal.Unreadable, "finding the program itself: %w", err)
	}
	f, err := elf.Open(path)
	if err != nil {
		return "", refusal.Newf(refusal.Unreadable, "reading the program itself: %w", err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return "", refusal.Newf(refusal.SandboxUnavailable, "%s is dynamically linked, a sandbox needs it static", path).
				WithHint("build it with CGO_ENABLED=0")
		}
	}
	return path, nil
}
