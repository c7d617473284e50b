package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"

	"tallystick/internal/record/refusal"
)

// An agent that answers differently the second time does not reproduce: the
// disagreement is recorded with its first divergence, and the command fails.
func TestReproductionThatDisagreesIsRecorded(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("ssh-keygen"); err != nil {
		t.Skip("needs ssh-keygen")
	}
	w := newKilledWorkspace(t)
	w.addBulk(1)
	var calls atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) {
		answer := "0"
		if calls.Add(1) > 1 {
			answer = "1"
		}
		json.NewEncoder(out).Encode(map[string]string{"answer": answer})
	}))
	defer server.Close()
	target := fmt.Sprintf("version: 1\nkind: http\nhttp: {url: %q}\n", server.URL)
	if err := os.WriteFile(filepath.Join(w.dir, "targets", "fickle.yaml"), []byte(target), 0o644); err != nil {
		t.Fatal(err)
	}
	w.must("run", "bulk", "--target", "fickle")

	key := w.addOperator("rita")
	cmd := w.command("--workspace", w.dir, "reproduce", "bulk.fickle.1", "--json")
	cmd.Env = append(cmd.Env, "TALLY_OPERATOR_KEY="+key)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.Run()
	var answer struct {
		Agrees     bool
		Divergence string
		Entry      int64
	}
	var refused struct{ Name refusal.Name }
	if err := json.Unmarshal(stdout.Bytes(), &answer); err != nil {
		t.Fatalf("%v: %s\n%s", err, stdout.Bytes(), stderr.Bytes())
	}
	json.Unmarshal(stderr.Bytes(), &refused)
	if answer.Agrees || answer.Divergence != "case case-00000: was passed, is failed" || refused.Name != refusal.NotReproduced || cmd.ProcessState.ExitCode() != 4 {
		t.Errorf("answer %+v, refused %q, exit %d", answer, refused.Name, cmd.ProcessState.ExitCode())
	}
	out, err := w.command("--workspace", w.dir, "ledger", "show", fmt.Sprint(answer.Entry)).Output()
	if err != nil || !bytes.Contains(out, []byte(`"agrees":false`)) {
		t.Errorf("entry %d: %s, %v", answer.Entry, out, err)
	}
}
