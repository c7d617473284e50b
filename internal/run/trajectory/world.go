package trajectory

import (
	"fmt"
	"strings"

	"tallystick/internal/record/digest"
)

// WorldStartedType is the type of [WorldStarted].
const WorldStartedType Type = "world_started"

// WorldStarted is the world of the case, fresh in a sandbox of its own, reset and
// healthy.
type WorldStarted struct {
	Clock         string          `json:"clock"` // whose time it sees
	Command       []string        `json:"command"`
	Deterministic bool            `json:"deterministic"`
	Files         *digest.Content `json:"files,omitempty"`     // of what it finds in /world
	Image         *digest.Content `json:"image,omitempty"`     // it runs from; nil for the host's programs
	Isolation     string          `json:"isolation,omitempty"` // the class of its sandbox
	// Recorded says that it was not run: a recording answered in its place.
	Recorded bool    `json:"recorded,omitempty"`
	Seed     int64   `json:"seed"`
	Tools    Content `json:"tools"` // what it says of its tools, as MCP has it
}

// Type is world_started.
func (*WorldStarted) Type() Type { return WorldStartedType }

// Summary tells it in a line.
func (p *WorldStarted) Summary() string {
	text := fmt.Sprintf("%s, seed %d", strings.Join(p.Command, " "), p.Seed)
	if p.Recorded {
		text += ", as recorded"
	}
	return text
}

// Subject reports that there is none.
func (*WorldStarted) Subject() (string, bool) { return "", false }

func (*WorldStarted) golden() golden {
	return golden{line: []string{"command", "seed", "deterministic"}, without: []string{"clock", "isolation", "recorded"}}
}

// WorldStateType is the type of [WorldState].
const WorldStateType Type = "world_state"

// The phases of a [WorldState].
const (
	WorldBefore = "before" // before the agent was started
	WorldAfter  = "after"  // after all of its processes were dead
)

// WorldState is what the world says of its state.
type WorldState struct {
	// Attempted is what it tried and its sandbox denied, of a world that has ended.
	Attempted []string `json:"attempted,omitempty"`
	Phase     string   `json:"phase"`
	State     Content  `json:"state"` // canonical JSON: state, and files, events and dump if there are any
}

// Type is world_state.
func (*WorldState) Type() Type { return WorldStateType }

// Summary tells it in a line.
func (p *WorldState) Summary() string { return p.Phase + ": " + p.State.Head }

// Subject is the phase.
func (p *WorldState) Subject() (string, bool) { return p.Phase, true }

func (*WorldState) golden() golden {
	return golden{line: []string{"phase"}, without: []string{"attempted"}}
}

// ServiceTrafficType is the type of [ServiceTraffic].
const ServiceTrafficType Type = "service_traffic"

// ServiceTraffic is what went between the agent and one port of the world, of which only
// the amount is known.
type ServiceTraffic struct {
	BytesIn     int64  `json:"bytes_in"`  // to the world
	BytesOut    int64  `json:"bytes_out"` // to the agent
	Connections int64  `json:"connections"`
	Name        string `json:"name"`
	Port        int    `json:"port"`
	Protocol    string `json:"protocol"` // as the case calls it; it is not parsed
}

// Type is service_traffic.
func (*ServiceTraffic) Type() Type { return ServiceTrafficType }

// Summary tells it in a line.
func (p *ServiceTraffic) Summary() string {
	return fmt.Sprintf("%s at port %d (%s, not parsed): %d connections, %d bytes in, %d bytes out", p.Name, p.Port, p.Protocol, p.Connections, p.BytesIn, p.BytesOut)
}

// Subject is the service.
func (p *ServiceTraffic) Subject() (string, bool) { return p.Name, true }

func (*ServiceTraffic) golden() golden {
	return golden{line: []string{"name", "port"}, without: []string{"bytes_in", "bytes_out", "connections"}}
}

// WorldDifference says where the world of a case first did something else than it did
// then, asked for the same; "" if nowhere. What comes after the agent asked for something
// else is not compared.
func WorldDifference(then, now *Verified) string {
	before, after := worldActs(then), worldActs(now)
	for i := range min(len(before), len(after)) {
		was, is := before[i], after[i]
		switch {
		case was.asked != is.asked:
			return ""
		case was.gave.Digest != is.gave.Digest:
			return fmt.Sprintf("world differs: %s: it was %.200q, and is %.200q", was.what, was.gave.Head, is.gave.Head)
		}
	}
	return ""
}

// A worldAct is something that a world was asked, and what it gave.
type worldAct struct {
	what  string // for people
	asked string
	gave  Content
}

func worldActs(v *Verified) (acts []worldAct) {
	for e := range v.Events() {
		switch p := e.Payload.(type) {
		case *WorldState:
			acts = append(acts, worldAct{"its state " + p.Phase + " the run", "state " + p.Phase, p.State})
		case *ToolExecuted:
			if p.Source == "world" {
				acts = append(acts, worldAct{"the call " + p.Name, "call " + p.Name + " " + p.Args.Digest.String(), p.Result})
			}
		}
	}
	return acts
}
