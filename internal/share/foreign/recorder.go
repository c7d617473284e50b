package foreign

import (
	"fmt"
	"strings"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/run/policy"
	"tallystick/internal/run/trajectory"
	"tallystick/internal/run/vantage"
)

// The trust label of everything that was imported.
const trust = "imported"

// Bounds of texts in events; see package trajectory.
const (
	MaxName   = 512
	MaxDetail = 4096
)

// A Recorder writes one trajectory. The first error stays, and nothing is
// written after it.
type Recorder struct {
	log      *trajectory.Log
	contents map[digest.Content][]byte
	Notes    Notes
	At       time.Duration
	turn     int
	calls    map[string]int // how often a call id was given out
	err      error
}

// Start begins a trajectory. It is unknown under which policy it came about,
// so the policy's digest is zero; nothing stopped the agent, which is what
// autonomous means. The first format has all that an import has.
func Start(src Source, id, target string) *Recorder {
	r := &Recorder{log: trajectory.NewLog(), contents: map[digest.Content][]byte{}, calls: map[string]int{}}
	r.Event(&trajectory.RunStarted{Attempt: "imported", Case: Name(id), Class: Class, Execution: 1, Format: trajectory.Format,
		Governance: policy.Autonomous, Repeat: 1, Target: Name(target), Vantage: vantage.Imported})
	r.Event(&trajectory.SecurityEvent{Boundary: "TB-7", Name: "import.source", Severity: "info",
		Detail: fmt.Sprintf("converted from %s, %s; nothing vouches for any of it", src.Format, src.Digest)})
	return r
}

// Until moves the time forward. It never goes back: exporters of two machines
// have two clocks.
func (r *Recorder) Until(at time.Duration) {
	r.At = max(r.At, at)
}

// Event writes an event at the present time.
func (r *Recorder) Event(p trajectory.Payload) {
	if r.err != nil {
		return
	}
	if _, ok := p.(*trajectory.TurnStarted); ok {
		r.turn++
	}
	_, r.err = r.log.Append(r.turn, p, r.At)
}

// Content stands for a text and keeps the whole of it if the event does not.
func (r *Recorder) Content(text string, limit int) trajectory.Content {
	c := trajectory.NewContent([]byte(text), limit)
	if c.Truncated || c.Lossy {
		r.contents[c.Digest] = []byte(text)
	}
	return c
}

// Optional is Content for a text that may not be there.
func (r *Recorder) Optional(text string, limit int) *trajectory.Content {
	if text == "" {
		return nil
	}
	c := r.Content(text, limit)
	return &c
}

func (r *Recorder) args(data []byte) trajectory.Args {
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

// CallID makes an id that no other call of the trajectory has.
func (r *Recorder) CallID(id string) string {
	id = Cut(Clean(id), MaxName-12)
	if id == "" {
		id = "call"
	}
	r.calls[id]++
	if n := r.calls[id]; n > 1 {
		return r.CallID(fmt.Sprintf("%s#%d", id, n))
	}
	return id
}

// A ModelCall is a call of a model in either format.
type ModelCall struct {
	ID, Model, Provider string
	Messages            int
	Prompt              string
	Reply               string
	Finish, Problem     string
	Latency             time.Duration
	In, Out, Cost       int64
	Priced              bool // the log says what it cost
}

// AskModel writes that a model is called.
func (r *Recorder) AskModel(m *ModelCall) {
	prompt := r.Content(m.Prompt, trajectory.PromptHead)
	r.Event(&trajectory.ModelCallStarted{Call: m.ID, Messages: m.Messages, Model: Name(m.Model), Provider: Name(m.Provider), Prompt: prompt, Request: prompt.Digest})
}

// ModelSaid writes what it replied.
func (r *Recorder) ModelSaid(m *ModelCall) {
	r.Event(&trajectory.ModelCallCompleted{Call: m.ID, CostMicroUSD: m.Cost, Error: Detail(m.Problem), FinishReason: Cut(Clean(m.Finish), MaxName),
		LatencyMS: max(0, m.Latency.Milliseconds()), Output: r.Content(m.Reply, trajectory.ResultHead), Source: "live", TokensIn: m.In, TokensOut: m.Out, Unpriced: !m.Priced})
}

// A ToolCall is a call of a tool in either format.
type ToolCall struct {
	ID, Name string
	Args     []byte
	Result   string
	Problem  string
	Latency  time.Duration
}

// ProposeTool writes that a tool is to be called.
func (r *Recorder) ProposeTool(c *ToolCall) {
	r.Event(&trajectory.ToolProposed{Args: r.args(c.Args), Call: c.ID, Name: Name(c.Name), Trust: trust})
}

// ToolGave writes what came of it.
func (r *Recorder) ToolGave(c *ToolCall) {
	r.Event(&trajectory.ToolExecuted{Args: r.args(c.Args), Call: c.ID, Error: Detail(c.Problem), LatencyMS: max(0, c.Latency.Milliseconds()),
		Name: Name(c.Name), Result: r.Content(c.Result, trajectory.ResultHead), Source: "live", Trust: trust})
}

// Finish writes what was left out, and the end.
func (r *Recorder) Finish(end trajectory.Payload, src Source, id string) (Trajectory, error) {
	if len(r.Notes.List) > 0 {
		var b strings.Builder
		for i, n := range r.Notes.List {
			if i > 0 {
				b.WriteString("; ")
			}
			fmt.Fprintf(&b, "%s ×%d", n.What, n.Count)
		}
		r.Event(&trajectory.SecurityEvent{Boundary: "TB-7", Name: "import.unmapped", Severity: "info", Detail: Detail("in the file and not here: " + b.String())})
	}
	r.Event(end)
	if r.err != nil {
		return Trajectory{}, r.err
	}
	data := r.log.Bytes()
	// Read again, as a stranger would: what does not verify must not leave.
	v, err := trajectory.Verify(data, trajectory.UnsafeAnyHead())
	if err != nil {
		return Trajectory{}, err
	}
	return Trajectory{Source: src, ID: id, Trajectory: data, Verified: v, Contents: r.contents, Notes: r.Notes.List, Evaluations: []Evaluation{}}, nil
}

// Name makes a text fit where an event needs a short one.
func Name(s string) string {
	if s = Cut(Clean(s), MaxName); s == "" {
		return "unknown"
	}
	return s
}

// Detail makes a text fit where an event takes a longer one.
func Detail(s string) string { return Cut(Clean(s), MaxDetail) }
