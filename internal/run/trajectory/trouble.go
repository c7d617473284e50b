package trajectory

import (
	"fmt"

	"tallystick/internal/record/evidence"
)

// SecurityEventType is the type of [SecurityEvent].
const SecurityEventType Type = "security_event"

// SecurityEvent is a sign of an attack that something noticed or stopped.
type SecurityEvent struct {
	Boundary string            `json:"boundary,omitempty" schema:"one of TB-1, TB-2, TB-3, TB-4, TB-5, TB-6, TB-7, TB-8"` // TB-1 to TB-8
	Detail   string            `json:"detail" schema:"long"`
	Name     string            `json:"name"`
	Severity evidence.Severity `json:"severity"`
}

// Type is security_event.
func (*SecurityEvent) Type() Type { return SecurityEventType }

// Validate checks the shape.
func (p *SecurityEvent) Validate() error {
	if b := p.Boundary; b != "" && (len(b) != 4 || b[:3] != "TB-" || b[3] < '1' || b[3] > '8') {
		return fmt.Errorf("boundary is %.40q, expected TB-1 to TB-8", b)
	}
	return first(texts("name", p.Name), filled("detail", p.Detail), oneOf("severity", string(p.Severity), "block", "warn", "info"))
}

// Summary tells it in a line.
func (p *SecurityEvent) Summary() string { return p.Name + ": " + p.Detail }

// Subject is the name.
func (p *SecurityEvent) Subject() (string, bool) { return p.Name, true }

func (*SecurityEvent) golden() golden {
	return golden{line: []string{"name", "severity"}}
}

// LimitReachedType is the type of [LimitReached].
const LimitReachedType Type = "limit_reached"

// LimitReached is a limit that stopped something. What it stopped is
// truncated, never a quiet score.
type LimitReached struct {
	Limit string `json:"limit" schema:"one of wall_clock_ms, turns, tokens, cost_microdollars, output_bytes, files, disk_bytes, kept_bytes, events, read_bytes"`
	Max   int64  `json:"max"`
}

// Type is limit_reached.
func (*LimitReached) Type() Type { return LimitReachedType }

// Validate checks the shape.
func (p *LimitReached) Validate() error {
	return first(oneOf("limit", p.Limit, "wall_clock_ms", "turns", "tokens", "cost_microdollars", "output_bytes", "files", "disk_bytes", "kept_bytes", "events", "read_bytes"), counts("max", p.Max))
}

// Summary tells it in a line.
func (p *LimitReached) Summary() string { return fmt.Sprintf("the limit of %d %s", p.Max, p.Limit) }

// Subject is the limit.
func (p *LimitReached) Subject() (string, bool) { return p.Limit, true }

func (*LimitReached) golden() golden {
	return golden{line: []string{"limit", "max"}}
}

// ErrorType is the type of [Failure].
const ErrorType Type = "error"

// Failure is something that went wrong and did not end the run.
type Failure struct {
	Call   string `json:"call,omitempty"`
	Detail string `json:"detail" schema:"long"`
	Name   string `json:"name"`
}

// Type is error.
func (*Failure) Type() Type { return ErrorType }

// Validate checks the shape.
func (p *Failure) Validate() error {
	return first(short("call", p.Call), texts("name", p.Name), filled("detail", p.Detail))
}

// Summary tells it in a line.
func (p *Failure) Summary() string { return p.Name + ": " + p.Detail }

// Subject is the name.
func (p *Failure) Subject() (string, bool) { return p.Name, true }

func (*Failure) golden() golden {
	return golden{line: []string{"name"}}
}
