package cli

import (
	"bytes"
	"strings"
	"testing"

	"tallystick/internal/record/evidence"
	"tallystick/internal/testing/terminal"
)

// At a terminal each label is recorded before the next case is shown; Enter skips a
// case, q leaves, and what was answered stays. Blind shows nobody's opinion.
func TestReviewAtATerminal(t *testing.T) {
	l := newTrial(t)
	id := l.attempt(true, func(*evidence.CaseScored) bool { return true })
	review := func(typed string, args ...string) (string, int) {
		t.Helper()
		person, program := terminal.Open(t, 50, 200)
		env := newEnv(program, program, program, l.getenv)
		seen := make(chan string, 1)
		go func() {
			var out bytes.Buffer
			buf := make([]byte, 4096)
			for !strings.Contains(out.String(), "How people agree") && !strings.Contains(out.String(), "error:") {
				n, err := person.Read(buf)
				if err != nil {
					break
				}
				out.Write(buf[:n])
			}
			seen <- out.String()
		}()
		if _, err := person.WriteString(typed); err != nil {
			t.Fatal(err)
		}
		code := newProgram(env).main(append([]string{"--workspace", l.dir, "review", id, "--key", l.path(".tally/keys/example-alice")}, args...))
		return <-seen, code
	}
	out, code := review("maybe\np\nwell done\n\nfail\n\nq\n", "--blind")
	if code != 0 || !strings.Contains(out, `"maybe" is not one of them`) || strings.Count(out, "recorded as entry") != 2 || !strings.Contains(out, "2 labels signed by") {
		t.Errorf("exit %d\n%s", code, out)
	}
	if strings.Contains(out, "scored   ") || strings.Contains(out, "check    ") {
		t.Errorf("a blind reviewer was shown a score:\n%s", out)
	}
	// What was labelled is not shown again; the case that was skipped is.
	out, code = review("q\n")
	if code != 0 || strings.Contains(out, "case 1 of") || !strings.Contains(out, "=== case 2 of") || !strings.Contains(out, "scored   ") {
		t.Errorf("exit %d\n%s", code, out)
	}
	out, _ = review("q\n", "--again")
	if !strings.Contains(out, "=== case 1 of") || !strings.Contains(out, "said pass well done") {
		t.Error(out)
	}
}
