package chaostest

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"tallystick/internal/testing/fakemodel"
)

// A bank is an MCP server that counts what it is asked to pay.
type bank struct {
	fakemodel.MCP
	mu    sync.Mutex
	calls map[string]int
}

func (b *bank) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if bytes.Contains(body, []byte(`"tools/call"`)) {
		b.mu.Lock()
		b.calls[string(body[bytes.Index(body, []byte(`"arguments"`)):bytes.IndexByte(body, '}')])]++
		b.mu.Unlock()
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	b.MCP.ServeHTTP(w, r)
}

// bankYard is a yard whose agent pays by a tool of an MCP server, in each of n cases.
func bankYard(t *testing.T, n int) (*yard, *bank) {
	t.Helper()
	y := newYard(t, 0)
	b := &bank{calls: map[string]int{}}
	server := httptest.NewServer(b)
	t.Cleanup(server.Close)
	y.models = fakemodel.Answer(t, func(r fakemodel.Request) fakemodel.Reply {
		if strings.Contains(string(r.Body), `"role":"tool"`) {
			return fakemodel.Reply{Text: "done"}
		}
		_, who, _ := strings.Cut(string(r.Body), "Pay case-")
		return fakemodel.Reply{ToolCalls: []fakemodel.ToolCall{{Name: "pay", Arguments: fmt.Sprintf(`{"bill":%q}`, who[:3])}}}
	})
	var lines strings.Builder
	for i := range n {
		fmt.Fprintf(&lines, `{"id":"case-%03d","input":"Pay case-%03d.","tools":[{"name":"pay","remote":"echo","class":"write","source":"mcp:bank"}],"expected":"done","grade":{"kind":"exact"},"expect":{"tool_calls.pay":1}}`+"\n", i, i)
	}
	y.write("bench/paid/dataset.jsonl", lines.String())
	y.write("providers.yaml", "version: 1\nopenai:\n  base_url: "+y.url+"/v1\n  prices:\n    fake-1: {input: 1000000, output: 4000000}\nmcp:\n  bank: {url: \""+server.URL+"\"}\n")
	return y, b
}

// TestWorkersCallToolsOfMCPServers: the coordinator calls them, each once, and what
// workers bring back is computed again from that.
func TestWorkersCallToolsOfMCPServers(t *testing.T) {
	const cases = 6
	y, b := bankYard(t, cases)
	c := y.coordinator("--live", "--max-cost", "1")
	y.worker(1)
	y.worker(2)
	c.wait(0)
	if got := y.read("paid.default.1"); len(got.scored) != cases || got.byWorkers() != cases {
		t.Errorf("%d of %d cases are recorded, %d by workers", len(got.scored), cases, got.byWorkers())
	}
	if len(b.calls) != cases {
		t.Errorf("the server was asked %v", b.calls)
	}
	for args, n := range b.calls {
		if n != 1 {
			t.Errorf("%s was paid %d times", args, n)
		}
	}
	y.run("ledger", "verify", "--strict")
	y.run("verify", "--recompute")
	// What was recorded answers without the server and the provider, on one machine.
	y.write("providers.yaml", "version: 1\nopenai: {base_url: \"http://127.0.0.1:9/v1\"}\n")
	y.run("replay", "paid.default.1:case-000")
}

// TestAPolicyHoldsForToolsOfMCPServers: what the policy denies is called by no machine.
func TestAPolicyHoldsForToolsOfMCPServers(t *testing.T) {
	y, b := bankYard(t, 2)
	y.write("bench/paid/registration.yaml", registration+"policy: {mode: autonomous, deny: [pay], max_cost_microdollars: 1000000, max_tool_calls: 9}\n")
	c := y.coordinator("--live", "--max-cost", "1")
	y.worker(1)
	c.wait(4)
	if len(b.calls) > 0 {
		t.Errorf("the server was asked %v", b.calls)
	}
	y.run("ledger", "verify", "--strict")
}
