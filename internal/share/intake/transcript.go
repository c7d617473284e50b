package intake

import (
	"encoding/json"

	"tallystick/internal/read/step"
	"tallystick/internal/record/refusal"
)

// Transcript reads what was said and done in one sample of the log of another harness:
// the nth of its executions, counted from 1, in the order of the log. Nothing vouches for
// it. A sample without a transcript gives nil.
func Transcript(path, sample string, nth int) (*step.Line, error) {
	in, err := log(path)
	if err != nil {
		return nil, err
	}
	r, err := in.Trajectories.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close() // ends who writes it, too
	found := 0
	for dec := json.NewDecoder(r); dec.More(); {
		line := &step.Line{}
		if err := dec.Decode(line); err != nil {
			return nil, refusal.Newf(refusal.Malformed, "%s: %w", path, err)
		}
		if line.TaskID != sample {
			continue
		}
		if found++; found == max(nth, 1) {
			return line, nil
		}
	}
	return nil, nil
}
