package egress

import (
	"strings"
	"testing"

	"tallystick/internal/run/cassette"
)

func TestRulesThatAreRefused(t *testing.T) {
	for _, tt := range []struct {
		name string
		rule Rule
		want string
	}{
		{"no host", Rule{}, "is not a name"},
		{"a URL", Rule{Host: "https://api.example.com"}, "without scheme, path and user"},
		{"a wildcard", Rule{Host: "*.example.com"}, "one by one"},
		{"capitals", Rule{Host: "API.example.com"}, "expected it as api.example.com"},
		{"a dot at the end", Rule{Host: "api.example.com."}, "expected it as api.example.com"},
		{"an address in decimal", Rule{Host: "2130706433"}, "neither a name nor an address"},
		{"a mapped address", Rule{Host: "::ffff:127.0.0.1"}, "expected it as 127.0.0.1"},
		{"a model provider", Rule{Host: "api.openai.com"}, "through the gateway"},
		{"another scheme", Rule{Host: "a.example", Scheme: "ws"}, "expected https or http"},
		{"a port", Rule{Host: "a.example", Ports: []int{0}}, "expected each of 1 to 65535"},
		{"CONNECT", Rule{Host: "a.example", Methods: []string{"CONNECT"}}, "expected each of GET"},
		{"a method in small letters", Rule{Host: "a.example", Methods: []string{"get"}}, "expected each of GET"},
		{"a path with dots", Rule{Host: "a.example", Paths: []string{"/a/../b"}}, "segments"},
		{"a path with a query", Rule{Host: "a.example", Paths: []string{"/a?b"}}, "without query"},
		{"an address of an address", Rule{Host: "10.0.0.1", Addresses: []string{"10.0.0.2"}}, "an address itself"},
		{"an address with zeros", Rule{Host: "a.example", Addresses: []string{"fd00:0:0::1"}}, "expected an address"},
		{"certificates elsewhere", Rule{Host: "a.example", CAFile: "../ca.pem"}, "a file of the workspace"},
		{"a credential in the open", Rule{Host: "a.example", Scheme: "http", Credential: &Credential{Env: "KEY"}}, "use https"},
		{"a credential in Host", Rule{Host: "a.example", Credential: &Credential{Env: "KEY", Header: "Host"}}, "a server reads a credential from"},
		{"a line break before a credential", Rule{Host: "a.example", Credential: &Credential{Env: "KEY", Prefix: "a\r\nb"}}, "ASCII on one line"},
		{"no variable", Rule{Host: "a.example", Credential: &Credential{Env: "A=B"}}, "name of a variable"},
		{"an empty name", Rule{Host: "a.example", Ignore: &cassette.HTTPIgnore{Query: []string{""}}}, "is empty"},
	} {
		if err := (Rules{{Host: "fine.example"}, tt.rule}).Validate(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
	if err := (Rules{{Host: "a.example"}, {Host: "a.example"}}).Validate(); err == nil || !strings.Contains(err.Error(), "listed twice") {
		t.Errorf("twice: %v", err)
	}
}

// The line that a refusal names permits what was refused.
func TestTheLineToAdd(t *testing.T) {
	for _, tt := range []struct {
		u    Unlisted
		want string
	}{
		{Unlisted{Method: "GET", Scheme: "https", Host: "a.example", Port: 443, Path: "/"}, "- {host: a.example}"},
		{Unlisted{Method: "POST", Scheme: "https", Host: "a.example", Port: 8443, Path: "/v1/search"}, `- {host: a.example, ports: [8443], methods: [POST], paths: ["/v1/"]}`},
		{Unlisted{Method: "GET", Scheme: "https", Host: "10.0.0.1", Port: 443, Path: "/"}, `- {host: "10.0.0.1"}`},
		{Unlisted{Method: "GET", Scheme: "http", Host: "::1", Port: 80, Path: "/a"}, `- {host: "::1", scheme: http}`},
	} {
		if got := tt.u.Line(); got != tt.want {
			t.Errorf("%s, want %s", got, tt.want)
		}
	}
}
