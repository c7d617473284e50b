package scorecard

import (
	"tallystick/internal/read/history"
	"tallystick/internal/record/cost"
	"tallystick/internal/record/plain"
)

// A UserCost is what simulated users took, apart from what the agent spent.
type UserCost struct {
	Tasks    int   `json:"tasks"` // that had one
	MicroUSD int64 `json:"cost_microdollars"`
	Unpriced int64 `json:"unpriced_calls,omitempty"` // whose cost is not in it
	Tokens   int64 `json:"tokens"`
}

// plus adds the user of a task, which may have had none.
func (c *UserCost) plus(u *history.User) *UserCost {
	if u == nil {
		return c
	}
	if c == nil {
		c = &UserCost{}
	}
	c.Tasks++
	c.MicroUSD, c.Unpriced, c.Tokens = Sum(c.MicroUSD, u.CostMicroUSD), c.Unpriced+u.Unpriced, Sum(c.Tokens, u.Tokens)
	return c
}

func (c *UserCost) String() string {
	return (cost.Cost{MicroUSD: c.MicroUSD, Unpriced: c.Unpriced}).String() + " and " + plain.Plural(int(c.Tokens), "token") + " for the simulated users of " + plain.Plural(c.Tasks, "task") + ", not in the cost above"
}
