package gateway_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tallystick/internal/run/agent"
	"tallystick/internal/run/gateway"
)

// docs/agents.md promises people what their agent is given.
func TestTheAgentsPageIsRight(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "agents.md"))
	if err != nil {
		t.Fatal(err)
	}
	page := string(data)

	_, table, _ := strings.Cut(page, "| Variable | |\n|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	told := regexp.MustCompile("`([A-Z][A-Z_]+)`").FindAllStringSubmatch(table, -1)
	var given, promised []string
	for _, v := range gateway.Environment("http://127.0.0.1:8000", "T") {
		name, _, _ := strings.Cut(v, "=")
		given = append(given, name)
	}
	for _, m := range told {
		if !slices.Contains([]string{"PATH", "HOME", "TMPDIR", "LANG", "UV_USE_IO_URING"}, m[1]) {
			promised = append(promised, m[1])
		}
	}
	if !slices.Equal(given, promised) {
		t.Errorf("the page has the variables %v, an agent gets %v", promised, given)
	}

	targets := regexp.MustCompile("(?s)```yaml target\n(.*?)```").FindAllStringSubmatch(page, -1)
	if len(targets) != 5 {
		t.Errorf("%d targets on the page, want 5", len(targets))
	}
	for _, m := range targets {
		if _, err := agent.Parse("example", "targets/example.yaml", []byte(m[1])); err != nil {
			t.Errorf("%v:\n%s", err, m[1])
		}
	}
}
