package registry

import (
	"context"
	"slices"
)

// maxAssigned bounds what a judge is shown at one time, the oldest first.
const maxAssigned = 100

// Assigned lists the open proposals that the person who holds an agent was drawn to
// judge and has not judged.
func (r *Registry) Assigned(ctx context.Context, a *Agent) ([]*Proposal, error) {
	r.mu.Lock()
	who := r.state.judge(a.ID)
	r.mu.Unlock()
	now := r.o.Now()
	open := r.pick(func(p *proposal) bool {
		return p.drawn != nil && slices.Contains(p.drawn.Judges, who) && now.Before(p.deadline()) &&
			!slices.ContainsFunc(p.votes, func(v vote) bool { return v.Person == who })
	})
	out := []*Proposal{}
	for _, id := range open[:min(len(open), maxAssigned)] {
		p, err := r.Proposal(ctx, id)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}
