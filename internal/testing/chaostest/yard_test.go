package chaostest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"tallystick/internal/app/fleet"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/sequencer"
	"tallystick/internal/record/store"
	"tallystick/internal/record/workspace"
	"tallystick/internal/run/journal"
)

// A yard is a workspace whose signers know three workers, with a provider of models.
type yard struct {
	*testing.T
	dir, state, root, address string
	*provider
	program   string     // tally-fleet
	lines     [4]*line   // of workers, by their numbers, that do not reach the coordinator directly
	env       []string   // of every process
	processes []*process // that are not to end by themselves
}

const registration = `version: 1
class: paid
trust: scratch
current_tier: bronze
limits: {wall_clock_seconds: 300, memory_bytes: 1073741824, turns: 20, tokens: 100000, cost_microdollars: 1000000}
governance: autonomous
isolation: {classes: [gvisor], scope: case, allow_weaker: false}
judged_scores_count: false
`

// callCost is what a call of the provider costs, in micro-dollars: 1000 tokens in, 5 out.
const callCost = 1020

// newYard makes a workspace with n cases of two turns each, which real models answer.
func newYard(t *testing.T, cases int) *yard {
	t.Helper()
	if testing.Short() {
		t.Skip("starts many processes")
	}
	t.Parallel()
	y := &yard{T: t, program: "tally-fleet"}
	y.copyTemplate()
	y.provider = newProvider(t, filepath.Join(y.dir, ".tally", "runs", "paid.default.1", journal.File))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	y.must(err)
	y.address = listener.Addr().String()
	listener.Close()
	var lines bytes.Buffer
	for i := range cases {
		fmt.Fprintf(&lines, `{"id":"case-%03d","turns":[{"text":"Count for %d."},{"text":"On."}],"expected":"turn 2","grade":{"kind":"exact"}}`+"\n", i, i)
	}
	y.write("bench/paid/registration.yaml", registration)
	y.write("bench/paid/dataset.jsonl", lines.String())
	y.write("targets/default.yaml", "version: 1\nkind: builtin\nbuiltin: {model: fake-1, api: openai.chat, max_output_tokens: 100, retries: 0}\n")
	y.write("providers.yaml", "version: 1\nopenai:\n  base_url: "+y.url+"/v1\n  prices:\n    fake-1: {input: 1000000, output: 4000000}\n")
	return y
}

func (y *yard) must(err error) {
	y.Helper()
	if err != nil {
		y.Fatal(err)
	}
}

func (y *yard) write(name, text string) {
	y.Helper()
	path := filepath.Join(y.dir, filepath.FromSlash(name))
	y.must(os.MkdirAll(filepath.Dir(path), 0o755))
	y.must(os.WriteFile(path, []byte(text), 0o644))
}

// template is a workspace with three workers, which is made once: each command is a
// process.
var template = sync.OnceValues(func() (dir string, err error) {
	if dir, err = os.MkdirTemp("", "chaostest-"); err != nil {
		return "", err
	}
	ws := filepath.Join(dir, "ws")
	key := func(name string) string { return filepath.Join(ws, ".tally", "keys", name) }
	for _, args := range [][]string{
		{"init", ws},
		{"keys", "new", "worker1"}, {"keys", "new", "worker2"}, {"keys", "new", "worker3"},
		{"signers", "add", "worker1", "--roles", "worker", "--ssh", key("worker1.pub")},
		{"signers", "add", "worker2", "--roles", "worker", "--ssh", key("worker2.pub")},
		{"signers", "add", "worker3", "--roles", "worker", "--ssh", key("worker3.pub")},
		{"signers", "sign", "--key", key("example-alice")}, {"signers", "sign", "--key", key("example-bob")},
		{"signers", "apply"},
	} {
		cmd := exec.Command("tally-fleet", args...)
		if args[0] != "init" {
			cmd.Dir = ws
		}
		cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+filepath.Join(dir, "state"))
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%v: %w\n%s", args, err, out)
		}
	}
	return dir, nil
})

var trustRoot = regexp.MustCompile(`(?m)^trust_root: (\S+)$`)

func (y *yard) copyTemplate() {
	y.Helper()
	from, err := template()
	y.must(err)
	dir := y.TempDir()
	y.dir, y.state = filepath.Join(dir, "ws"), filepath.Join(dir, "state")
	y.must(os.CopyFS(dir, os.DirFS(from)))
	// Only their owner may read keys, and a copy has other modes.
	y.must(filepath.WalkDir(y.dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && filepath.Base(filepath.Dir(path)) == "keys" {
			err = os.Chmod(path, 0o600)
		}
		return err
	}))
	data, err := os.ReadFile(filepath.Join(y.dir, "tally.yaml"))
	y.must(err)
	y.root = trustRoot.FindStringSubmatch(string(data))[1]
}

// A process is a program that runs.
type process struct {
	y     *yard
	cmd   *exec.Cmd
	ended chan struct{} // closed when it has

	mu  sync.Mutex
	out bytes.Buffer
}

func (p *process) Write(data []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Write(data)
}

func (p *process) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

// start starts the program in the workspace.
func (y *yard) start(env []string, args ...string) *process {
	y.Helper()
	p := y.prepare(env, append([]string{y.program}, args...)...)
	p.begin()
	return p
}

// prepare gives a process that has not begun.
func (y *yard) prepare(env []string, command ...string) *process {
	p := &process{y: y, cmd: exec.Command(command[0], command[1:]...), ended: make(chan struct{})}
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = y.dir, p, p
	p.cmd.Env = slices.Concat(os.Environ(), []string{"XDG_STATE_HOME=" + y.state, "OPENAI_API_KEY=sk-none"}, y.env, env)
	return p
}

func (p *process) begin() {
	y := p.y
	y.Helper()
	y.must(p.cmd.Start())
	y.processes = append(y.processes, p)
	go func() {
		p.cmd.Wait()
		close(p.ended)
	}()
	y.Cleanup(func() {
		p.cmd.Process.Kill()
		<-p.ended
		if y.Failed() {
			y.Logf("%v said:\n%s", p.cmd.Args, p.said())
		}
	})
}

// worker starts worker 1, 2 or 3.
func (y *yard) worker(n int, env ...string) *process {
	y.Helper()
	return y.workerWith(n, "1", env...)
}

// workerWith starts a worker that drives so many cases at once.
func (y *yard) workerWith(n int, jobs string, env ...string) *process {
	y.Helper()
	env = append([]string{fmt.Sprintf("XDG_STATE_HOME=%s-worker%d", y.state, n)}, env...)
	address := y.address
	if l := y.lines[n]; l != nil {
		address = l.address
	}
	return y.start(env, "fleet", "worker", "--join", "nats://"+address, "--trust-root", y.root, "--key", fmt.Sprintf(".tally/keys/worker%d", n), "--jobs", jobs)
}

// public is the public half of a key of the workspace.
func (y *yard) public(name string) seal.PublicKey {
	y.Helper()
	data, err := os.ReadFile(filepath.Join(y.dir, ".tally", "keys", name+".pub"))
	y.must(err)
	key, err := seal.ParsePublicKey(bytes.TrimSpace(data))
	y.must(err)
	return key
}

// line gives a worker that is not started yet a network that can be cut.
func (y *yard) line(n int) *line {
	y.Helper()
	y.lines[n] = newLine(y.T, y.address)
	return y.lines[n]
}

// coordinator starts an attempt over a fleet.
func (y *yard) coordinator(args ...string) *process {
	y.Helper()
	return y.start(nil, append([]string{"run", "paid", "--fleet", "embedded", "--listen", y.address}, args...)...)
}

func (p *process) signal(s syscall.Signal) {
	p.y.Helper()
	p.y.must(p.cmd.Process.Signal(s))
}

// kill ends a process as a power cut would, and waits until it has.
func (p *process) kill() {
	p.y.Helper()
	p.mayEnd()
	p.signal(syscall.SIGKILL)
	<-p.ended
}

func (p *process) mayEnd() {
	p.y.processes = slices.DeleteFunc(p.y.processes, func(other *process) bool { return other == p })
}

func (p *process) hasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// wait waits for the end and wants that exit code.
func (p *process) wait(code int) string {
	p.y.Helper()
	p.mayEnd()
	p.y.until("the end of "+strings.Join(p.cmd.Args, " "), p.hasEnded)
	if got := p.cmd.ProcessState.ExitCode(); got != code {
		p.y.Fatalf("%v ended with %d, expected %d:\n%s", p.cmd.Args, got, code, p.said())
	}
	return p.said()
}

// until waits for a condition. The time is for a test that would never end.
func (y *yard) until(what string, done func() bool) {
	y.Helper()
	for limit := time.Now().Add(4 * time.Minute); !done(); time.Sleep(50 * time.Millisecond) {
		if i := slices.IndexFunc(y.processes, (*process).hasEnded); i >= 0 && !done() {
			y.Fatalf("waited for %s, and %v ended", what, y.processes[i].cmd.Args)
		}
		if time.Now().After(limit) {
			y.Fatalf("waited in vain for %s", what)
		}
	}
}

// untilAsked waits until the provider was asked n times in all.
func (y *yard) untilAsked(n int) {
	y.Helper()
	y.until(fmt.Sprintf("%d calls of models", n), func() bool { return y.counted() >= n })
}

// untilLost waits until the coordinator has missed a worker.
func (y *yard) untilLost() {
	y.Helper()
	y.until("a lost worker", func() bool { s, ok := y.status(); return ok && s.Lost > 0 })
}

// status asks the coordinator how it stands.
func (y *yard) status() (s fleet.Status, ok bool) {
	cmd := exec.Command(y.program, "fleet", "status", "--json")
	cmd.Dir, cmd.Env = y.dir, append(os.Environ(), "XDG_STATE_HOME="+y.state)
	out, err := cmd.Output()
	return s, err == nil && json.Unmarshal(out, &s) == nil
}

// run runs a command of the program to its end, which must be good.
func (y *yard) run(args ...string) string {
	y.Helper()
	return y.start(nil, args...).wait(0)
}

// A book is what the ledger has of one attempt.
type book struct {
	scored   map[string]*evidence.CaseScored
	started  map[string]int // executions
	events   map[string][]string
	finished *evidence.AttemptFinished
}

// byWorkers counts the recorded cases that a worker drove.
func (b book) byWorkers() int {
	n := 0
	for _, r := range b.scored {
		if r.Worker != nil {
			n++
		}
	}
	return n
}

// read verifies the ledger and reads what it has of an attempt.
func (y *yard) read(attempt string) book {
	y.Helper()
	ws, err := workspace.Load(y.dir)
	y.must(err)
	b := book{scored: map[string]*evidence.CaseScored{}, started: map[string]int{}, events: map[string][]string{}}
	place := sequencer.Place{FS: store.OS{}, Dir: ws.LedgerDir(), StateDir: y.state}
	_, err = place.Verify(ledger.Options{Origin: ws.Settings.Origin, TrustRoot: ws.Settings.TrustRoot, Decode: true, Visit: func(r ledger.Record) error {
		switch x := r.Body.(type) {
		case *evidence.CaseStarted:
			if x.Attempt != attempt {
				return nil
			}
			if b.started[x.CaseID]++; x.Execution != b.started[x.CaseID] {
				y.Errorf("case %s: start %d says execution %d", x.CaseID, b.started[x.CaseID], x.Execution)
			}
		case *evidence.CaseScored:
			if x.Attempt != attempt {
				return nil
			}
			if b.scored[x.CaseID] != nil {
				y.Errorf("case %s is recorded twice", x.CaseID)
			}
			b.scored[x.CaseID] = x
		case *evidence.AttemptFinished:
			if x.Attempt == attempt {
				b.finished = x
			}
		case *evidence.IntegrityEvent:
			b.events[x.Name] = append(b.events[x.Name], x.Detail)
		}
		return nil
	}})
	y.must(err)
	return b
}

// settled wants a finished attempt with each of n cases recorded once and passed, books
// that have every call that the provider counted, and a ledger that verifies.
func (y *yard) settled(n int) book {
	y.Helper()
	b := y.read("paid.default.1")
	if b.finished == nil || len(b.scored) != n {
		y.Fatalf("%d of %d cases are recorded; finished: %+v", len(b.scored), n, b.finished)
	}
	for id, r := range b.scored {
		if r.Outcome != evidence.Passed {
			y.Errorf("case %s: %s, %s", id, r.Outcome, r.Reason)
		}
		if r.Execution != b.started[id] {
			y.Errorf("case %s: execution %d is recorded and %d were started", id, r.Execution, b.started[id])
		}
	}
	y.balanced(b)
	y.run("ledger", "verify", "--strict")
	y.run("verify", "--recompute")
	return b
}

// balanced wants every call that the provider counted to be in the journal and in the
// ledger.
func (y *yard) balanced(b book) {
	y.Helper()
	sent, replies := y.inJournal(journal.Intent), y.inJournal(journal.Reply)
	counted, p := y.counted(), b.finished.Paid
	switch {
	case p == nil:
		y.Fatal("the attempt has no books")
	case sent < counted:
		y.Errorf("the provider counted %d calls, the journal has %d", counted, sent)
	case p.Calls != replies || p.Calls > counted || p.Calls+p.Unknown != sent || p.CostMicroUSD != int64(replies)*callCost:
		y.Errorf("the provider counted %d calls, the journal has %d of which %d are answered, the ledger says %+v", counted, sent, replies, *p)
	}
}

// inJournal counts lines of a kind.
func (y *yard) inJournal(kind journal.Kind) int {
	y.Helper()
	n := 0
	for _, l := range readJournal(y.T, y.provider.journal) {
		if l.Kind == kind {
			n++
		}
	}
	return n
}

// inLedger reports whether a text stands in the ledger as it lies on the disk.
func (y *yard) inLedger(text string) bool {
	files, _ := filepath.Glob(filepath.Join(y.dir, ".tally", "ledger", "segments", "*"))
	for _, f := range files {
		if data, _ := os.ReadFile(f); bytes.Contains(data, []byte(text)) {
			return true
		}
	}
	return false
}
