package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tallystick/internal/app/spend"
	"tallystick/internal/testing/fakemodel"
	"tallystick/internal/testing/terminal"
)

// A watching is a "tally run --watch" at a terminal.
type watching struct {
	t       *testing.T
	s       *studio
	person  *os.File
	program *os.File
	stop    context.CancelFunc
	done    chan int

	mu   sync.Mutex
	seen strings.Builder
	from int // what was looked at before
}

// newWatching watches the class hello of a studio, whose models answer as written.
func newWatching(t *testing.T, rows, columns uint16, flags ...string) *watching {
	t.Helper()
	s := newStudio(t, fakemodel.Answer(t, saysHello))
	for _, id := range []string{"a", "b"} {
		s.writeCase(id, answering("hello"))
	}
	return watchStudio(t, s, rows, columns, flags...)
}

func answering(text string) string {
	return "version: 1\nturns:\n  - text: say hello\nmodel:\n  - text: " + text + "\n"
}

func watchStudio(t *testing.T, s *studio, rows, columns uint16, flags ...string) *watching {
	t.Helper()
	person, program := terminal.Open(t, rows, columns)
	ctx, stop := context.WithCancel(context.Background())
	w := &watching{t: t, s: s, person: person, program: program, stop: stop, done: make(chan int, 1)}
	go func() {
		buffer := make([]byte, 4096)
		for {
			n, err := person.Read(buffer)
			w.mu.Lock()
			w.seen.Write(buffer[:n])
			w.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	env := newEnv(program, program, program, s.getenv)
	env.NoColor = true
	go func() {
		err := newProgram(env).run(ctx, append([]string{"run", "hello", "--watch", "--workspace", s.dir, "--no-color"}, flags...))
		if err != nil {
			env.printError(err)
			w.done <- 1
			return
		}
		w.done <- 0
	}()
	t.Cleanup(func() { stop(); w.ends() })
	return w
}

// sees waits for a text that was not seen before.
func (w *watching) sees(text string) string {
	w.t.Helper()
	for range 3000 {
		w.mu.Lock()
		fresh := w.seen.String()[w.from:]
		if at := strings.Index(fresh, text); at >= 0 {
			w.from += at + len(text)
			w.mu.Unlock()
			return fresh[:at+len(text)]
		}
		w.mu.Unlock()
		time.Sleep(10 * time.Millisecond)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.t.Fatalf("%q never came; the terminal has\n%s", text, w.seen.String()[w.from:])
	return ""
}

func (w *watching) press(keys string) {
	w.t.Helper()
	if _, err := w.person.WriteString(keys); err != nil {
		w.t.Fatal(err)
	}
}

func (w *watching) ends() int {
	select {
	case code := <-w.done:
		w.done <- code
		return code
	case <-time.After(30 * time.Second):
		w.t.Error("the watch does not end")
		return -1
	}
}

func (w *watching) mode() unix.Termios {
	w.t.Helper()
	t, err := unix.IoctlGetTermios(int(w.program.Fd()), unix.TCGETS)
	if err != nil {
		w.t.Fatal(err)
	}
	return *t
}

const waitingForKeys = "q ends"

func TestWatchKeys(t *testing.T) {
	w := newWatching(t, 40, 100)
	w.sees("cases    2: 2 passed, 0 failed")
	w.sees("done     2 driven")
	w.sees(waitingForKeys)
	w.press("x") // is nothing
	w.press("?")
	for _, k := range watchKeys {
		w.sees(k.does)
	}
	w.press("f")
	w.sees("done     0 driven, 2 as they were")
	w.sees(waitingForKeys)
	w.press("r")
	w.sees("done     2 driven")
	w.sees(waitingForKeys)
	w.press("a")
	w.sees("no case differs from its golden trace")
	w.press("c")
	w.sees("there is one target")

	w.s.writeCase("b", answering("goodbye to you"))
	got := w.sees(waitingForKeys)
	for _, part := range []string{"changed  bench/hello/cases/b/scenario.yaml", "failed   b, passed before", "before", "| {+goodbye to you+}", "done     1 driven, 1 as they were"} {
		if !strings.Contains(got, part) {
			t.Errorf("%q is missing:\n%s", part, got)
		}
	}
	w.s.write("bench/hello/cases/a/input/note.txt", "another\n")
	if got := w.sees(waitingForKeys); !strings.Contains(got, "still    b: as before") || strings.Contains(got, "goodbye") {
		t.Errorf("what is as it was is shown again:\n%s", got)
	}
	w.press("f")
	w.sees("done     1 driven, 1 as they were")
	w.sees(waitingForKeys)
	w.press("q")
	if code := w.ends(); code != 0 {
		t.Errorf("exit %d", code)
	}
}

func TestWatchGraderEditAsksNothing(t *testing.T) {
	w := newWatching(t, 40, 100)
	w.sees(waitingForKeys)
	w.s.write("bench/hello/cases/b/grading.yaml", "version: 1\ngrade: {kind: exact, expected: goodbye}\n")
	got := w.sees(waitingForKeys)
	for _, part := range []string{"failed   b, passed before", "done     0 driven, 1 graded again with 0 calls, 1 as they were"} {
		if !strings.Contains(got, part) {
			t.Errorf("%q is missing:\n%s", part, got)
		}
	}
}

// TestWatchAcceptsByKey: the only change at once, one of several after a question.
func TestWatchAcceptsByKey(t *testing.T) {
	s := newStudio(t, fakemodel.Answer(t, saysHello))
	for _, id := range []string{"a", "b"} {
		s.writeCase(id, answering("hello"))
	}
	if code := s.plainly("golden", "update", "hello"); code != 0 {
		t.Fatal(s.out)
	}
	golden := func(id string) string {
		text, err := os.ReadFile(filepath.Join(s.dir, "golden/hello/default", id+".golden"))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	before := golden("a")
	w := watchStudio(t, s, 60, 100)
	w.sees(waitingForKeys)
	s.writeCase("a", answering("hi a"))
	s.writeCase("b", answering("hi b"))
	w.sees("golden   2 cases differ from the golden trace: a, b")
	w.sees(waitingForKeys)
	w.press("a")
	if got := w.sees("which does the agent do right?"); !strings.Contains(got, "1  a by default") || !strings.Contains(got, "hi b") {
		t.Errorf("the question does not show what is accepted:\n%s", got)
	}
	w.press("\x1b")
	w.sees("left as it is")
	w.press("a")
	w.sees("which does")
	w.press("7\n")
	w.sees("is not a number of the list, 1 to 2")
	w.press("a")
	w.sees("which does")
	w.press("12\x7f\x7f2\n")
	if got := w.sees("accepted golden trace of b"); strings.Contains(got, "trace of a") {
		t.Errorf("another was accepted too:\n%s", got)
	}
	w.sees("golden   1 case differs")
	w.sees(waitingForKeys)
	if golden("a") != before || !strings.Contains(golden("b"), "hi b") {
		t.Errorf("a: %s\nb: %s", golden("a"), golden("b"))
	}
	// The file that was written is a change, too.
	w.press("a")
	w.sees("accepted golden trace of a")
	w.sees("hi a")
}

// TestWatchGivesTheTerminalBack: however it ends.
func TestWatchGivesTheTerminalBack(t *testing.T) {
	for name, end := range map[string]func(w *watching){
		"by its key":        func(w *watching) { w.press("q") },
		"by its context":    func(w *watching) { w.stop() },
		"because it cannot": func(w *watching) { w.person.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWatching(t, 40, 100)
			w.sees(waitingForKeys)
			if m := w.mode(); m.Lflag&(unix.ICANON|unix.ECHO) != 0 || m.Lflag&unix.ISIG == 0 || m.Oflag&unix.OPOST == 0 {
				t.Errorf("while it watches the terminal has %x, %x", m.Lflag, m.Oflag)
			}
			before := w.mode()
			end(w)
			if name == "because it cannot" {
				w.stop()
				w.ends()
				return // there is no terminal to look at
			}
			w.ends()
			if m := w.mode(); m.Lflag&unix.ICANON == 0 || m.Lflag&unix.ECHO == 0 || m.Cc[unix.VMIN] != 1 || m == before {
				t.Errorf("afterwards the terminal has %x", m.Lflag)
			}
		})
	}
}

// TestWatchTakesTheTerminalAgain: what stopped the program may have changed it.
func TestWatchTakesTheTerminalAgain(t *testing.T) {
	w := newWatching(t, 40, 100)
	w.sees(waitingForKeys)
	m := w.mode()
	changed := m
	changed.Lflag |= unix.ICANON | unix.ECHO
	if err := unix.IoctlSetTermios(int(w.program.Fd()), unix.TCSETS, &changed); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	for range 500 {
		if w.mode().Lflag == m.Lflag {
			w.press("q")
			w.ends()
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("after a continue there are no keys")
}

// TestWatchComparesVariantsByKey: two at once, two of three after a question.
func TestWatchComparesVariantsByKey(t *testing.T) {
	s := newStudio(t, fakemodel.Answer(t, saysHello))
	s.writeCase("a", answering("hello"))
	s.writeCase("b", "version: 1\nturns:\n  - text: say hello\nmodel:\n  - {when: {agent: fake-2}, text: good morning}\n  - text: hello\n")
	s.write("targets/default.yaml", "version: 1\nkind: builtin\nbuiltin: {model: fake-1, api: openai.chat, max_output_tokens: 100, retries: 0}\nparameters:\n  model: [fake-1, fake-2, fake-3]\n")
	w := watchStudio(t, s, 60, 80)
	w.sees("done     6 driven")
	w.sees(waitingForKeys)
	w.press("c")
	w.sees("which two?")
	w.press("1 2\n")
	got := w.sees("of 2 cases")
	for _, part := range []string{"b: passed to failed", "{+good morning+}", "0 gained, 1 lost"} {
		if !strings.Contains(got, part) {
			t.Errorf("%q is missing:\n%s", part, got)
		}
	}
}

// TestWatchInAPipeHasNoKeys: what is there to read stays where it is.
func TestWatchInAPipeHasNoKeys(t *testing.T) {
	r, wr, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	wr.WriteString("qqq\n")
	wr.Close()
	if k := openKeyboard(context.Background(), newEnv(r, os.Stdout, os.Stderr, os.Getenv)); k != nil {
		t.Error("a pipe has keys")
	}
	_, program := terminal.Open(t, 10, 80)
	env := newEnv(program, program, program, os.Getenv)
	env.JSON = true
	if k := openKeyboard(context.Background(), env); k != nil {
		t.Error("--json has keys")
	}
}

// TestWatchPaysOnceForWhatIsNew: without a permission nothing is asked; with one exactly
// what is missing is, once, and a grader's edit asks nothing.
func TestWatchPaysOnceForWhatIsNew(t *testing.T) {
	var calls atomic.Int64
	server := fakemodel.Answer(t, func(fakemodel.Request) fakemodel.Reply { calls.Add(1); return fakemodel.Reply{Text: "hello"} })
	s := newStudio(t, server)
	w := watchStudio(t, s, 60, 160)
	got := w.sees(waitingForKeys)
	for _, part := range []string{"new      2 of 2 cases ask something new: ", "--live", "not asked: there is no permission", "today    $0"} {
		if !strings.Contains(got, part) {
			t.Errorf("%q is missing:\n%s", part, got)
		}
	}
	if strings.Contains(got, "error    a") || calls.Load() != 0 {
		t.Errorf("a question is shown as an error, or was paid (%d calls):\n%s", calls.Load(), got)
	}

	s.permit(server.OpenAI())
	w.press("r")
	w.sees("2: 2 passed")
	w.sees("for 2 calls")
	w.sees(waitingForKeys)
	s.writeCase("b", "version: 1\nturns:\n  - text: say hello once more\n")
	w.sees("2: 2 passed")
	w.sees("for 1 call")
	w.sees(waitingForKeys)
	s.write("bench/hello/cases/b/grading.yaml", "version: 1\ngrade: {kind: contains, expected: [hell]}\n")
	w.sees("1 graded again with 0 calls")
	w.sees(waitingForKeys)
	w.press("r")
	w.sees("done     2 driven")
	w.sees(waitingForKeys)
	if n := calls.Load(); n != 3 {
		t.Errorf("the provider was asked %d times, want 3", n)
	}
}

// permit gives the permission that a person gives at a terminal.
func (s *studio) permit(endpoint string) {
	s.t.Helper()
	subject, err := spend.SubjectOf(s.dir, endpoint, "STUDIO_KEY", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	book, err := spend.Open(s.getenv, time.Now)
	if err == nil {
		err = book.Give(subject, spend.Limit{MicroUSD: 1_000_000, Calls: 100})
	}
	if err != nil {
		s.t.Fatal(err)
	}
}
