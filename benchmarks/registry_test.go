package benchmarks

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tallystick/internal/testing/pgtest"
	"tallystick/internal/testing/servetest"
)

var (
	registryEntries = flag.Int("entries", 100_000, "evaluations in the registry that is measured")
	registrySeconds = flag.Int("seconds", 10, "how long each request is measured")
	connections     = flag.Int("connections", 32, "keep-alive connections that ask at once")
)

// floorEnv makes this program the floor: a bare net/http server that answers the
// bytes of a file.
const floorEnv = "TALLY_BENCHMARK_FLOOR"

func TestMain(m *testing.M) {
	if file := os.Getenv(floorEnv); file != "" {
		serveFloor(file)
	}
	os.Exit(m.Run())
}

func serveFloor(file string) {
	answer, err := os.ReadFile(file)
	if err != nil {
		panic(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Printf("{\"url\":\"http://%s\"}\n", l.Addr())
	panic(http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.Write(answer)
	})))
}

// TestRegistryFigures prints what a registry of its own process answers, beside a bare
// net/http server that answers the same bytes, in the same run. It asserts no time.
func TestRegistryFigures(t *testing.T) {
	if !*figures {
		t.Skip("measures for minutes; benchmarks/registry.sh runs it")
	}
	r := newMeasured(t)
	t.Logf("%d connections, %d s each; the load comes from the same machine", *connections, *registrySeconds)
	r.Start("")
	r.prepare()
	r.seed(*registryEntries)
	r.measure("SQLite")
	r.Stop()

	pg, err := pgtest.Start(true)
	if errors.Is(err, pgtest.ErrNone) {
		t.Logf("PostgreSQL: not measured: %v", err)
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer pg.Stop()
	address, err := pg.Create()
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	r.Start(address)
	t.Logf("PostgreSQL: the index was made from the ledger in %.1f s", time.Since(begin).Seconds())
	r.measure("PostgreSQL")
	r.Stop()
}

// measured is a registry that is measured.
type measured struct {
	*servetest.Registry
	t    *testing.T
	keys []string // API keys
	next atomic.Int64
}

func newMeasured(t *testing.T) *measured {
	tally := filepath.Join(t.TempDir(), "tally")
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", tally, "../cmd/tally")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return &measured{Registry: servetest.New(t, tally), t: t}
}

func hostOf(url string) string { return strings.TrimPrefix(url, "http://") }

func (r *measured) host() string { return hostOf(r.URL) }

func (r *measured) post(path, key string, body any) map[string]any {
	r.t.Helper()
	var answer map[string]any
	if status, err := r.Post(path, key, "", body, &answer); err != nil || status > 299 {
		r.t.Fatalf("%s: %d %v %v", path, status, answer, err)
	}
	return answer
}

const artifacts = 1000

// prepare registers agents and proposes what evaluations are about.
func (r *measured) prepare() {
	for range 8 {
		r.keys = append(r.keys, r.post("/api/agent/v1/register", "", map[string]any{})["apiKey"].(string))
	}
	r.post("/api/knowledge/eval-harness/propose", r.keys[0], map[string]any{"path": "/artifacts/eval-harnesses/h/v1"})
	r.post("/api/knowledge/dataset/propose", r.keys[0], map[string]any{"path": "/artifacts/datasets/d"})
	for n := range artifacts {
		r.post("/api/knowledge/model/propose", r.keys[0], map[string]any{"path": fmt.Sprintf("/artifacts/models/org/model%dx", n)})
	}
}

// publication is a request that publishes another evaluation each time.
func (r *measured) publication(worker int) []byte {
	n := r.next.Add(1)
	body := fmt.Sprintf(`{"artifactPath":"/artifacts/models/org/model%dx","evalHarnessPath":"/artifacts/eval-harnesses/h/v1","datasetPath":"/artifacts/datasets/d","metrics":{"accuracy":0.738,"n":%d,"stderr":0.0041},"runDetails":{"commitSha":"0123456789abcdef0123456789abcdef01234567","framework":"vllm-0.6.2","runner":"lm-eval-harness","seed":42}}`, n%artifacts, n)
	return request(r.host(), "POST", "/api/knowledge/eval/propose", r.keys[worker%len(r.keys)], body)
}

func request(host, method, path, key, body string) []byte {
	head := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\n", method, path, host)
	if key != "" {
		head += "Authorization: Bearer " + key + "\r\n"
	}
	if method == "POST" {
		head += fmt.Sprintf("Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	}
	return []byte(head + "\r\n" + body)
}

// seed publishes evaluations until the registry has so many.
func (r *measured) seed(entries int) {
	begin := time.Now()
	f := drive(r.t, r.host(), 64, func() bool { return r.next.Load() >= int64(entries) }, r.publication, http.StatusCreated)
	r.t.Logf("made a registry of %d evaluations in %.0f s: %s", entries, time.Since(begin).Seconds(), f)
}

const dryRunBody = `{"kind":"eval.run.attestation.v1","body":{"schemaVersion":"1.0.0","runId":"00000000-0000-4000-8000-000000000000","harnessId":"lm-eval-harness","harnessVersionSha":"0000000000000000000000000000000000000000000000000000000000000000","evalCodeSha":"1111111111111111111111111111111111111111111111111111111111111111","modelId":"huggingface://meta-llama/Llama-3.1-70B-Instruct","datasetSha":"2222222222222222222222222222222222222222222222222222222222222222","runnerDid":"did:web:my-org.example.com","submittedAt":1747000000000,"samplingParams":{"temperature":0,"numFewShot":5,"seed":42,"nSamples":12032,"generationKwargs":{"stop":["</answer>"]}},"results":{"mmlu_pro":{"accuracy":0.738,"stderr":0.0041}},"resultsHash":"5fa18ba422f0c3c4d1f7ff09e22abd7fdc6cdc7a8718a76d930fe30cee663ecc"}}`

// measure prints one figure for each kind of request, beside its floor.
func (r *measured) measure(database string) {
	list, forArtifact := "/api/knowledge/eval/list?limit=50", "/api/knowledge/eval/for-artifact/artifacts/models/org/model%dx?limit=50"
	var turn atomic.Int64
	for _, m := range []struct {
		name    string
		goal    int
		status  int
		request func(worker int) []byte
	}{
		{"dry-run", 2000, 200, func(int) []byte { return request(r.host(), "POST", "/api/credentials/dry-run", "", dryRunBody) }},
		{"list", 3000, 200, func(int) []byte { return request(r.host(), "GET", list, "", "") }},
		{"for-artifact, one", 3000, 200, func(int) []byte { return request(r.host(), "GET", fmt.Sprintf(forArtifact, 7), "", "") }},
		// No page of it is in a cache until all have been asked for.
		{"for-artifact, any", 3000, 200, func(int) []byte {
			return request(r.host(), "GET", fmt.Sprintf(forArtifact, turn.Add(1)%artifacts), "", "")
		}},
		{"publish", 500, 201, r.publication},
	} {
		before := processorTime(r.Server.Process.Pid)
		got := r.timed(r.host(), m.request, m.status)
		got.cpu = (processorTime(r.Server.Process.Pid) - before) / time.Duration(got.n)
		floor := r.floor(m.request, m.status)
		r.t.Logf("%-10s %-17s %s; goal %d/s; floor %.0f/s, p99 %s: %.2f × a bare net/http server of the same bytes",
			database, m.name, got, m.goal, floor.rate, floor.p99, got.rate/floor.rate)
	}
}

func (r *measured) timed(host string, request func(int) []byte, status int) figure {
	end := time.Now().Add(time.Duration(*registrySeconds) * time.Second)
	return drive(r.t, host, *connections, func() bool { return time.Now().After(end) }, request, status)
}

// floor measures a bare net/http server that answers what the registry answers.
func (r *measured) floor(request func(int) []byte, status int) figure {
	r.t.Helper()
	answer := answerOf(r.t, r.host(), request(0))
	file := filepath.Join(r.t.TempDir(), "answer")
	if err := os.WriteFile(file, answer, 0o600); err != nil {
		r.t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		r.t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), floorEnv+"="+file)
	url, _ := servetest.Start(r.t, cmd)
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	return r.timed(hostOf(url), request, http.StatusOK)
}

func answerOf(t *testing.T, host string, request []byte) []byte {
	t.Helper()
	conn, err := net.Dial("tcp", host)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write(request); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode > 299 {
		t.Fatalf("%d %s %v", resp.StatusCode, body, err)
	}
	return body
}

// processorTime is what a process has used of the processors, 0 if the system does not
// say. A busy machine changes the rate and hardly this.
func processorTime(pid int) time.Duration {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// After the name in brackets: state, then 10 more, then user and system time in
	// hundredths of a second (proc(5)).
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	var user, system int64
	fmt.Sscan(fields[11], &user)
	fmt.Sscan(fields[12], &system)
	return time.Duration(user+system) * 10 * time.Millisecond
}

// A figure is what a load came to.
type figure struct {
	rate     float64
	p50, p99 time.Duration
	worst    time.Duration
	cpu      time.Duration // of the server, a request; 0 if it is not known
	n        int
}

func (f figure) String() string {
	text := fmt.Sprintf("%.0f/s, p50 %s, p99 %s, longest %s (%d requests)", f.rate, f.p50, f.p99, f.worst, f.n)
	if f.cpu > 0 {
		text += fmt.Sprintf(", %s of the server's processor time each", f.cpu.Round(time.Microsecond))
	}
	return text
}

// drive sends requests over keep-alive connections, one after the other on each, until
// done says so. Every answer must have the status. Requests are written and answers
// read without net/http's client, whose cost would be the server's loss.
func drive(t *testing.T, host string, connections int, done func() bool, request func(worker int) []byte, status int) figure {
	t.Helper()
	var mu sync.Mutex
	var all []time.Duration
	var failed error
	begin := time.Now()
	var workers sync.WaitGroup
	for w := range connections {
		workers.Go(func() {
			took, err := worker(host, w, done, request, status)
			mu.Lock()
			defer mu.Unlock()
			all = append(all, took...)
			failed = errors.Join(failed, err)
		})
	}
	workers.Wait()
	if failed != nil {
		t.Fatal(failed)
	}
	slices.Sort(all)
	if len(all) == 0 {
		t.Fatal("no request was answered")
	}
	at := func(q float64) time.Duration {
		return all[min(len(all)-1, int(q*float64(len(all))))].Round(10 * time.Microsecond)
	}
	return figure{rate: float64(len(all)) / time.Since(begin).Seconds(), p50: at(0.5), p99: at(0.99), worst: at(1), n: len(all)}
}

func worker(host string, n int, done func() bool, request func(worker int) []byte, status int) ([]time.Duration, error) {
	conn, err := net.Dial("tcp", host)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	in := bufio.NewReaderSize(conn, 64<<10)
	var took []time.Duration
	for !done() {
		text := request(n)
		begin := time.Now()
		if _, err := conn.Write(text); err != nil {
			return took, err
		}
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			return took, err
		}
		if resp.StatusCode != status {
			body, _ := io.ReadAll(resp.Body)
			return took, fmt.Errorf("status %d, want %d: %.300s", resp.StatusCode, status, body)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			return took, err
		}
		took = append(took, time.Since(begin))
	}
	return took, nil
}
