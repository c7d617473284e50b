package sequencer

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
)

// killEnv names the folder for the writer that the test starts and kills.
const killEnv = "TALLY_TEST_KILL_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(killEnv); dir != "" {
		writeUntilKilled(dir)
	}
	os.Exit(m.Run())
}

// writeUntilKilled appends from several goroutines and prints what is
// acknowledged, each line in one write.
func writeUntilKilled(dir string) {
	fail := func(err error) {
		fmt.Println("error", err)
		os.Exit(1)
	}
	t := &testing.T{}
	cfg := killConfig(t, dir)
	l, err := Open(context.Background(), cfg)
	if refusal.Is(err, refusal.TornTail) {
		r, err := Repair(context.Background(), cfg)
		if err != nil {
			fail(err)
		}
		fmt.Println("repaired", r.Bytes)
		l, err = Open(context.Background(), cfg)
		if err != nil {
			fail(err)
		}
	} else if err != nil {
		fail(err)
	}
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for i := 0; ; i++ {
				pos, err := l.Append(evidence.NoteKind, fmt.Appendf(nil, `{"i":%d,"pad":"%s","w":%d}`, i, strings.Repeat("p", 300*w), w))
				if err != nil {
					fail(err)
				}
				fmt.Printf("acked %d %s\n", pos.Index, pos.Content)
			}
		})
	}
	writers.Wait()
}

func killConfig(t testing.TB, dir string) Config {
	cfg := testConfigIn(t, dir)
	cfg.segmentBytes = 64 << 10
	cfg.Now = time.Now
	return cfg
}

// TestKillLosesNothingAcknowledged kills a real process at random moments and
// starts the next one on what it left.
func TestKillLosesNothingAcknowledged(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Skip(err)
	}
	rounds := 40
	if testing.Short() {
		rounds = 6
	}
	dir := t.TempDir()
	cfg := killConfig(t, dir)
	l, err := Create(context.Background(), cfg, testSigners(t))
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	acked := map[int64]string{}
	repairs := 0
	for round := range rounds {
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), killEnv+"="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Duration(20+rand.IntN(150))*time.Millisecond, func() { cmd.Process.Kill() })
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			var index int64
			var content string
			switch n, _ := fmt.Sscanf(lines.Text(), "acked %d %s", &index, &content); {
			case n == 2 && len(content) == len("blake3:")+64:
				acked[index] = content
			case strings.HasPrefix(lines.Text(), "repaired"):
				repairs++
			case strings.HasPrefix(lines.Text(), "error"):
				t.Fatalf("round %d: %s", round, lines.Text())
			}
		}
		cmd.Wait()
	}
	found := map[int64]string{}
	o := options(cfg)
	o.Visit = func(r ledger.Record) error { found[r.Index] = r.Content.String(); return nil }
	memory, err := Remembered(cfg.FS, cfg.StateDir, cfg.Origin)
	if err != nil || memory == nil {
		t.Fatalf("memory %v, %v", memory, err)
	}
	o.Expect = []ledger.Expectation{MemoryExpectation(*memory)}
	v, err := cfg.Verify(o)
	if err != nil {
		t.Fatal(err)
	}
	for index, content := range acked {
		if found[index] != content {
			t.Errorf("entry %d was acknowledged as %s, the ledger has %q", index, content, found[index])
		}
	}
	if len(acked) == 0 {
		t.Error("no process lived long enough to write")
	}
	t.Logf("%d kills, %d repairs, %d entries acknowledged, %d in the ledger, %d torn bytes at the end", rounds, repairs, len(acked), v.Size, v.Tail.Torn)
}
