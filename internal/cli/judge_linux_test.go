package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tallystick/internal/testing/fakemodel"
)

// The verdict is recorded with the case, so that a replay on any machine has
// the same one, without a cache and without a draw.
func TestRecordKeepsTheJudgesVerdictAndReplaysIt(t *testing.T) {
	s := newStudio(t, fakemodel.Answer(t, func(q fakemodel.Request) fakemodel.Reply {
		if strings.Contains(string(q.Body), `"model":"judge-1"`) {
			return fakemodel.Reply{Text: verdict(0.75, "It is polite.")}
		}
		return fakemodel.Reply{Text: "hello"}
	}))
	s.write("providers.yaml", "version: 1\nopenai:\n  base_url: "+s.server.OpenAI()+"\n  key_env: STUDIO_KEY\n  prices:\n    fake-1: {input: 1000000, output: 4000000}\n    judge-1: {input: 1000000, output: 4000000}\n")
	s.write("judge.yaml", "version: 1\nmodel: judge-1\napi: openai.chat\nvotes: 2\nmax_output_tokens: 200\n")
	s.write("bench/hello/cases/a/grading.yaml", "version: 1\ngrade: {kind: judge, criteria: It greets politely.}\n")
	if code := s.record("record\n", "--unsafe-record", "--case", "a"); code != 0 {
		t.Fatalf("%d: %s", code, s.screen)
	}
	if !strings.Contains(s.screen, "judge    judge-1") {
		t.Errorf("who judges is not shown: %s", s.screen)
	}
	s.requireEntries("a recorded kept=true calls=3 cost=90")
	if _, err := os.Stat(filepath.Join(s.dir, ".tally", "judge-cache")); !os.IsNotExist(err) {
		t.Errorf("a recording wrote to the cache: %v", err)
	}
	if code := s.plainly("bench", "digest", "hello"); code != 0 {
		t.Fatalf("digest: %s", s.out)
	}
	sent := len(s.server.Requests())
	if code := s.plainly("run", "hello", "--case", "a", "--json"); code != 0 || !strings.Contains(s.out, `"mean_score":0.75`) {
		t.Errorf("%d: %s", code, s.out)
	}
	if n := len(s.server.Requests()) - sent; n != 0 {
		t.Errorf("a replay sent %d requests", n)
	}
	// Another question is not in the recording.
	s.write("bench/hello/cases/a/grading.yaml", "version: 1\ngrade: {kind: judge, criteria: It greets rudely.}\n")
	if code := s.plainly("bench", "digest", "hello"); code != 0 {
		t.Fatalf("digest: %s", s.out)
	}
	if s.plainly("run", "hello", "--case", "a", "--json"); !strings.Contains(s.out, `"unscored":1`) {
		t.Errorf("%s", s.out)
	}
}
