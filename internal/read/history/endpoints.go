package history

import (
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
)

// Unnamed reports whether a recording has replies of models of which it does not say who
// gave them, as those from before recordings named endpoints.
func (t *Tape) Unnamed() bool {
	named := 0
	for _, u := range t.Endpoints {
		named += u.Replies
	}
	return t.ModelCalls == nil || named != *t.ModelCalls
}

// EndpointsOf says who answered the models' calls of an attempt, as the entries of its
// recordings have it: those that it replayed, or those that it made. It is what the
// operator's machine saw.
func (h *History) EndpointsOf(a *Attempt) []evidence.EndpointUse {
	replayed := map[digest.Content]bool{}
	for c := range a.Cases() {
		if c.Index >= 0 && c.Cassette != nil {
			replayed[*c.Cassette] = true
		}
	}
	var uses []evidence.EndpointUse
	counted := map[digest.Content]bool{}
	for i := range h.Tapes {
		t := &h.Tapes[i]
		made := a.Mode == "live" && t.Index > a.Index && (a.Finished == nil || t.Index < a.Finished.Index)
		if t.Class != a.Class || counted[t.Digest] || !made && !(replayed[t.Digest] && t.Index < a.Index) {
			continue
		}
		counted[t.Digest] = true
		uses = append(uses, t.Endpoints...)
	}
	return evidence.AddEndpoints(uses)
}
