package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/run/egress"
	"tallystick/internal/run/gateway"
	"tallystick/internal/run/sandbox"
	"tallystick/internal/run/scenario"
	"tallystick/internal/run/session"
	"tallystick/internal/run/trajectory"
)

// Where things are for the program.
const (
	filesInside = "/agent"
	workInside  = "/work"
)

// maxAnswerFile bounds an answer that is read from a file.
const maxAnswerFile = 4 << 20

// Command is a program of any language. It is started once for each turn, in a
// sandbox, in the working folder of the case, with the user's words on its
// standard input, and says its answer on standard output or in a file. Its only
// way out is the gateway, at the addresses in its environment.
type Command struct {
	Command []string `json:"command"`

	// Files is a folder below targets/ that the program finds, read-only, as
	// /agent. It is covered by the target's digest.
	Files string `json:"files,omitempty"`

	// Source is the same for an agent that is there already: a file, or a
	// folder, in the workspace or above it in the same repository. What begins
	// with a dot, environments, caches and the workspace's own folders are left
	// out.
	Source string `json:"source,omitempty"`

	// Image is the root file system that the program finds, by the digest of an
	// image of "tally sandbox image". Without one it finds this machine's own
	// programs and libraries, of which no record can say what they were.
	Image string `json:"image,omitempty"`

	// Mounts are further folders of this machine, read-only. The target's digest
	// does not cover them; a plan names theirs. A relative one is below targets/.
	Mounts []CommandMount `json:"mounts,omitempty"`

	// Venv is the Python environment of the program: a folder in the workspace,
	// or above it in the same repository. It is read-only; what is installed is
	// covered by the target's digest.
	Venv string `json:"venv,omitempty"`

	// NodeModules are the installed packages of a program for node: a folder in
	// the workspace, or above it in the same repository. It is treated as Venv is.
	NodeModules string `json:"node_modules,omitempty"`

	// Warm is python for a program whose imports are made once for all cases of
	// an attempt: see Warm.
	Warm string `json:"warm,omitempty"`

	Env map[string]string `json:"env,omitempty"`

	// Input is what standard input carries: text, the user's words, or json,
	// an object with turn, input and history.
	Input string `json:"input,omitempty"`

	// AnswerFile is where the program leaves its answer, relative to the
	// working folder. Absent, the answer is its standard output.
	AnswerFile string `json:"answer_file,omitempty"`

	MemoryBytes int64 `json:"memory_bytes,omitempty"`
}

// A CommandMount shows a folder of this machine to the program.
type CommandMount struct {
	Host   string `json:"host"`
	Inside string `json:"inside,omitempty"` // the same path, if absent
	// Within is a folder in a hidden one of which Host may be shown all the
	// same. No file can say so.
	Within string `json:"-"`
}

func (c *Command) validate() error {
	if len(c.Command) == 0 || c.Command[0] == "" {
		return errors.New("command: is empty; name the program and its arguments")
	}
	if c.Files != "" && !fs.ValidPath(c.Files) {
		return fmt.Errorf("files: found %q, expected a folder below %s/", c.Files, TargetsDir)
	}
	if c.Source != "" && (!fs.ValidPath(c.Source) || c.Files != "") {
		return fmt.Errorf("source: found %q, expected a file or folder of the repository, and no files beside it", c.Source)
	}
	for _, m := range c.Mounts {
		if !path.IsAbs(m.Host) && (!fs.ValidPath(m.Host) || m.Inside == "") || m.Inside != "" && !path.IsAbs(m.Inside) {
			return fmt.Errorf("mounts: found %q as %q, expected an absolute path, or one below %s/ with an absolute inside", m.Host, m.Inside, TargetsDir)
		}
	}
	if _, err := digest.ParseContent(c.Image); c.Image != "" && err != nil {
		return fmt.Errorf("image: found %q, expected blake3: and 64 hex digits, as \"tally sandbox image show\" prints it", c.Image)
	}
	if err := checkVenv(c.Venv); err != nil {
		return err
	}
	if c.NodeModules != "" && !fs.ValidPath(c.NodeModules) {
		return fmt.Errorf("node_modules: found %q, expected a folder of the repository", c.NodeModules)
	}
	if err := c.checkWarm(); err != nil {
		return err
	}
	for name := range c.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			return fmt.Errorf("env: found the name %q", name)
		}
	}
	if c.Input != "" && c.Input != "text" && c.Input != "json" {
		return fmt.Errorf("input: found %q, expected text or json", c.Input)
	}
	if c.AnswerFile != "" && !fs.ValidPath(c.AnswerFile) {
		return fmt.Errorf("answer_file: found %q, expected a name in the working folder", c.AnswerFile)
	}
	return nil
}

// readFiles reads the program's files, so that what is hashed is what runs.
func (c *Command) readFiles(root *os.Root) (*digest.Tree, error) {
	if c.Source != "" {
		return readSource(root.Name(), c.Source)
	}
	if c.Files == "" {
		return nil, nil
	}
	tree, err := digest.ReadTree(root, path.Join(TargetsDir, c.Files), digest.TreeLimits{MaxFiles: 100_000, MaxBytes: 1 << 30})
	if err != nil {
		return nil, fmt.Errorf("files: %w", err)
	}
	return tree, nil
}

// A commandRun is one case of a command target.
type commandRun struct {
	c       *Command
	venv    *venv // nil without one
	modules *modules
	shown   view   // what the sandbox of the last turn had
	root    string // of the workspace
	hosts   []string
	s       *session.Session
	o       Options
	token   string
	files   string // copy of the program's files
	params  string // copy of the files of the target's parameters
	vars    []string
	told    map[string]any // the parameters, for those who read JSON
	history []httpMessage
	class   sandbox.Class
	preload *sandbox.Preload // of a warm one
	out     *wayOut          // nil for a target that lists no server
}

func (t *Target) driveCommand(ctx context.Context, s *session.Session, sc *scenario.Scenario, o Options) (DriveResult, error) {
	r := &commandRun{c: t.Command, venv: t.venv, modules: t.modules, root: t.root, hosts: t.hosts, s: s, o: o, token: gateway.NewToken(), history: []httpMessage{}}
	driven := DriveResult{Vantage: t.Vantage()}
	if o.Unsafe {
		driven.Isolation = isolationNone
	}
	if err := s.Hide(r.token); err != nil {
		return driven, err
	}
	if o.Warm != nil {
		driven.Scope = evidence.ScopeAttempt
	}
	r.vars, r.told = t.variables(), t.told(true)
	remove, err := r.plant(t)
	if err != nil {
		return driven, err
	}
	defer remove()
	if r.out, err = newWayOut(t.Egress, o); err != nil {
		return driven, err
	}
	defer r.out.end()
	for number := 1; ; number++ {
		text, more, err := s.NextTurn(ctx, "", sc.Turns)
		if err != nil {
			return driven, err
		}
		if !more {
			break
		}
		answer, stderr, err := r.turn(ctx, number, text)
		driven.Stderr = stderr
		if r.class != "" {
			driven.Isolation = string(r.class)
		}
		driven.Preload = r.preload
		if err != nil {
			return driven, err
		}
		driven.Answer = answer
		r.history = append(r.history, httpMessage{"user", text}, httpMessage{"agent", answer})
		if err := s.CompleteTurn(answer); err != nil {
			return driven, err
		}
	}
	return driven, nil
}

// plant copies what the program brings along, from memory: what was hashed is what
// runs.
func (r *commandRun) plant(t *Target) (remove func() error, err error) {
	params := t.parameterFiles()
	if r.o.Warm != nil || t.tree == nil && len(params) == 0 { // a warm one has them
		return func() error { return nil }, nil
	}
	dir, remove, err := store.TempDir("tally-agent-")
	if err != nil {
		return nil, err
	}
	if t.tree != nil {
		r.files = filepath.Join(dir, "agent")
		err = store.PlantProgram(r.files, t.tree.Files)
	}
	if err == nil && t.tree != nil && r.o.Unsafe && t.modules != nil { // node looks above the program
		err = store.PlantLink(t.modules.dir, filepath.Join(dir, "node_modules"))
	}
	if err == nil && len(params) > 0 {
		r.params = filepath.Join(dir, "params")
		err = store.PlantTree(r.params, params)
	}
	if err != nil {
		remove()
		return nil, err
	}
	return remove, nil
}

// isolationNone is what a record says of an agent that ran bare.
const isolationNone = "none"

// turn starts the program once.
func (r *commandRun) turn(ctx context.Context, number int, text string) (answer, stderr string, err error) {
	g, err := gateway.New(ctx, gateway.Config{Session: r.s, Token: r.token, Shared: r.o.Unsafe, Live: r.o.Live, Models: r.o.Models, Steps: r.o.Steps})
	if err != nil {
		return "", "", err
	}
	server := g.Server()
	var proxy *egress.Proxy
	defer func() {
		server.Close()
		if cerr := proxy.Close(); err == nil {
			err = cerr
		}
		if cerr := g.Close(); err == nil {
			err = cerr
		}
	}()
	input, err := r.input(number, text)
	if err != nil {
		return "", "", err
	}
	var result sandbox.AgentResult
	if r.o.Unsafe {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return "", "", refusal.Newf(refusal.Failed, "opening the gateway: %w", err)
		}
		here := listener.Addr().String()
		listener, proxy = r.out.open(ctx, r, listener, here)
		go server.Serve(listener)
		result, err = sandbox.RunBare(ctx, r.options(input, "http://"+here))
		if err != nil {
			return "", "", err
		}
	} else {
		way := sandbox.NewGateway()
		here := fmt.Sprintf("127.0.0.1:%d", sandbox.DefaultGatewayPort)
		var listener net.Listener
		listener, proxy = r.out.open(ctx, r, way, here)
		go server.Serve(listener)
		o := r.options(input, "http://"+here)
		o.Gateway, o.Services = way, r.o.Services
		result, err = r.start(ctx, o)
		r.class = result.Class
		way.Close()
		if err := RecordAttempts(r.s, result.Attempted); err != nil {
			return "", "", err
		}
		if err != nil {
			return "", "", err
		}
	}
	if err := r.folder(result); err != nil {
		return "", result.StderrHead, err
	}
	return r.answer(number, result)
}

// start runs the program in a sandbox of its own, or in the one that it is
// preloaded in.
func (r *commandRun) start(ctx context.Context, o sandbox.AgentOptions) (sandbox.AgentResult, error) {
	if r.o.Warm == nil {
		return sandbox.RunAgent(ctx, o)
	}
	preload, attempts, err := r.o.Warm.box.Preload(ctx)
	if err != nil {
		return sandbox.AgentResult{Class: r.o.Warm.box.Class()}, warmFailure(err)
	}
	r.preload = &preload
	result, err := r.o.Warm.box.Run(ctx, o)
	// Started cold, it would have tried the same in every case.
	result.Attempted = append(attempts, result.Attempted...)
	return result, err
}

// folder records what the sandbox did to the working folder, and ends a case
// whose agent filled it.
func (r *commandRun) folder(result sandbox.AgentResult) error {
	if result.Discards > 0 {
		r.s.SpoilFolder("%s was in it, and %d such in all, and nobody can read that safely", store.EscapePath(result.Discarded[0]), result.Discards)
	}
	switch result.Verdict {
	case sandbox.DiskLimit:
		return r.s.Limit("disk_bytes", sandbox.DefaultAgentDiskBytes)
	case sandbox.FileLimit:
		return r.s.Limit("files", sandbox.DefaultAgentFiles)
	}
	return nil
}

func (r *commandRun) input(number int, text string) ([]byte, error) {
	if r.c.Input != "json" {
		return []byte(text), nil
	}
	return json.Marshal(newHTTPTurn(number, text, r.history, r.told))
}

// options are how the program is started for one turn.
func (r *commandRun) options(input []byte, base string) sandbox.AgentOptions {
	o := r.sandbox(append(gateway.Environment(base, r.token), r.out.environment(strings.TrimPrefix(base, "http://"), r.token)...))
	o.Stdin, o.WorkFolder = strings.NewReader(string(input)), r.s.Folder()
	return o
}

// sandbox is what the program finds in every case, and further variables.
func (r *commandRun) sandbox(env []string) sandbox.AgentOptions {
	o := sandbox.AgentOptions{Accept: r.o.Accept, Command: r.c.Command, System: r.c.Image == "", Image: r.o.Shown.Image(), Expect: r.o.Shown.Expect(), Hidden: r.o.Hidden,
		Limits: sandbox.AgentLimits{MemoryBytes: r.c.MemoryBytes, Timeout: r.o.Timeout}}
	if r.files != "" {
		o.ReadOnly = append(o.ReadOnly, sandbox.Mount{Host: r.files, Inside: filesInside})
	}
	if mount, ok := r.out.mount(); ok {
		o.ReadOnly = append(o.ReadOnly, mount)
	}
	if r.params != "" {
		o.ReadOnly = append(o.ReadOnly, sandbox.Mount{Host: r.params, Inside: paramsInside})
	}
	for i, m := range r.c.Mounts {
		mount := sandbox.Mount{Host: m.Host, Inside: m.Inside, Within: m.Within}
		if r.hosts != nil {
			mount = sandbox.Mount{Host: r.hosts[i], Inside: cmp.Or(m.Inside, m.Host), Within: r.hosts[i]}
		} else if !path.IsAbs(m.Host) {
			within := filepath.Join(r.root, TargetsDir)
			mount.Host, mount.Within = filepath.Join(within, filepath.FromSlash(m.Host)), within
		}
		o.ReadOnly = append(o.ReadOnly, mount)
	}
	o.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + workInside, "LANG=C.UTF-8", "TMPDIR=/tmp",
		// libuv, and with it Node, would try io_uring unasked, which is an act.
		"UV_USE_IO_URING=0"}
	if r.o.Unsafe { // its programs are wherever this machine has them
		o.Env[0] += string(os.PathListSeparator) + os.Getenv("PATH")
	}
	if r.venv != nil {
		o.ReadOnly, o.Command, o.Env = append(o.ReadOnly, r.venv.mounts()...), r.venv.command(o.Command), r.venv.env(o.Env)
		o.Asked = r.venv.asked
	}
	if r.modules != nil {
		o.ReadOnly = append(o.ReadOnly, r.modules.mount())
	}
	o.Env = append(append(o.Env, env...), r.vars...)
	for _, name := range slices.Sorted(maps.Keys(r.c.Env)) {
		o.Env = append(o.Env, name+"="+r.c.Env[name])
	}
	r.shown = view{o.ReadOnly, o.Command[0]}
	return o
}

// RecordAttempts records what a program of the agent's tried and was not let.
// Acts, which docs/sandbox.md lists, are violations.
func RecordAttempts(s *session.Session, attempts []sandbox.Attempt) error {
	for _, a := range attempts {
		rule := ""
		if a.Act != "" {
			rule = "sandbox:" + string(a.Act)
		}
		if err := s.Attempted(trajectory.SecurityEvent{Name: "agent." + a.What, Detail: a.Detail, Severity: evidence.Warn}, rule); err != nil {
			return err
		}
	}
	return nil
}

// answer reads what the program answered.
func (r *commandRun) answer(number int, result sandbox.AgentResult) (answer, stderr string, err error) {
	result.StderrHead = r.s.Safe(result.StderrHead) // before anything is cut off it
	if stop := r.s.Stopped(); stop != nil {
		return "", result.StderrHead, stop
	}
	fail := func(format string, args ...any) (string, string, error) {
		detail := fmt.Sprintf(format, args...)
		if lack := r.lacks(result); lack != "" {
			detail += "; " + lack
		}
		if said := strings.TrimSpace(result.StderrHead); said != "" {
			detail += "; its standard error:\n" + headAndTail(said, 500, 1000)
		}
		return "", result.StderrHead, refusal.Newf(refusal.AgentFailed, "turn %d: %s", number, detail)
	}
	switch {
	case result.NotStarted != "":
		return fail("the program could not be started: %s", result.NotStarted)
	case result.Verdict == sandbox.Timeout:
		return fail("the program did not end in time")
	case result.Verdict != sandbox.OK:
		return fail("the program ended with %s, exit status %d", result.Verdict, result.ExitCode)
	}
	data := result.Stdout
	if r.c.AnswerFile != "" {
		if data, err = readAnswer(r.s.Folder(), r.c.AnswerFile); err != nil {
			return fail("%v", err)
		}
	}
	if !utf8.Valid(data) {
		return fail("the answer is not UTF-8 text; it begins %q", head(data))
	}
	return strings.TrimRight(string(data), "\n"), result.StderrHead, nil
}

// headAndTail shortens a text that was made safe already. The exception of a
// traceback stands at its end.
func headAndTail(s string, head, tail int) string {
	if len(s) <= head+tail {
		return s
	}
	first, at := clip(s, head), len(s)-tail
	if i := strings.LastIndexByte(first, '\n'); i > 0 {
		first = first[:i] // whole lines, where there are lines
	}
	if i := strings.IndexByte(s[at:], '\n'); i >= 0 && i < tail/2 {
		at += i + 1
	}
	for at < len(s) && !utf8.RuneStart(s[at]) {
		at++
	}
	return fmt.Sprintf("%s\n… %d bytes left out …\n%s", first, at-len(first), s[at:])
}

// readAnswer reads a file of the working folder. The agent owns the folder, so
// nothing that leads out of it is followed.
func readAnswer(folder, name string) ([]byte, error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	info, err := root.Lstat(name)
	if err != nil {
		return nil, fmt.Errorf("it left no %s: %w", name, err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	f, err := store.OpenIn(root, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxAnswerFile+1))
	if err == nil && len(data) > maxAnswerFile {
		err = fmt.Errorf("%s has more than %d bytes", name, maxAnswerFile)
	}
	return data, err
}
