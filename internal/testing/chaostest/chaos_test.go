package chaostest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"tallystick/internal/record/evidence"
)

const chaosAgent = `import json, os, sys, urllib.request

def ask(messages):
    request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions",
        json.dumps({"model": "fake-1", "max_tokens": 100, "messages": messages}).encode(),
        {"Content-Type": "application/json", "Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]})
    with urllib.request.urlopen(request) as reply:
        return json.load(reply)["choices"][0]["message"]["content"]

messages = [{"role": "user", "content": sys.stdin.read()}]
first = ask(messages)
messages += [{"role": "assistant", "content": first}, {"role": "user", "content": "On."}]
print(ask(messages))
`

// number is a parameter of .ci/conformance.d/chaos.
func number(t *testing.T, name string, usual int) int {
	t.Helper()
	text := os.Getenv("TALLY_CHAOS_" + name)
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("TALLY_CHAOS_%s=%s: %v", name, text, err)
	}
	return n
}

// A chaos is a fleet that something happens to all the time.
type chaos struct {
	*yard
	random      *rand.Rand
	coordinator *process
	workers     []*process // by their numbers, from 1
	jobs        string
	did         map[string]int
}

// TestChaos runs a class with sandboxed agents and a provider that is paid, kills and
// stops workers and the coordinator and cuts workers off at random, and then holds the
// ledger against what was asked of the provider. .ci/conformance runs it: TALLY_CHAOS_PROGRAM is the program
// as it is released, TALLY_CHAOS_CASES, _WORKERS, _JOBS, _SECONDS and _SEED are numbers.
func TestChaos(t *testing.T) {
	program := os.Getenv("TALLY_CHAOS_PROGRAM")
	if program == "" {
		t.Skip("TALLY_CHAOS_PROGRAM is not set: .ci/conformance chaos does")
	}
	cases, seed := number(t, "CASES", 5000), uint64(number(t, "SEED", int(time.Now().UnixNano()%1e9)))
	t.Logf("seed %d, %d cases", seed, cases)
	x := &chaos{yard: newYard(t, 0), random: rand.New(rand.NewPCG(seed, 0)), did: map[string]int{}, jobs: strconv.Itoa(number(t, "JOBS", 4))}
	// Slow enough for things to happen in the middle of calls, not only between cases.
	x.program, x.unwatched, x.slow = program, true, time.Second
	x.write("targets/default.yaml", "version: 1\nkind: command\ncommand:\n  command: [python3, /agent/main.py]\n  files: own\n")
	x.write("targets/own/main.py", chaosAgent)
	var lines strings.Builder
	for i := range cases {
		fmt.Fprintf(&lines, `{"id":"case-%05d","input":"Count for %d.","expected":"turn 2","grade":{"kind":"exact"}}`+"\n", i, i)
	}
	x.write("bench/paid/dataset.jsonl", lines.String())
	x.workers = make([]*process, min(3, number(t, "WORKERS", 3))+1)
	for n := 1; n < len(x.workers); n++ {
		x.line(n)
	}
	x.start("--max-cost", "100000")
	until := time.Now().Add(time.Duration(number(t, "SECONDS", 600)) * time.Second)
	for time.Now().Before(until) && !x.coordinator.hasEnded() {
		x.employ()
		time.Sleep(time.Duration(1000+x.random.IntN(6000)) * time.Millisecond)
		x.strikeOnce()
	}
	x.settle()
	x.audit(cases)
}

// start starts or resumes the attempt.
func (x *chaos) start(more ...string) {
	x.coordinator = x.yard.start(nil, append([]string{"run", "paid", "--live", "--fleet", "embedded", "--listen", x.address}, more...)...)
	x.coordinator.mayEnd()
}

// employ starts the workers that do not run.
func (x *chaos) employ() {
	for n := 1; n < len(x.workers); n++ {
		if w := x.workers[n]; w == nil || w.hasEnded() {
			x.workers[n] = x.workerWith(n, x.jobs)
			x.workers[n].mayEnd()
		}
	}
}

// strikeOnce lets one thing happen.
func (x *chaos) strikeOnce() {
	number := 1 + x.random.IntN(len(x.workers)-1)
	w := x.workers[number]
	switch n := x.random.IntN(100); {
	case x.coordinator.hasEnded():
	case n < 20:
		x.did["workers killed"]++
		w.kill()
	case n < 55:
		x.partition(x.lines[number])
	case n < 70:
		x.did["workers stopped"]++
		pause := time.Duration(x.random.IntN(25_000)) * time.Millisecond
		if w.cmd.Process.Signal(syscall.SIGSTOP) == nil {
			time.Sleep(pause)
			w.cmd.Process.Signal(syscall.SIGCONT)
		}
	case n < 80:
		x.did["coordinators stopped"]++
		x.coordinator.signal(syscall.SIGSTOP)
		time.Sleep(time.Duration(x.random.IntN(20_000)) * time.Millisecond)
		x.coordinator.signal(syscall.SIGCONT)
	case n < 85:
		x.did["coordinators interrupted"]++
		x.coordinator.signal(syscall.SIGINT)
		<-x.coordinator.ended
		x.resume()
	default:
		x.did["coordinators killed"]++
		x.coordinator.kill()
		x.resume()
	}
}

// partition takes a worker's network away for a time that is shorter or longer than it
// may be silent.
func (x *chaos) partition(l *line) {
	pause := time.Duration(x.random.IntN(25_000)) * time.Millisecond
	switch x.random.IntN(6) {
	case 0:
		x.did["connections cut"]++
		l.cut()
		return
	case 1:
		x.did["networks down"]++
		l.refuse()
	case 2:
		x.did["networks silent to the coordinator"]++
		l.hold(up)
	case 3:
		x.did["networks silent to the worker"]++
		l.hold(down)
	case 4:
		x.did["networks silent"]++
		l.hold(up, down)
	case 5:
		x.did["connections forgotten"]++
		l.forget()
		return
	}
	time.Sleep(pause)
	if x.random.IntN(2) == 0 { // what was held is lost
		l.cut()
	}
	l.heal()
}

// resume resumes the attempt, after a torn tail of the ledger is mended as a person
// would.
func (x *chaos) resume() {
	var report struct{ Notes []string }
	x.must(json.NewDecoder(strings.NewReader(x.run("ledger", "verify", "--json"))).Decode(&report))
	if len(report.Notes) > 0 {
		x.did["torn ledgers repaired"]++
		x.run("ledger", "repair")
	}
	x.start("--max-cost", "100000", "--resume")
}

// settle lets the attempt end in peace, with a fresh coordinator that holds
// nothing against any worker.
func (x *chaos) settle() {
	if !x.coordinator.hasEnded() {
		x.coordinator.signal(syscall.SIGINT)
		<-x.coordinator.ended
		x.resume()
	}
	for !x.coordinator.hasEnded() {
		x.employ()
		time.Sleep(time.Second)
	}
	if code := x.coordinator.cmd.ProcessState.ExitCode(); code != 0 && code != 4 {
		x.Fatalf("the attempt ended with %d:\n%s", code, x.coordinator.said())
	}
}

// audit holds everything that is on record against what happened.
func (x *chaos) audit(cases int) {
	b := x.read("paid.default.1")
	if b.finished == nil || len(b.scored) != cases {
		x.Fatalf("%d of %d cases are recorded", len(b.scored), cases)
	}
	again := 0
	for id, r := range b.scored {
		again += b.started[id] - 1
		if r.Execution != b.started[id] {
			x.Errorf("case %s: execution %d is recorded and %d were started", id, r.Execution, b.started[id])
		}
		// Whatever happens to machines and networks is not the agent's doing.
		if r.Outcome != evidence.Passed && !strings.Contains(r.Reason, "workers did not bring the case back") {
			x.Errorf("case %s: %s, %s", id, r.Outcome, r.Reason)
		}
	}
	x.balanced(b)
	x.run("ledger", "verify", "--strict")
	x.run("verify", "--recompute")
	x.fsck()
	x.Logf("chaos: %d cases, each recorded once, %d started again; %v; outcomes %v; the provider counted %d calls, the books have %d answered and %d unknown",
		cases, again, x.did, b.finished.Outcomes, x.counted(), b.finished.Paid.Calls, b.finished.Paid.Unknown)
}

// fsck has Tessera read the tiles.
func (x *chaos) fsck() {
	if os.Getenv("TALLY_TESSERA") == "" {
		return
	}
	x.run("ledger", "anchor", "publish")
	receipt := x.prepare(nil, x.program, "ledger", "prove", "0", "-o", filepath.Join(x.state, "receipt"), "--json")
	receipt.begin()
	var answer struct{ Key string }
	x.must(json.NewDecoder(bytes.NewBufferString(receipt.wait(0))).Decode(&answer))
	server := httptest.NewServer(http.FileServer(http.Dir(filepath.Join(x.dir, ".tally", "ledger", "tiles"))))
	defer server.Close()
	c := exec.Command("go", "test", "-count=1", "-v", "-run", "FromABucket", ".")
	c.Dir = filepath.Join("..", "..", "..", "benchmarks", "tessera")
	c.Env = append(os.Environ(), "TALLY_TILES_URL="+server.URL+"/", "TALLY_TILES_KEY="+answer.Key)
	out, err := c.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("fsck of")) {
		x.Errorf("Tessera: %v\n%s", err, out)
	}
	x.Logf("chaos: Tessera: %s", out)
}
