package session

import (
	"fmt"
	"sync"

	"tallystick/internal/record/refusal"
	"tallystick/internal/run/trajectory"
)

// The default budgets of a case. They bound what an
// agent can make this program keep and read; reached, the case is truncated and
// the attempt goes on.
const (
	DefaultKeptBytes = 64 << 20 // of evidence: events, and the whole of long texts
	DefaultEvents    = 50_000
	// DefaultReadBytes is of requests, each of which is parsed, brought into
	// its canonical form and searched for secrets. All of that takes time in
	// proportion to the bytes, so this bounds the time as well, and stops a
	// case at the same place on every machine.
	DefaultReadBytes = 1 << 30
)

// eventWeight is how much a byte of an event counts among those kept. It is
// held as a line and decoded, and both have room to grow.
const eventWeight = 3

func (l Limits) withDefaults() Limits {
	for _, d := range []struct {
		value *int64
		usual int64
	}{{&l.KeptBytes, DefaultKeptBytes}, {&l.Events, DefaultEvents}, {&l.ReadBytes, DefaultReadBytes}} {
		if *d.value == 0 {
			*d.value = d.usual
		}
	}
	return l
}

// affords stops a case that has used up what may be kept of it. What ends a
// case, and what is to be told after its end, is written all the same: neither
// can grow without bound.
func (s *Session) affords(p trajectory.Payload) error {
	switch p.(type) {
	case *trajectory.LimitReached, *trajectory.RunCompleted, *trajectory.RunFailed, *trajectory.PolicyViolation, *trajectory.SecurityEvent:
		return nil
	}
	switch l := s.cfg.Limits; {
	case s.stop != nil:
		return nil
	case s.kept > l.KeptBytes:
		return s.limit("kept_bytes", l.KeptBytes)
	case int64(s.log.Len()) >= l.Events:
		return s.limit("events", l.Events)
	}
	return nil
}

// keep counts bytes that stay until the case is recorded.
func (s *Session) keep(n int) {
	s.kept += int64(n)
	s.seat.take(int64(n))
}

// reads counts bytes of the agent that are about to be read.
func (s *Session) reads(n int) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.mu.Unlock()
	if s.read += int64(n); s.read > s.cfg.Limits.ReadBytes {
		return s.limit("read_bytes", s.cfg.Limits.ReadBytes)
	}
	return nil
}

// unwritable says what becomes of a case whose event cannot be written. What an
// event says comes from the agent, so this is the end of the case and not of
// the attempt.
func (s *Session) unwritable(err error) error {
	if refusal.Is(err, refusal.TooLarge) {
		return s.halt(Truncated, refusal.LimitReached, fmt.Errorf("writing the trajectory: %w", err))
	}
	return s.halt(Failed, refusal.AgentFailed, fmt.Errorf("what the agent did cannot be written down: %w", err))
}

// A Memory is what all cases of an attempt share of this machine's memory. A
// case that wants more waits until another has been recorded. The oldest one
// that is under way does not wait, so that some case always gets on.
type Memory struct {
	mu      sync.Mutex
	changed *sync.Cond
	kept    int64 // bytes
	flying  int64 // bytes
	tickets int
	seats   map[*seat]bool
}

// What a Memory has room for. A body that is parsed takes a multiple of its
// size; see benchmarks/hostile.sh.
const (
	roomForKept   = 128 << 20
	roomForBodies = 16 << 20
)

// NewMemory returns the memory of one attempt.
func NewMemory() *Memory {
	m := &Memory{seats: map[*seat]bool{}}
	m.changed = sync.NewCond(&m.mu)
	return m
}

// A seat is the part of one case.
type seat struct {
	m      *Memory
	ticket int
	held   int64
	done   bool // the case has ended and is not recorded yet
}

func (m *Memory) seat() *seat {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tickets++
	s := &seat{m: m, ticket: m.tickets}
	m.seats[s] = true
	return s
}

func (s *seat) take(n int64) {
	if s == nil || n == 0 {
		return
	}
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	for s.m.kept+n > roomForKept && !s.isOldest() {
		s.m.changed.Wait()
	}
	s.held += n
	s.m.kept += n
}

func (s *seat) isOldest() bool {
	for other := range s.m.seats {
		if !other.done && other.ticket < s.ticket {
			return false
		}
	}
	return true
}

// end says that the case has ended, and free that nothing of it is kept any
// more.
func (s *seat) end() { s.leave(false) }

func (s *seat) free() { s.leave(true) }

func (s *seat) leave(gone bool) {
	if s == nil {
		return
	}
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	s.done = true
	if gone && s.m.seats[s] {
		delete(s.m.seats, s)
		s.m.kept -= s.held
	}
	s.m.changed.Broadcast()
}

// Weigh waits until there is room for a body of n bytes that is to be parsed,
// over all cases of the attempt. Free must be called when that is over.
func (s *Session) Weigh(n int64) (free func()) {
	m := s.cfg.Memory
	n = min(n, roomForBodies)
	if m == nil || n == 0 {
		return func() {}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for m.flying+n > roomForBodies {
		m.changed.Wait()
	}
	m.flying += n
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.flying -= n
		m.changed.Broadcast()
	}
}
