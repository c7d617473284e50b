// Package scripttest has the commands that scripts of several programs share.
package scripttest

import (
	"errors"
	"os/exec"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// Exit is the command exit CODE COMMAND...: it runs a command and requires that exit
// code, which is the contract with CI. Its output is then there for stdout, stderr
// and cmp.
func Exit(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exit CODE COMMAND...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)

	got := 0
	err = ts.Exec(args[1], args[2:]...)
	var failed *exec.ExitError
	switch {
	case errors.As(err, &failed):
		got = failed.ExitCode()
	case err != nil:
		ts.Fatalf("exit: running %s: %v", args[1], err)
	}
	if got != want {
		ts.Fatalf("exit: %s exited with %d, want %d", strings.Join(args[1:], " "), got, want)
	}
}
