package wire

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"testing"
)

const converseBody = `{"metrics":{"latencyMs":7},"output":{"message":{"content":[{"reasoningContent":{"reasoningText":{"signature":"sig","text":"hm"}}},{"text":"It rains."},{"toolUse":{"input":{"city":"Oslo"},"name":"get_weather","toolUseId":"tooluse_abcdefgh1"}}],"role":"assistant"}},"stopReason":"tool_use","usage":{"cacheReadInputTokens":4,"inputTokens":20,"outputTokens":3,"totalTokens":27}}`

func TestConverseIsReadWrittenAndStreamed(t *testing.T) {
	reply, err := ReadReply(BedrockConverse, []byte(converseBody))
	if err != nil || reply.Text() != "It rains." || reply.Shown() != "hmIt rains." || len(reply.Calls()) != 1 || string(reply.Calls()[0].Args) != `{"city":"Oslo"}` {
		t.Fatalf("read as %+v, %v", reply, err)
	}
	n, _ := ParseNode([]byte(converseBody))
	if u, err := UsageOf(BedrockConverse, &n); err != nil || u != (Usage{InputTokens: 20, OutputTokens: 3, CacheReadTokens: 4}) {
		t.Errorf("usage %+v, %v", u, err)
	}
	if _, counted := Billed(BedrockConverse, &n); !counted {
		t.Error("its usage is taken for untold")
	}
	chunks, err := StreamOfBody(BedrockConverse, []byte(converseBody), false)
	if err != nil {
		t.Fatal(err)
	}
	if back, err := BodyOfStream(BedrockConverse, chunks); err != nil || string(back) != converseBody {
		t.Errorf("put together again: %s, %v", back, err)
	}
	for cut := range chunks {
		if _, err := BodyOfStream(BedrockConverse, chunks[:cut]); err == nil {
			t.Errorf("a stream of %d events of %d is taken for whole", cut, len(chunks))
		}
	}
	if _, err := BodyOfStream(BedrockConverse, append(chunks, "event: throttlingException\ndata: {\"message\":\"slow down\"}\n\n")); err == nil || !strings.Contains(err.Error(), "slow down") {
		t.Errorf("an exception in a stream: %v", err)
	}
}

func TestFramesComeBackAsEvents(t *testing.T) {
	chunks, err := StreamOfBody(BedrockConverse, []byte(converseBody), false)
	if err != nil {
		t.Fatal(err)
	}
	var wire strings.Builder
	for i, chunk := range chunks {
		wire.WriteString(AWSFrames.Encode(chunk, i == 0))
	}
	// One byte at a time, as a slow network brings them.
	back, err := io.ReadAll(AWSFrames.Decode(oneByte{strings.NewReader(wire.String())}))
	if err != nil || string(back) != strings.Join(chunks, "") {
		t.Fatalf("got %s, %v", back, err)
	}
	whole := []byte(wire.String())
	first := []byte(AWSFrames.Encode(chunks[0], true))
	for i := range first {
		for bit := range 8 {
			forged := bytes.Clone(first)
			forged[i] ^= 1 << bit
			if got, err := io.ReadAll(AWSFrames.Decode(bytes.NewReader(forged))); err == nil {
				t.Fatalf("bit %d of byte %d changed: read as %s", bit, i, got)
			}
		}
	}
	for cut := 1; cut < len(first); cut++ {
		if _, err := io.ReadAll(AWSFrames.Decode(bytes.NewReader(whole[:len(whole)-cut]))); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("cut by %d: %v", cut, err)
		}
	}
}

type oneByte struct{ r io.Reader }

func (o oneByte) Read(p []byte) (int, error) { return o.r.Read(p[:1]) }

// The frame is one that botocore 1.44.3 reads: see tools/clients.
func TestAFrameHasTheBytesOfTheFormat(t *testing.T) {
	got := AWSFrames.Encode("event: messageStart\ndata: {\"role\":\"assistant\"}\n\n", true)
	want := "0000007600000052"
	if hex.EncodeToString([]byte(got[:8])) != want || !strings.Contains(got, "\x0b:event-type\x07\x00\x0cmessageStart") || !strings.Contains(got, "\x0d:message-type\x07\x00\x05event{\"role\":\"assistant\"}") {
		t.Errorf("got %x", got)
	}
}

func TestConverseIsMatchedWithoutWhatIsDrawn(t *testing.T) {
	canonical := func(body string) string {
		n, err := ParseNode([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		Canonicalize(BedrockConverse, &n)
		return canonicalText(t, string(n.AppendJSON(nil)))
	}
	ask := func(id, cache, meta string) string {
		return `{"model":"m","requestMetadata":{"run":"` + meta + `"},"messages":[{"role":"assistant","content":[{"toolUse":{"toolUseId":"` + id + `","name":"look","input":{}}}` + cache + `]},{"role":"user","content":[{"toolResult":{"toolUseId":"` + id + `","content":[{"text":"a lamp"}]}}]}]}`
	}
	a, b := canonical(ask("tooluse_Zx81kkPq", "", "1")), canonical(ask("tooluse_9f8e7d6c", `,{"cachePoint":{"type":"default"}}`, "2"))
	if a != b {
		t.Errorf("two spellings of one request:\n%s\n%s", a, b)
	}
	calls, results, err := ToolsOf(BedrockConverse, []byte(ask("tooluse_1", "", "")))
	if err != nil || len(calls) != 1 || len(results) != 1 || results[0].Name != "look" || results[0].Text != "a lamp" {
		t.Errorf("tools %+v %+v %v", calls, results, err)
	}
	offered, err := OfferedTools(BedrockConverse, []byte(`{"toolConfig":{"tools":[{"toolSpec":{"name":"look","inputSchema":{"json":{}}}}]}}`))
	if err != nil || len(offered) != 1 || offered[0].Name != "look" {
		t.Errorf("offered %+v, %v", offered, err)
	}
}

// Requests that we make are canonical, so that a cassette finds nothing to change.
func TestConverseRequestsAreCanonical(t *testing.T) {
	for _, o := range []Options{{Model: "m"}, {Model: "m", MaxOutput: 9, Temperature: []byte("0")}, {Model: "m", MaxOutput: 9, Shape: &Tool{Name: "answer", Schema: []byte(`{"type":"object"}`)}}} {
		e := NewEnvelope(BedrockConverse, o)
		messages := [][]byte{BedrockConverse.User("hi"), BedrockConverse.Say("so", []Call{{ID: "tooluse_1", Name: "look", Args: []byte(`{"at":1}`)}}), BedrockConverse.Results([]Result{{ID: "tooluse_1", Text: "no", IsError: true}})}
		var tools []byte
		if o.Shape == nil {
			tools = BedrockConverse.Tools([]Tool{{Name: "look", Description: "Looks.", Schema: []byte(`{}`)}})
		}
		body := e.Request(e.System("be brief"), messages, tools)
		if got := canonicalText(t, string(body)); got != string(body) {
			t.Errorf("written\n%s\ncanonical\n%s", body, got)
		}
	}
}

func TestRoutesOfAzureAndBedrock(t *testing.T) {
	query := func(version string) func(string) string {
		return func(name string) string {
			if name == "api-version" {
				return version
			}
			return ""
		}
	}
	for _, tt := range []struct{ path, version, body, kept, url, sent string }{
		{"/openai/deployments/my-gpt/chat/completions", "2024-10-21", `{"messages":[],"model":"gpt-x"}`,
			`{"api-version":"2024-10-21","deployment":"my-gpt","messages":[],"model":"gpt-x"}`,
			"https://a.example/openai/deployments/my-gpt/chat/completions?api-version=2024-10-21", `{"messages":[],"model":"gpt-x"}`},
		{"/openai/deployments/d/embeddings", "2024-10-21", `{"input":"x"}`, `{"api-version":"2024-10-21","deployment":"d","input":"x","model":"d"}`,
			"https://a.example/openai/deployments/d/embeddings?api-version=2024-10-21", `{"input":"x","model":"d"}`},
		{"/openai/v1/responses", "", `{"input":"x","model":"m"}`, `{"input":"x","model":"m"}`, "https://a.example/openai/v1/responses", `{"input":"x","model":"m"}`},
		{"/deployments/d/chat/completions", "2024-10-21", `{"messages":[]}`, `{"api-version":"2024-10-21","deployment":"d","messages":[],"model":"d"}`,
			"https://a.example/openai/deployments/d/chat/completions?api-version=2024-10-21", `{"messages":[],"model":"d"}`},
		{"/v1/responses", "2025-03-01-preview", `{"input":"x","model":"m"}`, `{"api-version":"2025-03-01-preview","deployment":"","input":"x","model":"m"}`,
			"https://a.example/openai/responses?api-version=2025-03-01-preview", `{"input":"x","model":"m"}`},
		{"/openai/responses", "2025-03-01-preview", `{"input":"x","model":"m"}`, `{"api-version":"2025-03-01-preview","deployment":"","input":"x","model":"m"}`,
			"https://a.example/openai/responses?api-version=2025-03-01-preview", `{"input":"x","model":"m"}`},
		// What the body itself claims of deployment and version does not count.
		{"/openai/v1/chat/completions", "preview", `{"api-version":"x","deployment":"../../secrets","messages":[],"model":"m"}`,
			`{"api-version":"preview","messages":[],"model":"m"}`, "https://a.example/openai/v1/chat/completions?api-version=preview", `{"messages":[],"model":"m"}`},
		{"/model/us.maker.model-v1:0/converse", "", `{"messages":[],"model":"other"}`, `{"messages":[],"model":"us.maker.model-v1:0"}`,
			"https://a.example/model/us.maker.model-v1%3A0/converse", `{"messages":[]}`},
		{"/model/arn:aws:bedrock:eu-west-1:1:inference-profile/m/converse-stream", "", `{"messages":[]}`,
			`{"messages":[],"model":"arn:aws:bedrock:eu-west-1:1:inference-profile/m","stream":true}`,
			"https://a.example/model/arn%3Aaws%3Abedrock%3Aeu-west-1%3A1%3Ainference-profile%2Fm/converse-stream", `{"messages":[]}`},
		{"/v1beta/models/e:batchEmbedContents", "", `{"requests":[{"model":"models/e"}]}`, `{"model":"e","requests":[{"model":"models/e"}]}`,
			"https://a.example/v1beta/models/e:batchEmbedContents", `{"requests":[{"model":"models/e"}]}`},
		{"/v1beta/models/e:embedContent", "", `{"content":{}}`, `{"content":{},"model":"e"}`, "https://a.example/v1beta/models/e:embedContent", `{"content":{}}`},
	} {
		route, ok := RouteOf(tt.path)
		if !ok {
			t.Errorf("%s leads nowhere", tt.path)
			continue
		}
		route, err := route.Query(query(tt.version))
		if err != nil {
			t.Errorf("%s: %v", tt.path, err)
			continue
		}
		kept, err := route.Request([]byte(tt.body))
		if err != nil || string(kept) != tt.kept {
			t.Errorf("%s is kept as %s, %v, want %s", tt.path, kept, err, tt.kept)
		}
		url, sent, err := route.API.Outgoing("https://a.example", kept)
		if err != nil || url != tt.url || string(sent) != tt.sent {
			t.Errorf("%s is sent to %s as %s, %v", tt.path, url, sent, err)
		}
	}
	for _, bad := range []string{"1&x=y", "a b", "2024-10-21/..", "é", strings.Repeat("1", 41)} {
		route, _ := RouteOf("/openai/v1/responses")
		if _, err := route.Query(query(bad)); err == nil {
			t.Errorf("the version %q is taken", bad)
		}
		if _, _, err := AzureChat.Outgoing("https://a.example", []byte(`{"model":"m","api-version":"`+bad+`"}`)); err == nil {
			t.Errorf("the version %q is sent", bad)
		}
	}
	for _, bad := range []string{"../x", "a/b", "a?b", "%2e"} {
		if url, _, err := AzureChat.Outgoing("https://a.example", []byte(`{"model":"m","deployment":"`+bad+`"}`)); err == nil {
			t.Errorf("the deployment %q leads to %s", bad, url)
		}
	}
	// A slash in the name of a model stays in its segment.
	if url, _, err := BedrockConverse.Outgoing("https://a.example", []byte(`{"model":"../../x"}`)); err != nil || url != "https://a.example/model/..%2F..%2Fx/converse" {
		t.Errorf("%s, %v", url, err)
	}
}

func TestArraysOfJSON(t *testing.T) {
	got := ""
	for i, chunk := range []string{": hello\n\n", "data: {\"a\":1}\n\n", "data: {\"a\":2}\n\n"} {
		got += JSONArray.Encode(chunk, got == "" && i < 2)
	}
	if got += JSONArray.End(false); got != "[{\"a\":1},\r\n{\"a\":2}]" || JSONArray.End(true) != "[]" {
		t.Errorf("got %q", got)
	}
}
