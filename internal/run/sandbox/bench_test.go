//go:build linux

package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"tallystick/internal/run/sandbox/image"
	"tallystick/internal/run/sandbox/proc"
)

// runscVariable names a stand-alone runsc to compare with.
const runscVariable = "TALLYSTICK_BENCH_RUNSC"

// benchInput is twenty cases, 1.7 KB.
func benchInput() []byte {
	type one struct {
		ID     int     `json:"id"`
		Output string  `json:"output"`
		Wanted string  `json:"wanted"`
		Weight float64 `json:"weight"`
	}
	var cases []one
	for i := range 20 {
		cases = append(cases, one{i, fmt.Sprintf("answer number %d", i), fmt.Sprintf("answer number %d", i), 0.5})
	}
	b, err := json.Marshal(map[string]any{"harness_output": cases, "expected": nil, "case_metadata": map[string]any{}})
	if err != nil {
		panic(err)
	}
	return b
}

const (
	benchPython = `
import json, sys
cases = json.load(sys.stdin)["harness_output"]
good = [c["weight"] for c in cases if c["output"] == c["wanted"]]
json.dump({"passed": len(good) == len(cases), "score": sum(good) / 10, "breakdown": {}, "failure_modes": [], "cost_usd": 0, "duration_seconds": 0}, sys.stdout)
`
	benchStar = `
def score(harness_output, expected, case_metadata):
    good = [c["weight"] for c in harness_output if c["output"] == c["wanted"]]
    total = 0.0
    for g in good:
        total += g
    return {"passed": len(good) == len(harness_output), "score": total / 10, "breakdown": {}, "failure_modes": [], "cost_usd": 0, "duration_seconds": 0}
`
)

// A variant is one way to run the same rubric.
type variant struct {
	name string
	run  func() error
}

// BenchmarkSideBySide runs every way once a round, one after the other, so
// that whatever else the machine does meets all of them alike. It reports the
// median of each in milliseconds and, for the ones that have a target, the
// ratio. Use -benchtime 20x.
func BenchmarkSideBySide(b *testing.B) {
	variants := benchVariants(b)
	times := map[string][]float64{}
	for b.Loop() {
		for _, v := range variants {
			began := time.Now()
			if err := v.run(); err != nil {
				b.Fatalf("%s: %v", v.name, err)
			}
			times[v.name] = append(times[v.name], float64(time.Since(began).Microseconds())/1000)
		}
	}
	median := func(name string) float64 {
		s := slices.Sorted(slices.Values(times[name]))
		if len(s) == 0 {
			return 0
		}
		return s[len(s)/2]
	}
	for _, v := range variants {
		b.ReportMetric(median(v.name), v.name+"-ms")
		b.Logf("%-20s median %6.1f ms, best %6.1f ms", v.name, median(v.name), slices.Min(times[v.name]))
	}
	for _, r := range [][2]string{{"gvisor", "runsc"}, {"gvisor", "gvisor-blind"}, {"namespace", "python"}, {"namespace", "bwrap"},
		{"namespace", "namespace-blind"}, {"gvisor-star", "gvisor"}, {"gvisor-attempt", "gvisor"}} {
		if of, to := median(r[0]), median(r[1]); of > 0 && to > 0 {
			b.ReportMetric(of/to, r[0]+"/"+r[1])
		}
	}
	b.ReportMetric(0, "ns/op")
}

// BenchmarkTwoAtOnce measures runs a second on two cores.
func BenchmarkTwoAtOnce(b *testing.B) {
	for _, v := range benchVariants(b) {
		b.Run(v.name, func(b *testing.B) {
			var wg sync.WaitGroup
			work := make(chan struct{})
			for range 2 {
				wg.Go(func() {
					for range work {
						if err := v.run(); err != nil {
							b.Error(err)
						}
					}
				})
			}
			began := time.Now()
			for b.Loop() {
				work <- struct{}{}
			}
			close(work)
			wg.Wait()
			b.ReportMetric(float64(b.N)/time.Since(began).Seconds(), "runs/s")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func benchVariants(b *testing.B) []variant {
	b.Helper()
	python3 := hostImage(b)
	if cache := os.Getenv(builtImageVariable); cache != "" {
		images, err := image.List(cache)
		if err != nil || len(images) == 0 {
			b.Fatalf("no image in %s: %v", cache, err)
		}
		python3 = images[0]
	}
	input := benchInput()
	script := filepath.Join(b.TempDir(), "bench.py")
	if err := os.WriteFile(script, []byte(benchPython), 0o644); err != nil {
		b.Fatal(err)
	}
	program := func(name string, args ...string) func() error {
		return func() error {
			cmd := exec.Command(name, args...)
			cmd.Env, cmd.Stdin = []string{"PYTHONHASHSEED=0"}, bytes.NewReader(input)
			out, err := cmd.CombinedOutput()
			if err != nil || !bytes.Contains(out, []byte(`"passed": true`)) {
				return fmt.Errorf("%v: %s", err, out)
			}
			return nil
		}
	}
	host := hostImage(b).About.Command
	variants := []variant{{"python", program(host[0], append(host[1:], script)...)}}
	if bwrap, err := exec.LookPath("bwrap"); err == nil {
		args := []string{"--unshare-all", "--ro-bind", python3.Root(), "/", "--ro-bind", filepath.Dir(script), "/rubric", "--die-with-parent", "--clearenv",
			"--setenv", "PYTHONHASHSEED", "0", "--"}
		for _, e := range python3.About.Env {
			name, value, _ := strings.Cut(e, "=")
			args = slices.Insert(args, len(args)-1, "--setenv", name, value)
		}
		args = append(append(args, python3.About.Command...), "/rubric/bench.py")
		variants = append(variants, variant{"bwrap", program(bwrap, args...)})
	}
	if runsc := os.Getenv(runscVariable); runsc != "" {
		variants = append(variants, variant{"runsc", standAlone(b, runsc, python3, script, input)})
	}
	add := func(name string, class Class, rubric Rubric, change ...func(*Options)) {
		s := open(b, class, rubric, append([]func(*Options){func(o *Options) {
			if o.Image != nil {
				o.Image = python3
			}
		}}, change...)...)
		variants = append(variants, variant{name, func() error {
			r, err := s.Run(context.Background(), Job{Stdin: input})
			if err == nil && (r.Verdict != OK || len(r.Attempted) > 0) {
				err = fmt.Errorf("%s %v %s", r.Verdict, r.Attempted, r.StderrHead)
			}
			return err
		}})
	}
	blind := func(o *Options) { o.Blind = true }
	add("gvisor", GVisor, python(benchPython))
	add("gvisor-blind", GVisor, python(benchPython), blind)
	add("gvisor-star", GVisor, star(benchStar))
	add("gvisor-attempt", GVisor, python(benchPython), attemptScope)
	add("gvisor-attempt-blind", GVisor, python(benchPython), attemptScope, blind)
	add("gvisor-attempt-star", GVisor, star(benchStar), attemptScope)
	add("namespace", Namespace, python(benchPython))
	add("namespace-blind", Namespace, python(benchPython), blind)
	add("namespace-star", Namespace, star(benchStar))
	return variants
}

// standAlone runs the same image and rubric in an official runsc.
func standAlone(b *testing.B, runsc string, python3 *image.Image, script string, input []byte) func() error {
	b.Helper()
	dir := filepath.Join(scratch, "runsc")
	if err := os.MkdirAll(filepath.Join(dir, "state"), 0o755); err != nil {
		b.Fatal(err)
	}
	spec := specs.Spec{Version: "1.0.2", Root: &specs.Root{Path: python3.Root(), Readonly: true},
		Mounts: []specs.Mount{{Destination: rubricDir, Type: "bind", Source: filepath.Dir(script), Options: []string{"bind", "ro"}}},
		Process: &specs.Process{Args: append(append([]string{}, python3.About.Command...), "/rubric/bench.py"),
			Env: python3.About.Env, Cwd: "/"}, Linux: &specs.Linux{}}
	j, err := json.Marshal(spec)
	if err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), j, 0o644); err != nil {
		b.Fatal(err)
	}
	// As root it leaves a mount behind.
	b.Cleanup(func() { unix.Unmount(filepath.Join(dir, "state/null-netns"), 0) })
	n := 0
	var mu sync.Mutex
	return func() error {
		mu.Lock()
		n++
		id := fmt.Sprintf("bench%d", n)
		mu.Unlock()
		args := []string{"--root=" + filepath.Join(dir, "state"), "--platform=systrap", "--network=none", "--ignore-cgroups", "--overlay2=none"}
		if os.Getuid() != 0 {
			args = append(args, "--rootless")
		}
		cmd := exec.Command(runsc, append(args, "run", "--bundle="+dir, id)...)
		cmd.Env, cmd.Stdin = []string{}, bytes.NewReader(input)
		out, err := cmd.CombinedOutput()
		if err != nil || !bytes.Contains(out, []byte(`"passed": true`)) {
			return fmt.Errorf("%v: %s", err, out)
		}
		return nil
	}
}

// BenchmarkVerify is what checking an unchanged image again costs.
func BenchmarkVerify(b *testing.B) {
	python3 := hostImage(b)
	if err := python3.Verify(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := python3.Verify(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkIdleMemory is what sandboxes that wait take: the proportional share
// of all their processes, and of what gVisor keeps for the inside.
func BenchmarkIdleMemory(b *testing.B) {
	idle := func(name string, hold func(b *testing.B)) {
		b.Run(name, func(b *testing.B) {
			hold(b)
			var total int64
			for b.Loop() {
				total = 0
				for _, pid := range proc.Descendants(os.Getpid()) {
					total += proc.SharedOutBytes(pid)
				}
			}
			b.ReportMetric(float64(total)/1e6, "MB")
			b.ReportMetric(0, "ns/op")
		})
	}
	for name, rubric := range map[string]Rubric{"gvisor-attempt": python(benchPython), "gvisor-attempt-star": star(benchStar)} {
		idle(name, func(b *testing.B) {
			s := open(b, GVisor, rubric, attemptScope)
			if r, err := s.Run(context.Background(), Job{Stdin: benchInput()}); err != nil || r.Verdict != OK {
				b.Fatal(err, r)
			}
		})
	}
	for _, class := range []Class{GVisor, Namespace} {
		idle(string(class)+"-agent", func(b *testing.B) {
			ctx, cancel := context.WithCancel(context.Background())
			ready, done := make(chan struct{}), make(chan struct{})
			o := agentOptions(class, "sh", "-c", "echo ready; sleep 600")
			o.OnStdout, o.Gateway = func([]byte) { close(ready) }, NewGateway()
			go func() {
				RunAgent(ctx, o)
				close(done)
			}()
			b.Cleanup(func() { cancel(); <-done })
			select {
			case <-ready:
			case <-done:
				b.Fatal("the agent ended")
			}
		})
	}
}

// BenchmarkAgent starts an agent that does nothing, and one that asks the
// gateway a hundred times over one connection.
func BenchmarkAgent(b *testing.B) {
	ask := `
import http.client
c = http.client.HTTPConnection("127.0.0.1", 4180)
import time
began = time.monotonic()
for _ in range(100):
    c.request("POST", "/", b"x" * 1000); c.getresponse().read()
print((time.monotonic() - began) * 10)`
	for _, class := range []Class{GVisor, Namespace} {
		b.Run(string(class)+"-true", func(b *testing.B) {
			for b.Loop() {
				if r, err := RunAgent(context.Background(), agentOptions(class, "true")); err != nil || r.Verdict != OK {
					b.Fatal(err, r)
				}
			}
		})
		b.Run(string(class)+"-gateway", func(b *testing.B) {
			gateway, _ := echoGateway(b)
			var each []float64
			for b.Loop() {
				o := agentOptions(class, systemProgram(b, "python3"), "-c", ask)
				o.Gateway = gateway
				r, err := RunAgent(context.Background(), o)
				var ms float64
				if fmt.Sscan(string(r.Stdout), &ms); err != nil || ms == 0 {
					b.Fatal(err, r.StderrHead)
				}
				each = append(each, ms)
			}
			slices.Sort(each)
			b.ReportMetric(each[len(each)/2], "ms/request")
		})
	}
}

// BenchmarkOpens is what watching costs an agent that opens many files.
func BenchmarkOpens(b *testing.B) {
	for _, class := range []Class{GVisor, Namespace} {
		for _, blind := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s-blind=%v", class, blind), func(b *testing.B) {
				o := agentOptions(class, systemProgram(b, "python3"), "-c", `
import os, time
began = time.monotonic()
for _ in range(5000): os.close(os.open("/usr/bin/env", os.O_RDONLY))
print((time.monotonic() - began) * 1e6 / 5000)`)
				o.Blind = blind
				for b.Loop() {
					r, err := RunAgent(context.Background(), o)
					var us float64
					if fmt.Sscan(string(r.Stdout), &us); err != nil || us == 0 {
						b.Fatal(err, r.StderrHead)
					}
					b.ReportMetric(us, "us/open")
				}
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}
