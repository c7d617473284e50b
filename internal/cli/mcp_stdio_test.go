package cli

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"tallystick/internal/record/refusal"
)

func TestMCPStdioPassesLinesToTheGatewayOfTheEnvironment(t *testing.T) {
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Header.Get("Authorization") != "Bearer the-token-of-the-case" {
			t.Errorf("the gateway is asked with %q, %v", r.Header.Get("Authorization"), err)
		}
		if string(body) != `{"jsonrpc":"2.0","id":1,"method":"ping"}` {
			t.Errorf("the gateway is asked for %s", body)
		}
		io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{}}`)
	}))
	defer gateway.Close()
	environment := map[string]string{"TALLY_MCP_URL": gateway.URL + "/mcp", "TALLY_TOKEN": "the-token-of-the-case"}

	var stdout, stderr bytes.Buffer
	code := Main([]string{"mcp-stdio"}, strings.NewReader("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n"), &stdout, &stderr, func(name string) string { return environment[name] }, nil)
	if code != refusal.ExitDone || stdout.String() != "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n" || stderr.Len() > 0 {
		t.Errorf("exit %d, prints %q, complains %q", code, stdout.String(), stderr.String())
	}
}

func TestMCPStdioNeedsItsVariablesAndIsNotListed(t *testing.T) {
	for _, missing := range []string{"TALLY_MCP_URL", "TALLY_TOKEN"} {
		var stdout, stderr bytes.Buffer
		code := Main([]string{"mcp-stdio"}, strings.NewReader(""), &stdout, &stderr, func(name string) string {
			if name == missing {
				return ""
			}
			return "http://127.0.0.1:1/mcp"
		}, nil)
		if code != refusal.ExitUsage || stdout.Len() > 0 || !strings.Contains(stderr.String(), "TALLY_MCP_URL and TALLY_TOKEN") {
			t.Errorf("without %s: exit %d, prints %q, complains %q", missing, code, stdout.String(), stderr.String())
		}
	}
	var stdout bytes.Buffer
	if Main([]string{"--help"}, strings.NewReader(""), &stdout, io.Discard, func(string) string { return "" }, nil); strings.Contains(stdout.String(), "mcp-stdio") {
		t.Error("a command that people do not type is in the help")
	}
}
