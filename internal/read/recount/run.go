package recount

import (
	"encoding/json"

	"tallystick/internal/read/history"
	"tallystick/internal/read/scorecard"
	"tallystick/internal/record/evidence"
)

// run makes the answer of a run again.
func (s *Source) run(name string, data []byte) (*Recounted, error) {
	var kept Run
	if err := json.Unmarshal(data, &kept); err != nil {
		return nil, NotKept(name, err)
	}
	out := newRecounted()
	h, err := s.thenOfRun(out, name, &kept)
	if h == nil || err != nil {
		return out, err
	}
	a := h.Attempt(kept.Attempt.ID)
	if a == nil {
		out.noSuch(name, "attempt.id", kept.Attempt.ID)
		return out, nil
	}
	made, err := s.summary(h, a, &kept)
	if err != nil {
		return nil, err
	}
	unmade := make(map[string]string)
	if kept.Scorecard == nil && a.Unanswered() > 0 {
		// It has none. Everything else is made again.
		unmade["attempt"] = "how many attempts there were when it was read back is not kept with it"
		if err := s.decideAgain(h, a, made, unmade); err != nil {
			return nil, err
		}
		made.Missing = kept.Missing // what it would have cost then is not known now
		return out, out.document(name, data, made, unmade)
	}
	if kept.Scorecard == nil {
		// A run that could not read its attempt back says no more than this.
		made.Attempt.Of, made.Attempt.Properties = 0, nil
		unmade["scorecard"] = "the run could not read it back"
		return out, out.document(name, data, made, unmade)
	}
	if kept.GAIASplit != "" {
		made.TellGAIA(a)
	}
	if kept.Submittable != nil {
		if err := made.TellSubmittable(a, s.Piece); err != nil {
			unmade["submittable"], unmade["reason"] = "evidence: "+err.Error(), "evidence: "+err.Error()
		}
	}
	if made.Scorecard, _, err = s.makeCard(out, name+": scorecard", h, kept.Scorecard); err != nil || made.Scorecard == nil {
		return out, err
	}
	if kept.Comparison != nil {
		if made.Comparison, err = s.makeComparison(out, name+": comparison", h, kept.Comparison); err != nil || made.Comparison == nil {
			return out, err
		}
	}
	if err := s.decideAgain(h, a, made, unmade); err != nil {
		return nil, err
	}
	earlierDecision(&kept, made, unmade)
	return out, out.document(name, data, made, unmade)
}

// decideAgain makes the gates and the decision of a run again, or says in unmade
// why not.
func (s *Source) decideAgain(h *history.History, a *history.Attempt, made *Run, unmade map[string]string) error {
	if a.Finished == nil {
		return nil
	}
	decision, why, err := s.decide(h, a)
	if why != "" {
		unmade["gate"], unmade["decision"] = why, why
	}
	if made.Decision = decision; decision != nil {
		made.Gate = NewRunGates(decision)
	}
	return err
}

// earlierDecision leaves what an earlier program decided about an attempt that left
// cases out: it held the gates against the selected cases alone.
func earlierDecision(kept, made *Run, unmade map[string]string) {
	if made.Decision != nil && made.Decision.Part && kept.Decision != nil && !kept.Decision.Part {
		const why = "an earlier program decided about the selected cases alone"
		unmade["decision"], unmade["gate"] = why, why
	}
}

// thenOfRun is the history that a run read back; without a scorecard, as it was
// at the head that the run left.
func (s *Source) thenOfRun(out *Recounted, name string, kept *Run) (*history.History, error) {
	if kept.Scorecard != nil {
		return s.then(out, name, &kept.Scorecard.Ledger)
	}
	entries := s.History.EntriesAt(kept.Head)
	if entries == 0 {
		out.Compare(name, "head", kept.Head, "no entry has it", false)
		return nil, nil
	}
	return s.At(entries)
}

// summary is what a run says about its attempt itself: over its records as they
// are, before amendments.
func (s *Source) summary(h *history.History, a *history.Attempt, kept *Run) (*Run, error) {
	sum, err := sumOf(a)
	if err != nil {
		return nil, err
	}
	made := &Run{Attempt: RunLineOf(a), Class: a.Class, Target: a.Target, Total: a.Tasks(),
		Passed: sum.outcomes[evidence.Passed], Failed: sum.outcomes[evidence.Failed], Skipped: sum.outcomes[evidence.Skipped],
		Unscored: sum.outcomes[evidence.Unscored], Truncated: sum.outcomes[evidence.Truncated], Errors: sum.outcomes[evidence.Errored],
		Unanswered: sum.missing, MeanScore: sum.mean, FailureModes: sum.modes, JudgeCostUSD: kept.JudgeCostUSD, JudgeUnpriced: kept.JudgeUnpriced, Isolation: sum.isolation,
		Rules: scorecard.Rules, NotRun: a.Tasks() - sum.records(), Head: h.Head, Finished: a.Finished != nil}
	made.Mixed = MixedOf(a)
	made.SetCost(sum.cost)
	// Before its end only the journal knows what an attempt paid.
	if made.Paid = kept.Paid; a.Finished != nil {
		made.Paid = history.PaidBy(a)
	}
	if kept.LocalLedger != nil {
		made.LocalLedger = &LocalLedger{h.Origin, kept.LocalLedger.Of, kept.LocalLedger.Begun}
	}
	// Others may append between the end of a run and its reading back.
	if at := s.History.EntriesAt(kept.Head); at > a.Index && at <= h.Entries {
		made.Head = kept.Head
	}
	return made, nil
}
