package scorecard

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"tallystick/internal/run/vantage"
)

// A Count is a number that may not be known, which is null in JSON and never 0.
type Count struct {
	N       int64 // of what was seen
	Unknown bool
}

// MarshalJSON gives the number, or null.
func (c Count) MarshalJSON() ([]byte, error) {
	if c.Unknown {
		return []byte("null"), nil
	}
	return strconv.AppendInt(nil, c.N, 10), nil
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (c *Count) UnmarshalJSON(data []byte) error {
	*c = Count{Unknown: string(data) == "null"}
	if c.Unknown {
		return nil
	}
	return json.Unmarshal(data, &c.N)
}

// String is the number, or that it was not seen.
func (c Count) String() string {
	switch {
	case c.Unknown && c.N > 0:
		return fmt.Sprintf("at least %d (not all seen)", c.N)
	case c.Unknown:
		return "not seen"
	}
	return strconv.FormatInt(c.N, 10)
}

// cell is a number for a table: empty if it is not known.
func (c Count) cell() string {
	if c.Unknown {
		return ""
	}
	return strconv.FormatInt(c.N, 10)
}

func (c Count) value() *float64 {
	if c.Unknown {
		return nil
	}
	v := float64(c.N)
	return &v
}

// A NotSeen is a total that the vantage of some tasks does not show.
type NotSeen struct {
	Total  string `json:"total"`
	Tasks  int    `json:"tasks"`
	Reason string `json:"reason"`
}

// hide makes unknown what the vantage of some tasks does not show, by the table of
// package vantage. Of what shows in part the total is what was seen; but of violations
// and rollbacks, by which an agent is trusted, none that was seen is not none, for gates
// and promotion either.
func (t *Totals) hide(tasks map[vantage.Vantage]int) {
	for _, name := range vantage.Names(vantage.Total) {
		most := vantage.Not
		if name == "policy_violations" || name == "rollback_count" || name == "rollback_correctness" {
			most = vantage.Partly
		}
		if n := Unseen(vantage.Total, name, tasks, most); n != nil {
			t.NotSeen = append(t.NotSeen, *n)
			t.forget(name)
		}
	}
}

// forget makes one total unknown. Cost and tool calls say themselves of how many
// tasks they are not known.
func (t *Totals) forget(name string) {
	switch name {
	case "policy_violations":
		t.PolicyViolations.Unknown = true
	case "rollback_count":
		t.RollbackCount.Unknown = true
	case "rollback_correctness":
		t.RollbackCorrectness = nil
	case "total_tokens":
		t.TotalTokens.Unknown = true
	case "tokens_per_solve":
		t.TokensPerSolve.Unknown = true
	case "total_retries":
		t.TotalRetries.Unknown = true
	}
}

// Unseen says of how many tasks, which are counted by their vantage, a name shows no
// more than a sight, and why; nil if there is none.
func Unseen(k vantage.Kind, name string, tasks map[vantage.Vantage]int, most vantage.Sight) *NotSeen {
	var found *NotSeen
	for _, v := range slices.Sorted(maps.Keys(tasks)) {
		sight := v.SeesName(k, name)
		if sight.Sight > most {
			continue
		}
		if found == nil {
			found = &NotSeen{Total: name, Reason: sight.Why}
		}
		found.Tasks += tasks[v]
	}
	return found
}

func (t *Totals) rollbackText() string {
	if t.RollbackCorrectness == nil {
		return "not seen"
	}
	return short(*t.RollbackCorrectness)
}
