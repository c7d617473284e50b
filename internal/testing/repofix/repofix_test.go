package repofix

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// run runs the test of a repository whose script is this.
func (t *Task) run(tb testing.TB, script string) (passed bool, log string) {
	tb.Helper()
	dir := tb.TempDir()
	for name, text := range t.Files {
		if name == t.Path {
			text = script
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			tb.Fatal(err)
		}
	}
	cmd := exec.Command("sh", "test.sh")
	cmd.Dir, cmd.Env = dir, []string{"PATH=" + os.Getenv("PATH")}
	out, err := cmd.CombinedOutput()
	return err == nil, string(out)
}

// Every task is one: its test fails before the fix and passes after it, and some
// of its checks pass before too, so that the bug is one bug.
func TestEveryTaskIsRedBeforeItsFixAndGreenAfterIt(t *testing.T) {
	seen := map[string]bool{}
	for n := 1; n <= 100; n++ {
		task := New(n)
		script := task.Files[task.Path]
		if c := strings.Count(script, task.Old); c != 1 {
			t.Errorf("%s: %q occurs %d times in the script, want once", task.ID, task.Old, c)
		}
		if seen[script] {
			t.Errorf("%s: another task has the same script", task.ID)
		}
		seen[script] = true
		if passed, log := task.run(t, script); passed || !strings.Contains(log, "FAIL  ") || !strings.Contains(log, "ok    ") {
			t.Errorf("%s before its fix:\n%s", task.ID, log)
		}
		if passed, log := task.run(t, task.Fixed()); !passed || strings.Contains(log, "FAIL") {
			t.Errorf("%s after its fix:\n%s\n%s", task.ID, task.Fixed(), log)
		}
	}
}

func TestTasksAreTheSameEveryTime(t *testing.T) {
	all := func(int) Conduct { return Conduct{} }
	a, err := Dataset(100, all)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Dataset(100, all)
	if err != nil || !bytes.Equal(a, b) || bytes.Count(a, []byte("\n")) != 100 {
		t.Errorf("%d and %d bytes, %v", len(a), len(b), err)
	}
}
