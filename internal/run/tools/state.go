package tools

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/schema"
	"tallystick/internal/record/strictyaml"
	"tallystick/internal/run/cassette"
)

// maxArgumentBytes bounds the arguments of a call.
const maxArgumentBytes = 1 << 20

// A State is the tools of one execution of a case, and what they remember. It
// is safe for concurrent use; calls are answered one after the other.
type State struct {
	tools    []*tool
	byName   map[string]*tool
	folder   string
	player   *cassette.Player
	redactor *cassette.Redactor

	mu       sync.Mutex
	listings map[string]Listing // of recorded servers
	values   map[string]any     // never changed in place, so that a snapshot keeps it
	counts   map[string]int64
	written  int64 // bytes that folder tools have written
}

// New makes the tools of one execution. Folder is the case's working folder, ""
// if it has none. Player answers recorded tools and MCP servers; nil if there
// is no cassette, and such a call is then a miss. Redactor knows the secrets of
// the recording, as for [cassette.ToolRequest].
func New(defs []Definition, folder string, player *cassette.Player, redactor *cassette.Redactor) (*State, error) {
	c, err := compile(defs)
	if err != nil {
		return nil, refusal.Newf(refusal.Malformed, "%w", err).WithHint("correct the definition of the tool; docs/formats/tools.md has the form")
	}
	for i := range defs {
		if defs[i].Source == Folder && folder == "" {
			err := strictyaml.At([]string{"tools", fmt.Sprint(i), "source"}, fmt.Errorf("the tool %s acts on the working folder, and the case has none", defs[i].Name))
			return nil, refusal.Newf(refusal.Malformed, "%w", err).WithHint("give the case files in input/, or take the tool away")
		}
	}
	return &State{
		tools: c.tools, byName: c.byName, folder: folder, player: player, redactor: redactor,
		values: c.state, counts: map[string]int64{}, listings: map[string]Listing{},
	}, nil
}

// Definitions returns the tools as a model sees them, sorted by name:
// descriptions and schemas cleaned and cut, what the source and the trust are
// filled in, and nothing about replies and state.
func (s *State) Definitions() []Definition {
	out := make([]Definition, len(s.tools))
	for i, t := range s.tools {
		out[i] = t.shown
	}
	return out
}

// Findings returns what cleaning has noticed in the definitions.
func (s *State) Findings() []Finding {
	var out []Finding
	for _, t := range s.tools {
		out = append(out, t.findings...)
	}
	return out
}

// Lookup returns a tool as a model sees it. Only the exact name finds it.
func (s *State) Lookup(name string) (Definition, bool) {
	t, ok := s.byName[name]
	if !ok {
		return Definition{}, false
	}
	return t.shown, true
}

// Call answers a call. It is an error only if the cassette has no recording of
// it, or if something here is broken; whatever an agent can do wrong is a
// [Result] with an Error.
func (s *State) Call(ctx context.Context, name string, args []byte) (Result, error) {
	if err := ctx.Err(); err != nil {
		return Result{}, err
	}
	t, values, refused := s.prepare(name, args)
	if refused != nil {
		return *refused, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch t.def.Source {
	case Fixture:
		return s.callFixture(t, values), nil
	case Cassette:
		return s.callRecorded(t, args)
	case Folder:
		return s.callFolder(t, values)
	case World:
		return Result{}, refusal.Newf(refusal.Failed, "the tool %s is one of the case's world, which does not run here", t.def.Name)
	}
	return s.callMCP(t, args)
}

// Check returns what is wrong with a call before it is made, nil if nothing is:
// the result that [State.Call] would give for an unknown tool or for arguments
// that do not fit. It is exported for tools that answer live.
func (s *State) Check(name string, args []byte) *Result {
	_, _, refused := s.prepare(name, args)
	return refused
}

func (s *State) prepare(name string, args []byte) (*tool, map[string]any, *Result) {
	t, ok := s.byName[name]
	if !ok {
		return nil, nil, refuse("there is no tool called %s", plain.Line(fmt.Sprintf("%q", cut(name, 100))))
	}
	if len(args) > maxArgumentBytes {
		return nil, nil, refuse("bad arguments: %d bytes, expected at most %d", len(args), maxArgumentBytes)
	}
	values := map[string]any{}
	if len(args) > 0 {
		var v any
		if err := canon.Unmarshal(args, &v); err != nil {
			return nil, nil, refuse("bad arguments: %s", plain.Line(cut(err.Error(), 500)))
		}
		if values, ok = v.(map[string]any); !ok {
			return nil, nil, refuse("bad arguments: found no JSON object, expected one")
		}
	}
	if t.schema != nil {
		if problems := t.schema.CheckValue(values); problems != nil {
			return nil, nil, refuse("bad arguments: %s", listProblems(problems))
		}
	}
	return t, values, nil
}

func listProblems(problems []schema.Problem) string {
	const most = 5
	var words []string
	for i, p := range problems {
		if i == most {
			words = append(words, fmt.Sprintf("and %d more", len(problems)-most))
			break
		}
		words = append(words, cut(p.String(), 600))
	}
	return strings.Join(words, "; ")
}

// refuse is the result of a call that no tool has seen. What it says is ours.
func refuse(format string, args ...any) *Result {
	return &Result{Source: Fixture, Trust: "internal", Error: cut(fmt.Sprintf(format, args...), maxErrorBytes)}
}

// callFixture answers from the replies of the definition. A reply whose changes
// cannot be made changes nothing and counts as not given.
func (s *State) callFixture(t *tool, args map[string]any) Result {
	s.counts[t.calls]++
	for _, r := range t.replies {
		if r.answers(args, s.values, s.counts[t.calls], s.counts[r.given]) {
			result, ok := s.give(t, r, args)
			if ok && r.times != 0 {
				s.counts[r.given]++
			}
			return result
		}
	}
	if t.fallback != nil {
		result, _ := s.give(t, t.fallback, args)
		return result
	}
	return *refuse("the tool %s has no reply for these arguments", t.def.Name)
}

// give changes the state as the reply says and returns what it answers.
func (s *State) give(t *tool, r *reply, args map[string]any) (Result, bool) {
	after, err := r.change(args, s.values)
	if err == nil && len(r.changes) > 0 && stateBytes(after) > maxStateBytes {
		err = fmt.Errorf("the tools remember too much: more than %d bytes", maxStateBytes)
	}
	if err != nil {
		return *refuse("the tool %s failed: %v", t.def.Name, err), false
	}
	s.values = after
	var result Result
	if content := r.content.value(args, after); r.failed {
		text := spell(content)
		if text == "" {
			text = "the tool failed"
		}
		result = t.def.admit(Fixture, nil, false, text)
	} else {
		result = t.def.admit(Fixture, content, true, "")
	}
	result.Latency, result.CostMicroUSD, result.Tokens = r.latency, r.costMicroUSD, r.tokens
	return result, true
}

// callRecorded answers from the recording of the same call.
func (s *State) callRecorded(t *tool, args []byte) (Result, error) {
	request, err := cassette.ToolRequest(t.def.Name, args, s.redactor)
	if err != nil {
		return Result{}, fmt.Errorf("tool %s: %w", t.def.Name, err)
	}
	recorded, err := s.next(t, request)
	if err != nil {
		return Result{}, err
	}
	call := recorded.Tool
	result := t.def.Admit("cassette", call.Result, call.Error)
	return t.use(result, recorded), nil
}

func (s *State) next(t *tool, r cassette.Request) (*cassette.Interaction, error) {
	if s.player == nil {
		return nil, refusal.Newf(refusal.CassetteMiss, "the tool %s is answered from the cassette, and the case has none (replay does not go to the network)", t.def.Name).
			WithHint("record the case, or give the tool replies of its own")
	}
	return s.player.Next(r)
}

// use adds what the recording says about time, and the definition about cost.
func (t *tool) use(r Result, recorded *cassette.Interaction) Result {
	r.Latency = time.Duration(recorded.LatencyMS) * time.Millisecond
	r.CostMicroUSD, r.Tokens = t.def.CostMicroUSD, t.def.Tokens
	return r
}

// A Snapshot is what the tools of a case remembered at one moment. The working
// folder and the place in the cassette are not part of it.
type Snapshot struct {
	values map[string]any
	counts map[string]int64
}

// Snapshot returns what the tools remember now.
func (s *State) Snapshot() Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Snapshot{s.values, maps.Clone(s.counts)}
}

// Restore makes the tools remember what they did at the snapshot, and no more.
func (s *State) Restore(at Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values, s.counts = at.values, maps.Clone(at.counts)
}

// JSON returns the snapshot in canonical JSON, {"counts":…,"state":…}, for
// comparing and digesting it.
func (at Snapshot) JSON() ([]byte, error) {
	return canon.Marshal(map[string]any{"counts": at.counts, "state": at.values})
}

// Values returns the state alone in canonical JSON, as a grader may want it.
func (at Snapshot) Values() (canon.RawMessage, error) {
	return canon.Marshal(at.values)
}
