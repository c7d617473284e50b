package trajectory

import (
	"fmt"

	"tallystick/internal/record/cost"
	"tallystick/internal/record/evidence"
)

// SecurityEventType is the type of [SecurityEvent].
const SecurityEventType Type = "security_event"

// SecurityEvent is a sign of an attack that something noticed or stopped.
type SecurityEvent struct {
	Boundary string            `json:"boundary,omitempty"` // TB-1 to TB-8
	Detail   string            `json:"detail"`
	Name     string            `json:"name"`
	Severity evidence.Severity `json:"severity"`
}

// Type is security_event.
func (*SecurityEvent) Type() Type { return SecurityEventType }

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
	Limit string `json:"limit"`
	Max   int64  `json:"max"`
}

// Type is limit_reached.
func (*LimitReached) Type() Type { return LimitReachedType }

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
	Detail string `json:"detail"`
	Name   string `json:"name"`
	// Unpriced says that the call was sent and may have been billed.
	Unpriced bool `json:"unpriced,omitempty"`
}

// Spent is what a call cost that failed: nothing that is known.
func (p *Failure) Spent() (tokens int64, of cost.Cost) { return 0, costOf(0, p.Unpriced) }

// Type is error.
func (*Failure) Type() Type { return ErrorType }

// Summary tells it in a line.
func (p *Failure) Summary() string { return p.Name + ": " + p.Detail }

// Subject is the name.
func (p *Failure) Subject() (string, bool) { return p.Name, true }

func (*Failure) golden() golden {
	return golden{line: []string{"name"}, without: []string{"unpriced"}}
}
