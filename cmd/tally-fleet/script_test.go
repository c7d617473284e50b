package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"tallystick/internal/cli"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"tally":       func() { os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv, nil)) },
		"tally-fleet": main,
	})
}

// TestScripts runs testdata/script/*.txtar against the real programs: "tally" hands
// over to "tally-fleet".
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata/script", RequireExplicitExec: true, RequireUniqueNames: true, Setup: isolate,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"root": cmdRoot}})
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
