package cassette

import (
	"bytes"
	"slices"

	"tallystick/internal/run/wire"
)

// A Purpose says who made a recorded call. The agent's calls have none.
type Purpose string

// ForJudge marks the calls of the models that judged the case or gave the vectors
// that it is graded by. What they hold,
// the expected answer above all, is not for the agent.
const ForJudge Purpose = "judge"

// JudgeMark stands in every request of a judge, in front of the answer under
// judgement. By it the judge's calls are known in cassettes that are older than
// their purpose, or written by hand.
const JudgeMark = "=====tally-answer:"

// forJudge lists, for each interaction, whether it is the judge's. A cassette
// that marks a purpose anywhere is believed; in one that does not, a model call
// with a [JudgeMark] is the judge's, and so is one for vectors.
func (c *Cassette) forJudge() []bool {
	marked := slices.ContainsFunc(c.Interactions, func(it Interaction) bool { return it.Purpose != "" })
	judged := make([]bool, len(c.Interactions))
	for i := range c.Interactions {
		it := &c.Interactions[i]
		judged[i] = it.Purpose == ForJudge || !marked && it.Model != nil && (it.Model.API == wire.Embeddings || bytes.Contains(it.Model.Request, []byte(JudgeMark)))
	}
	return judged
}

// AgentModels lists the models that the agent's calls name, sorted.
func (c *Cassette) AgentModels() []string {
	models := []string{}
	for i, judged := range c.forJudge() {
		if m := c.Interactions[i].Model; m != nil && !judged {
			models = append(models, m.modelName())
		}
	}
	slices.Sort(models)
	return slices.DeleteFunc(slices.Compact(models), func(name string) bool { return name == "" })
}
