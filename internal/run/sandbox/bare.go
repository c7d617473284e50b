package sandbox

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"strings"
	"time"

	"tallystick/internal/record/refusal"
)

// RunBare runs an agent with no isolation at all: it sees and may do what this
// user may. It exists for a person who asks for it by name while writing an
// agent. The result has no class, so no record of it counts.
//
// The paths at which a sandbox shows folders do not exist here; arguments that
// begin with one are rewritten.
func RunBare(ctx context.Context, o AgentOptions) (AgentResult, error) {
	if err := o.settle(); err != nil {
		return AgentResult{}, err
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, o.Limits.Timeout)
	defer cancel()
	args := make([]string, len(o.Command))
	for i, a := range o.Command {
		args[i] = o.bare(a)
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir, cmd.Stdin = o.WorkFolder, o.Stdin
	for _, v := range o.Env {
		name, value, _ := strings.Cut(v, "=")
		cmd.Env = append(cmd.Env, name+"="+o.bare(value))
	}
	stdout, stderr := &capped{limit: o.Limits.OutputBytes, full: cancel}, &capped{limit: o.Limits.OutputBytes, full: cancel}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	// Whatever the program starts ends with it.
	killAll := asGroup(cmd)
	cmd.Cancel, cmd.WaitDelay = killAll, time.Second
	err := cmd.Run()
	if cmd.Process != nil {
		_ = killAll()
	}
	r := AgentResult{Verdict: OK, Wall: time.Since(began), Stdout: stdout.Bytes(), StderrHead: stderr.ends()}
	var exit *exec.ExitError
	switch {
	case stdout.over || stderr.over:
		r.Verdict = OutputLimit
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		r.Verdict = Timeout
	case ctx.Err() != nil:
		return AgentResult{}, context.Cause(ctx)
	case errors.As(err, &exit):
		r.Verdict, r.ExitCode = Failed, exit.ExitCode()
	case err != nil && cmd.Process == nil:
		r.Verdict, r.NotStarted = Failed, err.Error()
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		return AgentResult{}, refusal.Newf(refusal.SandboxFailed, "running %s: %w", args[0], err)
	}
	return r, nil
}

// bare turns a path inside a sandbox into the one on this machine.
func (o *AgentOptions) bare(arg string) string {
	for _, m := range append([]Mount{{Host: o.WorkFolder, Inside: workDir}}, o.ReadOnly...) {
		if m.Inside != "" && (arg == m.Inside || strings.HasPrefix(arg, m.Inside+"/")) {
			return m.Host + arg[len(m.Inside):]
		}
	}
	return arg
}

// A capped buffer takes so many bytes and then asks for an end.
type capped struct {
	bytes.Buffer
	limit int64
	over  bool
	full  func()
}

// ends is the beginning and the end of what was written.
func (c *capped) ends() string {
	all := c.Bytes()
	head := all[:min(len(all), stderrHeadBytes)]
	return ends(head, all[max(len(head), len(all)-stderrTailBytes):], int64(len(all)))
}

func (c *capped) Write(p []byte) (int, error) {
	if room := c.limit - int64(c.Len()); int64(len(p)) > room {
		c.Buffer.Write(p[:room])
		c.over = true
		c.full()
		return len(p), nil
	}
	return c.Buffer.Write(p)
}
