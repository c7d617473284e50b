package sandbox

import (
	"context"

	"tallystick/internal/run/sandbox/firstprocess"
	"tallystick/internal/run/sandbox/isolation"
	"tallystick/internal/run/sandbox/runfolder"
)

// A class is all that is known about a kind of isolation: what it is worth, and
// how it is made.
type class struct {
	isolation.Class

	// run makes the sandbox for one program and waits for its end. It starts its
	// program with a launch, so that it dies with the harness; talks with
	// converse, which keeps time and output; shows exactly s.mounts, the first as
	// a read-only root; applies s.limits and s.rlimits; and writes attempts into
	// s.log. An error means that the class failed; what the program did is never
	// an error.
	run func(s *setup, ctx context.Context) (outcome, error)

	// find looks for what must be on the machine first, and says what is missing.
	// Nil if there is nothing. Whether the class works, only the probe tells.
	find func(*fresh) error
	// blind: what a program tries is not seen.
	blind bool

	// attempt is the backend of the scope attempt, if the class has it.
	attempt func(Options, *runfolder.Base) backend

	// keep launches the sandbox of a preloaded agent, and room adds to the place
	// of one case in it. Of classes that run agents; room may be nil.
	keep func(*warmBox) (*launch, error)
	room func(*firstprocess.Room)
}

// classes are the classes that are made here, strongest first.
var classes = []*class{&microVM, &gVisor, &namespace}

// worths lists what each class is worth, strongest first.
func worths() []isolation.Class {
	var list []isolation.Class
	for _, c := range classes {
		list = append(list, c.Class)
	}
	return list
}

// made is how a class is made, nil if it is not known.
func (c Class) made() *class {
	for _, m := range classes {
		if m.Name == string(c) {
			return m
		}
	}
	return nil
}
