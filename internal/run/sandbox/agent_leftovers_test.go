//go:build linux

package sandbox

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"tallystick/internal/run/sandbox/runfolder"
)

// lingering is a program that says so when it runs, with a child that has a
// session of its own, and that leftovers recognises.
const (
	lingeringSleep = "98761"
	lingering      = "setsid sleep " + lingeringSleep + " & touch made; echo ready; sleep " + lingeringSleep
)

func TestNothingIsLeftAfterAnAgent(t *testing.T) {
	eachClass(t, func(t *testing.T, class Class) {
		for _, c := range []struct {
			name, source string
			limits       AgentLimits
			cancel       time.Duration
		}{
			{name: "success", source: "setsid sleep " + lingeringSleep + " & true"},
			{name: "not started", source: ""},
			{name: "timeout", source: lingering, limits: AgentLimits{Timeout: 2 * time.Second}},
			{name: "cancelled", source: lingering, cancel: 2 * time.Second},
			{name: "cancelled while starting", source: lingering, cancel: 40 * time.Millisecond},
		} {
			t.Run(c.name, func(t *testing.T) {
				runs := runsFolder(t)
				o := agentOptions(class, "sh", "-c", c.source)
				if c.source == "" {
					o.Command = []string{"/absent"}
				}
				o.TempDir, o.Limits, o.WorkFolder = runs, c.limits, workFolder(t)
				o.Gateway, _ = echoGateway(t)
				ctx := context.Background()
				if c.cancel > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.cancel)
					defer cancel()
				}
				if _, err := RunAgent(ctx, o); (c.cancel > 0) != errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
				checkClean(t, runs)
				if err := os.RemoveAll(o.WorkFolder); err != nil {
					t.Error(err)
				}
			})
		}
	})
}

func TestNoAgentSurvivesTheHarness(t *testing.T) {
	if os.Getenv(agentVictimVariable) != "" {
		agentVictim(t)
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	eachClass(t, func(t *testing.T, class Class) {
		for _, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGINT} {
			t.Run(signal.String(), func(t *testing.T) {
				runs, work := runsFolder(t), workFolder(t)
				cmd := exec.Command(self, "-test.run=^TestNoAgentSurvivesTheHarness$")
				cmd.Env = append(os.Environ(), agentVictimVariable+"="+string(class)+" "+runs+" "+work, boxVariable+"="+box)
				out, err := cmd.StdoutPipe()
				if err != nil {
					t.Fatal(err)
				}
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { cmd.Process.Kill() })
				if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
					t.Fatalf("it said %q, %v", line, err)
				}
				if left := strings.Join(leftovers(t, runs), "\n"); !strings.Contains(left, "process ") || !strings.Contains(left, "folder ") {
					t.Fatalf("the test would not see a leftover: it sees only %q", left)
				}
				cmd.Process.Signal(signal)
				cmd.Wait()

				base, err := runfolder.Open(runs)
				if err != nil {
					t.Fatal(err)
				}
				base.Sweep()
				checkClean(t, runs)
				if _, err := os.Stat(filepath.Join(work, "made")); err != nil {
					t.Errorf("what the agent had written is lost: %v", err)
				}
			})
		}
	})
}

const agentVictimVariable = "TALLYSTICK_TEST_AGENT_VICTIM"

// agentVictim runs an agent that never ends, for its parent to kill.
func agentVictim(t *testing.T) {
	args := strings.Fields(os.Getenv(agentVictimVariable))
	o := agentOptions(Class(args[0]), "sh", "-c", lingering)
	o.TempDir, o.WorkFolder = args[1], args[2]
	o.OnStdout = func(b []byte) { os.Stdout.Write(b) }
	o.Gateway = NewGateway()
	if _, err := RunAgent(context.Background(), o); err != nil {
		t.Fatal(err)
	}
}
