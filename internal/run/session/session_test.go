package session

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/policy"
	"tallystick/internal/run/scenario"
	"tallystick/internal/run/tools"
	"tallystick/internal/run/trajectory"
	"tallystick/internal/run/wire"
)

// start makes a session of a policy and tools, with a folder if files are
// given.
func start(t *testing.T, p policy.Policy, defs []tools.Definition, change func(*Config)) *Session {
	t.Helper()
	rules, err := policy.Compile(p)
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Run: trajectory.RunStarted{Attempt: "a.b.1", Case: "c", Class: "a", Target: "b", Repeat: 1, Execution: 1}, Rules: rules, Source: "authored"}
	if change != nil {
		change(&cfg)
	}
	dir := ""
	if cfg.Folder != nil {
		dir = cfg.Folder.Dir
	}
	if cfg.Tools, err = tools.New(defs, dir, nil, nil); err != nil {
		t.Fatal(err)
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func fixture(name string, class policy.Class, result string) tools.Definition {
	raw := canon.RawMessage(result)
	return tools.Definition{Name: name, Class: class, Replies: []tools.Reply{{Result: &raw}}}
}

// types lists the types of the events of a session that has ended.
func types(t *testing.T, r Result) []string {
	t.Helper()
	v, err := trajectory.Verify(r.Trajectory, trajectory.HeadIs(r.Head))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for e := range v.Events() {
		out = append(out, string(e.Type))
	}
	return out
}

func wantTypes(t *testing.T, r Result, want string) {
	t.Helper()
	if got := strings.Join(types(t, r), " "); got != want {
		t.Errorf("events\n got %s\nwant %s", got, want)
	}
}

func TestToolPassesThePolicyAndLeavesEvents(t *testing.T) {
	p := policy.Policy{Mode: policy.Restricted, Allow: []string{"look"}, MaxToolCalls: 10, MaxCostMicroUSD: 10}
	s := start(t, p, []tools.Definition{fixture("look", policy.Read, `{"found":1}`), fixture("pay", policy.Financial, `{}`)}, nil)
	reply, err := s.Tool(context.Background(), ToolCall{Name: "look", Args: []byte(`{"q":"x"}`)})
	if err != nil || reply.Text != `{"found":1}` || reply.Denied {
		t.Fatalf("%+v, %v", reply, err)
	}
	reply, err = s.Tool(context.Background(), ToolCall{Name: "pay", Args: []byte(`{}`)})
	if err != nil || !reply.Denied || !strings.Contains(reply.Text, "denied by policy") {
		t.Fatalf("a tool outside the allow list was not denied: %+v, %v", reply, err)
	}
	r := s.Complete("done", false)
	wantTypes(t, r, "run_started tool_proposed policy_decision tool_executed tool_proposed policy_decision policy_violation run_completed")
	if r.Counts.Violations != 1 {
		t.Errorf("%d violations, want 1", r.Counts.Violations)
	}
}

func TestEscalationIsAnsweredByTheCaseThenSuspends(t *testing.T) {
	p := policy.Policy{Mode: policy.Approved, MaxToolCalls: 10, MaxCostMicroUSD: 10}
	s := start(t, p, []tools.Definition{fixture("send", policy.Write, `{"ok":true}`)}, func(c *Config) {
		c.Approvals = []scenario.Approval{{Action: policy.Tool, Name: "send", Approve: true, Times: 1}}
	})
	if reply, err := s.Tool(context.Background(), ToolCall{Name: "send", Args: []byte(`{}`)}); err != nil || reply.Denied {
		t.Fatalf("%+v, %v", reply, err)
	}
	_, err := s.Tool(context.Background(), ToolCall{Name: "send", Args: []byte(`{}`)})
	var stop *Stop
	if !errors.As(err, &stop) || stop.Kind != Suspended {
		t.Fatalf("the second call was not suspended: %v", err)
	}
	// A driver that swallows the stop cannot go on.
	if _, again := s.Tool(context.Background(), ToolCall{Name: "send", Args: []byte(`{}`)}); !errors.Is(again, stop) {
		t.Errorf("went on after the stop: %v", again)
	}
	wantTypes(t, s.Complete("anyway", false), "run_started tool_proposed policy_decision approval_requested approval_resolved policy_decision tool_executed "+
		"tool_proposed policy_decision approval_requested run_completed")
}

func TestAPersonAnswersWhatTheCaseDoesNot(t *testing.T) {
	p := policy.Policy{Mode: policy.Approved, MaxToolCalls: 10, MaxCostMicroUSD: 10}
	s := start(t, p, []tools.Definition{fixture("send", policy.Write, `{"ok":true}`)}, func(c *Config) {
		c.Person = func(_ context.Context, q Question) (bool, bool, error) {
			return q.Name != "send", true, nil
		}
	})
	reply, err := s.Tool(context.Background(), ToolCall{Name: "send", Args: []byte(`{}`)})
	if err != nil || !reply.Denied {
		t.Fatalf("refused by a person, yet %+v, %v", reply, err)
	}
}

func TestAutonomousModeRollsTheFolderBack(t *testing.T) {
	folder, err := NewFolder(filepath.Join(t.TempDir(), "work"), []digest.File{{Path: "a.txt", Data: []byte("one\n")}, {Path: "d/b.txt", Data: []byte("two\n")}})
	if err != nil {
		t.Fatal(err)
	}
	// The second call is one too many, and it has written by then.
	p := policy.Policy{Mode: policy.Autonomous, MaxToolCalls: 1, MaxCostMicroUSD: 10}
	write := tools.Definition{Name: "fs_write", Source: tools.Folder}
	s := start(t, p, []tools.Definition{write}, func(c *Config) { c.Folder = folder })
	for i, text := range []string{"kept", "rolled back"} {
		args, _ := json.Marshal(map[string]string{"path": "a.txt", "text": text})
		if reply, err := s.Tool(context.Background(), ToolCall{Name: "fs_write", Args: args}); err != nil || reply.IsError {
			t.Fatalf("call %d: %+v, %v", i+1, reply, err)
		}
	}
	got, err := os.ReadFile(filepath.Join(folder.Dir, "a.txt"))
	if err != nil || string(got) != "kept" {
		t.Errorf("a.txt is %q, %v; want what the first call wrote", got, err)
	}
	r := s.Complete("", false)
	if r.Counts.Rollbacks != 1 || r.Counts.RollbacksIdentical != 1 {
		t.Errorf("counts %+v", r.Counts)
	}
	wantTypes(t, r, "run_started tool_proposed policy_decision tool_executed file_written tool_proposed policy_decision tool_executed file_written policy_violation checkpoint_saved rollback run_completed")
	changes, err := folder.Changes()
	if err != nil || len(changes) != 1 || changes[0].Path() != "a.txt" {
		t.Errorf("changes %+v, %v", changes, err)
	}
}

func TestLimitsTruncate(t *testing.T) {
	for _, tt := range []struct {
		name   string
		limits Limits
		want   string
	}{
		{"turns", Limits{Turns: 1}, "turns"},
		{"tokens", Limits{Tokens: 5}, "tokens"},
		{"cost", Limits{CostMicroUSD: 3}, "cost_microdollars"},
		{"logical time", Limits{Wall: time.Second}, "wall_clock_ms"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			replies := []scenario.Reply{{Text: "yes", Repeat: true, TokensIn: 4, TokensOut: 4, CostMicroUSD: 5, LatencyMS: 1500}}
			s := start(t, policy.Policy{Mode: policy.Autonomous, MaxToolCalls: 10, MaxCostMicroUSD: 100}, nil, func(c *Config) {
				c.Models, c.Limits = NewScript(authored(replies...)), tt.limits
			})
			body := []byte(`{"model":"m","messages":[{"role":"user","content":"hi"}]}`)
			var err error
			for i := 0; i < 2 && err == nil; i++ {
				if err = s.StartTurn("", "hi"); err == nil {
					_, err = s.Model(context.Background(), wire.OpenAIChat, body, nil)
				}
			}
			var stop *Stop
			if !errors.As(err, &stop) || stop.Kind != Truncated || !strings.Contains(stop.Error(), tt.want) {
				t.Fatalf("not truncated by %s: %v", tt.want, err)
			}
			r := s.Complete("a quiet score", false)
			events := types(t, r)
			if n := len(events); events[n-2] != "limit_reached" || events[n-1] != "run_failed" {
				t.Errorf("events end with %v", events[n-2:])
			}
		})
	}
}

func TestModelCallsOfEveryAPIAreAnswered(t *testing.T) {
	for api, body := range map[wire.API]string{
		wire.OpenAIChat:        `{"model":"m","messages":[{"role":"user","content":"hi there"}]}`,
		wire.OpenAIResponses:   `{"model":"m","input":"hi there"}`,
		wire.AnthropicMessages: `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi there"}]}`,
	} {
		t.Run(string(api), func(t *testing.T) {
			s := start(t, policy.Policy{Mode: policy.Autonomous, MaxToolCalls: 10, MaxCostMicroUSD: 100}, nil, func(c *Config) {
				c.Models = NewScript(authored(
					scenario.Reply{When: &scenario.When{Contains: "never asked"}, Text: "no"},
					scenario.Reply{When: &scenario.When{Last: "hi there"}, Text: "hello", ToolCalls: []scenario.Call{{Name: "look", Args: &map[string]any{"q": "x"}}}},
				))
			})
			var chunks []string
			it, err := s.Model(context.Background(), api, []byte(body), func(c string) error { chunks = append(chunks, c); return nil })
			if err != nil {
				t.Fatal(err)
			}
			whole, err := wire.BodyOfStream(api, chunks)
			if err != nil || string(whole) != string(it.Model.Response.Body) {
				t.Errorf("the stream says %s (%v), the body %s", whole, err, it.Model.Response.Body)
			}
			v, err := trajectory.Verify(s.Complete("", false).Trajectory, trajectory.UnsafeAnyHead())
			if err != nil {
				t.Fatal(err)
			}
			for e := range v.Events() {
				if p, ok := e.Payload.(*trajectory.ModelCallCompleted); ok && !(strings.Contains(p.Output.Head, `"hello"`) && strings.Contains(p.Output.Head, `"look"`)) {
					t.Errorf("the event says %q", p.Output.Head)
				}
			}
			// The reply is used up.
			if _, err := s.Model(context.Background(), api, []byte(body), nil); err == nil {
				t.Error("a call after the end was answered")
			}
		})
	}
}

func TestSecretsDoNotReachEvents(t *testing.T) {
	const secret = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGH"
	p := policy.Policy{Mode: policy.Autonomous, MaxToolCalls: 10, MaxCostMicroUSD: 100}
	s := start(t, p, []tools.Definition{fixture("look", policy.Read, `{"key":"`+secret+`"}`)}, nil)
	if err := s.StartTurn("", "my key is "+secret); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Tool(context.Background(), ToolCall{Name: "look", Args: []byte(`{"key":"` + secret + `"}`)}); err != nil {
		t.Fatal(err)
	}
	r := s.Complete("it is "+secret, false)
	if strings.Contains(string(r.Trajectory), secret) {
		t.Error("the trajectory holds the secret")
	}
	for _, text := range r.Contents {
		if strings.Contains(string(text), secret) {
			t.Error("the kept contents hold the secret")
		}
	}
}

func TestLongTextsAreKeptByDigest(t *testing.T) {
	s := start(t, policy.Policy{Mode: policy.Autonomous, MaxToolCalls: 10, MaxCostMicroUSD: 100}, nil, nil)
	long := strings.Repeat("word ", 10_000)
	if err := s.StartTurn("", long); err != nil {
		t.Fatal(err)
	}
	r := s.Complete("", false)
	if got := string(r.Contents[digest.ContentOf([]byte(long))]); got != long {
		t.Errorf("kept %d bytes, want %d", len(got), len(long))
	}
}

func TestMemoryWritesAskThePolicy(t *testing.T) {
	p := policy.Policy{Mode: policy.Restricted, Allow: []string{"look"}, MaxToolCalls: 10, MaxCostMicroUSD: 100}
	s := start(t, p, nil, nil)
	entry, d, err := s.WriteMemory(context.Background(), MemoryWrite{Tier: trajectory.Semantic, Key: "k", Value: "v", Source: "user", Confidence: 1})
	if err != nil || entry != "" || d.Permits() {
		t.Fatalf("a write that nothing allows: %q, %v, %v", entry, d, err)
	}
	p.Allow = []string{"action:memory_write"}
	s = start(t, p, nil, nil)
	entry, d, err = s.WriteMemory(context.Background(), MemoryWrite{Tier: trajectory.Semantic, Key: "k", Value: "v", Source: "user", Confidence: 1})
	if err != nil || entry == "" || !d.Permits() {
		t.Fatalf("an allowed write: %q, %v, %v", entry, d, err)
	}
	wantTypes(t, s.Complete("", false), "run_started memory_proposed policy_decision memory_written run_completed")
}

// authored are replies of the agent's model.
func authored(replies ...scenario.Reply) scenario.Authored {
	return (&scenario.Scenario{Model: replies}).RepliesFor(cassette.ForAgent)
}

// TestEveryLimitNamesItsSetting: a reader of a case that a limit of the registration
// stopped is told which member sets it.
func TestEveryLimitNamesItsSetting(t *testing.T) {
	for _, name := range []string{"turns", "tokens", "cost_microdollars", "wall_clock_ms", "kept_bytes", "events", "read_bytes"} {
		if _, known := (Limits{}).named(name); !known {
			t.Errorf("%s is not a limit", name)
		}
		if err := LimitError(name, 7); !strings.Contains(err.Error(), "the limit of 7 "+name+" is reached (limits.") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := LimitError("files", 7); err.Error() != "the limit of 7 files is reached" {
		t.Errorf("a limit that no registration sets: %v", err)
	}
}
