package extract

import (
	"cmp"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/trajectory"
	"tallystick/internal/run/vantage"
)

// world is a part of what the case's world says of its state. A case of which no world
// told anything is not the agent's doing, and has no value.
func (e *Extractor) world(s *Source) (Value, error) {
	phase := cmp.Or(e.spec.Phase, trajectory.WorldAfter)
	what := "the world " + phase + " the run"
	text, there, err := s.WorldText(phase)
	if err != nil {
		return Value{}, err
	}
	if !there {
		return Value{}, refusal.Newf(refusal.NotFound, "%s: no world told its state", what).
			WithHint("give the case a world, or take the check away; docs/worlds.md says how")
	}
	if e.spec.Pointer == nil {
		return jsonValue(canon.RawMessage(text)), nil
	}
	return e.lookUp(what, text), nil
}

// WorldText is what the world said in a phase, in canonical JSON.
func (s *Source) WorldText(phase string) (text string, there bool, err error) {
	if sight := s.sees(vantage.Extract, string(World)); sight.Sight == vantage.Not {
		return "", false, unseen("the state of the world", sight.Why)
	}
	for ev := range s.Trajectory.Events() {
		if p, ok := ev.Payload.(*trajectory.WorldState); ok && p.Phase == phase {
			r, err := s.read("the state of the world", &p.State)
			if err == nil && r.problem != "" {
				err = refusal.Newf(refusal.NotFound, "%s", r.problem)
			}
			text, there = r.text, true
			if err != nil {
				return "", false, err
			}
		}
	}
	return text, there, nil
}

// worldStates is what expressions see of the world: before and after, of those that were
// told.
func (s *Source) worldStates() (map[string]any, error) {
	states := map[string]any{}
	for _, phase := range []string{trajectory.WorldBefore, trajectory.WorldAfter} {
		text, there, err := s.WorldText(phase)
		if err != nil {
			return nil, err
		}
		if !there {
			continue
		}
		var v any
		if err := canon.Unmarshal([]byte(text), &v); err != nil {
			return nil, refusal.Newf(refusal.Malformed, "the state of the world: %w", err)
		}
		states[phase] = v
	}
	return states, nil
}
