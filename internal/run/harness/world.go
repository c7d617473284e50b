package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/agent"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/sandbox"
	"tallystick/internal/run/scenario"
	"tallystick/internal/run/session"
	"tallystick/internal/run/tools"
	"tallystick/internal/run/trajectory"
	"tallystick/internal/run/world"
)

// An environment is the world of a case under way: one that runs, a recording of one, or
// both, where what it does now is compared with what it did then.
type environment struct {
	spec  *scenario.World
	tools []tools.Definition // of the case, completed
	world *world.World       // nil if the recording answers in its place
	tape  *worldTape         // nil if there is no recording of it
	keep  func(cassette.MCPTraffic) error
	held  *agent.Held // what it is shown of the machine

	list     []byte // what it says of its tools
	before   []byte // its state
	services *carriers
}

// WorldServer is the name under which recordings have the worlds of cases. No MCP server
// of the settings can have it.
const WorldServer = "tally:world"

// A WorldRecording is a recording that keeps what the world of a case did, and may have
// an earlier one of it.
type WorldRecording interface {
	RecordWorld(cassette.MCPTraffic) error
	RecordedWorld() *cassette.Player // nil for none
}

// The moments of a world's life, as recordings name them.
const (
	worldReset = "world/reset"
	worldState = "world/state"
	worldTools = "tools/list"
	worldCall  = "tools/call"
)

// startWorld starts the world of the case, or finds the recording of it. That the world
// failed is an error of the
// case, which has no trajectory yet to tell it in.
func (r *run) startWorld(ctx context.Context) (*environment, error) {
	spec := r.c.Scenario.World
	e := &environment{spec: spec, tools: r.c.Scenario.Tools, keep: func(cassette.MCPTraffic) error { return nil }}
	player := r.player
	if r.live != nil {
		player = nil
		if recording, ok := r.live.(WorldRecording); ok {
			player, e.keep = recording.RecordedWorld(), recording.RecordWorld
		}
	}
	var err error
	if e.tape, err = openWorldTape(player, r.c); err != nil {
		return e, err
	}
	if e.tape != nil && !spec.Deterministic {
		return e, e.begin(ctx)
	}
	shown, err := r.w.worldRoot(spec)
	if err != nil {
		return e, err
	}
	if e.held, err = shown.Begin(); err != nil {
		return e, err
	}
	e.world, err = world.Start(ctx, r.c, world.Means{Accept: r.w.rubrics.accept(), Hidden: r.w.cfg.Hidden, Image: shown.Image(), Expect: shown.Expect()})
	if err != nil {
		e.world = nil // it closed itself
		return e, err
	}
	params, err := resetParams(r.c)
	if err == nil && e.tape == nil {
		err = e.keep(cassette.MCPTraffic{Server: WorldServer, Method: worldReset, Params: params, Result: []byte("{}")})
	}
	if err != nil {
		return e, err
	}
	return e, e.begin(ctx)
}

// begin asks for everything that is known before the agent starts.
func (e *environment) begin(ctx context.Context) (err error) {
	list := func() ([]byte, error) { return e.world.List, nil }
	if e.list, err = e.same(worldTools, nil, list); err != nil {
		return err
	}
	known, err := world.ReadTools(e.list)
	if err != nil {
		return worldFailure("%w", err)
	}
	if e.tools, err = world.Define(e.tools, known, worldFailure); err != nil {
		return err
	}
	if e.world != nil && len(e.spec.Services) > 0 {
		e.services = carryServices(e.spec.Services, e.world.Dial)
	}
	e.before, err = e.same(worldState, phaseParams(trajectory.WorldBefore), func() ([]byte, error) { return e.world.State(ctx) })
	return err
}

func worldFailure(format string, args ...any) error {
	return refusal.Newf(refusal.WorldFailed, "the world of the case: %w", fmt.Errorf(format, args...)).
		WithHint("nothing of this is the agent's doing, and the case is not scored; docs/worlds.md has what a world must answer")
}

func phaseParams(phase string) []byte { return []byte(`{"phase":"` + phase + `"}`) }

// same asks the world, or its recording, or both. If both tell something they must tell
// the same.
func (e *environment) same(method string, params []byte, ask func() ([]byte, error)) ([]byte, error) {
	then, there, err := e.tape.next(method, params)
	switch {
	case err != nil:
		return nil, err
	case e.world == nil && !there:
		return nil, e.tape.miss(method)
	case e.world == nil:
		return then.Result, nil
	}
	began := time.Now()
	now, err := ask()
	if err != nil {
		return nil, err
	}
	if there && !e.tape.parted {
		if diff := firstDifference(then.Result, now); diff != "" {
			return nil, worldDiffers(method, diff)
		}
		return now, nil
	}
	return now, e.keep(cassette.MCPTraffic{Server: WorldServer, Method: method, Params: params, Result: now, Latency: time.Since(began)})
}

func worldDiffers(what, diff string) error {
	return refusal.Newf(refusal.WorldDiffers, "world differs: %s: %s", what, diff).
		WithHint("the case says deterministic: true, so the same calls must give the same bytes; take clocks, random numbers and the order of sets out of the world, or say deterministic: false and record it again")
}

// firstDifference says where two documents differ first, "" if nowhere. Secrets are taken
// out of both, as they are out of recordings.
func firstDifference(then, now []byte) string {
	before, after := redact(string(then)), redact(string(now))
	if before == after {
		return ""
	}
	i := 0
	for i < min(len(before), len(after)) && before[i] == after[i] {
		i++
	}
	from := max(0, i-30)
	part := func(s string) string { return fmt.Sprintf("%.80q", s[min(from, len(s)):]) }
	return fmt.Sprintf("from byte %d on it was %s, and is %s", i+1, part(before), part(after))
}

// A worldTape is what a world did once.
type worldTape struct {
	player *cassette.Player
	parted bool // the agent did something else than then
}

// openWorldTape finds the recording of a world that was reset with the same; nil if there
// is none.
func openWorldTape(p *cassette.Player, c *scenario.Task) (*worldTape, error) {
	if p == nil {
		return nil, nil
	}
	params, err := resetParams(c)
	if err != nil {
		return nil, err
	}
	t := &worldTape{player: p}
	if _, there, err := t.next(worldReset, params); err != nil || there {
		return t, err
	}
	list, err := cassette.MCPRequest(WorldServer, worldTools, nil, nil)
	if err == nil && p.Has(list) {
		return nil, refusal.Newf(refusal.CassetteMiss, "the world of the case was recorded with another seed, other data or other files than it is reset with now").
			WithHint("record the case again")
	}
	return nil, err
}

// resetParams name what decides what a world does.
func resetParams(c *scenario.Task) ([]byte, error) {
	spec := c.Scenario.World
	files, err := c.WorldDigest()
	if err != nil {
		return nil, err
	}
	return canon.Marshal(map[string]any{"command": spec.Command, "data": spec.Data, "files": files, "image": spec.Image, "seed": spec.Seed, "start": c.Scenario.Start})
}

func (t *worldTape) next(method string, params []byte) (*cassette.Exchange, bool, error) {
	if t == nil {
		return nil, false, nil
	}
	request, err := cassette.MCPRequest(WorldServer, method, params, nil)
	if err != nil {
		return nil, false, err
	}
	it, err := t.player.Next(request)
	if refusal.Is(err, refusal.CassetteMiss) {
		t.parted = t.parted || method == worldCall
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	return it.MCP, true, nil
}

func (t *worldTape) miss(what string) error {
	return refusal.Newf(refusal.CassetteMiss, "the recording of the case's world has no answer to %s: the agent did something else than it did then", what).
		WithHint("a world that is not deterministic cannot be asked again; record the case again")
}

// checkWorld refuses a world that the agent of this run could not act on as the case
// means it.
func (w *Worker) checkWorld(id string, spec *scenario.World) error {
	if len(spec.Services) == 0 || w.cfg.Target.Kind != agent.KindCommand || !w.cfg.Spec.Unsafe() && !w.cfg.Target.IsWarm() {
		return nil
	}
	return refusal.Newf(refusal.Usage, "case %s: the services of its world are ports of the agent's own sandbox, and a preloaded agent, or one without a sandbox, has none of its own", id).
		WithHint("run the target cold and in a sandbox, or leave such cases out with --case '!GLOB'")
}

// record tells the trajectory of the world, before anything of the agent.
func (e *environment) record(s *session.Session, files digest.Content) error {
	p := &trajectory.WorldStarted{Clock: world.Clock, Command: e.spec.Command, Deterministic: e.spec.Deterministic, Image: e.spec.Image,
		Recorded: e.world == nil, Seed: e.spec.Seed, Tools: s.Note(string(e.list), trajectory.ResultHead)}
	if files != (digest.Content{}) {
		p.Files = &files
	}
	if e.world != nil {
		p.Isolation = string(e.world.Class())
	}
	if err := s.Event(p); err != nil {
		return err
	}
	if pin := e.spec.ToolsDigest; pin != nil && *pin != digest.ContentOf(e.list) {
		if err := s.Security(trajectory.SecurityEvent{Name: "world_tools_changed", Severity: evidence.Warn,
			Detail: fmt.Sprintf("what the world says of its tools is %s, the case pins %s", digest.ContentOf(e.list), pin)}); err != nil {
			return err
		}
	}
	return s.Event(&trajectory.WorldState{Phase: trajectory.WorldBefore, State: s.Note(string(e.before), trajectory.ResultHead)})
}

// end asks for the state that the agent left, when all of its processes are dead, and
// ends the world.
func (e *environment) end(ctx context.Context, s *session.Session) error {
	if e == nil {
		return nil
	}
	if e.world != nil {
		changed, err := e.world.Changed(ctx)
		if err != nil {
			return err
		}
		if changed {
			err = s.Security(trajectory.SecurityEvent{Name: "world_tools_changed", Severity: evidence.Warn, Detail: "what the world says of its tools changed while the agent worked"})
		}
		if err != nil {
			return err
		}
	}
	after, err := e.same(worldState, phaseParams(trajectory.WorldAfter), func() ([]byte, error) { return e.world.State(ctx) })
	if err != nil {
		return err
	}
	p := &trajectory.WorldState{Phase: trajectory.WorldAfter, State: s.Note(string(after), trajectory.ResultHead)}
	p.Attempted = e.close(s)
	if err := e.held.End(); err != nil {
		return err
	}
	if err := e.services.record(s); err != nil {
		return err
	}
	return s.Event(p)
}

// maxWorldActs bounds what an event tells of what a world tried.
const maxWorldActs = 50

// close ends the world, and says what it tried and was denied. It may be called again.
func (e *environment) close(s *session.Session) []string {
	if e == nil || e.world == nil {
		return nil
	}
	e.services.close()
	_, tried := e.world.Close()
	e.world = nil
	var acts []string
	for _, a := range tried {
		if act := head(s.Safe(a.What+" "+a.Detail), 500); len(acts) < maxWorldActs && !slices.Contains(acts, act) {
			acts = append(acts, act)
		}
	}
	return acts
}

// abandon ends the world of a case that ended otherwise.
func (e *environment) abandon() {
	if e == nil || e.world == nil {
		return
	}
	e.services.close()
	e.world.Close()
	e.world = nil
}

// A worldBox is the tools of a case of which some are its world's.
type worldBox struct {
	*tools.State
	rest session.ToolBox // that the others are called through
	env  *environment
}

// Call answers a call. A result of the world is cleaned and bounded as that of an MCP
// server is. How long the world took is not part of it: the same calls give the same
// events.
func (b *worldBox) Call(ctx context.Context, name string, args []byte) (tools.Result, error) {
	d, ok := b.Lookup(name)
	if !ok || d.Source != tools.World {
		return b.rest.Call(ctx, name, args)
	}
	if wrong := b.Check(name, args); wrong != nil {
		return *wrong, nil
	}
	result, failure, source, err := b.env.call(ctx, &d, args)
	if err != nil {
		return tools.Result{}, err
	}
	r := d.AdmitMCP(source, result, failure)
	if b.env.spec.Tracebacks == scenario.HideTracebacks {
		r = withoutTraceback(&d, source, r)
	}
	r.Latency, r.CostMicroUSD, r.Tokens = time.Duration(d.LatencyMS)*time.Millisecond, d.CostMicroUSD, d.Tokens
	return r, nil
}

// withoutTraceback tells of a failed tool no more than the last line.
func withoutTraceback(d *tools.Definition, source string, r tools.Result) tools.Result {
	if r.Error == "" {
		return r
	}
	return d.Admit(source, nil, world.Without(r.Error))
}

// call asks the world, its recording, or both.
func (e *environment) call(ctx context.Context, d *tools.Definition, args []byte) (result, failure []byte, source string, err error) {
	if len(args) == 0 {
		args = []byte("{}")
	}
	name := world.RemoteName(d)
	params, err := canon.Marshal(map[string]any{"arguments": canon.RawMessage(args), "name": name})
	if err != nil {
		return nil, nil, "", refusal.Newf(refusal.Malformed, "the arguments of the tool %.60q: %w", name, err)
	}
	then, there, err := e.tape.next(worldCall, params)
	switch {
	case err != nil:
		return nil, nil, "", err
	case e.world == nil && !there:
		return nil, nil, "", e.tape.miss("a call of " + name)
	case e.world == nil:
		return then.Result, then.Error, tools.Cassette, nil
	}
	var latency time.Duration
	if result, failure, latency, err = e.world.Call(ctx, name, args); err != nil {
		return nil, nil, "", err
	}
	if there && !e.tape.parted {
		if diff := firstDifference(canonical(then.Result, then.Error), canonical(result, failure)); diff != "" {
			return nil, nil, "", worldDiffers("the call "+name+" "+head(redact(string(args)), 200), diff)
		}
		return result, failure, tools.World, nil
	}
	return result, failure, tools.World, e.keep(cassette.MCPTraffic{Server: WorldServer, Method: worldCall, Params: params, Result: result, Error: failure, Latency: latency})
}

// canonical is an answer as it is compared.
func canonical(result, failure []byte) []byte {
	text, err := canon.Marshal(map[string]any{"error": json.RawMessage(or(failure)), "result": json.RawMessage(or(result))})
	if err != nil {
		return append(slices.Clone(result), failure...)
	}
	return text
}

func or(text []byte) []byte {
	if text == nil {
		return []byte("null")
	}
	return text
}

// worldRoot is what the world of a case is shown of this machine. Each image is looked at
// once for the run.
func (w *Worker) worldRoot(spec *scenario.World) (*agent.Shown, error) {
	name := ""
	if spec.Image != nil {
		name = spec.Image.String()
	}
	w.rootsLock.Lock()
	defer w.rootsLock.Unlock()
	if shown, ok := w.roots[name]; ok {
		return shown, nil
	}
	shown, err := agent.ShowWorld(name)
	if err != nil {
		return nil, err
	}
	if w.roots == nil {
		w.roots = map[string]*agent.Shown{}
	}
	w.roots[name] = shown
	return shown, nil
}

// noteWorldClass has a record name the weaker of the classes that its rubric and its world
// ran in: what a state is worth depends on the sandbox that kept the agent out of it.
func (r *run) noteWorldClass(rec *evidence.CaseScored) {
	classes := sandbox.Classes()
	if r.worldClass != "" && slices.Index(classes, r.worldClass) > slices.Index(classes, sandbox.Class(rec.IsolationClass)) {
		rec.IsolationClass, rec.IsolationScope = string(r.worldClass), string(sandbox.ScopeCase)
	}
}

// class is the isolation that the world runs in; "" if it does not run.
func (e *environment) class() sandbox.Class {
	if e == nil || e.world == nil {
		return ""
	}
	return e.world.Class()
}
