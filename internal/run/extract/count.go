package extract

import "tallystick/internal/run/trajectory"

func (e *Extractor) count(s *Source) (Value, error) {
	if e.spec.Turn != nil {
		if v, ok := reached(s, *e.spec.Turn); !ok {
			return v, nil
		}
	}
	if isToolEvent(e.spec.Event) {
		return e.countCalls(s)
	}
	var n int64
	paths := map[string]bool{}
	for ev := range s.Trajectory.Events() {
		if ev.Type != e.spec.Event || e.spec.Turn != nil && ev.Turn != *e.spec.Turn {
			continue
		}
		if subject, _ := ev.Payload.Subject(); e.spec.Name != "" && subject != e.spec.Name {
			continue
		}
		if p, ok := ev.Payload.(*trajectory.PolicyDecision); ok && e.spec.Verdict != "" && p.Verdict != e.spec.Verdict {
			continue
		}
		if e.spec.Turn == nil && isSeed(&ev) {
			continue
		}
		if subject, _ := ev.Payload.Subject(); isOfFolder(ev.Type) {
			if paths[subject] {
				continue // a file that is written twice is one file
			}
			paths[subject] = true
		}
		n++
	}
	return countValue(n), nil
}

// isSeed reports whether an event is a memory entry that the case gave the agent
// before the first turn. The agent wrote nothing there.
func isSeed(ev *trajectory.Event) bool {
	return ev.Type == trajectory.MemoryWrittenType && ev.Turn == 0
}

// isNamed reports whether events of the type have a name for [Spec.Name].
func isNamed(t trajectory.Type) bool {
	p := trajectory.NewPayload(t)
	if p == nil {
		return false
	}
	_, named := p.Subject()
	return named
}
