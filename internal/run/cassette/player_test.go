package cassette

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/wire"
)

// record keeps model calls of openai.chat, each answered with its number.
func record(t testing.TB, requests ...string) *Cassette {
	t.Helper()
	r := mustRecorder(t, RecorderOptions{})
	for i, q := range requests {
		if _, err := r.Model(ModelTraffic{API: wire.OpenAIChat, Request: []byte(q), Status: 200, Body: fmt.Appendf(nil, `{"n":%d}`, i)}); err != nil {
			t.Fatal(err)
		}
	}
	return mustCassette(t, r)
}

func TestEqualRequestsGetTheirRecordingsInOrder(t *testing.T) {
	other := `{"model":"m","messages":[{"role":"user","content":"x"}]}`
	p := NewPlayer(record(t, chatRequest, other, chatRequest))
	for i, want := range []struct{ request, body string }{{chatRequest, `{"n":0}`}, {chatRequest, `{"n":2}`}, {other, `{"n":1}`}} {
		it, err := p.Next(mustModel(t, wire.OpenAIChat, want.request))
		if err != nil {
			t.Fatal(err)
		}
		if string(it.Model.Response.Body) != want.body {
			t.Errorf("call %d: got %s, want %s", i, it.Model.Response.Body, want.body)
		}
	}
	_, err := p.Next(mustModel(t, wire.OpenAIChat, chatRequest))
	requireRefusal(t, err, refusal.CassetteMiss, "asked for time 3, recorded 2 times")
	var miss *Miss
	if !errors.As(err, &miss) || miss.Equal != 2 {
		t.Errorf("%+v", miss)
	}
}

func TestRequestShowsItsCanonicalForm(t *testing.T) {
	tool, err := ToolRequest("f", []byte(`{"b":1, "a":2}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	mcp, err := MCPRequest("s", "m", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if string(tool.Canonical()) != `{"a":2,"b":1}` || mcp.Canonical() != nil || string(mustModel(t, wire.OpenAIChat, `{"stream":true,"model":"m"}`).Canonical()) != `{"model":"m"}` || (Request{}).Canonical() != nil {
		t.Errorf("%s, %s", tool.Canonical(), mcp.Canonical())
	}
}

func TestUnusedRecordingsAreTold(t *testing.T) {
	p := NewPlayer(mustCassette(t, smallRecorder(t)))
	if _, err := p.Next(mustModel(t, wire.OpenAIChat, chatRequest)); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, it := range p.Unused() {
		got = append(got, fmt.Sprint(it.Describe(), " ", it.Ordinal))
	}
	if want := "model call openai.chat gpt-4o 1|tool call list 0|MCP files tools/call 0"; strings.Join(got, "|") != want {
		t.Errorf("got %q, want %q", got, want)
	}
	tool, err := ToolRequest("list", []byte(`{"path":"."}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	mcp, err := MCPRequest("files", "tools/call", []byte(`{"name":"read","_meta":{"progressToken":9}}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []Request{tool, mcp, mustModel(t, wire.OpenAIChat, chatRequest)} {
		if _, err := p.Next(r); err != nil {
			t.Error(err)
		}
	}
	if rest := p.Unused(); rest != nil {
		t.Errorf("%d are unused", len(rest))
	}
}

func TestMissShowsTheNearestRecordingAndTheFirstDifference(t *testing.T) {
	long := strings.Repeat("page after page. ", 100)
	turn := func(last string) string {
		return `{"model":"m","temperature":0,"messages":[{"role":"system","content":"s"},{"role":"user","content":` + string(canon.AppendString(nil, last)) + `}]}`
	}
	for _, tt := range []struct {
		name           string
		recorded       []string
		asked          string
		nearest        int
		path           string
		askedHead      string
		recordedHead   string
		recordedPrefix bool
	}{
		{"one word", []string{`{"model":"other"}`, turn("npm ls")}, turn("npm view axios"), 1, "messages[1].content", `"npm view axios"`, `"npm ls"`, false},
		{"far inside a text", []string{turn(long + "A")}, turn(long + "B"), 0, "messages[1].content", `…"`, `…"`, true},
		{"a turn more", []string{turn("a"), turn("b")}, strings.Replace(turn("b"), `"}]`, `"},{"role":"user","content":"c"}]`, 1), 1, "messages[2]", `{"content":"c","role":"user"}`, "nothing", false},
		{"a field less", []string{turn("a")}, strings.Replace(turn("a"), `"temperature":0,`, ``, 1), 0, "temperature", "nothing", "0", false},
		{"another type", []string{turn("a")}, strings.Replace(turn("a"), `"temperature":0`, `"temperature":"0"`, 1), 0, "temperature", `"0"`, "0", false},
		{"terminal control", []string{turn("a")}, turn("\x1b[2J::set-output"), 0, "messages[1].content", `"\x1b[2J::set-output"`, `"a"`, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := NewPlayer(record(t, tt.recorded...)).Next(mustModel(t, wire.OpenAIChat, tt.asked))
			requireRefusal(t, err, refusal.CassetteMiss, "replay does not go to the network")
			var m *Miss
			if !errors.As(err, &m) {
				t.Fatal("not a *Miss")
			}
			if m.Nearest != tt.nearest || m.Path != tt.path {
				t.Errorf("nearest %d at %s, want %d at %s", m.Nearest, m.Path, tt.nearest, tt.path)
			}
			if tt.recordedPrefix {
				if !strings.HasPrefix(m.Asked, tt.askedHead) || !strings.Contains(m.Asked, `B" (from byte`) || !strings.Contains(m.Recorded, `A" (from byte`) || len(m.Asked) > 200 {
					t.Errorf("asked %s, recorded %s", m.Asked, m.Recorded)
				}
			} else if m.Asked != tt.askedHead || m.Recorded != tt.recordedHead {
				t.Errorf("asked %s, recorded %s, want %s and %s", m.Asked, m.Recorded, tt.askedHead, tt.recordedHead)
			}
			if strings.ContainsAny(err.Error(), "\x1b\n") || len(err.Error()) > 1000 {
				t.Errorf("not safe to print: %q", err)
			}
		})
	}
}

func TestMissOfAnEmptyCassetteAndOfOtherKinds(t *testing.T) {
	_, err := NewPlayer(record(t)).Next(mustModel(t, wire.OpenAIChat, chatRequest))
	requireRefusal(t, err, refusal.CassetteMiss, "no call of this kind")

	p := NewPlayer(mustCassette(t, smallRecorder(t)))
	// A model asked over another API is near, and not the same.
	_, err = p.Next(mustModel(t, wire.AnthropicMessages, chatRequest))
	requireRefusal(t, err, refusal.CassetteMiss, `differs first at api: asked "anthropic.messages", recorded "openai.chat"`)
	tool, err := ToolRequest("list", []byte(`{"path":"/etc"}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.Next(tool)
	requireRefusal(t, err, refusal.CassetteMiss, `arguments.path: asked "/etc", recorded "."`)
	mcp, err := MCPRequest("files", "tools/list", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.Next(mcp)
	requireRefusal(t, err, refusal.CassetteMiss, `method: asked "tools/list", recorded "tools/call"`)
}

func TestPlayerGivesEachRecordingOnceToConcurrentCallers(t *testing.T) {
	const n = 400
	requests := make([]string, n)
	for i := range requests {
		requests[i] = chatRequest
	}
	p := NewPlayer(record(t, requests...))
	seen := make([]int, n)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range n / 8 {
				it, err := p.Next(mustModel(t, wire.OpenAIChat, chatRequest))
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				seen[it.Ordinal]++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for i, times := range seen {
		if times != 1 {
			t.Fatalf("recording %d was given %d times", i, times)
		}
	}
}
