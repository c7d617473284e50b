package cli

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"tallystick/internal/testing/terminal"
)

// atTerminal is what a person sees who runs a command at a terminal of that width, without
// colours.
func (l *trial) atTerminal(columns uint16, args ...string) string {
	l.Helper()
	person, program := terminal.Open(l.T, 500, columns)
	env := newEnv(program, program, program, l.getenv)
	seen := make(chan string)
	go func() {
		var out bytes.Buffer
		buf := make([]byte, 4096)
		for {
			n, err := person.Read(buf)
			out.Write(buf[:n])
			if err != nil {
				break
			}
		}
		seen <- out.String()
	}()
	newProgram(env).main(append([]string{"--workspace", l.dir}, args...))
	program.Close()
	return strings.ReplaceAll(regexp.MustCompile(`\x1b\[[0-9;]*m`).ReplaceAllString(<-seen, ""), "\r", "")
}

// talks is a workspace with an attempt whose agent calls a tool, says much and steers the
// terminal.
func talks(t *testing.T) *trial {
	l := &trial{T: t, dir: filepath.Join(t.TempDir(), "ws"), state: t.TempDir()}
	l.ok("init", l.dir)
	l.write("bench/talks/registration.yaml", []byte(`version: 1
class: talks
trust: scratch
current_tier: bronze
limits: {wall_clock_seconds: 60, memory_bytes: 1073741824, turns: 20, tokens: 10000000, cost_microdollars: 1000000}
governance: autonomous
isolation: {classes: [gvisor], scope: case, allow_weaker: false}
judged_scores_count: false
`))
	var lines bytes.Buffer
	add := func(v map[string]any) {
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		lines.Write(append(data, '\n'))
	}
	said := func(text string) map[string]any { return map[string]any{"text": text} }
	add(map[string]any{"id": "looks-it-up", "input": "Where is order A-1042?", "tools": []any{map[string]any{"name": "find_order", "description": "Find an order.", "class": "read", "replies": []any{map[string]any{"result": map[string]any{"arrives": "Friday"}}}}},
		"model": []any{map[string]any{"tool_calls": []any{map[string]any{"name": "find_order", "args": map[string]any{"number": "A-1042"}}}}, said("It arrives on Friday.")}, "expected": "It arrives on Friday.", "grade": map[string]any{"kind": "exact"}})
	add(map[string]any{"id": "explains", "input": "Why?", "model": []any{said(strings.Repeat("Because 1042 is a number that must stay whole. ", 60) + "THE END")}, "expected": "x", "grade": map[string]any{"kind": "exact"}})
	add(map[string]any{"id": "steers", "input": "Hi", "model": []any{said("ok\x1b[2J\u202etxt\nturn 9\n    1  user       forged")}, "expected": "x", "grade": map[string]any{"kind": "exact"}})
	l.write("bench/talks/dataset.jsonl", lines.Bytes())
	if code, out, errs := l.run("run", "talks"); code != 4 {
		t.Fatalf("exit %d\n%s%s", code, out, errs)
	}
	return l
}

const talk1 = "talks.default.1"

func longest(text string) (n int) {
	for line := range strings.Lines(text) {
		n = max(n, utf8.RuneCountInString(strings.TrimRight(line, "\n")))
	}
	return n
}

// The log leaves out columns that have no room, and says which; it breaks no line.
func TestTheLogFitsTheTerminal(t *testing.T) {
	l := talks(t)
	l.ok("name", talk1, "prompt v9", "--note", "temperature was 0.7")
	for columns, want := range map[uint16]string{200: "", 80: "left out for want of room: level", 50: "left out for want of room: level, cost, when"} {
		out := l.atTerminal(columns, "log")
		if n := longest(out); n > int(columns) {
			t.Errorf("%d columns: a line has %d\n%s", columns, n, out)
		}
		last := strings.TrimSpace(out[strings.LastIndex(strings.TrimSpace(out), "\n")+1:])
		if strings.HasPrefix(last, "left out") != (want != "") || !strings.HasPrefix(last, want) || !strings.Contains(out, talk1+" ") || !strings.Contains(out, "1 of 3 ") {
			t.Errorf("%d columns:\n%s", columns, out)
		}
		if columns == 200 && !strings.Contains(out, `"prompt v9", 1 of 1, noted: temperature was 0.7`) {
			t.Errorf("the name is not told with which attempt of how many it is:\n%s", out)
		}
	}
	if code, out, _ := l.run("log"); code != 0 || strings.Contains(out, "left out") || !strings.Contains(out, "scratch") || !strings.Contains(out, "level") {
		t.Errorf("in a pipe:\n%s", out)
	}
	if code, out, _ := l.run("--json", "log"); code != 0 || !strings.Contains(out, `"name":"prompt v9"`) || !strings.Contains(out, `"level":"scratch"`) {
		t.Errorf("as JSON: %s", out)
	}
}

// A case is told as a conversation, within the terminal, and no text of an agent begins a
// line of it.
func TestACaseIsToldAsAConversation(t *testing.T) {
	l := talks(t)
	out := l.atTerminal(80, "show", talk1+":looks-it-up")
	if n := longest(out); n > 80 {
		t.Errorf("a line has %d letters:\n%s", n, out)
	}
	at := 0
	for _, want := range []string{"turn 1\n", "user       Where is order A-1042?", "assistant  calls find_order", "tool       find_order", "number: A-1042", "policy allow", `gave {"arrives":"Friday"}`, "It arrives on Friday."} {
		i := strings.Index(out[at:], want)
		if i < 0 {
			t.Fatalf("no %q after the %d letters before it:\n%s", want, at, out)
		}
		at += i
	}
	if n := strings.Count(out, "find_order"); n > 4 { // asked for, called, and why it was allowed
		t.Errorf("one call is told %d times:\n%s", n, out)
	}
	_, long, _ := l.run("show", talk1+":explains")
	if !strings.Contains(long, "1 long text folded: tally show "+talk1+":explains --full") && !strings.Contains(long, "long texts folded: tally show "+talk1+":explains --full") {
		t.Errorf("a long text is not folded, or it is not said how to see it:\n%s", long)
	}
	if _, whole, _ := l.run("show", talk1+":explains", "--full"); !strings.Contains(whole, "THE END\n") || strings.Contains(whole, "folded") {
		t.Errorf("--full:\n%s", whole)
	}
	_, whole, _ := l.run("show", talk1+":explains", "--full")
	if n, want := strings.Count(l.atTerminal(80, "show", talk1+":explains", "--full"), "1042"), strings.Count(whole, "1042"); n != want || n < 60 {
		t.Errorf("%d of %d numbers are whole at the terminal", n, want)
	}
	if _, steps, _ := l.run("show", talk1+":looks-it-up", "--steps"); !strings.Contains(steps, "run_started") || strings.Contains(steps, "assistant  ") {
		t.Errorf("--steps:\n%s", steps)
	}
	_, steers, _ := l.run("show", talk1+":steers")
	if strings.ContainsAny(steers, "\x1b\u202e") || regexp.MustCompile(`(?m)^(turn 9|    1  user)`).MatchString(steers) {
		t.Errorf("an agent's text steers the terminal or begins a line: %q", steers)
	}
}

// Failures are grouped by what went wrong.
func TestFailuresAreGroupedByMode(t *testing.T) {
	l := talks(t)
	_, out, _ := l.run("show", talk1)
	_, modes, found := strings.Cut(out, "mode     ")
	if line, _, _ := strings.Cut(modes, "\n"); !found || !strings.Contains(line, ": 2 cases: ") || !strings.Contains(line, "explains") || !strings.Contains(line, "steers") {
		t.Errorf("the two cases that failed alike are not named together:\n%s", out)
	}
}
