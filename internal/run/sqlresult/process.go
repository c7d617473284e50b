package sqlresult

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
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

// childVariable is set in the environment of the process that runs queries, and of no
// other.
const childVariable = "TALLYSTICK_SQL_CHILD"

// environment is all that the process is given of one.
var environment = []string{childVariable + "=1"}

// Bounds of the process. It has a clock of its own; the parent's is for one that no
// longer looks at it.
const (
	startTime    = time.Minute // to load the fixture and run the expected query
	graceTime    = 20 * time.Second
	maxInput     = 64 << 20
	maxAnswer    = 64 << 10
	processData  = 1 << 30 // bytes of memory that it may write to
	processCPU   = 30      // seconds, of all its threads
	processFiles = 32
)

// readyLine is said before the agent's query runs: what happens from then on is the
// agent's doing.
const readyLine = "ready\n"

type job struct {
	Query string
	Spec  Spec
}

type answer struct {
	Wrong string // the agent's fault
	Error string // ours
}

// restartable says that this program is one that [Reexec] can be asked to run queries:
// starting any other again would do whatever that program does.
var restartable atomic.Bool

// Reexec is called first of all by every program that compares results. In the process
// that runs queries it does not return.
func Reexec() {
	if os.Getenv(childVariable) == "" {
		restartable.Store(true)
		return
	}
	os.Exit(child(os.Stdin, os.Stdout))
}

// child runs one job.
func child(in io.Reader, out io.Writer) int {
	debug.SetMemoryLimit(processData / 2)
	if err := bound(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var j job
	if err := json.NewDecoder(io.LimitReader(in, maxInput)).Decode(&j); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var a answer
	err := compareHere(context.Background(), j.Spec, j.Query, func() { io.WriteString(out, readyLine) })
	var wrong *Wrong
	switch {
	case errors.As(err, &wrong):
		a.Wrong = short(wrong.Why)
	case err != nil:
		a.Error = short(err.Error())
	}
	if json.NewEncoder(out).Encode(a) != nil {
		return 1
	}
	return 0
}

// short keeps an answer within what the parent reads.
func short(text string) string {
	const most = 8 << 10
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// Compare returns nil if the query gives what the expected one gives, a [*Wrong] if
// it does not, and any other error if the comparison itself failed.
func Compare(ctx context.Context, s Spec, query string) error {
	if !restartable.Load() {
		return errors.New("this program cannot start itself again to run a query")
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program, to run the query in a process of its own: %w", err)
	}
	input, err := json.Marshal(job{query, s})
	if err != nil {
		return err
	}
	if len(input) > maxInput {
		return fmt.Errorf("fixture and queries have %d bytes, expected at most %d", len(input), maxInput)
	}
	limited, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := exec.CommandContext(limited, self)
	cmd.Args = []string{os.Args[0]} // a program may go by its name
	cmd.Env, cmd.Dir, cmd.Stdin = environment, os.TempDir(), bytes.NewReader(input)
	said := &conversation{started: time.AfterFunc(startTime, cancel)}
	defer said.started.Stop()
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = said, &said.stderr, time.Second
	err = cmd.Run()
	if ctx.Err() != nil {
		return context.Cause(ctx) // the caller stopped us, not the query
	}
	return said.verdict(err)
}

// A conversation is what the process said.
type conversation struct {
	text, stderr lines
	started      *time.Timer
	ready        bool
}

// Write takes what the process says. Once it is ready it has so much time for the query.
func (c *conversation) Write(p []byte) (int, error) {
	n, err := c.text.Write(p)
	if !c.ready && bytes.HasPrefix(c.text.Bytes(), []byte(readyLine)) {
		c.ready = true
		c.started.Reset(maxTime + graceTime)
	}
	return n, err
}

// verdict is what came of it. A process that ended without an answer ended by the
// query, if it was running it.
func (c *conversation) verdict(ended error) error {
	text := c.text.Bytes()
	if c.ready {
		text = text[len(readyLine):]
	}
	var a answer
	dec := json.NewDecoder(bufio.NewReader(bytes.NewReader(text)))
	dec.DisallowUnknownFields()
	switch err := dec.Decode(&a); {
	case ended == nil && err == nil && a.Wrong != "":
		return &Wrong{a.Wrong}
	case ended == nil && err == nil && a.Error != "":
		return errors.New(a.Error)
	case ended == nil && err == nil && c.ready:
		return nil
	case c.ready:
		return &Wrong{fmt.Sprintf("the query ended the process that ran it: %s", c.how(ended))}
	}
	return fmt.Errorf("the process that runs queries ended before the agent's: %s", c.how(ended))
}

func (c *conversation) how(ended error) string {
	why := "it gave no answer"
	if ended != nil {
		why = ended.Error()
	}
	if first, _, _ := strings.Cut(strings.TrimSpace(c.stderr.String()), "\n"); first != "" {
		why += ": " + short(strings.ToValidUTF8(first, ""))
	}
	return why
}

// lines is a buffer that takes so much and no more.
type lines struct{ bytes.Buffer }

func (l *lines) Write(p []byte) (int, error) {
	if room := maxAnswer - l.Len(); room > 0 {
		l.Buffer.Write(p[:min(len(p), room)])
	}
	return len(p), nil
}
