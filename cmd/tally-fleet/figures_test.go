package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"tallystick/internal/app/fleet"
	"tallystick/internal/app/fleet/coordinator"
	"tallystick/internal/app/fleet/worker"
	"tallystick/internal/cli"
	"tallystick/internal/record/seal"
)

var figures = flag.Bool("figures", false, "measure; benchmarks/fleet.sh does")

// A site is a workspace with a bench of small cases and some workers' keys.
type site struct {
	testing.TB
	dir, root string
	workers   int
}

func newSite(t testing.TB, cases, workers int) *site {
	t.Helper()
	s := &site{TB: t, dir: t.TempDir(), workers: workers}
	s.tally("init", s.dir)
	var lines strings.Builder
	for i := range cases {
		fmt.Fprintf(&lines, `{"id":"c%06d","input":"x","model":[{"text":"y"}],"expected":"y","grade":{"kind":"exact"}}`+"\n", i)
	}
	s.write("bench/sums/dataset.jsonl", lines.String())
	s.write("bench/sums/registration.yaml", `version: 1
class: sums
trust: scratch
current_tier: bronze
limits: {wall_clock_seconds: 600, memory_bytes: 1073741824, turns: 20, tokens: 100000, cost_microdollars: 1000000}
governance: restricted
isolation: {classes: [gvisor], scope: case, allow_weaker: false}
judged_scores_count: false
`)
	var more strings.Builder
	for i := range workers {
		key, err := seal.NewKey(bytes.NewReader(fmt.Appendf(nil, "%032d", i)))
		s.must(err)
		secret, err := key.MarshalPEM("")
		s.must(err)
		s.write(s.keyFile(i), string(secret))
		s.write(s.keyFile(i)+".pub", key.Public().String()+"\n")
		if i == 0 {
			s.tally("signers", "add", "w0", "--roles", "worker", "--ssh", filepath.Join(s.dir, s.keyFile(i)+".pub"))
			continue
		}
		fmt.Fprintf(&more, "w%d namespaces=\"tallystick-result\" %s roles=worker\n", i, key.Public().String()) // as "signers add" does, a thousand times faster
	}
	if workers > 0 {
		s.append("signers/allowed_signers", more.String())
		s.tally("signers", "sign", "--key", filepath.Join(s.dir, ".tally/keys/example-alice"))
		s.tally("signers", "sign", "--key", filepath.Join(s.dir, ".tally/keys/example-bob"))
		s.tally("signers", "apply")
	}
	settings, err := os.ReadFile(filepath.Join(s.dir, "tally.yaml"))
	s.must(err)
	for line := range strings.Lines(string(settings)) {
		if after, ok := strings.CutPrefix(line, "trust_root: "); ok {
			s.root = strings.TrimSpace(after)
		}
	}
	return s
}

func (s *site) keyFile(i int) string { return fmt.Sprintf("machines/w%d", i) }

func (s *site) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *site) write(name, text string) {
	s.Helper()
	file := filepath.Join(s.dir, name)
	s.must(os.MkdirAll(filepath.Dir(file), 0o700))
	s.must(os.WriteFile(file, []byte(text), 0o600))
}

func (s *site) append(name, text string) {
	s.Helper()
	data, err := os.ReadFile(filepath.Join(s.dir, name))
	s.must(err)
	s.write(name, string(data)+text)
}

func (s *site) getenv(name string) string {
	if name == "XDG_STATE_HOME" {
		return filepath.Join(s.dir, "..", "state")
	}
	return ""
}

// tally runs a command line in this process, as tally-fleet would.
func (s *site) tally(args ...string) {
	s.Helper()
	var out, problems bytes.Buffer
	args = append(args, "--workspace", s.dir)
	if code := cli.Main(args, strings.NewReader(""), &out, &problems, s.getenv, &cli.Beyond{Fleet: coordinator.Open, Worker: worker.Work, Status: coordinator.Ask}); code != 0 {
		s.Fatalf("tally %s: exit %d\n%s%s", strings.Join(args, " "), code, out.String(), problems.String())
	}
}

// A spent is what something took.
type spent struct{ wall, here, there time.Duration }

func processorTime(who int) time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(who, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// overFleet runs all cases in this process with so many workers in another one.
func (s *site) overFleet(jobs int) spent {
	s.Helper()
	address := freeAddress(s)
	self, err := os.Executable()
	s.must(err)
	hands := exec.Command(self)
	hands.Args[0] = "fake-workers"
	hands.Env = append(os.Environ(), "FAKE_JOIN=nats://"+address, "FAKE_ROOT="+s.root, "FAKE_DIR="+s.dir, fmt.Sprint("FAKE_WORKERS=", s.workers), fmt.Sprint("FAKE_JOBS=", jobs))
	hands.Stderr = os.Stderr
	before := spent{0, processorTime(syscall.RUSAGE_SELF), processorTime(syscall.RUSAGE_CHILDREN)}
	s.must(hands.Start())
	begun := time.Now()
	s.tally("run", "sums", "--fleet", "embedded", "--listen", address, "--any-version")
	took := time.Since(begun)
	s.must(hands.Wait())
	return spent{took, processorTime(syscall.RUSAGE_SELF) - before.here, processorTime(syscall.RUSAGE_CHILDREN) - before.there}
}

func freeAddress(t testing.TB) string {
	t.Helper()
	addresses, err := freeAddresses(1)
	if err != nil {
		t.Fatal(err)
	}
	return addresses[0]
}

// fakeWorkers is a process of many workers that drive the built-in agent, which answers
// at once.
func fakeWorkers() {
	collectLess()
	number := func(name string) int {
		n, err := strconv.Atoi(os.Getenv(name))
		if err != nil {
			panic(err)
		}
		return n
	}
	var all sync.WaitGroup
	for i := range number("FAKE_WORKERS") {
		all.Go(func() {
			data, err := os.ReadFile(fmt.Sprintf("%s/machines/w%d", os.Getenv("FAKE_DIR"), i))
			if err != nil {
				panic(err)
			}
			key, err := seal.ParseKey(data)
			if err != nil {
				panic(err)
			}
			err = worker.Work(context.Background(), fleet.WorkerOptions{URL: os.Getenv("FAKE_JOIN"), Key: key, TrustRoot: os.Getenv("FAKE_ROOT"), Dir: fmt.Sprintf("%s/machines/d%d", os.Getenv("FAKE_DIR"), i),
				Label: fmt.Sprint(i), Jobs: number("FAKE_JOBS"), Version: "figures", Once: true, Now: time.Now, Note: func(string, ...any) {}})
			if err != nil {
				fmt.Fprintln(os.Stderr, "worker", i, err)
			}
		})
	}
	all.Wait()
}

// TestFigures prints how many results a second one coordinator takes of workers that
// answer at once, and what it spends on each: in processor time, and beside checking a
// signature in the same minute, of which a result needs two.
func TestFigures(t *testing.T) {
	if !*figures {
		t.Skip("measures: benchmarks/fleet.sh runs it")
	}
	results, err := strconv.Atoi(os.Getenv("RESULTS"))
	if err != nil {
		t.Fatalf("RESULTS: %v", err)
	}
	collectLess()
	for _, c := range []struct{ workers, jobs int }{{1, 256}, {4, 64}, {1000, 1}} {
		s := newSite(t, results, c.workers)
		check := signatureCheck(t)
		got := s.overFleet(c.jobs)
		each := got.here / time.Duration(results)
		check = (check + signatureCheck(t)) / 2
		t.Logf("%d cases, %d workers with %d at once: %.0f results/s; processor time for each: coordinator %s (%.1f signature checks of %s), workers %s; %.0f results/s if %d processors did nothing else",
			results, c.workers, c.jobs, float64(results)/got.wall.Seconds(), each.Round(time.Microsecond), float64(each)/float64(check), check.Round(time.Microsecond),
			(got.there / time.Duration(results)).Round(time.Microsecond), float64(runtime.NumCPU())*float64(time.Second)/float64(each), runtime.NumCPU())
	}
}

// signatureCheck is the processor time of one check of an Ed25519 signature.
func signatureCheck(t *testing.T) time.Duration {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	message := make([]byte, 1000)
	signature := ed25519.Sign(private, message)
	const n = 2000
	before := processorTime(syscall.RUSAGE_SELF)
	for range n {
		if !ed25519.Verify(public, message, signature) {
			t.Fatal("a signature does not verify")
		}
	}
	return (processorTime(syscall.RUSAGE_SELF) - before) / n
}
