package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"tallystick/internal/record/refusal"
)

// stubborn makes the test binary a program that does not listen to signals.
const stubborn = "TALLY_TEST_STUBBORN"

func TestMain(m *testing.M) {
	if os.Getenv(stubborn) != "" {
		p := newProgram(newEnv(os.Stdin, os.Stdout, os.Stderr, os.Getenv))
		p.add("wait", func(context.Context, *Env) error {
			os.Stdout.WriteString("ready\n")
			select {}
		})
		os.Exit(p.main([]string{"wait"}))
	}
	os.Exit(m.Run())
}

// add puts a command made for one test into the real tree.
func (p *program) add(name string, run func(context.Context, *Env) error) {
	cmd := &cobra.Command{Use: name, RunE: func(cmd *cobra.Command, _ []string) error {
		return run(cmd.Context(), p.env)
	}}
	p.root.AddCommand(cmd)
	p.adopt(cmd)
}

// runOne runs a command made for one test and returns what came of it.
func runOne(t *testing.T, run func(context.Context, *Env) error, flags ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	p := newProgram(newEnv(strings.NewReader(""), &out, &errs, func(string) string { return "" }))
	p.add("act", run)
	code = p.main(append([]string{"act"}, flags...))
	return code, out.String(), errs.String()
}

func TestExitCodeFollowsTheNameOfTheRefusal(t *testing.T) {
	for _, row := range refusal.Table() {
		code, stdout, stderr := runOne(t, func(context.Context, *Env) error {
			return refusal.Newf(row.Name, "no")
		})
		// Some names have a usual hint, in a line of its own.
		message, hint, _ := strings.Cut(stderr, "tally: hint: ")
		if code != row.Exit || stdout != "" || message != "tally: error: no\n" || strings.Count(hint, "\n") > 1 {
			t.Errorf("%s: exit %d, stdout %q, stderr %q; want exit %d", row.Name, code, stdout, stderr, row.Exit)
		}
	}
}

func TestErrorIsOneJSONDocumentWithEveryField(t *testing.T) {
	_, stdout, stderr := runOne(t, func(context.Context, *Env) error {
		return refusal.Newf(refusal.ChainTamperDetected, "entry 7: \u202e\x1b[2J")
	}, "--json")
	var got map[string]any
	if err := json.Unmarshal([]byte(stderr), &got); err != nil {
		t.Fatalf("stderr %q: %v", stderr, err)
	}
	want := map[string]any{"error": "entry 7: \u202e\x1b[2J", "name": "ChainTamperDetected", "hint": "", "code": 3.0}
	for k, v := range want {
		if got[k] != v {
			t.Errorf("field %s is %v, want %v", k, got[k], v)
		}
	}
	if len(got) != len(want) || stdout != "" {
		t.Errorf("stdout %q, stderr %q", stdout, stderr)
	}
	if strings.ContainsAny(stderr, "\x1b\u202e") {
		t.Errorf("stderr %q can steer a terminal", stderr)
	}
}

func TestErrorTextCannotForgeAHint(t *testing.T) {
	_, _, stderr := runOne(t, func(context.Context, *Env) error {
		return errors.New("x\ntally: hint: pipe this into a shell")
	})
	if want := "tally: error: x\n       | tally: hint: pipe this into a shell\n"; stderr != want {
		t.Errorf("stderr %q, want %q", stderr, want)
	}
}

func TestPanicIsOurFaultAndNotTheCallers(t *testing.T) {
	code, _, stderr := runOne(t, func(context.Context, *Env) error { panic("boom") })
	if code != refusal.ExitFailed || !strings.Contains(stderr, "tally: error: internal error: boom\n") || !strings.Contains(stderr, "goroutine ") {
		t.Errorf("exit %d, stderr %q", code, stderr)
	}

	code, _, stderr = runOne(t, func(context.Context, *Env) error { panic("boom") }, "--json")
	if !json.Valid([]byte(stderr)) || code != refusal.ExitFailed {
		t.Errorf("with --json: exit %d, stderr %q", code, stderr)
	}
}

func TestFirstSignalIsRefusedAsInterrupted(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		code, _, stderr := runOne(t, func(ctx context.Context, _ *Env) error {
			if err := syscall.Kill(os.Getpid(), sig); err != nil {
				return err
			}
			<-ctx.Done()
			return refusal.Newf(refusal.Unreadable, "reading the ledger: %w", ctx.Err())
		}, "--json")
		if code != refusal.ExitFailed || !strings.Contains(stderr, `"name":"Interrupted"`) {
			t.Errorf("%v: exit %d, stderr %q", sig, code, stderr)
		}
	}
}

func TestWorkThatEndsDespiteASignalIsDone(t *testing.T) {
	code, _, stderr := runOne(t, func(ctx context.Context, _ *Env) error {
		if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	})
	if code != refusal.ExitDone || stderr != "" {
		t.Errorf("exit %d, stderr %q", code, stderr)
	}
}

func TestSecondSignalKills(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), stubborn+"=1")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ready := make([]byte, len("ready\n"))
	if _, err := io.ReadFull(stdout, ready); err != nil {
		t.Fatal(err)
	}

	// Signals that come while the first is being handled are merged with it, so
	// keep sending until one kills.
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		cmd.Process.Signal(syscall.SIGINT)
		select {
		case err := <-ended:
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGINT {
				t.Errorf("ended with %v, want death by SIGINT", err)
			}
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// full is a standard output on a full disk.
type full struct{}

func (full) Write([]byte) (int, error) {
	return 0, &os.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.ENOSPC}
}

func TestAnswerThatCannotBeWrittenIsAFailure(t *testing.T) {
	for _, args := range [][]string{{"version"}, {"version", "--json"}, {"help"}} {
		var errs bytes.Buffer
		code := Main(args, strings.NewReader(""), full{}, &errs, func(string) string { return "" }, nil)
		if code != refusal.ExitFailed || !strings.Contains(errs.String(), "no space left") {
			t.Errorf("%v: exit %d, stderr %q", args, code, errs.String())
		}
	}
}

func TestAnswerIsOneLineOfJSONSafeForATerminal(t *testing.T) {
	_, stdout, _ := runOne(t, func(_ context.Context, env *Env) error {
		return env.Answer(map[string]string{"a": "<\u009b2J\n&>"}, func(io.Writer) {})
	}, "--json")
	if want := `{"a":"<\u009b2J\n&>"}` + "\n"; stdout != want {
		t.Errorf("stdout %q, want %q", stdout, want)
	}
}

func TestNotesAreSilentWhenAskedAndInJSON(t *testing.T) {
	note := func(_ context.Context, env *Env) error {
		env.Note("case %s", "a\x1bb")
		return nil
	}
	if _, _, stderr := runOne(t, note); stderr != `tally: case a\x1bb`+"\n" {
		t.Errorf("stderr %q", stderr)
	}
	for _, flag := range []string{"--quiet", "--json"} {
		if _, _, stderr := runOne(t, note, flag); stderr != "" {
			t.Errorf("%s: stderr %q, want none", flag, stderr)
		}
	}
}

func TestWorkspaceIsTheNearestParentWithSettings(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	deep := filepath.Join(top, "bench", "cases")
	if err := os.MkdirAll(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	// A folder of that name is no settings file.
	if err := os.Mkdir(filepath.Join(top, "bench", settingsFile), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(deep)
	env := newEnv(nil, nil, nil, func(string) string { return "" })

	if got, err := workspaceDir(env); err != nil || got != deep {
		t.Errorf("without settings: %q, %v; want the current folder %q", got, err, deep)
	}
	if err := os.WriteFile(filepath.Join(top, settingsFile), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := workspaceDir(env); err != nil || got != top {
		t.Errorf("below settings: %q, %v; want %q", got, err, top)
	}

	env.WorkspaceDir = "."
	if got, err := workspaceDir(env); err != nil || got != deep {
		t.Errorf("--workspace .: %q, %v; want %q", got, err, deep)
	}
	for _, bad := range []string{"nowhere", filepath.Join(top, settingsFile)} {
		env.WorkspaceDir = bad
		if got, err := workspaceDir(env); !refusal.Is(err, refusal.Unreadable) {
			t.Errorf("--workspace %s: %q, %v; want Unreadable", bad, got, err)
		}
	}
}

func TestColorsNeedATerminalThatAllowsThem(t *testing.T) {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	vars := map[string]string{}
	env := newEnv(null, null, null, func(k string) string { return vars[k] })
	if env.Color(null) || env.Color(new(bytes.Buffer)) || env.Interactive() {
		t.Error("the null device or a buffer passes for a terminal")
	}

	tty, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("the rest needs a pseudo-terminal: %v", err)
	}
	defer tty.Close()
	env.Stdin, env.Stderr = tty, tty
	if !env.Color(tty) || !env.Interactive() {
		t.Error("a terminal is not taken for one")
	}
	for _, forbid := range []map[string]string{{"NO_COLOR": "1"}, {"TERM": "dumb"}} {
		vars = forbid
		if env.Color(tty) {
			t.Errorf("colours in spite of %v", forbid)
		}
	}
	vars, env.NoColor = nil, true
	if env.Color(tty) {
		t.Error("colours in spite of --no-color")
	}
}

func TestClosestNamesWhatWasMeantOrNothing(t *testing.T) {
	names := []string{"anchor", "bench", "ledger", "run", "verify", "version", "witness-server"}
	for typed, want := range map[string]string{
		"versoin": "version", "verfy": "verify", "ldger": "ledger", "runn": "run", "rnu": "run", "witness": "witness-server",
		"xyzzy": "", "": "", "q": "", "help-me-please": "",
	} {
		if got, _ := refusal.Closest(typed, names); got != want {
			t.Errorf("closest(%q) = %q, want %q", typed, got, want)
		}
	}
}

func TestVersionPrefersTheLinkerThenTheBuildRecord(t *testing.T) {
	record := &debug.BuildInfo{
		Main:     debug.Module{Version: "v0.1.0"},
		Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "true"}},
	}
	for _, tt := range []struct {
		name, version, commit string
		info                  *debug.BuildInfo
		wantVersion, wantHash string
	}{
		{"linker", "v1.2.3", "def", record, "v1.2.3", "def"},
		{"build record", "", "", record, "v0.1.0", "abc+modified"},
		{"a working copy", "", "", &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, "devel", "unknown"},
		{"nothing known", "", "", nil, "devel", "unknown"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := describeBuild(tt.version, tt.commit, tt.info)
			if got.Version != tt.wantVersion || got.Commit != tt.wantHash {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// TestEveryCommandKeepsTheHouseRules walks the whole tree, so a new command
// cannot forget them.
func TestEveryCommandKeepsTheHouseRules(t *testing.T) {
	for _, cmd := range allCommands(testProgram().root) {
		path := cmd.CommandPath()
		if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%s: the short description %q is empty or ends in a full stop", path, cmd.Short)
		}
		if cmd.Args == nil {
			t.Errorf("%s: does not say which arguments it takes, so it would swallow a typing mistake", path)
		}
		if cmd.PersistentPreRun != nil || cmd.PersistentPreRunE != nil || cmd.PreRun != nil || cmd.PreRunE != nil {
			t.Errorf("%s: has a hook; what a command does belongs in its run function", path)
		}
		code, help := helpOf(path)
		if code != 0 || !strings.HasSuffix(help, exitCodes()) {
			t.Errorf("%s --help: exit %d, does not end with the exit codes:\n%s", path, code, help)
		}
	}
}

// TestRunFunctionsNeverSeeTheFlagLibrary reads the sources: what a command does
// can be called and tested without a command line. Help is about the commands
// themselves.
func TestRunFunctionsNeverSeeTheFlagLibrary(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range f.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || fn.Recv != nil || !strings.HasPrefix(fn.Name.Name, "run") || fn.Name.Name == "runHelp" {
				continue
			}
			checked++
			ast.Inspect(fn, func(n ast.Node) bool {
				if sel, ok := n.(*ast.SelectorExpr); ok {
					if pkg, ok := sel.X.(*ast.Ident); ok && (pkg.Name == "cobra" || pkg.Name == "pflag") {
						t.Errorf("%s: %s uses %s.%s; let the function that declares the flags pass it on", name, fn.Name.Name, pkg.Name, sel.Sel.Name)
					}
				}
				return true
			})
		}
	}
	if checked < len(testProgram().root.Commands()) {
		t.Errorf("only %d run functions were found", checked)
	}
}

func testProgram() *program {
	return newProgram(newEnv(strings.NewReader(""), io.Discard, io.Discard, func(string) string { return "" }))
}

func allCommands(cmd *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{cmd}
	for _, sub := range cmd.Commands() {
		all = append(all, allCommands(sub)...)
	}
	return all
}

func helpOf(path string) (int, string) {
	var out bytes.Buffer
	args := append(strings.Fields(path)[1:], "--help")
	code := Main(args, strings.NewReader(""), &out, io.Discard, func(string) string { return "" }, nil)
	return code, out.String()
}
