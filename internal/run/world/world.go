// Package world runs the world of a case: a program in a sandbox of its own, fresh for
// each case, that an agent acts on through its tools and services.
//
// Everything that controls it travels over its standard input and output, as lines of
// JSON-RPC 2.0: world/reset with seed, data and start, world/health, the tools as MCP has
// them, and world/state. It has no network and no gateway. What it says is bounded in
// size, time and depth; a line that is not the answer to the question that was asked, and
// an end before the case's, are errors that name what was found. No error is the agent's
// doing, so a case with one is never scored.
//
// The package does not judge what a world answers, and what a world that calls itself
// deterministic does twice the caller compares. docs/worlds.md has the protocol.
package world

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/run/sandbox"
	"tallystick/internal/run/sandbox/identity"
	"tallystick/internal/run/sandbox/image"
	"tallystick/internal/run/scenario"
)

// Inside is where a world finds its files.
const Inside = "/world"

// Clock says whose time a world sees. No class has another than the host's.
const Clock = "host"

// environment is all that a world has of an environment. Nothing in it differs from
// machine to machine.
var environment = []string{
	"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/tmp", "TMPDIR=/tmp", "WORK=/work", "LANG=C.UTF-8", "TZ=UTC",
	"PYTHONDONTWRITEBYTECODE=1", "PYTHONNOUSERSITE=1", "PYTHONUNBUFFERED=1", "PYTHONHASHSEED=0",
}

// The defaults of a world's limits.
const (
	defaultStart  = 60 * time.Second
	defaultCall   = 30 * time.Second
	defaultMemory = 1 << 30
	defaultState  = 4 << 20
	defaultTasks  = 128
)

// Means are what a world runs with besides its case.
type Means struct {
	Accept []sandbox.Class
	Hidden []string // folders that no mount may show
	Image  *image.Image
	Expect map[string]identity.ID // what is shown of the machine, as digested
}

// A World is one that runs. Its methods may be called from several goroutines; calls
// follow each other. Close it.
type World struct {
	List []byte // what it says of its tools, in canonical JSON

	spec    *scenario.World
	box     *sandbox.World
	out     *lines
	release func()

	mu     sync.Mutex
	lastID int64
	mcp    caller // that tools are called through: this world itself, or its HTTP endpoint
	broken error  // sticky
}

// A caller makes one request and returns the answer.
type caller interface {
	ask(ctx context.Context, method string, params any) (answer, error)
}

// An answer is a result or an error, as the world sent it.
type answer struct{ result, failure canon.RawMessage }

// Start starts the world of a case and resets it. The start is the case's logical date,
// "" if it has none.
func Start(ctx context.Context, c *scenario.Task, m Means) (w *World, err error) {
	spec := c.Scenario.World
	dir, remove, err := store.TempDir("tally-world-")
	if err != nil {
		return nil, err
	}
	w = &World{spec: spec, out: newLines(), release: func() { _ = remove() }}
	defer func() {
		if err != nil {
			w.Close()
		}
	}()
	files := filepath.Join(dir, "world")
	if err := store.PlantTree(files, c.World); err != nil {
		return nil, err
	}
	// It outlives ctx, which bounds the start: Close ends it.
	w.box, err = sandbox.StartWorld(context.WithoutCancel(ctx), sandbox.AgentOptions{
		Accept: m.Accept, Command: spec.Command, Env: environment, Dir: Inside, Hidden: m.Hidden,
		System: m.Image == nil, Image: m.Image, Expect: m.Expect,
		ReadOnly: []sandbox.Mount{{Host: files, Inside: Inside}},
		OnStdout: w.out.write,
		Limits: sandbox.AgentLimits{Timeout: sandbox.MaxAgentTimeout, OutputBytes: sandbox.MaxAgentOutputBytes,
			MemoryBytes: or(spec.Bounds().MemoryBytes, defaultMemory), DiskBytes: spec.Bounds().DiskBytes, Tasks: int(or(int64(spec.Bounds().Processes), defaultTasks))},
	})
	if err != nil {
		return nil, err
	}
	return w, w.begin(ctx, c)
}

func or(n, otherwise int64) int64 {
	if n == 0 {
		return otherwise
	}
	return n
}

// begin resets the world, waits until it is healthy, and asks for its tools.
func (w *World) begin(ctx context.Context, c *scenario.Task) error {
	ctx, cancel := context.WithTimeoutCause(ctx, w.wait(w.spec.Bounds().StartSeconds, defaultStart), errors.New("the time that it has to start is over"))
	defer cancel()
	data := w.spec.Data
	if data == nil {
		data = canon.RawMessage("null")
	}
	if _, err := w.control(ctx, "world/reset", map[string]any{"data": data, "seed": w.spec.Seed, "start": c.Scenario.Start}); err != nil {
		return err
	}
	if err := w.healthy(ctx); err != nil {
		return err
	}
	w.mcp = w
	if at := w.spec.MCP; at != nil {
		w.mcp = newEndpoint(w, at)
	}
	return w.introduce(ctx)
}

func (w *World) wait(seconds int, otherwise time.Duration) time.Duration {
	if seconds == 0 {
		return otherwise
	}
	return time.Duration(seconds) * time.Second
}

// healthEvery is how often a world that is not healthy yet is asked again.
const healthEvery = 20 * time.Millisecond

// healthy waits until the world says that it is.
func (w *World) healthy(ctx context.Context) error {
	for {
		result, err := w.control(ctx, "world/health", nil)
		if err != nil {
			return err
		}
		var said struct {
			OK     *bool  `json:"ok"`
			Detail string `json:"detail,omitempty"`
		}
		if err := canon.Unmarshal(result, &said); err != nil || said.OK == nil {
			return w.fail(`the answer to world/health is %.200q, expected {"ok":true} or {"ok":false,"detail":"..."}`, result)
		}
		if *said.OK {
			return nil
		}
		select {
		case <-ctx.Done():
			return w.fail("it did not become healthy: %w; it said %.200q", context.Cause(ctx), said.Detail)
		case <-time.After(healthEvery):
		}
	}
}

// control asks the world something that is not a tool's affair. An error in the answer
// is the world's failure.
func (w *World) control(ctx context.Context, method string, params any) (canon.RawMessage, error) {
	a, err := w.ask(ctx, method, params)
	if err != nil {
		return nil, err
	}
	if a.failure != nil {
		return nil, w.fail("%s was answered with the error %.500s", method, a.failure)
	}
	return a.result, nil
}

// Call calls a tool. The result may say of itself that the tool failed, and failure is a
// JSON-RPC error; both are answers.
func (w *World) Call(ctx context.Context, name string, args []byte) (result, failure []byte, latency time.Duration, err error) {
	if len(args) == 0 {
		args = []byte("{}")
	}
	ctx, cancel := w.within(ctx, "tools/call")
	defer cancel()
	began := time.Now()
	a, err := w.mcp.ask(ctx, "tools/call", map[string]any{"arguments": canon.RawMessage(args), "name": name})
	return a.result, a.failure, time.Since(began), err
}

// within bounds a request. Its answer counts only if it came in time.
func (w *World) within(ctx context.Context, method string) (context.Context, context.CancelFunc) {
	most := w.wait(w.spec.Bounds().CallSeconds, defaultCall)
	return context.WithTimeoutCause(ctx, most, fmt.Errorf("%s was not answered within %s", method, most))
}

// Dial connects to a port of the world's own loopback.
func (w *World) Dial(port int) (net.Conn, error) { return w.box.Dial(port) }

// Class is the isolation that it runs in.
func (w *World) Class() sandbox.Class { return w.box.Class() }

// Close kills the world. What it tried and was denied is returned, and in which class of
// isolation it ran.
func (w *World) Close() (class sandbox.Class, tried []sandbox.Attempt) {
	if w.box != nil {
		r, _ := w.box.Close() // why it failed was told to the caller that asked it something
		class, tried = r.Class, r.Attempted
	}
	w.out.close()
	w.release()
	return class, tried
}

// fail makes the world unusable and says why.
func (w *World) fail(format string, args ...any) error {
	if w.broken == nil {
		w.broken = refusal.Newf(refusal.WorldFailed, "the world of the case: %w", fmt.Errorf(format, args...)).
			WithHint("nothing of this is the agent's doing, and the case is not scored; docs/worlds.md has what a world must answer")
	}
	return w.broken
}
