package registry

import (
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"time"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/serve/registry/recompute"
)

const maxReason = 16 << 10

func signEd25519(k *seal.Key, message []byte) []byte { return ed25519.Sign(k.Ed25519(), message) }

// JudgementMessage is what a judge signs about a proposal, for the judge who has to sign
// it: the reason is the text itself.
func (r *Reader) JudgementMessage(ctx context.Context, j Judgement) ([]byte, error) {
	p, err := r.Proposal(ctx, j.Proposal)
	if err != nil {
		return nil, err
	}
	origin, err := r.index.Meta(ctx, "origin")
	if err != nil {
		return nil, err
	}
	return judgementMessage(origin, p.Content, j)
}

func judgementMessage(origin string, content digest.ID, j Judgement) ([]byte, error) {
	m := recompute.Judgement{Content: content, Proposal: j.Proposal, Registry: origin, Verdict: j.Verdict}
	if j.Reason != "" {
		d := digest.ContentOf([]byte(j.Reason))
		m.Reason = &d
	}
	return m.Message()
}

// Judge records the vote of a judge who was drawn. A person votes once, whichever
// of their agents they use, and never on their own proposal.
func (r *Registry) Judge(ctx context.Context, a *Agent, j Judgement) (*Proposal, error) {
	if !slices.Contains(evidence.RegistryVerdicts, j.Verdict) {
		return nil, refusal.Newf(refusal.Malformed, "the verdict is %.40q, expected accept, reject or abstain", j.Verdict)
	}
	if len(j.Reason) > maxReason {
		return nil, refusal.Newf(refusal.TooLarge, "the reason has %d bytes, at most %d are taken", len(j.Reason), maxReason)
	}
	req, err := j.Once.request(a, "judge")
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	before, err := r.earlierRequest(req)
	if before == nil && err == nil {
		_, err = r.mayVote(a, j)
	}
	r.mu.Unlock()
	if err != nil {
		return nil, err
	}
	e := &evidence.RegistryJudged{Agent: a.ID, Proposal: j.Proposal, Request: req, Verdict: j.Verdict, Signature: j.Signature}
	if j.Reason != "" {
		names, err := r.put([]byte(j.Reason))
		if err != nil {
			return nil, err
		}
		e.Reason = &names[0]
	}
	// While a judge is being removed the vote waits: it would come after the entry.
	_, err = r.once(req, []string{"proposal " + j.Proposal, waitFor + "judges"}, func() ([]evidence.Body, error) {
		voted, err := r.mayVote(a, j)
		if err != nil || voted {
			return nil, err
		}
		return r.voted(r.state.proposals[j.Proposal], e)
	})
	if err != nil {
		return nil, err
	}
	return r.viewOf(j.Proposal, false), nil
}

// mayVote refuses a vote that does not count. It reports whether the same vote was
// cast before. It is called with the lock held.
func (r *Registry) mayVote(a *Agent, j Judgement) (voted bool, err error) {
	p := r.state.proposals[j.Proposal]
	if p == nil {
		return false, unknownProposal(j.Proposal)
	}
	who := r.state.judge(a.ID)
	person := r.state.persons[who]
	switch {
	case person == nil:
		return false, refusal.Newf(refusal.NotAllowed, "agent %s does not belong to an admitted judge", a.ID).
			WithHint("calibrate, and ask the operator to admit you")
	case r.state.holds(person.at(r.state.size).agents, p):
		return false, refusal.Newf(refusal.NotAllowed, "%s cannot judge proposal %s: it is their own", who, j.Proposal)
	case p.drawn == nil || !slices.Contains(p.drawn.Judges, who):
		return false, refusal.Newf(refusal.NotAllowed, "%s was not drawn to judge proposal %s", who, j.Proposal)
	}
	if err := r.checkVote(p, j, a); err != nil {
		return false, err
	}
	for _, v := range p.votes {
		if v.Person == who && v.Verdict == j.Verdict && v.Agent == a.ID {
			return true, nil
		}
		if v.Person == who {
			return false, refusal.Newf(refusal.AlreadyExists, "%s voted on proposal %s already, with agent %s", who, j.Proposal, v.Agent).WithHint("one vote for each person, whatever agents they hold")
		}
	}
	if p.decided != nil {
		return false, refusal.Newf(refusal.TooLate, "proposal %s is %s already", j.Proposal, p.status())
	}
	if !r.o.Now().Before(p.deadline()) {
		return false, refusal.Newf(refusal.TooLate, "the deadline of proposal %s was %s", j.Proposal, p.deadline().UTC().Format(time.RFC3339))
	}
	return false, nil
}

// checkVote verifies the judge's own signature over exactly this judgement.
func (r *Registry) checkVote(p *proposal, j Judgement, a *Agent) error {
	message, err := judgementMessage(r.settings.Origin, p.Content, j)
	if err != nil {
		return refusal.Newf(refusal.Malformed, "the judgement: %w", err)
	}
	pub, err := seal.ParseDIDKey(r.state.agents[a.ID].publicKey)
	if err != nil {
		return err
	}
	sig, err := decodeSignature(j.Signature)
	if err != nil || !ed25519.Verify(pub, message, sig) {
		return refusal.Newf(refusal.SignatureInvalid, "the signature of the judgement is not by the key of agent %s over this proposal, content, verdict and reason", a.ID).
			WithHint("docs/formats/registry.md says which bytes to sign")
	}
	return nil
}

func decodeSignature(text string) ([]byte, error) {
	if strings.HasPrefix(text, "z") {
		return seal.DecodeMultibase(text)
	}
	return hex.DecodeString(text)
}

// voted is what follows from a vote: its entry, and the decision if it makes one.
func (r *Registry) voted(p *proposal, e *evidence.RegistryJudged) ([]evidence.Body, error) {
	e.Person, e.Content = r.state.judge(e.Agent), p.Content
	counted := *p
	counted.votes = append(slices.Clone(p.votes), vote{RegistryJudged: e})
	v := counted.tally()
	end, err := r.decision(p, outcome(v, len(p.drawn.Judges), p.config.Quorum, false), v)
	return append([]evidence.Body{e}, end...), err
}

// decision is the entry of an outcome; none while it is open.
func (r *Registry) decision(p *proposal, outcome string, v evidence.RegistryVotes) ([]evidence.Body, error) {
	if outcome == "" {
		return nil, nil
	}
	d := &evidence.RegistryDecided{Outcome: outcome, Proposal: p.Proposal, Votes: v}
	var err error
	if outcome == Published {
		d.Chain, err = r.link(p.RegistryProposed)
	}
	return []evidence.Body{d}, err
}

// settler draws judges as soon as there is a root to draw from.
func (r *Registry) settler(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.settle:
		}
		if err := r.drawAll(); err != nil && ctx.Err() == nil {
			r.o.Log.Warn("drawing judges", "error", err)
		}
	}
}

// pick lists the undecided proposals that a test picks, by their place in the
// ledger.
func (r *Registry) pick(test func(*proposal) bool) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return picked(r.state.undecided, test)
}

func picked(from map[string]*proposal, test func(*proposal) bool) []string {
	var out []*proposal
	for _, p := range from {
		if test(p) {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b *proposal) int { return int(a.index - b.index) })
	ids := make([]string, len(out))
	for i, p := range out {
		ids[i] = p.Proposal
	}
	return ids
}

// drawAll draws the judges of every proposal that has a root to draw from.
func (r *Registry) drawAll() error {
	r.mu.Lock()
	ready := picked(r.state.undrawn, func(p *proposal) bool { return p.sealed != nil })
	r.mu.Unlock()
	for _, id := range ready {
		r.mu.Lock()
		content := r.state.proposals[id].Content
		r.mu.Unlock()
		err := r.transact([]string{"proposal " + id, "content " + content.String()}, func() ([]evidence.Body, error) { return r.draw(r.state.proposals[id]) })
		if err != nil {
			return err
		}
	}
	return nil
}

// draw makes the entry of a draw, once for each content.
func (r *Registry) draw(p *proposal) ([]evidence.Body, error) {
	if p.drawn != nil || p.decided != nil || p.sealed == nil || r.state.draws[p.Content] != nil {
		return nil, nil
	}
	root, err := r.log.root(p.sealed.size)
	if err != nil {
		return nil, err
	}
	eligible := r.state.eligible(p, p.sealed.size)
	return []evidence.Body{&evidence.RegistryDrawn{
		Checkpoint: p.sealed.checkpoint, Content: p.Content, Judges: recompute.Draw(root, p.Content, eligible, p.config.Judges),
		Of: len(eligible), Proposal: p.Proposal, Root: root.String(), Size: p.sealed.size, Witnessed: p.sealed.checkpoint != nil,
	}}, nil
}

// decideAll writes the decisions that are due: of what is past its deadline, and of what
// a crash cut off from the entry before it, the last vote or a proposal without judges.
func (r *Registry) decideAll() error {
	now := r.o.Now()
	due := func(p *proposal) string {
		switch {
		case p.config.Judges == 0:
			return Published
		case p.drawn == nil:
			return ""
		}
		return outcome(p.tally(), len(p.drawn.Judges), p.config.Quorum, !now.Before(p.deadline()))
	}
	for _, id := range r.pick(func(p *proposal) bool { return due(p) != "" }) {
		err := r.transact([]string{"proposal " + id}, func() ([]evidence.Body, error) {
			if !r.tails.undecided(id) {
				return nil, nil
			}
			p := r.state.proposals[id]
			return r.decision(p, due(p), p.tally())
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// AdmitJudge admits a person with every agent that they hold. If there is a
// calibration set, one of the agents must have passed it.
func (r *Registry) AdmitJudge(ctx context.Context, who string, agents []string) error {
	if !goodSegment(who) {
		return refusal.Newf(refusal.Usage, "the person's name is %.100q, expected letters, digits, dots, dashes and underscores", who)
	}
	agents = slices.Compact(slices.Sorted(slices.Values(agents)))
	return r.transact([]string{"judges"}, func() ([]evidence.Body, error) {
		e := &evidence.RegistryJudge{Admitted: true, Agents: agents, Person: who}
		for _, id := range agents {
			if r.state.agents[id] == nil {
				return nil, refusal.Newf(refusal.UnknownName, "there is no agent %.100q", id)
			}
		}
		if other := r.sameKey(who, agents); other != "" {
			return nil, refusal.Newf(refusal.NotAllowed, "%s holds one of the agents, or another with the same public key: one person would vote as two", other)
		}
		if r.answers == nil {
			return []evidence.Body{e}, nil
		}
		set := r.answers.digest(r.ring)
		if !slices.ContainsFunc(agents, func(id string) bool { return r.passed(id, set) }) {
			return nil, refusal.Newf(refusal.CalibrationFailed, "none of the agents of %s has passed the calibration set", who)
		}
		e.Set = &set
		return []evidence.Body{e}, nil
	})
}

// sameKey finds another person who holds an agent with the key of one of these.
func (r *Registry) sameKey(who string, agents []string) string {
	for _, id := range slices.Sorted(maps.Keys(r.state.persons)) {
		last := r.state.persons[id].at(r.state.size)
		if id == who || last == nil {
			continue
		}
		for _, theirs := range last.agents {
			for _, ours := range agents {
				if r.state.agents[theirs].publicKey == r.state.agents[ours].publicKey {
					return id
				}
			}
		}
	}
	return ""
}

// RemoveJudge ends a person's admission. Votes that they cast stay.
func (r *Registry) RemoveJudge(ctx context.Context, who, reason string) error {
	var blob *digest.Content
	if reason != "" {
		names, err := r.put([]byte(reason))
		if err != nil {
			return err
		}
		blob = &names[0]
	}
	return r.transact([]string{"judges"}, func() ([]evidence.Body, error) {
		p := r.state.persons[who]
		if p == nil {
			return nil, refusal.Newf(refusal.UnknownName, "there is no judge %.100q", who)
		}
		last := p.at(r.state.size)
		if !last.admitted {
			return nil, nil
		}
		return []evidence.Body{&evidence.RegistryJudge{Agents: last.agents, Person: who, Reason: blob}}, nil
	})
}
