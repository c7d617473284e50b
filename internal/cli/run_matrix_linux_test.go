package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"tallystick/internal/read/outline"
	"tallystick/internal/testing/fakemodel"
	"tallystick/internal/testing/terminal"
)

// atTerminal runs a command whose answer goes to a terminal of so many columns.
func (s *studio) atTerminal(columns uint16, args ...string) string {
	s.t.Helper()
	person, program := terminal.Open(s.t, 50, columns)
	seen := make(chan string, 1)
	go func() {
		var all bytes.Buffer
		buffer := make([]byte, 4096)
		for !strings.HasSuffix(all.String(), "THE END\r\n") {
			n, err := person.Read(buffer)
			all.Write(buffer[:n])
			if err != nil {
				break
			}
		}
		seen <- strings.ReplaceAll(strings.TrimSuffix(all.String(), "THE END\r\n"), "\r\n", "\n")
	}()
	env := newEnv(strings.NewReader(""), program, io.Discard, s.getenv)
	if err := newProgram(env).run(context.Background(), append(args, "--workspace", s.dir, "--no-color")); err != nil {
		fmt.Fprintln(program, err)
	}
	fmt.Fprintln(program, "THE END")
	select {
	case text := <-seen:
		return text
	case <-time.After(30 * time.Second):
		s.t.Fatal("the terminal got nothing")
		return ""
	}
}

// newGrid is a studio whose target has as many variants as there are answers, each
// of which says another thing in case b.
func newGrid(t *testing.T, answers ...string) *studio {
	s := newStudio(t, fakemodel.Answer(t, saysHello))
	s.writeCase("a", answering("hello"))
	scenario, models := "version: 1\nturns:\n  - text: say hello\nmodel:\n", []string{}
	for i, text := range answers {
		models = append(models, fmt.Sprintf("fake-%d", i+1))
		scenario += fmt.Sprintf("  - {when: {agent: fake-%d}, text: %q}\n", i+1, text)
	}
	s.writeCase("b", scenario)
	s.write("targets/default.yaml", "version: 1\nkind: builtin\nbuiltin: {model: fake-1, api: openai.chat, max_output_tokens: 100, retries: 0}\nparameters:\n  model: ["+strings.Join(models, ", ")+"]\n")
	return s
}

func TestGridShowsAnswersSideBySide(t *testing.T) {
	s := newGrid(t, "hello", "hello there, you", "good morning", "\x1b[2Jhello")
	for _, columns := range []uint16{80, 120} {
		got := s.atTerminal(columns, "run", "hello")
		for _, part := range []string{"\nb\n", "  1 passed", " | 2 failed", "{+there,", "{+good", `\x1b[2Jhello`, `Next: "tally compare latest~3 latest~2" sets`} {
			if !strings.Contains(got, part) {
				t.Errorf("%d columns: %q is missing:\n%s", columns, part, got)
			}
		}
		if strings.Contains(got, "\na\n") {
			t.Errorf("a case that says the same everywhere is shown:\n%s", got)
		}
		for line := range strings.Lines(got) {
			if outline.Width(strings.TrimSuffix(line, "\n")) > int(columns) && strings.Contains(line, " | ") {
				t.Errorf("wider than %d columns: %q", columns, line)
			}
		}
	}
}

// TestGridNamesACompareThatWorks: as it is pasted.
func TestGridNamesACompareThatWorks(t *testing.T) {
	s := newGrid(t, "hello", "goodbye")
	got := s.atTerminal(100, "run", "hello")
	_, rest, ok := strings.Cut(got, `Next: "tally `)
	command, _, _ := strings.Cut(rest, `"`)
	if !ok || command != "compare latest~1 latest" {
		t.Fatalf("no command: %q\n%s", command, got)
	}
	if code := s.plainly(strings.Fields(command)...); code != 0 || !strings.Contains(s.out, "lost     b") {
		t.Errorf("exit %d: %s", code, s.out)
	}
}

// TestGridBeyondFourColumnsIsATable: and as JSON it has every answer.
func TestGridBeyondFourColumnsIsATable(t *testing.T) {
	s := newGrid(t, "hello", "two", "three", "four", "five")
	got := s.atTerminal(100, "run", "hello")
	if strings.Contains(got, " | ") || !strings.Contains(got, "b     ✓  ✗  ✗  ✗  ✗") {
		t.Errorf("five targets:\n%s", got)
	}
	s.plainly("run", "hello", "--json", "--quiet")
	for _, part := range []string{`"answers":[{"case":"b","answers":{`, `"default[model=fake-5]":"five"`} {
		if !strings.Contains(s.out, part) {
			t.Errorf("%s is missing: %s", part, s.out)
		}
	}
}

// TestGridHidesHeldOutAnswers: in the columns and as JSON.
func TestGridHidesHeldOutAnswers(t *testing.T) {
	s := newGrid(t, "hello", "a secret")
	file, err := os.ReadFile(s.dir + "/bench/hello/cases/b/case.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s.write("bench/hello/cases/b/case.yaml", string(file)+"held_out: true\n")
	if got := s.atTerminal(100, "run", "hello"); strings.Contains(got, "secret") || !strings.Contains(got, "b     ✓  ✗") {
		t.Errorf("on a terminal:\n%s", got)
	}
	if s.plainly("run", "hello", "--json", "--quiet"); strings.Contains(s.out, "secret") {
		t.Errorf("as JSON: %s", s.out)
	}
}
