package session

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"
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

var allowAll = policy.Policy{Mode: policy.Autonomous, MaxToolCalls: 1_000_000, MaxCostMicroUSD: 1_000_000}

// manyArgs are so many arguments of so many bytes each.
func manyArgs(count, size int) []byte {
	args := map[string]string{}
	for i := range count {
		args[fmt.Sprintf("a%06d", i)] = strings.Repeat("\"", size)
	}
	data, _ := json.Marshal(args)
	return data
}

// Whatever an agent sends ends its own case at most, never the attempt, and
// leaves a trajectory that verifies and has an end.
func TestWhatAnAgentSendsEndsItsCaseAtMost(t *testing.T) {
	tool := func(name string, args []byte) func(*Session) error {
		return func(s *Session) error {
			_, err := s.Tool(context.Background(), ToolCall{Name: name, Args: args})
			return err
		}
	}
	model := func(body string) func(*Session) error {
		return func(s *Session) error {
			_, err := s.Model(context.Background(), wire.OpenAIChat, []byte(body), nil)
			return err
		}
	}
	memory := func(w MemoryWrite) func(*Session) error {
		return func(s *Session) error {
			_, _, err := s.WriteMemory(context.Background(), w)
			return err
		}
	}
	long := strings.Repeat("x", 2<<20)
	for name, act := range map[string]func(*Session) error{
		"a model without a name":      model(`{"model":"","messages":[]}`),
		"no model":                    model(`{}`),
		"a model that is a number":    model(`{"model":7}`),
		"a long model":                model(`{"model":"` + long + `"}`),
		"messages that are a number":  model(`{"model":"m","messages":7}`),
		"deep nesting":                model(`{"model":"m","x":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `}`),
		"deeper nesting":              model(`{"model":"m","x":` + strings.Repeat("[", 200_000) + strings.Repeat("]", 200_000) + `}`),
		"not UTF-8":                   model("{\"model\":\"m\xff\"}"),
		"150 arguments of 8,000":      tool("look", manyArgs(150, 4000)),
		"5,000 arguments":             tool("look", manyArgs(5000, 100)),
		"900 arguments over 8 KiB":    tool("look", manyArgs(900, 9000)),
		"a long name of an argument":  tool("look", []byte(`{"`+long+`":1}`)),
		"control characters":          tool("look", []byte(`{"a":"`+strings.Repeat(`\u0001`, 200_000)+`"}`)),
		"arguments not UTF-8":         tool("look", []byte("{\"a\":\"\xff\"}")),
		"arguments that are not JSON": tool("look", []byte(long)),
		"deep arguments":              tool("look", []byte(`{"a":`+strings.Repeat("[", 9000)+strings.Repeat("]", 9000)+`}`)),
		"a long tool":                 tool(long, nil),
		"no tool":                     tool("", nil),
		"a tool not UTF-8":            tool("\xff", nil),
		"a long memory key":           memory(MemoryWrite{Tier: trajectory.Semantic, Key: long, Value: "v", Source: "user", Confidence: 1}),
		"no memory key":               memory(MemoryWrite{Tier: trajectory.Semantic, Value: "v", Source: "user", Confidence: 1}),
		"a memory of no tier":         memory(MemoryWrite{Tier: "x", Key: "k", Value: "v", Source: "user", Confidence: 7}),
		"a plan of nothing":           func(s *Session) error { return s.Plan("") },
		"a long hand-off": func(s *Session) error {
			_, err := s.Handoff(context.Background(), long, long, long)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, allowAll, []tools.Definition{fixture("look", policy.Read, `{}`)}, func(c *Config) {
				c.Models = NewScript(authored(scenario.Reply{Text: "yes", Repeat: true}))
			})
			err := act(s)
			r := s.Complete("done", false)
			if r.Stop != nil && r.Stop.Kind == Broken {
				t.Errorf("ends the attempt: %v", r.Stop)
			}
			v, verr := trajectory.Verify(r.Trajectory, trajectory.HeadIs(r.Head))
			if verr != nil || !v.Complete() {
				t.Errorf("after %v the trajectory: %v", err, verr)
			}
		})
	}
}

func TestBudgetsOfACaseTruncateIt(t *testing.T) {
	look := []tools.Definition{fixture("look", policy.Read, `{}`)}
	deny := allowAll
	deny.Deny = []string{"look"}
	for _, tt := range []struct {
		name   string
		limits Limits
		policy policy.Policy
		args   func(i int) []byte
		want   string
	}{
		{"kept bytes", Limits{KeptBytes: 1 << 20}, allowAll, func(i int) []byte { return fmt.Appendf(nil, `{"i":%d,"a":%q}`, i, strings.Repeat("x", 100_000)) }, "kept_bytes"},
		{"kept bytes of small calls", Limits{KeptBytes: 1 << 20}, allowAll, func(i int) []byte { return fmt.Appendf(nil, `{"i":%d}`, i) }, "kept_bytes"},
		{"events", Limits{Events: 100}, allowAll, func(i int) []byte { return []byte(`{}`) }, "events"},
		{"read bytes", Limits{ReadBytes: 1 << 20}, allowAll, func(i int) []byte { return fmt.Appendf(nil, `{"a":%q}`, strings.Repeat("x", 100_000)) }, "read_bytes"},
		{"denied calls", Limits{ReadBytes: 10 << 20}, deny, func(i int) []byte { return fmt.Appendf(nil, `{"i":%d,"a":%q}`, i, strings.Repeat("x", 1<<20)) }, "read_bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := start(t, tt.policy, look, func(c *Config) { c.Limits = tt.limits })
			var err error
			for i := 0; i < 10_000 && err == nil; i++ {
				_, err = s.Tool(context.Background(), ToolCall{Name: "look", Args: tt.args(i)})
			}
			r := s.Complete("a quiet score", false)
			if r.Stop == nil || r.Stop.Kind != Truncated || !strings.Contains(r.Stop.Error(), tt.want) {
				t.Fatalf("not truncated by %s: %v", tt.want, r.Stop)
			}
			kept := len(r.Trajectory)
			for _, text := range r.Contents {
				kept += len(text)
			}
			if kept > 2<<20 {
				t.Errorf("%d bytes are kept", kept)
			}
			if events := types(t, r); events[len(events)-2] != "limit_reached" || events[len(events)-1] != "run_failed" {
				t.Errorf("events end with %v", events[len(events)-2:])
			}
		})
	}
}

func TestActsCountWhenTheBudgetIsSpent(t *testing.T) {
	s := start(t, allowAll, []tools.Definition{fixture("look", policy.Read, `{}`)}, func(c *Config) { c.Limits = Limits{Events: 10} })
	var err error
	for err == nil {
		_, err = s.Tool(context.Background(), ToolCall{Name: "look"})
	}
	if err := s.Attempted(trajectory.SecurityEvent{Name: "agent.file", Severity: "warn", Detail: "open"}, "sandbox:hidden_file"); err != nil {
		t.Error(err)
	}
	if r := s.Fail(err); r.Counts.Violations != 1 {
		t.Errorf("%d violations, want 1", r.Counts.Violations)
	}
}

// However many cases want memory, some of them always gets on.
func TestCasesShareMemoryWithoutADeadlock(t *testing.T) {
	m := NewMemory()
	var cases sync.WaitGroup
	for range 5 {
		cases.Go(func() {
			s := start(t, allowAll, nil, func(c *Config) { c.Memory = m })
			for i := range 5 {
				free := s.Weigh(8 << 20)
				if err := s.Plan(fmt.Sprint(i) + strings.Repeat("x", 8<<20)); err != nil {
					t.Error(err)
				}
				free()
			}
			s.Complete("", false).Free()
		})
	}
	done := make(chan struct{})
	go func() { cases.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("they wait for each other")
	}
	if m.kept != 0 || m.flying != 0 || len(m.seats) != 0 {
		t.Errorf("%d bytes kept, %d flying, %d seats left", m.kept, m.flying, len(m.seats))
	}
}

// A secret of few possible values could be found by hashing each of them, if
// any digest were that of the text with it.
func TestDigestsDoNotTellSecrets(t *testing.T) {
	const token = "sk-tally-0123456789abcdef0123456789abcdef"
	guess := func(i int) string { return fmt.Sprintf(`password: "Tr0ub4dor-%04d"`, i) }
	secret := guess(4711)
	s := start(t, allowAll, []tools.Definition{fixture("look", policy.Read, `{}`)}, func(c *Config) {
		c.Models = NewScript(authored(scenario.Reply{Text: "it is " + secret, Repeat: true}))
	})
	if err := s.Hide(token); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("word ", 5000) + secret
	args, _ := json.Marshal(map[string]string{"a": secret, "b": long})
	body, _ := json.Marshal(map[string]any{"model": "m", "messages": []map[string]string{{"role": "user", "content": secret + token}}})
	texts := []string{secret, long, string(args), string(body), "answer " + secret, "plan " + secret, token}
	for _, err := range []error{s.StartTurn("", secret), s.Plan("plan " + secret), s.CompleteTurn(long), s.StartTurn("", token)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Tool(context.Background(), ToolCall{Name: "look", Args: args}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Model(context.Background(), wire.OpenAIChat, body, nil); err != nil {
		t.Fatal(err)
	}
	r := s.Complete("answer "+secret, false)
	kept := string(r.Trajectory) + r.Plan
	for d, text := range r.Contents {
		kept += d.String() + string(text)
		if digest.ContentOf(text) != d {
			t.Errorf("%s is kept under another name", d)
		}
	}
	for _, text := range texts {
		if strings.Contains(kept, digest.ContentOf([]byte(text)).String()) {
			t.Errorf("the digest of %.40q is kept", text)
		}
	}
	for _, leak := range []string{"Tr0ub4dor", token, token[9:]} {
		if strings.Contains(kept, leak) {
			t.Errorf("%q is kept", leak)
		}
	}
	if !strings.Contains(kept, `"redacted":true`) {
		t.Error("nothing says that it was redacted")
	}
}

// Whatever an event says, in whichever member, is said without the secrets of the
// case. It holds for types of events that are still to come: none is named here.
func TestNoMemberOfAnEventKeepsTheToken(t *testing.T) {
	const token = "sk-tally-3f9a1c07be52d8846a0b17e9c35df20847a6be91d05c328f"
	for _, spelled := range []string{token, token[9:], strings.ToUpper(token), strings.Join(strings.Split(token, ""), "."), `\u0073k` + token[2:], "%73%6b" + token[2:]} {
		for _, kind := range trajectory.Types() {
			s := start(t, allowAll, nil, nil)
			if err := s.Hide(token); err != nil {
				t.Fatal(err)
			}
			p := trajectory.NewPayload(kind)
			marked := markStrings(reflect.ValueOf(p).Elem(), spelled)
			clean, _, err := s.clean(p)
			if err != nil {
				t.Fatalf("%s: %v", kind, err)
			}
			text, err := canon.Marshal(clean)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(strings.ToLower(strings.NewReplacer(".", "", "-", "").Replace(string(text))), token[15:]) {
				t.Errorf("%s: %s", kind, text)
			}
			if marked > 0 && !strings.Contains(string(text), "[redacted:openai-key]") {
				t.Errorf("%s has %d texts, and none is marked: %s", kind, marked, text)
			}
		}
	}
}

// markStrings puts a text into every string of a struct, and counts them.
func markStrings(v reflect.Value, text string) (n int) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
		return 1
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				n += markStrings(v.Field(i), text)
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return markStrings(v.Elem(), text)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.String {
			v.Set(reflect.Append(v, reflect.New(v.Type().Elem()).Elem()))
			return markStrings(v.Index(0), text)
		}
	}
	return n
}

// A request that carries the token is the same request in every run, and goes on
// without it.
func TestTheTokenHasNoPartInTheKeyOfARequest(t *testing.T) {
	var keys []string
	for _, token := range []string{"sk-tally-" + strings.Repeat("3f9a", 12), "sk-tally-" + strings.Repeat("b1c7", 12)} {
		var asked []byte
		s := start(t, allowAll, nil, func(c *Config) {
			c.Models = modelsFunc(func(body []byte) { asked = body })
		})
		if err := s.Hide(token); err != nil {
			t.Fatal(err)
		}
		body := `{"model":"m-` + token + `","messages":[{"role":"user","content":"\u0073` + token[1:] + `"}]}`
		if _, err := s.Model(context.Background(), wire.OpenAIChat, []byte(body), nil); err != nil {
			t.Fatal(err)
		}
		r := s.Complete("done", false)
		for e := range r.Verified.Events() {
			if p, ok := e.Payload.(*trajectory.ModelCallStarted); ok {
				keys = append(keys, p.Request.String())
			}
		}
		if strings.Contains(string(asked), token[9:]) || strings.Contains(string(r.Trajectory), token[9:]) {
			t.Errorf("the model is asked %s", asked)
		}
	}
	if len(keys) != 2 || keys[0] != keys[1] {
		t.Errorf("the requests are %v", keys)
	}
}

// modelsFunc sees what goes on to a model.
type modelsFunc func(body []byte)

func (f modelsFunc) Call(_ context.Context, api wire.API, body []byte, _ func(string) error) (*cassette.Interaction, error) {
	f(body)
	request, err := cassette.ModelRequest(api, body, nil)
	if err != nil {
		return nil, err
	}
	return &cassette.Interaction{Key: request.Key, Model: &cassette.ModelCall{API: api, Request: request.Canonical(), Response: cassette.Response{Status: 200, Body: []byte(`{}`)}}}, nil
}
