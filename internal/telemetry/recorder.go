package telemetry

import (
	"fmt"
	"strings"
	"time"

	"tallystick/internal/canon"
	"tallystick/internal/digest"
	"tallystick/internal/policy"
	"tallystick/internal/trajectory"
)

// The trust label of everything that was imported.
const trust = "imported"

// Bounds of texts in events; see package trajectory.
const (
	maxName   = 512
	maxDetail = 4096
)

// A recorder writes one trajectory. The first error stays, and nothing is
// written after it.
type recorder struct {
	log      *trajectory.Log
	contents map[digest.Content][]byte
	notes    notes
	at       time.Duration
	turn     int
	calls    map[string]int // how often a call id was given out
	err      error
}

// started begins a trajectory. Nobody knows under which policy it came about,
// so the policy's digest is zero; nothing stopped the agent, which is what
// autonomous means.
func started(src Source, id, target string) *recorder {
	r := &recorder{log: trajectory.NewLog(), contents: map[digest.Content][]byte{}, calls: map[string]int{}}
	r.event(&trajectory.RunStarted{Attempt: "imported", Case: name(id), Class: Class, Execution: 1, Format: trajectory.Format,
		Governance: policy.Autonomous, Repeat: 1, Target: name(target)})
	r.event(&trajectory.SecurityEvent{Boundary: "TB-7", Name: "import.source", Severity: "info",
		Detail: fmt.Sprintf("converted from %s, %s; nothing vouches for any of it", src.Format, src.Digest)})
	return r
}

// until moves the time forward. It never goes back: exporters of two machines
// have two clocks.
func (r *recorder) until(at time.Duration) {
	r.at = max(r.at, at)
}

func (r *recorder) event(p trajectory.Payload) {
	if r.err != nil {
		return
	}
	if _, ok := p.(*trajectory.TurnStarted); ok {
		r.turn++
	}
	_, r.err = r.log.Append(r.turn, p, r.at)
}

// content stands for a text and keeps the whole of it if the event does not.
func (r *recorder) content(text string, limit int) trajectory.Content {
	c := trajectory.NewContent([]byte(text), limit)
	if c.Truncated || c.Lossy {
		r.contents[c.Digest] = []byte(text)
	}
	return c
}

// optional is content for a text that may not be there.
func (r *recorder) optional(text string, limit int) *trajectory.Content {
	if text == "" {
		return nil
	}
	c := r.content(text, limit)
	return &c
}

func (r *recorder) args(data []byte) trajectory.Args {
	a := trajectory.NewArgs(data)
	switch {
	case a.Raw != nil && (a.Raw.Truncated || a.Raw.Lossy):
		r.contents[a.Digest] = data
	case len(a.Cut) > 0:
		// The digest is that of the canonical form.
		if whole, err := canon.Canonicalize(data); err == nil {
			r.contents[a.Digest] = whole
		}
	}
	return a
}

// call makes an id that no other call of the trajectory has.
func (r *recorder) call(id string) string {
	id = cut(clean(id), maxName-12)
	if id == "" {
		id = "call"
	}
	r.calls[id]++
	if n := r.calls[id]; n > 1 {
		return r.call(fmt.Sprintf("%s#%d", id, n))
	}
	return id
}

// A modelCall is a call of a model in either format.
type modelCall struct {
	id, model, provider string
	messages            int
	prompt              string
	reply               string
	finish, problem     string
	latency             time.Duration
	in, out, cost       int64
}

func (r *recorder) askModel(m *modelCall) {
	prompt := r.content(m.prompt, trajectory.PromptHead)
	r.event(&trajectory.ModelCallStarted{Call: m.id, Messages: m.messages, Model: name(m.model), Provider: name(m.provider), Prompt: prompt, Request: prompt.Digest})
}

func (r *recorder) modelSaid(m *modelCall) {
	r.event(&trajectory.ModelCallCompleted{Call: m.id, CostMicroUSD: m.cost, Error: detail(m.problem), FinishReason: cut(clean(m.finish), maxName),
		LatencyMS: max(0, m.latency.Milliseconds()), Output: r.content(m.reply, trajectory.ResultHead), Source: "live", TokensIn: m.in, TokensOut: m.out})
}

// A toolCall is a call of a tool in either format.
type toolCall struct {
	id, name string
	args     []byte
	result   string
	problem  string
	latency  time.Duration
}

func (r *recorder) proposeTool(c *toolCall) {
	r.event(&trajectory.ToolProposed{Args: r.args(c.args), Call: c.id, Name: name(c.name), Trust: trust})
}

func (r *recorder) toolGave(c *toolCall) {
	r.event(&trajectory.ToolExecuted{Args: r.args(c.args), Call: c.id, Error: detail(c.problem), LatencyMS: max(0, c.latency.Milliseconds()),
		Name: name(c.name), Result: r.content(c.result, trajectory.ResultHead), Source: "live", Trust: trust})
}

// finish writes what was left out, and the end.
func (r *recorder) finish(end trajectory.Payload, src Source, id string) (Imported, error) {
	if len(r.notes.list) > 0 {
		var b strings.Builder
		for i, n := range r.notes.list {
			if i > 0 {
				b.WriteString("; ")
			}
			fmt.Fprintf(&b, "%s ×%d", n.What, n.Count)
		}
		r.event(&trajectory.SecurityEvent{Boundary: "TB-7", Name: "import.unmapped", Severity: "info", Detail: detail("in the file and not here: " + b.String())})
	}
	r.event(end)
	if r.err != nil {
		return Imported{}, r.err
	}
	data := r.log.Bytes()
	// Read again, as anybody would: what does not verify must not leave.
	v, err := trajectory.Verify(data, trajectory.UnsafeAnyHead())
	if err != nil {
		return Imported{}, err
	}
	return Imported{Source: src, ID: id, Trajectory: data, Verified: v, Contents: r.contents, Notes: r.notes.list, Evaluations: []Evaluation{}}, nil
}

// name makes a text fit where an event needs a short one.
func name(s string) string {
	if s = cut(clean(s), maxName); s == "" {
		return "unknown"
	}
	return s
}

func detail(s string) string { return cut(clean(s), maxDetail) }
