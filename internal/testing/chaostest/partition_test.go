package chaostest

import (
	"strings"
	"testing"

	"tallystick/internal/app/fleet/bus"
	"tallystick/internal/run/journal"
)

// TestPartitionedWorkerComesTooLate: in the middle of a case nothing that a worker says
// gets through any more, for longer than it may be silent. It drives the case to its end
// and brings a result with which nothing is wrong, but another worker was given the case
// by then: the late result is refused, and the ledger says so.
func TestPartitionedWorkerComesTooLate(t *testing.T) {
	y := newYard(t, 1)
	y.shutAt(2) // in the second turn
	c := y.coordinator("--live", "--max-cost", "5")
	network := y.line(1)
	y.worker(1)
	y.untilAsked(2)
	network.hold(up)
	y.shutAt(4) // in the second turn of the next execution
	y.open()
	y.untilLost()
	y.worker(2)
	y.untilAsked(4)
	network.heal()
	y.until("the late result", func() bool { return y.inLedger("fleet.result.late") })
	y.open()
	c.wait(0)
	b := y.settled(1)
	if r := b.scored["case-000"]; r.Execution != 2 || r.Worker == nil || r.Worker.Key != y.public("worker2").Fingerprint() {
		t.Errorf("recorded: execution %d by %+v", r.Execution, r.Worker)
	}
	if late := b.events["fleet.result.late"]; !strings.Contains(late[0], y.public("worker1").Fingerprint()+" brought case case-000 back after it was given to another worker; it does not count") {
		t.Errorf("events: %v", b.events)
	}
	if len(b.events["fleet.case.lost"]) != 1 || len(b.events["fleet.worker.quarantined"]) != 0 {
		t.Errorf("events: %v", b.events)
	}
	if p := b.finished.Paid; p.Calls != 4 || p.Unknown != 0 {
		t.Errorf("both executions were paid for, and the books have %+v", *p)
	}
}

// TestAnswersThatWereLostAreAskedForAgain: the connection of a worker is cut while a
// model answers, so that the answer is lost. The worker asks again when it is
// back, is given the same answer, and the call is paid once.
func TestAnswersThatWereLostAreAskedForAgain(t *testing.T) {
	y := newYard(t, 1)
	y.shut()
	c := y.coordinator("--live", "--max-cost", "5")
	network := y.line(1)
	y.worker(1)
	y.untilAsked(1)
	network.refuse()
	y.open()
	y.until("the answer", func() bool { return y.inJournal(journal.Reply) == 1 })
	network.heal()
	c.wait(0)
	b := y.settled(1)
	if r := b.scored["case-000"]; r.Execution != 1 || len(b.events) > 0 {
		t.Errorf("execution %d is recorded; events: %v", r.Execution, b.events)
	}
	if p := b.finished.Paid; p.Calls != 2 || p.Unknown != 0 {
		t.Errorf("two calls are needed, and the books have %+v", *p)
	}
}

// TestConnectionThatLeadsNowhereIsGivenUp: nothing gets through on a connection
// any more, and neither end closes it. The worker makes another one, and
// continues the case or drives it again.
func TestConnectionThatLeadsNowhereIsGivenUp(t *testing.T) {
	y := newYard(t, 1)
	y.shut()
	c := y.coordinator("--live", "--max-cost", "5")
	network := y.line(1)
	y.worker(1)
	y.untilAsked(1)
	network.forget()
	y.open()
	c.wait(0)
	if b := y.settled(1); len(b.events["fleet.worker.quarantined"]) > 0 {
		t.Errorf("events: %v", b.events)
	}
}

// TestLostQueueIsMadeAgain: a NATS server of one's own, which alone has the
// queue, is started again with an empty disk. The coordinator knows which cases
// no worker has.
func TestLostQueueIsMadeAgain(t *testing.T) {
	y := newYard(t, 3)
	y.shut()
	server := y.server(y.TempDir())
	c := y.start(nil, "run", "paid", "--fleet", "nats://"+y.address, "--live", "--max-cost", "5")
	y.worker(1)
	y.untilAsked(1)
	server.Stop()
	y.server(y.TempDir())
	y.open()
	if said := c.wait(0); !strings.Contains(said, "the servers lost the work queue; it is made again with 2 cases that wait") {
		t.Errorf("it does not say what happened:\n%s", said)
	}
	b := y.settled(3)
	if len(b.events) > 0 || b.finished.Paid.Calls != 6 {
		t.Errorf("events: %v; books %+v", b.events, b.finished.Paid)
	}
}

// server starts a NATS server that knows the operator and the workers.
func (y *yard) server(dir string) *bus.Server {
	y.Helper()
	name := func(file string) string {
		user, err := bus.UserOf(y.public(file))
		y.must(err)
		return user
	}
	s, err := bus.Start(bus.ServerOptions{Listen: y.address, Dir: dir, Coordinator: name("operator"), Workers: []string{name("worker1"), name("worker2"), name("worker3")}})
	y.must(err)
	y.Cleanup(s.Stop)
	return s
}
