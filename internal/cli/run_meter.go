package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
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
	asked  bool                // a case that asks something new was shown
	alike  map[string][]string // cases by what was said of them, where that was a reason
	cost   cost.Cost           // shown if it is paid now
	live   bool
}

func newMeter(env *Env, live bool) *meter {
	return &meter{env: env, live: live, terminal: !env.Quiet && !env.JSON && isTerminal(env.Stderr), began: time.Now(), alike: map[string][]string{}}
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
		m.note(r)
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

// note shows a case that did not pass. A reason that several cases share stands once,
// and the end names the others.
func (m *meter) note(r harness.Result) {
	outcome := string(r.Record.Outcome)
	if r.Record.Unanswered {
		outcome = "asks something new"
	}
	why := outcome + because(r)
	if r.Record.Reason != "" {
		m.alike[why] = append(m.alike[why], r.Case)
		if len(m.alike[why]) > 1 {
			return
		}
	}
	m.clear()
	m.env.Note("case %s %s", r.Case, why)
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

func (m *meter) end() {
	m.pause()
	const most = 10
	for _, cases := range slices.SortedFunc(maps.Values(m.alike), slices.Compare) {
		if others := cases[1:]; len(others) > 0 {
			more := ""
			if len(others) > most {
				others, more = others[:most], fmt.Sprintf(" and %d more", len(others)-most)
			}
			m.env.Note("as case %s: %s%s", cases[0], strings.Join(others, ", "), more)
		}
	}
}
