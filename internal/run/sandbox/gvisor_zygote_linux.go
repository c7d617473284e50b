package sandbox

import (
	"bufio"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"tallystick/internal/run/sandbox/calls"
	"tallystick/internal/run/sandbox/runsc"
)

//go:embed zygote.py
var zygotePython []byte

// A zygote is an interpreter in a kept sandbox that forks a process for each
// run: starting Python on gVisor takes far longer than most rubrics. Whatever
// it forks has its own user, none of its rights and none of its descriptors.
//
// It never sees an input: the streams of a run are made before it starts, and
// only the fork reads from them. It is good for zygoteRuns runs, because an
// image need not have sockets over which more could be passed.
type zygote struct {
	control  runsc.Control
	commands *os.File // closing it ends the zygote
	answers  *os.File
	lines    *bufio.Reader
	streams  []*streams
	next     int // the first run that was not given away
	running  int
}

// zygoteRuns fits the limit on descriptors.
const zygoteRuns = 16

// zygotePatience bounds how long a zygote may take to start or to fork.
const zygotePatience = 20 * time.Second

// startZygote starts the interpreter and waits until it is ready.
func startZygote(control runsc.Control, o Options) (z *zygote, err error) {
	z = &zygote{control: control}
	defer func() {
		if err != nil {
			z.close()
		}
	}()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return z, err
	}
	defer null.Close()
	commands, to, err := os.Pipe()
	if err != nil {
		return z, err
	}
	defer commands.Close()
	z.commands = to
	from, answers, err := os.Pipe()
	if err != nil {
		return z, err
	}
	defer answers.Close()
	z.answers, z.lines = from, bufio.NewReader(from)
	files := []*os.File{null, null, null, commands, answers}
	for range zygoteRuns {
		s, err := newStreams()
		if err != nil {
			return z, err
		}
		z.streams = append(z.streams, s)
		files = append(files, s.inR, s.outW, s.errW)
	}
	letIn(commands, answers)

	_, err = control.Start(runsc.Process{
		Command: append(append([]string{}, o.Image.About.Command...), calls.ZygotePath, rubricDir+"/"+o.Rubric.Main, strconv.Itoa(zygoteRuns)),
		Env:     rubricEnv(o), Dir: rubricDir, User: 0, Files: files, SwitchesUser: true,
	})
	for _, s := range z.streams {
		s.closeTheirs()
	}
	if err != nil {
		return z, fmt.Errorf("starting the interpreter: %w", err)
	}
	line, err := z.answer()
	if err == nil && line != "ready" {
		err = fmt.Errorf("the interpreter said %q", line)
	}
	return z, err
}

func (z *zygote) answer() (string, error) {
	z.answers.SetReadDeadline(time.Now().Add(zygotePatience))
	line, err := z.lines.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("waiting for the interpreter: %w", err)
	}
	return strings.TrimSuffix(line, "\n"), nil
}

// take gives the streams of the next run away, or nil when all are used.
func (z *zygote) take() (run int, s *streams) {
	if z.next == len(z.streams) {
		return 0, nil
	}
	run = z.next
	z.next++
	z.running++
	return run, z.streams[run]
}

// fork starts a run's process.
func (z *zygote) fork(run int, user uint32) (pid int32, err error) {
	if _, err := fmt.Fprintf(z.commands, "%d %d\n", run, user); err != nil {
		return 0, fmt.Errorf("asking the interpreter for a process: %w", err)
	}
	line, err := z.answer()
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(line, 10, 32)
	if err != nil || n <= 1 {
		return 0, fmt.Errorf("the interpreter said %q, not the number of a process", line)
	}
	return int32(n), nil
}

// done gives a run back. A zygote must outlive its runs: their parent keeps
// their status until we have it.
func (z *zygote) done() {
	z.running--
	if z.running == 0 && z.next == len(z.streams) {
		z.close()
	}
}

func (z *zygote) close() error {
	var errs []error
	for _, f := range []*os.File{z.commands, z.answers} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	for _, s := range z.streams[z.next:] {
		s.closeOurs()
	}
	z.next = len(z.streams)
	return errors.Join(errs...)
}
