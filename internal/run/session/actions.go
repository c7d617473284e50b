package session

import (
	"context"
	"strconv"

	"tallystick/internal/record/canon"
	"tallystick/internal/run/policy"
	"tallystick/internal/run/trajectory"
)

// A MemoryWrite is an entry that the agent wants to keep.
type MemoryWrite struct {
	Tier       trajectory.Tier
	Key, Value string
	Source     string // who said it: user, a tool's name, an agent
	Supersedes string // the entry that it replaces
	Confidence float64
}

// WriteMemory asks the policy about a write. The entry's id is "" if it was
// not permitted.
func (s *Session) WriteMemory(ctx context.Context, w MemoryWrite) (string, policy.Decision, error) {
	if err := s.enter(); err != nil {
		return "", policy.Decision{}, err
	}
	defer s.mu.Unlock()
	id := s.nextCall()
	value := s.content(w.Value, trajectory.ArgumentHead)
	if err := s.event(&trajectory.MemoryProposed{Call: id, Tier: w.Tier, Key: s.safe(w.Key), Value: value, Source: s.safe(w.Source), Supersedes: w.Supersedes, Confidence: w.Confidence}); err != nil {
		return "", policy.Decision{}, err
	}
	args, err := canon.Marshal(map[string]any{"tier": w.Tier, "key": w.Key, "value": w.Value, "source": w.Source})
	if err != nil {
		args = nil // a value that JSON cannot hold: rules see the key alone
	}
	call := policy.Call{ID: id, Action: policy.MemoryWrite, Name: w.Key, Args: args, Turn: s.turn, At: s.elapsed}
	d, err := s.decide(ctx, call)
	if err != nil {
		return "", d, err
	}
	if !d.Permits() {
		return "", d, s.record(call, policy.Usage{}, nil)
	}
	s.entries++
	entry := "m" + strconv.Itoa(s.entries)
	if err := s.event(&trajectory.MemoryWritten{Call: id, Entry: entry, Tier: w.Tier, Key: s.safe(w.Key), Value: value, Source: s.safe(w.Source), Supersedes: w.Supersedes, Confidence: w.Confidence}); err != nil {
		return "", d, err
	}
	return entry, d, s.record(call, policy.Usage{Executed: true}, nil)
}

// Retrieved records which memory entries the agent was given.
func (s *Session) Retrieved(entries []string, query string) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.mu.Unlock()
	c := s.content(query, trajectory.PromptHead)
	if entries == nil {
		entries = []string{}
	}
	return s.event(&trajectory.MemoryRetrieved{Entries: entries, Query: &c})
}

// Handoff asks the policy whether one agent may hand over to another.
func (s *Session) Handoff(ctx context.Context, from, to, input string) (policy.Decision, error) {
	if err := s.enter(); err != nil {
		return policy.Decision{}, err
	}
	defer s.mu.Unlock()
	args, err := canon.Marshal(map[string]any{"from": from, "to": to, "input": input})
	if err != nil {
		args = nil
	}
	call := policy.Call{ID: s.nextCall(), Action: policy.Handoff, Name: to, Args: args, Turn: s.turn, At: s.elapsed}
	d, err := s.decide(ctx, call)
	if err != nil {
		return d, err
	}
	if !d.Permits() {
		return d, s.record(call, policy.Usage{}, nil)
	}
	c := s.content(input, trajectory.ArgumentHead)
	if err := s.event(&trajectory.HandedOff{Call: call.ID, From: s.named(from), To: s.named(to), Input: &c}); err != nil {
		return d, err
	}
	return d, s.record(call, policy.Usage{Executed: true}, nil)
}

// Attempted records what the agent tried and was not let, past every call: what
// its sandbox or its gateway saw. A rule that is not "" makes it a violation of
// that rule. It is recorded after a stop too: a stop does not undo it.
func (s *Session) Attempted(p trajectory.SecurityEvent, rule string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return s.stopped()
	}
	p.Detail = cutText(s.safe(p.Detail), maxDetail)
	if err := s.event(&p); err != nil || rule == "" {
		return err
	}
	return s.violated([]policy.Violation{{CallID: s.nextCall(), Rule: rule, Text: p.Detail}})
}

// Ask puts a question to a person or to the case. The answer is no unless one
// of them says yes.
func (s *Session) Ask(ctx context.Context, question string) (bool, error) {
	if err := s.enter(); err != nil {
		return false, err
	}
	defer s.mu.Unlock()
	call := policy.Call{ID: s.nextCall(), Action: policy.Approval, Name: question, Turn: s.turn, At: s.elapsed}
	d := s.enforcer.Decide(call)
	if err := s.event(s.decided(call, d)); err != nil {
		return false, err
	}
	// A question is for a person even where the policy would let it pass.
	if d.Verdict == policy.Deny {
		return false, s.record(call, policy.Usage{}, nil)
	}
	approve, err := s.approval(ctx, call, d)
	if err != nil {
		return false, err
	}
	if s.enforcer.Pending(call.ID) {
		if approve {
			d, err = s.enforcer.Approve(call.ID)
		} else {
			d, err = s.enforcer.Refuse(call.ID)
		}
		if err != nil {
			return false, err
		}
		if err := s.event(s.decided(call, d)); err != nil {
			return false, err
		}
	}
	if !approve {
		return false, nil // a question that was answered with no: nothing was tried
	}
	return true, s.record(call, policy.Usage{Executed: true}, nil)
}
