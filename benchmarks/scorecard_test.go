package benchmarks

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/sequencer"
	"tallystick/internal/record/store"
	"tallystick/internal/record/workspace"
)

// A generated is a workspace with attempts that never ran.
type generated struct {
	t     *testing.T
	tally string // the program
	dir   string
	env   []string
	key   *seal.Key
	w     *workspace.Workspace
}

// TestScorecardFigures prints time and peak memory of the program itself.
func TestScorecardFigures(t *testing.T) {
	if !*figures {
		t.Skip("run benchmarks/scorecard.sh")
	}
	records := 1_000_000
	if n, err := strconv.Atoi(os.Getenv("RECORDS")); err == nil && n > 0 {
		records = n
	}
	tally := filepath.Join(t.TempDir(), "tally")
	build := exec.Command("go", "build", "-o", tally, "../cmd/tally")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, tt := range []struct {
		name           string
		attempts, each int
		args           []string
	}{
		{"scorecard, one attempt", 1, records, []string{"scorecard", "--no-evidence"}},
		{"scorecard, 100 attempts", 100, records / 100, []string{"scorecard", "--no-evidence"}},
		{"scorecard of one attempt in 100", 0, 0, []string{"scorecard", "gen.agent.7", "--no-evidence"}},
		{"curve over 100 attempts", 0, 0, []string{"curve"}},
		{"compare, two attempts", 2, records / 10, []string{"compare", "gen.agent.1", "gen.agent.2", "--no-evidence"}},
	} {
		if tt.attempts > 0 {
			current = generate(t, tally, tt.attempts, tt.each)
		}
		current.measure(tt.name, tt.args)
	}
}

var current *generated

func (g *generated) measure(name string, args []string) {
	cmd := exec.Command(g.tally, append(args, "--json", "--workspace", g.dir)...)
	cmd.Env = g.env
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	start := time.Now()
	if err := cmd.Start(); err != nil {
		g.t.Fatal(err)
	}
	peak := make(chan int64)
	done := make(chan struct{})
	go func() { peak <- watchMemory(cmd.Process.Pid, done) }()
	err := cmd.Wait()
	wall := time.Since(start)
	close(done)
	if err != nil || !json.Valid(out.Bytes()) {
		g.t.Fatalf("%v: %v\n%s", args, err, errs.String())
	}
	fmt.Printf("%-34s %7.2f s wall %7.2f s processor %7.1f MB at most\n", name, wall.Seconds(),
		(cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds(), float64(<-peak)/1024)
}

// watchMemory returns the most memory in KB that a process had. The kernel's
// own account at the end would begin with what this process has, which started
// it.
func watchMemory(pid int, done <-chan struct{}) (peak int64) {
	for {
		data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if _, rest, ok := strings.Cut(string(data), "VmHWM:"); ok {
			var kb int64
			if _, err := fmt.Sscan(rest, &kb); err == nil {
				peak = max(peak, kb)
			}
		}
		select {
		case <-done:
			return peak
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// generate makes a workspace with attempts at the same n cases, each case with
// its start and its record.
func generate(t *testing.T, tally string, attempts, n int) *generated {
	t.Helper()
	home := t.TempDir()
	g := &generated{t: t, tally: tally, dir: filepath.Join(home, "ws"), env: append(os.Environ(), "HOME="+home, "XDG_STATE_HOME="+filepath.Join(home, "state"))}
	cmd := exec.Command(tally, "init", g.dir, "--origin", "example.com/evals")
	cmd.Env = g.env
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var err error
	if g.w, err = workspace.Load(g.dir); err != nil {
		t.Fatal(err)
	}
	if g.key, err = seal.LoadKey(filepath.Join(g.w.KeysDir(), "operator")); err != nil {
		t.Fatal(err)
	}
	cfg := sequencer.Config{Place: sequencer.Place{FS: store.OS{}, Dir: g.w.LedgerDir(), StateDir: filepath.Join(home, "state", "tallystick"), Anchors: g.w.AnchorsDir()},
		Origin: g.w.Settings.Origin, TrustRoot: g.w.Settings.TrustRoot, Key: g.key, Now: time.Now}
	l, err := sequencer.Open(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	list := g.caseList(n)
	for k := 1; k <= attempts; k++ {
		g.attempt(l, k, n, list)
	}
	return g
}

func caseID(i int) string { return fmt.Sprintf("case-%07d", i) }

func caseDigest(i int) digest.Content { return digest.ContentOf(fmt.Append(nil, "case", i)) }

// caseList puts the list of cases into the evidence.
func (g *generated) caseList(n int) digest.Content {
	g.t.Helper()
	var b bytes.Buffer
	b.WriteByte('[')
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"digest":"%s","id":"%s"}`, caseDigest(i), caseID(i))
	}
	b.WriteByte(']')
	d, err := store.OpenVault(store.OS{}, g.w.EvidenceDir()).Put(b.Bytes())
	if err != nil {
		g.t.Fatal(err)
	}
	return d
}

func (g *generated) attempt(l *sequencer.Ledger, k, n int, list digest.Content) {
	t := g.t
	t.Helper()
	r := &evidence.AttemptRegistered{SchemaVersion: 1, Attempt: fmt.Sprintf("gen.agent.%d", k), Origin: g.w.Settings.Origin, Class: "gen", Target: "agent", Number: k, Mode: "replay",
		Plan: evidence.Plan{BenchDigest: digest.IDOf([]byte("bench")), RegistrationDigest: digest.ContentOf(nil), TargetDigest: digest.ContentOf(nil),
			CasesDigest: &list, CaseCount: n, Repeat: 1}, Operator: digest.IDOf([]byte("operator"))}
	message, err := r.Message()
	if err != nil {
		t.Fatal(err)
	}
	sig, err := seal.SignWith(g.key.Signer(), seal.NamespaceAttempt, message)
	if err != nil {
		t.Fatal(err)
	}
	r.Signature = string(sig)
	if _, err := l.AppendRecord(evidence.AttemptRegisteredKind, r); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	rubric, tape := digest.ContentOf([]byte("rubric")), digest.ContentOf([]byte("tape"))
	template, err := canon.Marshal(&evidence.CaseScored{SchemaVersion: 1, Attempt: r.Attempt, Class: r.Class, CaseID: "@ID@", Tags: []string{"a", "b"}, Repeat: 1, Execution: 1,
		CaseDigest: digest.ContentOf([]byte("@DIGEST@")), RubricDigest: &rubric, CassetteDigest: &tape, HarnessVersion: "v1", IsolationClass: "gvisor", IsolationScope: "case", Outcome: evidence.Passed,
		Score:     &evidence.Score{Passed: true, Score: 1, Breakdown: map[string]float64{"tests": 1, "diff": 0.5}, FailureModes: []string{}, CostUSD: 0.0003, DurationSeconds: 0.25},
		StartedAt: evidence.At(now), FinishedAt: evidence.At(now.Add(1234 * time.Millisecond)), Operator: r.Operator, Turns: 3, Tokens: 4321, CostMicroUSD: 300, Vantage: "inside",
		Provenance: "recorded", EvidenceDigests: []digest.Content{digest.ContentOf([]byte("index"))}})
	if err != nil {
		t.Fatal(err)
	}
	passed := string(template)
	failed := strings.NewReplacer(`"outcome":"passed"`, `"outcome":"failed"`, `"failure_modes":[],"passed":true,"score":1`, `"failure_modes":["tests.failed"],"passed":false,"score":0.25`).Replace(passed)
	placeholder := digest.ContentOf([]byte("@DIGEST@")).String()
	var last *sequencer.Pending
	for i := range n {
		l.Submit(evidence.CaseStartedKind, fmt.Appendf(nil, `{"attempt":%q,"case_id":"%s","execution":1,"repeat":1}`, r.Attempt, caseID(i)))
		record := passed
		if (i*7+k)%5 == 0 {
			record = failed
		}
		record = strings.Replace(strings.Replace(record, placeholder, caseDigest(i).String(), 1), "@ID@", caseID(i), 1)
		last = l.Submit(evidence.CaseScoredKind, []byte(record))
		if i%256 == 255 { // batches as large as those of a busy harness
			if _, err := last.Wait(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := last.Wait(); err != nil {
		t.Fatal(err)
	}
}
