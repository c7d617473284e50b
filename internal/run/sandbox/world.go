package sandbox

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"

	"tallystick/internal/record/refusal"
)

// A World is a program that runs beside an agent, in a sandbox of its own: what is
// written to it reaches its standard input, and what it prints goes to
// [AgentOptions.OnStdout]. It has no gateway. Only the harness reaches it: by these two
// streams, and, with [World.Dial], at ports of its own loopback. Close it.
type World struct {
	in     *io.PipeWriter
	cancel context.CancelCauseFunc
	dialer *dialer

	done   chan struct{}
	result AgentResult // to be read after done
	err    error
}

// errWorldClosed is why a world's sandbox ends.
var errWorldClosed = errors.New("the world is closed")

// StartWorld starts a program in the strongest accepted class that works. It does not
// wait for it: that the sandbox could not be made is told by [World.Close].
func StartWorld(ctx context.Context, o AgentOptions) (*World, error) {
	if o.Gateway != nil || o.Services != nil || o.Stdin != nil {
		return nil, refusal.Newf(refusal.Usage, "a world has no way out and no input but the harness's")
	}
	ctx, cancel := context.WithCancelCause(ctx)
	theirs, ours := io.Pipe()
	w := &World{in: ours, cancel: cancel, dialer: &dialer{}, done: make(chan struct{})}
	o.Stdin, o.world = theirs, w.dialer
	go func() {
		defer close(w.done)
		w.result, w.err = RunAgent(ctx, o)
		theirs.Close() // what is written from now on reaches no reader
		cancel(nil)
	}()
	return w, nil
}

// Write writes to the program's standard input.
func (w *World) Write(p []byte) (int, error) { return w.in.Write(p) }

// Dial connects to a port of the world's own loopback.
func (w *World) Dial(port int) (net.Conn, error) { return w.dialer.connect(port) }

// Class is the isolation that was chosen. It is known when the program has answered
// something.
func (w *World) Class() Class {
	w.dialer.mu.Lock()
	defer w.dialer.mu.Unlock()
	return w.dialer.class
}

// Done is closed when the program has ended, or could not be started.
func (w *World) Done() <-chan struct{} { return w.done }

// Close kills everything in the sandbox and waits for the end. The error says that the
// sandbox failed; that it was closed is not one. It may be called again.
func (w *World) Close() (AgentResult, error) {
	w.cancel(errWorldClosed)
	<-w.done
	w.in.Close()
	if errors.Is(w.err, errWorldClosed) {
		return w.result, nil
	}
	return w.result, w.err
}

// A dialer asks the first process of a world's sandbox for connections, while there
// is one.
type dialer struct {
	mu    sync.Mutex
	class Class
	dial  func(port int) (net.Conn, error)
}

// runs notes the class that was chosen.
func (d *dialer) runs(class Class) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.class = class
}

// serve says how to ask; nil that there is no first process to ask any more.
func (d *dialer) serve(dial func(port int) (net.Conn, error)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dial = dial
}

func (d *dialer) connect(port int) (net.Conn, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dial == nil {
		return nil, errors.New("the sandbox is not running")
	}
	return d.dial(port)
}
