//go:build linux

package sandbox

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

const echoPython = `
import json, sys
given = json.load(sys.stdin)
same = given["harness_output"] == given["expected"]
json.dump({"passed": same, "score": 1.0 if same else 0.0, "breakdown": {}, "failure_modes": [], "cost_usd": 0, "duration_seconds": 0}, sys.stdout)
`

const echoStar = `
def score(harness_output, expected, case_metadata):
    same = harness_output == expected
    return {"passed": same, "score": 1.0 if same else 0.0, "breakdown": {}, "failure_modes": [], "cost_usd": 0, "duration_seconds": 0}
`

func TestRunGivesTheRubricItsInputAndReturnsItsAnswer(t *testing.T) {
	eachClass(t, func(t *testing.T, class Class) {
		for name, rubric := range map[string]Rubric{"python": python(echoPython), "starlark": star(echoStar)} {
			t.Run(name, func(t *testing.T) {
				r := run(t, class, rubric, `{"harness_output":[1,2],"expected":[1,2],"case_metadata":{}}`, Limits{})
				t.Logf("%+v", r)
				if r.Verdict != OK || r.ExitCode != 0 {
					t.Fatalf("verdict %s, status %d, stderr %s", r.Verdict, r.ExitCode, r.StderrHead)
				}
				if len(r.Attempted) != 0 {
					t.Errorf("a harmless rubric is said to have attempted %v", r.Attempted)
				}
			})
		}
	})
}

func attemptScope(o *Options) { o.Scope = ScopeAttempt }

func TestScopeAttemptRunsEachJobInAFreshProcess(t *testing.T) {
	// The rubric leaves whatever it can behind and looks for what others left.
	rubric := python(`
import sys, os, json
json.load(sys.stdin)
left = []
try: open("/tmp/left", "w"); left.append("file")
except OSError: pass
import builtins
if hasattr(builtins, "been_here"): left.append("memory")
builtins.been_here = 1
print(json.dumps({"uid": os.getuid(), "pid": os.getpid(), "left": left}))`)
	s := open(t, GVisor, rubric, attemptScope)
	users := map[int]bool{}
	for range 4 {
		r, err := s.Run(context.Background(), Job{Stdin: []byte("{}")})
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			UID  int
			Left []string
		}
		if err := json.Unmarshal(r.Stdout, &got); err != nil {
			t.Fatalf("%v: %s, %s", err, r.Stdout, r.StderrHead)
		}
		if len(got.Left) != 0 || users[got.UID] {
			t.Errorf("left behind: %v; user %d seen before: %v", got.Left, got.UID, users[got.UID])
		}
		users[got.UID] = true
		if want := []Attempt{{What: "file", Detail: `open "/tmp/left" for writing`}}; !slices.Equal(r.Attempted, want) {
			t.Errorf("attempted %v, want %v", r.Attempted, want)
		}
	}
}

func TestScopeAttemptStarlark(t *testing.T) {
	s := open(t, GVisor, star(echoStar), attemptScope)
	for range 3 {
		r, err := s.Run(context.Background(), Job{Stdin: []byte(`{"harness_output":1,"expected":1}`)})
		if err != nil || r.Verdict != OK || !strings.Contains(string(r.Stdout), `"passed":true`) {
			t.Fatalf("%v %+v", err, r)
		}
	}
}

// One job's end, however bad, is not another's.
func TestScopeAttemptKeepsJobsApart(t *testing.T) {
	rubric := python(`
import sys, json, socket
do = json.load(sys.stdin)["harness_output"]
if do == "loop":
    while True: pass
if do == "hoard":
    x = []
    while True: x.append(bytearray(1 << 20))
if do == "flood":
    while True: sys.stdout.write("x" * 100000)
if do == "connect":
    try: socket.create_connection(("127.0.0.1", 9), 1)
    except OSError: pass
if do == "crash":
    import ctypes; ctypes.string_at(0)
print(do)`)
	s := open(t, GVisor, rubric, attemptScope, func(o *Options) { o.Jobs = 3 })
	want := map[string]Verdict{"loop": Timeout, "hoard": OOM, "flood": OutputLimit, "connect": OK, "crash": Killed, "nothing": OK}
	var wg sync.WaitGroup
	for range 2 {
		for do, verdict := range want {
			limits := Limits{Timeout: time.Minute, MemoryBytes: 256 << 20}
			if do == "loop" {
				limits.Timeout = 2 * time.Second
			}
			wg.Go(func() {
				r, err := s.Run(context.Background(), Job{Stdin: []byte(`{"harness_output":"` + do + `"}`), Limits: limits})
				if err != nil {
					t.Errorf("%s: %v", do, err)
					return
				}
				if r.Verdict != verdict {
					t.Errorf("%s: verdict %s (%d), want %s; %s", do, r.Verdict, r.ExitCode, verdict, r.StderrHead)
				}
				if tried := len(r.Attempted) > 0; tried != (do == "connect") {
					t.Errorf("%s: attempted %v", do, r.Attempted)
				}
			})
		}
	}
	wg.Wait()
}

// A user's temporary folder is often closed to all other users, and as root the
// sandbox is another user.
func TestTemporaryFolderBelowAClosedFolder(t *testing.T) {
	closed := filepath.Join(scratch, "closed")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	runs := filepath.Join(closed, "runs")
	eachClass(t, func(t *testing.T, class Class) {
		for _, rubric := range []Rubric{star(echoStar), python(echoPython)} {
			r := run(t, class, rubric, `{"harness_output":1,"expected":1,"case_metadata":{}}`, Limits{}, func(o *Options) { o.TempDir = runs })
			if r.Verdict != OK {
				t.Errorf("%s: %s, stderr %s", rubric.Main, r.Verdict, r.StderrHead)
			}
		}
		if rubricProfile.unfit(class, ScopeAttempt) == "" {
			r := run(t, class, python(echoPython), `{"harness_output":1,"expected":1}`, Limits{}, attemptScope, func(o *Options) { o.TempDir = runs })
			if r.Verdict != OK {
				t.Errorf("scope attempt: %s, stderr %s", r.Verdict, r.StderrHead)
			}
		}
		if agentProfile.unfit(class, ScopeCase) != "" {
			return
		}
		o := agentOptions(class, "sh", "-c", "echo hello > here && cat here")
		o.TempDir = runs
		if r, err := RunAgent(context.Background(), o); err != nil || r.Verdict != OK || string(r.Stdout) != "hello\n" {
			t.Errorf("agent: %v, %s, stdout %q, stderr %s", err, r.Verdict, r.Stdout, r.StderrHead)
		}
	})
}
