package main

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestUserScripts runs testdata/users/*.txtar: scripts in which a script of a case plays
// its user. It runs in a sandbox, which needs the program as it is released.
func TestUserScripts(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the sandbox needs Linux")
	}
	if testing.Short() {
		t.Skip("builds the whole program")
	}
	tally, err := staticTally()
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/users",
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Condition:           condition,
		Setup: func(env *testscript.Env) error {
			if err := isolate(env); err != nil {
				return err
			}
			env.Setenv("PATH", filepath.Dir(tally)+string(os.PathListSeparator)+env.Getenv("PATH"))
			return nil
		},
		Cmds: scriptCommands(t),
	})
}
