//go:build linux

package sandbox

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// A forked rubric is like one that was started: the same names, the same
// streams, none of the zygote's descriptors or rights, and no second process.
func TestForkedRubricIsLikeAStartedOne(t *testing.T) {
	rubric := Rubric{Main: "sub/rubric.py", Files: map[string][]byte{
		"sub/rubric.py": []byte(`
import sys, os, json, helper
given = sys.stdin.read()
def tried(f):
    try: return repr(f())
    except BaseException as e: return type(e).__name__
def fds():
    open_ = []
    for fd in range(256):
        try: os.fstat(fd); open_.append(fd)
        except OSError: pass
    return open_
import __main__
print(json.dumps({"name": __name__, "file": __file__, "argv": sys.argv, "path": sys.path[0], "helper": helper.value, "main": __main__.__dict__ is globals(),
  "given": given, "fds": fds(), "ids": [sorted(set(os.getresuid())) == [os.getuid()], sorted(set(os.getresgid())) == [os.getgid()], os.getgroups()],
  "fork": tried(os.fork), "root": tried(lambda: os.setresuid(0, 0, 0)), "seed": hash("x"), "set": list({"a", "b", "c", "d"}),
  "names": sorted(n for n in globals() if not n.startswith("__")), "kill": tried(lambda: os.getppid() and os.kill(os.getppid(), 9)),
  "parent": tried(lambda: os.listdir("/proc/%d/fd" % os.getppid())), "modes": [sys.flags.dont_write_bytecode, sys.stdin.encoding, sys.stdout.line_buffering]}))
sys.exit(5)
`), "sub/helper.py": []byte("value = 41 + 1")}}
	answer := func(s *Sandbox) map[string]any {
		t.Helper()
		r, err := s.Run(context.Background(), Job{Stdin: []byte("input")})
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]any
		if err := json.Unmarshal(r.Stdout, &got); err != nil || r.ExitCode != 5 {
			t.Fatalf("%v, status %d: %s %s", err, r.ExitCode, r.Stdout, r.StderrHead)
		}
		// These are other ones by right: who is asked is another process.
		delete(got, "parent")
		return got
	}
	started, forked := answer(open(t, GVisor, rubric)), answer(open(t, GVisor, rubric, attemptScope))
	for name := range started {
		if name != "kill" && fmt.Sprint(started[name]) != fmt.Sprint(forked[name]) {
			t.Errorf("%s: %v when started, %v when forked", name, started[name], forked[name])
		}
	}
	if forked["kill"] != "PermissionError" {
		t.Errorf("killing the zygote: %v", forked["kill"])
	}
	if fmt.Sprint(forked["fds"]) != "[0 1 2]" || forked["fork"] != "BlockingIOError" || forked["root"] != "PermissionError" {
		t.Errorf("fds %v, fork %v, root %v", forked["fds"], forked["fork"], forked["root"])
	}
}

// Zygotes come and go; each run is told apart from every other.
func TestForkedRubricsOutliveTheirZygote(t *testing.T) {
	s := open(t, GVisor, python(`
import os, sys
if sys.stdin.read() == "stay":
    import time
    time.sleep(60)
print(os.getuid())`), attemptScope)
	stay := make(chan Result)
	go func() {
		r, err := s.Run(context.Background(), Job{Stdin: []byte("stay"), Limits: Limits{Timeout: 10 * time.Second}})
		if err != nil {
			t.Error(err)
		}
		stay <- r
	}()
	var users []string
	for range 2*zygoteRuns + 1 {
		r, err := s.Run(context.Background(), Job{})
		if err != nil || r.Verdict != OK || len(r.Attempted) != 0 {
			t.Fatalf("%v %+v", err, r)
		}
		users = append(users, strings.TrimSpace(string(r.Stdout)))
	}
	slices.Sort(users)
	if n := len(slices.Compact(slices.Clone(users))); n != 2*zygoteRuns+1 {
		t.Errorf("%d different users in %v", n, users)
	}
	if r := <-stay; r.Verdict != Timeout {
		t.Errorf("the one that stayed: %+v", r)
	}
}

// What a traceback says of a rubric's mistake does not depend on how it was
// started.
func TestForkedRubricsMistakesReadTheSame(t *testing.T) {
	for _, source := range []string{"def f():\n  return 1 / 0\nf()", "x = = 1", "import absent", "raise SystemExit('message')", "import sys; sys.stdout.write('x'); raise KeyError('k')"} {
		started := run(t, GVisor, python(source), "{}", Limits{})
		forked := run(t, GVisor, python(source), "{}", Limits{}, attemptScope)
		if started.StderrHead != forked.StderrHead || started.ExitCode != forked.ExitCode || string(started.Stdout) != string(forked.Stdout) {
			t.Errorf("%q: started %d %q, forked %d %q", source, started.ExitCode, started.StderrHead, forked.ExitCode, forked.StderrHead)
		}
	}
}
