package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"tallystick/internal/cli"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"tally":        func() { os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv, nil)) },
		"tally-fleet":  main,
		"fake-workers": fakeWorkers,
	})
}

// TestScripts runs testdata/script/*.txtar against the real programs: "tally" hands
// over to "tally-fleet".
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata/script", RequireExplicitExec: true, RequireUniqueNames: true, Setup: isolate, Condition: condition,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"root": cmdRoot, "static": cmdStatic}})
}

// staticProgram builds the program as it is released, once: a sandbox runs this same
// file again, and for that it must be static.
var staticProgram = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "tally-fleet-static-")
	if err != nil {
		return "", err
	}
	program := filepath.Join(dir, "tally-fleet")
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", program, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building: %w\n%s", err, out)
	}
	return program, nil
})

// condition knows [sandboxed]: an agent can be sandboxed here, and there is time to build
// the program for it.
func condition(name string) (bool, error) {
	if name != "sandboxed" {
		return false, fmt.Errorf("unknown condition %q", name)
	}
	if runtime.GOOS != "linux" || testing.Short() {
		return false, nil
	}
	program, err := staticProgram()
	if err != nil {
		return false, err
	}
	out, err := exec.Command(program, "sandbox", "probe", "--json").Output()
	return err == nil && bytes.Contains(out, []byte(`"class":"gvisor","works":true`)), nil
}

// static sets $STATIC to the released program.
func cmdStatic(ts *testscript.TestScript, neg bool, _ []string) {
	program, err := staticProgram()
	if neg || err != nil {
		ts.Fatalf("static: %v", err)
	}
	ts.Setenv("STATIC", program)
}

// isolate gives a script folders of its own and a free port.
func isolate(env *testscript.Env) error {
	for name, dir := range map[string]string{"HOME": ".home", "XDG_STATE_HOME": ".state"} {
		env.Setenv(name, filepath.Join(env.WorkDir, dir))
		if err := os.Mkdir(filepath.Join(env.WorkDir, dir), 0o700); err != nil {
			return err
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	env.Setenv("FLEET", fmt.Sprint(l.Addr()))
	return l.Close()
}

// root sets $ROOT to the trust root of the workspace in the current folder.
func cmdRoot(ts *testscript.TestScript, neg bool, _ []string) {
	found := regexp.MustCompile(`(?m)^trust_root: (\S+)$`).FindStringSubmatch(ts.ReadFile("tally.yaml"))
	if neg || found == nil {
		ts.Fatalf("tally.yaml has no trust root")
	}
	ts.Setenv("ROOT", found[1])
}
