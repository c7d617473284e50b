package ceremony

import (
	"fmt"

	"tallystick/internal/read/dossier"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/cassette"
	"tallystick/internal/run/replies"
)

// RecordedFrom says who answered in the recordings of a class, as the machines saw it
// that recorded, so that the signer knows what is signed.
type RecordedFrom struct {
	Endpoints []SignedEndpoint `json:"endpoints"`
	// Unnamed counts replies of models that name no endpoint, in cassettes that call
	// themselves recorded or edited.
	Unnamed int `json:"unnamed_replies"`
	// Draws is how many replies of models the ledger saw drawn for what is recorded, and
	// ThrownAway how many of them are in no recording of the class.
	Draws      int `json:"draws"`
	ThrownAway int `json:"draws_thrown_away"`

	// Reached are the servers that the agent's program asked over HTTP.
	Reached []evidence.EndpointUse `json:"reached,omitempty"`
}

// A SignedEndpoint is one of them, and whether the registration lists it.
type SignedEndpoint struct {
	evidence.EndpointUse
	Listed bool `json:"listed"`
}

// Lines tells it to people.
func (r *RecordedFrom) Lines() []string {
	var lines []string
	for _, e := range r.Endpoints {
		line := e.Text()
		if !e.Listed {
			line += "; not in model_endpoints of registration.yaml, so it does not count as a model's"
		}
		lines = append(lines, line)
	}
	for _, e := range r.Reached {
		lines = append(lines, "a server that the agent's program asked: "+e.Text())
	}
	if r.Unnamed > 0 {
		lines = append(lines, fmt.Sprintf("an endpoint that the recording does not name, %d replies", r.Unnamed))
	}
	if r.Draws > 0 {
		lines = append(lines, fmt.Sprintf("%d draws in this ledger, %d of them thrown away", r.Draws, r.ThrownAway))
	}
	return lines
}

// recordedFrom reads every cassette of a class that is not written by hand.
func recordedFrom(drawn *replies.Draws, d *bench.Draft) (*RecordedFrom, error) {
	out := &RecordedFrom{Endpoints: []SignedEndpoint{}}
	var uses, reached []evidence.EndpointUse
	seen, tally := map[digest.Content]bool{}, replies.NewTally(d.Class, d.HeldOut())
	err := d.EachCassette(func(caseID string, tape *bench.Cassette) error {
		if seen[tape.Digest] {
			return nil
		}
		seen[tape.Digest] = true
		data, err := tape.Data()
		if err != nil {
			return fmt.Errorf("case %s: %w", caseID, err)
		}
		// What is not a cassette is refused where it is played; here no server answered.
		c, err := cassette.Parse(data, cassette.Limits{})
		if err != nil || c.Header.Provenance == cassette.Authored {
			return nil
		}
		uses, reached = append(uses, c.Header.Endpoints...), append(reached, c.Header.Reached...)
		out.Unnamed += int(c.Header.Totals.ModelCalls)
		return tally.Add(caseID, c)
	})
	if err != nil {
		return nil, err
	}
	out.Draws, out.ThrownAway = tally.Count(drawn)
	out.Reached = evidence.AddEndpoints(reached)
	for _, u := range evidence.AddEndpoints(uses) {
		out.Unnamed -= u.Replies
		out.Endpoints = append(out.Endpoints, SignedEndpoint{u, d.Registration.ListsEndpoint(u.Endpoint)})
	}
	return out, nil
}

// showRecordedFrom tells who signs where the recordings came from, before anything is
// signed.
func showRecordedFrom(p *dossier.Corpus, d *bench.Draft) (*RecordedFrom, error) {
	from, err := recordedFrom(p.Draws, d)
	if err != nil {
		return nil, err
	}
	for _, line := range from.Lines() {
		p.Note("the recordings that are signed came from, as the operator's machine saw it: %s", line)
	}
	return from, nil
}
