package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/agent"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/scenario"
	"tallystick/internal/run/session"
	"tallystick/internal/run/tools"
	"tallystick/internal/run/trajectory"
	"tallystick/internal/run/wire"
)

// A worked is a case that a program behind the gateway was driven through elsewhere: what
// the program did is done by hand, through the session that a worker has.
type worked struct {
	*testing.T
	w      *Worker
	act    func(*session.Session, *session.Folder) string
	driven *DriveResult
	live   *modelsByNumber // who answers a live case; nil in a replay
	heard  *books          // what it was asked
}

const behindGateway = "version: 1\nkind: command\ncommand: {command: [cat]}\n"

// gatewayLine is a case with tools of every kind that a gateway has.
const gatewayLine = `{"id":"g","turns":[{"text":"go"},{"text":"on"}],"files":{"a.txt":"one"},` +
	`"tools":[{"name":"fs_write","source":"folder"},{"name":"lookup","class":"read","replies":[{"result":{"n":1},"times":1,"latency_ms":7,"tokens":3,"cost_microdollars":2},{"result":{"n":2}}]},{"name":"rm","class":"privileged","replies":[{"result":"gone"}]},{"name":"pay","class":"write","source":"mcp:bank"}],` +
	`"model":[{"text":"first","tokens_in":5,"tokens_out":6,"latency_ms":11,"cost_microdollars":4,"tool_calls":[{"name":"own","args":{"q":1}}]},{"text":"second","tokens_in":9,"latency_ms":1}],"expected":"done","grade":{"kind":"exact"}}`

const gatewayPolicy = `version: 1
class: sums
trust: scratch
current_tier: bronze
limits: {wall_clock_seconds: 60, memory_bytes: 1073741824, turns: 100, tokens: 1000000, cost_microdollars: 1000000}
governance: restricted
policy: {mode: restricted, allow: [lookup, nothing, fs_write, pay], max_cost_microdollars: 100000, max_tool_calls: 3}
isolation: {classes: [gvisor], scope: case, allow_weaker: false}
judged_scores_count: false
`

func newWorked(t *testing.T, live bool, act func(*session.Session, *session.Folder) string) *worked {
	t.Helper()
	p := newPlace(t, gatewayLine)
	p.tick = 0
	p.write("targets/default.yaml", behindGateway)
	p.write("bench/sums/registration.yaml", gatewayPolicy)
	cfg, err := p.config()
	if err != nil {
		t.Fatal(err)
	}
	k := &worked{T: t, act: act}
	if live {
		k.live = &modelsByNumber{}
		cfg.Config.Live = playing(func(*scenario.Task) (Recording, error) { return k.live, nil })
		cfg.Config.Spec.Live = true
	}
	ready, err := prepare(cfg.Config)
	if err != nil {
		t.Fatal(err)
	}
	k.w = ready.worker
	k.w.rubrics = newRubrics(k.w.cfg, k.w.reg.Isolation)
	k.driven = k.drive()
	return k
}

func (k *worked) job() Job { return Job{Attempt: "sums.default.1", Case: "g", Repeat: 1, Execution: 1} }

// drive is what an honest worker does.
func (k *worked) drive() *DriveResult {
	k.Helper()
	r, err := k.w.take(0, k.job())
	if err != nil {
		k.Fatal(err)
	}
	if k.live != nil {
		// It asks the coordinator, which writes down what it asks.
		k.heard, _ = openBooks(k.T, k.w.rules.Policy())
		k.heard.Recording = k.live
		k.w.cfg.Live = playing(func(*scenario.Task) (Recording, error) { return workedLive{k.heard}, nil })
	}
	remove, err := r.prepare(k.Context())
	if err != nil {
		k.Fatal(err)
	}
	defer remove()
	answer := k.act(r.s, r.folder)
	r.driven.Answer, r.driven.Isolation = answer, "gvisor"
	r.result = r.s.Complete(answer, false)
	d, err := r.travel()
	if err != nil {
		k.Fatal(err)
	}
	data, err := canon.Marshal(d)
	if err != nil {
		k.Fatal(err)
	}
	sent := &DriveResult{Pieces: d.Pieces}
	if err := canon.Unmarshal(data, sent); err != nil {
		k.Fatal(err)
	}
	return sent
}

// accept does what a coordinator does with a result, and gives what would be recorded.
func (k *worked) accept(d *DriveResult) (string, error) {
	k.Helper()
	r, err := k.w.take(0, k.job())
	if err != nil {
		k.Fatal(err)
	}
	if k.heard != nil {
		r.heard = &books{Recording: k.live}
		for _, c := range k.heard.calls {
			again := *c
			again.told = false
			r.heard.calls = append(r.heard.calls, &again)
		}
		for _, c := range k.heard.tools {
			again := *c
			again.told = false
			r.heard.tools = append(r.heard.tools, &again)
		}
	} else if _, _, err := r.models(); err != nil {
		k.Fatal(err)
	}
	remove, err := k.w.accept(context.Background(), r, d)
	defer remove()
	if err != nil {
		return "", asForeign(err)
	}
	g, err := r.finish(context.Background())
	if err != nil {
		return "", err
	}
	record, err := canon.Marshal(&g.Record)
	if err != nil {
		k.Fatal(err)
	}
	return string(record), nil
}

// A modelsByNumber is a live model that answers with the number of the call.
type modelsByNumber struct{ n int }

func (m *modelsByNumber) Cassette() ([]byte, error) { return []byte("{}"), nil }

func (m *modelsByNumber) Call(_ context.Context, api wire.API, body []byte, _ func(string) error) (*cassette.Interaction, error) {
	m.n++
	request, err := cassette.ModelRequest(api, body, nil)
	if err != nil {
		return nil, err
	}
	cost := int64(100 + m.n)
	reply, err := wire.Body(api, &wire.Answer{ID: fmt.Sprint(m.n), Model: "m", Text: fmt.Sprint("answer ", m.n), InputTokens: int64(m.n), OutputTokens: 2})
	if err != nil {
		return nil, err
	}
	call := &cassette.ModelCall{API: api, CostMicrodollars: &cost, Request: request.Canonical(), Usage: wire.Usage{InputTokens: int64(m.n), OutputTokens: 2}}
	call.Response.Status, call.Response.Body = 200, reply
	return &cassette.Interaction{Key: request.Key, LatencyMS: int64(10 * m.n), Model: call}, nil
}

// workedLive is the live side that a worker has: the coordinator's books.
type workedLive struct{ *books }

func (w workedLive) ToolBox(state *tools.State) session.ToolBox { return workedTools{state, w.books} }
func (workedLive) Close()                                       {}

type workedTools struct {
	*tools.State
	b *books
}

func (w workedTools) Call(ctx context.Context, name string, args []byte) (tools.Result, error) {
	if _, ok := isLive(w.State, name); ok {
		return w.b.CallTool(ctx, name, args)
	}
	return w.State.Call(ctx, name, args)
}

func asks(s *session.Session, text string) error {
	_, err := s.Model(context.Background(), "openai.chat", []byte(fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":%q}]}`, text)), nil)
	return err
}

// program is what the program under test does: models, tools that are answered, one that
// is denied, one that does not exist, a file through a tool and one of its own.
func program(t *testing.T, live bool) func(*session.Session, *session.Folder) string {
	return func(s *session.Session, f *session.Folder) string {
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		tool := func(name, args string) {
			t.Helper()
			_, err := s.Tool(context.Background(), session.ToolCall{Name: name, Args: []byte(args)})
			must(err)
		}
		must(s.StartTurn("", "go"))
		must(asks(s, "data:image/png;base64,iVBORw0KGgo="))
		if live {
			tool("pay", `{"to":"me"}`)
		}
		tool("lookup", `{"a":1}`)
		tool("lookup", `{"a":2}`)
		tool("rm", `{"all":true}`)
		tool("nothing", `{}`)
		tool("fs_write", `{"path":"new.txt","content":"x"}`)
		must(s.Event(&trajectory.TransportRequest{Host: "127.0.0.1", Method: "POST", Path: "/x", Protocol: "openai", Status: 200}))
		must(s.CompleteTurn("half"))
		must(s.StartTurn("", "on"))
		must(asks(s, "two"))
		must(os.WriteFile(filepath.Join(f.Dir, "own.txt"), []byte("y"), 0o644))
		must(s.Attempted(trajectory.SecurityEvent{Name: "agent.connect", Detail: "10.0.0.1", Severity: evidence.Warn}, "sandbox:connect"))
		must(s.CompleteTurn("done"))
		return "done"
	}
}

// lines takes a trajectory apart, as documents without what chains them.
func (k *worked) lines() []map[string]any {
	k.Helper()
	var out []map[string]any
	for line := range bytes.Lines(k.driven.Pieces[k.driven.Files.Trajectory.Digest]) {
		var doc map[string]any
		if err := canon.Unmarshal(bytes.TrimSpace(line), &doc); err != nil {
			k.Fatal(err)
		}
		out = append(out, doc)
	}
	return out
}

// chained puts a trajectory together again: a forger can, there is no secret in it.
func (k *worked) chained(lines []map[string]any) *DriveResult {
	k.Helper()
	var log bytes.Buffer
	var head digest.ID
	for i, doc := range lines {
		doc = maps.Clone(doc)
		doc["seq"], doc["prev"] = i+1, head.String()
		text, err := canon.Marshal(doc)
		if err != nil {
			k.Fatal(err)
		}
		head = digest.IDOf(text)
		log.Write(append(text, '\n'))
	}
	d := &DriveResult{Files: k.driven.Files, Isolation: k.driven.Isolation, Pieces: maps.Clone(k.driven.Pieces)}
	d.Files.Trajectory = evidence.TrajectoryFile{Digest: digest.ContentOf(log.Bytes()), Head: head}
	d.Pieces[d.Files.Trajectory.Digest] = log.Bytes()
	return d
}

// workersWord are the events that tell what only the machine saw on which the agent ran.
// docs/scale.md has them too.
var workersWord = map[string]bool{"transport_request": true, "security_event": true, "file_written": true, "file_deleted": true, "turn_completed": true, "run_failed": true, "error": true}

// TestEveryEventOfATrajectoryFollows: each event of a real trajectory is dropped,
// doubled, moved and changed in each of its members, and the chain made again, as a worker
// can. It is refused, or is what only the worker's machine saw.
func TestEveryEventOfATrajectoryFollows(t *testing.T) {
	for _, live := range []bool{false, true} {
		t.Run(fmt.Sprintf("live %t", live), func(t *testing.T) {
			k := newWorked(t, live, program(t, live))
			honest, err := k.accept(k.driven)
			if err != nil {
				t.Fatalf("an honest result: %v", err)
			}
			forged := 0
			try := func(what, kind string, lines []map[string]any) {
				t.Helper()
				forged++
				record, err := k.accept(k.chained(lines))
				switch {
				case err != nil && !refusal.Is(err, refusal.ResultRefused):
					t.Errorf("%s: %v", what, err)
				case err == nil && record != honest && !workersWord[kind]:
					t.Errorf("%s is believed", what)
				}
			}
			lines := k.lines()
			if again, err := k.accept(k.chained(lines)); err != nil || again != honest {
				t.Fatalf("put together again: %v", err)
			}
			for i, doc := range lines {
				kind := doc["type"].(string)
				if i > 0 && kind == "policy_violation" && lines[i-1]["type"] == "security_event" {
					kind = "security_event" // whether what was tried is an act says the sandbox
				}
				name := fmt.Sprintf("event %d (%s)", i+1, kind)
				try(name+" dropped", kind, append(append([]map[string]any{}, lines[:i]...), lines[i+1:]...))
				try(name+" doubled", kind, append(append([]map[string]any{}, lines[:i+1]...), lines[i:]...))
				if i+1 < len(lines) {
					moved := append([]map[string]any{}, lines...)
					moved[i], moved[i+1] = moved[i+1], moved[i]
					with := kind
					if other := lines[i+1]["type"].(string); workersWord[other] {
						with = other
					}
					try(name+" moved", with, moved)
				}
				changeMembers(doc, func(what string, changed map[string]any) {
					other := append([]map[string]any{}, lines...)
					other[i] = changed
					try(name+" "+what, kind, other)
				})
			}
			if forged < 300 {
				t.Errorf("only %d forgeries were tried", forged)
			}
		})
	}
}

// changeMembers gives a document with each of its members changed, taken away, and with
// one that it has not.
func changeMembers(doc map[string]any, try func(what string, changed map[string]any)) {
	var walk func(path string, at any, put func(any) map[string]any)
	walk = func(path string, at any, put func(any) map[string]any) {
		switch v := at.(type) {
		case map[string]any:
			for name, member := range v {
				with := func(value any) map[string]any {
					c := maps.Clone(v)
					c[name] = value
					return put(c)
				}
				without := maps.Clone(v)
				delete(without, name)
				try("without "+path+"."+name, put(without))
				walk(path+"."+name, member, with)
			}
			more := maps.Clone(v)
			more["invented"] = true
			try("with "+path+".invented", put(more))
		case []any:
			try("with a longer "+path, put(append(append([]any{}, v...), "x")))
			if len(v) > 0 {
				try("with a shorter "+path, put(v[1:]))
				walk(path+"[0]", v[0], func(value any) map[string]any { return put(append([]any{value}, v[1:]...)) })
			}
		case string:
			for _, other := range []any{v + "x", "", "0", "sha256:" + strings.Repeat("0", 64)} {
				if other != v {
					try(fmt.Sprintf("with %s %.30v", path, other), put(other))
				}
			}
		case bool:
			try("with another "+path, put(!v))
		case nil:
			try("with "+path, put("x"))
		default:
			for _, other := range []int{0, 1, 1000000} {
				try(fmt.Sprintf("with %s %d", path, other), put(other))
			}
		}
	}
	walk("", doc, func(v any) map[string]any { return v.(map[string]any) })
}

// saidByWorkers are the members of a result that do not follow from plan and trajectory.
// docs/scale.md has them too.
var saidByWorkers = []string{".isolation", ".files.diff"}

// TestEveryMemberOfAResultFollows: each member of a real result is changed, dropped and
// invented. It is refused, or makes no difference to the record.
func TestEveryMemberOfAResultFollows(t *testing.T) {
	k := newWorked(t, false, program(t, false))
	honest, err := k.accept(k.driven)
	if err != nil {
		t.Fatal(err)
	}
	data, err := canon.Marshal(k.driven)
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := canon.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	forged := 0
	changeMembers(doc, func(what string, changed map[string]any) {
		forged++
		text, err := canon.Marshal(changed)
		if err != nil {
			return
		}
		d := &DriveResult{Pieces: k.driven.Pieces}
		if canon.Unmarshal(text, d) != nil {
			return // the coordinator refuses what it cannot read
		}
		record, err := k.accept(d)
		if err == nil && record != honest {
			for _, said := range saidByWorkers {
				if strings.Contains(what, said) {
					return
				}
			}
			t.Errorf("%s is believed", what)
		}
	})
	if forged < 50 {
		t.Errorf("only %d forgeries were tried", forged)
	}
	for _, isolation := range []string{"", "none", "microvm", "remote", "GVISOR", "builtin"} {
		d := *k.driven
		d.Isolation = isolation
		if _, err := k.accept(&d); !refusal.Is(err, refusal.ResultRefused) {
			t.Errorf("the isolation %q, which the plan does not accept: %v", isolation, err)
		}
	}
}

// TestIsolationFollowsFromThePlan: for each kind of target there is what the plan accepts,
// and whatever else a worker says is refused. That no sandbox was there yet is believed
// only of a program whose run broke off.
func TestIsolationFollowsFromThePlan(t *testing.T) {
	for kind, accepted := range map[agent.Kind]string{agent.KindBuiltin: "", agent.KindHTTP: "remote", agent.KindCommand: "gvisor"} {
		for _, said := range []string{"", "remote", "gvisor", "namespace", "microvm", "none", "builtin", "Gvisor", "gvisor "} {
			for _, stop := range []*session.Stop{nil, {}} {
				cfg := Config{Target: &agent.Target{Kind: kind}}
				r := &run{w: &Worker{cfg: cfg, rubrics: newRubrics(cfg, bench.Isolation{Classes: []string{"gvisor"}})}, remote: &DriveResult{Isolation: said}}
				r.result.Stop = stop
				want := said == accepted || kind == agent.KindCommand && said == "" && stop != nil
				if err := r.isolationFits(); err == nil != want || err != nil && !refusal.Is(err, refusal.ResultRefused) {
					t.Errorf("%s, said to have run in %q, stopped %t: %v", kind, said, stop != nil, err)
				}
			}
		}
	}
}

// TestLiveCallsAreThoseOfTheBooks: a reply that the coordinator gave is in the trajectory
// as it gave it, once, in that order.
func TestLiveCallsAreThoseOfTheBooks(t *testing.T) {
	k := newWorked(t, true, program(t, true))
	for name, change := range map[string]func(*books){
		"a call that was made and is not told": func(b *books) {
			b.calls = append(b.calls, &booked{request: digest.ContentOf(nil), asked: 100})
		},
		"the same call made again, and not told": func(b *books) { again := *b.calls[0]; b.calls = append(b.calls, &again) },
		"a call that was not made":               func(b *books) { b.calls = b.calls[:1] },
		"calls in another order": func(b *books) {
			b.calls[0].asked, b.calls[0].answered, b.calls[1].asked, b.calls[1].answered = 3, 4, 1, 2
		},
		"a tool that was called and is not told": func(b *books) { b.tools = append(b.tools, &bookedTool{name: "pay"}) },
		"a tool that was not called":             func(b *books) { b.tools = nil },
		"another result of a tool":               func(b *books) { b.tools[0].result.JSON = []byte(`"not paid"`) },
		"a finding that is not told": func(b *books) {
			b.tools[0].result.Findings = []tools.Finding{{Name: "x", Detail: "y", Severity: evidence.Warn}}
		},
		"a tool that failed": func(b *books) { b.tools[0].err = errors.New("no answer") },
		"other arguments":    func(b *books) { b.tools[0].args = []byte(`{"to":"you"}`) },
		"another reply":      func(b *books) { b.calls[0].it, b.calls[1].it = b.calls[1].it, b.calls[0].it },
		"another cost":       func(b *books) { c := int64(1); b.calls[0].it = withCost(b.calls[0].it, &c) },
		"a call that failed": func(b *books) { b.calls[0].it, b.calls[0].err = nil, errors.New("no answer") },
	} {
		kept := k.heard
		other := &books{}
		for _, c := range kept.calls {
			again := *c
			other.calls = append(other.calls, &again)
		}
		for _, c := range kept.tools {
			again := *c
			again.told = false
			other.tools = append(other.tools, &again)
		}
		change(other)
		k.heard = other
		if _, err := k.accept(k.driven); !refusal.Is(err, refusal.ResultRefused) {
			t.Errorf("%s: %v", name, err)
		}
		k.heard = kept
	}
	if _, err := k.accept(k.driven); err != nil {
		t.Error(err)
	}
}

func withCost(it *cassette.Interaction, cost *int64) *cassette.Interaction {
	m := *it.Model
	m.CostMicrodollars = cost
	other := *it
	other.Model = &m
	return &other
}
