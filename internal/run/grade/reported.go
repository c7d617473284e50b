package grade

import (
	"fmt"
	"math/big"
	"strings"

	"tallystick/internal/run/trajectory"
)

// A reportedRule takes a score that the agent's own process gave itself. It is worth
// as much as that process: its grader is there so that work which is done in a
// program or a notebook can be looked at and compared, and the vantage of such a case
// says so beside every number.
type reportedRule struct {
	scorer string
	need   float64
	least  *big.Rat
}

func validateReported(at place, r *Rule) error {
	if len(r.Scorer) > maxCheckName || strings.TrimSpace(r.Scorer) != r.Scorer {
		return at.in("scorer").bad("is %.80q, expected the name of a score of at most %d bytes without blanks around it", r.Scorer, maxCheckName)
	}
	return nil
}

func (c *compiler) reported(_ place, n *node, r *Rule) error {
	rule := &reportedRule{scorer: r.Scorer, need: 0.5}
	if r.Threshold != nil {
		rule.need = *r.Threshold
	}
	rule.least = decimal(rule.need)
	n.reported = rule
	return nil
}

// grade finds the score of the last turn. One that is missing, or that came without a
// number, is unscored and never zero: nothing was said about the answer.
func (rule *reportedRule) grade(r *run, d *Detail) tally {
	var last []trajectory.ReportedScore
	for ev := range r.in.Source.Trajectory.Events() {
		if p, ok := ev.Payload.(*trajectory.TurnCompleted); ok {
			last = p.Scores
		}
	}
	for _, s := range last {
		if s.Name == rule.scorer {
			return rule.says(s, d)
		}
	}
	return single(unscored("the agent's process reported no score %s", quoted(rule.scorer)))
}

func (rule *reportedRule) says(s trajectory.ReportedScore, d *Detail) tally {
	why := ""
	if s.Reason != "" {
		why = ": " + quoted(s.Reason)
	}
	switch {
	case s.Skipped:
		d.Weight = 0
		return tally{verdict: unscored("the scorer %s says nothing of this case%s", quoted(rule.scorer), why), skipped: true}
	case s.Score == nil:
		return single(unscored("the scorer %s gave no score%s", quoted(rule.scorer), why))
	}
	score := rounded(*s.Score)
	says := fmt.Sprintf("the agent's process reported %v, needed %v%s", score, rule.need, why)
	if decimal(score).Cmp(rule.least) >= 0 {
		return tally{verdict: verdict{Passed, score, "", says}}
	}
	return single(verdict{Mismatch, score, CodeBelowThreshold, says})
}
