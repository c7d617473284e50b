package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// newSums is a workspace with a finished attempt, sums.default.1, of five cases: one and
// two passed, the others failed.
func newSums(t *testing.T) *trial {
	t.Helper()
	l := &trial{T: t, dir: filepath.Join(t.TempDir(), "ws"), state: t.TempDir()}
	initWithPeople(t, l.dir, func(args ...string) { l.ok(args...) })
	l.write("bench/sums/registration.yaml", []byte(`version: 1
class: sums
trust: signed
current_tier: bronze
gates:
  - {tag: "*", metric: solve_rate, threshold: 0.5}
limits: {wall_clock_seconds: 60, memory_bytes: 1073741824, turns: 5, tokens: 100000, cost_microdollars: 100000}
governance: restricted
isolation: {classes: [gvisor], scope: case, allow_weaker: false}
judged_scores_count: false
`))
	var data []byte
	for i, id := range []string{"one", "two", "three", "four", "five"} {
		said := fmt.Sprint(2 * (i + 1))
		if i > 1 {
			said = "in words"
		}
		data = fmt.Appendf(data, `{"id":%q,"input":"Double %d.","model":[{"text":%q}],"grade":{"kind":"exact","expected":"%d"}}`+"\n", id, i+1, said, 2*(i+1))
	}
	l.write("bench/sums/dataset.jsonl", data)
	l.ok("bench", "digest", "sums")
	for _, who := range []string{"example-alice", "example-bob"} {
		l.ok("bench", "sign", "sums", "--key", l.key(who))
	}
	if code, _, stderr := l.run("run", "sums"); code != 4 {
		t.Fatalf("run: exit %d: %s", code, stderr)
	}
	l.write("wheel", []byte("a harness"))
	return l
}

func (l *trial) key(who string) string { return l.path(".tally/keys/" + who) }

// correct has a person correct the score of a case of sums.default.1, and returns when.
func (l *trial) correct(caseID, score, who string) string {
	l.Helper()
	l.ok("review", "correct", "sums.default.1:"+caseID, "--score", score, "--reason", "as people see it", "--key", l.key(who))
	var card struct {
		Corrected []struct {
			CaseID string `json:"case_id"`
			At     string
		}
	}
	l.must(json.Unmarshal([]byte(l.ok("scorecard", "sums.default.1", "--json")), &card))
	for _, c := range card.Corrected {
		if c.CaseID == caseID {
			return c.At
		}
	}
	l.Fatalf("the correction of %s is not on the scorecard", caseID)
	return ""
}

// spoiling runs a command whose documents are damaged before they are issued.
func (l *trial) spoiling(spoil func(any), args ...string) (code int, stdout, stderr string) {
	l.Helper()
	var out, errs bytes.Buffer
	env := newEnv(strings.NewReader(""), &out, &errs, l.getenv)
	env.spoil = spoil
	code = newProgram(env).main(append([]string{"--workspace", l.dir}, args...))
	return code, out.String(), errs.String()
}

// below is every file of a folder, or one file, as a text.
func (l *trial) below(path string) string {
	l.Helper()
	var all strings.Builder
	l.must(filepath.WalkDir(path, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(name)
		all.Write(opened(l.T, data))
		all.WriteByte('\n')
		return err
	}))
	return all.String()
}
