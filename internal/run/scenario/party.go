package scenario

import (
	"slices"
	"strings"

	"tallystick/internal/run/cassette"
)

// Authored are the replies of a case that belong to one party. Only
// [Scenario.RepliesFor] makes them, so code that answers the agent from them
// cannot hold a reply of the judge.
type Authored struct{ replies []Reply }

// Len is how many there are.
func (a Authored) Len() int { return len(a.replies) }

// At is reply i. It must not be changed.
func (a Authored) At(i int) *Reply { return &a.replies[i] }

// To are those of a party whose model is asked by this name: the replies that are
// for it, and those that are for any.
func (a Authored) To(model string) Authored {
	var its Authored
	for _, r := range a.replies {
		if r.When == nil || r.When.Agent == "" || r.When.Agent == model {
			its.replies = append(its.replies, r)
		}
	}
	return its
}

// RepliesFor are the authored replies of a party. A reply that does not say whom
// it is for is the agent's; see [Parties.Assign].
func (s *Scenario) RepliesFor(party cassette.Purpose) Authored {
	var its Authored
	for _, r := range s.Model {
		if r.For == party || r.For == "" && party == cassette.ForAgent {
			its.replies = append(its.replies, r)
		}
	}
	return its
}

// Parties are what is known of who asks which model in a run. By them a reply that
// names a model, and not the party that it is for, gets its party.
type Parties struct {
	Judges []string // the models that judge or give vectors, of the class and of judge.yaml
	Agents []string // the models that the target says it asks
	Judged bool     // a case of the class is graded by a model
}

// Assign gives every reply its party. A reply that names a model of the judge's
// side is the judge's. So is, in a class that models grade, one that names a model
// which the target does not say it asks: judge.yaml may have named another judge
// when the case was written. If in doubt a reply is the judge's, because what is
// the agent's by mistake is told to the agent.
func (p *Parties) Assign(s *Scenario) {
	if !slices.ContainsFunc(s.Model, func(r Reply) bool { return r.For == "" }) {
		return
	}
	s.Model = slices.Clone(s.Model)
	for i := range s.Model {
		if r := &s.Model[i]; r.For == "" {
			r.For = p.partyOf(r)
		}
	}
}

func (p *Parties) partyOf(r *Reply) cassette.Purpose {
	if r.When == nil || r.When.Agent == "" {
		return cassette.ForAgent
	}
	called := func(name string) bool { return strings.EqualFold(name, r.When.Agent) }
	if slices.ContainsFunc(p.Judges, called) || p.Judged && !slices.Contains(p.Agents, r.When.Agent) {
		return cassette.ForJudge
	}
	return cassette.ForAgent
}
