package policy

import (
	"fmt"
	"slices"
)

// A Mode is how much a run may do on its own. The values are those of the RVF
// wire format.
type Mode uint8

// The governance modes.
const (
	Restricted Mode = 0 // only the allowed tools
	Approved   Mode = 1 // everything, each time after a person approved
	Autonomous Mode = 2 // everything, within budgets
)

var modeNames = []string{Restricted: "restricted", Approved: "approved", Autonomous: "autonomous"}

// ParseMode reads the name of a mode.
func ParseMode(s string) (Mode, error) {
	if i := slices.Index(modeNames, s); i >= 0 {
		return Mode(i), nil
	}
	return 0, fmt.Errorf("mode is %.40q, expected restricted, approved or autonomous", s)
}

func (m Mode) known() bool { return int(m) < len(modeNames) }

func (m Mode) String() string {
	if m.known() {
		return modeNames[m]
	}
	return fmt.Sprintf("mode(%d)", uint8(m))
}

// MarshalText writes the name.
func (m Mode) MarshalText() ([]byte, error) {
	if !m.known() {
		return nil, fmt.Errorf("no mode has the number %d", uint8(m))
	}
	return []byte(m.String()), nil
}

// UnmarshalText is [ParseMode].
func (m *Mode) UnmarshalText(text []byte) error {
	var err error
	*m, err = ParseMode(string(text))
	return err
}

// A Check is the answer about one call in the RVF wire format. It has no value
// for "not answered yet": a call that waits for an approval is Denied until the
// approval is there, so that a runner that reads only the check does not run
// it.
type Check uint8

// The checks.
const (
	Allowed   Check = 0
	Denied    Check = 1
	Confirmed Check = 2 // allowed after a person approved this very call
)

func (c Check) String() string {
	switch c {
	case Allowed:
		return "allowed"
	case Denied:
		return "denied"
	case Confirmed:
		return "confirmed"
	}
	return fmt.Sprintf("check(%d)", uint8(c))
}

// A Verdict is what the policy says about a call. The empty verdict permits
// nothing.
type Verdict string

// The verdicts.
const (
	Allow    Verdict = "allow"
	Deny     Verdict = "deny"
	Escalate Verdict = "escalate" // a person has to approve
)

// Known reports whether v is one of the verdicts.
func (v Verdict) Known() bool { return v == Allow || v == Deny || v == Escalate }

// An Action is a kind of thing that an agent proposes.
type Action string

// The actions.
const (
	Tool        Action = "tool"         // call the tool Name
	MemoryWrite Action = "memory_write" // write the memory key Name
	Handoff     Action = "handoff"      // hand over to the agent Name
	Approval    Action = "approval"     // ask a person about Name
)

// Actions lists the actions.
func Actions() []Action { return []Action{Tool, MemoryWrite, Handoff, Approval} }

// Known reports whether a is one of the actions.
func (a Action) Known() bool { return slices.Contains(Actions(), a) }

// A Class says what a tool can do to the world. The bench gives it
// in the tool's definition; what a target says about itself does not count.
type Class string

// The safety classes.
const (
	Read       Class = "read"
	Write      Class = "write"
	Network    Class = "network"
	Financial  Class = "financial"
	Privileged Class = "privileged"
)

// Classes lists the safety classes.
func Classes() []Class { return []Class{Read, Write, Network, Financial, Privileged} }

// Known reports whether c is one of the classes.
func (c Class) Known() bool { return slices.Contains(Classes(), c) }
