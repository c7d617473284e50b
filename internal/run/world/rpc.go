package world

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"tallystick/internal/record/canon"
	"tallystick/internal/run/sandbox"
)

// Bounds on what a world says.
const (
	maxMessage       = 20 << 20 // one line
	maxUnread        = 32 << 20 // that the harness has not come to read
	maxNotifications = 1000     // before one answer
)

// lines are what a world printed, line by line, and not read yet.
type lines struct {
	mu     sync.Mutex
	ready  [][]byte
	rest   []byte // of a line without an end
	unread int
	over   bool // too much of it: what came then is lost
	more   chan struct{}
}

func newLines() *lines { return &lines{more: make(chan struct{}, 1)} }

// write takes what was printed. It never waits: a world that prints without end is
// found by its bounds.
func (l *lines) write(p []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(p) > 0 && !l.over {
		if l.unread += len(p); l.unread > maxUnread || len(l.rest) > maxMessage {
			l.over = true
			break
		}
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			l.rest = append(l.rest, p...)
			break
		}
		l.ready = append(l.ready, append(l.rest, p[:i]...))
		l.unread -= len(p) - i // counted again with the rest
		l.rest, p = nil, p[i+1:]
	}
	l.wake()
}

func (l *lines) wake() {
	select {
	case l.more <- struct{}{}:
	default:
	}
}

// take gives the next line, nil if there is none yet.
func (l *lines) take() (line []byte, over bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.ready) == 0 {
		return nil, l.over
	}
	line = l.ready[0]
	l.ready = l.ready[1:]
	l.unread -= len(line)
	return line, false
}

// stray is the beginning of what was printed and not asked for, "" if there is nothing.
func (l *lines) stray() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.ready) > 0 {
		return fmt.Sprintf("%.200q", l.ready[0])
	}
	if len(l.rest) > 0 {
		return fmt.Sprintf("%.200q", l.rest)
	}
	return ""
}

func (l *lines) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ready, l.rest, l.over = nil, nil, true
}

// ask makes one request and waits for its answer.
func (w *World) ask(ctx context.Context, method string, params any) (answer, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken != nil {
		return answer{}, w.broken
	}
	if stray := w.out.stray(); stray != "" {
		return answer{}, w.fail("it printed %s, and was not asked anything", stray)
	}
	w.lastID++
	if err := w.send(ctx, map[string]any{"jsonrpc": "2.0", "id": w.lastID, "method": method, "params": params}); err != nil {
		return answer{}, err
	}
	return w.receive(ctx, method)
}

// notify tells the world something that it does not answer.
func (w *World) notify(ctx context.Context, method string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.send(ctx, map[string]any{"jsonrpc": "2.0", "method": method})
}

// send writes a line. A world that does not read must not hold us.
func (w *World) send(ctx context.Context, message map[string]any) error {
	if message["params"] == nil {
		delete(message, "params")
	}
	line, err := canon.Marshal(message)
	if err != nil {
		return w.fail("writing %v: %w", message["method"], err)
	}
	written := make(chan error, 1)
	go func() {
		_, err := w.box.Write(append(line, '\n'))
		written <- err
	}()
	select {
	case err := <-written:
		if err != nil {
			return w.ended()
		}
		return nil
	case <-w.box.Done():
		return w.ended()
	case <-ctx.Done():
		return w.fail("%v: it does not read: %w", message["method"], context.Cause(ctx))
	}
}

// receive takes lines until the answer has come.
func (w *World) receive(ctx context.Context, method string) (answer, error) {
	for notifications := 0; ; {
		line, over := w.out.take()
		switch {
		case over:
			return answer{}, w.fail("before it answered %s it printed more than %d bytes", method, maxUnread)
		case line != nil:
			m, err := parse(line)
			if err != nil {
				return answer{}, w.fail("in place of the answer to %s it printed %.200q: %w", method, line, err)
			}
			if m.method != "" {
				if notifications++; m.id != "" || !strings.HasPrefix(m.method, "notifications/") || notifications > maxNotifications {
					return answer{}, w.fail("in place of the answer to %s it sent %.80q, expected at most %d notifications", method, m.method, maxNotifications)
				}
				continue
			}
			if want := strconv.FormatInt(w.lastID, 10); m.id != want {
				return answer{}, w.fail("it answered the request %.80q, and was asked %s, which is request %s", m.id, method, want)
			}
			return m.answer, nil
		}
		select {
		case <-w.out.more:
		case <-w.box.Done():
			if line, _ := w.out.peek(); line {
				continue // it answered, and ended then
			}
			return answer{}, w.ended()
		case <-ctx.Done():
			return answer{}, w.fail("%w", context.Cause(ctx))
		}
	}
}

// peek reports whether there is a line to take.
func (l *lines) peek() (line, over bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.ready) > 0, l.over
}

// ended says how the world ended, before it was told to.
func (w *World) ended() error {
	<-w.box.Done()
	r, err := w.box.Close()
	switch {
	case err != nil:
		return w.fail("%w", err)
	case r.NotStarted != "":
		return w.fail("it could not be started: %s", r.NotStarted)
	}
	said := strings.TrimSpace(r.StderrHead)
	if said != "" {
		said = "; it said: " + lastLine(said)
	}
	if r.Verdict == sandbox.OK || r.Verdict == sandbox.Failed {
		return w.fail("it ended with exit status %d, and was still needed%s", r.ExitCode, said)
	}
	return w.fail("it was ended: %s%s", r.Verdict, said)
}

// lastLine is the end of what a program said before it failed.
func lastLine(text string) string {
	if i := strings.LastIndexByte(text, '\n'); i >= 0 {
		text = text[i+1:]
	}
	return fmt.Sprintf("%.300q", text)
}

// A message is one line of a world.
type message struct {
	id, method string // id as it is spelled
	answer
}

// parse reads a message strictly: what two readers could read in two ways is refused.
func parse(line []byte) (message, error) {
	if len(line) > maxMessage {
		return message{}, fmt.Errorf("it has %d bytes, expected at most %d", len(line), maxMessage)
	}
	var fields map[string]canon.RawMessage
	if err := canon.Unmarshal(line, &fields); err != nil {
		return message{}, fmt.Errorf("it is not a JSON-RPC message: %w", err)
	}
	for name := range fields {
		switch name {
		case "jsonrpc", "id", "method", "params", "result", "error":
		default:
			return message{}, fmt.Errorf("it has the member %.80q, which JSON-RPC does not know", name)
		}
	}
	if string(fields["jsonrpc"]) != `"2.0"` {
		return message{}, errors.New(`expected "jsonrpc":"2.0"`)
	}
	m := message{id: string(fields["id"]), answer: answer{result: fields["result"], failure: fields["error"]}}
	if raw, ok := fields["method"]; ok {
		if json.Unmarshal(raw, &m.method) != nil || m.method == "" || m.result != nil || m.failure != nil {
			return message{}, errors.New("it is a request and not an answer, and not a whole one")
		}
		return m, nil
	}
	if (m.result == nil) == (m.failure == nil) {
		return message{}, errors.New("expected a result or an error, and not both")
	}
	return m, nil
}
