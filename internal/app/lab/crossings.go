package lab

import (
	"fmt"
	"sync"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/store"
	"tallystick/internal/run/harness"
)

// A crossings is a list of the boundaries that cases crossed which are driven or
// graded without an attempt, as an attempt leaves one. The file is made for the
// first line.
type crossings struct {
	file string

	mu sync.Mutex
	j  *store.Journal
}

// unattempted is the workspace's list for commands that have no folder of a run:
// golden traces, recordings and new scores.
func (s *Setup) unattempted() *crossings {
	return &crossings{file: s.place.Private("events.jsonl")}
}

// write adds a line. It may be called from any number of cases at once.
func (x *crossings) write(c harness.Crossing) error {
	line, err := canon.Marshal(&c)
	if err != nil {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.j == nil {
		if x.j, err = store.OpenJournal(x.file); err != nil {
			return err
		}
	}
	return x.j.Append(append(line, '\n'))
}

// isBegun reports whether there is a line.
func (x *crossings) isBegun() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.j != nil
}

func (x *crossings) close() error {
	if !x.isBegun() {
		return nil
	}
	return x.j.Close()
}

// verified begins a list with what verifying the bench crossed.
func (s *Setup) verified(x *crossings) error {
	for _, e := range s.Bench.Events() {
		if err := x.write(harness.Crossing{Event: e, Time: evidence.At(s.place.Now())}); err != nil {
			return err
		}
	}
	return nil
}

// add notes what a case crossed. The list is begun when a rubric runs; what
// blocks is recorded besides.
func (x *crossings) add(all []harness.Crossing, blocked func(evidence.IntegrityEvent) error) error {
	for _, c := range all {
		if x.isBegun() {
			if err := x.write(c); err != nil {
				return err
			}
		}
		if e := c.Event; e.Severity == evidence.Block {
			e.Detail = fmt.Sprintf("case %s: %s", c.Case, e.Detail)
			if err := blocked(e); err != nil {
				return err
			}
		}
	}
	return nil
}

// blocked records what blocked: a rubric that tries to get out does so in every
// command.
func (s *Setup) blocked(e evidence.IntegrityEvent) error {
	s.place.Record(e)
	return nil
}
