package grade

import (
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/expression"
	"tallystick/internal/run/extract"
)

// A condition is an expression that must hold at the end of one turn, or of
// every turn.
type condition struct {
	program *expression.Program
	atTurn  int // 0 for always
}

func validateCondition(at place, r *Rule) error {
	if r.Always == (r.AtTurn != nil) {
		return at.bad("a grader of kind cel needs always or at_turn, and not both")
	}
	return nil
}

func (c *compiler) condition(at place, n *node, r *Rule) error {
	program, err := extract.CompileCondition(r.Expression)
	if err != nil {
		return &placed{at.in("expression"), err}
	}
	n.condition = &condition{program: program}
	if r.AtTurn != nil {
		n.condition.atTurn = *r.AtTurn
	}
	n.expected = mustJSON(r.Expression)
	return nil
}

// grade evaluates the condition. An expression that fails on what the agent
// left behind does not hold. A run without the turn that is asked for, or
// without any, did not show what it should have.
func (c *condition) grade(s *extract.Source) verdict {
	if turns := s.Trajectory.Turns(); turns == 0 || turns < c.atTurn {
		return unusable(CodeNothingFound, "the run has %d turns, too few to look at", turns)
	}
	var v verdict
	budget := extract.NewBudget() // for all turns
	problem, err := s.EachTurn(func(turn int, vars map[string]any) bool {
		if c.atTurn != 0 && turn != c.atTurn {
			return true
		}
		v = c.at(s, turn, vars, budget)
		return v.outcome == Passed && c.atTurn == 0
	})
	switch {
	case err != nil:
		return unscored("%v", err)
	case problem != "":
		return unusable(CodeTooLarge, "%s", problem)
	case v.outcome == Passed && c.atTurn == 0:
		return passed("it holds at the end of each of %d turns", s.Trajectory.Turns())
	}
	return v
}

func (c *condition) at(s *extract.Source, turn int, vars map[string]any, budget *expression.Budget) verdict {
	result, err := s.Evaluate(c.program, vars, budget)
	if refusal.Is(err, refusal.NotFound) || s.Stopped() {
		return unscored("at the end of turn %d: %v", turn, err)
	}
	if err != nil {
		return unusable(CodeConditionFails, "at the end of turn %d it failed: %s", turn, quoted(err.Error()))
	}
	switch result {
	case true:
		return passed("it holds at the end of turn %d", turn)
	case false:
		return mismatch("it does not hold at the end of turn %d", turn)
	}
	return unusable(CodeConditionFails, "at the end of turn %d it gave something else than true or false", turn)
}
