package provider

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tallystick/internal/record/refusal"
	"tallystick/internal/run/cassette"
)

const wholeSettings = `
version: 1
openai:
  base_url: https://models.example.com/v1/
  key_env: EXAMPLE_KEY
  headers: {openai-project: proj_1}
  timeout_seconds: 30
  prices:
    gpt-x: {input: 2500000, output: 10000000, cache_read: 1250000, max_input_tokens: 128000, max_output_tokens: 16384}
anthropic:
  prices:
    claude-x: {input: 3000000, output: 15000000, cache_read: 300000, cache_write: 3750000, cache_write_long: 6000000}
mcp:
  files: {command: [mcp-files, --root, .], env: {MODE: read}, secrets: [FILES_TOKEN]}
  wiki: {url: "http://127.0.0.1:8080/mcp", key_file: .tally/keys/wiki, timeout_seconds: 5}
`

func TestSettingsSayWhereAndForHowMuch(t *testing.T) {
	s := parseSettings(t, wholeSettings)
	if o := endpointOf(s, "openai"); o.BaseURL != "https://models.example.com/v1" || o.KeyEnv != "EXAMPLE_KEY" || o.Timeout != 30*time.Second || o.Headers["openai-project"] != "proj_1" {
		t.Errorf("openai: %+v", o)
	}
	if a := endpointOf(s, "anthropic"); a.BaseURL != "https://api.anthropic.com" || a.KeyEnv != "ANTHROPIC_API_KEY" || a.Timeout != defaultTimeout {
		t.Errorf("anthropic: %+v", a)
	}
	want := cassette.Prices{
		"gpt-x":    {Input: 2500000, Output: 10000000, CacheRead: 1250000, CacheWrite: 2500000, CacheWriteLong: 2500000},
		"claude-x": {Input: 3000000, Output: 15000000, CacheRead: 300000, CacheWrite: 3750000, CacheWriteLong: 6000000},
	}
	for model, price := range want {
		if got := s.Prices()[model]; got != price {
			t.Errorf("%s costs %+v, want %+v", model, got, price)
		}
	}
	if m := endpointOf(s, "openai").Models["gpt-x"]; len(endpointOf(s, "openai").Models) != 1 || m.MaxInput != 128000 || m.MaxOutput != 16384 {
		t.Errorf("%+v", m)
	}
	if f, w := s.MCP["files"], s.MCP["wiki"]; len(f.Command) != 3 || f.Secrets[0] != "FILES_TOKEN" || w.Timeout != 5*time.Second || f.Timeout != defaultMCPWait {
		t.Errorf("mcp: %+v", s.MCP)
	}
}

func TestSettingsRefuseEachMistake(t *testing.T) {
	if _, err := ParseSettings("providers.yaml", []byte("version: 2\nopenai: {timeout_seconds: 1}")); !refusal.Is(err, refusal.NewerFormat) || !strings.Contains(err.Error(), "providers.yaml:1") {
		t.Errorf("a version of the future: %v", err)
	}
	for _, tt := range []struct{ name, text, say string }{
		{"empty", "", "found nothing"},
		{"no provider", "version: 1", "found no provider"},
		{"an unknown key", "version: 1\nopenai:\n  base: x", ":3:3: openai.base: is not a known key"},
		{"the key itself", "version: 1\nopenai: {key: sk-123456789}", "openai.key: is not a known key"},
		{"the key as a name", "version: 1\nopenai: {key_env: sk-secret-123456}", "is not the name of a variable"},
		{"both keys", "version: 1\nopenai: {key_env: A, key_file: b}", "expected one of the two"},
		{"http", "version: 1\nopenai: {base_url: \"http://models.example.com/v1\"}", "expected https"},
		{"http to an address", "version: 1\nopenai: {base_url: \"http://10.0.0.1/v1\"}", "expected https"},
		{"http to a name like localhost", "version: 1\nopenai: {base_url: \"http://localhost.example.com/v1\"}", "expected https"},
		{"a file", "version: 1\nopenai: {base_url: \"file:///etc/passwd\"}", "is not a URL"},
		{"another scheme", "version: 1\nopenai: {base_url: \"ftp://x.example/\"}", "expected https"},
		{"a password", "version: 1\nopenai: {base_url: \"https://u:p@x.example/\"}", "user or password"},
		{"a query", "version: 1\nopenai: {base_url: \"https://x.example/?key=1\"}", "query"},
		{"no URL", "version: 1\nopenai: {base_url: models}", "is not a URL"},
		{"a key in a header", "version: 1\nopenai: {headers: {x-api-key: abc}}", "may not be set here"},
		{"authorization", "version: 1\nopenai: {headers: {authorization: abc}}", "may not be set here"},
		{"a header of two lines", "version: 1\nopenai: {headers: {a: \"b\\nc: d\"}}", "one line"},
		{"a header's odd name", "version: 1\nopenai: {headers: {\"a b\": c}}", "not the name of a header"},
		{"no output price", "version: 1\nopenai: {prices: {m: {input: 1}}}", "output: is missing"},
		{"a negative price", "version: 1\nopenai: {prices: {m: {input: -1, output: 1}}}", "expected 0 to"},
		{"a price in dollars", "version: 1\nopenai: {prices: {m: {input: 2.5, output: 10}}}", "expected a whole number"},
		{"too many tokens", "version: 1\nopenai: {prices: {m: {input: 1, output: 1, max_output_tokens: 9999999999}}}", "tokens, expected"},
		{"one model, two prices", "version: 1\nopenai: {prices: {m: {input: 1, output: 1}}}\nanthropic: {prices: {m: {input: 1, output: 2}}}", "another price"},
		{"for ever", "version: 1\nopenai: {timeout_seconds: 999999}", "expected 1 to 3600"},
		{"a server without an address", "version: 1\nmcp: {a: {timeout_seconds: 1}}", "both or neither"},
		{"a server with two", "version: 1\nmcp: {a: {command: [x], url: \"https://x.example\"}}", "both or neither"},
		{"a key for a command", "version: 1\nmcp: {a: {command: [x], key_env: A}}", "from secrets"},
		{"variables for a URL", "version: 1\nmcp: {a: {url: \"https://x.example\", env: {A: b}}}", "for a command"},
		{"an odd server name", "version: 1\nmcp: {\"a b\": {command: [x]}}", "not the name of a server"},
		{"an odd variable", "version: 1\nmcp: {a: {command: [x], env: {\"A=B\": c}}}", "not the name of a variable"},
		{"an odd secret", "version: 1\nmcp: {a: {command: [x], secrets: [a-b]}}", "not the name of a variable"},
		{"a secret as plain text", "version: 1\nmcp: {a: {command: [x], secrets: [A], env: {A: b}}}", "secrets too"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := ParseSettings("providers.yaml", []byte(tt.text))
			requireRefusal(t, err, refusal.Malformed, "providers.yaml:", tt.say)
			if strings.Contains(err.Error(), "sk-") || strings.Contains(err.Error(), "u:p@") {
				t.Errorf("the message repeats a secret: %v", err)
			}
		})
	}
}

func TestSettingsThatAreNotThereSayWhatToWrite(t *testing.T) {
	_, err := LoadSettings(filepath.Join(t.TempDir(), SettingsFile))
	requireRefusal(t, err, refusal.NotFound, "no such file")
	if !strings.Contains(refusal.Of(err).Hint, "version: 1") {
		t.Errorf("hint: %s", refusal.Of(err).Hint)
	}
}

func TestKeysComeFromTheEnvironmentOrAClosedFile(t *testing.T) {
	dir := t.TempDir()
	load := func(text string, vars map[string]string) (*Access, error) {
		s, err := ParseSettings(filepath.Join(dir, SettingsFile), []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return s.Access(func(name string) string { return vars[name] })
	}
	file := filepath.Join(dir, "key")
	if err := os.WriteFile(file, []byte(testKey+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	fromFile := "version: 1\nopenai: {key_file: key}"
	a, err := load(fromFile, nil)
	if err != nil {
		t.Fatal(err)
	}
	if key, err := a.key("openai", "", "key"); err != nil || key != testKey {
		t.Errorf("got a key of %d bytes, %v", len(key), err)
	}
	if text, n := a.Redactor().Text("it is " + testKey); n != 1 || strings.Contains(text, testKey) {
		t.Error("the redactor does not know the key")
	}
	requireNoKey(t, "printing", a.Settings)

	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err = load(fromFile, nil)
	requireRefusal(t, err, refusal.KeyModeTooOpen, "0600")

	_, err = load("version: 1\nopenai: {key_file: nowhere}", nil)
	requireRefusal(t, err, refusal.Unreadable)

	for name, bad := range map[string]string{"short": "sk-1234", "two lines": "sk-12345678\nsk-2", "a blank": "sk-1234 5678", "quotes": "\u201csk-12345678\u201d", "long": strings.Repeat("x", 9000)} {
		_, err = load("version: 1\nopenai: {key_env: A}", map[string]string{"A": bad})
		requireRefusal(t, err, refusal.Malformed, "the key in A")
		if strings.Contains(err.Error(), "1234") {
			t.Errorf("%s: the message repeats the key: %v", name, err)
		}
	}
}
