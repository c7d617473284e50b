package cosign

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tallystick/internal/record/seal"
)

// TestWorkedExample compares docs/formats/witness.md with what the code does.
func TestWorkedExample(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "formats", "witness.md"))
	if err != nil {
		t.Fatal(err)
	}
	log := honestLog(t, 3)
	s := openTestServer(t, t.TempDir())
	first := mustPost(t, s, 200, log.request(0, 2))
	conflict := mustPost(t, s, 409, log.request(0, 3))
	request := log.request(2, 3)
	response := mustPost(t, s, 200, request)
	state, err := os.ReadFile(s.logs[testOrigin].path)
	if err != nil {
		t.Fatal(err)
	}
	name, err := filepath.Rel(s.dir, s.logs[testOrigin].path)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []struct{ name, want string }{
		{"keys", seal.VKey(pub(log.key), log.origin) + "\n" + s.VKey() + "\n"},
		{"first request", log.request(0, 2)},
		{"first response", first},
		{"conflict", conflict},
		{"request", request},
		{"response", response},
		{"signed message", "cosignature/v1\ntime 1778594400\n" + log.head(3).Text()},
		{"state name", filepath.ToSlash(name) + "\n"},
		{"state", string(state)},
	} {
		block := "```text " + part.name + "\n" + part.want + "```\n"
		if !strings.Contains(string(page), block) {
			t.Errorf("docs/formats/witness.md should hold:\n%s", block)
		}
	}
}
