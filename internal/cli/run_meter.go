package cli

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"tallystick/internal/record/cost"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/plain"
	"tallystick/internal/run/harness"
)

// A meter shows how an attempt is going: one line that is written over on a
// terminal, and nothing in a pipe but the cases that did not pass.
type meter struct {
	env      *Env
	terminal bool
	total    int
	began    time.Time

	mu     sync.Mutex
	shown  time.Time
	count  int
	passed int
	asked  bool      // a case that asks something new was shown
	cost   cost.Cost // shown if it is paid now
	live   bool
}

func newMeter(env *Env, live bool) *meter {
	return &meter{env: env, live: live, terminal: !env.Quiet && !env.JSON && isTerminal(env.Stderr), began: time.Now()}
}

// Recorded shows a case that was recorded.
func (m *meter) Recorded(r harness.Result) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.total = max(m.total, r.Total)
	m.count++
	m.cost = m.cost.Plus(r.Record.Cost())
	switch {
	case r.Record.Outcome == evidence.Passed:
		m.passed++
	case r.Record.Unanswered && m.asked:
		// The answer counts them; one shows what is asked.
	default:
		m.asked = m.asked || r.Record.Unanswered
		m.clear()
		m.env.Note("case %s %s%s", r.Case, r.Record.Outcome, because(r))
	}
	if !m.terminal || time.Since(m.shown) < 100*time.Millisecond && m.count < m.total {
		return
	}
	m.shown = time.Now()
	rate := float64(m.count) / time.Since(m.began).Seconds()
	left := time.Duration(float64(m.total-m.count)/rate) * time.Second
	paid := ""
	if m.live {
		paid = ", " + m.cost.Short()
	}
	fmt.Fprintf(m.env.Stderr, "\r\x1b[K%d of %d cases, %d passed%s, %.1f/s, %v left", m.count, m.total, m.passed, paid, rate, left.Round(time.Second))
}

func because(result harness.Result) string {
	switch r := result.Record; {
	case r.Reason != "" && result.HeldOut:
		return ", held out"
	case r.Reason != "":
		return ": " + plain.Shorter(r.Reason, 10) // "tally why" shows all of it
	case r.Score != nil && len(r.Score.FailureModes) > 0:
		return ": " + strings.Join(r.Score.FailureModes, ", ")
	}
	return ""
}

func (m *meter) clear() {
	if m.terminal {
		io.WriteString(m.env.Stderr, "\r\x1b[K")
	}
}

func (m *meter) pause() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.clear()
}

func (m *meter) end() { m.pause() }
