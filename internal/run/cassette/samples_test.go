package cassette

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"tallystick/internal/run/wire"
)

// samplesFolder holds recordings by another tool (dnaeon/go-vcr, in
// docker/cagent) of real traffic. It lies beside the repository.
func samplesFolder(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("no go.mod above the test")
		}
		dir = parent
	}
	samples := filepath.Join(dir, "..", "shared", "samples", "cassettes-go-vcr")
	if _, err := os.Stat(samples); err != nil {
		t.Skip("no samples beside the repository")
	}
	return samples
}

type vcrInteraction struct {
	Request  struct{ Body, URL string }
	Response struct {
		Body string
		Code int
	}
}

func readSample(t testing.TB, name string) []vcrInteraction {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(samplesFolder(t), name))
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Interactions []vcrInteraction }
	if err := yaml.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Interactions) == 0 {
		t.Fatalf("%s holds no interaction", name)
	}
	return file.Interactions
}

func TestRealTrafficIsReplayedByteForByte(t *testing.T) {
	for _, tt := range []struct {
		file   string
		api    wire.API
		prices Prices
		tokens int64
		cost   int64
		body   []string // parts of the two bodies, put together
	}{
		{"TestExec_OpenAI_ToolCall.yaml", wire.OpenAIChat, Prices{"gpt-4o": {Input: 2_500_000, Output: 10_000_000}}, 803 + 817,
			// 785*2.5+18*10 = 2142.5 and 815*2.5+2*10 = 2057.5, each rounded up
			2143 + 2058,
			[]string{`"tool_calls":[{"function":{"arguments":"{\"path\":\"testdata/working_dir\"}","name":"list_directory"},"id":"call_I1tmAsYKD7bveEpXORJwVFgs","type":"function"}]`, `"content":"1"`}},
		{"TestExec_Anthropic_ToolCall.yaml", wire.AnthropicMessages, Prices{"claude-sonnet-4-20250514": {Input: 3_000_000, Output: 15_000_000, CacheWrite: 3_750_000, CacheRead: 300_000}}, (3 + 1276 + 58) + (6 + 72 + 1276 + 4),
			// 9+4785+870 = 5664 and 18+270+382.8+60 = 730.8
			5664 + 731,
			[]string{`"content":[{"id":"toolu_012gmfqnoTX8c5aV3vMWUnas","input":{"path":"testdata/working_dir"},"name":"list_directory","type":"tool_use"}]`, `"content":[{"text":"1","type":"text"}]`}},
	} {
		t.Run(tt.file, func(t *testing.T) {
			sample := readSample(t, tt.file)
			r := mustRecorder(t, RecorderOptions{Prices: tt.prices})
			for _, v := range sample {
				if _, err := r.Model(ModelTraffic{API: tt.api, Request: []byte(v.Request.Body), Status: v.Response.Code, Body: []byte(v.Response.Body), Streamed: true}); err != nil {
					t.Fatal(err)
				}
			}
			c, err := Parse(mustMarshal(t, mustCassette(t, r)), Limits{})
			if err != nil {
				t.Fatal(err)
			}
			if got := c.Header.Totals; got.Tokens != tt.tokens || got.CostMicrodollars != tt.cost || got.UnpricedCalls != 0 || c.Header.Redactions != 0 {
				t.Errorf("header %+v, want %d tokens and cost %d", c.Header, tt.tokens, tt.cost)
			}
			p := NewPlayer(c)
			for i, v := range sample {
				// Another run draws other ids.
				asked := strings.NewReplacer("call_I1tmAsYKD7bveEpXORJwVFgs", "call_other", "toolu_012gmfqnoTX8c5aV3vMWUnas", "toolu_other").Replace(v.Request.Body)
				requireStable(t, tt.api, asked)
				it, err := p.Next(mustModel(t, tt.api, asked))
				if err != nil {
					t.Fatal(err)
				}
				reply, err := it.Model.Reply(wire.Delivery{Stream: true})
				if err != nil {
					t.Fatal(err)
				}
				requireSameStream(t, reply.Stream, v.Response.Body)
				body, err := it.Model.Reply(wire.Delivery{})
				if err != nil {
					t.Fatal(err)
				}
				if !strings.Contains(string(body.Body), tt.body[i]) {
					t.Errorf("the body of call %d is %s, want %s in it", i, body.Body, tt.body[i])
				}
				// The body, streamed and put together again, is the same.
				again, err := wire.StreamOfBody(tt.api, body.Body, true)
				if err != nil {
					t.Fatal(err)
				}
				if whole, err := wire.BodyOfStream(tt.api, again); err != nil || string(whole) != string(body.Body) {
					t.Errorf("got  %s, %v\nwant %s", whole, err, body.Body)
				}
			}
			if p.Unused() != nil {
				t.Error("some recordings are unused")
			}
		})
	}
}

// requireSameStream wants the events of a stream one by one, byte for byte.
func requireSameStream(t *testing.T, chunks []string, stream string) {
	t.Helper()
	if strings.Join(chunks, "") != stream {
		t.Fatalf("got\n%s\nwant\n%s", strings.Join(chunks, ""), stream)
	}
	if want := strings.Count(stream, "\n\n"); len(chunks) != want {
		t.Errorf("%d chunks, the stream has %d events", len(chunks), want)
	}
}

func TestRealTrafficMissesWhereItDiffers(t *testing.T) {
	sample := readSample(t, "TestExec_Anthropic_ToolCall.yaml")
	r := mustRecorder(t, RecorderOptions{})
	for _, v := range sample {
		if _, err := r.Model(ModelTraffic{API: wire.AnthropicMessages, Request: []byte(v.Request.Body), Status: 200, Body: []byte(v.Response.Body), Streamed: true}); err != nil {
			t.Fatal(err)
		}
	}
	asked := strings.Replace(sample[1].Request.Body, "FILE README.me", "FILE README.md", 1)
	_, err := NewPlayer(mustCassette(t, r)).Next(mustModel(t, wire.AnthropicMessages, asked))
	requireRefusal(t, err, "CassetteMiss", `nearest is interaction 2, model call anthropic.messages claude-sonnet-4-0, which differs first at messages[2].content[0].content[0].text: asked "FILE README.md", recorded "FILE README.me"`)
}
