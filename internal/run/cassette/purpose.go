package cassette

import (
	"bytes"
	"slices"
)

// A Purpose says which party a reply is for: who asks for it, and who may. The
// agent's calls in a cassette have none.
type Purpose string

// The parties. What the judge's side holds, the expected answer above all, is not
// for the agent, and neither is what the user was told and the agent was not: see
// [Cassette.For].
const (
	ForAgent Purpose = "agent" // the agent under test
	ForJudge Purpose = "judge" // the models that judge a case, or give the vectors that it is graded by
	ForUser  Purpose = "user"  // the model that plays the user of a case
)

// JudgeMark stands in every request of a judge, in front of each thing that is
// data and not instruction. By it the judge's calls are known in cassettes that
// are older than their purpose, or written by hand. Requests of a simulated user have
// it too, so that one which lost its purpose is not the agent's.
const JudgeMark = "=====tally-"

// noParty is whom a call belongs to that looks like the judge's and is not marked
// as such beside others that are: neither is given it.
const noParty Purpose = "none"

// MarkFor says for whom a call was made. Of an agent's calls only those for vectors
// are marked, which would be taken for the judge's: all were, before agents asked
// for them too.
func (it *Interaction) MarkFor(party Purpose) {
	it.Purpose = ""
	switch {
	case party == ForJudge, party == ForUser:
		it.Purpose = party
	case it.Model != nil && !it.Model.API.Converses():
		it.Purpose = ForAgent
	}
}

// parties says for each interaction whose it is. A purpose that is marked is
// believed. In a cassette that marks no judge, a model call with a [JudgeMark] is the
// judge's, and so is one for vectors. A recorder marks each call of a judge, so
// in a recording with marks a call without one is the agent's whatever its text
// says; a person who writes or edits a cassette may have left one out.
func (c *Cassette) parties() []Purpose {
	marked := slices.ContainsFunc(c.Interactions, func(it Interaction) bool { return it.Purpose == ForJudge })
	parties := make([]Purpose, len(c.Interactions))
	for i := range c.Interactions {
		switch it := &c.Interactions[i]; {
		case it.Purpose != "":
			parties[i] = it.Purpose
		case !it.asksLikeAJudge(), marked && c.Header.Provenance == Recorded:
			parties[i] = ForAgent
		case marked:
			parties[i] = noParty
		default:
			parties[i] = ForJudge
		}
	}
	return parties
}

func (it *Interaction) asksLikeAJudge() bool {
	return it.Model != nil && (!it.Model.API.Converses() || bytes.Contains(it.Model.Request, []byte(JudgeMark)))
}

// A Part is what a cassette holds for one party. It is all that a [Player] and a
// worker of a fleet are ever given, so what belongs to the other party is not
// there to be asked for.
type Part struct {
	header       Header
	interactions []Interaction
	places       []int // of each, in the cassette
}

// For is what the cassette holds for a party.
func (c *Cassette) For(party Purpose) *Part {
	p := &Part{header: c.Header}
	for i, whose := range c.parties() {
		if whose == party {
			p.interactions = append(p.interactions, c.Interactions[i])
			p.places = append(p.places, i)
		}
	}
	return p
}

// Marshal writes the part as a cassette of its own; nil if there is nothing in it.
func (p *Part) Marshal() ([]byte, error) {
	if len(p.interactions) == 0 {
		return nil, nil
	}
	c, err := New(p.header.Provenance, p.header.RecordedAt, p.header.Redactions, slices.Clone(p.interactions))
	if err != nil {
		return nil, err
	}
	return c.Marshal()
}

// Models lists the models that the part's calls name, sorted.
func (p *Part) Models() []string {
	models := []string{}
	for i := range p.interactions {
		if m := p.interactions[i].Model; m != nil {
			models = append(models, m.ModelName())
		}
	}
	slices.Sort(models)
	return slices.DeleteFunc(slices.Compact(models), func(name string) bool { return name == "" })
}
