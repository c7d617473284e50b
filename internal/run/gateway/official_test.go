package gateway

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"tallystick/internal/run/trajectory"
)

// TestMain lets the test binary be the bridge that agents start.
func TestMain(m *testing.M) {
	if os.Getenv("TALLY_BRIDGE") != "" {
		if err := Bridge(context.Background(), os.Stdin, os.Stdout, os.Getenv("TALLY_MCP_URL"), os.Getenv("TALLY_TOKEN")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// what agent.mjs and agent.py print
const agentOutput = `chat body | Hello from the tape. | 14
chat stream | Hello from the tape.
chat stream | Hello from the tape.
chat body | Hello from the tape. | 14
responses body | Hello from the tape. | 14
responses stream | Hello from the tape. | completed
responses stream | Hello from the tape. | completed
responses body | Hello from the tape. | 14
messages body | Hello from the tape. | end_turn | 5
messages stream | Hello from the tape. | end_turn | 5
messages stream | Hello from the tape. | end_turn | 5
messages body | Hello from the tape. | end_turn | 5
openai models | claude-sonnet-4-5,gpt-4o
anthropic models | claude-sonnet-4-5,gpt-4o
tokens | true
tools | get_weather,transfer,half
denied | true | true
chat loop | It rains in Oslo.
messages loop | It rains in Oslo.
chat miss | 400 | true | true
chat stream after | 400 | true | true
responses after | 400 | true | true
messages after | 400 | true | true
`

// TestOfficialClients runs the official SDKs against a replay, each twice, and
// wants the same canonical trajectory both times. It needs packages from npm and
// PyPI: tools/clients/run.sh fetches them and names their folder in TALLY_CLIENTS.
func TestOfficialClients(t *testing.T) {
	dir := os.Getenv("TALLY_CLIENTS")
	if dir == "" {
		t.Skip("run tools/clients/run.sh")
	}
	node := func(script string) []string { return []string{"node", filepath.Join(dir, script)} }
	inspector := func(c *caseRun, args ...string) []string {
		return append([]string{"node", filepath.Join(dir, "node_modules/@modelcontextprotocol/inspector/cli/build/cli.js"), "--cli", c.url + "/mcp", "--transport", "http", "--header", "Authorization: Bearer " + token}, args...)
	}
	for _, tt := range []struct {
		name    string
		command func(c *caseRun) []string
		want    string
		whole   bool // the output is exactly that
		stopped bool
	}{
		{"TypeScript SDKs", func(*caseRun) []string { return node("agent.mjs") }, agentOutput, true, true},
		{"Python SDKs", func(*caseRun) []string {
			return []string{filepath.Join(dir, "python/bin/python"), filepath.Join(dir, "agent.py")}
		}, agentOutput, true, true},
		{"second TypeScript SDK of MCP", func(*caseRun) []string { return node("modern.mjs") }, "get_weather,transfer,half\n{\"city\":\"Oslo\",\"sky\":\"rain\"}\n", true, false},
		{"MCP inspector lists", func(c *caseRun) []string { return inspector(c, "--method", "tools/list") }, `"name": "get_weather"`, false, false},
		{"MCP inspector calls", func(c *caseRun) []string {
			return inspector(c, "--method", "tools/call", "--tool-name", "get_weather", "--tool-arg", "city=Oslo")
		}, `{\"city\":\"Oslo\",\"sky\":\"rain\"}`, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var traces []string
			for range 2 {
				c, asked := countedCase(t)
				out := runClient(t, c, tt.command(c))
				if tt.whole && out != tt.want || !strings.Contains(out, tt.want) {
					t.Fatalf("it prints\n%s\nwant\n%s", out, tt.want)
				}
				if (c.session.Stopped() != nil) != tt.stopped {
					t.Errorf("stopped: %v", c.session.Stopped())
				}
				if tt.stopped {
					// Nothing is asked again after a miss or a stop.
					want := map[string]int{"POST /v1/chat/completions": 4 + 2 + 2, "POST /v1/responses": 4 + 1, "POST /v1/messages": 4 + 2 + 1}
					for request, n := range want {
						if asked()[request] != n {
							t.Errorf("%s was asked %d times, want %d", request, asked()[request], n)
						}
					}
				}
				trace, err := trajectory.Canonical(c.end(t), trajectory.Options{})
				if err != nil {
					t.Fatal(err)
				}
				traces = append(traces, string(trace.Format()))
			}
			if traces[0] != traces[1] {
				t.Errorf("two runs differ:\n%s\n\n%s", traces[0], traces[1])
			}
			t.Logf("%d requests recorded, the same in two runs", strings.Count(traces[0], "\ntransport_request"))
		})
	}
}

// countedCase is a case whose requests are counted before the gateway sees
// them.
func countedCase(t *testing.T) (*caseRun, func() map[string]int) {
	t.Helper()
	c := makeCase(t, caseOptions{})
	var mu sync.Mutex
	counts := map[string]int{}
	server := httptest.NewUnstartedServer(nil)
	server.Config = c.Server()
	server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		counts[r.Method+" "+r.URL.Path]++
		mu.Unlock()
		c.ServeHTTP(w, r)
	})
	server.Start()
	t.Cleanup(server.Close)
	c.url = server.URL
	return c, func() map[string]int {
		mu.Lock()
		defer mu.Unlock()
		return counts
	}
}

// runClient runs a program with the environment of an agent and returns what it
// prints.
func runClient(t *testing.T, c *caseRun, command []string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(Environment(c.url, token), "PATH="+os.Getenv("PATH"), "HOME="+cmd.Dir, "TALLY_BRIDGE_COMMAND="+self)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s\n%s", command[0], err, out.String(), errs.String())
	}
	return out.String()
}
