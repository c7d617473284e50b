package chaostest

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"tallystick/internal/record/evidence"
)

// TestKilledWorkerCostsAnExecution: a worker dies in the middle of a case. Another one
// drives it as the next execution, the ledger says so, and it is recorded once.
func TestKilledWorkerCostsAnExecution(t *testing.T) {
	y := newYard(t, 3)
	y.shut()
	c := y.coordinator("--live", "--max-cost", "5")
	first := y.worker(1)
	y.untilAsked(1)
	first.kill()
	y.worker(2)
	y.untilLost()
	y.open()
	c.wait(0)
	b := y.settled(3)
	again := 0
	for id, r := range b.scored {
		if r.Execution > 1 {
			again++
		}
		if r.Worker == nil || b.started[id] != r.Execution {
			t.Errorf("case %s: %+v", id, r)
		}
	}
	if again == 0 || len(b.events["fleet.case.lost"]) == 0 {
		t.Errorf("%d cases were started again; events: %v", again, b.events)
	}
	if b.finished.Paid.Unknown == 0 {
		t.Error("the call of the killed worker is not in the books")
	}
}

// TestKilledCoordinatorIsResumed: the coordinator dies in the middle of a case. The
// attempt is resumed on one machine, or over the fleet whose worker waited, and no call
// that was answered is paid again.
func TestKilledCoordinatorIsResumed(t *testing.T) {
	for name, args := range map[string][]string{"on one machine": nil, "over the fleet": {"--fleet", "embedded"}} {
		t.Run(name, func(t *testing.T) {
			y := newYard(t, 3)
			y.shutAt(4) // in the second turn of the second case
			c := y.coordinator("--live", "--max-cost", "5")
			w := y.worker(1)
			y.untilAsked(4)
			c.kill()
			y.open()
			if args != nil {
				args = append(args, "--listen", y.address)
			} else {
				w.kill()
			}
			y.run(append([]string{"run", "paid", "--live", "--max-cost", "5", "--resume"}, args...)...)
			b := y.settled(3)
			if b.finished.Paid.Calls > 6 {
				t.Errorf("%d calls were answered, 6 are needed", b.finished.Paid.Calls)
			}
			// Which case a worker takes first is not promised: the one whose claim
			// came too early waits.
			want := map[bool]int{true: 1, false: 3}[args == nil]
			if driven := b.byWorkers(); driven != want {
				t.Errorf("%d cases were driven by a worker, want %d", driven, want)
			}
		})
	}
}

// TestStoppedWorkerComesTooLate: a worker is stopped in the middle of a case for longer
// than it may be silent, and goes on. What it brings is refused, and the ledger says so.
func TestStoppedWorkerComesTooLate(t *testing.T) {
	y := newYard(t, 2)
	y.shut()
	c := y.coordinator("--live", "--max-cost", "5")
	first := y.worker(1)
	y.untilAsked(1)
	first.signal(syscall.SIGSTOP)
	y.untilLost()
	first.signal(syscall.SIGCONT)
	// It continues the case until its model call fails, and brings that.
	y.until("the late result", func() bool { return y.inLedger("fleet.result.late") })
	y.open()
	c.wait(0)
	b := y.settled(2)
	if late := b.events["fleet.result.late"]; len(late) == 0 || !strings.Contains(late[0], "after it was given to another worker; it does not count") {
		t.Errorf("events: %v", b.events)
	} else if len(late) > 3 { // an answer may come late
		t.Errorf("it was refused and brought the same %d times", len(late))
	}
}

// TestInterruptedCoordinatorIsResumed: Ctrl-C ends the fleet's attempt as it ends one
// machine's, and the same worker drives what is left.
func TestInterruptedCoordinatorIsResumed(t *testing.T) {
	y := newYard(t, 2)
	y.shut()
	c := y.coordinator("--live", "--max-cost", "5")
	y.worker(1)
	y.untilAsked(1)
	c.signal(syscall.SIGINT)
	if said := c.wait(1); !strings.Contains(said, "--resume") {
		t.Errorf("it does not say how to resume:\n%s", said)
	}
	y.open()
	// The worker had a case when that happened, and it is welcome still.
	y.coordinator("--live", "--max-cost", "5", "--resume").wait(0)
	if b := y.settled(2); len(b.events) > 0 {
		t.Errorf("events: %v", b.events)
	}
}

// TestClocksOfWorkersDoNotMatter: workers whose clocks are ten years apart give the same
// records; every time in them is the coordinator's.
func TestClocksOfWorkersDoNotMatter(t *testing.T) {
	y := newYard(t, 4)
	y.shut()
	before := evidence.At(time.Now())
	c := y.coordinator("--live", "--max-cost", "5")
	y.worker(1, clockEnv+"=-87600h")
	y.worker(2, clockEnv+"=87600h")
	y.untilAsked(2) // one of each
	y.open()
	c.wait(0)
	b := y.settled(4)
	workers := map[string]bool{}
	for id, r := range b.scored {
		workers[r.Worker.Key] = true
		if r.Execution != 1 || r.Outcome != evidence.Passed {
			t.Errorf("case %s: execution %d, %s", id, r.Execution, r.Outcome)
		}
		for _, at := range []evidence.Time{r.StartedAt, r.FinishedAt} {
			if at.Before(before) || time.Now().Before(at.Go()) {
				t.Errorf("case %s has the time %s, which is not the coordinator's", id, at)
			}
		}
	}
	if len(workers) != 2 {
		t.Errorf("workers: %v", workers)
	}
	if len(b.events) > 0 {
		t.Errorf("events: %v", b.events)
	}
}
