package provider

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// closeWait is how long a server has to end by itself after its input ended.
const closeWait = 2 * time.Second

// A commandWire speaks with a program over its standard input and output, one
// message a line (MCP, stdio transport).
type commandWire struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser

	lines  chan []byte
	broken error // why lines ended; set before it is closed
	errors *tail
	ended  chan struct{} // closed when the program is gone
	closed sync.Once
}

// inherited are the variables that a server gets from our own environment, so
// that programs and their files are found. No key is among them.
var inherited = []string{"PATH", "HOME", "USER", "LANG", "LC_ALL", "TMPDIR", "TEMP", "SYSTEMROOT", "SSL_CERT_FILE", "SSL_CERT_DIR"}

func startCommand(s Server, a *Access, dir string) (connection, error) {
	cmd := exec.Command(s.Command[0], s.Command[1:]...)
	cmd.Dir = dir
	cmd.Env = []string{}
	for _, name := range inherited {
		if value, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	for name, value := range s.Env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	for _, name := range s.Secrets {
		key, err := a.key("mcp", name, "")
		if err != nil {
			return nil, err
		}
		cmd.Env = append(cmd.Env, name+"="+key)
	}
	inOwnGroup(cmd)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	w := &commandWire{cmd: cmd, stdin: stdin, lines: make(chan []byte, 16), errors: &tail{}, ended: make(chan struct{})}
	cmd.Stderr = w.errors
	// A grandchild that keeps standard error open must not keep us.
	cmd.WaitDelay = closeWait
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", s.Command[0], err)
	}
	go w.read(stdout)
	return w, nil
}

// read takes in lines until the program closes its output, then waits for it.
func (w *commandWire) read(stdout io.Reader) {
	lines := bufio.NewScanner(stdout)
	lines.Buffer(make([]byte, 64<<10), maxMessageBytes)
	for lines.Scan() {
		if line := bytes.TrimSpace(lines.Bytes()); len(line) > 0 {
			w.lines <- bytes.Clone(line)
		}
	}
	w.broken = lines.Err()
	if w.broken == nil {
		w.broken = errors.New("the program closed its output")
	}
	io.Copy(io.Discard, stdout)
	if err := w.cmd.Wait(); err != nil {
		w.broken = fmt.Errorf("%w (%v)", w.broken, err)
	}
	if said := w.errors.String(); said != "" {
		w.broken = fmt.Errorf("%w; it wrote: %s", w.broken, said)
	}
	close(w.ended)
	close(w.lines)
}

func (w *commandWire) send(ctx context.Context, message []byte) error {
	// A program that does not read would block the write for ever.
	done := make(chan error, 1)
	go func() {
		_, err := w.stdin.Write(append(message, '\n'))
		done <- err
	}()
	select {
	case err := <-done:
		if err == nil {
			return nil
		}
		select {
		case <-w.ended:
			return w.broken
		case <-time.After(closeWait):
			return err
		}
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (w *commandWire) receive(ctx context.Context) ([]byte, error) {
	select {
	case line, ok := <-w.lines:
		if !ok {
			return nil, w.broken
		}
		return line, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (w *commandWire) done()         {}
func (w *commandWire) agreed(string) {}

// close ends the program: its input first, as the protocol asks, then a signal
// to it and everything it has started.
func (w *commandWire) close(patience time.Duration) {
	w.closed.Do(func() {
		w.stdin.Close()
		go func() { // a process that still writes must not wait for a reader
			for range w.lines {
			}
		}()
		select {
		case <-w.ended:
		case <-time.After(patience):
			// It is not reaped yet, so the number of its group is still its own.
			endGroup(w.cmd)
			<-w.ended
		}
	})
}

// A tail keeps the end of what a program writes.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const tailBytes = 2048

// Write keeps the last bytes.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if n := len(t.text); n > tailBytes {
		t.text = append([]byte(nil), t.text[n-tailBytes:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.text))
}
