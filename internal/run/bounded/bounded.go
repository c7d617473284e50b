// Package bounded does work that may take long in a process of its own: this program,
// started again, under limits of memory, processor time and files that the kernel keeps.
// Whatever the work does, it takes only that process down, and ending the context ends it.
//
// A [Work] is registered when the program starts, by the package whose work it is: the
// queries of package sqlresult, large expressions, large searches with patterns. What it
// is given and what it answers are bytes. On systems other than Linux the kernel's limits
// are missing; the clock is kept everywhere.
package bounded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"
)

// childVariable names the work in the environment of the process that does it.
const childVariable = "TALLYSTICK_BOUNDED_WORK"

// Bounds of the process. It has a clock of its own; the parent's is for one that no
// longer looks at it.
const (
	startTime = time.Minute      // until the work is ready
	workTime  = 30 * time.Second // from then on
	maxInput  = 256 << 20
	maxAnswer = 8 << 20
	maxErrors = 64 << 10
	maxData   = 1 << 30 // bytes of memory that it may write to
	maxCPU    = 30      // seconds, of all its threads
	maxFiles  = 32
)

// readyLine is said when what comes next is the doing of whoever gave the input.
const readyLine = "ready\n"

// A Work answers one input. It calls ready when everything of our own is prepared: what
// goes wrong after that is the input's fault. It is called once in its process.
type Work func(input []byte, ready func()) (answer []byte)

var works = map[string]Work{}

// Register gives a work its name. It is called while packages are initialised.
func Register(name string, w Work) {
	if works[name] != nil {
		panic("two works are called " + name)
	}
	works[name] = w
}

// restartable says that this program is one that [Reexec] can be asked to work: starting
// any other again would do whatever that program does.
var restartable atomic.Bool

// Reexec is called first of all by every program that has work done. In the process
// that does it, it does not return.
func Reexec() {
	name := os.Getenv(childVariable)
	if name == "" {
		restartable.Store(true)
		return
	}
	os.Exit(child(name, os.Stdin, os.Stdout))
}

// Available reports whether this program can start itself again.
func Available() bool { return restartable.Load() }

func child(name string, in io.Reader, out io.Writer) int {
	debug.SetMemoryLimit(maxData / 2)
	work, ok := works[name]
	if !ok {
		fmt.Fprintf(os.Stderr, "no work is called %q\n", name)
		return 1
	}
	if err := limit(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	input, err := io.ReadAll(io.LimitReader(in, maxInput))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	answer := work(input, func() { io.WriteString(out, readyLine) })
	if _, err := out.Write(answer); err != nil {
		return 1
	}
	return 0
}

// An Ended says that the process ended without an answer.
type Ended struct {
	Ready bool // and so by its input
	Why   string
}

func (e *Ended) Error() string { return e.Why }

// Do has the work done and gives its answer. An [*Ended] says that its process ended
// before there was one. If the context ended, the error is its cause.
func Do(ctx context.Context, name string, input []byte) ([]byte, error) {
	if !Available() {
		return nil, errors.New("this program cannot start itself again to work in a process of its own")
	}
	if len(input) > maxInput {
		return nil, fmt.Errorf("what the process is given has %d bytes, expected at most %d", len(input), maxInput)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program, to start it again: %w", err)
	}
	limited, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := exec.CommandContext(limited, self)
	cmd.Args = []string{os.Args[0]} // a program may go by its name
	cmd.Env, cmd.Dir, cmd.Stdin = []string{childVariable + "=" + name}, os.TempDir(), bytes.NewReader(input)
	said := &conversation{clock: time.AfterFunc(startTime, cancel), answer: lines{most: maxAnswer}, stderr: lines{most: maxErrors}}
	defer said.clock.Stop()
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = said, &said.stderr, time.Second
	err = cmd.Run()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx) // the caller stopped us, not the work
	}
	if answer, ready := said.parts(); err == nil && len(answer) > 0 && said.answer.Len() < maxAnswer {
		return answer, nil
	} else {
		return nil, &Ended{ready, said.how(err)}
	}
}

// A conversation is what the process said.
type conversation struct {
	answer, stderr lines
	clock          *time.Timer
	ready          bool
}

// Write takes what the process says. Once it is ready it has so much time for the work.
func (c *conversation) Write(p []byte) (int, error) {
	n, err := c.answer.Write(p)
	if !c.ready && bytes.HasPrefix(c.answer.Bytes(), []byte(readyLine)) {
		c.ready = true
		c.clock.Reset(workTime)
	}
	return n, err
}

func (c *conversation) parts() (answer []byte, ready bool) {
	return bytes.CutPrefix(c.answer.Bytes(), []byte(readyLine))
}

func (c *conversation) how(ended error) string {
	why := "it gave no answer"
	if ended != nil {
		why = ended.Error()
	}
	if first, _, _ := strings.Cut(strings.TrimSpace(c.stderr.String()), "\n"); first != "" {
		why += ": " + Short(strings.ToValidUTF8(first, ""))
	}
	return why
}

// Short keeps a text within what fits into an answer many times.
func Short(text string) string {
	const most = 8 << 10
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// lines is a buffer that takes so much and no more.
type lines struct {
	bytes.Buffer
	most int
}

func (l *lines) Write(p []byte) (int, error) {
	if room := l.most - l.Len(); room > 0 {
		l.Buffer.Write(p[:min(len(p), room)])
	}
	return len(p), nil
}
